"""Checks of what a layer is given: sizes, rates, names, shapes. An error is one line, in Keras' manner."""

import numbers


def check_positive(layer, name, value, optional=False):
    """Return a size as a plain integer; raise where it is not a positive one.

    Example:
        >>> check_positive(layer, "units", np.int64(3))  # 3
    """
    if value is None and optional:
        return None
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{type(layer).__name__}: `{name}` must be a positive integer. Received: {name}={value!r}.")
    return int(value)


def check_rate(layer, name, value):
    """Return a rate of dropout as a plain number; raise where it lies outside [0, 1).

    Example:
        >>> check_rate(layer, "dropout", 0)  # 0.0
    """
    if not isinstance(value, numbers.Real) or not 0 <= value < 1:
        raise ValueError(f"{type(layer).__name__}: `{name}` must lie in [0, 1). Received: {name}={value!r}.")
    return float(value)


def check_choice(layer, name, value, valid):
    """Return an argument; raise where it is not one of the valid ones.

    Example:
        >>> check_choice(layer, "score", "dot", ("dot", "general"))  # "dot"
    """
    if value not in valid:
        raise ValueError(
            f"{type(layer).__name__}: `{name}` must be one of {', '.join(map(str, valid))}. Received: {name}={value!r}."
        )
    return value


def check_shape(layer, name, tensor, pattern, sizes, broadcasts=False):
    """Raise where something is not a tensor of a given shape.

    Args:
        layer, name, tensor: the layer, what it calls its argument, and what it was given.
        pattern: the shape in words.
        sizes: the size of every axis, None where any will do.
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
