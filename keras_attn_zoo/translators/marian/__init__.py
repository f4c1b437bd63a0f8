"""Marian models in the format of Transformers: opened as translators, and written."""

from keras_attn_zoo.translators.marian.marian_export import export_to_transformers
from keras_attn_zoo.translators.marian.marian_tokenizer import MarianTokenizer
from keras_attn_zoo.translators.marian.opening import open_marian

__all__ = ["MarianTokenizer", "export_to_transformers", "open_marian"]
