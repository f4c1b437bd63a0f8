"""Translators exported to ONNX, translated by onnxruntime, SentencePiece and NumPy, without Keras or a backend."""

from keras_attn_zoo.support.extras import require

require("onnxruntime", "sentencepiece", user=__name__, extra="onnx")

from keras_attn_zoo.onnx.onnx_translator import ONNXTranslator

__all__ = ["ONNXTranslator"]
