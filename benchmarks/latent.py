"""Time and peak memory of a translator's output layer: one softmax, and mixtures of softmaxes over source positions.

Measures the forward and backward pass of the negative log-likelihood of given targets, as ratios to the plain softmax
in the same run: for the output layer alone, or with `--whole` for a Transformer with six layers per side:

  plain   log softmax of W s_i, as this package computes it
  keras   the same, with `keras.layers.Dense` and Keras' cross-entropy
  exact   the mixture of `LatentAlignmentHead`
  top-6   the six most likely positions, with a softmax for each, as published
  naive   a softmax for every pair of positions

  KERAS_BACKEND=jax python benchmarks/latent.py
  KERAS_BACKEND=torch python benchmarks/latent.py --forms plain exact --vocabulary 32000 --source 50
  KERAS_BACKEND=jax python benchmarks/latent.py --whole --forms plain exact top-6
"""

import argparse
import functools

import keras
import numpy as np
from keras import ops
from measure import BACKEND, Call, side_by_side

from keras_attn_zoo.bodies import TransformerBackbone
from keras_attn_zoo.bodies.backbone import lexicon_inputs
from keras_attn_zoo.cli.options import add_precision_argument
from keras_attn_zoo.layers import LatentAlignmentHead
from keras_attn_zoo.runs.precision import policy, resolve
from keras_attn_zoo.studies.tabular import markdown_table


def plain(head, inputs):
    """The log-likelihood of one softmax of the projected states."""
    logits = ops.cast(head._logits(inputs["states"]), "float32")
    gold = ops.take_along_axis(logits, inputs["targets"][..., None], axis=-1)[..., 0]
    return gold - ops.logsumexp(logits, axis=-1)


def of_keras(dense, inputs):
    """The log-likelihood of one softmax, by Keras' own layer and loss."""
    logits = ops.cast(dense(inputs["states"]), "float32")
    return -keras.losses.sparse_categorical_crossentropy(inputs["targets"], logits, from_logits=True)


def exact(head, inputs):
    """The log-likelihood of the exact mixture."""
    return head(**inputs)["log_probs"]


def naive(head, inputs):
    """The log-likelihood of the mixture, with a softmax for each pair."""
    left, right = head.lexicon(inputs["embedded"], inputs["states"], inputs["encoded"])
    return of_pairs(left[:, :, None] + right[:, None], inputs["prior"], inputs["targets"])


def top_6(head, inputs):
    """The log-likelihood of the six best positions, with a softmax for each, as published."""
    prior, best = ops.top_k(inputs["prior"], k=6)
    batch, target = ops.shape(prior)[:2]
    encoded = inputs["encoded"]
    chosen = ops.take_along_axis(encoded, ops.reshape(ops.cast(best, "int32"), (batch, -1))[..., None], axis=1)
    of_target = head.maps["embedded"](inputs["embedded"]) + head.maps["state"](inputs["states"])
    of_source = ops.reshape(head.maps["encoder"](chosen), (batch, target, 6, -1))
    x = ops.reshape(of_target[:, :, None] + of_source, (batch, target * 6, -1))
    return of_pairs(ops.reshape(head._logits(x), (batch, target, 6, -1)), prior, inputs["targets"])


def of_pairs(logits, prior, targets):
    """log Σ_j p(j) softmax(logits_ij), for one token per position."""
    logits = ops.cast(logits, "float32")
    columns = ops.broadcast_to(targets[:, :, None, None], (*ops.shape(logits)[:3], 1))
    gold = ops.take_along_axis(logits, columns, axis=-1)[..., 0] - ops.logsumexp(logits, axis=-1)
    return ops.logsumexp(gold + ops.log(ops.maximum(prior, 1e-30)), axis=-1)


FORMS = {"plain": plain, "keras": of_keras, "exact": exact, "top-6": top_6, "naive": naive}


def layers_of(vocabulary, source, options):
    """Every form of the output layer, ready to run."""
    rng = np.random.default_rng(0)
    states, dtype = (options.batch, source, options.width), policy(options.precision)
    head = LatentAlignmentHead(vocabulary, options.width, dtype=dtype)
    dense = keras.layers.Dense(vocabulary, dtype=dtype)
    inputs = {
        "prior": rng.dirichlet(np.ones(source), size=states[:2]).astype("float32"),
        **{name: ops.cast(rng.normal(size=states), head.compute_dtype) for name in ("embedded", "states", "encoded")},
        "targets": rng.integers(0, vocabulary, size=states[:2]).astype("int32"),
    }
    head.build(*(x.shape for x in inputs.values()))
    dense.build(states)
    return [Call(dense if form == "keras" else head, inputs, FORMS[form], backward=True) for form in options.forms]


def transformers_of(vocabulary, source, options):
    """A Transformer with every form of output layer, ready to run."""
    rng = np.random.default_rng(0)
    shape = (options.batch, source)
    sizes = (options.width, options.width // 64, 4 * options.width)
    dtype = policy(options.precision)
    body = TransformerBackbone(vocabulary, vocabulary, *sizes, output="latent", dtype=dtype)
    inputs = {
        "encoder_token_ids": rng.integers(4, vocabulary, shape).astype("int32"),
        "encoder_padding_mask": np.ones(shape, "bool"),
        "decoder_token_ids": rng.integers(4, vocabulary, shape).astype("int32"),
        "targets": rng.integers(4, vocabulary, shape).astype("int32"),
    }

    def run(form, body, inputs):
        outputs = body({name: x for name, x in inputs.items() if name != "targets"}, training=True)
        names = ("prior", "embedded", "states", "encoded")
        of_head = dict(zip(names, lexicon_inputs(outputs), strict=True))
        return FORMS[form](body.latent_head, {**of_head, "targets": inputs["targets"]})

    return [Call(body, inputs, functools.partial(run, form), backward=True) for form in options.forms]


def main():
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forms", nargs="+", default=list(FORMS), choices=list(FORMS))
    parser.add_argument("--vocabulary", type=int, nargs="+", default=[8000, 32000])
    parser.add_argument("--source", type=int, nargs="+", default=[25, 50], help="lengths of source and target")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument(
        "--whole", action="store_true", help="measure a whole Transformer instead of only its output layer"
    )
    parser.add_argument("--seconds", type=float, default=2.0, help="minimum time per measurement")
    add_precision_argument(parser, "auto")
    options = parser.parse_args()
    options.precision = resolve(options.precision)
    if options.whole and "keras" in options.forms:
        options.forms.remove("keras")
    calls_of = transformers_of if options.whole else layers_of
    sizes = [(vocabulary, source) for vocabulary in options.vocabulary for source in options.source]
    peaks = [[call.peak_bytes() for call in calls_of(*size, options)] for size in sizes]
    rows = []
    for (vocabulary, source), of_size in zip(sizes, peaks, strict=True):
        seconds = side_by_side(calls_of(vocabulary, source, options), options.seconds)
        ratios = [
            f"{one / seconds[0]:.2f} ({peak / 2**20:.0f} MiB)" for one, peak in zip(seconds, of_size, strict=True)
        ]
        rows.append([f"V {vocabulary}, J {source}", f"{1e3 * seconds[0]:.0f} ms", *ratios, options.precision])
        print(*rows[-1], flush=True)
    print(f"\n{BACKEND}, batch {options.batch}, width {options.width}, forward and backward\n")
    print(markdown_table(["sizes", options.forms[0], *options.forms, "precision"], rows))


if __name__ == "__main__":
    keras.utils.set_random_seed(0)
    main()
