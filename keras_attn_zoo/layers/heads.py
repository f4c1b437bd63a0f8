"""The linear maps into attention heads and out of them, with weights as in Keras' multi-head attention."""

import keras
from keras import ops

from keras_attn_zoo.layers.products import product


class HeadProjection(keras.layers.Layer):
    """Project a sequence for every head: W^n x + b^n.

    One flat product and one transposition, where an einsum over the heads leaves both to the compiler. The weights
    stand as those of `keras.layers.EinsumDense` in Keras' multi-head attention, and may be exchanged with them.

    Args:
        num_heads, head_dim: N and the width of a head.
        use_bias: whether there is a b.
        **options: `kernel_initializer` and the like, see `keras.layers.Dense`.

    Shapes: in `(batch, length, width)`, out `(batch, heads, length, head_dim)`.
    """

    def __init__(self, num_heads, head_dim, use_bias=True, dtype=None, name=None, **options):
        super().__init__(dtype=dtype, name=name)
        self.num_heads = num_heads
        self.head_dim = head_dim
        self.use_bias = use_bias
        self.options = options

    def build(self, input_shape):
        """Make W `(width, heads, head_dim)` and b `(heads, head_dim)`."""
        heads = (self.num_heads, self.head_dim)
        add_kernel_and_bias(self, (input_shape[-1], *heads), heads if self.use_bias else None, self.options)
        self.built = True

    def call(self, x):
        """Project."""
        length = ops.shape(x)[1]
        x = product(ops.reshape(x, (-1, x.shape[-1])), ops.reshape(self.kernel, (x.shape[-1], -1)))
        if self.use_bias:
            x = x + ops.reshape(self.bias, (-1,))
        return ops.transpose(ops.reshape(x, (-1, length, self.num_heads, self.head_dim)), (0, 2, 1, 3))

    def compute_output_spec(self, x):
        """Return the shape and type of the projection."""
        return keras.KerasTensor((x.shape[0], self.num_heads, x.shape[1], self.head_dim), self.compute_dtype)


class HeadMerge(keras.layers.Layer):
    """Join the heads' contexts to one: Σ_n O^n c^n + b.

    Args:
        width: width of the result.
        use_bias: whether there is a b.
        **options: `kernel_initializer` and the like, see `keras.layers.Dense`.

    Shapes: in `(batch, heads, length, head_dim)`, out `(batch, length, width)`.
    """

    def __init__(self, width, use_bias=True, dtype=None, name=None, **options):
        super().__init__(dtype=dtype, name=name)
        self.width = width
        self.use_bias = use_bias
        self.options = options

    def build(self, input_shape):
        """Make O `(heads, head_dim, width)` and b `(width,)`."""
        shape = (input_shape[1], input_shape[3], self.width)
        add_kernel_and_bias(self, shape, (self.width,) if self.use_bias else None, self.options)
        self.built = True

    def call(self, contexts):
        """Join."""
        length = ops.shape(contexts)[2]
        kernel = ops.reshape(self.kernel, (-1, self.width))
        joined = ops.reshape(ops.transpose(contexts, (0, 2, 1, 3)), (-1, kernel.shape[0]))
        joined = product(joined, kernel)
        if self.use_bias:
            joined = joined + self.bias
        return ops.reshape(joined, (-1, length, self.width))

    def compute_output_spec(self, contexts):
        """Return the shape and type of the result."""
        return keras.KerasTensor((contexts.shape[0], contexts.shape[2], self.width), self.compute_dtype)


def add_kernel_and_bias(layer, kernel_shape, bias_shape, options):
    """Make the weights of a linear map from the options that Keras' layers have for them."""
    for name, shape, initializer in (("kernel", kernel_shape, "glorot_uniform"), ("bias", bias_shape, "zeros")):
        if shape is None:
            continue
        initializer = options.get(f"{name}_initializer") or initializer
        weight = layer.add_weight(
            name=name,
            shape=shape,
            # A fresh copy: with one instance, all maps of an attention would draw the same numbers.
            initializer=keras.initializers.get(keras.initializers.serialize(keras.initializers.get(initializer))),
            regularizer=keras.regularizers.get(options.get(f"{name}_regularizer")),
            constraint=keras.constraints.get(options.get(f"{name}_constraint")),
        )
        setattr(layer, name, weight)
