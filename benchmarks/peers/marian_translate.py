"""Translate a file with Marian: `MODEL INPUT OUTPUT BEAMS`.

MODEL is a folder that `marian_model.py` wrote. There is no int8: `pymarian` from PyPI has no kernels of intgemm, and
FBGEMM's packing knows the weights of the older type of Transformer alone.
"""

import os
import sys
from pathlib import Path

import pymarian
from plain_weights import LONGEST, SUBWORDS, translate_file

BATCH = 32


def _batches(sources):
    """Return pairs of a place and a source in the order of batches, longest first; the place is None if it only fills.

    In a batch whose width is a multiple of 4, Marian computes the logarithm of the mask with vectors on a CPU, and that
    of 0 is NaN: padded sentences are lost. One more sentence, longer by a subword, avoids such widths where there is
    padding.
    """
    # The end token is a subword more.
    width = [len(one) + 1 for one in sources]
    # Marian returns nothing for empty lines in the end.
    order = sorted((i for i, one in enumerate(sources) if one), key=width.__getitem__, reverse=True)
    found = []
    while order:
        batch = order[:BATCH]
        if width[batch[0]] % 4 == 0 and width[batch[0]] != width[batch[-1]]:
            found.append((None, [*sources[batch[0]], sources[batch[0]][-1]]))
            batch = batch[: BATCH - 1]
        found += [(i, sources[i]) for i in batch]
        order = order[len(batch) :]
    return found


def main(model, read, write, beams):
    subwords = str(Path(model) / SUBWORDS)
    translator = pymarian.Translator(
        models=Path(model) / "model.npz",
        vocabs=[subwords, subwords],
        beam_size=beams,
        normalize=0,
        allow_unk="",
        no_spm_encode="",
        no_spm_decode="",
        max_length=LONGEST,
        mini_batch=BATCH,
        maxi_batch=1,
        cpu_threads=os.environ["OMP_NUM_THREADS"],
        quiet="",
        quiet_translation="",
    )

    def translate(sources):
        batches = _batches(sources)
        found = translator.translate([" ".join(source) for _, source in batches])
        by_place = {place: one.split() for (place, _), one in zip(batches, found, strict=True)}
        return [by_place.get(i, []) for i in range(len(sources))]

    translate_file(model, read, write, translate)


if __name__ == "__main__":
    main(*sys.argv[1:])
