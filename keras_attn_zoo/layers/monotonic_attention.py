"""Monotonic attention: a target position reads on from where the last one stopped, until it stops itself."""

from typing import Any

import keras
from keras import ops, tree

from keras_attn_zoo.kernels import recomputed
from keras_attn_zoo.layers.base.additive_energies import add_additive_weights, additive_energies, energy_vector, linear
from keras_attn_zoo.layers.base.attention_layer import AttentionLayer
from keras_attn_zoo.layers.base.checks import check_positive, is_number
from keras_attn_zoo.layers.base.rematerialization import may_be, where_training
from keras_attn_zoo.layers.registry import attention
from keras_attn_zoo.support.types import Initializer, Shape, Tensor, TensorTree

# An energy at which a probability is 0 or 1, and so is its complement, in float32.
_CERTAIN = 1e4
_SMALLEST_NORM = 1e-12


@attention(
    "monotonic",
    source="Raffel 9-14",
    places=("cross",),
    year=2017,
    arguments=lambda sizes: {"units": sizes.width},
    cost=("I", "I·J·d + I·J²", "J·d", "J weights"),
)
class MonotonicAttention(AttentionLayer):
    """Attention that moves over the source from left to right, and may stop at each position with a probability.

    Use it as cross-attention of an RNN decoder if source and target advance
    together: what lies ahead of the place where it stops has no say.

        p_ij = sigmoid(e_ij),   e_ij = g/‖v‖ vᵀ tanh(W s_i + U h_j + b) + r
        α_ij = p_ij Σ_{k≤j} α_{i-1,k} Π_{k≤l<j} (1 - p_il),   α_0 = [1, 0, ..., 0]
        c_i  = Σ_j α_ij h_j

    in training. Otherwise z_ij = [e_ij > 0] takes the place of p_ij: the weight is 1 where z_ij is 1 for the first
    time, from where the last one stopped on.

    Symbols: s decoder state (the query), h_j encoder state (key and value); p the probability to stop, α that of a stop
    at j over all ways to get there; W `(query_dim, units)`, U `(key_dim, units)`, b and v `(units,)`; g and r numbers.

    Args:
        units: width of the hidden layer.
        hard: whether calls outside of training, and steps, stop at one position each; if not, they have p too.
        noise: standard deviation of what is added to e_ij in training, so that p becomes 0 or 1, like z.
        initial_offset: r before training: below 0 if the source is much longer than the target.
        kernel_initializer: initialiser of W, U and v.
        seed: seed of the noise; by default a random one.

    Shapes: see `AttentionLayer`.

    Masking: see `AttentionLayer`. Nothing stops at a masked position. Weights may sum to less than 1, or be 0: the rest
    has passed the end of the source. A row with nothing to attend to leaves α as it was for the next one.

    State: `{"alignment": (batch, 1, 1, source)}`, α. A step that is given noise, of `draw_noise`, is one of training.

    Raises:
        ValueError: units that are not a positive integer; a noise that is negative, an offset that is no number.

    Example:
        >>> layer = MonotonicAttention(units=8)
        >>> context = layer(keras.ops.ones((2, 3, 4)), keras.ops.ones((2, 5, 6)), training=True)  # (2, 3, 6)

    Source: Raffel, Luong, Liu, Weiss and Eck 2017, equations 9 to 14.

    Differences from the paper: no division by products, so α is exact where 1 - p is 0. Steps compute all energies.
    """

    softmax_alone = "its weights are probabilities to stop, one for each position"
    # It may have passed the end of the source.
    may_attend_nothing = True

    def __init__(
        self,
        units: int,
        hard: bool = True,
        noise: float = 1.0,
        initial_offset: float = 0.0,
        kernel_initializer: Initializer = "glorot_uniform",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.units = check_positive(self, "units", units)
        self.hard = bool(hard)
        for name, number, lowest in (("noise", noise, 0.0), ("initial_offset", initial_offset, -_CERTAIN)):
            if not is_number(number) or not lowest <= number <= _CERTAIN:
                raise ValueError(
                    f"{type(self).__name__}: `{name}` must be a number from {lowest:g} to {_CERTAIN:g}. "
                    f"Received: {name}={number!r}."
                )
            setattr(self, name, float(number))
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)

    def build(self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None) -> None:
        """Create W, U, b, v, g and r."""
        add_additive_weights(self, query_shape, key_shape or value_shape)
        # In float32 under every policy, as energies are.
        self.gain, self.offset = (
            self.add_weight(name=name, shape=(), initializer=keras.initializers.Constant(first), autocast=False)
            for name, first in (("gain", self.units**-0.5), ("offset", self.initial_offset))
        )
        self.built = True

    def project_key(self, key: Tensor) -> Tensor:
        """Return U h_j + b."""
        return linear(self, key, self.key_kernel, self.bias)

    def energies(self, query: Tensor, memory: TensorTree) -> Tensor:
        """Return e, in float32."""
        vector = ops.cast(energy_vector(self), "float32")
        vector = ops.cast(self.gain, "float32") * vector / ops.maximum(ops.norm(vector), _SMALLEST_NORM)
        projected = linear(self, query, self.query_kernel)
        found = additive_energies(projected, memory["key"], ops.cast(vector, projected.dtype))
        return ops.cast(found, "float32") + ops.cast(self.offset, "float32")

    def ahead(self, query: Tensor, memory: TensorTree, positions: Tensor | None = None) -> TensorTree:
        """Return the energies: in training with noise, otherwise of the decisions."""
        energies, noise = self.energies(query, memory), memory.get("noise")
        decided = ops.where(energies > 0, _CERTAIN, -_CERTAIN) if self.hard else energies
        return decided if noise is None else ops.where(noise["inference"] > 0, decided, energies + noise["energies"])

    def initial_state(self, memory: TensorTree, batch_size: int | None = None) -> TensorTree:
        """Return an alignment to the first position."""
        nothing = self.no_weights(memory)
        return {"alignment": nothing + ops.cast(ops.arange(ops.shape(nothing)[-1], dtype="int32") == 0, "float32")}

    def advance(
        self, at: TensorTree, memory: TensorTree, mask: Tensor | None, state: TensorTree
    ) -> tuple[Tensor, TensorTree]:
        """Move on from the previous alignment."""
        before = state["alignment"]
        mask = ops.ones_like(at, dtype="bool") if mask is None else mask
        if self.hard and "noise" not in memory:
            stops = ops.cast((at > 0) & mask & (ops.cumsum(before, axis=-1) > 0), "float32")
            alignment = stops * ops.cast(ops.cumsum(stops, axis=-1) == 1, "float32")
        else:
            alignment = _moved(before, ops.where(mask, at, -_CERTAIN))
        return alignment, {"alignment": ops.where(ops.any(mask, axis=-1, keepdims=True), alignment, before)}

    # Training.

    def draw_noise(self, memory: TensorTree, length: int | Tensor) -> TensorTree:
        """Draw the noise of every step; "inference" is 0, and 1 where a caller finds that nothing is trained."""
        shape = (length, ops.shape(memory["mask"])[0], 1, ops.shape(memory["mask"])[1])
        noise = self.noise and self.noise * keras.random.normal(shape, dtype="float32", seed=self.seed_generator)
        return {"energies": ops.broadcast_to(noise, shape), "inference": ops.zeros((length, 1, 1, 1))}

    def attend(
        self, query: Tensor, memory: TensorTree, mask: Tensor | None, training: bool | None = None
    ) -> tuple[Tensor, Tensor]:
        """Attend from all target positions, in training under noise."""
        if may_be(training):
            noise = where_training(training, self.draw_noise(memory, ops.shape(query)[1]), 1.0)
            memory = {**memory, "noise": tree.map_structure(lambda x: ops.transpose(x, (1, 2, 0, 3)), noise)}
        # The base class would multiply weights by noise, as it is dropout elsewhere.
        return super().attend(query, memory, mask, training=False)

    def attend_once(
        self,
        query: Tensor,
        memory: TensorTree,
        mask: Tensor | None,
        state: TensorTree,
        noise: TensorTree | None = None,
        positions: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, TensorTree]:
        """Run a step, with noise one of training; see `AttentionLayer.attend_once`."""
        if noise is not None:
            memory = {**memory, "noise": tree.map_structure(lambda x: x[:, :, None], noise)}
        return super().attend_once(query, memory, mask, state, None, positions)


@recomputed
def _moved(before: Tensor, energies: Tensor) -> Tensor:
    """Return α_i from α_{i-1} and e_i, `(batch, 1, 1, source)`; recomputed in the backward pass.

    What is passed by from k to j, in logarithms, is a sum that begins at k, so that nothing cancels or overflows.
    """
    passed_by = ops.log_sigmoid(-energies)
    passed_by = ops.concatenate([ops.zeros_like(passed_by[..., :1]), passed_by[..., :-1]], axis=-1)
    places = ops.arange(ops.shape(energies)[-1], dtype="int32")
    ahead = places - places[:, None]
    reached = ops.exp(ops.cumsum(ops.where(ahead > 0, passed_by, 0.0), axis=-1))
    return ops.sigmoid(energies) * ops.matmul(before, ops.where(ahead >= 0, reached, 0.0))
