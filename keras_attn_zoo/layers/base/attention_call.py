"""The call of an attention: the signature, masks, shapes and checks of `keras.layers.MultiHeadAttention`."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from keras_attn_zoo.kernels import combine_masks, padding_masks, without_padding
from keras_attn_zoo.layers.base.checks import as_mask, check_inputs, check_key_shape
from keras_attn_zoo.layers.base.rematerialization import Rematerialized
from keras_attn_zoo.layers.base.target_positions import empty_result
from keras_attn_zoo.support.configuration import Configured
from keras_attn_zoo.support.types import Shape, Tensor

# As `keras.layers.MultiHeadAttention` takes them after query, value and key.
_MASKS = ("query_mask", "value_mask", "key_mask", "attention_mask")


class AttentionCall(Configured, Rematerialized):
    """Base class of `AttentionLayer`, which has the mechanism: from the arguments of a call to its body.

    `num_heads`, `attends_to`, `prepare`, `attend` and the `attend_` methods are those of `AttentionLayer`.
    """

    # How near a source position must be to the target position, as in Keras' layer; None for any.
    sliding_window: int | None = None
    # Whether no position attends to later ones, whatever `use_causal_mask` says.
    always_causal = False
    num_heads: int
    attends_to: str
    prepare: Callable[..., Any]
    attend: Callable[..., Any]
    attend_in_chunks: Callable[..., Any]
    attend_without_weights: Callable[..., Any]

    def __call__(
        self,
        query: Tensor,
        value: Tensor | None = None,
        key: Tensor | None = None,
        *masks: Tensor | None,
        **kwargs: Any,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Call the layer; `layer(x, x)` is self-attention, as in Keras."""
        masks = tuple(as_mask(self, name, x) for name, x in zip(_MASKS, masks, strict=False)) + masks[len(_MASKS) :]
        kwargs = {name: as_mask(self, name, x) if name.endswith("mask") else x for name, x in kwargs.items()}
        if self.attends_to == "itself":
            # Compared here, since casting would make two tensors of one.
            value, key = (None if x is query else x for x in (value, key))
        # Before Keras builds the layer, for which any shapes would do.
        given = dict(zip(_MASKS, masks, strict=False)) | kwargs
        given.setdefault("query_mask", given.get("mask"))
        self.check_inputs(query, value, key, {name: given.get(name) for name in _MASKS})
        return super().__call__(query, value, key, *masks, **kwargs)

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
        """Attend from every query position; the signature of `keras.layers.MultiHeadAttention`.

        `mask`, where Keras puts the mask of a call with one tensor, is another name for `query_mask`.
        """
        masks = query_mask if query_mask is not None else mask, value_mask, key_mask, attention_mask
        return self.run(query, value, key, masks, return_attention_scores, training, use_causal_mask)

    def run(
        self,
        query: Tensor,
        value: Tensor | None,
        key: Tensor | None,
        masks: Sequence[Tensor | None],
        return_attention_scores: bool,
        training: bool | None,
        use_causal_mask: bool,
        **prepared: Tensor | None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Run the body of a call; any further arguments of a mechanism's call go to its `prepare`."""
        source = query if value is None else value
        lengths = ops.shape(query)[1], ops.shape(source)[1]
        if 0 in (query.shape[1], source.shape[1]):
            width = self.context_width(query.shape, source.shape)
            context, scores = empty_result(query, source, self.num_heads, width, self.compute_dtype)
        else:
            query_mask, value_mask, attention_mask = padding_masks(query, value, *masks)
            window, causal = self.sliding_window, use_causal_mask or self.always_causal
            memory = self.prepare(source, key=key, value_mask=value_mask, **prepared)
            query = without_padding(query, query_mask)
            if not return_attention_scores and attention_mask is window is None:
                context = self.attend_in_chunks(query, memory, query_mask, causal, training)
                if context is not None:
                    return context
            mask = combine_masks(query_mask, value_mask, attention_mask, causal, *lengths, window)
            if not return_attention_scores:
                alone = causal and query_mask is value_mask is attention_mask is window is None
                context = self.attend_without_weights(query, memory, mask, alone, training)
                if context is not None:
                    return context
            context, scores = self.attend(query, memory, mask, training=training)
        return (context, scores) if return_attention_scores else context

    def compute_output_spec(
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
        """Return shapes and types without running the layer."""
        source = query if value is None else value
        shape = self.compute_output_shape(query.shape, source.shape, None if key is None else key.shape)
        context = keras.KerasTensor(shape, self.compute_dtype)
        if not return_attention_scores:
            return context
        shape = (query.shape[0], self.num_heads, query.shape[1], source.shape[1])
        return context, keras.KerasTensor(shape, "float32")

    def compute_output_shape(
        self, query_shape: Shape, value_shape: Shape | None = None, key_shape: Shape | None = None
    ) -> tuple[int | None, ...]:
        """Return the shape of the context; raise if value and key differ in more than their width."""
        check_key_shape(self, value_shape, key_shape)
        return (*query_shape[:-1], self.context_width(query_shape, value_shape or query_shape))

    def context_width(self, query_shape: Shape, value_shape: Shape) -> int | None:
        """Return the width of the context."""
        return value_shape[-1]

    def check_inputs(
        self, query: Tensor, value: Tensor | None, key: Tensor | None, masks: dict[str, Tensor | None]
    ) -> None:
        """Raise if ranks or known sizes of a call do not fit; mechanisms may add checks."""
        check_inputs(self, query, value, key, masks)
