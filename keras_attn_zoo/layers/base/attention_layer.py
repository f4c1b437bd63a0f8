"""The base class of all attention layers: one mechanism, and from it the call and the step of a search."""

from typing import Any

from keras import ops, tree

from keras_attn_zoo.kernels import is_repeating, scan, weighted_sum, without_padding
from keras_attn_zoo.layers.base.attention_call import AttentionCall
from keras_attn_zoo.layers.base.checks import as_mask, check_built, check_choice, check_shape, check_source
from keras_attn_zoo.layers.base.dense import with_quantized_policies
from keras_attn_zoo.layers.base.normalizers import NORMALIZERS
from keras_attn_zoo.layers.base.rematerialization import may_be, where_training
from keras_attn_zoo.layers.base.shared_by_layers import SharedByLayers
from keras_attn_zoo.layers.base.target_positions import as_rows, expand_to_positions, to_batch_major, to_time_major
from keras_attn_zoo.support.types import Config, Shape, Tensor, TensorTree


class AttentionLayer(AttentionCall):
    """Base class of the attention layers: two contracts, one mechanism.

    Subclass it and define the energies and, if there is a past, how it changes the
    weights; the call and the step both follow:

    - `prepare` (or `project_key` alone): what depends on the source only, once per sentence;
    - `ahead` (or `energies` alone): what needs no past, for all target positions at once, whose numbers it is given;
    - `initial_state` and `advance`: the weights of one position from its past, and the next past;
    - `normalize` and `weigh`: weights from energies, the context from weights.

    Without a state the call runs in parallel; with one it runs `advance` position by position, with everything else
    before and after that loop. Self-attention also says what its steps have seen so far: see `SelfAttentionSteps`.

    The call, for all target positions at once::

        context, scores = layer(query, value, value_mask=mask, return_attention_scores=True)

    The step, for a search, one position at a time::

        memory = layer.prepare(value, value_mask=mask)
        state = layer.initial_state(memory)
        context, scores, state = layer.step(query_i, memory, state)

    Shapes:
        query: `(batch, target, query_dim)`; query_i: `(batch, query_dim)`.
        value, key: `(batch, source, value_dim)`; `key` is `value` by default.
        context: `(batch, target, value_dim)`, in a step `(batch, value_dim)`, in the compute type.
        scores: `(batch, heads, target, source)`, in a step `(batch, heads, source)`, float32.

    Masking: all masks are true where a position may be attended to, and masks that Keras attaches to a tensor are used
    automatically. A row with nothing to attend to, or a masked query, gets zero weights and a zero context. The
    contents of padding, even NaN, reach neither contexts nor gradients.

    Self-attention: `value` is left out, and `value_mask` defaults to `query_mask`. Its steps are causal and begin with
    a maximum length and a batch size; its scores in a step are `(batch, heads, max_length)`, unless its state has a
    constant size (see `MatrixStateAttention`)::

        memory = layer.prepare(max_length=100)
        state = layer.initial_state(memory, batch_size=8)
        context, scores, state = layer.step(x_i, memory, state)

    Args:
        normalizer: how energies become weights. "softmax" gives every position a share;
            "sparsemax" and, halfway between the two, "entmax15" give most of them exactly 0. With "softmax1"
            weights sum to less than 1, with "sigmoid" they are independent of each other.
            Mechanisms whose weights are not a plain softmax of energies accept only "softmax".

    `attends_to` is "value" (cross-attention only), "itself" (self-attention only) or "either". `looks_ahead` says
    whether a position attends to later ones without a mask, in which case there are no steps; `may_attend_nothing`,
    whether a row may be empty even though nothing is masked; `by_position`, whether the weights depend on positions
    alone; `has_fixed_weights`, of cross-attention, whether no training changes them; `longest_sentence`, the length
    they are made for, None for any.

    State: a tree of tensors, passed in and returned, never kept on the layer; its first axis is the batch, as is that
    of cross-attention's memory. The memory of self-attention depends only on weights and lengths.

    Raises:
        ValueError: a query, value or mask whose rank or sizes do not match; a width other than the layer was built for;
            a value where the mechanism takes none, or none where it needs one; `prepare` before `build`; a step beyond
            `max_length` (inside a compiled loop, which cannot raise, its context is NaN); an unknown normaliser, or one
            that the mechanism does not support.
    """

    num_heads = 1
    attends_to = "value"
    looks_ahead = False
    # How to use a mechanism that looks ahead where it must not.
    without_looking_ahead = "use it as encoder attention"
    may_attend_nothing = False
    by_position = False
    has_fixed_weights = False
    longest_sentence: int | None = None
    # Why a mechanism supports only the softmax; None if it supports all normalisers.
    softmax_alone: str | None = None
    # A subclass of `SharedByLayers`, if the self-attention layers of one side of a model share something.
    shared_by_layers: type[SharedByLayers] | None = None

    def __init__(self, normalizer: str = "softmax", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.normalizer = check_choice(self, "normalizer", normalizer, NORMALIZERS)
        if self.softmax_alone and normalizer != "softmax":
            raise ValueError(
                f"{type(self).__name__} supports only the softmax as `normalizer`: {self.softmax_alone}. "
                f"Received: normalizer={normalizer!r}."
            )
        self.supports_masking = True
        # The widths that `build` has created weights for, by part: "query", "value", "key".
        self.built_widths: dict[str, Any] = {}

    # What a mechanism defines.

    def build(self, query_shape: Shape, *shapes: Any, **named_shapes: Any) -> None:
        """Create the weights, from the shapes of query, value and key; by default none."""
        self.built = True

    def prepare(
        self,
        value: Tensor | None = None,
        key: Tensor | None = None,
        value_mask: Tensor | None = None,
        max_length: int | None = None,
    ) -> TensorTree:
        """Compute what depends only on the source, once per sentence: the memory of `step`."""
        check_built(self)
        if value is None:
            raise ValueError(f"{type(self).__name__}: `prepare` needs a `value`. Received: value=None.")
        value_mask = as_mask(self, "value_mask", value_mask)
        check_source(self, value, key, value_mask)
        if value_mask is not None and 1 in tuple(value_mask.shape):
            value_mask = ops.broadcast_to(value_mask, ops.shape(value)[:2])
        value = without_padding(value, value_mask)
        key = value if key is None else without_padding(key, value_mask)
        if value_mask is None:
            value_mask = ops.ones(ops.shape(value)[:2], dtype="bool")
        return {
            "key": self.project_key(ops.cast(key, self.compute_dtype)),
            "value": ops.cast(value, self.compute_dtype),
            "mask": ops.cast(value_mask, "bool"),
        }

    def project_key(self, key: Tensor) -> Tensor:
        """Return what the energies need of the keys; by default the keys themselves."""
        return key

    def energies(self, query: Tensor, memory: TensorTree) -> Tensor:
        """Return energies `(batch, heads, target, source)` of a query `(batch, target, query_dim)`, unmasked."""
        raise NotImplementedError

    def ahead(self, query: Tensor, memory: TensorTree, positions: Tensor | None = None) -> TensorTree:
        """Compute what needs no past, `(batch, heads, target, ...)`: by default the energies, in float32.

        `positions` are the numbers of the target positions, `(target,)` and counted from 0; None in a step that was not
        given its position.
        """
        energies = self.energies(query, memory)
        check_shape(self, "energies", energies, "(batch, heads, target, source)", (None, None, None, None))
        return ops.cast(energies, "float32")

    def initial_state(self, memory: TensorTree, batch_size: int | None = None) -> TensorTree:
        """Return the state before the first target position, a dict of tensors or lists; empty without a past."""
        return {}

    def advance(
        self, at: TensorTree, memory: TensorTree, mask: Tensor | None, state: TensorTree
    ) -> tuple[Tensor, TensorTree]:
        """Return weights `(batch, heads, target, source)` from the result of `ahead`, and the next state.

        With a state it is called for one position after the other, with a target axis of size 1 in `at`, weights and
        mask; without one, once for all positions. The weights are those before dropout.
        """
        return self.normalize(at, mask), state

    def normalize(self, energies: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return weights from energies `(..., source)`: the normaliser in float32, 0 where the mask is false."""
        return NORMALIZERS[self.normalizer](energies, mask)

    def weigh(
        self, weights: Tensor, memory: TensorTree, mask: Tensor | None = None, training: bool | None = None
    ) -> Tensor:
        """Return the context from single-head weights `(batch, 1, target, source)`: c_i = Σ_j α_ij h_j."""
        return weighted_sum(weights[:, 0], memory["value"])

    def observe(
        self, query: Tensor, memory: TensorTree, state: TensorTree
    ) -> tuple[TensorTree, Tensor | None, TensorTree]:
        """Return what a step attends to, under which mask (None leaves nothing out), and the next state.

        `query` has a target axis of size 1. Cross-attention attends to the memory as it is.
        """
        return memory, memory["mask"][:, None, None], state

    def draw_noise(self, memory: TensorTree, length: int | Tensor) -> TensorTree | None:
        """Draw the dropout for a loop of `length` steps: a tree of tensors `(length, ...)`; None without dropout."""
        return None

    def after_dropout(self, state: TensorTree, dropped: Tensor) -> TensorTree:
        """Return the next state, given a position's weights after dropout; by default unchanged."""
        return state

    def no_weights(self, memory: TensorTree) -> Tensor:
        """Return zeros for the weights of one position, `(batch, heads, 1, source)`: often the initial past."""
        batch, source = ops.shape(memory["mask"])
        return ops.zeros((batch, self.num_heads, 1, source), dtype="float32")

    def weight(self, variable: Tensor) -> Tensor:
        """Return a variable in the compute type: `step` runs outside the call, where Keras does not cast."""
        return ops.cast(variable, self.compute_dtype)

    # The two contracts.

    def step(
        self,
        query: Tensor,
        memory: TensorTree,
        state: TensorTree,
        noise: TensorTree | None = None,
        position: int | Tensor | None = None,
    ) -> tuple[Tensor, Tensor, TensorTree]:
        """Attend from one target position.

        Args:
            query: `(batch, query_dim)`; if the mechanism has no state, there may be several adjacent rows for each
                sentence of the memory, such as beams, which share its keys and values.
            memory: what `prepare` returned.
            state: what `initial_state` or the previous `step` returned.
            noise: in training, one position of the result of `draw_noise`, since no random numbers may be drawn inside
                a loop.
            position: the number of the target position, from 0, for mechanisms that depend on it; steps of
                self-attention count for themselves.

        Returns:
            context `(batch, value_dim)`, scores `(batch, heads, source)`, the next state.
        """
        width = self.built_widths.get("query")
        check_shape(self, "query", query, f"(batch, {width or 'query_dim'})", (None, width))
        if not is_repeating():
            query = ops.cast(query, self.compute_dtype)
        positions = None if position is None else ops.reshape(ops.cast(position, "int32"), (1,))
        if state:
            query = query[:, None]
            context, scores, state = self.attend_once(query, *self.observe(query, memory, state), noise, positions)
            return context[:, 0], scores[:, :, 0], state
        query = ops.reshape(query, (ops.shape(memory["mask"])[0], -1, query.shape[-1]))
        context, scores, _ = self.attend_once(query, *self.observe(query, memory, state), noise, positions)
        return *as_rows(context, scores), state

    def attend_once(
        self,
        query: Tensor,
        memory: TensorTree,
        mask: Tensor | None,
        state: TensorTree,
        noise: TensorTree | None = None,
        positions: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, TensorTree]:
        """Run a step on what `observe` returned: context and scores with a target axis, the next state."""
        weights, state = self.advance(self.ahead(query, memory, positions), memory, mask, state)
        dropped = weights
        if noise is not None:
            dropped = weights * ops.cast(noise, "float32")[:, :, None]
            state = self.after_dropout(state, dropped)
        context = self.weigh(dropped, memory, mask, training=False)
        return *expand_to_positions(query, context, weights), state

    def attend(
        self, query: Tensor, memory: TensorTree, mask: Tensor | None, training: bool | None = None
    ) -> tuple[Tensor, Tensor]:
        """Attend from all target positions: context and scores, under a mask `(batch, heads, target, source)`.

        A mechanism with a state may override it if its recurrence has a closed form; a test compares the two.
        """
        positions = ops.arange(ops.shape(query)[1], dtype="int32")
        at = self.ahead(ops.cast(query, self.compute_dtype), memory, positions)
        state = self.initial_state(memory)
        if state:
            return self.attend_in_turn(at, memory, mask, state, training)
        weights, _ = self.advance(at, memory, mask, state)
        return expand_to_positions(query, self.weigh(weights, memory, mask, training), weights)

    def attend_in_chunks(
        self, query: Tensor, memory: TensorTree, query_mask: Tensor | None, causal: bool, training: bool | None = None
    ) -> Tensor | None:
        """Return the context if it can be had without an array of all pairs of positions; by default, None.

        It is asked for where no scores are, and nothing is masked but padding and, if `causal`, later positions. The
        padding of the source is in the memory.
        """
        return None

    def attend_without_weights(
        self, query: Tensor, memory: TensorTree, mask: Tensor | None, causal: bool, training: bool | None = None
    ) -> Tensor | None:
        """Return the context if it can be had without weights; `causal`: the mask is only that. By default, None."""
        return None

    def attend_in_turn(
        self, at: TensorTree, memory: TensorTree, mask: Tensor | None, state: TensorTree, training: bool | None = None
    ) -> tuple[Tensor, Tensor]:
        """Attend from one target position after the other; whatever needs no past is outside the loop."""
        steps = {"at": tree.map_structure(to_time_major, at)}
        if mask is not None and mask.shape[2] != 1:
            steps["mask"] = to_time_major(mask)
        noise = self.draw_noise(memory, ops.shape(tree.flatten(at)[0])[2]) if may_be(training) else None
        if noise is not None:
            steps["noise"] = where_training(training, ops.cast(noise, "float32"), 1.0)[:, :, :, None]

        def step(state, this):
            weights, state = self.advance(this["at"], memory, this.get("mask", mask), state)
            if "noise" in this:
                state = self.after_dropout(state, weights * this["noise"])
            return state, weights

        _, weights = scan(step, state, steps)
        weights = to_batch_major(weights)
        dropped = weights if noise is None else weights * to_batch_major(steps["noise"])
        return self.weigh(dropped, memory, mask, training=False), weights

    def get_config(self) -> Config:
        """Return the arguments of the constructors and, after `quantize`, the policies of the projections.

        A mechanism keeps each argument as an attribute of the same name, or adds it in a `get_config` of its own.
        """
        normalizer = {} if self.softmax_alone else {"normalizer": self.normalizer}
        return with_quantized_policies(self, {**super().get_config(), **normalizer})
