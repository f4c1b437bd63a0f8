# Written by docs/write_tables.py.

from keras_attn_zoo.layers.accumulated_weight_attention import AccumulatedWeightAttention
from keras_attn_zoo.layers.average_attention import AverageAttention
from keras_attn_zoo.layers.bahdanau_attention import BahdanauAttention
from keras_attn_zoo.layers.base.attention_layer import AttentionLayer
from keras_attn_zoo.layers.coverage_attention import CoverageAttention
from keras_attn_zoo.layers.dense_synthesizer_attention import DenseSynthesizerAttention
from keras_attn_zoo.layers.differential_attention import DifferentialAttention
from keras_attn_zoo.layers.energy_accumulation_attention import EnergyAccumulationAttention
from keras_attn_zoo.layers.expanded_key_value_attention import ExpandedKeyValueAttention
from keras_attn_zoo.layers.first_order_alignment import FirstOrderAlignment
from keras_attn_zoo.layers.forgetting_attention import ForgettingAttention
from keras_attn_zoo.layers.gated_delta_attention import GatedDeltaAttention
from keras_attn_zoo.layers.gaussian_attention import GaussianAttention
from keras_attn_zoo.layers.gaussian_mixture_attention import GaussianMixtureAttention
from keras_attn_zoo.layers.latent_alignment_head import LatentAlignmentHead
from keras_attn_zoo.layers.linear_attention import LinearAttention
from keras_attn_zoo.layers.local_attention import LocalAttention
from keras_attn_zoo.layers.luong_attention import LuongAttention
from keras_attn_zoo.layers.monotonic_attention import MonotonicAttention
from keras_attn_zoo.layers.monotonic_chunkwise_attention import MonotonicChunkwiseAttention
from keras_attn_zoo.layers.multi_head_attention import MultiHeadAttention
from keras_attn_zoo.layers.multi_head_latent_attention import MultiHeadLatentAttention
from keras_attn_zoo.layers.previous_context_attention import PreviousContextAttention
from keras_attn_zoo.layers.previous_weight_attention import PreviousWeightAttention
from keras_attn_zoo.layers.random_synthesizer_attention import RandomSynthesizerAttention
from keras_attn_zoo.layers.recurrent_attention import InitialAttention, RecurrentAttention, RecurrentTransition
from keras_attn_zoo.layers.registry import ATTENTIONS, attention, get_attention
from keras_attn_zoo.layers.retention_attention import RetentionAttention
from keras_attn_zoo.layers.sliding_window_attention import SlidingWindowAttention
from keras_attn_zoo.layers.structural_bias_attention import StructuralBiasAttention
from keras_attn_zoo.layers.talking_heads_attention import TalkingHeadsAttention
from keras_attn_zoo.layers.temporal_attention import MultiHeadTemporalAttention, TemporalAttention
from keras_attn_zoo.layers.uniform_attention import UniformAttention
from keras_attn_zoo.layers.weight_subtraction_attention import WeightSubtractionAttention

__all__ = [
    "ATTENTIONS",
    "AccumulatedWeightAttention",
    "AttentionLayer",
    "AverageAttention",
    "BahdanauAttention",
    "CoverageAttention",
    "DenseSynthesizerAttention",
    "DifferentialAttention",
    "EnergyAccumulationAttention",
    "ExpandedKeyValueAttention",
    "FirstOrderAlignment",
    "ForgettingAttention",
    "GatedDeltaAttention",
    "GaussianAttention",
    "GaussianMixtureAttention",
    "InitialAttention",
    "LatentAlignmentHead",
    "LinearAttention",
    "LocalAttention",
    "LuongAttention",
    "MonotonicAttention",
    "MonotonicChunkwiseAttention",
    "MultiHeadAttention",
    "MultiHeadLatentAttention",
    "MultiHeadTemporalAttention",
    "PreviousContextAttention",
    "PreviousWeightAttention",
    "RandomSynthesizerAttention",
    "RecurrentAttention",
    "RecurrentTransition",
    "RetentionAttention",
    "SlidingWindowAttention",
    "StructuralBiasAttention",
    "TalkingHeadsAttention",
    "TemporalAttention",
    "UniformAttention",
    "WeightSubtractionAttention",
    "attention",
    "get_attention",
]
