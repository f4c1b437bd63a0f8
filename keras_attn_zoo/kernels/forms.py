"""Which form of an operation runs: the first in the table that suits, the portable one last."""

import functools
import importlib
import os
from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec, TypeVar

import keras

from keras_attn_zoo.kernels.processor import is_jax_on_cpu
from keras_attn_zoo.support.compat import is_transformed_by_torch
from keras_attn_zoo.support.errors import UserError

KERNELS = "ATTN_ZOO_KERNELS"
CHOICES = ("fastest", "portable")

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


class Form(NamedTuple):
    """A form of an operation.

    Attributes:
        suits: whether it is to run here and now; asked in every call, or as the call is traced.
        place: the module of this package that has it, and the function.
        needed: whether the portable form is wrong or fails there, so that `ATTN_ZOO_KERNELS` does not turn it off.
    """

    suits: Callable[[], bool]
    place: str
    needed: bool = False


def is_tensorflow() -> bool:
    """Return whether Keras computes by TensorFlow."""
    return keras.config.backend() == "tensorflow"


def is_torch() -> bool:
    """Return whether Keras computes by PyTorch."""
    return keras.config.backend() == "torch"


def is_jax() -> bool:
    """Return whether Keras computes by JAX."""
    return keras.config.backend() == "jax"


def is_exported_by_torch() -> bool:
    """Return whether PyTorch traces for an export, in which lengths are open and no tensor has a value."""
    if not is_torch():
        return False
    import torch

    return torch.compiler.is_exporting()


def takes_written_gradients() -> bool:
    """Return whether the backend takes hand-written gradients: PyTorch does not in what `torch.func` transforms.

    An exported program has none, and no loops until no row moves, as the sparse normalisers have.
    """
    return not (is_torch() and (is_transformed_by_torch() or is_exported_by_torch()))


def choice() -> str:
    """Return what the environment variable `ATTN_ZOO_KERNELS` asks for: "fastest", as without it, or "portable".

    Raises:
        UserError: anything else.

    Example:
        >>> choice()
        'fastest'
    """
    chosen = os.environ.get(KERNELS) or CHOICES[0]
    if chosen not in CHOICES:
        raise UserError(f"{KERNELS} must be {' or '.join(CHOICES)}; received {chosen!r}.")
    return chosen


FORMS: dict[str, tuple[Form, ...]] = {
    "linear": (Form(is_jax_on_cpu, "jax_cpu:linear"),),
    "int8_linear": (Form(is_jax_on_cpu, "jax_cpu:int8_linear"),),
    "preparation": (Form(is_jax_on_cpu, "jax_cpu:preparation"),),
    "master_weight": (Form(is_jax_on_cpu, "jax_cpu:master_weight"),),
    "operand_dtype": (Form(is_jax_on_cpu, "jax_cpu:operand_dtype"),),
    "matrix_product": (Form(is_jax_on_cpu, "jax_cpu:matrix_product"),),
    "transposed_matrix": (Form(is_jax_on_cpu, "jax_cpu:transposed_matrix"),),
    "kernel_gradient": (Form(is_jax_on_cpu, "jax_cpu:kernel_gradient"),),
    "weighted_sum": (Form(is_jax_on_cpu, "jax_cpu:weighted_sum"),),
    "scan": (Form(is_tensorflow, "tensorflow_forms:scan", needed=True), Form(is_jax_on_cpu, "jax_cpu:scan")),
    "each": (Form(is_exported_by_torch, "torch_forms:each", needed=True),),
    "fold": (Form(is_exported_by_torch, "torch_forms:fold", needed=True),),
    "chunks": (Form(is_exported_by_torch, "torch_forms:chunks", needed=True),),
    "recurrent_layer": (Form(is_exported_by_torch, "torch_forms:recurrent_layer", needed=True),),
    "usually": (Form(is_exported_by_torch, "torch_forms:usually", needed=True),),
    "known_index": (Form(is_exported_by_torch, "torch_forms:known_index", needed=True),),
    "along_last": (Form(is_exported_by_torch, "torch_forms:along_last", needed=True),),
    "write": (
        Form(is_exported_by_torch, "torch_forms:write", needed=True),
        Form(is_tensorflow, "tensorflow_forms:write", needed=True),
    ),
    "first": (Form(is_jax, "jax_forms:first", needed=True),),
    "rows": (Form(is_tensorflow, "tensorflow_forms:rows", needed=True),),
    "at_most": (Form(is_tensorflow, "tensorflow_forms:at_most", needed=True),),
    "dropout": (
        Form(is_jax, "jax_forms:dropout"),
        Form(is_tensorflow, "tensorflow_forms:dropout"),
        Form(is_torch, "torch_forms:dropout", needed=True),
    ),
    "adam": (Form(is_torch, "torch_forms:adam"),),
    "is_replica": (Form(is_tensorflow, "tensorflow_forms:is_replica", needed=True),),
    "top_k": (Form(is_jax_on_cpu, "jax_cpu:top_k"),),
    "chunk_sizes": (Form(is_jax_on_cpu, "jax_cpu:chunk_sizes"),),
    "parallel_batches": (Form(is_jax_on_cpu, "jax_cpu:parallel_batches"),),
    "sparsemax": (Form(takes_written_gradients, "written_gradients:sparsemax"),),
    "entmax15": (Form(takes_written_gradients, "written_gradients:entmax15"),),
    "log_normalizer": (Form(takes_written_gradients, "written_gradients:log_normalizer"),),
    "token_losses": (
        Form(is_jax, "jax_forms:token_losses"),
        Form(takes_written_gradients, "written_gradients:token_losses"),
    ),
    "pair_recurrence": (Form(takes_written_gradients, "written_gradients:pair_recurrence"),),
}


def operation(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Make an operation of its portable form: a call runs the first form in the table that suits.

    Example:
        >>> operation(keras.ops.tanh)(keras.ops.zeros(()))  # 0
    """
    name = function.__name__

    @functools.wraps(function)
    def run(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        return form_of(name, function)(*args, **kwargs)

    return run


def plain(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Return the portable form of an operation."""
    return function.__wrapped__  # type: ignore[attr-defined]


def form_of(name: str, portable: Callable[..., _Result]) -> Callable[..., _Result]:
    """Return the form of an operation that runs here and now."""
    only_needed = choice() == "portable"
    for form in FORMS.get(name, ()):
        if (form.needed or not only_needed) and form.suits():
            return _imported(form.place)
    return portable


@functools.cache
def _imported(place: str) -> Any:
    module, function = place.split(":")
    return getattr(importlib.import_module(f"keras_attn_zoo.kernels.{module}"), function)
