"""Monotonic chunkwise attention: a softmax over the chunk that ends where a monotonic attention stops."""

from typing import Any

from keras import ops

from keras_attn_zoo.kernels import masked_softmax
from keras_attn_zoo.layers.base.additive_energies import additive_energies, linear
from keras_attn_zoo.layers.base.checks import check_positive
from keras_attn_zoo.layers.base.kernel_initialization import add_kernel
from keras_attn_zoo.layers.monotonic_attention import MonotonicAttention
from keras_attn_zoo.layers.registry import attention
from keras_attn_zoo.support.types import Shape, Tensor, TensorTree


@attention(
    "monotonic_chunkwise",
    source="Chiu",
    places=("cross",),
    year=2018,
    arguments=lambda sizes: {"units": sizes.width},
    cost=("I", "I·J·d + I·J²", "J·d", "J weights"),
)
class MonotonicChunkwiseAttention(MonotonicAttention):
    """Attention to the chunk of positions that ends where a monotonic attention stops (MoChA).

    Use it as cross-attention of an RNN decoder if source and target advance
    together, but for changes of order in the neighbourhood.

        β_ij = Σ_{j≤k<j+w} α_ik exp(u_ij) / Σ_{k-w<l≤k} exp(u_il),   u_ij = v'ᵀ tanh(W' s_i + U' h_j + b')
        c_i  = Σ_j β_ij h_j

    Symbols: α the weights of `MonotonicAttention`, in training expected ones; w the width of the chunk; the others as
    there, with weights of their own.

    Args:
        units: width of the hidden layers of both energies.
        chunk_size: w.
        **kwargs: see `MonotonicAttention`.

    Shapes, masking, errors, state: see `MonotonicAttention`; scores are β. Masked positions count for the width of a
    chunk.

    Example:
        >>> layer = MonotonicChunkwiseAttention(units=8, chunk_size=2)
        >>> context = layer(keras.ops.ones((2, 3, 4)), keras.ops.ones((2, 5, 6)), training=True)  # (2, 3, 6)

    Source: Chiu and Raffel, Monotonic chunkwise attention, 2018.

    Differences from the paper: as in `MonotonicAttention`.
    """

    def __init__(self, units: int, chunk_size: int = 4, **kwargs: Any) -> None:
        super().__init__(units, **kwargs)
        self.chunk_size = check_positive(self, "chunk_size", chunk_size)

    def build(self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None) -> None:
        """Create what monotonic attention has, and W', U', b' and v'."""
        super().build(query_shape, value_shape, key_shape)
        self.chunk_query_kernel = add_kernel(self, "chunk_query_kernel", (query_shape[-1], self.units))
        self.chunk_key_kernel = add_kernel(self, "chunk_key_kernel", (self.built_widths["key"], self.units))
        self.chunk_bias = self.add_weight(name="chunk_bias", shape=(self.units,), initializer="zeros")
        self.chunk_energy_kernel = add_kernel(self, "chunk_energy_kernel", (self.units, 1))

    def project_key(self, key: Tensor) -> Tensor:
        """Return U h_j + b and U' h_j + b'."""
        return {"stop": super().project_key(key), "chunk": linear(self, key, self.chunk_key_kernel, self.chunk_bias)}

    def ahead(self, query: Tensor, memory: TensorTree, positions: Tensor | None = None) -> TensorTree:
        """Return e and u."""
        stop = super().ahead(query, {**memory, "key": memory["key"]["stop"]}, positions)
        vector = ops.squeeze(self.weight(self.chunk_energy_kernel), -1)
        chunk = additive_energies(linear(self, query, self.chunk_query_kernel), memory["key"]["chunk"], vector)
        return {"stop": stop, "chunk": ops.cast(chunk, "float32")}

    def advance(
        self, at: TensorTree, memory: TensorTree, mask: Tensor | None, state: TensorTree
    ) -> tuple[Tensor, TensorTree]:
        """Move on, and spread the weights over the chunks."""
        alignment, state = super().advance(at["stop"], memory, mask, state)
        real = ops.ones_like(alignment, dtype="bool")
        real = real if mask is None else ops.logical_and(real, mask)
        size, source = self.chunk_size, ops.shape(alignment)[-1]

        def moved(x, before, after):
            """The array `(batch, 1, 1, source)`, moved to the right by up to `before`, or to the left by `after`."""
            x = ops.pad(x, [(0, 0)] * 3 + [(before, after)])
            return [x[..., start : start + source] for start in range(size)]

        chunks, of_chunks = (ops.stack(moved(x, size - 1, 0), axis=-1) for x in (at["chunk"], real))
        shares = alignment[..., None] * masked_softmax(chunks, of_chunks)
        # The first of a chunk lies `size - 1` before its last.
        columns = [moved(shares[..., place], 0, size - 1)[size - 1 - place] for place in range(size)]
        return ops.sum(ops.stack(columns), axis=0), state
