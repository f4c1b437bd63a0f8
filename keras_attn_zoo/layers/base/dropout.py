"""Dropout that a `keras.RematScope` computes again with the same random numbers."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_attn_zoo import kernels
from keras_attn_zoo.layers.base.rematerialization import Rematerialized, where_training
from keras_attn_zoo.support.types import Config, Tensor


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class Dropout(Rematerialized, keras.layers.Dropout):
    """Keep each input with probability 1 - rate, scaled by 1 / (1 - rate); the others are 0.

    Use it as `keras.layers.Dropout`, from which it differs in its random numbers.

    Args:
        rate: share of the inputs that are dropped, in [0, 1].
        **kwargs: see `keras.layers.Dropout`.

    Shapes: out as in.

    Example:
        >>> Dropout(0.5, seed=1)(keras.ops.ones((2, 3)), training=True)  # zeros and twos

    Source: Srivastava et al., Dropout: a simple way to prevent neural networks from overfitting, 2014.
    """

    def call(self, inputs: Tensor, training: bool | None = False) -> Tensor:
        """Drop, in training."""
        if not self.rate:
            # Before `training` is asked, which `keras.RematScope` traces.
            return inputs
        if ops.is_tensor(training):
            return where_training(training, self.call(inputs, training=True), self.call(inputs, training=False))
        if not training or self.noise_shape is not None:
            return super().call(inputs, training=training)
        return kernels.dropout(inputs, self.rate, self.seed_generator)


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class ActivationDropout(Dropout):
    """Apply an activation, then dropout.

    Use it between the two maps of a feed-forward network.

    Args:
        rate: see `Dropout`.
        activation: its name, or a function that Keras can save.
        **kwargs: see `keras.layers.Dropout`.

    Shapes: out as in.

    Raises:
        ValueError: an activation that Keras does not know.

    Example:
        >>> ActivationDropout(0.5, "relu")(-keras.ops.ones((2, 3)))  # zeros
    """

    def __init__(self, rate: float, activation: str | Callable[[Tensor], Tensor], **kwargs: Any) -> None:
        super().__init__(rate, **kwargs)
        # Under a `keras.RematScope`, Keras puts another function in its place.
        self.activation = keras.activations.get(activation)
        self._saved_activation = keras.activations.serialize(self.activation)

    def call(self, inputs: Tensor, training: bool | None = False) -> Tensor:
        """Activate; drop, in training."""
        return super().call(self.activation(inputs), training=training)

    def get_config(self) -> Config:
        """Return the arguments of the constructor."""
        return {**super().get_config(), "activation": self._saved_activation}
