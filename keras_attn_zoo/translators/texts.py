"""Text in whatever holds it: strings, bytes, arrays, columns of tables, tensors; and in graphs of TensorFlow."""

import sys
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.types import Shape, TensorTree

# Names of the two sides of text in a dict.
TEXTS = ("encoder_text", "decoder_text")


def holds_text(x: Any) -> bool:
    """Return whether something is a string or a tree of lists, arrays or tensors of strings, by its first entry.

    Example:
        >>> holds_text(["Guten Tag"]), holds_text(np.array([b"Guten Tag"])), holds_text([[5, 3]])
        (True, True, False)
    """
    if isinstance(x, (str, bytes)):
        return True
    if isinstance(x, (list, tuple)):
        return bool(x) and holds_text(x[0])
    dtype = getattr(x, "dtype", None)
    if getattr(dtype, "kind", None) == "O":
        return isinstance(next(iter(np.asarray(x).flat), None), (str, bytes))
    return getattr(dtype, "kind", None) in ("U", "S") or "string" in str(dtype)


def strings(texts: Any) -> Any:
    """Return Python's strings, a list of them or one, from a list, tuple, array, tensor or column of a table.

    What is no text stays as it is, to be refused by its name.

    Raises:
        UserError: bytes that are not UTF-8.

    Example:
        >>> strings(np.array([b"Guten Tag"]))
        ['Guten Tag']
    """
    if hasattr(texts, "__array__"):
        texts = np.asarray(texts).tolist()
        if isinstance(texts, bytes):
            return _decoded(texts)
    return [_decoded(one) for one in texts] if isinstance(texts, (list, tuple)) else texts


def _decoded(text):
    """A string of bytes; anything else as it is."""
    try:
        return text.decode() if isinstance(text, bytes) else text
    except UnicodeDecodeError:
        raise UserError(f"text in bytes must be UTF-8; received {text[:40]!r}: decode it first.") from None


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
