"""What the steps of a search need besides the layers: the best tokens, the sizes of a cache, batches at once."""

from keras import ops

from keras_attn_zoo.kernels.forms import operation
from keras_attn_zoo.support.types import Tensor


@operation
def top_k(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k largest numbers of each row, the largest first, and their places; of equal ones, the first.

    Args:
        x: float `(rows, numbers)`.
        k: how many; at most as many as there are numbers.

    Example:
        >>> top_k(ops.convert_to_tensor([[1.0, 3.0, 2.0]]), 2)[1]  # [[1, 2]]
    """
    return ops.top_k(x, k=k)


@operation
def chunk_sizes(length: int) -> list[int]:
    """Return into how many places each chunk of a cache for `length` positions is divided: by default, one chunk.

    Example:
        >>> sum(chunk_sizes(30))
        30
    """
    return [length]


@operation
def parallel_batches() -> int:
    """Return how many batches to run in parallel threads; 1 for one after the other."""
    return 1
