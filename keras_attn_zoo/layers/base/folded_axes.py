"""Attention along any axes of its inputs, and contexts with several axes, by reshaping around a plain call."""

import math
from typing import Any

import keras
from keras import ops

from keras_attn_zoo.layers.base.checks import check_key_shape
from keras_attn_zoo.layers.base.headed_attention import HeadedAttention
from keras_attn_zoo.support.types import Config, Shape, Tensor, TensorTree


class FoldedAxes(HeadedAttention):
    """Mixin for an attention with heads whose call attends along any axes and to contexts with several, as Keras' does.

    `attention_axes` are joined to one axis of positions, by default all but the first and the last; all others but the
    last are joined to that of the batch. A mask of the query, value or key has all axes of its tensor but the last. An
    `attention_mask` is `(batch, other axes, heads, target axes, source axes)`; where there are fewer, those before the
    target axes are missing, the last of them first, as in Keras. Scores have the same axes.

    Steps attend along the one axis of positions.
    """

    def call(
        self,
        query: Tensor,
        value: Tensor | None = None,
        key: Tensor | None = None,
        query_mask: Tensor | None = None,
        value_mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        use_causal_mask: bool = False,
        mask: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Attend from every query position; see `AttentionLayer.call`."""
        given = query_mask if query_mask is not None else mask, value_mask, key_mask, attention_mask
        flags = return_attention_scores, training, use_causal_mask
        if self._is_plain(query):
            found = self.run(query, value, key, given, *flags)
            context, *scores = found if return_attention_scores else (found,)
        else:
            folding = _Folding(self._attended(query), query, query if value is None else value)
            masks = [None if x is None else folding.joined(ops.convert_to_tensor(x)) for x in given[:3]]
            masks.append(None if attention_mask is None else folding.mask_of_pairs(attention_mask))
            q, v, k = (None if x is None else folding.joined(x, last=1) for x in (query, value, key))
            found = self.run(q, v, k, masks, *flags)
            context, *scores = found if return_attention_scores else (found,)
            context, scores = folding.parted(context), [folding.parted_scores(x) for x in scores]
        context = self._with_axes(context)
        return (context, *scores) if return_attention_scores else context

    def step(
        self,
        query: Tensor,
        memory: TensorTree,
        state: TensorTree,
        noise: TensorTree | None = None,
        position: int | Tensor | None = None,
    ) -> tuple[Tensor, Tensor, TensorTree]:
        """Attend from one position; see `AttentionLayer.step`."""
        context, scores, state = super().step(query, memory, state, noise, position)
        return self._with_axes(context), scores, state

    def _with_axes(self, context):
        """The context with the axes of `output_shape`."""
        if self.output_axes is None or len(self.output_axes) == 1:
            return context
        return ops.reshape(context, (*ops.shape(context)[:-1], *self.output_axes))

    def _attended(self, query):
        """The axes that the layer attends along."""
        rank = len(query.shape)
        return tuple(axis + rank if axis < 0 else axis for axis in self.attention_axes or range(1, rank - 1))

    def _is_plain(self, query):
        return len(query.shape) == 3 and self._attended(query) == (1,)

    def check_inputs(
        self, query: Tensor, value: Tensor | None, key: Tensor | None, masks: dict[str, Tensor | None]
    ) -> None:
        """Raise if ranks or known sizes of a call do not fit."""
        if not hasattr(query, "shape") or len(query.shape) < 3 or self._is_plain(query):
            return super().check_inputs(query, value, key, masks)
        name, rank, axes = type(self).__name__, len(query.shape), self._attended(query)
        if not all(0 <= axis < rank - 1 for axis in axes) or len(set(axes)) < len(axes):
            raise ValueError(
                f"{name}: `attention_axes` must be different axes of the query, but not the last. "
                f"Received: attention_axes={self.attention_axes}, query of shape {tuple(query.shape)}."
            )
        for what, x in (("value", value), ("key", key)):
            if x is not None and len(x.shape) != rank:
                raise ValueError(
                    f"{name}: `{what}` must have as many axes as the query. "
                    f"Received: query of shape {tuple(query.shape)}, {what} of shape {tuple(x.shape)}."
                )
        value = query if value is None else value
        check_key_shape(self, value.shape, None if key is None else key.shape)
        others = [axis for axis in range(rank - 1) if axis not in axes]
        if any(None not in (query.shape[i], value.shape[i]) and query.shape[i] != value.shape[i] for i in others):
            raise ValueError(
                f"{name}: the axes of query and value that are not attended along must be equal. "
                f"Received: query {tuple(query.shape)}, value {tuple(value.shape)}, attention_axes={axes}."
            )
        for what, x in (("query", query), ("value", value), ("key", value)):
            mask = masks[f"{what}_mask"]
            if mask is not None and len(mask.shape) != rank - 1:
                raise ValueError(
                    f"{name}: `{what}_mask` must have all axes of its tensor but the last. "
                    f"Received: mask {tuple(mask.shape)}, {what} {tuple(x.shape)}."
                )
        for what in ("sliding_window", "positions"):
            if getattr(self, what) is not None and len(axes) > 1:
                raise ValueError(f"{name}: `{what}` needs one axis to attend along. Received: attention_axes={axes}.")
        return None

    def compute_output_shape(
        self, query_shape: Shape, value_shape: Shape | None = None, key_shape: Shape | None = None
    ) -> tuple[int | None, ...]:
        """Return the shape of the context; raise if value and key differ in more than their width."""
        check_key_shape(self, value_shape, key_shape)
        return (*query_shape[:-1], *(self.output_axes or (query_shape[-1],)))

    def compute_output_spec(self, query: Tensor, value: Tensor | None = None, *args: Any, **kwargs: Any) -> Any:
        """Return shapes and types without running the layer."""
        found = super().compute_output_spec(query, value, *args, **kwargs)
        if not isinstance(found, tuple) or self._is_plain(query):
            return found
        axes = self._attended(query)
        others = [query.shape[axis] for axis in range(len(query.shape) - 1) if axis not in axes]
        both = [x.shape[axis] for x in (query, query if value is None else value) for axis in axes]
        return found[0], keras.KerasTensor((*others, self.num_heads, *both), "float32")

    def get_config(self) -> Config:
        """Return the arguments of the constructor."""
        return {**super().get_config(), "attention_axes": self.attention_axes, "sliding_window": self.sliding_window}


class _Folding:
    """The axes of a call, and how they are joined to those of a batch and of positions, and parted again."""

    def __init__(self, axes, query, source):
        self.axes, self.rank = axes, len(query.shape)
        self.others = tuple(axis for axis in range(self.rank - 1) if axis not in axes)
        sizes = ops.shape(query), ops.shape(source)
        self.batch = [sizes[0][axis] for axis in self.others]
        self.target, self.source = ([size[axis] for axis in axes] for size in sizes)

    def joined(self, x, last=0):
        """`(batch, positions)`, and the last axes unchanged, of an input or its mask."""
        x = ops.transpose(x, (*self.others, *self.axes, *range(self.rank - 1, self.rank - 1 + last)))
        size = ops.shape(x)
        ends = size[len(size) - last :] if last else ()
        return ops.reshape(x, (-1, math.prod(size[len(self.others) : self.rank - 1]), *ends))

    def mask_of_pairs(self, mask):
        """`(batch, heads or 1, target, source)`."""
        mask, pair = ops.convert_to_tensor(mask), 2 * len(self.axes)
        before = len(mask.shape) - pair
        for _ in range(len(self.others) + 1 - before):
            mask = ops.expand_dims(mask, axis=-pair - 1)
        mask = ops.broadcast_to(mask, (*self.batch, ops.shape(mask)[len(self.batch)], *self.target, *self.source))
        heads = ops.shape(mask)[len(self.batch)]
        return ops.reshape(mask, (-1, heads, math.prod(self.target), math.prod(self.source)))

    def parted(self, context):
        """The context with the axes of the query, in their order."""
        context = ops.reshape(context, (*self.batch, *self.target, context.shape[-1]))
        order = (*self.others, *self.axes)
        return ops.transpose(context, (*(order.index(axis) for axis in range(self.rank - 1)), self.rank - 1))

    def parted_scores(self, scores):
        """Scores of all axes."""
        return ops.reshape(scores, (*self.batch, scores.shape[1], *self.target, *self.source))
