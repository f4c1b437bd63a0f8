"""Time and peak memory of every attention layer, as ratios to Keras' own multi-head attention in the same run.

Cross-attention gets a value mask, decoder self-attention a causal mask, and Keras' layer gets the same. Compilation is
not counted. The layer and Keras' run alternately, and their medians are compared.

  KERAS_BACKEND=jax python benchmarks/layers.py
  KERAS_BACKEND=torch python benchmarks/layers.py --layers previous_context average --lengths 30
  KERAS_BACKEND=jax python benchmarks/layers.py --layers multi_head luong_dot/entmax15    # a normaliser of its own
  python benchmarks/layers.py --read jax.jsonl tensorflow.jsonl torch.jsonl
"""

import argparse
import json
import pathlib
import statistics

import keras
import numpy as np
from measure import BACKEND, Call, side_by_side

from keras_attn_zoo.cli.options import add_precision_argument
from keras_attn_zoo.layers import ATTENTIONS, get_attention
from keras_attn_zoo.layers.base.normalizers import NORMALIZERS
from keras_attn_zoo.runs.precision import policy, resolve
from keras_attn_zoo.studies.tabular import markdown_table

LAYERS = [*ATTENTIONS, "multi_head/sparsemax", "multi_head/entmax15"]


def layers_of(place, names, length, options):
    """Keras' layer, and ours by name, built."""
    dtype = policy(options.precision)
    sizes = {"width": options.width, "num_heads": options.heads, "max_length": length, "place": place, "dtype": dtype}
    keras_layer = keras.layers.MultiHeadAttention(options.heads, options.width // options.heads, dtype=dtype)
    shape = (options.batch, length, options.width)
    keras_layer.build(shape, shape)
    found = {}
    for name in names:
        mechanism, _, normalizer = name.partition("/")
        if place in ATTENTIONS[mechanism].places:
            found[name] = get_attention(mechanism, **sizes, **({"normalizer": normalizer} if normalizer else {}))
            found[name].build(*([shape] if found[name].attends_to == "itself" else [shape, shape]))
    return keras_layer, found


def layer_name(text):
    """A mechanism, or one and a normaliser."""
    mechanism, _, normalizer = text.partition("/")
    if mechanism not in ATTENTIONS:
        raise argparse.ArgumentTypeError(f"{mechanism!r} is not one of {', '.join(ATTENTIONS)}")
    if normalizer not in ("", *NORMALIZERS):
        raise argparse.ArgumentTypeError(f"{normalizer!r} is not one of {', '.join(NORMALIZERS)}")
    return text


def inputs_of(place, length, options):
    """Inputs of a call; a tenth of the positions of a sentence is padding."""
    rng = np.random.default_rng(0)
    shape = (options.batch, length, options.width)
    query, value = (keras.ops.cast(rng.normal(size=shape), options.precision) for _ in range(2))
    if place == "decoder":
        return {"query": query}
    mask = np.arange(length)[None] < np.where(np.arange(options.batch) % 2, length, max(1, length * 9 // 10))[:, None]
    return {"query": query, "value": value, "value_mask": mask}


def call(layer, inputs):
    """Call a layer; without a value it is causal self-attention."""
    if "value" in inputs:
        return layer(**inputs)
    query = inputs["query"]
    if isinstance(layer, keras.layers.MultiHeadAttention):
        return layer(query, query, use_causal_mask=True)
    return layer(query, use_causal_mask=True)


def weighed(inputs):
    """`call` times random numbers: a plain sum's gradient of ones would be simplified away."""
    numbers = np.random.default_rng(1).normal(size=inputs["query"].shape)
    numbers = keras.ops.cast(numbers, inputs["query"].dtype)
    return lambda layer, inputs: call(layer, inputs) * numbers


def measure(options):
    """Yield one result per layer, length and direction, memory first."""
    for place, length, keras_layer, layers, inputs in cases(options):
        baseline = Call(keras_layer, inputs, weighed(inputs), backward=True).peak_bytes()
        for name, layer in layers.items():
            yield {
                "what": "memory",
                "place": place,
                "layer": name,
                "length": length,
                "keras_mebibytes": baseline / 2**20,
                "mebibytes": Call(layer, inputs, weighed(inputs), backward=True).peak_bytes() / 2**20,
            }
    for place, length, keras_layer, layers, inputs in cases(options):
        for what, function, backward in (("forward", call, False), ("gradient", weighed(inputs), True)):
            baseline = Call(keras_layer, inputs, function, backward)
            for name, layer in layers.items():
                seconds = side_by_side([baseline, Call(layer, inputs, function, backward)], options.seconds)
                yield {
                    "what": what,
                    "place": place,
                    "layer": name,
                    "length": length,
                    "keras_milliseconds": 1e3 * seconds[0],
                    "milliseconds": 1e3 * seconds[1],
                    "time": seconds[1] / seconds[0],
                }


def cases(options):
    """Yield place and length, Keras' layer, ours by name, and their inputs."""
    for place in options.places:
        for length in options.lengths:
            yield place, length, *layers_of(place, options.layers, length, options), inputs_of(place, length, options)


TABLES = {
    "Forward": ("forward", "keras_milliseconds", "time"),
    "Forward and backward": ("gradient", "keras_milliseconds", "time"),
    "Peak memory of forward and backward, MiB": ("memory", "keras_mebibytes", "mebibytes"),
}


def column(result):
    """The backend, and the precision unless it is the usual one, which earlier results do not name."""
    precision = result.get("precision", "float32")
    return result["backend"] if precision == "float32" else f"{result['backend']}, {precision},"


def tables(results):
    """Tables by backend and length: times as ratios to Keras' layer, its own in milliseconds, and memory."""
    found = {(column(r), r["length"], r["place"], r["layer"], r["what"]): r for r in results}
    columns = list(dict.fromkeys((column(r), r["length"]) for r in results))
    texts = []
    for title, (what, of_keras, shown) in TABLES.items():
        rows = []
        for place in dict.fromkeys(r["place"] for r in results):
            names = list(dict.fromkeys(r["layer"] for r in results if r["place"] == place))
            # Keras' layer was measured beside each of ours: their median.
            keras_row = [
                statistics.median(r[of_keras] for key, r in found.items() if key[:3] == (*c, place) and key[4] == what)
                for c in columns
            ]
            rows.append([f"{place}: Keras", *(f"{x:.0f}" for x in keras_row)])
            digits = 2 if shown == "time" else 0
            for name in names:
                cells = [found.get((*c, place, name, what)) for c in columns]
                rows.append([f"`{name}`", *("–" if r is None else f"{r[shown]:.{digits}f}" for r in cells)])
        header = ["layer", *(f"{backend} {length}" for backend, length in columns)]
        texts.append(f"{title}\n\n{markdown_table(header, rows)}")
    return "\n\n".join(texts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", nargs="+", default=LAYERS, type=layer_name, metavar="NAME[/NORMALIZER]")
    parser.add_argument("--places", nargs="+", default=["cross", "decoder"], choices=["cross", "encoder", "decoder"])
    parser.add_argument("--lengths", type=int, nargs="+", default=[16, 30, 64, 128])
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=1.0, help="minimum time per measurement")
    parser.add_argument("--output", help="also append the results to this file, as lines of JSON")
    parser.add_argument("--read", nargs="+", help="print tables of earlier results without measuring")
    add_precision_argument(parser, "auto")
    options = parser.parse_args()
    if options.read:
        lines = [line for path in options.read for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines()]
        print(tables([json.loads(line) for line in lines]))
        return
    options.precision = resolve(options.precision)
    results = []
    for result in measure(options):
        result = {"backend": BACKEND, "precision": options.precision, **result}
        results.append(result)
        found = (
            f"{result['mebibytes']:.0f} MiB"
            if result["what"] == "memory"
            else f"{result['time']:.2f} of {result['keras_milliseconds']:.2f} ms"
        )
        print(f"{result['place']} {result['layer']}, length {result['length']}, {result['what']}: {found}", flush=True)
        if options.output:
            with open(options.output, "a") as file:
                file.write(json.dumps(result) + "\n")
    sizes = f"batch {options.batch}, width {options.width}, {options.heads} heads"
    print(f"\n{BACKEND}, {options.precision}, {sizes}\n")
    print(tables(results))


if __name__ == "__main__":
    main()
