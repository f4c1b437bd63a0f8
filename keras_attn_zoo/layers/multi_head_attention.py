"""Multi-head attention: the scaled dot product of the Transformer, with a step for search."""

import math
from functools import partial

from keras import ops

from keras_attn_zoo.kernels import fused_contexts
from keras_attn_zoo.layers.base.chunked_cache import reached_energies
from keras_attn_zoo.layers.base.dot_product_attention import DotProductAttention
from keras_attn_zoo.layers.base.folded_axes import FoldedAxes
from keras_attn_zoo.layers.base.rematerialization import may_be
from keras_attn_zoo.layers.base.self_attention_steps import ProjectionsSeen
from keras_attn_zoo.layers.registry import attention
from keras_attn_zoo.support.types import Config, Tensor, TensorTree


@attention(
    "multi_head",
    source="Zeng 1-2, Dang §2.7",
    places=("encoder", "decoder", "cross"),
    year=2017,
    arguments=lambda sizes: sizes.heads,
    cost=("1", "I·J·d", "J·d", "none; as self-attention I·d keys and values"),
)
@attention(
    "multi_query",
    source="Shazeer 2019 §3",
    places=("encoder", "decoder", "cross"),
    year=2019,
    arguments=lambda sizes: {**sizes.heads, "num_key_value_heads": 1},
    cost=("1", "I·J·d", "J·d", "none; as self-attention I·d/N keys and values"),
)
@attention(
    "grouped_query",
    source="Ainslie §2.2",
    places=("encoder", "decoder", "cross"),
    year=2023,
    arguments=lambda sizes: {**sizes.heads, "num_key_value_heads": math.gcd(sizes.num_heads, 2)},
    cost=("1", "I·J·d", "J·d", "none; as self-attention 2·I·d/N keys and values"),
)
class MultiHeadAttention(FoldedAxes, ProjectionsSeen, DotProductAttention):
    """Scaled dot-product attention in several heads: the baseline of four papers.

    Use it as self-attention and cross-attention of a Transformer, in place of `keras.layers.MultiHeadAttention`:
    arguments, call, weights and outputs are the same, and it adds steps for a search.

        ê_ij^n = (W_q^n s_i)ᵀ (W_k^n h_j) / √d_k
        α_ij^n = softmax_j(ê_ij^n)
        c_i    = Σ_n O^n Σ_j α_ij^n (W_v^n h_j) + b

    Symbols: s the query, h key and value; n counts the heads; W_q, W_k
    `(width, heads, key_dim)`, W_v `(width, heads, value_dim)`, each with a bias, O
    `(heads, value_dim, output width)`.

    With G heads of keys and values in place of N, a group of N/G neighbouring heads shares one, W_k^g and W_v^g with
    g = ⌊nG/N⌋: a search keeps G/N of the keys and values. This is grouped-query attention, and with G = 1 multi-query
    attention; by the name `grouped_query`, G is 2, or 1 if N is odd. With norms of queries and keys, x = W_q^n s_i or
    W_k^n h_j becomes γ ⊙ x / √(mean x² + ε) before their product.

    Args:
        num_heads, key_dim, value_dim: number of heads; widths d_k of a query's and key's head, and of a value's.
        dropout: rate on the weights, which the scores do not show.
        use_bias: whether the four projections have biases.
        output_shape: width of the context, or its sizes in place of the width; by default that of the query.
        attention_axes: the axes of a query with more than three that are attended along; by default all but the first
            and the last. See `FoldedAxes`.
        sliding_window: a position attends only to positions less than this far away; None for all. Not in steps of
            cross-attention, which know no position.
        use_gate: accepted only as False.
        flash_attention: how the context of a call is computed if its scores are not asked for, and no dropout is at
            work. None and False: from weights, which alone have second derivatives under PyTorch. True: without
            weights, by the kernel called flash attention of `keras.ops.dot_product_attention`.
        num_key_value_heads: G, a divisor of `num_heads`; by default as many.
        positions: what energies know of the distance of two positions, see `layers.base.positions`: "rotary", "alibi",
            "shaw", "t5", or None. In cross-attention, i counts the target and j the source, and a step needs its
            `position`.
        query_key_norm: whether queries and keys are normalised, by their root mean square, with γ `(key_dim,)` for all
            heads of each.
        kernel_initializer, bias_initializer: as in Keras.
        kernel_regularizer, bias_regularizer, kernel_constraint, bias_constraint, seed: as in Keras.

    Shapes: see `AttentionLayer`; the context is as wide as `output_shape` says.

    Masking: as in Keras' layer, but a row with nothing to attend to gives 0, bias
    included, and the softmax runs in float32 under every policy.

    State: as self-attention, the keys and values so far,
    `{"key": [(batch, num_key_value_heads, positions, key_dim), ...], "value": ..., "position": (batch,)}`,
    in parts of `max_length` positions; of a subclass, tensors of all. As cross-attention, none.

    Raises:
        ValueError: sizes that are not positive integers, a dropout outside [0, 1), shapes that do not fit; with
            `flash_attention=True`, a dropout, a normaliser other than the softmax, positions that add to energies, or
            scores asked for. Where the backend has no such kernel for a call, Keras raises.

    Example:
        >>> layer = MultiHeadAttention(num_heads=2, key_dim=4)
        >>> context = layer(keras.ops.ones((3, 5, 8)), use_causal_mask=True)  # (3, 5, 8)

    Source: Zeng, equations 1 and 2; Dang, section 2.7; Rosendahl, equation 1. Groups: Ainslie et al. 2023, section 2.2;
    one group: Shazeer 2019, section 3. Norms: Dehghani et al. 2023, section 2, whose norm neither centres nor has a
    bias.
    """

    attends_to = "either"
    # What a subclass with other weights does not inherit.
    beams_share = True
    takes_flash_attention = True
    takes_axes = True

    def attend_without_weights(
        self, query: Tensor, memory: TensorTree, mask: Tensor | None, causal: bool, training: bool | None = None
    ) -> Tensor | None:
        """Return contexts in one operation, where that is asked for; otherwise None."""
        inherited = "takes_flash_attention" not in type(self).__dict__
        if not self.flash_attention or inherited or self.normalizer != "softmax" or (self.dropout and may_be(training)):
            return None
        # The operation of Keras takes as many heads of keys and values as of queries.
        size = self.num_heads // self.num_key_value_heads
        key, value = (x if size == 1 else ops.repeat(x, size, axis=1) for x in (memory["key"], memory["value"]))
        query, given_mask = self.project("query", ops.cast(query, self.compute_dtype)), None if causal else mask
        return self.merge(fused_contexts(query, key, value, given_mask, causal, self.flash_attention), mask)

    def attend(
        self, query: Tensor, memory: TensorTree, mask: Tensor | None, training: bool | None = None
    ) -> tuple[Tensor, Tensor]:
        """Attend from all target positions; see `AttentionLayer.attend`."""
        if self.flash_attention:
            raise ValueError(
                f"{type(self).__name__}: flash attention computes no scores: leave out `flash_attention=True`, or "
                "`return_attention_scores=True`."
            )
        return super().attend(query, memory, mask, training)

    def mask_of_step(self, memory: TensorTree, position: Tensor) -> Tensor | None:
        """Return the mask of a step: up to its position, and within the window."""
        mask = super().mask_of_step(memory, position)
        if self.sliding_window is None:
            return mask
        return mask & (memory["positions"][None] > position[:, None] - self.sliding_window)[:, None, None]

    def observe(
        self, query: Tensor, memory: TensorTree, state: TensorTree
    ) -> tuple[TensorTree, Tensor | None, TensorTree]:
        """Return what a step attends to; see `AttentionLayer.observe`."""
        memory, mask, next_state = super().observe(query, memory, state)
        if self.sliding_window is None:
            return memory, mask, next_state
        if "positions" not in memory:
            raise ValueError(
                f"{type(self).__name__}: a step of cross-attention has no position for `sliding_window`: leave it out, "
                "or call the layer with all positions."
            )
        if "visible" in memory:
            near = memory["positions"] > memory["index"] - self.sliding_window
            mask = mask & ops.repeat(near, memory["visible"].shape[2])[None, None, None]
        return memory, mask, next_state

    def get_config(self) -> Config:
        """Return the arguments of the constructor."""
        return {**super().get_config(), "flash_attention": self.flash_attention}

    def products(self, query: Tensor, memory: TensorTree) -> Tensor:
        """Return products of projected queries and keys; where beams share a state, keys are columns already."""
        plain = super().products
        if "index" not in memory or not self._shares():
            return plain(query, memory)
        place = memory["index"] * query.shape[2]
        if "visible" in memory:
            columns = partial(self.by_group, ops.matmul)
            return reached_energies(query, memory["key"], place, axis=3, product=columns)
        return reached_energies(query, memory["key"], place, axis=2, product=lambda q, part: plain(q, {"key": part}))
