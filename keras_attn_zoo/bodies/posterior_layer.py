"""The posterior of a latent alignment as a layer, whose output is drawn as the scores of one head."""

from typing import Any, Self

import keras

from keras_attn_zoo.bodies.nested_layers import build_once, deserialize_layers
from keras_attn_zoo.layers import LatentAlignmentHead
from keras_attn_zoo.support.configuration import Configured
from keras_attn_zoo.support.types import Config, Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class Posterior(Configured, keras.layers.Layer):
    """Posterior of a `LatentAlignmentHead`, as the scores of one head: `(batch, 1, target, source)`.

    It is a separate layer because Keras expects all calls of a layer in a graph to have as many outputs as the first.
    """

    def __init__(self, head: LatentAlignmentHead, **kwargs: Any) -> None:
        super().__init__(**{"dtype": "float32", **kwargs}, autocast=False)
        self.head = head

    def build(
        self,
        prior_shape: Shape,
        embedded_shape: Shape,
        states_shape: Shape,
        encoded_shape: Shape,
        targets_shape: Shape | None = None,
    ) -> None:
        """Build the head, unless it is already built."""
        build_once(self.head, prior_shape, embedded_shape, states_shape, encoded_shape)
        self.built = True

    def call(self, prior: Tensor, embedded: Tensor, states: Tensor, encoded: Tensor, targets: Tensor) -> Tensor:
        """Return p(j|e_i)."""
        return self.head(prior, embedded, states, encoded, targets)["posterior"][:, None]

    def compute_output_spec(
        self, prior: Tensor, embedded: Tensor, states: Tensor, encoded: Tensor, targets: Tensor
    ) -> Any:
        """Return the shape and type."""
        batch, target, source = prior.shape
        return keras.KerasTensor((batch, 1, target, source), "float32")

    @classmethod
    def from_config(cls, config: Config) -> Self:
        """Create a layer from the result of `get_config`."""
        return cls(**deserialize_layers(config, "head"))
