"""What the scripts of peers share: reading what `preset_weights.py` wrote, and translating the lines of a file."""

import json
import shutil
from pathlib import Path

import numpy as np
import sentencepiece

# Positions that the peers are given.
LONGEST = 512
# Marian knows a model of SentencePiece by this ending.
SUBWORDS = "subwords.spm"


def load(folder):
    """Return the weights by name, the settings, and the subwords in the order of their ids.

    Kernels are `(inputs, outputs)`.
    """
    with np.load(Path(folder) / "weights.npz") as file:
        arrays = dict(file)
    settings = json.loads((Path(folder) / "settings.json").read_text())
    pieces = _pieces(folder)
    return arrays, settings, [pieces.id_to_piece(i) for i in range(len(pieces))]


def begin_model(folder, weights):
    """Make the folder of a peer's model, with the model of subwords."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    shutil.copy(Path(weights) / SUBWORDS, folder)
    return Path(folder)


def translate_file(model, read, write, translate):
    """Translate a file of sentences with a function from lists of subwords to lists of subwords."""
    pieces = _pieces(model)
    lines = Path(read).read_text(encoding="utf-8").splitlines()
    # By way of ids, a piece that is not in the vocabulary becomes the unknown one.
    found = translate([pieces.id_to_piece(pieces.encode(line)) for line in lines])
    Path(write).write_text("".join(f"{pieces.decode(one)}\n" for one in found), encoding="utf-8")


def _pieces(folder):
    return sentencepiece.SentencePieceProcessor(model_file=str(Path(folder) / SUBWORDS))
