"""Seconds of a page that translates in the browser: from choosing a model to its first translation, then a sentence.

Chromium opens the page anew for each model, with an empty cache. A server on this machine stands in for the network.

  attn-zoo explore transformer_tatoeba_de_en bahdanau_tatoeba_de_en --live --output live
  python benchmarks/live_page.py live --repeats 5
"""

import argparse
import contextlib
import json
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from keras_attn_zoo.studies.tabular import markdown_table
from tests.viewing.chromium import Browser, executable
from tests.viewing.live_records import choose, translate
from tests.viewing.static_site import site

FIRST = "Guten Morgen."
NAMES = "JSON.stringify(explorer.live.given.models.map(({name}) => name))"


def run(address, model, sentence):
    """Return the seconds from the choice of a model to its first translation, and those of a sentence after it."""
    with contextlib.closing(Browser()) as browser:
        browser.open(address)
        seconds, began = [], time.perf_counter()
        choose(browser, model)
        for text in (FIRST, sentence):
            if message := translate(browser, text):
                raise SystemExit(f"{model}: {message}")
            seconds.append(time.perf_counter() - began)
            began = time.perf_counter()
        return seconds


def models_of(address):
    """Return the models that a page offers."""
    with contextlib.closing(Browser()) as browser:
        browser.open(address)
        return json.loads(browser.run(NAMES))


def main():
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="what `attn-zoo explore --live` or `attn-zoo site` wrote")
    parser.add_argument("--sentence", default="Ich habe gestern im Park einen sehr alten Freund getroffen.")
    parser.add_argument("--repeats", type=int, default=3, choices=range(1, 100), metavar="N")
    options = parser.parse_args()
    if executable() is None:
        parser.error("this needs Chromium: install it, or name it in CHROMIUM.")
    rows = []
    with site(options.folder) as address:
        address += "live/" * (options.folder / "live").is_dir()
        for model in models_of(address):
            runs = [run(address, model, options.sentence) for _ in range(options.repeats)]
            rows.append([model, *(f"{statistics.median(one):.2f}" for one in zip(*runs, strict=True))])
            print(*rows[-1], flush=True)
    print(f"\n{len(options.sentence.split())} words: {options.sentence}\n")
    print(markdown_table(["model", "first translation s", "sentence s"], rows))


if __name__ == "__main__":
    main()
