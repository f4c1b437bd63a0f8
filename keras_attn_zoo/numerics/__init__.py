"""Numerics below layers and training: loops, masks, and backward passes written by hand."""

from keras_attn_zoo.extras import require_backend

require_backend()
