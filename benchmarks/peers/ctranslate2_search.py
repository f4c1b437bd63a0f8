"""CTranslate2 as a contender: the search of a Transformer with random weights.

On a CPU, the faster of its two ways to use several threads: one batch after the other, with all threads, or parts of
the batch at once, with a thread each.
"""

import os
import sys
import tempfile
import time

import numpy as np
from protocol import optional, random_batch, serve

ctranslate2 = optional("ctranslate2")
from ctranslate2.specs import TransformerSpec  # noqa: E402

PRECISION, DEVICE, _ = sys.argv[1:]


def _fill(spec, shapes, rng):
    """Draw all weights of a part: kernels `(outputs, inputs)`, as small as trained ones."""
    for name, (outputs, inputs) in shapes.items():
        part = spec
        for step in name.split("."):
            part = part[int(step)] if step.isdigit() else getattr(part, step)
        part.weight = rng.normal(0, inputs**-0.5, (outputs, inputs)).astype("float32")
        if hasattr(part, "bias"):
            part.bias = np.zeros(outputs, "float32")


def _specification(task):
    """A Transformer as in the task, normalised after every part."""
    settings, vocabulary, rng = task["settings"], task["vocabulary"], np.random.default_rng(0)
    width, ffn = settings["width"], settings["ffn_dim"]
    layers = settings["encoder_layers"], settings["decoder_layers"]
    spec = TransformerSpec.from_config(layers, settings["num_heads"], pre_norm=False)
    # The outermost weights.
    spec.encoder.embeddings[0].weight = rng.normal(0, width**-0.5, (vocabulary, width)).astype("float32")
    spec.decoder.embeddings.weight = rng.normal(0, width**-0.5, (vocabulary, width)).astype("float32")
    _fill(spec.decoder, {"projection": (vocabulary, width)}, rng)
    attention = {"linear.0": (3 * width, width), "linear.1": (width, width)}
    of_source = {"linear.0": (width, width), "linear.1": (2 * width, width), "linear.2": (width, width)}
    network = {"ffn.linear_0": (ffn, width), "ffn.linear_1": (width, ffn)}
    for side in (spec.encoder, spec.decoder):
        for layer in side.layer:
            shapes = {f"self_attention.{name}": shape for name, shape in attention.items()} | network
            norms = [layer.self_attention.layer_norm, layer.ffn.layer_norm]
            if side is spec.decoder:
                shapes |= {f"attention.{name}": shape for name, shape in of_source.items()}
                norms.append(layer.attention.layer_norm)
            _fill(layer, shapes, rng)
            for norm in norms:
                norm.gamma, norm.beta = np.ones(width, "float32"), np.zeros(width, "float32")
    tokens = ["<unk>", "<s>", "</s>", *(f"t{i}" for i in range(3, vocabulary))]
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    return spec


def _prepare(task):
    if "beams" not in task or task["system"] != "transformer":
        raise NotImplementedError("CTranslate2 only searches, with Transformers")
    length, (source, *_) = task["length"], random_batch(task)
    with tempfile.TemporaryDirectory() as folder:
        spec = _specification(task)
        spec.validate()
        spec.save(folder)
        threads = int(os.environ["OMP_NUM_THREADS"])
        ways = {1: {"intra_threads": threads}}
        if DEVICE == "cpu" and threads > 1:
            ways[threads] = {"intra_threads": 1, "inter_threads": threads}
        translators = {
            parts: ctranslate2.Translator(folder, DEVICE, compute_type=PRECISION, **way) for parts, way in ways.items()
        }
    sources = [[f"t{i}" for i in row] for row in source]
    options = {"beam_size": task["beams"], "min_decoding_length": length, "max_decoding_length": length}

    def run(parts):
        rows = -(-len(sources) // parts)
        found = translators[parts].translate_batch(sources, max_batch_size=rows, **options)
        assert all(len(one.hypotheses[0]) == length for one in found)

    def seconds(parts):
        run(parts)
        began = time.perf_counter()
        run(parts)
        return time.perf_counter() - began

    fastest = min(ways, key=seconds)
    return lambda: run(fastest), None


if __name__ == "__main__":
    serve(_prepare, f"CTranslate2 {ctranslate2.__version__}, {PRECISION}")
