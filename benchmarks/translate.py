"""Translation speed of the translators: target tokens per second by batch and beams, without compilation.

Random weights and ids. Every sentence is as long as `--length`, on both sides, and no hypothesis ends earlier. Speeds
are also given relative to the first system's. The systems are measured in turn, so that a slow spell of the machine
affects all of them.

  KERAS_BACKEND=jax python benchmarks/translate.py --systems transformer ran-all transformer-average
  KERAS_BACKEND=torch python benchmarks/translate.py --systems transformer --batch 32 --beams 1 4 --set width=256
"""

import argparse
import statistics
import time

import keras
import numpy as np
from train import add_output_argument, built, system_of, write_figures

from keras_attn_zoo.cli.options import add_override_argument, add_precision_argument
from keras_attn_zoo.decoding import BeamSearch
from keras_attn_zoo.runs.named_systems import SYSTEMS
from keras_attn_zoo.studies.tabular import markdown_table


def compiled_search(model, batch, beams, options):
    """Return a function that searches once and returns its seconds, and the seconds that compiling it took."""
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

    def measure():
        began = time.perf_counter()
        found = search(inputs, stop_token_ids=None)
        keras.ops.convert_to_numpy(found["decoder_token_ids"])
        return time.perf_counter() - began

    first = measure()
    return measure, max(0.0, first - measure())


def main():
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", nargs="+", default=list(SYSTEMS), choices=list(SYSTEMS), metavar="NAME")
    parser.add_argument("--batch", type=int, nargs="+", default=[32, 100])
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 4, 12])
    parser.add_argument("--length", type=int, default=30)
    parser.add_argument("--vocabulary", type=int, default=8000)
    parser.add_argument("--repeats", type=int, default=5)
    add_output_argument(parser)
    add_precision_argument(parser, "auto")
    add_override_argument(parser)
    options = parser.parse_args()
    columns = [(batch, beams) for batch in options.batch for beams in options.beams]
    models, precisions = {}, {}
    for name in options.systems:
        system = system_of(name, options)
        models[name], precisions[name] = built(system, options), system.precision
    cells, compilation = {name: [] for name in models}, dict.fromkeys(models, 0.0)
    for batch, beams in columns:
        searches, seconds = {}, {name: [] for name in models}
        for name, model in models.items():
            searches[name], compiling = compiled_search(model, batch, beams, options)
            compilation[name] += compiling
        for _ in range(options.repeats):
            for name, search in searches.items():
                seconds[name].append(search())
        speeds = {name: batch * options.length / statistics.median(one) for name, one in seconds.items()}
        for name, speed in speeds.items():
            cells[name].append(f"{speed:.0f} ({speed / speeds[options.systems[0]]:.2f})")
            print(f"{name}, batch {batch}, {beams} beams: {cells[name][-1]} tokens/s", flush=True)
            of_search = {"batch": batch, "beams": beams, "seconds": statistics.median(seconds[name])}
            ratio = speeds[options.systems[0]] / speed
            write_figures(options, job="search", system=name, precision=precisions[name], **of_search, ratio=ratio)
    rows = [[name, *cells[name], f"{compilation[name]:.0f}", precisions[name]] for name in models]
    print(f"\n{keras.config.backend()}, {options.length} tokens, V {options.vocabulary}; target tokens/s (relative)\n")
    headings = (f"{batch} / {beams}" for batch, beams in columns)
    print(markdown_table(["system", *headings, "compilation s", "precision"], rows))


if __name__ == "__main__":
    main()
