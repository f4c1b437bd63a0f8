"""Steps of self-attention: counted positions, within a length known beforehand."""

import operator
from typing import Any

from keras import ops

from keras_attn_zoo.types import Tensor


class SelfAttentionSteps:
    """What self-attention adds to an `AttentionLayer`: steps that start from only a length and a batch size.

    The state of such a layer holds what it has seen (keys and values, or a sum) and counts positions::

        memory = layer.prepare(max_length=100)
        state = layer.initial_state(memory, batch_size=8)
    """

    # Of the `AttentionLayer` beside it.
    check_built: Any

    def positions(self, max_length: int | None) -> Tensor:
        """Return the numbers of all positions that steps may reach."""
        self.check_built()
        if max_length is None:
            raise ValueError(
                f"{type(self).__name__}: steps of self-attention need `max_length` in `prepare`. Received: None."
            )
        return ops.arange(max_length, dtype="int32")

    def first_position(self, batch_size: int | None) -> Tensor:
        """Return the number of the position that is next, 0 for every sentence."""
        if batch_size is None:
            raise ValueError(
                f"{type(self).__name__}: steps of self-attention need `batch_size` in `initial_state`. Received: None."
            )
        return ops.zeros((batch_size,), dtype="int32")

    def index_of_step(self, position: Tensor, max_length: int) -> int | Tensor:
        """The position of a step, from that of every sentence: a plain integer if known.

        Raises:
            ValueError: a position beyond `max_length`; inside a compiled loop, see `within`.
        """
        try:
            # Not `int`, in which TensorFlow's AutoGraph sees a cast.
            known = operator.index(position[0])
        except TypeError:
            return position[0]
        if known >= max_length:
            raise ValueError(
                f"{type(self).__name__}: a step beyond the `max_length`={max_length} of `prepare`: give a larger one. "
                f"Received: position {known}, where the first is 0."
            )
        return known

    def within(self, context: Tensor, index: int | Tensor, max_length: int) -> Tensor:
        """The context of a step; NaN beyond `max_length` inside a compiled loop, where nothing can be raised."""
        return context if isinstance(index, int) else ops.where(index < max_length, context, float("nan"))
