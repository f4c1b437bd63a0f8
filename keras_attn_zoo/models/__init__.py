"""Translators: backbones, tokenizer, preprocessor, task."""

from keras_attn_zoo.extras import require, require_backend

require("keras_hub", "sentencepiece", user=__name__, backend=True)
require_backend(hub=True)

from keras_attn_zoo.models.backbone import TranslationBackbone
from keras_attn_zoo.models.marian import MarianTokenizer
from keras_attn_zoo.models.preprocessor import TranslationPreprocessor
from keras_attn_zoo.models.readout import Readout
from keras_attn_zoo.models.rnn_backbone import RNNBackbone
from keras_attn_zoo.models.rnn_decoder import RNNDecoder
from keras_attn_zoo.models.token_embedding import TokenEmbedding
from keras_attn_zoo.models.tokenizer import TranslationTokenizer
from keras_attn_zoo.models.transformer_backbone import TransformerBackbone
from keras_attn_zoo.models.transformer_layers import TransformerDecoderLayer, TransformerEncoderLayer, TransformerLayer
from keras_attn_zoo.models.transformer_translator import (
    TransformerPreprocessor,
    TransformerTokenizer,
    TransformerTranslator,
)
from keras_attn_zoo.models.translations import ForcedDecoding, Hypothesis, ScoredTranslation
from keras_attn_zoo.models.translator import Translator

__all__ = [
    "ForcedDecoding",
    "Hypothesis",
    "MarianTokenizer",
    "RNNBackbone",
    "RNNDecoder",
    "Readout",
    "ScoredTranslation",
    "TokenEmbedding",
    "TransformerBackbone",
    "TransformerDecoderLayer",
    "TransformerEncoderLayer",
    "TransformerLayer",
    "TransformerPreprocessor",
    "TransformerTokenizer",
    "TransformerTranslator",
    "TranslationBackbone",
    "TranslationPreprocessor",
    "TranslationTokenizer",
    "Translator",
]
