"""Coverage attention: additive energies that see a record of the attention each source position has received."""

from typing import Any

import keras
from keras import ops

from keras_attn_zoo.layers.base.additive_energies import energy_vector, linear, position_energies_with_record
from keras_attn_zoo.layers.base.attention_layer import AttentionLayer
from keras_attn_zoo.layers.base.checks import check_positive
from keras_attn_zoo.layers.base.kernel_initialization import add_kernel
from keras_attn_zoo.layers.registry import attention
from keras_attn_zoo.support.types import Initializer, Shape, Tensor, TensorTree


@attention(
    "coverage",
    source="Tu §3.2",
    places=("cross",),
    year=2016,
    arguments=lambda sizes: {"units": sizes.width},
    cost=("I", "I·J·d·k", "J·d·k", "J·k numbers"),
)
class CoverageAttention(AttentionLayer):
    """Additive attention with a coverage vector for each source position, kept by a small recurrent network.

    Use it as cross-attention of an RNN decoder, queried by the previous state, to avoid translating words twice or not
    at all. The feedback of `BahdanauAttention` is a simpler form: its record is the sum of the weights, whereas here
    the network learns what to keep of them.

        e_ij = vᵀ tanh(W s_{i-1} + U h_j + V C_{i-1,j} + b)
        α_ij = softmax_j(e_ij)
        C_ij = tanh(W_c C_{i-1,j} + w α_ij + U_c h_j + V_c s_{i-1}),   C_0 = 0
        c_i  = Σ_j α_ij h_j

    Symbols: s decoder state (the query), h_j encoder state (key and value), C `(coverage_dim,)` for each source
    position; W `(query_dim, units)`, U `(key_dim, units)`, V `(coverage_dim, units)`, b and v `(units,)`; W_c
    `(coverage_dim, coverage_dim)`, w `(coverage_dim,)`, U_c `(key_dim, coverage_dim)`, V_c `(query_dim, coverage_dim)`.

    Args:
        units: width of the hidden layer of the energy.
        coverage_dim: width of a coverage vector.
        kernel_initializer: initialiser of all matrices, v and w.

    Shapes, masking, errors: see `AttentionLayer`.

    State: `{"coverage": (batch, source, coverage_dim)}`, in the compute type.

    Example:
        >>> layer = CoverageAttention(units=8)
        >>> context = layer(keras.ops.ones((2, 3, 4)), keras.ops.ones((2, 5, 6)))  # (2, 3, 6)

    Source: Tu, Lu, Liu, Liu and Li 2016, section 3.2, the neural coverage model.

    Differences from the paper: it leaves the activation of the update open, tanh or a GRU; this is tanh. The update has
    no bias; the energy has one, as in `BahdanauAttention`. The linguistic form, with fertilities, is not implemented.
    """

    def __init__(
        self, units: int, coverage_dim: int = 10, kernel_initializer: Initializer = "glorot_uniform", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.units = check_positive(self, "units", units)
        self.coverage_dim = check_positive(self, "coverage_dim", coverage_dim)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None) -> None:
        """Create the weights of the energy, then those of the update."""
        query_dim, key_dim = query_shape[-1], (key_shape or value_shape)[-1]
        self.built_widths = {"query": query_dim, "key": key_dim}
        self.query_kernel = add_kernel(self, "query_kernel", (query_dim, self.units))
        self.key_kernel = add_kernel(self, "key_kernel", (key_dim, self.units))
        self.coverage_kernel = add_kernel(self, "coverage_kernel", (self.coverage_dim, self.units))
        self.bias = self.add_weight(name="bias", shape=(self.units,), initializer="zeros")
        self.energy_kernel = add_kernel(self, "energy_kernel", (self.units, 1))
        self.update_kernel = add_kernel(self, "update_kernel", (self.coverage_dim, self.coverage_dim))
        self.update_weight_kernel = add_kernel(self, "update_weight_kernel", (1, self.coverage_dim))
        self.update_key_kernel = add_kernel(self, "update_key_kernel", (key_dim, self.coverage_dim))
        self.update_query_kernel = add_kernel(self, "update_query_kernel", (query_dim, self.coverage_dim))
        self.built = True

    def project_key(self, key: Tensor) -> Tensor:
        """Return U h_j + b, and U_c h_j."""
        return {
            "energy": linear(self, key, self.key_kernel, self.bias),
            "update": linear(self, key, self.update_key_kernel),
        }

    def ahead(self, query: Tensor, memory: TensorTree, positions: Tensor | None = None) -> TensorTree:
        """Return W s_{i-1}, and V_c s_{i-1}."""
        kernels = {"energy": self.query_kernel, "update": self.update_query_kernel}
        return {part: linear(self, query, kernel)[:, None] for part, kernel in kernels.items()}

    def initial_state(self, memory: TensorTree, batch_size: int | None = None) -> TensorTree:
        """Return a coverage of 0: nothing is covered yet."""
        batch, source = ops.shape(memory["mask"])
        dtype = memory["key"]["update"].dtype
        return {"coverage": ops.zeros((batch, source, self.coverage_dim), dtype=dtype)}

    def advance(
        self, at: TensorTree, memory: TensorTree, mask: Tensor | None, state: TensorTree
    ) -> tuple[Tensor, TensorTree]:
        """Return the weights of one position, and the record with what they add to it."""
        coverage = state["coverage"]
        energies = position_energies_with_record(
            ops.squeeze(at["energy"], 1),
            memory["key"]["energy"],
            energy_vector(self),
            coverage,
            self.weight(self.coverage_kernel),
        )
        weights = self.normalize(energies[:, None, None], mask)
        covered = ops.matmul(coverage, self.weight(self.update_kernel))
        got = ops.cast(weights[:, 0, 0, :, None], coverage.dtype) * self.weight(self.update_weight_kernel)
        coverage = ops.tanh(covered + got + memory["key"]["update"] + at["update"][:, 0])
        return weights, {"coverage": coverage}
