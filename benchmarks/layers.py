"""Time and peak memory of every attention layer, as ratios to Keras' own multi-head attention in the same run.

Cross-attention gets a mask of the value, self-attention of a decoder a causal mask; Keras' layer gets the same.
Compilation is left out. The two are run in turn, and the medians compared.

  KERAS_BACKEND=jax python benchmarks/layers.py
  KERAS_BACKEND=torch python benchmarks/layers.py --layers previous_context average --lengths 30
"""

import argparse
import json

import keras
import numpy as np
from measure import BACKEND, Call, side_by_side

from keras_attn_zoo.experiments.table import markdown_table
from keras_attn_zoo.layers import ATTENTIONS, get_attention


def layers_of(place, names, length, options):
    """Keras' layer, and ours by name, built."""
    sizes = {"width": options.width, "num_heads": options.heads, "max_length": length, "place": place}
    keras_layer = keras.layers.MultiHeadAttention(options.heads, options.width // options.heads)
    shape = (options.batch, length, options.width)
    keras_layer.build(shape, shape)
    found = {}
    for name in names:
        if place in ATTENTIONS[name].places:
            found[name] = get_attention(name, **sizes)
            found[name].build(*([shape] if found[name].attends_to == "itself" else [shape, shape]))
    return keras_layer, found


def inputs_of(place, length, options):
    """Inputs of a call; a tenth of the positions of a sentence is padding."""
    rng = np.random.default_rng(0)
    shape = (options.batch, length, options.width)
    query = rng.normal(size=shape).astype("float32")
    if place == "decoder":
        return {"query": query}
    mask = np.arange(length)[None] < np.where(np.arange(options.batch) % 2, length, max(1, length * 9 // 10))[:, None]
    return {"query": query, "value": rng.normal(size=shape).astype("float32"), "value_mask": mask}


def call(layer, inputs):
    """Call a layer; without a value it is causal self-attention."""
    if "value" in inputs:
        return layer(**inputs)
    query = inputs["query"]
    if isinstance(layer, keras.layers.MultiHeadAttention):
        return layer(query, query, use_causal_mask=True)
    return layer(query, use_causal_mask=True)


def measure(options):
    """Yield one result a layer, length and direction."""
    for place in options.places:
        for length in options.lengths:
            keras_layer, layers = layers_of(place, options.layers, length, options)
            inputs = inputs_of(place, length, options)
            for backward in (False, True):
                baseline = Call(keras_layer, inputs, call, backward)
                baseline_bytes = baseline.peak_bytes()
                for name, layer in layers.items():
                    ours = Call(layer, inputs, call, backward)
                    seconds = side_by_side([baseline, ours], options.seconds)
                    yield {
                        "place": place,
                        "layer": name,
                        "length": length,
                        "backward": backward,
                        "keras_milliseconds": 1e3 * seconds[0],
                        "milliseconds": 1e3 * seconds[1],
                        "time": seconds[1] / seconds[0],
                        "keras_mebibytes": baseline_bytes / 2**20,
                        "mebibytes": ours.peak_bytes() / 2**20,
                    }


def table(results, options):
    """Ratios of time by length, forward, then forward and backward; peak memory in MiB beside Keras'."""
    header = ["layer", *(f"→ {n}" for n in options.lengths), *(f"⇄ {n}" for n in options.lengths)]
    header += [f"MiB {n}" for n in options.lengths]
    rows = []
    for place in options.places:
        here = [r for r in results if r["place"] == place]
        by = {(r["layer"], r["backward"], r["length"]): r for r in here}
        if not here:
            continue
        columns = [(b, n) for b in (False, True) for n in options.lengths]
        first = here[0]["layer"]
        times = [f"{by[first, b, n]['keras_milliseconds']:.2f} ms" for b, n in columns]
        memory = [f"{by[first, True, n]['keras_mebibytes']:.0f}" for n in options.lengths]
        rows.append([f"{place}: Keras", *times, *memory])
        for name in dict.fromkeys(r["layer"] for r in here):
            times = [f"{by[name, b, n]['time']:.2f}" for b, n in columns]
            rows.append([f"`{name}`", *times, *(f"{by[name, True, n]['mebibytes']:.0f}" for n in options.lengths)])
    return markdown_table(header, rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", nargs="+", default=list(ATTENTIONS), choices=list(ATTENTIONS), metavar="NAME")
    parser.add_argument("--places", nargs="+", default=["cross", "decoder"], choices=["cross", "encoder", "decoder"])
    parser.add_argument("--lengths", type=int, nargs="+", default=[16, 30, 64, 128])
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=1.0, help="least time given to a measurement")
    parser.add_argument("--output", help="write the results there too, a line of JSON each")
    options = parser.parse_args()
    results = []
    for result in measure(options):
        results.append(result)
        direction = "forward and backward" if result["backward"] else "forward"
        print(
            f"{result['place']} {result['layer']}, length {result['length']}, {direction}: "
            f"{result['time']:.2f} of {result['keras_milliseconds']:.2f} ms, {result['mebibytes']:.0f} MiB",
            flush=True,
        )
        if options.output:
            with open(options.output, "a") as file:
                file.write(json.dumps({"backend": BACKEND, **result}) + "\n")
    print(f"\n{BACKEND}, batch {options.batch}, width {options.width}, {options.heads} heads\n")
    print(table(results, options))


if __name__ == "__main__":
    main()
