"""Checks of a layer's arguments and inputs: sizes, rates, names, shapes. Errors are one line, in Keras' style."""

import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np
from keras import backend, ops

from keras_attn_zoo.support.types import Shape, Tensor


def is_number(value: Any) -> bool:
    """Return whether a value is a real number, of Python or NumPy, and not a boolean."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def is_integer(value: Any) -> bool:
    """Return whether a value is an integer, of Python or NumPy, and not a boolean."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def check_positive(layer: Any, name: str, value: Any, optional: bool = False) -> Any:
    """Return a size as a plain integer; raise unless it is a positive integer.

    Example:
        >>> check_positive(layer, "units", np.int64(3))  # 3
    """
    if value is None and optional:
        return None
    if not is_integer(value) or value < 1:
        raise ValueError(f"{type(layer).__name__}: `{name}` must be a positive integer. Received: {name}={value!r}.")
    return int(value)


def check_axis(layer: Any, axis: Any) -> int:
    """Return the number of an axis to attend along as a plain integer; raise if it is none.

    Example:
        >>> check_axis(layer, 1)  # 1
    """
    if not is_integer(axis):
        raise ValueError(f"{type(layer).__name__}: `attention_axes` must be integers. Received: {axis!r}.")
    return int(axis)


def check_sizes(layer: Any, name: str, value: Any) -> tuple[int, ...] | None:
    """Return one size or several as a tuple of plain integers; raise unless all are positive integers.

    Example:
        >>> check_sizes(layer, "output_shape", 3)  # (3,)
    """
    if value is None:
        return None
    sizes = value if isinstance(value, (list, tuple)) and value else [value]
    return tuple(check_positive(layer, name, size) for size in sizes)


def check_rate(layer: Any, name: str, value: Any) -> float:
    """Return a dropout rate as a plain float; raise if it is outside [0, 1).

    Example:
        >>> check_rate(layer, "dropout", 0)  # 0.0
    """
    if not is_number(value) or not 0 <= value < 1:
        raise ValueError(f"{type(layer).__name__}: `{name}` must lie in [0, 1). Received: {name}={value!r}.")
    return float(value)


def check_choice(layer: Any, name: str, value: Any, valid: Iterable) -> Any:
    """Return an argument; raise if it is not a valid choice.

    Example:
        >>> check_choice(layer, "score", "dot", ("dot", "general"))  # "dot"
    """
    if value not in tuple(valid):
        raise ValueError(
            f"{type(layer).__name__}: `{name}` must be one of {', '.join(map(str, valid))}. Received: {name}={value!r}."
        )
    return value


def check_shape(layer: Any, name: str, tensor: Tensor, pattern: str, sizes: Shape, broadcasts: bool = False) -> None:
    """Raise unless an argument is a tensor of a given shape.

    Args:
        layer, name, tensor: the layer, the name of the argument, and its value.
        pattern: the shape, as the message shows it.
        sizes: the size of every axis; None allows any.
        broadcasts: whether an axis may have size 1 instead.

    Example:
        >>> check_shape(layer, "query", query, "(batch, target, query_dim)", (2, None, 8))
    """
    if not hasattr(tensor, "shape"):
        raise ValueError(
            f"{type(layer).__name__}: `{name}` must be a tensor of shape {pattern}. Received: {tensor!r:.100}."
        )
    shape = tuple(tensor.shape)
    fits = len(shape) == len(sizes) and all(
        None in (have, want) or have == want or (have == 1 and broadcasts)
        for have, want in zip(shape, sizes, strict=True)
    )
    if not fits:
        raise ValueError(f"{type(layer).__name__}: `{name}` must have shape {pattern}. Received: shape {shape}.")


def check_inputs(
    layer: Any, query: Tensor, value: Tensor | None, key: Tensor | None, masks: dict[str, Tensor | None]
) -> None:
    """Raise if ranks or known sizes of an attention's inputs do not match.

    Args:
        layer, query, value, key: the layer, and the tensors of its call, or None.
        masks: dict of "query_mask", "value_mask", "key_mask" and "attention_mask".

    Example:
        >>> masks = dict.fromkeys(["query_mask", "value_mask", "key_mask", "attention_mask"])
        >>> check_inputs(layer, query, value, None, masks)  # doctest: +SKIP
    """
    name = type(layer).__name__
    check_shape(layer, "query", query, "(batch, target, query_dim)", (None, None, None))
    batch, target = query.shape[:2]
    if layer.attends_to == "itself" and not (value is None and key is None):
        raise ValueError(
            f"{name} is self-attention: leave `value` and `key` out, or give the query itself. "
            f"Received: query of shape {tuple(query.shape)} and another value or key."
        )
    if value is None:
        if layer.attends_to == "value":
            raise ValueError(f"{name} is cross-attention: it needs a `value`. Received: value=None.")
        if key is not None:
            raise ValueError(f"{name}: a `key` needs a `value`. Received: value=None.")
    else:
        check_shape(layer, "value", value, f"(batch, source, value_dim) with batch {batch}", (batch, None, None))
    attended = query if value is None else value
    source = attended.shape[1]
    _check_width(layer, "query", query)
    check_source(layer, attended, key, masks["value_mask"])
    _check_padding(layer, "query_mask", masks["query_mask"], "target", batch, target)
    _check_padding(layer, "key_mask", masks["key_mask"], "source", batch, source)
    mask = masks["attention_mask"]
    if mask is not None:
        pattern = f"(batch, target, source) = ({batch}, {target}, {source}), with an axis of heads or without"
        by_rank = {2: (target, source), 3: (batch, target, source)}
        sizes = by_rank.get(len(getattr(mask, "shape", ())), (batch, layer.num_heads, target, source))
        check_shape(layer, "attention_mask", mask, pattern, sizes, broadcasts=True)


