"""Translators exported to ONNX, translated by onnxruntime, SentencePiece and NumPy, without Keras or a backend.

`ONNXTranslator` is imported on first use, so that a folder can be recognised without onnxruntime.
"""

from typing import TYPE_CHECKING, Any

from keras_attn_zoo.support.extras import require

if TYPE_CHECKING:
    from keras_attn_zoo.onnx.onnx_translator import ONNXTranslator

__all__ = ["ONNXTranslator"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        require("onnxruntime", "sentencepiece", user="a translator exported to ONNX", extra="onnx")
        from keras_attn_zoo.onnx import onnx_translator

        return getattr(onnx_translator, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
