"""Python functions of text in TensorFlow's graphs, such as those of `tf.data.Dataset.map`."""

import sys
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from keras_attn_zoo.support.types import Shape, TensorTree
from keras_attn_zoo.translators.texts import strings


def is_dataset(x: Any) -> bool:
    """Return whether something is a `tf.data.Dataset`, without importing TensorFlow."""
    tensorflow = sys.modules.get("tensorflow")
    return tensorflow is not None and isinstance(x, tensorflow.data.Dataset)


def is_in_graph(x: TensorTree) -> bool:
    """Return whether a tree has tensors of a graph that is being built, which have no values yet."""
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is None or tensorflow.executing_eagerly():
        return False
    kinds = tensorflow.Tensor, tensorflow.RaggedTensor
    return any(isinstance(leaf, kinds) for leaf in keras.tree.flatten(x))


def run_in_graph(function: Callable[..., TensorTree], inputs: TensorTree, outputs: TensorTree) -> TensorTree:
    """Return the tensors that a Python function of arrays will compute.

    Args:
        function: is called with the tree of inputs, as arrays, and returns a tree of arrays.
        inputs: tensors of a graph.
        outputs: tree with the `keras.KerasTensor` of every result, which gives shape and type.
    """
    import tensorflow as tf

    def call(*arrays):
        # A tensor of one string comes as bytes.
        given = keras.tree.pack_sequence_as(inputs, [np.asarray(x) for x in arrays])
        found = keras.tree.flatten(function(given))
        return [np.asarray(x, tf.as_dtype(dtype).as_numpy_dtype) for x, dtype in zip(found, dtypes, strict=True)]

    wanted = keras.tree.flatten(outputs)
    dtypes = [one.dtype for one in wanted]
    found = tf.numpy_function(call, keras.tree.flatten(inputs), dtypes)
    for x, one in zip(found, wanted, strict=True):
        x.set_shape(one.shape)
    return keras.tree.pack_sequence_as(outputs, found)


def map_in_graph(dataset: Any, function: Callable[..., TensorTree], outputs: TensorTree) -> Any:
    """Return a `tf.data.Dataset` of the results of a Python function of its elements; see `run_in_graph`."""
    import tensorflow as tf

    mapped = dataset.map(lambda *batch: run_in_graph(lambda arrays: function(*arrays), batch, outputs))
    return mapped.prefetch(tf.data.AUTOTUNE)


def tokenize_in_graph(tokenize: Callable[[list[str]], list[list[int]]], texts: Any) -> Any:
    """Return the ids of a tensor of strings: one-dimensional for a string, ragged for a batch."""
    import tensorflow as tf

    def call(batch):
        rows = tokenize(strings(batch.reshape(-1)))
        return np.concatenate([*map(np.asarray, rows), []]), np.array([len(row) for row in rows])

    one = keras.KerasTensor((None,), "int32")
    ids, lengths = run_in_graph(call, texts, (one, one))
    return ids if texts.shape.rank == 0 else tf.RaggedTensor.from_row_lengths(ids, lengths)


def texts_in_graph(decode: Callable[[TensorTree], str | list[str]], inputs: TensorTree, batch: Shape) -> Any:
    """Return the tensor of strings that a Python function makes of arrays: of one string, or of a batch."""

    def call(arrays):
        return np.char.encode(np.array(decode(arrays), "U"), "utf-8").astype(object)

    return run_in_graph(call, inputs, keras.KerasTensor(batch, "string"))


def detokenize_in_graph(decode: Callable[[TensorTree], str | list[str]], ids: Any) -> Any:
    """Return the texts of a tensor of ids: one of a one-dimensional tensor, a batch of a ragged or padded one."""
    import tensorflow as tf

    if not isinstance(ids, tf.RaggedTensor):
        return texts_in_graph(decode, ids, tuple(ids.shape[:-1]))

    def call(parts):
        values, ends = parts
        return decode(np.split(values, ends[:-1])) if len(ends) else []

    return texts_in_graph(call, (ids.flat_values, tf.cumsum(ids.row_lengths())), (None,))
