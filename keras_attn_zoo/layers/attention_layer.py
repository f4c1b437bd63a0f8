"""What every attention layer shares: the call of Keras' multi-head attention, and the step of a search."""

import keras
from keras import ops

from keras_attn_zoo.layers.masks import combine_masks, masked_softmax


class AttentionLayer(keras.layers.Layer):
    """Base class of the attention layers: two contracts, one mechanism.

    Subclass it for a mechanism whose weights at one target position do not
    depend on those at another: give `prepare` (what of the source is computed
    once) and `energies`, and both contracts follow. A mechanism with a memory
    of its past gives `initial_state`, `step` and `attend` too.

    The call, for all target positions at once::

        context, scores = layer(query, value, value_mask=mask, return_attention_scores=True)

    The step, for a search, one position at a time::

        memory = layer.prepare(value, value_mask=mask)
        state = layer.initial_state(memory)
        context, scores, state = layer.step(query_i, memory, state)

    Shapes:
        query: `(batch, target, query_dim)`; query_i: `(batch, query_dim)`.
        value, key: `(batch, source, value_dim)`; `key` is `value` where it is not given.
        context: `(batch, target, value_dim)`, in a step `(batch, value_dim)`, in the compute type.
        scores: `(batch, heads, target, source)`, in a step `(batch, heads, source)`, float32.

    Masking: all masks are true where a position may be attended. A row with
    nothing to attend, and a masked query, gets weights and context 0.

    Self-attention: `value` is left out, and `value_mask` is `query_mask` where it
    is not given. Its steps are causal and begin with a maximum length and a
    batch size; its scores in a step are `(batch, heads, max_length)`::

        memory = layer.prepare(max_length=100)
        state = layer.initial_state(memory, batch_size=8)
        context, scores, state = layer.step(x_i, memory, state)

    `attends_to` says what a mechanism takes: "value" (cross-attention alone),
    "itself" (self-attention alone) or "either"; `looks_ahead`, whether a position
    attends to later ones without a mask, so that it has no steps.

    State: a tree of tensors with the batch as first axis, passed in and returned;
    nothing stays on the layer. The memory of cross-attention has a batch axis
    too, that of self-attention has none: it depends on weights and lengths alone.

    Raises:
        ValueError: a query, value or mask whose rank or sizes do not fit; a value
            where the mechanism takes none, or none where it needs one.
    """

    num_heads = 1
    attends_to = "value"
    looks_ahead = False

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def __call__(self, query, value=None, key=None, **kwargs):
        """Call the layer; `layer(x, x)` is self-attention, as Keras' users write it."""
        if self.attends_to == "itself":
            # Seen here, since casting makes two tensors out of one.
            value, key = (None if x is query else x for x in (value, key))
        return super().__call__(query, value, key, **kwargs)

    # What a mechanism gives.

    def prepare(self, value=None, key=None, value_mask=None, max_length=None):
        """Compute what depends on the source alone, once a sentence: the memory of `step`."""
        key = value if key is None else key
        if value_mask is None:
            value_mask = ops.ones(ops.shape(value)[:2], dtype="bool")
        return {
            "key": self.project_key(ops.cast(key, self.compute_dtype)),
            "value": ops.cast(value, self.compute_dtype),
            "mask": ops.cast(value_mask, "bool"),
        }

    def project_key(self, key):
        """Return what the energies need of the keys; the keys themselves unless a mechanism says otherwise."""
        return key

    def energies(self, query, memory):
        """Energies `(batch, heads, target, source)` of a query `(batch, target, query_dim)`, unmasked."""
        raise NotImplementedError

    def initial_state(self, memory, batch_size=None):
        """Return the state before the first target position; empty for a mechanism without one."""
        return {}

    def weight(self, variable):
        """Return a variable in the compute type: `step` runs outside the call in which Keras casts by itself."""
        return ops.cast(variable, self.compute_dtype)

    # What the steps of self-attention begin with.

    def positions(self, max_length):
        """Return the numbers of all positions that steps may reach."""
        if max_length is None:
            raise ValueError(
                f"{type(self).__name__}: steps of self-attention need `max_length` in `prepare`. Received: None."
            )
        return ops.arange(max_length, dtype="int32")

    def first_position(self, batch_size):
        """Return the number of the position that is next, 0 for every sentence."""
        if batch_size is None:
            raise ValueError(
                f"{type(self).__name__}: steps of self-attention need `batch_size` in `initial_state`. Received: None."
            )
        return ops.zeros((batch_size,), dtype="int32")

    def draw_noise(self, memory, length):
        """Draw the dropout of a loop of `length` steps beforehand: a tree of `(length, ...)`, None without dropout."""
        return None

    # The two contracts.

    def step(self, query, memory, state):
        """Attend from one target position.

        Args:
            query: `(batch, query_dim)`; of a mechanism without state, there may be several rows for each sentence of
                the memory, one after the other, such as beams: they share its keys and values.
            memory: what `prepare` returned.
            state: what `initial_state` or the previous `step` returned.

        A mechanism with dropout takes `noise` as well: one position of what `draw_noise` gave, None outside training.
        A step draws no random numbers itself, since none may be drawn inside a loop.

        Returns:
            context `(batch, value_dim)`, scores `(batch, heads, source)`, the next state.
        """
        by_sentence = ops.reshape(query, (ops.shape(memory["mask"])[0], -1, query.shape[-1]))
        context, scores = self.attend(by_sentence, memory, memory["mask"][:, None, None, :])
        scores = ops.reshape(ops.transpose(scores, (0, 2, 1, 3)), (-1, self.num_heads, ops.shape(scores)[3]))
        return ops.reshape(context, (-1, context.shape[-1])), scores, state

    def attend(self, query, memory, mask, training=None):
        """Attend from all target positions: context and scores, under a mask `(batch, heads, target, source)`."""
        scores = masked_softmax(self.energies(ops.cast(query, self.compute_dtype), memory), mask)
        return self.weigh(scores, memory, mask, training), scores

    def weigh(self, scores, memory, mask=None, training=None):
        """Context of single-head scores `(batch, 1, target, source)`: c_i = Σ_j α_ij h_j."""
        return ops.matmul(ops.cast(scores[:, 0], self.compute_dtype), memory["value"])

    def call(
        self,
        query,
        value=None,
        key=None,
        query_mask=None,
        value_mask=None,
        attention_mask=None,
        return_attention_scores=False,
        use_causal_mask=False,
        training=None,
        **prepared,
    ):
        """Attend from every query position; the signature of `keras.layers.MultiHeadAttention`.

        What a mechanism wants besides goes to its `prepare`.
        """
        self._check_shapes(query, value, key, query_mask, value_mask, attention_mask)
        if value is None and value_mask is None:
            value_mask = query_mask
        source = query if value is None else value
        lengths = ops.shape(query)[1], ops.shape(source)[1]
        mask = combine_masks(query_mask, value_mask, attention_mask, use_causal_mask, *lengths)
        memory = self.prepare(source, key=key, value_mask=value_mask, **prepared)
        context, scores = self.attend(query, memory, mask, training=training)
        return (context, scores) if return_attention_scores else context

    def compute_output_spec(
        self,
        query,
        value=None,
        key=None,
        query_mask=None,
        value_mask=None,
        attention_mask=None,
        return_attention_scores=False,
        use_causal_mask=False,
        training=None,
        **prepared,
    ):
        """Return shapes and types without running the layer."""
        self._check_shapes(query, value, key, query_mask, value_mask, attention_mask)
        source = query if value is None else value
        context = keras.KerasTensor(self.compute_output_shape(query.shape, source.shape), self.compute_dtype)
        if not return_attention_scores:
            return context
        shape = (query.shape[0], self.num_heads, query.shape[1], source.shape[1])
        return context, keras.KerasTensor(shape, "float32")

    def compute_output_shape(self, query_shape, value_shape=None, key_shape=None):
        """Return the shape of the context."""
        return (*query_shape[:2], (value_shape or query_shape)[-1])

    def _check_shapes(self, query, value, key, query_mask, value_mask, attention_mask):
        """Raise where ranks or known sizes do not fit, with what came and what is wanted."""
        name = self.__class__.__name__

        def wanted(what, tensor, pattern, *sizes):
            shape = tuple(tensor.shape)
            known = len(shape) == len(sizes) and all(
                have is None or want is None or have == want for have, want in zip(shape, sizes, strict=True)
            )
            if not known:
                raise ValueError(f"{name}: `{what}` must have shape {pattern}. Received: shape {shape}.")

        batch, target = (*query.shape, None, None)[:2]
        wanted("query", query, "(batch, target, query_dim)", None, None, None)
        if self.attends_to == "itself" and not (value is None and key is None):
            raise ValueError(
                f"{name} is self-attention: leave `value` and `key` out, or give the query itself. "
                f"Received: query of shape {tuple(query.shape)} and another value or key."
            )
        if value is None:
            if self.attends_to == "value":
                raise ValueError(f"{name} is cross-attention: it needs a `value`. Received: value=None.")
            if key is not None:
                raise ValueError(f"{name}: a `key` needs a `value`. Received: value=None.")
            source = target
        else:
            wanted("value", value, f"(batch, source, value_dim) with batch {batch}", batch, None, None)
            source = value.shape[1]
        if key is not None:
            wanted("key", key, f"(batch, source, key_dim) = ({batch}, {source}, ...)", batch, source, None)
        if query_mask is not None:
            wanted("query_mask", query_mask, f"(batch, target) = ({batch}, {target})", batch, target)
        if value_mask is not None:
            wanted("value_mask", value_mask, f"(batch, source) = ({batch}, {source})", batch, source)
        if attention_mask is not None:
            pattern = f"(batch, target, source) = ({batch}, {target}, {source}), with an axis of heads or without"
            if len(attention_mask.shape) == 3:
                wanted("attention_mask", attention_mask, pattern, batch, target, source)
            else:
                heads = None if attention_mask.shape[1:2] == (1,) else self.num_heads
                wanted("attention_mask", attention_mask, pattern, batch, heads, target, source)
