"""Marian models in the format of Transformers: opened as translators, and written."""

from keras_attn_zoo.models.marian.opening import open_marian
from keras_attn_zoo.models.marian.tokenizer import MarianTokenizer

__all__ = ["MarianTokenizer", "open_marian"]
