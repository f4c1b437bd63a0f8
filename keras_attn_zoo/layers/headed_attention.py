"""What the attentions with heads share: a value projection, dropout on weights, an output projection."""

import keras
from keras import ops

from keras_attn_zoo.layers.attention_layer import AttentionLayer
from keras_attn_zoo.layers.dropout import Dropout
from keras_attn_zoo.layers.heads import HeadMerge, HeadProjection

# What Keras' own layer says of kernels and biases, under the same names.
_OPTIONS = (
    "kernel_initializer",
    "bias_initializer",
    "kernel_regularizer",
    "bias_regularizer",
    "kernel_constraint",
    "bias_constraint",
)
_GET = {"initializer": keras.initializers, "regularizer": keras.regularizers, "constraint": keras.constraints}


class HeadedAttention(AttentionLayer):
    """What the attentions with heads share: a value projection, weights, dropout, an output projection.

        c_i^n = Σ_j α_ij^n (W_v^n h_j),   c_i = Σ_n O^n c_i^n + b

    Args: see `MultiHeadAttention`; `key_dim` is the width of a value's head where `value_dim` is not given.
    """

    def __init__(
        self,
        num_heads,
        key_dim,
        value_dim=None,
        dropout=0.0,
        use_bias=True,
        output_shape=None,
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        kernel_regularizer=None,
        bias_regularizer=None,
        kernel_constraint=None,
        bias_constraint=None,
        seed=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        given = locals()
        for what in ("num_heads", "key_dim", "value_dim", "output_shape"):
            optional = what in ("value_dim", "output_shape")
            check_positive(self, what, given[what], optional=optional)
        if not 0 <= dropout < 1:
            raise ValueError(f"{type(self).__name__}: `dropout` must lie in [0, 1). Received: dropout={dropout}.")
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.value_dim = value_dim or key_dim
        self.dropout = dropout
        self.use_bias = use_bias
        self.output_width = output_shape
        self.seed = seed
        self.options = {name: _GET[name.split("_")[1]].get(given[name]) for name in _OPTIONS}
        # The attributes are named as in Keras' layer: its weight files can be read.
        self.value_dense = self._projection("value", self.value_dim)
        self._dropout_layer = Dropout(dropout, seed=seed, dtype=self.dtype_policy)

    def _projection(self, name, width, use_bias=None):
        use_bias = self.use_bias if use_bias is None else use_bias
        return HeadProjection(self.num_heads, width, use_bias, dtype=self.dtype_policy, name=name, **self.options)

    def build(self, query_shape, value_shape=None, key_shape=None):
        """Build the projections."""
        value_shape = value_shape or query_shape
        self.value_dense.build(value_shape)
        width = self.output_width or query_shape[-1]
        self.output_dense = HeadMerge(
            width, self.use_bias, dtype=self.dtype_policy, name="attention_output", **self.options
        )
        self.output_dense.build((None, self.num_heads, None, self.value_dim))
        self.built = True

    def drop(self, weights, training):
        """Weights under dropout, in the compute type."""
        return self._dropout_layer(ops.cast(weights, self.compute_dtype), training=training)

    def draw_noise(self, memory, length):
        """Draw the dropout on the weights of every step."""
        if not self.dropout:
            return None
        batch, source = ops.shape(memory["mask"])
        return self._noise((length, batch, self.num_heads, source))

    def _noise(self, shape):
        """Factors that drop a weight, or scale it."""
        return self.drop(ops.ones(shape), training=True)

    def merge(self, contexts, mask):
        """The heads' contexts `(batch, heads, target, value_dim)` as one; 0 where a row has nothing to attend."""
        return self.without_empty_rows(self.output_dense(contexts), mask)

    def without_empty_rows(self, merged, mask):
        """Contexts `(batch, target, width)`, set to 0 where a row has nothing to attend."""
        if mask is None:
            return merged
        return ops.where(ops.any(mask, axis=(1, 3))[..., None], merged, 0.0)

    def compute_output_shape(self, query_shape, value_shape=None, key_shape=None):
        """Return the shape of the context."""
        return (*query_shape[:2], self.output_width or query_shape[-1])

    def get_config(self):
        """Return the arguments of the constructor."""
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "dropout": self.dropout,
            "use_bias": self.use_bias,
            "output_shape": self.output_width,
            "seed": self.seed,
            **{name: _GET[name.split("_")[1]].serialize(value) for name, value in self.options.items()},
        }


def check_positive(layer, name, value, optional=False):
    """Raise where a size is no positive integer."""
    if value is None and optional:
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{type(layer).__name__}: `{name}` must be a positive integer. Received: {name}={value!r}.")
