"""Translators: tokenizer, preprocessor, and the task that is trained by `fit` and translates text."""

from keras_attn_zoo.support.extras import require, require_backend

require("keras_hub", "sentencepiece", user=__name__, backend=True)
require_backend(hub=True)

from keras_attn_zoo.data.hypothesis import Hypothesis
from keras_attn_zoo.translators.constraints import Constraints
from keras_attn_zoo.translators.marian import MarianTokenizer
from keras_attn_zoo.translators.preprocessor import TranslationPreprocessor
from keras_attn_zoo.translators.tokenizer import TranslationTokenizer
from keras_attn_zoo.translators.transformer_translator import (
    TransformerPreprocessor,
    TransformerTokenizer,
    TransformerTranslator,
)
from keras_attn_zoo.translators.translations import ForcedDecoding, ScoredTranslation
from keras_attn_zoo.translators.translator import Translator

__all__ = [
    "Constraints",
    "ForcedDecoding",
    "Hypothesis",
    "MarianTokenizer",
    "ScoredTranslation",
    "TransformerPreprocessor",
    "TransformerTokenizer",
    "TransformerTranslator",
    "TranslationPreprocessor",
    "TranslationTokenizer",
    "Translator",
]
