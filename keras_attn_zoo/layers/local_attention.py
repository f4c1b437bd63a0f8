"""Local attention: Luong attention inside a window, at the target position or a predicted one."""

from typing import Any

from keras import ops

from keras_attn_zoo.layers.base.checks import check_choice, check_positive
from keras_attn_zoo.layers.base.kernel_initialization import add_kernel
from keras_attn_zoo.layers.luong_attention import LuongAttention
from keras_attn_zoo.layers.registry import attention
from keras_attn_zoo.support.types import Initializer, Shape, Tensor, TensorTree

ALIGNMENTS = ("monotonic", "predictive")


@attention(
    "local_m",
    source="Luong §3.2 (local-m)",
    places=("cross",),
    year=2015,
    arguments=lambda sizes: {"alignment": "monotonic"},
    cost=("1", "I·J·d", "J·d", "none"),
)
@attention(
    "local_p",
    source="Luong §3.2 (local-p)",
    places=("cross",),
    year=2015,
    arguments=lambda sizes: {"alignment": "predictive"},
    cost=("1", "I·J·d + I·d²", "J·d + d²", "none"),
)
class LocalAttention(LuongAttention):
    """Luong attention within a source window whose centre is predicted or moves one position at a time.

    Use it as cross-attention of an RNN decoder, queried by the current state, if
    sentences are long or alignments mostly monotone: "monotonic" if source and
    target advance together, "predictive" if the window has to find its place.

        p_i  = i                                alignment="monotonic" (local-m)
        p_i  = J sigmoid(vᵀ tanh(W_p s_i))      alignment="predictive" (local-p)
        α_ij = softmax_j(e_ij)                  over the j with |j - p_i| ≤ D
        α_ij = softmax_j(e_ij) exp(-(j - p_i)² / 2σ²),   σ = D/2   for "predictive"
        c_i  = Σ_j α_ij h_j

    Symbols: s decoder state (the query), h_j encoder state (key and value), e_ij the
    energy as in `LuongAttention`; i and j count from 0, J is the number of real
    source positions of the sentence; W_p `(query_dim, query_dim)`, v `(query_dim,)`.

    Args:
        alignment: "predictive" or "monotonic".
        window: D, the reach of the window on either side.
        score, units, kernel_initializer, scaled: as in `LuongAttention`.

    Shapes, masking: see `AttentionLayer`. A row whose window contains no real position gets zero weights and a zero
    context, as do target positions beyond J + D in "monotonic". Because of the factor, the weights of "predictive" sum
    to less than one.

    State: none; a step of "monotonic" is given its `position`.

    Raises:
        ValueError: an unknown alignment; a window that is not a positive integer; a step of "monotonic" without its
            position; see `LuongAttention`.

    Example:
        >>> layer = LocalAttention(window=2)
        >>> context = layer(keras.ops.ones((2, 3, 4)), keras.ops.ones((2, 5, 6)))  # (2, 3, 6)

    Source: Luong, Pham and Manning 2015, section 3.2, equations 9 and 10.

    Differences from the paper: the energies of all source positions are computed, then those outside the window are
    masked, which costs more than a window alone but keeps all shapes fixed. The paper does not say what "monotonic"
    does past the end of the source; here nothing is attended to. As in the paper, gradients reach W_p and v only
    through the factor: the window has none.
    """

    def __init__(
        self,
        alignment: str = "predictive",
        window: int = 10,
        score: str = "general",
        units: int | None = None,
        kernel_initializer: Initializer = "glorot_uniform",
        scaled: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(score, units, kernel_initializer, scaled, **kwargs)
        self.alignment = check_choice(self, "alignment", alignment, ALIGNMENTS)
        # A window may lie beyond the source.
        self.may_attend_nothing = self.alignment == "monotonic"
        self.window = check_positive(self, "window", window)

    def build(self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None) -> None:
        """Create what the score needs and, for "predictive", W_p and v."""
        super().build(query_shape, value_shape, key_shape)
        if self.alignment == "predictive":
            width = self.built_widths["query"] = query_shape[-1]
            # Positions are predicted in float32: bfloat16 would move the window by several in a long sentence.
            self.position_kernel = add_kernel(self, "position_kernel", (width, width), autocast=False)
            self.position_vector = add_kernel(self, "position_vector", (width, 1), autocast=False)

    def ahead(self, query: Tensor, memory: TensorTree, positions: Tensor | None = None) -> TensorTree:
        """Return the energies, and the centres of the windows."""
        return {"energies": super().ahead(query, memory, positions), "centre": self._centre(query, memory, positions)}

    def _centre(self, query, memory, positions):
        """p_i, `(batch, 1, target, 1)`; of all sentences alike for "monotonic"."""
        if self.alignment == "monotonic":
            if positions is None:
                raise ValueError(
                    f"{type(self).__name__}: a step with a monotonic alignment needs its `position`, from 0. "
                    "Received: position=None."
                )
            return positions[None, None, :, None]
        kernel, vector = (ops.cast(weight, "float32") for weight in (self.position_kernel, self.position_vector))
        share = ops.sigmoid(ops.matmul(ops.tanh(ops.matmul(ops.cast(query, "float32"), kernel)), vector))
        length = ops.sum(ops.cast(memory["mask"], "float32"), axis=-1)
        return (length[:, None, None] * share)[:, None]

    def advance(
        self, at: TensorTree, memory: TensorTree, mask: Tensor | None, state: TensorTree
    ) -> tuple[Tensor, TensorTree]:
        """Return the weights inside the windows."""
        return self._within(at["energies"], at["centre"], mask), state

    def _within(self, energies, centre, mask):
        """Weights inside the windows around centres `(..., target, 1)`."""
        positions = ops.arange(ops.shape(energies)[-1], dtype="int32")
        distance = ops.cast(positions, "float32") - ops.cast(centre, "float32")
        near = ops.absolute(distance) <= float(self.window)
        weights = self.normalize(energies, near if mask is None else ops.logical_and(mask, near))
        if self.alignment == "monotonic":
            return weights
        return weights * ops.exp(-2.0 * ops.square(distance / self.window))
