"""Attention mechanisms for neural machine translation, on Keras 3 with JAX, TensorFlow or PyTorch.

    import keras_attn_zoo as kaz

    layer = kaz.layers.BahdanauAttention(units=256)
    translator = kaz.Translator.from_preset("my_preset")

Subpackages and the names below are imported on first use: Keras chooses its backend when it is imported, and this
package does not import it any earlier than necessary.
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any

from keras_attn_zoo.support.earlier_names import EarlierNames

if TYPE_CHECKING:
    from keras_attn_zoo import (
        bodies,
        corpora,
        data,
        decoding,
        devices,
        evaluation,
        kernels,
        layers,
        onnx,
        presets,
        runs,
        runtime,
        site,
        studies,
        training,
        translators,
        viewing,
    )
    from keras_attn_zoo.decoding import BeamSearch
    from keras_attn_zoo.layers import get_attention
    from keras_attn_zoo.translators import Translator

__version__ = "0.1.0"

_SUBPACKAGES = (
    *("bodies", "corpora", "data", "decoding", "devices", "evaluation", "kernels", "layers", "onnx", "presets"),
    *("runs", "runtime", "site", "studies", "training", "translators", "viewing"),
)
# Public names of subpackages that are available here as well.
_NAMES = {"BeamSearch": "decoding", "Translator": "translators", "get_attention": "layers"}
_EARLIER_SUBPACKAGES = ("analysis", "experiments", "explore", "models", "synthetic")

sys.meta_path.insert(0, EarlierNames())

__all__ = ["__version__", *_NAMES, *_SUBPACKAGES]


def __getattr__(name: str) -> Any:
    if name in _SUBPACKAGES or name in _EARLIER_SUBPACKAGES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _NAMES:
        return getattr(importlib.import_module(f"{__name__}.{_NAMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
