"""Average attention: the mean of all positions so far, a feed-forward network and a gate."""

from typing import Any

import keras
from keras import ops

from keras_attn_zoo.kernels import attending_rows, combine_masks, equal_weights
from keras_attn_zoo.layers.base.checks import check_positive, check_rate
from keras_attn_zoo.layers.base.dense import Dense
from keras_attn_zoo.layers.base.dropout import Dropout
from keras_attn_zoo.layers.base.kernel_initialization import fresh_initializer
from keras_attn_zoo.layers.base.self_attention_steps import SelfAttentionSteps
from keras_attn_zoo.layers.registry import attention
from keras_attn_zoo.support.types import Initializer, Shape, Tensor, TensorTree


@attention(
    "average",
    source="Dang §2.8",
    places=("decoder",),
    year=2018,
    cost=("1 (a cumulative sum)", "I·d", "d", "a sum of d, a count"),
)
@attention(
    "average_without_ffn",
    source="Dang §2.9",
    places=("decoder",),
    year=2018,
    arguments=lambda sizes: {"use_ffn": False},
    cost=("1 (a cumulative sum)", "I·d", "d", "a sum of d, a count"),
)
@attention(
    "average_without_gate",
    source="Dang §2.8",
    places=("decoder",),
    year=2018,
    arguments=lambda sizes: {"use_gate": False},
    cost=("1 (a cumulative sum)", "I·d", "d", "a sum of d, a count"),
)
class AverageAttention(SelfAttentionSteps):
    """Decoder self-attention with equal weights: a running mean, refined by a network and a gate.

    Use it in place of a decoder's self-attention. A step of a search costs the
    same at every position, because it keeps only a sum and a count.

        ȳ_i = 1/i Σ_{k≤i} y_k
        g_i = W_2 relu(W_1 ȳ_i + b_1) + b_2                 `use_ffn`, else g_i = ȳ_i
        [ι_i ; φ_i] = sigmoid(W_g [y_i ; g_i] + b_g)        `use_gate`
        c_i = ι_i ⊙ y_i + φ_i ⊙ g_i                         `use_gate`, else c_i = g_i

    Symbols: y the input, c the context; ι and φ the input and the forget gate;
    W_1 `(width, ffn_dim)`, W_2 `(ffn_dim, width)`, W_g `(2 width, 2 width)`.

    Args:
        use_ffn, use_gate: whether to use the network, and the gate.
        ffn_dim: width of the network's hidden layer; by default four times the input's.
        dropout: rate on the hidden layer of the network.
        kernel_initializer: initialiser of W_1, W_2 and W_g.

    Shapes: `(batch, length, width)` in and out; scores `(batch, 1, length, length)`.

    Masking: always causal, whatever `use_causal_mask` says. With padding, the mean is over the real positions so far. A
    row with nothing to average gives 0. With an `attention_mask`, the mean costs a matrix product instead of a
    cumulative sum.

    State: `{"sum": (batch, width), "position": (batch,)}`.

    Raises:
        ValueError: sizes that are not positive integers; `ffn_dim` without the network; a value that is not the query.

    Example:
        >>> layer = AverageAttention()
        >>> context = layer(keras.ops.ones((3, 5, 8)))  # (3, 5, 8)

    Source: Dang, sections 2.8 and 2.9, after Zhang et al. 2018.

    Differences from the paper: Dang's formula has the network but no gate, and the toolkit it used (section 2.9) has
    the gate but no network. Zhang et al. have both, which is the default here. The formula does not define its network;
    here it is that of Zhang et al., with one hidden layer.
    """

    softmax_alone = "its weights are equal, without energies"
    attends_to = "itself"
    always_causal = True
    by_position = True

    def __init__(
        self,
        use_ffn: bool = True,
        use_gate: bool = True,
        ffn_dim: int | None = None,
        dropout: float = 0.0,
        kernel_initializer: Initializer = "glorot_uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        ffn_dim = check_positive(self, "ffn_dim", ffn_dim, optional=True)
        if ffn_dim is not None and not use_ffn:
            raise ValueError(f"AverageAttention: `ffn_dim` needs use_ffn=True. Received: ffn_dim={ffn_dim}.")
        self.use_ffn = bool(use_ffn)
        self.use_gate = bool(use_gate)
        self.ffn_dim = ffn_dim
        self.dropout = check_rate(self, "dropout", dropout)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self._dropout_layer = Dropout(self.dropout, dtype=self.dtype_policy)

    def build(self, query_shape: Shape, value_shape: Shape | None = None, key_shape: Shape | None = None) -> None:
        """Build the network and the gate."""
        width = self.input_width = query_shape[-1]
        self.built_widths = {"query": width}

        def dense(units, inputs, name, activation=None):
            layer = Dense(
                units,
                activation=activation,
                kernel_initializer=fresh_initializer(self.kernel_initializer),
                dtype=self.dtype_policy,
                name=name,
            )
            layer.build((None, inputs))
            return layer

        if self.use_ffn:
            hidden = self.ffn_dim or 4 * width
            self.ffn_hidden = dense(hidden, width, "ffn_hidden", "relu")
            self.ffn_output = dense(width, hidden, "ffn_output")
        if self.use_gate:
            self.gate = dense(2 * width, 2 * width, "gate", "sigmoid")
        self.built = True

    def attend_in_chunks(
        self, query: Tensor, memory: TensorTree, query_mask: Tensor | None, causal: bool, training: bool | None = None
    ) -> Tensor:
        """Average up to every position: a cumulative sum, which takes no weights."""
        # In float32: half precision has too few digits for a sum over many positions.
        count = ops.cumsum(ops.cast(memory["mask"], "float32"), axis=1)[..., None]
        mean = ops.cumsum(ops.cast(memory["value"], "float32"), axis=1) / ops.maximum(count, 1.0)
        context = self._refine(ops.cast(query, self.compute_dtype), ops.cast(mean, self.compute_dtype), training)
        return ops.where(attending_rows(query_mask, memory["mask"], causal)[:, 0], context, 0.0)

    def attend(
        self, query: Tensor, memory: TensorTree, mask: Tensor | None, training: bool | None = None
    ) -> tuple[Tensor, Tensor]:
        """Average under any mask, by default the causal one, in float32: a product with the weights."""
        if mask is None:
            length = ops.shape(query)[1]
            mask = combine_masks(None, memory["mask"], None, True, length, length)
        weights = equal_weights(mask)
        mean = ops.matmul(weights[:, 0], ops.cast(memory["value"], "float32"))
        context = self._refine(ops.cast(query, self.compute_dtype), ops.cast(mean, self.compute_dtype), training)
        return ops.where(ops.any(weights[:, 0] > 0, axis=-1)[..., None], context, 0.0), weights

    def _refine(self, y, mean, training=None):
        """Network and gate."""
        refined = mean
        if self.use_ffn:
            refined = self.ffn_output(self._dropout_layer(self.ffn_hidden(mean), training=training))
        if not self.use_gate:
            return refined
        keep, forget = ops.split(self.gate(ops.concatenate([y, refined], axis=-1)), 2, axis=-1)
        return keep * y + forget * refined

    def nothing_seen(self, batch_size: int, max_length: int) -> dict[str, Tensor]:
        """Return an empty sum, in float32."""
        return {"sum": ops.zeros((batch_size, self.input_width), dtype="float32")}

    def see(self, query: Tensor, seen: TensorTree, index: int | Tensor) -> dict[str, Tensor]:
        """Add one position to the sum."""
        return {"sum": seen["sum"] + ops.cast(query[:, 0], "float32")}

    def ahead(self, query: Tensor, memory: TensorTree, positions: Tensor | None = None) -> TensorTree:
        """Return how many positions there are up to this one."""
        count = memory["index"] + 1
        return count if isinstance(count, int) else ops.cast(count, "float32")

    def advance(
        self, at: TensorTree, memory: TensorTree, mask: Tensor | None, state: TensorTree
    ) -> tuple[Tensor, TensorTree]:
        """Return equal weights."""
        return ops.where(mask, 1.0 / at, 0.0), state

    def weigh(
        self, weights: Tensor, memory: TensorTree, mask: Tensor | None = None, training: bool | None = None
    ) -> Tensor:
        """Return the mean so far, from the sum, refined."""
        query = memory["query"]
        mean = memory["sum"] / self.ahead(query, memory)
        return self._refine(query[:, 0], ops.cast(mean, self.compute_dtype))[:, None]
