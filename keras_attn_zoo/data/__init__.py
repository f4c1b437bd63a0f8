"""Parallel text: files, filters, subwords, cached token ids, batches.

The names below are imported on first use, so that reading a corpus needs neither Keras nor SentencePiece.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keras_attn_zoo.data.batches import TranslationBatches, as_fit_input, evaluation_batches, fit_arguments
    from keras_attn_zoo.data.cache import EncodedCorpus, build_cache
    from keras_attn_zoo.data.encoded_text import EncodedText
    from keras_attn_zoo.data.filters import Filter, FilterReport, filter_pairs
    from keras_attn_zoo.data.sampled_corpus import SampledCorpus, build_sampled_corpus
    from keras_attn_zoo.data.shapes import choose_bounds
    from keras_attn_zoo.data.splits import Splits, random_split
    from keras_attn_zoo.data.subword_links import SubwordLinks, build_subword_links
    from keras_attn_zoo.data.subwords import Subwords, train_subword_pair, train_subwords
    from keras_attn_zoo.data.text_files import ParallelFiles, TSVFile, read_lines, read_windows
    from keras_attn_zoo.data.truecasing import Truecaser, train_truecaser
    from keras_attn_zoo.data.truncation import Truncation
    from keras_attn_zoo.data.words import has_illegal_characters, normalise, split_words, word_count

# The first four ids of every vocabulary.
PAD, UNKNOWN, START, END = range(4)

_HOMES = {
    "filters": ("Filter", "FilterReport", "filter_pairs"),
    "splits": ("Splits", "random_split"),
    "text_files": ("ParallelFiles", "TSVFile", "read_lines", "read_windows"),
    "truecasing": ("Truecaser", "train_truecaser"),
    "words": ("has_illegal_characters", "normalise", "split_words", "word_count"),
    "subwords": ("Subwords", "train_subword_pair", "train_subwords"),
    "cache": ("EncodedCorpus", "build_cache"),
    "subword_links": ("SubwordLinks", "build_subword_links"),
    "sampled_corpus": ("SampledCorpus", "build_sampled_corpus"),
    "encoded_text": ("EncodedText",),
    "truncation": ("Truncation",),
    "batches": ("TranslationBatches", "as_fit_input", "evaluation_batches", "fit_arguments"),
    "shapes": ("choose_bounds",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = ["END", "PAD", "START", "UNKNOWN", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
