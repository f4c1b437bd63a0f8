"""Steps of self-attention: what they have seen so far, counted positions, within a length known beforehand."""

from keras import ops

from keras_attn_zoo.kernels import chunk_sizes, known_index, write
from keras_attn_zoo.layers.base.attention_layer import AttentionLayer
from keras_attn_zoo.layers.base.checks import check_built
from keras_attn_zoo.layers.base.chunked_cache import reached_contexts, write_places
from keras_attn_zoo.layers.base.headed_attention import HeadedAttention
from keras_attn_zoo.layers.base.target_positions import as_rows
from keras_attn_zoo.support.types import Tensor, TensorTree


class SelfAttentionSteps(AttentionLayer):
    """Mixin that gives an `AttentionLayer` steps of self-attention, which need only a length and a batch size to start.

    A step first takes in its own position, then attends to all positions seen, as a call does. A subclass defines

    - `nothing_seen`: what steps have seen before the first position, a dict of tensors;
    - `see`: the same with one more position.

    These tensors and the number of the next position are the state of the steps; `ahead`, `advance` and `weigh` find
    them in the memory, with the query as "query" and the position as "index"::

        memory = layer.prepare(max_length=100)
        state = layer.initial_state(memory, batch_size=8)

    A class with `beams_share` has a second form of its steps, for a search with several beams: see `shared_state`. It
    may have seen lists of tensors, parts of which a step reads those that it has reached.
    """

    # Not inherited: a subclass may see something else.
    beams_share = False

    def nothing_seen(self, batch_size: int, max_length: int) -> TensorTree:
        """Return what steps have seen before the first position."""
        raise NotImplementedError

    def see(self, query: Tensor, seen: TensorTree, index: int | Tensor) -> TensorTree:
        """Return what steps have seen up to a position whose query is `(batch, 1, query_dim)`."""
        raise NotImplementedError

    def mask_of_step(self, memory: TensorTree, position: Tensor) -> Tensor | None:
        """Return the mask of a step at the position `(batch,)` of each sentence; None if weights need none."""
        return (memory["positions"][None] <= position[:, None])[:, None, None]

    def prepare(
        self,
        value: Tensor | None = None,
        key: Tensor | None = None,
        value_mask: Tensor | None = None,
        max_length: int | None = None,
    ) -> TensorTree:
        """Return the memory of a call, as cross-attention has it; without a value, that of steps: their numbers."""
        if value is not None:
            return super().prepare(value, key=key, value_mask=value_mask)
        check_built(self)
        if max_length is None:
            raise ValueError(
                f"{type(self).__name__}: steps of self-attention need `max_length` in `prepare`. Received: None."
            )
        return {"positions": ops.arange(max_length, dtype="int32")}

    def initial_state(self, memory: TensorTree, batch_size: int | None = None) -> TensorTree:
        """Return the state before the first position; empty for the memory of a call."""
        if "positions" not in memory:
            return super().initial_state(memory, batch_size)
        if batch_size is None:
            raise ValueError(
                f"{type(self).__name__}: steps of self-attention need `batch_size` in `initial_state`. Received: None."
            )
        seen = self.nothing_seen(batch_size, memory["positions"].shape[0])
        return {**seen, "position": ops.zeros((batch_size,), dtype="int32")}

    def shared_state(self, memory: TensorTree, batch_size: int, beams: int) -> TensorTree | None:
        """Return the state before the first position if all beams of a sentence are to share it; None if they cannot.

        Every position of it has a place for each beam, so a search need not copy it when hypotheses change their beam.
        The memory of a step then needs "visible", a bool tensor `(batch, 1, beams, max_length * beams)`: what each beam
        descends from, this step included.
        """
        if not self._shares():
            return None
        seen = self.no_beam_seen(batch_size, memory["positions"].shape[0], beams)
        return {**seen, "position": ops.zeros((batch_size,), dtype="int32")}

    def _shares(self):
        return bool(type(self).__dict__.get("beams_share"))

    def no_beam_seen(self, batch_size: int, max_length: int, beams: int) -> TensorTree:
        """Return what steps with a shared state have seen before the first position."""
        raise NotImplementedError

    def see_beams(self, query: Tensor, seen: TensorTree, index: int | Tensor) -> TensorTree:
        """Return what steps with a shared state have seen up to a position; the queries are `(batch, beams, width)`."""
        raise NotImplementedError

    def step(
        self,
        query: Tensor,
        memory: TensorTree,
        state: TensorTree,
        noise: TensorTree | None = None,
        position: int | Tensor | None = None,
    ) -> tuple[Tensor, Tensor, TensorTree]:
        """Attend from one position; see `AttentionLayer.step`."""
        if "visible" not in memory:
            return super().step(query, memory, state, noise, position)
        beams = memory["visible"].shape[2]
        query = ops.reshape(ops.cast(query, self.compute_dtype), (-1, beams, query.shape[-1]))
        context, scores, state = self.attend_once(query, *self.observe(query, memory, state), noise)
        context, scores = as_rows(context, scores)
        places = (-1, self.num_heads, memory["positions"].shape[0], beams)
        return context, ops.sum(ops.reshape(scores, places), axis=-1), state

    def observe(
        self, query: Tensor, memory: TensorTree, state: TensorTree
    ) -> tuple[TensorTree, Tensor | None, TensorTree]:
        """Add the current position to those seen; with a cross-attention memory, defer to the base class."""
        if "positions" not in memory:
            return super().observe(query, memory, state)
        position, seen = state["position"], {name: x for name, x in state.items() if name != "position"}
        index = self._index(position, memory["positions"].shape[0])
        if "visible" in memory:
            seen, mask = self.see_beams(query, seen, index), memory["visible"]
        else:
            seen, mask = self.see(query, seen, index), self.mask_of_step(memory, position)
        return {**memory, **seen, "query": query, "index": index}, mask, {**seen, "position": position + 1}

    def attend_once(
        self,
        query: Tensor,
        memory: TensorTree,
        mask: Tensor | None,
        state: TensorTree,
        noise: TensorTree | None = None,
        positions: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, TensorTree]:
        """Run a step; beyond `max_length` in a compiled loop, where nothing can be raised, its context is NaN."""
        if "index" in memory:
            positions = ops.reshape(ops.cast(memory["index"], "int32"), (1,))
        context, scores, state = super().attend_once(query, memory, mask, state, noise, positions)
        if "index" in memory and not isinstance(memory["index"], int):
            context = ops.where(memory["index"] < memory["positions"].shape[0], context, float("nan"))
        return context, scores, state

    def _index(self, position, max_length):
        """The position of a step, from that of every sentence: a plain integer if known.

        Raises:
            ValueError: a position beyond `max_length`; inside a compiled loop, see `attend_once`.
        """
        index = known_index(position[0])
        if isinstance(index, int) and index >= max_length:
            raise ValueError(
                f"{type(self).__name__}: a step beyond the `max_length`={max_length} of `prepare`: give a larger one. "
                f"Received: position {index}, where the first is 0."
            )
        return index


