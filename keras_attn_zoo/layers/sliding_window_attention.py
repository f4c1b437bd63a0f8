"""Sliding-window attention: multi-head self-attention to the neighbourhood, and to the first positions."""

from typing import Any

from keras import ops

from keras_attn_zoo.layers.base.checks import check_positive, is_integer
from keras_attn_zoo.layers.base.dot_product_attention import DotProductAttention
from keras_attn_zoo.layers.base.self_attention_steps import ProjectionsSeen
from keras_attn_zoo.layers.registry import attention
from keras_attn_zoo.support.types import Tensor, TensorTree


@attention(
    "sliding_window",
    source="Beltagy §3, Xiao §3",
    places=("encoder", "decoder"),
    year=2020,
    arguments=lambda sizes: sizes.heads,
    cost=("1", "I·k·d", "k·d", "k·d keys and values"),
)
class SlidingWindowAttention(ProjectionsSeen, DotProductAttention):
    """Multi-head self-attention to the w nearest positions and the first s, the attention sinks.

    Use it in place of self-attention if sequences are long and the neighbourhood matters most: neither the memory of a
    call nor the state of a search grows as the square of the length, and a search keeps w + s keys and values. The
    first positions stay visible, since much of the softmax's mass goes there, whatever they say.

        ê_ij = (W_q x_i)ᵀ (W_k x_j) / √d_k,   α_ij = softmax_j(ê_ij)  over  |i - j| < w  or  j < s
        c_i  = O [Σ_j α_ij (W_v x_j)] + b

    Symbols: x the input; w the window, s the number of sinks; the brackets join the heads.

    Args:
        num_heads, key_dim: number of heads; width of a query's and key's head.
        window: w, itself included: w - 1 positions before it and, without a causal mask, as many after it.
        sinks: s, 0 for none.
        **kwargs: see `MultiHeadAttention`.

    Shapes: `(batch, length, width)` in and out; scores `(batch, heads, length, length)`.

    Masking: every mask. A call whose scores are asked for, or which has an `attention_mask`, computes all weights; any
    other one blocks of w queries, with the keys of the block, its neighbours and the sinks.

    State: keys and values of the sinks and the window, `{"key": (batch, heads, s + w, key_dim), "value": ...,
    "position": (batch,)}`, where a new position takes the place of the oldest.

    Raises:
        ValueError: sizes that are not positive integers; a negative number of sinks; a value other than the query.

    Example:
        >>> layer = SlidingWindowAttention(num_heads=2, key_dim=4, window=2, sinks=1)
        >>> context = layer(keras.ops.ones((3, 5, 8)), use_causal_mask=True)  # (3, 5, 8)

    Source: Beltagy, section 3 (the window); Xiao, section 3 (the sinks).

    Differences from the papers: no dilation. Where Beltagy's global positions also attend to all others, sinks are
    attended to alone, as Xiao's, which are also given new position numbers there; here, with `positions`, a sink is as
    far away as it is in the sentence.
    """

    attends_to = "itself"
    in_place_of_window = "`window`"

    def __init__(self, num_heads: int, key_dim: int, window: int = 32, sinks: int = 4, **kwargs: Any) -> None:
        super().__init__(num_heads, key_dim, **kwargs)
        self.window = check_positive(self, "window", window)
        if not is_integer(sinks) or sinks < 0:
            raise ValueError(
                f"{type(self).__name__}: `sinks` must be an integer of at least 0. Received: sinks={sinks!r}."
            )
        self.sinks = int(sinks)

    def _is_near(self, targets, sources):
        """Whether sources are within the window, or sinks."""
        return ops.logical_or(ops.abs(targets - sources) < self.window, sources < self.sinks)

    def attend(
        self, query: Tensor, memory: TensorTree, mask: Tensor | None, training: bool | None = None
    ) -> tuple[Tensor, Tensor]:
        """Attend by the weights of all pairs of positions; see `AttentionLayer.attend`."""
        positions = ops.arange(ops.shape(query)[1], dtype="int32")
        near = self._is_near(positions[:, None], positions)[None, None]
        return super().attend(query, memory, near if mask is None else ops.logical_and(mask, near), training)

    def attend_in_chunks(
        self, query: Tensor, memory: TensorTree, query_mask: Tensor | None, causal: bool, training: bool | None = None
    ) -> Tensor:
        """Attend from blocks of queries to keys nearby, and to the sinks; see `AttentionLayer.attend_in_chunks`."""
        length = ops.shape(query)[1]
        known = isinstance(length, int)
        size = min(self.window, length) if known else self.window
        # Of an unknown length one block more, as PyTorch's exporter makes a constant of a number that may be 1.
        count = (length + size - 1) // size + (0 if known else 1)

        def blocks(x, beside=0):
            """Split `(batch, heads, length, ...)` to `(batch, heads, count, size, ...)`, the last filled with zeros.

            There are as many blocks of zeros `beside` them, on each side.
            """

            def zeros(places):
                return ops.zeros((*ops.shape(x)[:2], places, *x.shape[3:]), dtype=x.dtype)

            filled = ops.concatenate([zeros(beside * size), x, zeros((count + beside) * size - length)], axis=2)
            return ops.reshape(filled, (*ops.shape(x)[:2], count + 2 * beside, size, *x.shape[3:]))

        def nearby(x):
            """Join each block with those beside it, and with the sinks: `(batch, heads, count, sources, ...)`."""
            shape = (*ops.shape(x)[:2], self.sinks, *x.shape[3:])
            # There may be fewer positions than sinks.
            first = ops.concatenate([x, ops.zeros(shape, x.dtype)], axis=2)[:, :, None, : self.sinks]
            sinks, wide = ops.broadcast_to(first, (*shape[:2], count, *shape[2:])), blocks(x, beside=1)
            # Slices that are empty for no length: an exported program has any.
            near = [wide[:, :, i : i + count] for i in range(2 if causal else 3)]
            return ops.concatenate([*near, sinks], axis=3)

        queries = blocks(self.project_query(ops.cast(query, self.compute_dtype)))
        # Every head has the keys and values of its group.
        keys, values = (
            ops.repeat(memory[part], self.num_heads // self.num_key_value_heads, axis=1) for part in ("key", "value")
        )
        energies = ops.matmul(queries, ops.swapaxes(nearby(keys), -1, -2))
        if (bias := self._bias_of_blocks(queries, count, 2 if causal else 3)) is not None:
            energies = ops.cast(energies, "float32") + bias
        positions = ops.arange(length, dtype="int32")[None, None]
        targets, sources = blocks(positions)[..., None], nearby(positions)[..., None, :]
        # A sink is a source of its own, beside the window, and none inside it.
        is_sink = ops.arange(ops.shape(sources)[-1], dtype="int32") >= size * (2 if causal else 3)
        mask = ops.logical_and(self._is_near(targets, sources), is_sink == (sources < self.sinks))
        mask = ops.logical_and(mask, nearby(memory["mask"][:, None])[..., None, :])
        if causal:
            mask = ops.logical_and(mask, sources <= targets)
        if query_mask is not None:
            mask = ops.logical_and(mask, blocks(ops.cast(query_mask, "bool")[:, None])[..., None])
        weights = self.drop(self.normalize(energies, mask), training)

        def positionwise(x):
            return ops.reshape(x, (*ops.shape(x)[:2], count * size, x.shape[-1]))[:, :, :length]

        contexts = positionwise(ops.matmul(weights, nearby(values)))
        return self.merge(contexts, positionwise(ops.any(mask, axis=-1, keepdims=True)))

    def _bias_of_blocks(self, queries, count, beside):
        """What positions add to the energies of `count` blocks with `beside` blocks of keys and the sinks; or None.

        The distances to the blocks of keys are the same for all blocks of queries.
        """
        if self.positions is None:
            return None
        size, width = queries.shape[3:]
        alone = ops.reshape(ops.transpose(queries, (0, 2, 1, 3, 4)), (-1, self.num_heads, size, width))
        places = ops.arange(size, dtype="int32")
        near = self.relative_positions.bias(alone, places + size, ops.arange(beside * size, dtype="int32"))
        if near is None:
            return None
        if near.shape[0] != 1:
            near = ops.reshape(near, (-1, count, self.num_heads, size, beside * size))
        else:
            near = near[:, None]
        near = ops.transpose(near, (0, 2, 1, 3, 4))
        joined = ops.reshape(queries, (*ops.shape(queries)[:2], count * size, width))
        numbers = ops.arange(count * size, dtype="int32"), ops.arange(self.sinks, dtype="int32")
        far = self.relative_positions.bias(joined, *numbers)
        far = ops.reshape(far, (*ops.shape(far)[:2], count, size, self.sinks))
        return ops.concatenate([ops.broadcast_to(near, (*ops.shape(far)[:4], beside * size)), far], axis=-1)

    # The step.

    def room(self, max_length: int) -> int:
        """Return how many keys and values are kept, of however few positions."""
        return self.sinks + self.window

    def _place(self, position):
        """Where a position is kept: the sinks first, the others in turn."""
        return ops.where(position < self.sinks, position, self.sinks + (position - self.sinks) % self.window)

    def keep(self, past: Tensor, projected: Tensor, index: int | Tensor) -> Tensor:
        """Write a position in the place of the oldest."""
        return super().keep(past, projected, self._place(index))

    def _source_positions(self, memory):
        """The positions in all places of a step: in each of the window's the latest that belongs there."""
        if "index" not in memory:
            return super()._source_positions(memory)
        places = ops.arange(self.sinks + self.window, dtype="int32")
        turns = (ops.cast(memory["index"], "int32") - places) // self.window
        return ops.where(places < self.sinks, places, places + turns * self.window)

    def mask_of_step(self, memory: TensorTree, position: Tensor) -> Tensor | None:
        """Return which places are taken."""
        places = ops.arange(self.sinks + self.window, dtype="int32")
        return (places <= position[:, None])[:, None, None]

    def step(
        self,
        query: Tensor,
        memory: TensorTree,
        state: TensorTree,
        noise: TensorTree | None = None,
        position: int | Tensor | None = None,
    ) -> tuple[Tensor, Tensor, TensorTree]:
        """Attend from one position; see `AttentionLayer.step`."""
        context, scores, after = super().step(query, memory, state, noise, position)
        sources, target = memory["positions"], state["position"][:, None]
        seen = ops.logical_and(self._is_near(target, sources), sources <= target)[:, None]
        return context, ops.where(seen, ops.take(scores, self._place(sources), axis=-1), 0.0), after
