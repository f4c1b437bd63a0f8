"""Logits and losses of labels."""

import keras
from keras import ops

from keras_attn_zoo.support.types import Tensor


def of_labels(values: Tensor, labels: Tensor) -> Tensor:
    """The values `(..., vocabulary)` of the labels `(...)`."""
    return ops.squeeze(ops.take_along_axis(values, labels[..., None], axis=-1), axis=-1)


def is_largest(logits: Tensor, gold: Tensor) -> Tensor:
    """1 where the gold logit is the largest, else 0."""
    # Compared with the largest logit: on a CPU, XLA's argmax would take a fifth of the time of the whole loss.
    return ops.cast(gold >= ops.max(ops.stop_gradient(logits), axis=-1), "float32")


def smoothed(nll: Tensor, uniform: Tensor, label_smoothing: float) -> Tensor:
    """The loss of both under label smoothing."""
    return (1.0 - label_smoothing) * nll + label_smoothing * uniform if label_smoothing else nll


def with_values_of_labels(values: Tensor, labels: Tensor, of_labels: Tensor) -> Tensor:
    """The first argument with the numbers of the labels replaced, in place where nothing else needs them."""
    if keras.config.backend() == "torch":
        return values.scatter_(-1, labels[..., None].long(), of_labels)
    import tensorflow as tf

    flat = tf.reshape(values, (-1, values.shape[-1]))
    places = tf.stack([tf.range(tf.shape(flat)[0]), tf.reshape(labels, (-1,))], axis=-1)
    return tf.reshape(tf.tensor_scatter_nd_update(flat, places, tf.reshape(of_labels, (-1,))), tf.shape(values))