class ProjectionsSeen(SelfAttentionSteps, HeadedAttention):
    """Steps of an attention with heads that have seen the keys and values, or the values alone, of all positions."""

    def room(self, max_length: int) -> int:
        """Return how many positions are kept, if not in parts."""
        return max_length

    def keep(self, past: Tensor, projected: Tensor, index: int | Tensor) -> Tensor:
        """Return projections `(batch, heads, room, ...)` with those of one position more."""
        return write(past, projected, index, axis=2)

    def nothing_seen(self, batch_size: int, max_length: int) -> TensorTree:
        """Return empty places; of a class with `beams_share`, lists of their parts."""
        shape, widths = (batch_size, self.num_key_value_heads), {"key": self.key_dim, "value": self.value_dim}

        def empty(part, size):
            return ops.zeros((*shape, size, widths[part]), dtype=self.operand_dtype)

        if not self._shares():
            return {part: empty(part, self.room(max_length)) for part in self._seen}
        return {part: [empty(part, size) for size in chunk_sizes(max_length)] for part in self._seen}

    def see(self, query: Tensor, seen: TensorTree, index: int | Tensor) -> TensorTree:
        """Project the position."""
        now: TensorTree = {}
        for part in self._seen:
            past, projected = seen[part], self._projected(part, query, index)
            if not self._shares():
                now[part] = self.keep(past, projected, index)
            elif len(past) == 1:
                now[part] = [self.keep(past[0], projected, index)]
            else:
                now[part] = write_places(past, projected, index, axis=2)
        return now

    def no_beam_seen(self, batch_size: int, max_length: int, beams: int) -> TensorTree:
        """Return lists of empty places: for keys as columns, as the energies of a part are then one plain product."""
        shapes = {"key": (self.key_dim, -1), "value": (-1, self.value_dim)}
        places = [size * beams for size in chunk_sizes(max_length)]

        def empty(part, count):
            shape = [count if size < 0 else size for size in shapes[part]]
            return ops.zeros((batch_size, self.num_key_value_heads, *shape), dtype=self.operand_dtype)

        return {part: [empty(part, count) for count in places] for part in self._seen}

    def see_beams(self, query: Tensor, seen: TensorTree, index: int | Tensor) -> TensorTree:
        """Project the position of every beam."""
        now, place = {}, index * query.shape[1]
        for part in self._seen:
            projected = self._projected(part, query, index)
            if part == "key":
                now[part] = write_places(seen[part], ops.transpose(projected, (0, 1, 3, 2)), place, axis=3)
            else:
                now[part] = write_places(seen[part], projected, place, axis=2)
        return now

    def weigh(
        self, weights: Tensor, memory: TensorTree, mask: Tensor | None = None, training: bool | None = None
    ) -> Tensor:
        """Return the contexts of all heads, joined."""
        if "index" not in memory or not self._shares():
            return super().weigh(weights, memory, mask, training)
        # A position has a place for each query: for one, or for all beams.
        place = memory["index"] * weights.shape[2]
        weights = self.drop(weights, training)
        return self.merge(reached_contexts(weights, memory["value"], place, self.weighted), mask)

    def _projected(self, part, query, index):
        return ops.cast(self.project(part, query, index), self.operand_dtype)

    @property
    def _seen(self):
        return [part for part in self.projections if part != "query"]