def check_source(layer: Any, value: Tensor, key: Tensor | None, value_mask: Tensor | None) -> None:
    """Raise if ranks or known sizes of what is attended to do not match each other, or the weights.

    Example:
        >>> check_source(layer, value, None, None)  # doctest: +SKIP
    """
    check_shape(layer, "value", value, "(batch, source, value_dim)", (None, None, None))
    batch, source = value.shape[:2]
    if key is not None:
        check_shape(layer, "key", key, f"(batch, source, key_dim) = ({batch}, {source}, ...)", (batch, source, None))
    _check_width(layer, "value", value)
    _check_width(layer, "key", value if key is None else key)
    _check_padding(layer, "value_mask", value_mask, "source", batch, source)


def check_key_shape(layer: Any, value_shape: Shape | None, key_shape: Shape | None) -> None:
    """Raise if the shapes of value and key differ in more than the width."""
    if value_shape is not None and key_shape is not None and tuple(value_shape[1:-1]) != tuple(key_shape[1:-1]):
        raise ValueError(
            f"{type(layer).__name__}: the sizes of `value` and `key` must be equal, but for the last. "
            f"Received: value {tuple(value_shape)}, key {tuple(key_shape)}."
        )


def _check_padding(layer, name, mask, axis, batch, length):
    """Raise unless a mask of padding, if there is one, is of a batch of sentences of this length."""
    if mask is not None:
        check_shape(layer, name, mask, f"(batch, {axis}) = ({batch}, {length})", (batch, length), broadcasts=True)


def _check_width(layer, part, tensor):
    """Raise if a width is not the one that the weights were created for."""
    width = layer.built_widths.get(part)
    if width is not None and tensor.shape[-1] not in (None, width):
        raise ValueError(
            f"{type(layer).__name__}: the layer was built for a {part} of width {width}. "
            f"Received: a {part} of shape {tuple(tensor.shape)}."
        )


def as_mask(layer: Any, name: str, mask: Any) -> Any:
    """Return a mask given as a list of Python as a tensor of booleans, anything else as it is.

    Raises:
        ValueError: lists of unequal lengths; an additive mask, which is 0 where a position may be attended to, and
            below 0 elsewhere; one of floating point that is 0 everywhere. In a compiled function, or a model that is
            being made, the type alone is known: floating point is refused, while integers count as 0 and 1, so that -1
            is true, as in Keras.
    """
    if isinstance(mask, (list, tuple)):
        try:
            mask = np.asarray(mask)
            boolean = mask.astype("bool")
        except (TypeError, ValueError):
            raise ValueError(
                f"{type(layer).__name__}: `{name}` must be an array of booleans, or lists of equal lengths. "
                f"Received: {mask!r:.100}."
            ) from None
        _refuse_additive(layer, name, mask)
        return ops.convert_to_tensor(boolean)
    _refuse_additive(layer, name, mask)
    return mask


def _refuse_additive(layer, name, mask):
    """Raise if a mask is meant to be added to energies: read as true and false, it would say the opposite."""
    kind = getattr(mask, "dtype", None)
    kind = "bool" if kind is None else backend.standardize_dtype(kind)
    if kind == "bool" or kind.startswith("uint"):
        return
    try:
        values = ops.convert_to_numpy(mask)
        # An additive one of a batch without padding has zeros alone.
        is_additive = bool(np.any(values < 0)) or ("float" in kind and values.size > 0 and not values.any())
        found = "numbers of which none is above 0"
    except (AttributeError, NotImplementedError, RuntimeError, TypeError, ValueError):
        # Symbolic, or a tracer.
        is_additive, found = "float" in kind, f"a symbolic tensor of {kind}, whose values are not known yet"
    if is_additive:
        raise ValueError(
            f"{type(layer).__name__}: `{name}` must be true where a position may be attended to; an additive mask "
            f"(0 and -inf) would be read as its opposite: give booleans, as by `{name} == 0`. Received: {found}."
        )


def check_built(layer: Any) -> None:
    """Raise if there are no weights yet."""
    if not layer.built:
        raise ValueError(
            f"{type(layer).__name__}: steps need the weights that a first call creates; call the layer, or "
            "`build(query_shape, value_shape)`, before `prepare`."
        )
