"""Products of float32 matrices by PyTorch on an AMD CPU with AVX-512.

MKL, which PyTorch takes there, uses half of such a processor. Without AVX-512, it is as fast as oneDNN for most shapes,
takes up to 1.4 times as long for a few, and half as long for kernels with 1,536 columns; it needs no gradient of ours.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import keras

from keras_attn_zoo.processor import has_avx512, is_amd
from keras_attn_zoo.types import Tensor

# Multiplications from which oneDNN is faster, its larger overhead included.
FEWEST = 1 << 21


def faster_by_onednn(x: Tensor, kernel: Tensor, bias: Tensor | None = None) -> bool:
    """Return whether oneDNN is there, and multiplies the rows of `x` with a matrix faster than PyTorch does by itself.

    Not where PyTorch records operations, for a compiler or another format, or transforms functions (`torch.func`).

    Example:
        >>> faster_by_onednn(keras.ops.ones((2, 3)), keras.ops.ones((3, 4)))
        False
    """
    if keras.config.backend() != "torch" or (found := _onednn()) is None:
        return False
    import torch

    if torch.compiler.is_compiling() or torch.jit.is_tracing():
        return False
    kernel = keras.ops.convert_to_tensor(kernel)
    given = [x, kernel, *([] if bias is None else [keras.ops.convert_to_tensor(bias)])]
    return (
        isinstance(x, torch.Tensor)
        and all(one.dtype == torch.float32 and one.device.type == "cpu" for one in given)
        and x.shape[-1] > 0
        and x.numel() * (kernel.numel() // x.shape[-1]) >= FEWEST
        and not any(map(found.is_transformed, given))
    )


def multiplied_by_onednn(x: Tensor, kernel: Tensor, bias: Tensor | None = None, transposed: bool = False) -> Tensor:
    """Return x W + b, or x Wᵀ + b, without a gradient."""
    return _onednn().linear(x, kernel if transposed else kernel.t(), bias, "none", [], "")


class _OneDNN(NamedTuple):
    linear: Callable[..., Any]
    is_transformed: Callable[..., bool]


@functools.cache
def _onednn() -> Any:
    """The operations; None if there is no such processor, or if this PyTorch has not got them."""
    import torch

    if not (is_amd() and has_avx512() and torch.backends.mkldnn.is_available() and torch.backends.mkl.is_available()):
        return None
    try:
        # What `torch.compile` itself makes of a linear layer.
        linear, is_transformed = torch.ops.mkldnn._linear_pointwise, torch._C._functorch.is_functorch_wrapped_tensor
        return _OneDNN(linear.default, is_transformed)
    except AttributeError:
        return None
