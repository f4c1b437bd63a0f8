"""The base class of mechanisms built on scaled dot products: projections of query and key, and the energies."""

from keras import ops

from keras_attn_zoo.layers.base.headed_attention import HeadedAttention
from keras_attn_zoo.support.types import Tensor, TensorTree


class DotProductAttention(HeadedAttention):
    """Base of multi-head cross-attention: scaled dot products of projected queries and keys.

        ê_ij^n = (W_q^n s_i)ᵀ (W_k^n h_j) / √d_k

    A subclass defines `initial_state` and `advance`, and in `prepare` what its
    recurrence needs of keys and values.

    Args: see `MultiHeadAttention`.
    """

    projections = ("query", "key", "value")

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

    def project_key(self, key: Tensor) -> Tensor:
        """Return W_k h_j."""
        return self.key_dense(key)

    def energies(self, query: Tensor, memory: TensorTree) -> Tensor:
        """Compute one matrix product per head."""
        return self.products(self.project_query(query), memory)

    def project_query(self, query: Tensor) -> Tensor:
        """Return W_q s_i / √d_k."""
        return self.query_dense(query) * self.key_dim**-0.5

    def products(self, query: Tensor, memory: TensorTree) -> Tensor:
        """Return the products of projected queries and keys."""
        if query.shape[2] == 1:
            # One position: transposing the query is cheap, transposing all keys would not be.
            return ops.transpose(ops.matmul(memory["key"], ops.transpose(query, (0, 1, 3, 2))), (0, 1, 3, 2))
        return ops.matmul(query, ops.transpose(memory["key"], (0, 1, 3, 2)))
