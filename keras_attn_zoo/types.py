"""Names for what functions take and give, where Python has no type of its own for it.

What a tensor is depends on the backend, and Keras carries no annotations, so a type checker sees most of these as
`Any`. They tell a reader what is meant.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias, TypedDict

# A tensor of the backend, a NumPy array that stands for one, or a symbolic `keras.KerasTensor`.
Tensor: TypeAlias = Any
# Nested dicts, lists and tuples of tensors: the state of a step, the memory of a sentence.
TensorTree: TypeAlias = Any
# A shape as `Layer.build` is given it: integers, and None for sizes that are unknown.
Shape: TypeAlias = Sequence[Any]
# A dtype or its policy: a name, a `keras.DTypePolicy`, or None for the one that Keras is set to.
DType: TypeAlias = Any
# An initialiser: its name, a `keras.Initializer` or a plain function.
Initializer: TypeAlias = Any
# The numbers that Keras tells a callback, by name.
Logs: TypeAlias = dict[str, Any]
# The arguments of a constructor, as `get_config` returns them.
Config: TypeAlias = dict[str, Any]


class FileRecord(TypedDict):
    """Size in bytes and SHA-256 of a file."""

    size: int
    sha256: str
