"""Recurrent cross-attention with one more pair of key and value, made from the previous context."""

from typing import Any

from keras import ops

from keras_attn_zoo.kernels import EXCLUDED, linear, operand_dtype, pair_recurrence, scan, with_pair
from keras_attn_zoo.layers.base.dot_product_attention import DotProductAttention
from keras_attn_zoo.layers.base.kernel_initialization import add_kernel
from keras_attn_zoo.layers.base.rematerialization import may_be
from keras_attn_zoo.layers.registry import attention
from keras_attn_zoo.support.types import Shape, Tensor, TensorTree

VARIANTS = (1, 2, 3, 4)


@attention(
    "expanded_key_value_1",
    source="Rosendahl 5",
    places=("cross",),
    year=2021,
    arguments=lambda sizes: {**sizes.heads, "variant": 1},
    cost=("I", "I·J·d + I·d²", "J·d + d²", "2·d: one key, one value"),
)
@attention(
    "expanded_key_value_2",
    source="Rosendahl 6",
    places=("cross",),
    year=2021,
    arguments=lambda sizes: {**sizes.heads, "variant": 2},
    cost=("I", "I·J·d + I·d²", "J·d + d²", "2·d: one key, one value"),
)
@attention(
    "expanded_key_value_3",
    source="Rosendahl 7",
    places=("cross",),
    year=2021,
    arguments=lambda sizes: {**sizes.heads, "variant": 3},
    cost=("I", "I·J·d + I·d²/N", "J·d + d²/N", "2·d: one key, one value"),
)
@attention(
    "expanded_key_value_4",
    source="Rosendahl 8",
    places=("cross",),
    year=2021,
    arguments=lambda sizes: {**sizes.heads, "variant": 4},
    cost=("I", "I·J·d + I·d²/N", "J·d + d²/N", "2·d: one key, one value"),
)
class ExpandedKeyValueAttention(DotProductAttention):
    """Multi-head cross-attention that can attend to its own previous context as well as the source.

    Use it as cross-attention of a Transformer's decoder, to let a position reuse what the previous one has read.

        α_i^n = softmax([ê_i1^n, ..., ê_iJ^n, (g_k^n)ᵀ W_q^n s_i / √d_k])
        c_i^n = Σ_j α_ij^n (W_v^n h_j) + α_ig^n g_v^n,   c_i = Σ_n O^n c_i^n + b

        g_k^n = W_k^n c_{i-1},      g_v^n = W_v^n c_{i-1}          variant=1
        g_k^n = W_gk^n c_{i-1},     g_v^n = W_gv^n c_{i-1}         variant=2
        g_k^n = W_gk^n c_{i-1}^n,   g_v^n = W_gv^n c_{i-1}^n       variant=3
        g_k^n = W_gk^n c_{i-1}^n,   g_v^n = c_{i-1}^n              variant=4

    Symbols: ê, W, O as in `MultiHeadAttention`; n counts the heads; c_0 = 0; W_gk `(width, heads, key_dim)` in variant
    2, `(heads, value_dim, key_dim)` in 3 and 4; W_gv alike, towards value_dim.

    One more position in a softmax takes the share p_i = sigmoid(energy - log Σ_j exp ê_ij) evenly from all others, so
    c_i^n = (1 - p_i) · plain context + p_i g_v^n. The plain contexts of all positions are computed before the loop,
    which never touches the source; in variants 1 and 2, training makes O W_gk and O W_gv once, and c_i after the loop.
    A sparse `normalizer` has no such form: every step of its loop weighs the source anew.

    Args:
        variant: 1 to 4, as above.
        num_heads, key_dim, **kwargs: see `MultiHeadAttention`.

    Shapes: see `MultiHeadAttention`; a `value` is required. The scores cover only the source: they sum to 1 - p_i.

    Masking: see `MultiHeadAttention`. A position with no source to attend to gets
    0, and the next position gets the pair made from c_{i-1} = 0.

    State: `{"key": (batch, heads, key_dim), "value": (batch, heads, value_dim)}`, the pair made from c_{i-1}.

    Raises:
        ValueError: an unknown variant; variant 1 if context, key and value differ in width.

    Example:
        >>> layer = ExpandedKeyValueAttention(num_heads=2, key_dim=4, variant=3)
        >>> context = layer(keras.ops.ones((3, 5, 8)), keras.ops.ones((3, 7, 8)))  # (3, 5, 8)

    Source: Rosendahl, equations 5 to 8.

    Differences from the paper: its maps have no biases. Here `use_bias` adds biases
    to W_k, W_v and O, which variants 1 and 2 use too; W_gk and W_gv have none.
    """

    plain_heads = "each head has its past as a key, without a position"

    def __init__(
        self, num_heads: int, key_dim: int, value_dim: int | None = None, variant: int = 1, **kwargs: Any
    ) -> None:
        super().__init__(num_heads, key_dim, value_dim, **kwargs)
        if variant not in VARIANTS or isinstance(variant, bool):
            raise ValueError(
                f"ExpandedKeyValueAttention: `variant` must be one of 1, 2, 3, 4. Received: variant={variant!r}."
            )
        self.variant = int(variant)

    def build(self, query_shape: Shape, value_shape: Shape | None = None, key_shape: Shape | None = None) -> None:
        """Create the maps of the additional pair, and the projections."""
        super().build(query_shape, value_shape, key_shape)
        width = self.output_width or query_shape[-1]
        inputs = {part: self.built_widths[part] for part in ("key", "value")}
        if self.variant == 1:
            if set(inputs.values()) != {width}:
                raise ValueError(
                    "ExpandedKeyValueAttention: variant 1 projects the context as a key and a value, and needs all of "
                    f"one width. Received: context {width}, key {inputs['key']}, value {inputs['value']}."
                )
            return
        sizes = {"key": self.key_dim, "value": self.value_dim}
        if self.variant == 4:
            del sizes["value"]
        for part, size in sizes.items():
            shape = (width, self.num_heads, size) if self.variant == 2 else (self.num_heads, self.value_dim, size)
            setattr(self, f"context_{part}_kernel", add_kernel(self, f"context_{part}_kernel", shape))

    def initial_state(self, memory: TensorTree, batch_size: int | None = None) -> TensorTree:
        """Return the pair made from c_0 = 0."""
        bias = self._pair_bias()
        return self._key_and_value(ops.broadcast_to(bias, (ops.shape(memory["mask"])[0], *bias.shape)))

    def draw_noise(self, memory: TensorTree, length: int | Tensor) -> TensorTree | None:
        """Draw the dropout on the weights of every step, those of the additional pair included."""
        if not self.dropout:
            return None
        pair = (length, ops.shape(memory["mask"])[0], self.num_heads, 1)
        return {"source": super().draw_noise(memory, length), "pair": self._noise(pair)}

    # Its past is a context, which only exists once the weights of a position have met the values and, in variants 1
    # and 2, the output projection: no weights can advance by themselves, so `attend_once` and `attend` are its own.

    def ahead(self, query: Tensor, memory: TensorTree, positions: Tensor | None = None) -> TensorTree:
        """Return the projected query, and its energies."""
        query = self.project_query(query)
        return {"query": query, "energies": ops.cast(self.products(query, memory), "float32")}

    def attend_once(
        self,
        query: Tensor,
        memory: TensorTree,
        mask: Tensor | None,
        state: TensorTree,
        noise: TensorTree | None = None,
        positions: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, TensorTree]:
        """Attend from one target position, with the pair that the position before has left."""
        at = self.ahead(query, memory)
        if self.normalizer == "softmax":
            at, scores = self._without_pair(at, memory, mask, training=False, noise=noise)
            at = {name: x[:, :, 0] for name, x in at.items()}
            context, share = with_pair(at, **state)
            scores = scores * (1.0 - share[..., None])
        else:
            at = {name: x[:, :, 0] for name, x in self._beside_pair(at, memory, mask, training=False).items()}
            if noise is not None:
                at["noise"] = ops.concatenate([noise["source"], noise["pair"]], axis=-1)
            context, scores = self._of_source_and_pair(at, memory["value"], **state)
            scores = scores[:, :, None]
        merged, state = self._merged_and_pair(context, at["real"], mask)
        return merged, scores, state

    @property
    def operand_dtype(self) -> str:
        """The compute type: the loop carries keys and values."""
        return self.compute_dtype

    def attend(
        self, query: Tensor, memory: TensorTree, mask: Tensor | None, training: bool | None = None
    ) -> tuple[Tensor, Tensor]:
        """Attend from all target positions."""
        at = self.ahead(ops.cast(query, self.compute_dtype), memory)
        if self.normalizer != "softmax":
            return self._attend_step_by_step(at, memory, mask, training)
        steps, scores = self._without_pair(at, memory, mask, training)
        kind = operand_dtype(self.compute_dtype)
        steps.update({name: ops.cast(steps[name], kind) for name in ("query", "context", "noise") if name in steps})
        # The sentences of the batch last.
        steps = {name: ops.transpose(x, (2, 1, 3, 0)) for name, x in steps.items()}
        contexts, shares = (ops.transpose(x, (3, 1, 0, 2)) for x in pair_recurrence(steps, *self._map_of_contexts()))
        return self.merge(ops.cast(contexts, self.compute_dtype), mask), scores * (1.0 - shares)

    def _attend_step_by_step(self, at, memory, mask, training):
        """The loop of all variants where the share of the pair has no closed form: every step weighs the source too."""
        steps = self._beside_pair(at, memory, mask, training)
        steps = {name: ops.transpose(x, (2, 0, 1, 3)) for name, x in steps.items()}

        def step(pair, at):
            context, scores = self._of_source_and_pair(at, memory["value"], **pair)
            if self.variant >= 3:
                # Merged after the loop, in one product.
                return self._pair_by_head(context), (context, scores)
            merged, pair = self._merged_and_pair(context, at["real"], at["real"][..., None])
            return pair, (merged[:, 0], scores)

        _, (found, scores) = scan(step, self.initial_state(memory), steps)
        if self.variant < 3:
            merged = ops.transpose(found, (1, 0, 2))
        else:
            merged = self.merge(ops.transpose(found, (1, 2, 0, 3)), mask)
        return merged, ops.transpose(scores, (1, 2, 0, 3))

    def _beside_pair(self, at, memory, mask, training):
        """What a step needs that weighs source and pair together, for every head and position."""
        heads, source = ops.shape(at["energies"])[:3], ops.shape(at["energies"])[3]
        mask = ops.broadcast_to(ops.ones((1, 1, 1, 1), dtype="bool") if mask is None else mask, (*heads, source))
        real = ops.any(mask, axis=-1, keepdims=True)
        steps = {**at, "mask": ops.concatenate([mask, real], axis=-1), "real": real}
        if self.dropout and training is not False:
            steps["noise"] = self.drop(ops.ones((*heads, source + 1)), training)
        return steps

    def _of_source_and_pair(self, at, values, key, value):
        """Contexts of the heads from one position, and the weights of the source."""
        energy = ops.sum(ops.cast(at["query"] * key, "float32"), axis=-1, keepdims=True)
        scores = self.normalize(ops.concatenate([at["energies"], energy], axis=-1), at["mask"])
        weights = ops.cast(scores, self.compute_dtype) * at.get("noise", 1)
        context = ops.matmul(weights[:, :, None, :-1], values)[:, :, 0] + weights[..., -1:] * value
        return context, scores[..., :-1]

    def _merged_and_pair(self, context, real, mask):
        """The merged context of one position, and the pair that it leaves."""
        merged = self.merge(context[:, :, None], mask)
        if self.variant < 3:
            return merged, self._pair(merged[:, 0])
        return merged, self._pair_by_head(ops.where(real, context, 0.0))

    def _without_pair(self, at, memory, mask, training=None, noise=None):
        """Results from the source alone: query, context and log Σ_j exp ê_ij of every head and position; scores."""
        energies = at["energies"]
        scores = self.normalize(energies, mask)
        if mask is None:
            mask = ops.ones((1, 1, 1, 1), dtype="bool")
        heads = ops.shape(energies)[:3]
        real = ops.broadcast_to(ops.any(mask, axis=-1), heads)
        # 0 where nothing is attended: the share is set to 0 there.
        normalizer = ops.logsumexp(ops.where(mask, energies, EXCLUDED), axis=-1)
        weights = scores if noise is None else scores * noise["source"][:, :, None]
        steps = {
            "query": at["query"],
            "context": ops.matmul(self.drop(weights, training), memory["value"]),
            "normalizer": ops.where(real, normalizer, 0.0)[..., None],
            "real": real[..., None],
        }
        if self.dropout and may_be(training):
            steps["noise"] = self.drop(ops.ones((*heads, 1)), training)
        if noise is not None:
            steps["noise"] = noise["pair"][:, :, None]
        return steps, scores

    def _pair(self, merged):
        """Key and value from the merged context, in variants 1 and 2."""
        # One product each: to join the kernels, as a loop can do beforehand, would move all of them at every step.
        parts = [linear(merged, kernel) for kernel in self._pair_kernels()]
        parts = [ops.reshape(x, (-1, self.num_heads, x.shape[-1] // self.num_heads)) for x in parts]
        return self._key_and_value(ops.concatenate(parts, axis=-1) + self._pair_bias())

    def _key_and_value(self, pair):
        """The state from pairs `(batch, heads, key_dim + value_dim)`."""
        return {"key": pair[..., : self.key_dim], "value": pair[..., self.key_dim :]}

    def _pair_by_head(self, contexts):
        """Key and value from the contexts of the heads, in variants 3 and 4."""

        def of_heads(kernel):
            return ops.einsum("bnv,nvk->bnk", contexts, self.weight(kernel))

        value = contexts if self.variant == 4 else of_heads(self.context_value_kernel)
        return {"key": of_heads(self.context_key_kernel), "value": value}

    def _pair_kernels(self):
        """Kernels from a merged context to key and value, in variants 1 and 2."""
        width = self.output_dense.width
        if self.variant == 2:
            kernels = [ops.reshape(x, (width, -1)) for x in (self.context_key_kernel, self.context_value_kernel)]
        else:
            kernels = [self.key_dense.matrix(), self.value_dense.matrix()]
        return [self.weight(x) for x in kernels]

    def _map_of_contexts(self):
        """Kernel and bias from the heads' contexts to the next pair, key and value as one; the pair that c = 0 makes.

        In variants 1 and 2, the loop multiplies by O [W_gk, W_gv], made once, instead of by one after the other.
        """
        bias = self._pair_bias()
        if self.variant >= 3:
            value = self.weight(self.context_value_kernel) if self.variant == 3 else ops.eye(self.value_dim)
            value = ops.broadcast_to(value, (self.num_heads, self.value_dim, self.value_dim))
            parts = [self.weight(self.context_key_kernel), ops.cast(value, self.compute_dtype)]
            return ops.cast(ops.concatenate(parts, axis=-1), operand_dtype(self.compute_dtype)), bias, bias
        width = self.output_dense.width
        parts = [ops.reshape(x, (width, self.num_heads, x.shape[-1] // self.num_heads)) for x in self._pair_kernels()]
        pair = ops.reshape(ops.concatenate(parts, axis=-1), (width, -1))
        of_merged = bias
        if self.use_bias:
            merged = ops.reshape(self.weight(self.output_dense.bias), (1, width))
            of_merged = bias + ops.reshape(linear(merged, pair), bias.shape)
        return linear(self.weight(self.output_dense.matrix()), pair), of_merged, bias

    def _pair_bias(self):
        """Bias of key and value of every head: the pair that results from a context of 0."""
        shape = (self.num_heads, self.key_dim + self.value_dim)
        if self.variant == 1 and self.use_bias:
            biases = [self.key_dense.bias, self.value_dense.bias]
            parts = [ops.reshape(self.weight(x), (self.num_heads, -1)) for x in biases]
            return ops.concatenate(parts, axis=-1)
        return ops.zeros(shape, dtype=self.compute_dtype)
