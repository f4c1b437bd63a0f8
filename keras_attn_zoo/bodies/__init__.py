"""The bodies of translators: backbones for RNNs and Transformers, and their parts.

The names below are imported when the first of them is used, so that `schema` needs no Keras.
"""

import importlib
from typing import TYPE_CHECKING, Any

from keras_attn_zoo.support.extras import require, require_backend

if TYPE_CHECKING:
    from keras_attn_zoo.bodies.backbone import TranslationBackbone
    from keras_attn_zoo.bodies.readout import Readout
    from keras_attn_zoo.bodies.rnn_backbone import RNNBackbone
    from keras_attn_zoo.bodies.rnn_decoder import RNNDecoder
    from keras_attn_zoo.bodies.token_embedding import TokenEmbedding
    from keras_attn_zoo.bodies.transformer_backbone import TransformerBackbone
    from keras_attn_zoo.bodies.transformer_layers import (
        TransformerDecoderLayer,
        TransformerEncoderLayer,
        TransformerLayer,
    )

_HOMES = {
    "backbone": ("TranslationBackbone",),
    "readout": ("Readout",),
    "rnn_backbone": ("RNNBackbone",),
    "rnn_decoder": ("RNNDecoder",),
    "token_embedding": ("TokenEmbedding",),
    "transformer_backbone": ("TransformerBackbone",),
    "transformer_layers": ("TransformerDecoderLayer", "TransformerEncoderLayer", "TransformerLayer"),
}

__all__ = sorted(name for names in _HOMES.values() for name in names)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require("keras_hub", "sentencepiece", user=__name__, backend=True)
    require_backend(hub=True)
    # All at once: a saved model may contain any of them, and Keras finds those that are imported.
    for home, names in _HOMES.items():
        module = importlib.import_module(f"{__name__}.{home}")
        globals().update({one: getattr(module, one) for one in names})
    return globals()[name]
