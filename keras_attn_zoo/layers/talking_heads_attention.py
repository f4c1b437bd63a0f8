"""Talking-heads attention: heads are mixed before and after the softmax."""

from keras import ops

from keras_attn_zoo.layers.base.kernel_initialization import add_kernel
from keras_attn_zoo.layers.multi_head_attention import MultiHeadAttention
from keras_attn_zoo.layers.registry import attention
from keras_attn_zoo.support.types import Shape, Tensor, TensorTree


@attention(
    "talking_heads",
    source="Shazeer 2020 §4",
    places=("encoder", "decoder", "cross"),
    year=2020,
    arguments=lambda sizes: sizes.heads,
    cost=("1", "I·J·(d + N²)", "J·(d + N²)", "none; as self-attention I·d keys and values"),
)
class TalkingHeadsAttention(MultiHeadAttention):
    """Multi-head attention whose heads share energies and weights, by a matrix before and one after the softmax.

    Use it in place of multi-head attention with many narrow heads: what one head finds, others can use.

        ê_ij^n = Σ_m L_mn (W_q^m s_i)ᵀ (W_k^m h_j) / √d_k
        α_ij^n = softmax_j(ê_ij^n)
        c_i    = Σ_n O^n Σ_j (Σ_m A_mn α_ij^m) (W_v^n h_j) + b

    Symbols: s the query, h key and value; m and n count the heads; L and A `(heads, heads)`; the others as in
    `MultiHeadAttention`.

    Args: see `MultiHeadAttention`, without `attention_axes`, `sliding_window` and `flash_attention`.

    Shapes, masking, state: see `MultiHeadAttention`. Scores are the weights α, before A, which may make them negative;
    dropout applies to them.

    Raises:
        ValueError: what `MultiHeadAttention` raises.

    Example:
        >>> layer = TalkingHeadsAttention(num_heads=2, key_dim=4)
        >>> context = layer(keras.ops.ones((3, 5, 8)), use_causal_mask=True)  # (3, 5, 8)

    Source: Shazeer, Lan, Cheng, Ding and Hou 2020, section 4.

    Differences from the paper: there are as many heads of keys, of softmaxes and of values, as in its experiments; L
    and A begin with `kernel_initializer`.
    """

    beams_share = True

    def build(self, query_shape: Shape, value_shape: Shape | None = None, key_shape: Shape | None = None) -> None:
        """Create L and A, and what multi-head attention has."""
        super().build(query_shape, value_shape, key_shape)
        # In float32 under every policy, like the energies and weights that they mix.
        self.energy_mixture, self.weight_mixture = (
            add_kernel(self, f"{name}_mixture", (self.num_heads, self.num_heads), autocast=False)
            for name in ("energy", "weight")
        )

    def ahead(self, query: Tensor, memory: TensorTree, positions: Tensor | None = None) -> TensorTree:
        """Mix the energies of the heads."""
        return _mixed(super().ahead(query, memory, positions), self.energy_mixture)

    def weigh(
        self, weights: Tensor, memory: TensorTree, mask: Tensor | None = None, training: bool | None = None
    ) -> Tensor:
        """Mix the weights of the heads, after dropout, and return their contexts, joined."""
        dropped = ops.cast(self.drop(weights, training), "float32")
        return super().weigh(_mixed(dropped, self.weight_mixture), memory, mask, training=False)


def _mixed(x: Tensor, mixture: Tensor) -> Tensor:
    """Sums over the heads of x `(batch, heads, target, source)`, each with its own factors."""
    return ops.einsum("bmij,mn->bnij", x, ops.cast(mixture, x.dtype))
