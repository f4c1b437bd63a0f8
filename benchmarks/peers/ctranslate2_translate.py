"""Translate a file with CTranslate2, as its users would: `MODEL INPUT OUTPUT BEAMS TYPE`.

MODEL is a folder that `ctranslate2_model.py` wrote.
"""

import os
import sys

import ctranslate2
from plain_weights import translate_file


def main(model, read, write, beams, compute_type):
    threads = int(os.environ["OMP_NUM_THREADS"])
    # Batches at once, each with one thread: the faster of its two ways, above all on an Intel Xeon.
    translator = ctranslate2.Translator(model, compute_type=compute_type, intra_threads=1, inter_threads=threads)
    # Sorted by length, in batches of 128 hypotheses, as `attn-zoo translate` does by default.
    options = {"beam_size": int(beams), "length_penalty": 0, "max_batch_size": 128 // int(beams)}

    def translate(sources):
        return [one.hypotheses[0] for one in translator.translate_batch(sources, **options)]

    translate_file(model, read, write, translate)


if __name__ == "__main__":
    main(*sys.argv[1:])
