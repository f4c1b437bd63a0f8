"""Gaussian mixture attention: a window of Gaussians over the source, which only moves forward."""

from typing import Any

import keras
from keras import ops

from keras_attn_zoo.layers.base.attention_layer import AttentionLayer
from keras_attn_zoo.layers.base.checks import check_positive
from keras_attn_zoo.layers.base.kernel_initialization import add_kernel
from keras_attn_zoo.layers.registry import attention
from keras_attn_zoo.support.types import Initializer, Shape, Tensor, TensorTree

# Beyond e^20 of a step or a height, squares would leave float32.
_LARGEST_EXPONENT = 20.0


@attention(
    "gaussian_mixture",
    source="Graves 46-51",
    places=("cross",),
    year=2013,
    cost=("1 (a cumulative sum)", "I·J·(k + d)", "J·(k + d)", "k positions"),
)
class GaussianMixtureAttention(AttentionLayer):
    """Attention by position: a window of K Gaussians, which each target position moves forward over the source.

    Use it as cross-attention of an RNN decoder, queried by the current state, if
    source and target advance together: it compares no words, and costs little.

        κ_i^k = κ_{i-1}^k + exp(κ̂_i^k),   κ_0 = 0
        α_ij  = Σ_k exp(η̂_i^k) exp(-exp(β̂_i^k) (κ_i^k - j)²)
        c_i   = Σ_j α_ij h_j
        [η̂_i ; β̂_i ; κ̂_i] = W s_i + b

    Symbols: s decoder state (the query), h_j encoder state (the value); k counts the components; j counts from 1; W
    `(query_dim, 3 components)`.

    Args:
        components: K.
        kernel_initializer: initialiser of W.

    Shapes: see `AttentionLayer`; keys are ignored.

    Scores: α_ij / max(1, Σ_l α_il), as the weights may sum to more than 1; the context is of the weights as they are.

    Masking: see `AttentionLayer`. A row with nothing to attend to moves the window all the same.

    State: `{"positions": (batch, 1, 1, components)}`, κ.

    Raises:
        ValueError: components that are no positive integer; see `AttentionLayer`.

    Example:
        >>> layer = GaussianMixtureAttention(components=3)
        >>> context = layer(keras.ops.ones((2, 3, 4)), keras.ops.ones((2, 5, 6)))  # (2, 3, 6)

    Source: Graves, Generating sequences with recurrent neural networks, 2013, equations 46 to 51.

    Differences from the paper: exponents are cut off at 20. K = 10 is its choice.
    """

    # Far beyond the source, weights are 0 in float32.
    may_attend_nothing = True
    softmax_alone = "its weights are Gaussians of positions, without energies"

    def __init__(self, components: int = 10, kernel_initializer: Initializer = "glorot_uniform", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.components = check_positive(self, "components", components)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None) -> None:
        """Create W and b."""
        self.built_widths = {"query": query_shape[-1]}
        # Positions are in float32 under every policy: bfloat16 would move the window by several in a long sentence.
        self.kernel = add_kernel(self, "kernel", (query_shape[-1], 3 * self.components), autocast=False)
        self.bias = self.add_weight(name="bias", shape=(3 * self.components,), initializer="zeros", autocast=False)
        self.built = True

    def ahead(self, query: Tensor, memory: TensorTree, positions: Tensor | None = None) -> TensorTree:
        """Return heights, sharpness and steps of the Gaussians, `(batch, 1, target, components)`."""
        found = ops.matmul(ops.cast(query, "float32"), ops.cast(self.kernel, "float32"))
        found = found + ops.cast(self.bias, "float32")
        found = ops.exp(ops.minimum(found, _LARGEST_EXPONENT))[:, None]
        return dict(zip(("height", "sharpness", "step"), ops.split(found, 3, axis=-1), strict=True))

    def initial_state(self, memory: TensorTree, batch_size: int | None = None) -> TensorTree:
        """Return positions before the source."""
        return {"positions": ops.zeros((ops.shape(memory["mask"])[0], 1, 1, self.components), dtype="float32")}

    def advance(
        self, at: TensorTree, memory: TensorTree, mask: Tensor | None, state: TensorTree
    ) -> tuple[Tensor, TensorTree]:
        """Move the window, and return its weights."""
        positions = state["positions"] + at["step"]
        return self._window(at, positions, memory, mask), {"positions": positions}

    def _window(self, at, positions, memory, mask):
        """α, with the Gaussians at positions `(batch, 1, target, components)`."""
        places = 1.0 + ops.arange(ops.shape(memory["mask"])[1], dtype="float32")
        distances = positions[..., None, :] - places[:, None]
        weights = ops.exp(-at["sharpness"][..., None, :] * ops.square(distances))
        weights = ops.sum(at["height"][..., None, :] * weights, axis=-1)
        return weights if mask is None else ops.where(mask, weights, 0.0)

    def attend(
        self, query: Tensor, memory: TensorTree, mask: Tensor | None, training: bool | None = None
    ) -> tuple[Tensor, Tensor]:
        """Attend from all target positions at once, as the window's positions are sums."""
        at = self.ahead(query, memory)
        weights = self._window(at, ops.cumsum(at["step"], axis=2), memory, mask)
        return self.weigh(weights, memory, mask, training), _shares(weights)

    def attend_once(
        self,
        query: Tensor,
        memory: TensorTree,
        mask: Tensor | None,
        state: TensorTree,
        noise: TensorTree | None = None,
        positions: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, TensorTree]:
        """Run a step on what `observe` returned; see `AttentionLayer.attend_once`."""
        context, weights, state = super().attend_once(query, memory, mask, state, noise, positions)
        return context, _shares(weights), state


def _shares(weights):
    return weights / ops.maximum(ops.sum(weights, axis=-1, keepdims=True), 1.0)
