"""Attention masks, true where a position may be attended to, and the masked softmax."""

from keras import ops

from keras_attn_zoo.support.types import Tensor

# Finite, so that a row with nothing to attend to does not become NaN.
EXCLUDED = -1e30


def combine_masks(
    query_mask: Tensor | None = None,
    value_mask: Tensor | None = None,
    attention_mask: Tensor | None = None,
    causal: bool = False,
    target_length: int | Tensor | None = None,
    source_length: int | Tensor | None = None,
    window: int | None = None,
) -> Tensor | None:
    """Combine the masks of one attention call into one.

    Args:
        query_mask: bool `(batch, target)`, true on real query positions, or None.
        value_mask: bool `(batch, source)`, true on real source positions, or None.
        attention_mask: bool `(batch, target, source)` or `(batch, heads, target, source)`, any axis of which may be 1;
            `(target, source)`; or None.
        causal: whether a target position may attend only to positions up to its own.
        target_length, source_length: needed if `causal` or `window` is set.
        window: how near the positions of target and source must be: |i - j| < window; None for any.

    Returns:
        bool, broadcastable to `(batch, heads, target, source)`; None if nothing is masked.

    Example:
        >>> combine_masks(value_mask=[[True, False]]).shape
        (1, 1, 1, 2)
    """
    parts = []
    if query_mask is not None:
        parts.append(ops.cast(query_mask, "bool")[:, None, :, None])
    if value_mask is not None:
        parts.append(ops.cast(value_mask, "bool")[:, None, None, :])
    if attention_mask is not None:
        attention_mask = ops.cast(attention_mask, "bool")
        if len(attention_mask.shape) == 2:
            attention_mask = attention_mask[None]
        parts.append(attention_mask[:, None] if len(attention_mask.shape) == 3 else attention_mask)
    if causal or window:
        rows, columns = (ops.arange(length, dtype="int32") for length in (target_length, source_length))
        rows, columns = rows[:, None], columns[None, :]
        if causal:
            parts.append((rows >= columns)[None, None])
        if window:
            parts.append((ops.abs(rows - columns) < window)[None, None])
    mask = None
    for part in parts:
        mask = part if mask is None else ops.logical_and(mask, part)
    return mask


def attending_rows(query_mask: Tensor | None, value_mask: Tensor, causal: bool = False) -> Tensor:
    """Return which target positions have anything to attend to: the rows of `combine_masks` that are not empty.

    Args:
        query_mask, value_mask, causal: see `combine_masks`.

    Returns:
        bool `(batch, 1, target, 1)`; the target may be 1 if all positions are alike.

    Example:
        >>> attending_rows(None, [[False, True]], causal=True)[0, 0]  # [[False], [True]]
    """
    real = ops.cast(value_mask, "bool")
    rows = ops.cumsum(ops.cast(real, "int32"), axis=1) > 0 if causal else ops.any(real, axis=1, keepdims=True)
    if query_mask is not None:
        rows = ops.logical_and(rows, ops.cast(query_mask, "bool"))
    return rows[:, None, :, None]


def padding_masks(
    query: Tensor,
    value: Tensor | None,
    query_mask: Tensor | None,
    value_mask: Tensor | None,
    key_mask: Tensor | None,
    attention_mask: Tensor | None,
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Return the masks of query and source, each for the whole batch, and that of pairs of positions.

    Without a value, in self-attention, the mask of the query is that of the source.
    """
    batch = ops.shape(query)[0]
    query_mask, value_mask, key_mask = (
        ops.broadcast_to(x, (batch, ops.shape(x)[1])) if x is not None and x.shape[0] == 1 else x
        for x in (query_mask, value_mask, key_mask)
    )
    if value is None and value_mask is None:
        value_mask = query_mask
    if key_mask is not None:
        key_mask = ops.cast(key_mask, "bool")
        value_mask = key_mask if value_mask is None else ops.logical_and(ops.cast(value_mask, "bool"), key_mask)
    return query_mask, value_mask, attention_mask


def without_padding(x: Tensor, mask: Tensor | None) -> Tensor:
    """Return `x`, `(batch, length, width)`, with 0 where `mask`, `(batch, length)`, is false.

    A weight of 0 is not enough if padding holds NaN or infinity: 0 · NaN is NaN, and so are the gradients.

    Example:
        >>> without_padding(ops.ones((1, 2, 3)), [[True, False]])  # ones, then zeros
    """
    return x if mask is None else ops.where(ops.cast(mask, "bool")[..., None], x, 0.0)


def masked_softmax(energies: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return the softmax over the last axis, in float32, with 0 where the mask is false.

    A row whose mask is false everywhere becomes 0, not NaN.

    Args:
        energies: `(..., source)`, any float type.
        mask: bool, broadcastable to `energies`, or None.

    Returns:
        float32 weights shaped like `energies`.

    Example:
        >>> masked_softmax([[0.0, 0.0, 5.0]], [[True, True, False]])  # [[0.5, 0.5, 0.0]]
    """
    energies = ops.cast(energies, "float32")
    if mask is not None:
        mask = ops.cast(mask, "bool")
        energies = ops.where(mask, energies, EXCLUDED)
    # Keras warns about a softmax over one position, which is not a mistake here.
    weights = ops.ones_like(energies) if energies.shape[-1] == 1 else ops.softmax(energies, axis=-1)
    return weights if mask is None else ops.where(mask, weights, 0.0)


def equal_weights(mask: Tensor) -> Tensor:
    """Return equal float32 weights where a mask `(..., source)` is true; 0 in a row without any true element.

    Example:
        >>> equal_weights([[True, True, False]])  # [[0.5, 0.5, 0.0]]
    """
    real = ops.cast(mask, "float32")
    return real / ops.maximum(ops.sum(real, axis=-1, keepdims=True), 1.0)
