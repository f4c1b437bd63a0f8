"""Names for types of arguments and results for which Python has no type of its own.

What a tensor is depends on the backend, and Keras has no annotations, so a type checker sees most of these as `Any`.
They tell the reader what is meant.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias, TypedDict

# A tensor of the backend, a NumPy array in its place, or a symbolic `keras.KerasTensor`.
Tensor: TypeAlias = Any
# Nested dicts, lists and tuples of tensors: the state of a step, the memory of a sentence.
TensorTree: TypeAlias = Any
# A shape as passed to `Layer.build`: integers, and None for unknown sizes.
Shape: TypeAlias = Sequence[Any]
# A dtype or dtype policy: a name, a `keras.DTypePolicy`, or None for Keras' current policy.
DType: TypeAlias = Any
# An initialiser: its name, a `keras.Initializer` or a plain function.
Initializer: TypeAlias = Any
# The figures that Keras passes to a callback, by name.
Logs: TypeAlias = dict[str, Any]
# The arguments of a constructor, as `get_config` returns them.
Config: TypeAlias = dict[str, Any]


class FileRecord(TypedDict):
    """Size in bytes and SHA-256 of a file."""

    size: int
    sha256: str
