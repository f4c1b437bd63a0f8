"""Parallel text: files, filters, subwords, cached token ids, batches.

The names below are imported on first use, so that reading a corpus needs
neither Keras nor SentencePiece.
"""

import importlib
from typing import Any

# The first four ids of every vocabulary.
PAD, UNKNOWN, START, END = range(4)

_HOMES = {
    "filters": ("Filter", "FilterReport", "filter_pairs"),
    "splits": ("Splits", "random_split"),
    "text_files": ("ParallelFiles", "TSVFile", "read_lines", "read_windows"),
    "words": ("normalise", "split_words", "word_count"),
    "subwords": ("Subwords", "train_subword_pair", "train_subwords"),
    "cache": ("EncodedCorpus", "build_cache"),
    "encoded_text": ("EncodedText",),
    "truncation": ("Truncation",),
    "batches": (
        "TranslationBatches",
        "as_fit_input",
        "evaluation_batches",
        "fit_arguments",
    ),
    "shapes": ("choose_bounds",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = ["END", "PAD", "START", "UNKNOWN", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
