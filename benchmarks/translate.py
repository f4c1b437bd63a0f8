"""Translation speed of the translators: target tokens a second by batch and beams, compilation apart.

Random weights and ids; every sentence is as long as `--length`, on both sides, and no hypothesis ends before. Speeds
are given relative to the first system's too.

  KERAS_BACKEND=jax python benchmarks/translate.py --systems transformer ran-all transformer-average
  KERAS_BACKEND=torch python benchmarks/translate.py --systems transformer --batch 32 --beams 1 4 --set width=256
"""

import argparse
import statistics
import time

import keras
import numpy as np

from keras_attn_zoo.cli import add_override_argument
from keras_attn_zoo.decoding import BeamSearch
from keras_attn_zoo.experiments.run import BODIES
from keras_attn_zoo.experiments.systems import SYSTEMS
from keras_attn_zoo.experiments.table import markdown_table
from keras_attn_zoo.models import Translator


def measure(model, batch, beams, options):
    """Return the seconds of the first search, and the median of the others."""
    rng = np.random.default_rng(0)
    shape = (batch, options.length)
    prompt = np.zeros((batch, options.length + 1), "int32")
    prompt[:, 0] = 2
    inputs = {
        "encoder_token_ids": rng.integers(4, options.vocabulary, shape).astype("int32"),
        "encoder_padding_mask": np.ones(shape, "bool"),
        "decoder_token_ids": prompt,
        "decoder_padding_mask": prompt > 0,
    }
    model.compile(sampler=BeamSearch(beams, length_penalty=0.6))
    search = model.make_generate_function()
    seconds = []
    for _ in range(options.repeats + 1):
        began = time.perf_counter()
        found = search(inputs, stop_token_ids=None)
        keras.ops.convert_to_numpy(found["decoder_token_ids"])
        seconds.append(time.perf_counter() - began)
    return seconds[0], statistics.median(seconds[1:])


def main():
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", nargs="+", default=list(SYSTEMS), choices=list(SYSTEMS), metavar="NAME")
    parser.add_argument("--batch", type=int, nargs="+", default=[32, 100])
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 4, 12])
    parser.add_argument("--length", type=int, default=30)
    parser.add_argument("--vocabulary", type=int, default=8000)
    parser.add_argument("--repeats", type=int, default=3)
    add_override_argument(parser)
    options = parser.parse_args()
    columns = [(batch, beams) for batch in options.batch for beams in options.beams]
    rows, baseline = [], {}
    for name in options.systems:
        system = SYSTEMS[name].override(**options.set)
        model = Translator(BODIES[system.body](options.vocabulary, options.vocabulary, **system.backbone))
        cells, compilation = [], 0.0
        for batch, beams in columns:
            first, seconds = measure(model, batch, beams, options)
            speed = batch * options.length / seconds
            compilation += max(0.0, first - seconds)
            relative = speed / baseline.setdefault((batch, beams), speed)
            cells.append(f"{speed:.0f} ({relative:.2f})")
            print(f"{name}, batch {batch}, {beams} beams: {speed:.0f} tokens/s ({relative:.2f})", flush=True)
        rows.append([name, *cells, f"{compilation:.0f}"])
    print(f"\n{keras.config.backend()}, {options.length} tokens, V {options.vocabulary}; target tokens/s (relative)\n")
    print(markdown_table(["system", *(f"{batch} / {beams}" for batch, beams in columns), "compilation s"], rows))


if __name__ == "__main__":
    main()
