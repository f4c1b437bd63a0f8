"""Additive attention with the structural biases of word alignment: position, Markov condition, fertility."""

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
from keras_attn_zoo.layers.base.checks import check_positive, is_integer
from keras_attn_zoo.layers.base.kernel_initialization import add_kernel
from keras_attn_zoo.layers.registry import attention
from keras_attn_zoo.support.types import Config, Initializer, Shape, Tensor, TensorTree

# Larger than any sentence: a larger reach must be a mistake.
_LARGEST_REACH = 1000


@attention(
    "structural_biases",
    source="Cohn",
    places=("cross",),
    year=2016,
    arguments=lambda sizes: {"units": sizes.width},
    cost=("I", "I·J·d·k", "J·d·k", "2·J weights"),
)
class StructuralBiasAttention(AttentionLayer):
    """Additive attention whose network sees positions, and earlier weights in the neighbourhood of a source position.

    Use it as cross-attention of an RNN decoder, queried by the previous state, if
    there is little text to learn from: what alignment models are told beforehand,
    that translations advance together and that a word is translated once, it can read off.

        e_ij = vᵀ tanh(W s_{i-1} + U h_j + b + P ψ_ij + M ξ_ij + F φ_ij)
        ψ_ij = [log(1 + i), log(1 + j), log(1 + J)]                             position_bias
        ξ_ij = [α_{i-1,j-k}, ..., α_{i-1,j}, ..., α_{i-1,j+k}]                  markov_condition
        φ_ij = [Σ_{i'<i} α_{i',j-k}, ..., Σ_{i'<i} α_{i',j+k}]                  local_fertility
        α_ij = softmax_j(e_ij),   c_i = Σ_j α_ij h_j

    Symbols: s decoder state (the query), h_j encoder state (key and value); i and j count from 0, J is the number of
    real source positions of the sentence; W `(query_dim, units)`, U `(key_dim, units)`, b and v `(units,)`, P
    `(3, units)`; M and F `(2k + 1, units)`, one below the other. Weights of positions outside the sentence are 0, and
    so are those before the first target position.

    Args:
        units: width of the hidden layer of the energy.
        position_bias, markov_condition, local_fertility: which of them there are.
        reach: k, at least 0.
        kernel_initializer: initialiser of all matrices and v.

    Shapes, masking: see `AttentionLayer`.

    State: `{"previous": (batch, 1, 1, source)}` with `markov_condition`, `{"accumulated": (batch, 1, 1, source)}` with
    `local_fertility`; without both none. With `position_bias`, a step is given its `position`.

    Raises:
        ValueError: none of the three; k negative, not an integer, or wider than any sentence; a step without its
            position; see `AttentionLayer`.

    Example:
        >>> layer = StructuralBiasAttention(units=8)
        >>> context = layer(keras.ops.ones((2, 3, 4)), keras.ops.ones((2, 5, 6)))  # (2, 3, 6)

    Source: Cohn, Hoang, Vymolova, Yao, Dyer and Haffari 2016; counts from 0, and k = 1, as in their code.

    Differences from the paper: global fertility and the agreement of two directions are terms of its loss, not of the
    attention, and are not implemented. The bias b is not in its equation.
    """

    def __init__(
        self,
        units: int,
        position_bias: bool = True,
        markov_condition: bool = True,
        local_fertility: bool = True,
        reach: int = 1,
        kernel_initializer: Initializer = "glorot_uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.units = check_positive(self, "units", units)
        self.position_bias = bool(position_bias)
        # What each keeps of earlier weights.
        self.kept = {"previous": bool(markov_condition), "accumulated": bool(local_fertility)}
        if not (self.position_bias or any(self.kept.values())):
            raise ValueError(
                f"{type(self).__name__}: choose one or more of `position_bias`, `markov_condition` and "
                "`local_fertility`, or `BahdanauAttention`. Received: none of them."
            )
        if not is_integer(reach) or not 0 <= reach <= _LARGEST_REACH:
            raise ValueError(
                f"{type(self).__name__}: `reach` must be an integer from 0 to {_LARGEST_REACH}. Received: {reach!r}."
            )
        self.reach = int(reach)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None) -> None:
        """Create W, U, b, v, P, and M above F."""
        add_additive_weights(self, query_shape, key_shape or value_shape)
        if self.position_bias:
            self.position_kernel = add_kernel(self, "position_kernel", (3, self.units))
        if features := sum(self.kept.values()) * (2 * self.reach + 1):
            self.record_kernel = add_kernel(self, "record_kernel", (features, self.units))
        self.built = True

    def prepare(
        self,
        value: Tensor | None = None,
        key: Tensor | None = None,
        value_mask: Tensor | None = None,
        max_length: int | None = None,
    ) -> TensorTree:
        """Project the keys, and what P makes of source positions and length, once per sentence."""
        memory = super().prepare(value, key, value_mask, max_length)
        if self.position_bias:
            real = ops.cast(memory["mask"], "float32")
            places = ops.broadcast_to(ops.arange(ops.shape(real)[1], dtype="float32"), ops.shape(real))
            length = ops.broadcast_to(ops.sum(real, axis=1, keepdims=True), ops.shape(real))
            features = ops.cast(ops.log1p(ops.stack([places, length], axis=-1)), self.compute_dtype)
            memory["key"] = memory["key"] + ops.matmul(features, self.weight(self.position_kernel)[1:])
        return memory

    def project_key(self, key: Tensor) -> Tensor:
        """Return U h_j + b."""
        return linear(self, key, self.key_kernel, self.bias)

    def ahead(self, query: Tensor, memory: TensorTree, positions: Tensor | None = None) -> TensorTree:
        """Return W s_{i-1} and what P adds to it; the energies if there is no past."""
        projected = linear(self, query, self.query_kernel)
        if self.position_bias:
            if positions is None:
                raise ValueError(
                    f"{type(self).__name__}: a step with a position bias needs its `position`, from 0. "
                    "Received: position=None."
                )
            feature = ops.cast(ops.log1p(ops.cast(positions, "float32")), self.compute_dtype)
            projected = projected + feature[:, None] * self.weight(self.position_kernel)[0]
        if any(self.kept.values()):
            return projected[:, None]
        return ops.cast(additive_energies(projected, memory["key"], energy_vector(self)), "float32")

    def initial_state(self, memory: TensorTree, batch_size: int | None = None) -> TensorTree:
        """Return weights of 0: none has been assigned yet."""
        return {name: self.no_weights(memory) for name, is_kept in self.kept.items() if is_kept}

    def advance(
        self, at: TensorTree, memory: TensorTree, mask: Tensor | None, state: TensorTree
    ) -> tuple[Tensor, TensorTree]:
        """Return weights that depend on earlier ones nearby, and the next past."""
        if not state:
            return super().advance(at, memory, mask, state)
        # In the order of the rows of the kernel, which a loop need not keep.
        record = ops.concatenate([self._nearby(state[name]) for name in self.kept if name in state], axis=-1)
        energies = position_energies_with_record(
            ops.squeeze(at, 1),
            memory["key"],
            energy_vector(self),
            ops.cast(record, self.compute_dtype),
            self.weight(self.record_kernel),
        )
        weights = self.normalize(ops.expand_dims(energies, (1, 2)), mask)
        after = {"previous": weights, "accumulated": state.get("accumulated", 0.0) + weights}
        return weights, {name: after[name] for name in state}

    def _nearby(self, weights):
        """The weights `(batch, 1, 1, source)` in the neighbourhood of every position, `(batch, source, 2k + 1)`."""
        source = ops.shape(weights)[-1]
        around = ops.pad(ops.squeeze(weights, (1, 2)), ((0, 0), (self.reach, self.reach)))
        return ops.stack([around[:, start : start + source] for start in range(2 * self.reach + 1)], axis=-1)

    def get_config(self) -> Config:
        """Return the arguments of the constructor."""
        return {
            **super().get_config(),
            "units": self.units,
            "position_bias": self.position_bias,
            "markov_condition": self.kept["previous"],
            "local_fertility": self.kept["accumulated"],
            "reach": self.reach,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }
