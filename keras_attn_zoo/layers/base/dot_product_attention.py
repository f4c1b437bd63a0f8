"""The base class of mechanisms built on scaled dot products: projections of query and key, and the energies."""

from keras import ops

from keras_attn_zoo.layers.base.headed_attention import HeadedAttention
from keras_attn_zoo.layers.base.layer_normalization import RMSNormalization
from keras_attn_zoo.layers.base.positions import POSITIONS, RelativePositions
from keras_attn_zoo.support.types import Shape, Tensor, TensorTree


class DotProductAttention(HeadedAttention):
    """Base of multi-head cross-attention: scaled dot products of projected queries and keys.

        ê_ij^n = (W_q^n s_i)ᵀ (W_k^n h_j) / √d_k

    A subclass defines `initial_state` and `advance`, and in `prepare` what its recurrence needs of keys and values.

    Args: see `MultiHeadAttention`.
    """

    projections = ("query", "key", "value")
    plain_heads: str | None = None
    relative_positions: RelativePositions

    def build(self, query_shape: Shape, value_shape: Shape | None = None, key_shape: Shape | None = None) -> None:
        """Build the projections, the norms of queries and keys, and the weights of their positions."""
        super().build(query_shape, value_shape, key_shape)
        for part in ("query", "key") if self.query_key_norm else ():
            norm = RMSNormalization(dtype=self.dtype_policy, name=f"{part}_norm")
            norm.build((None, None, None, self.key_dim))
            setattr(self, f"{part}_norm", norm)
        if self.positions is not None:
            kind, sizes = POSITIONS[self.positions], (self.num_heads, self.key_dim, self.kernel_initializer)
            self.relative_positions = kind(*sizes, dtype=self.dtype_policy, name="positions")
            self.relative_positions.build()

    def prepare(
        self,
        value: Tensor | None = None,
        key: Tensor | None = None,
        value_mask: Tensor | None = None,
        max_length: int | None = None,
    ) -> TensorTree:
        """Project keys and values, once per sentence."""
        memory = super().prepare(value, key=key, value_mask=value_mask)
        parts = {"key": memory["key"], "value": self.value_dense(memory["value"])}
        return {**memory, **{part: ops.cast(x, self.operand_dtype) for part, x in parts.items()}}

    def project(self, part: str, x: Tensor, positions: int | Tensor | None = None) -> Tensor:
        """Return the projection of a part; queries and keys normalised, and turned by their positions."""
        found = super().project(part, x, positions)
        if part == "value":
            return found
        if self.query_key_norm:
            found = getattr(self, f"{part}_norm")(found)
        if self.positions is None:
            return found
        numbers = ops.arange(ops.shape(x)[1], dtype="int32") if positions is None else positions
        return self.relative_positions.turned(found, ops.reshape(ops.cast(numbers, "int32"), (-1,)))

    def project_key(self, key: Tensor) -> Tensor:
        """Return W_k h_j."""
        return self.project("key", key)

    def energies(self, query: Tensor, memory: TensorTree) -> Tensor:
        """Compute one matrix product per head."""
        return self.products(self.project_query(query), memory)

    def ahead(self, query: Tensor, memory: TensorTree, positions: Tensor | None = None) -> TensorTree:
        """Return the energies, in float32, with what they know of positions."""
        if self.positions is None:
            return super().ahead(query, memory, positions)
        if positions is None:
            raise ValueError(
                f"{type(self).__name__}: a step with positions={self.positions!r} needs its `position`, from 0. "
                "Received: position=None."
            )
        query = self.project_query(query, positions)
        energies = ops.cast(self.products(query, memory), "float32")
        bias = self.relative_positions.bias(query, positions, self._source_positions(memory))
        return energies if bias is None else energies + bias

    def _source_positions(self, memory):
        """The positions of the keys; where beams share a state, each as often as there are beams."""
        if "positions" not in memory:
            return ops.arange(ops.shape(memory["mask"])[1], dtype="int32")
        if "visible" not in memory:
            return memory["positions"]
        return ops.repeat(memory["positions"], memory["visible"].shape[2])

    def project_query(self, query: Tensor, positions: Tensor | None = None) -> Tensor:
        """Return W_q s_i / √d_k."""
        return self.project("query", query, positions) * self.key_dim**-0.5

    def products(self, query: Tensor, memory: TensorTree) -> Tensor:
        """Return the products of projected queries and keys."""
        if query.shape[2] == 1:
            # One position: transposing the query is cheap, transposing all keys would not be.
            return self.by_group(_products_of_one, query, memory["key"])
        return self.by_group(lambda q, key: ops.matmul(q, ops.transpose(key, (0, 1, 3, 2))), query, memory["key"])


def _products_of_one(query, key):
    return ops.transpose(ops.matmul(key, ops.transpose(query, (0, 1, 3, 2))), (0, 1, 3, 2))
