"""Marian models in the format of Transformers: opened as translators, and written."""

from keras_attn_zoo.models.marian.export import export_to_transformers
from keras_attn_zoo.models.marian.opening import open_marian
from keras_attn_zoo.models.marian.tokenizer import MarianTokenizer

__all__ = ["MarianTokenizer", "export_to_transformers", "open_marian"]
