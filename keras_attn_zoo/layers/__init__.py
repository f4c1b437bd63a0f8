"""Attention layers: one mechanism, one file, the equation first."""

from keras_attn_zoo.layers.attention_layer import AttentionLayer
from keras_attn_zoo.layers.bahdanau_attention import BahdanauAttention
from keras_attn_zoo.layers.luong_attention import LuongAttention
from keras_attn_zoo.layers.registry import ATTENTIONS, get_attention
from keras_attn_zoo.layers.uniform_attention import UniformAttention

__all__ = [
    "ATTENTIONS",
    "AttentionLayer",
    "BahdanauAttention",
    "LuongAttention",
    "UniformAttention",
    "get_attention",
]
