"""Differential attention: the difference of two softmaxes, which cancels what both have in common."""

from typing import Any

from keras import initializers, ops

from keras_attn_zoo.layers.base.checks import is_number
from keras_attn_zoo.layers.base.layer_normalization import RMSNormalization
from keras_attn_zoo.layers.base.matrix_state import shares
from keras_attn_zoo.layers.multi_head_attention import MultiHeadAttention
from keras_attn_zoo.layers.registry import attention
from keras_attn_zoo.support.types import Config, Shape, Tensor, TensorTree


@attention(
    "differential",
    source="Ye 1-3",
    places=("encoder", "decoder", "cross"),
    year=2024,
    arguments=lambda sizes: {**sizes.heads, "key_dim": max(1, sizes.heads["key_dim"] // 2)},
    cost=("1", "I·J·d", "J·d", "none; as self-attention I·d keys and values"),
)
class DifferentialAttention(MultiHeadAttention):
    """Multi-head attention whose weights are the difference of two softmaxes, so that their common noise cancels.

    Use it in place of multi-head attention if weights are to be concentrated on few positions
    of a long sequence. With half the `key_dim`, it has as many weights.

        ê_ij^m = (W_q^m s_i)ᵀ (W_k^m h_j) / √d_k
        α_ij^m = softmax_j(ê_ij^m),   m = 1 ... 2N
        c_i^n  = (1 - λ_0) · γ ⊙ rms(Σ_j (α_ij^{2n-1} - λ α_ij^{2n}) [W_v^{2n-1} h_j ; W_v^{2n} h_j])
        λ      = exp(λ_q1ᵀ λ_k1) - exp(λ_q2ᵀ λ_k2) + λ_0
        c_i    = Σ_n O^n c_i^n + b

    Symbols: s the query, h key and value; n counts the N heads, m their softmaxes; rms(x) = x / √(mean x² + ε); γ
    `(2 value_dim,)`; λ_q1, λ_k1, λ_q2 and λ_k2 `(key_dim,)`.

    Args:
        num_heads, key_dim, value_dim: N; width of a query and a key, of which a head has two; half that of its value.
        lambda_init: λ_0, in [0, 1).
        **kwargs: see `MultiHeadAttention`, without `num_key_value_heads`, `attention_axes`, `sliding_window` and
            `flash_attention`.

    Shapes, masking, state: see `MultiHeadAttention`, with 2N heads. Dropout applies to each softmax.

    Scores: |α_ij^{2n-1} - λ α_ij^{2n}| as shares of their sum, since differences may be negative; both heads of an n
    have the same.

    Raises:
        ValueError: a λ_0 outside [0, 1), `num_key_value_heads`, and what `MultiHeadAttention` raises.

    Example:
        >>> layer = DifferentialAttention(num_heads=2, key_dim=4)
        >>> context = layer(keras.ops.ones((3, 5, 8)), use_causal_mask=True)  # (3, 5, 8)

    Source: Ye, Dong, Xia, Sun, Zhu, Huang and Wei 2024, equations 1 to 3.

    Differences from the paper: λ_0 is 0.8 in every layer, while it grows from 0.2 to 0.8 there; the paper finds little
    difference.
    """

    beams_share = True

    def __init__(
        self, num_heads: int, key_dim: int, value_dim: int | None = None, lambda_init: float = 0.8, **kwargs: Any
    ) -> None:
        # What is no size is refused as what was given.
        maps = 2 * num_heads if is_number(num_heads) else num_heads
        super().__init__(maps, key_dim, value_dim, **kwargs)
        if self.num_key_value_heads != self.num_heads:
            raise ValueError(
                "DifferentialAttention takes no `num_key_value_heads`: each softmax has keys of its own. "
                f"Received: num_key_value_heads={self.num_key_value_heads}."
            )
        if not is_number(lambda_init) or not 0 <= lambda_init < 1:
            raise ValueError(
                f"DifferentialAttention: `lambda_init` must lie in [0, 1). Received: lambda_init={lambda_init!r}."
            )
        self.lambda_init = float(lambda_init)

    def build(self, query_shape: Shape, value_shape: Shape | None = None, key_shape: Shape | None = None) -> None:
        """Create the vectors of λ, γ, and what multi-head attention has."""
        super().build(query_shape, value_shape, key_shape)
        self.lambdas = self.add_weight(
            name="lambdas",
            shape=(2, 2, self.key_dim),
            initializer=initializers.RandomNormal(stddev=0.1),
            autocast=False,
        )
        self.context_norm = RMSNormalization(epsilon=1e-5, dtype=self.dtype_policy, name="context_norm")
        self.context_norm.build((None, None, None, 2 * self.value_dim))

    def weigh(
        self, weights: Tensor, memory: TensorTree, mask: Tensor | None = None, training: bool | None = None
    ) -> Tensor:
        """Return the contexts of the differences, joined."""
        difference = self._difference(ops.cast(self.drop(weights, training), "float32"))
        return super().weigh(difference, memory, mask, training=False)

    def attend(
        self, query: Tensor, memory: TensorTree, mask: Tensor | None, training: bool | None = None
    ) -> tuple[Tensor, Tensor]:
        """Attend from all target positions; see `AttentionLayer.attend`."""
        context, weights = super().attend(query, memory, mask, training)
        return context, shares(self._difference(weights))

    def attend_once(self, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor, TensorTree]:
        """Run a step on what `observe` returned; see `AttentionLayer.attend_once`."""
        context, weights, state = super().attend_once(*args, **kwargs)
        return context, shares(self._difference(weights)), state

    def _difference(self, weights):
        """Subtract the second weights of every head from the first, for both halves of a value."""
        plus, minus = ops.split(ops.exp(ops.sum(ops.prod(ops.cast(self.lambdas, "float32"), axis=1), axis=-1)), 2)
        return ops.repeat(weights[:, ::2] - (plus - minus + self.lambda_init) * weights[:, 1::2], 2, axis=1)

    def merge(self, contexts: Tensor, mask: Tensor | None) -> Tensor:
        """Normalise the context of every head, and merge them."""
        batch, heads, length, width = ops.shape(contexts)
        halves = ops.transpose(ops.reshape(contexts, (batch, heads // 2, 2, length, width)), (0, 1, 3, 2, 4))
        joined = self.context_norm(ops.reshape(halves, (batch, heads // 2, length, 2 * width)))
        halves = ops.reshape((1.0 - self.lambda_init) * joined, (batch, heads // 2, length, 2, width))
        parts = ops.reshape(ops.transpose(halves, (0, 1, 3, 2, 4)), (batch, heads, length, width))
        return super().merge(parts, mask)

    def get_config(self) -> Config:
        """Return the arguments of the constructor."""
        config = {**super().get_config(), "num_heads": self.num_heads // 2, "lambda_init": self.lambda_init}
        del config["num_key_value_heads"]
        return config
