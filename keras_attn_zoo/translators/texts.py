"""Text in whatever holds it: Python's strings and bytes, arrays, columns of tables, TensorFlow's tensors."""

from typing import Any

import numpy as np

from keras_attn_zoo.support.errors import UserError

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
