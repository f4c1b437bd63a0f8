"""Bahdanau attention: energies from a feed-forward network of decoder state and encoder state."""

from typing import Any

import keras
from keras import ops

from keras_attn_zoo.layers.base.additive_energies import (
    add_additive_weights,
    additive_energies,
    energy_vector,
    linear,
    position_energies_with_record,
)
from keras_attn_zoo.layers.base.attention_layer import AttentionLayer
from keras_attn_zoo.layers.base.checks import check_positive
from keras_attn_zoo.layers.base.kernel_initialization import add_kernel
from keras_attn_zoo.layers.registry import attention
from keras_attn_zoo.support.types import Initializer, Shape, Tensor, TensorTree


@attention(
    "bahdanau",
    source="Hiemsch 1-3, Dang §2.3",
    places=("cross",),
    year=2014,
    arguments=lambda sizes: {"units": sizes.width},
    cost=("1", "I·J·d", "J·d", "none"),
)
@attention(
    "bahdanau_feedback",
    source="Bahar §6",
    places=("cross",),
    year=2016,
    arguments=lambda sizes: {"units": sizes.width, "attention_feedback": True},
    cost=("I", "I·J·d", "J·d", "J weights"),
)
class BahdanauAttention(AttentionLayer):
    """Additive attention: a network with one hidden layer scores every source position.

    Use it as cross-attention of an RNN decoder, queried by the previous state: it allows a query and keys from
    different spaces. With feedback, it sees what it has covered, to avoid translating words twice or not at all.

        e_ij = vᵀ tanh(W s_{i-1} + U h_j + b)
        α_ij = softmax_j(e_ij)
        c_i  = Σ_j α_ij h_j

    With attention feedback, the weights so far also enter the energy, so that the
    decoder sees what it has already translated:

        e_ij = vᵀ tanh(W s_{i-1} + U h_j + b + u Σ_{i'<i} α_{i'j})

    Symbols: s decoder state (the query), h_j encoder state (key and value),
    W `(query_dim, units)`, U `(key_dim, units)`, b, v and u `(units,)`.

    Args:
        units: width of the hidden layer of the energy.
        attention_feedback: whether the accumulated weights enter the energy.
        kernel_initializer: initialiser of W, U, v and u.

    Shapes, masking, errors: see `AttentionLayer`. Without feedback, the weights
    of a target position depend only on its own query.

    State: with feedback `{"accumulated": (batch, 1, 1, source)}`, else none.

    Example:
        >>> layer = BahdanauAttention(units=8)
        >>> context, scores = layer(
        ...     keras.ops.ones((2, 3, 4)), keras.ops.ones((2, 5, 6)), return_attention_scores=True
        ... )  # (2, 3, 6), (2, 1, 3, 5)

    Source: Hiemsch, equations 1 to 3; Dang, section 2.3; Bahar, equation 11;
    the feedback is mentioned in its section 6.

    Differences from the paper: Hiemsch sets the energy of padding to -1e10; here padding gets a weight of exactly 0.
    The bias b is not in the papers' equations, but in their feed-forward networks. Bahar gives no equation for the
    feedback; the authors' toolkit scales it by a learned fertility, whereas here the weights are simply added up.
    """

    def __init__(
        self,
        units: int,
        attention_feedback: bool = False,
        kernel_initializer: Initializer = "glorot_uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.units = check_positive(self, "units", units)
        self.attention_feedback = bool(attention_feedback)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None) -> None:
        """Create W, U, b, v and, with feedback, u."""
        add_additive_weights(self, query_shape, key_shape or value_shape)
        if self.attention_feedback:
            self.feedback_kernel = add_kernel(self, "feedback_kernel", (1, self.units))
        self.built = True

    def project_key(self, key: Tensor) -> Tensor:
        """Return U h_j + b, once per sentence."""
        return linear(self, key, self.key_kernel, self.bias)

    def energies(self, query: Tensor, memory: TensorTree) -> Tensor:
        """Return the energies without feedback."""
        return additive_energies(linear(self, query, self.query_kernel), memory["key"], energy_vector(self))

    def ahead(self, query: Tensor, memory: TensorTree, positions: Tensor | None = None) -> TensorTree:
        """Return the energies; with feedback, on which they depend, only W s_{i-1}."""
        if not self.attention_feedback:
            return super().ahead(query, memory, positions)
        return linear(self, query, self.query_kernel)[:, None]

    def initial_state(self, memory: TensorTree, batch_size: int | None = None) -> TensorTree:
        """Return, with feedback, a sum of 0: no weight has been assigned yet."""
        return {"accumulated": self.no_weights(memory)} if self.attention_feedback else {}

    def advance(
        self, at: TensorTree, memory: TensorTree, mask: Tensor | None, state: TensorTree
    ) -> tuple[Tensor, TensorTree]:
        """Return, with feedback, weights that depend on the sum of the previous ones, and the next sum."""
        if not self.attention_feedback:
            return super().advance(at, memory, mask, state)
        # Unlike a squeezed axis, an index has a gradient that fills an array with zeros.
        accumulated = ops.expand_dims(ops.squeeze(state["accumulated"], (1, 2)), -1)
        energies = position_energies_with_record(
            ops.squeeze(at, 1),
            memory["key"],
            energy_vector(self),
            ops.cast(accumulated, self.compute_dtype),
            self.weight(self.feedback_kernel),
        )
        weights = self.normalize(ops.expand_dims(energies, (1, 2)), mask)
        return weights, {"accumulated": state["accumulated"] + weights}
