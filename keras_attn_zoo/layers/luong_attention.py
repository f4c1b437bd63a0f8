"""Luong attention: energies from a product of decoder state and encoder state."""

from typing import Any

import keras
from keras import ops

from keras_attn_zoo import kernels
from keras_attn_zoo.layers.base.additive_energies import additive_energies, energy_vector, linear
from keras_attn_zoo.layers.base.attention_layer import AttentionLayer
from keras_attn_zoo.layers.base.checks import check_choice, check_positive
from keras_attn_zoo.layers.base.kernel_initialization import add_kernel
from keras_attn_zoo.layers.registry import attention
from keras_attn_zoo.support.types import Initializer, Shape, Tensor, TensorTree

SCORES = ("dot", "general", "concat")


@attention(
    "luong_dot",
    source="Dang §2.4",
    places=("cross",),
    year=2015,
    arguments=lambda sizes: {"score": "dot"},
    cost=("1", "I·J·d", "J·d", "none"),
)
@attention(
    "luong_general",
    source="Dang §2.4",
    places=("cross",),
    year=2015,
    arguments=lambda sizes: {"score": "general"},
    cost=("1", "I·J·d", "J·d", "none"),
)
@attention(
    "luong_concat",
    source="Dang §2.4",
    places=("cross",),
    year=2015,
    arguments=lambda sizes: {"score": "concat", "units": sizes.width},
    cost=("1", "I·J·d", "J·d", "none"),
)
class LuongAttention(AttentionLayer):
    """Multiplicative attention: the energy is a product of query and key.

    Use it as cross-attention of an RNN decoder, queried by the current state.
    Without input feeding, it handles all target positions in one product. "dot" is
    the fastest and has no weights, "general" has one matrix, "concat" is additive.

        e_ij = s_iᵀ h_j                    score="dot"
        e_ij = s_iᵀ W h_j                  score="general"
        e_ij = vᵀ tanh(W [s_i ; h_j])      score="concat"
        α_ij = softmax_j(e_ij)
        c_i  = Σ_j α_ij h_j

    Symbols: s decoder state (the query), h_j encoder state (key and value); W `(query_dim, key_dim)` for "general", its
    two halves `(query_dim, units)` and `(key_dim, units)` for "concat"; v `(units,)`.

    Args:
        score: "dot", "general" or "concat".
        units: width of the hidden layer of "concat"; by default the query's width.
        kernel_initializer: initialiser of W and v.
        scaled: whether energies of "dot" and "general" are divided by √query_dim, as those of a Transformer are. Under
            Adam, whose steps are as large for small gradients, those of "general" may otherwise grow until one position
            has all of the weight, and learn slowly from then on.

    Shapes, masking: see `AttentionLayer`. State: none.

    Raises:
        ValueError: an unknown score; "dot" with a query and a key of different widths; "concat" with `scaled`.

    Example:
        >>> layer = LuongAttention(score="general")
        >>> context = layer(keras.ops.ones((2, 3, 4)), keras.ops.ones((2, 5, 6)))  # (2, 3, 6)

    Source: Dang, section 2.4 ("dot"; "general" and "concat" are from the work it cites); `scaled` is not in the papers.
    """

    def __init__(
        self,
        score: str = "general",
        units: int | None = None,
        kernel_initializer: Initializer = "glorot_uniform",
        scaled: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if scaled and score == "concat":
            raise ValueError(
                f"{type(self).__name__}: `scaled` needs a product, score='dot' or 'general'. Received: score='concat'."
            )
        if units is not None and score != "concat":
            raise ValueError(f"{type(self).__name__}: `units` needs score='concat'. Received: score={score!r}.")
        self.score = check_choice(self, "score", score, SCORES)
        self.units = check_positive(self, "units", units, optional=True)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.scaled = scaled

    def build(self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None) -> None:
        """Create what the score needs: nothing, W, or W in two halves and v."""
        query_dim, key_dim = query_shape[-1], (key_shape or value_shape)[-1]
        self._check_equal(query_dim, key_dim)
        if self.score != "dot":
            self.built_widths = {"query": query_dim, "key": key_dim}
        if self.score == "general":
            self.kernel = add_kernel(self, "kernel", (query_dim, key_dim))
        if self.score == "concat":
            units = self.units or query_dim
            self.query_kernel = add_kernel(self, "query_kernel", (query_dim, units))
            self.key_kernel = add_kernel(self, "key_kernel", (key_dim, units))
            self.energy_kernel = add_kernel(self, "energy_kernel", (units, 1))
        self.built = True

    def check_inputs(
        self, query: Tensor, value: Tensor | None, key: Tensor | None, masks: dict[str, Tensor | None]
    ) -> None:
        """Raise if shapes do not fit, including the widths for "dot"."""
        super().check_inputs(query, value, key, masks)
        self._check_equal(*[x.shape[-1] for x in (query, key, value) if x is not None][:2])

    def _check_equal(self, query_dim, key_dim):
        if self.score == "dot" and query_dim != key_dim:
            raise ValueError(
                f"{type(self).__name__}: score='dot' needs a query and a key of equal width; use score='general'. "
                f"Received: query width {query_dim}, key width {key_dim}."
            )

    def project_key(self, key: Tensor) -> Tensor:
        """Return W h_j, or W h_j / √query_dim, once per sentence."""
        if self.score == "concat":
            return linear(self, key, self.key_kernel)
        if self.score == "general":
            key = kernels.linear(key, ops.transpose(self.weight(self.kernel)))
        return key * key.shape[-1] ** -0.5 if self.scaled else key

    def energies(self, query: Tensor, memory: TensorTree) -> Tensor:
        """Compute one matrix product, or for "concat" the additive energy."""
        if self.score == "concat":
            return additive_energies(linear(self, query, self.query_kernel), memory["key"], energy_vector(self))
        return ops.matmul(query, ops.transpose(memory["key"], (0, 2, 1)))[:, None]
