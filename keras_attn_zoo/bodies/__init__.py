"""The bodies of translators: backbones for RNNs and Transformers, and their parts."""

from keras_attn_zoo.support.extras import require, require_backend

require("keras_hub", "sentencepiece", user=__name__, backend=True)
require_backend(hub=True)

from keras_attn_zoo.bodies.backbone import TranslationBackbone
from keras_attn_zoo.bodies.readout import Readout
from keras_attn_zoo.bodies.rnn_backbone import RNNBackbone
from keras_attn_zoo.bodies.rnn_decoder import RNNDecoder
from keras_attn_zoo.bodies.token_embedding import TokenEmbedding
from keras_attn_zoo.bodies.transformer_backbone import TransformerBackbone
from keras_attn_zoo.bodies.transformer_layers import TransformerDecoderLayer, TransformerEncoderLayer, TransformerLayer

__all__ = [
    "RNNBackbone",
    "RNNDecoder",
    "Readout",
    "TokenEmbedding",
    "TransformerBackbone",
    "TransformerDecoderLayer",
    "TransformerEncoderLayer",
    "TransformerLayer",
    "TranslationBackbone",
]
