"""Real and made text: corpora, subwords, cached token ids, batches.

The names below are imported on first use, so that reading a corpus needs
neither Keras nor SentencePiece.
"""

import importlib

# The first four ids of every vocabulary.
PAD, UNKNOWN, START, END = range(4)

_HOMES = {
    "corpus": (
        "Filter",
        "FilterReport",
        "ParallelFiles",
        "Splits",
        "TSVFile",
        "filter_pairs",
        "normalise",
        "random_split",
        "read_lines",
        "read_windows",
        "word_count",
    ),
    "synthetic": ("SyntheticPair", "generate_corpus", "generate_splits", "split_words", "write_corpus"),
    "subwords": ("Subwords", "train_subword_pair", "train_subwords"),
    "cache": ("EncodedCorpus", "build_cache"),
    "batches": (
        "TranslationBatches",
        "as_fit_input",
        "choose_bounds",
        "evaluation_batches",
        "fit_arguments",
    ),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = ["END", "PAD", "START", "UNKNOWN", *sorted(_HOME)]


def __getattr__(name):
    if name in _HOME:
        return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
