"""Attention mechanisms for neural machine translation, on Keras 3 with JAX, TensorFlow or PyTorch."""

__version__ = "0.1.0"
