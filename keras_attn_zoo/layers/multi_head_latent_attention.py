"""Multi-head latent attention: the keys and values of all heads are read from one narrow vector a position."""

from typing import Any

from keras import ops

from keras_attn_zoo.kernels import write
from keras_attn_zoo.layers.base.checks import check_positive, is_integer
from keras_attn_zoo.layers.base.dense import Dense
from keras_attn_zoo.layers.base.headed_attention import HeadedAttention
from keras_attn_zoo.layers.base.heads import HeadProjection
from keras_attn_zoo.layers.base.kernel_initialization import fresh_initializer
from keras_attn_zoo.layers.base.layer_normalization import RMSNormalization
from keras_attn_zoo.layers.base.positions.rotary import rotated
from keras_attn_zoo.layers.base.self_attention_steps import SelfAttentionSteps
from keras_attn_zoo.layers.registry import attention
from keras_attn_zoo.support.types import Shape, Tensor, TensorTree


@attention(
    "multi_head_latent",
    source="DeepSeek-AI §2.1",
    places=("encoder", "decoder", "cross"),
    year=2024,
    # The positions of source and target are no distance.
    arguments=lambda sizes: sizes.heads | ({"rotary_dim": 0} if sizes.place == "cross" else {}),
    cost=("1", "I·J·d", "J·d + d²/N", "none; as self-attention I·d/N numbers"),
)
class MultiHeadLatentAttention(SelfAttentionSteps, HeadedAttention):
    """Multi-head attention whose keys and values are read from one latent vector of each position.

    Use it in place of multi-head attention if a search must keep little: a latent and a rotary key of each position.

        l_j      = γ ⊙ rms(W_l h_j),   k_j^n = W_k^n l_j,   v_j^n = W_v^n l_j
        ê_ij^n   = [(W_q^n s_i)ᵀ k_j^n + (R_i W_r^n s_i)ᵀ R_j r_j] / √(d_k + d_r),   r_j = W_kr h_j
        α_ij^n   = softmax_j(ê_ij^n)
        c_i      = Σ_n O^n Σ_j α_ij^n v_j^n + b

    A step makes no keys or values, as (W_q s_i)ᵀ W_k l_j = (W_kᵀ W_q s_i)ᵀ l_j and Σ_j α_ij W_v l_j = W_v Σ_j α_ij l_j.

    Symbols: s the query, h key and value; n counts the heads; rms(x) = x / √(mean x² + ε); R_i the rotation of
    `positions="rotary"` at position i; W_l `(width, latent_dim)`, W_kr `(width, rotary_dim)`, one matrix here.

    Args:
        num_heads, key_dim, value_dim: number of heads; widths d_k of a query's and key's head, and of a value's.
        latent_dim: width of l; by default 4 `key_dim`.
        rotary_dim: d_r, an even number; 0 for no rotary key; by default half of `key_dim`, rounded up.
        **kwargs: see `MultiHeadAttention`, of which it takes no groups, positions, norms, axes, windows or kernels.

    Shapes, masking: see `MultiHeadAttention`. A `key` has a latent of its own, by the same map. In cross-attention with
    a rotary key, i counts the target and j the source, and a step needs its `position`.

    State: as self-attention `{"latent": (batch, max_length, latent_dim), "rotary": (batch, max_length, rotary_dim),
    "position": (batch,)}`. As cross-attention none.

    Raises:
        ValueError: an odd or negative `rotary_dim`; a `key` of another width; what `MultiHeadAttention` raises.

    Example:
        >>> layer = MultiHeadLatentAttention(num_heads=2, key_dim=4, latent_dim=6)
        >>> context = layer(keras.ops.ones((3, 5, 8)), use_causal_mask=True)  # (3, 5, 8)

    Source: DeepSeek-AI, DeepSeek-V2, 2024, section 2.1; the norm is that of its code.

    Differences from the paper: queries are not compressed, as in its smaller model; it has no biases.
    """

    projections = ("query", "key", "value")
    attends_to = "either"
    plain_heads = "its keys and values come from one latent, and their positions from the rotary key"

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        latent_dim: int | None = None,
        rotary_dim: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads, key_dim, value_dim, **kwargs)
        self.latent_dim = check_positive(self, "latent_dim", latent_dim, optional=True) or 4 * self.key_dim
        if rotary_dim is not None and (not is_integer(rotary_dim) or rotary_dim < 0 or rotary_dim % 2):
            raise ValueError(
                f"{type(self).__name__}: `rotary_dim` must be an even number of at least 0. "
                f"Received: rotary_dim={rotary_dim!r}."
            )
        self.rotary_dim = (self.key_dim + 3) // 4 * 2 if rotary_dim is None else int(rotary_dim)

    def build(self, query_shape: Shape, value_shape: Shape | None = None, key_shape: Shape | None = None) -> None:
        """Build the projections, the map to the latent and its norm."""
        width = (value_shape or query_shape)[-1]
        if key_shape is not None and key_shape[-1] != width:
            raise ValueError(
                f"{type(self).__name__}: key and value need one width. Received: {key_shape[-1]}, {width}."
            )
        super().build(query_shape, (None, None, self.latent_dim))
        self.built_widths = {"query": query_shape[-1], "value": width, "key": width}
        self.latent_dense = Dense(
            self.latent_dim + self.rotary_dim,
            use_bias=self.use_bias,
            dtype=self.dtype_policy,
            name="latent",
            **{**self.options, "kernel_initializer": fresh_initializer(self.kernel_initializer)},
        )
        self.latent_dense.build((None, None, width))
        self.latent_norm = RMSNormalization(epsilon=1e-6, dtype=self.dtype_policy, name="latent_norm")
        self.latent_norm.build((None, None, self.latent_dim))
        if self.rotary_dim:
            self.add_projection("rotary", self.rotary_dim, query_shape)

    def prepare(
        self,
        value: Tensor | None = None,
        key: Tensor | None = None,
        value_mask: Tensor | None = None,
        max_length: int | None = None,
    ) -> TensorTree:
        """Return the latents and rotary keys of a source, once per sentence."""
        memory = super().prepare(value, key, value_mask, max_length)
        if value is None:
            return memory
        positions = ops.arange(ops.shape(value)[1], dtype="int32")
        found = self._compressed(memory["value"], positions)
        if key is not None:
            found = self._compressed(memory["key"], positions) | {"value_latent": found["latent"]}
        return {"mask": memory["mask"], **found}

    def _compressed(self, x, positions):
        """What is kept of x `(batch, length, width)`, whose positions these are."""
        found = self.latent_dense(x)
        kept = {"latent": self.latent_norm(found[..., : self.latent_dim])}
        if self.rotary_dim:
            kept["rotary"] = rotated(found[..., self.latent_dim :], positions)
        return {part: ops.cast(one, self.operand_dtype) for part, one in kept.items()}

    def attend(
        self, query: Tensor, memory: TensorTree, mask: Tensor | None, training: bool | None = None
    ) -> tuple[Tensor, Tensor]:
        """Attend from all target positions, to keys and values made for all of them at once."""
        latent = memory.get("value_latent", memory["latent"])
        expanded = {"key": self.key_dense(memory["latent"]), "value": self.value_dense(latent)}
        return super().attend(query, {**memory, **expanded}, mask, training)

    def ahead(self, query: Tensor, memory: TensorTree, positions: Tensor | None = None) -> TensorTree:
        """Return the energies, in float32: of a call from keys, of a step from latents."""
        plain = self.query_dense(query)
        if "key" in memory:
            energies = ops.matmul(plain, ops.swapaxes(memory["key"], -1, -2))
        else:
            absorbed = ops.matmul(plain, ops.swapaxes(_by_head(self.key_dense), -1, -2))
            energies = ops.matmul(absorbed, ops.swapaxes(memory["latent"][:, None], -1, -2))
            if self.use_bias:
                energies = energies + ops.matmul(plain, self.weight(self.key_dense.bias)[..., None])
        energies = ops.cast(energies, "float32")
        if self.rotary_dim:
            if positions is None:
                raise ValueError(
                    f"{type(self).__name__}: a step with a rotary key needs its `position`, from 0. "
                    "Received: position=None."
                )
            turned = rotated(self.rotary_dense(query), positions)
            turned = ops.matmul(turned, ops.swapaxes(memory["rotary"][:, None], -1, -2))
            energies = energies + ops.cast(turned, "float32")
        return energies * (self.key_dim + self.rotary_dim) ** -0.5

    def weigh(
        self, weights: Tensor, memory: TensorTree, mask: Tensor | None = None, training: bool | None = None
    ) -> Tensor:
        """Return the contexts of all heads, joined: of a call from values, of a step from latents."""
        if "value" in memory:
            return super().weigh(weights, memory, mask, training)
        weights, latent = self.drop(weights, training), memory.get("value_latent", memory["latent"])
        contexts = ops.matmul(ops.matmul(weights, latent[:, None]), _by_head(self.value_dense))
        if self.use_bias:
            total = ops.sum(weights, axis=-1, keepdims=True)
            contexts = contexts + total * self.weight(self.value_dense.bias)[:, None]
        return self.merge(contexts, mask)

    # The step.

    def nothing_seen(self, batch_size: int, max_length: int) -> TensorTree:
        """Return empty places."""
        widths = {"latent": self.latent_dim} | ({"rotary": self.rotary_dim} if self.rotary_dim else {})
        return {part: ops.zeros((batch_size, max_length, n), dtype=self.operand_dtype) for part, n in widths.items()}

    def see(self, query: Tensor, seen: TensorTree, index: int | Tensor) -> TensorTree:
        """Compress the position."""
        now = self._compressed(query, ops.reshape(ops.cast(index, "int32"), (1,)))
        return {part: write(past, now[part], index, axis=1) for part, past in seen.items()}


def _by_head(projection: HeadProjection) -> Tensor:
    """The kernel of a projection from latents, `(heads, latent_dim, head_dim)`."""
    shape = (projection.input_size, projection.num_heads, projection.head_dim)
    return ops.transpose(ops.reshape(projection.matrix(), shape), (1, 0, 2))
