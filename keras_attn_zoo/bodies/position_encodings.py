"""What a Transformer knows positions by: sines, in either order, or learned vectors."""

from typing import Any

import keras
import keras_hub
import numpy as np
from keras import ops

from keras_attn_zoo.layers.base.checks import check_positive
from keras_attn_zoo.layers.base.position_attention import check_length
from keras_attn_zoo.support.configuration import Configured
from keras_attn_zoo.support.types import Tensor


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class HalvedSinePositions(Configured, keras.layers.Layer):
    """Sinusoidal positions, the first half of a vector sines and the second half cosines.

    Use it for models of Marian, which KerasHub's `SinePositionEncoding`, where sines
    and cosines alternate, does not fit.

        p_j = (sin(j ω_0), ..., sin(j ω_(d/2-1)), cos(j ω_0), ..., cos(j ω_(d/2-1))),   ω_i = 10000^(-2i/d)

    Args:
        width: d; if it is odd, there is one more sine than cosines.
        max_length: the longest sentence. The table is exact to float32 at every position.

    Shapes:
        in `(batch, length, width)`, whose values do not matter; out `(1, length, width)`.

    Raises:
        ValueError: sizes that are not positive integers; a sentence longer than `max_length`.

    Example:
        >>> HalvedSinePositions(4, max_length=8)(keras.ops.zeros((2, 3, 4)))  # (1, 3, 4)

    Source: Vaswani, section 3.5, in the order of Marian and Transformers' `MarianMTModel`.
    """

    def __init__(self, width: int, max_length: int, **kwargs: Any) -> None:
        super().__init__(**{"dtype": "float32", **kwargs}, autocast=False)
        self.width = check_positive(self, "width", width)
        self.longest_sentence = self.max_length = check_positive(self, "max_length", max_length)
        self.table = sine_table(width, max_length)

    def call(self, x: Tensor) -> Tensor:
        """Return the positions of a batch."""
        length = check_length(self, ops.shape(x)[1], self.max_length)
        return ops.convert_to_tensor(self.table)[None, :length]

    def compute_output_spec(self, x: Tensor) -> Any:
        """Return the shape and type."""
        return keras.KerasTensor((1, x.shape[1], self.width), "float32")


def sine_table(width: int, max_length: int) -> np.ndarray:
    """Return the positions `(max_length, width)` in float32.

    Example:
        >>> sine_table(2, 2).astype("float64").round(3).tolist()
        [[0.0, 1.0], [0.841, 0.54]]
    """
    angles = np.arange(max_length)[:, None] / 10000.0 ** (np.arange(0, width, 2) / width)
    return np.concatenate([np.sin(angles), np.cos(angles)[:, : width // 2]], axis=1).astype("float32")


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class SinePositions(keras_hub.layers.SinePositionEncoding):
    """KerasHub's layer, which under PyTorch cannot count up to a length that is left open."""

    def call(self, inputs: Tensor) -> Tensor:
        """Return the positions of a batch."""
        positions = ops.arange(ops.shape(inputs)[-2], dtype="int32")
        return super().call(inputs, positions=ops.cast(positions, self.compute_dtype))


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class LearnedPositions(keras_hub.layers.PositionEmbedding):
    """KerasHub's layer, which knows its length by another name."""

    @property
    def longest_sentence(self) -> int:
        """The number of positions."""
        return self.sequence_length

    def call(self, inputs: Tensor) -> Tensor:
        """Return the positions of a batch."""
        check_length(self, ops.shape(inputs)[1], self.sequence_length)
        return super().call(inputs)


def position_layer(kind: str, width: int, max_length: int, name: str) -> keras.layers.Layer | None:
    """Return a layer from `(batch, length, width)` to positions, or None.

    It computes in float32, to be exact at large positions.

    Example:
        >>> position_layer("none", 4, 8, "positions") is None
        True
    """
    if kind == "sine":
        return SinePositions(dtype="float32", name=name)
    if kind == "halved_sine":
        return HalvedSinePositions(width, max_length, name=name)
    if kind == "learned":
        return LearnedPositions(
            max_length, initializer=keras.initializers.RandomNormal(stddev=0.02), dtype="float32", name=name
        )
    return None
