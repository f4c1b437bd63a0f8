"""Memory of a process over many calls of a translator: sentences of all lengths, all methods in turn.

A compiled backend keeps a program for each shape of its arguments and drops those used least recently, so the curve
must become level.

  KERAS_BACKEND=jax python benchmarks/memory.py --calls 2000
"""

import argparse
import random
import resource
import time
from pathlib import Path

import keras

import keras_attn_zoo as kaz
from keras_attn_zoo.studies.tabular import markdown_table

PRESET = Path(__file__).resolve().parent.parent / "presets" / "transformer_tatoeba_de_en"
WORDS = ("ich", "habe", "gestern", "im", "Park", "einen", "alten", "Freund", "getroffen", "und", "lange", "gelacht")
CALLS = {
    "translate": lambda translator, source, target: translator.translate([source]),
    "generate": lambda translator, source, target: translator.generate([source]),
    "score": lambda translator, source, target: translator.score([source], [target]),
    "force": lambda translator, source, target: translator.force([source], [target]),
    "explore": lambda translator, source, target: translator.explore([source], [target]),
}


def resident():
    """MiB that the process occupies."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def main():
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default=str(PRESET))
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--every", type=int, default=200, help="calls between two rows")
    parser.add_argument("--words", type=int, default=50, help="most words of a sentence")
    parser.add_argument("--methods", nargs="+", default=list(CALLS), choices=list(CALLS))
    options = parser.parse_args()
    translator = kaz.Translator.from_preset(options.preset)
    rng, rows, began = random.Random(0), [[0, f"{resident():.0f}", "0"]], time.perf_counter()

    def sentence():
        return " ".join(rng.choices(WORDS, k=rng.randint(1, options.words)))

    for number in range(1, options.calls + 1):
        CALLS[options.methods[number % len(options.methods)]](translator, sentence(), sentence())
        if number % options.every == 0:
            rows.append([number, f"{resident():.0f}", f"{time.perf_counter() - began:.0f}"])
            print(*rows[-1], flush=True)
    print(f"\n{keras.config.backend()}, {Path(options.preset).name}, up to {options.words} words\n")
    print(markdown_table(["calls", "MiB", "s"], rows))


if __name__ == "__main__":
    main()
