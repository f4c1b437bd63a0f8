"""Keys and values of a search in parts, of which a step reads those that it has reached.

A search has room for the longest translation, and a step would read all of it, most of which lies ahead. XLA knows no
sizes that change from step to step; but it can leave out a part.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate

from keras import ops

from keras_attn_zoo.support.types import Tensor


def write_places(parts: Sequence[Tensor], update: Tensor, place: int | Tensor, axis: int) -> list[Tensor]:
    """Return the parts with an update, whose places along the axis begin at `place` and lie in one part.

    Example:
        >>> write_places([ops.zeros((1, 2)), ops.zeros((1, 2))], ops.ones((1, 1)), 3, axis=1)  # [[0, 0]], [[0, 1]]
    """

    def begin(at):
        return [at if i == axis else 0 for i in range(len(update.shape))]

    if len(parts) == 1:
        return [ops.slice_update(parts[0], begin(place), update)]
    written = []
    for start, part in _with_starts(parts, axis):
        wanted = place - start
        at = begin(ops.clip(ops.convert_to_tensor(wanted), 0, part.shape[axis] - update.shape[axis]))
        # A part that the places are not in gets what it has.
        kept = ops.where(at[axis] == wanted, update, ops.slice(part, at, update.shape))
        written.append(ops.slice_update(part, at, kept))
    return written


def reached_energies(
    query: Tensor, keys: Sequence[Tensor], place: int | Tensor, axis: int, product: Callable[[Tensor, Tensor], Tensor]
) -> Tensor:
    """Return energies `(batch, heads, queries, places)`; 0 in parts that lie after the place.

    Args:
        query: `(batch, heads, queries, key_dim)`.
        keys: the parts of the keys.
        place: the first of this step.
        axis: the axis of places in the keys.
        product: function of the query and a part to the energies of the part.
    """
    if len(keys) == 1:
        return product(query, keys[0])
    query = ops.cast(query, keys[0].dtype)

    def nothing(part):
        return ops.zeros((*ops.shape(query)[:3], part.shape[axis]), dtype=query.dtype)

    found = [
        _if_reached(start, place, partial(product, query, part), partial(nothing, part))
        for start, part in _with_starts(keys, axis)
    ]
    return ops.concatenate(found, axis=-1)


def reached_contexts(
    weights: Tensor, values: Sequence[Tensor], place: int | Tensor, product: Callable[[Tensor, Tensor], Tensor]
) -> Tensor:
    """Return contexts `(batch, heads, queries, value_dim)` of weights that are 0 after the place.

    Args:
        weights: `(batch, heads, queries, places)`.
        values: the parts of the values, `(batch, heads, places, value_dim)`.
        place: the first of this step.
        product: function of weights and a part of the values to contexts.
    """
    if len(values) == 1:
        return product(weights, values[0])

    def of_part(start, part):
        return product(weights[..., start : start + part.shape[2]], part)

    def with_part(contexts, start, part):
        return contexts + of_part(start, part)

    (start, part), *others = _with_starts(values, axis=2)
    contexts = of_part(start, part)
    for start, part in others:
        contexts = _if_reached(start, place, partial(with_part, contexts, start, part), partial(_same, contexts))
    return contexts


def _with_starts(parts: Sequence[Tensor], axis: int) -> list[tuple[int, Tensor]]:
    ends = accumulate(int(part.shape[axis]) for part in parts)
    return [(end - part.shape[axis], part) for end, part in zip(ends, parts, strict=True)]


def _if_reached(start: int, place: int | Tensor, read: Callable[[], Tensor], leave: Callable[[], Tensor]) -> Tensor:
    if start == 0:
        return read()
    if isinstance(place, int):
        return read() if place >= start else leave()
    return ops.cond(place >= start, read, leave)


def _same(contexts: Tensor) -> Tensor:
    return contexts
