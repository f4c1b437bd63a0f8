"""Translate a file with CTranslate2, as its users would: `MODEL INPUT OUTPUT BEAMS TYPE`.

MODEL is a folder that `ctranslate2_model.py` wrote.
"""

import os
import sys
from pathlib import Path

import ctranslate2
import sentencepiece


def main(model, read, write, beams, compute_type):
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(Path(model) / "subwords.model"))
    threads = int(os.environ["OMP_NUM_THREADS"])
    translator = ctranslate2.Translator(model, compute_type=compute_type, intra_threads=threads)
    lines = Path(read).read_text(encoding="utf-8").splitlines()
    sources = [pieces.encode(line, out_type=str) for line in lines]
    # Sorted by length, in batches of 32, as `attn-zoo translate` does by default.
    options = {"beam_size": int(beams), "length_penalty": 0, "max_batch_size": 32}
    found = translator.translate_batch(sources, **options)
    translations = [pieces.decode(one.hypotheses[0]) for one in found]
    Path(write).write_text("".join(f"{line}\n" for line in translations), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
