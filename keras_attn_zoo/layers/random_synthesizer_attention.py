"""Random Synthesizer: the attention weights are parameters."""

from typing import Any

import keras
from keras import ops

from keras_attn_zoo.kernels import first
from keras_attn_zoo.layers.base.checks import check_positive
from keras_attn_zoo.layers.base.kernel_initialization import fresh_initializer
from keras_attn_zoo.layers.base.position_attention import PositionAttention, check_length
from keras_attn_zoo.layers.registry import attention
from keras_attn_zoo.support.types import Initializer, Shape, Tensor


@attention(
    "random_synthesizer",
    source="Zeng §3 (Syn-R)",
    places=("encoder", "decoder"),
    year=2020,
    arguments=lambda sizes: {**sizes.heads, "max_length": sizes.max_length},
    cost=("1", "I²·d", "I·d", "I·d values"),
)
@attention(
    "factorized_random_synthesizer",
    source="Tay §3",
    places=("encoder", "decoder"),
    year=2020,
    arguments=lambda sizes: {**sizes.heads, "max_length": sizes.max_length, "rank": 8},
    cost=("1", "I²·d", "I·d", "I·d values"),
)
class RandomSynthesizerAttention(PositionAttention):
    """Self-attention whose energies are trained directly, without looking at the tokens.

    Use it in place of self-attention if the pattern of positions is enough; it saves the projections of query and key,
    and their product. It must know the longest sentence.

        α^n = softmax(A^n),   c_i = Σ_n O^n Σ_j α_ij^n (W_v^n x_j) + b

    Symbols: x the input; A `(heads, max_length, max_length)`, trained, or with a `rank` the product of two trained
    matrices, A = R_1 R_2ᵀ; n counts the heads; W_v `(width, heads, value_dim)`, O `(heads, value_dim, width)`.

    Args:
        num_heads, key_dim: number of heads; width of a value's head, unless `value_dim` is given.
        max_length: n, the longest sentence.
        energy_initializer: initialiser of A, or of R_1 and R_2.
        rank: columns of R_1 and R_2; None for an A of its own, which has more weights.
        **kwargs: see `MultiHeadAttention`.

    Shapes: `(batch, length, width)` in and out; scores `(batch, heads, length, length)`.

    Masking: the softmax runs over the positions that may be attended to.

    State: the values so far, see `PositionAttention`.

    Raises:
        ValueError: sizes that are not positive integers; a sentence longer than `max_length`; a value that is not the
            query.

    Example:
        >>> layer = RandomSynthesizerAttention(num_heads=2, key_dim=4, max_length=10)
        >>> context = layer(keras.ops.ones((3, 5, 8)))  # (3, 5, 8)

    Source: Zeng, section 3 (Syn-R, of Tay et al.); Tay, section 3 (Factorized Random).

    Differences from the paper: a shorter sentence uses the upper left corner of A; the paper leaves this open.
    """

    max_length: int
    beams_share = True

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        max_length: int = 256,
        energy_initializer: Initializer = "random_normal",
        rank: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads, key_dim, **kwargs)
        self.max_length = check_positive(self, "max_length", max_length)
        self.energy_initializer = keras.initializers.get(energy_initializer)
        self.rank = check_positive(self, "rank", rank, optional=True)

    def build(self, query_shape: Shape, value_shape: Shape | None = None, key_shape: Shape | None = None) -> None:
        """Make A, or its factors, and the projections."""
        super().build(query_shape)
        names = ("energies",) if self.rank is None else ("row_factors", "column_factors")
        self.matrices = [
            self.add_weight(
                name=name,
                shape=(self.num_heads, self.max_length, self.rank or self.max_length),
                initializer=fresh_initializer(self.energy_initializer),
                autocast=False,
            )
            for name in names
        ]

    def position_energies(self, length: int | Tensor) -> Tensor:
        """Return the corner of A."""
        length = check_length(self, length, self.max_length)
        rows, *columns = (first(ops.convert_to_tensor(matrix), length, axis=1) for matrix in self.matrices)
        return ops.matmul(rows, ops.transpose(columns[0], (0, 2, 1))) if columns else first(rows, length, axis=2)
