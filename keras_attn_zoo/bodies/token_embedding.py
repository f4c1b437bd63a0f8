"""Token embedding whose gradient is dense and which can project back onto the vocabulary."""

import keras
from keras import ops

from keras_attn_zoo import kernels
from keras_attn_zoo.support.types import Tensor


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class TokenEmbedding(keras.layers.ReversibleEmbedding):
    """Look tokens up, and with `reverse=True` project onto the vocabulary with the same matrix.

    Use it wherever tokens enter a translator. It differs from its base class only in its gradient, which is dense on
    every backend. TensorFlow's sparse gradient has a row for every occurrence of a token, which makes Adam and clipping
    by the global norm wrong, as they square the rows.

    Args:
        input_dim: size of the vocabulary.
        output_dim: width of an embedding.
        **kwargs: see `keras.layers.ReversibleEmbedding`.

    Shapes:
        in `(batch, length)`, out `(batch, length, output_dim)`; with `reverse=True`
        in `(..., output_dim)`, out `(..., input_dim)`.

    Example:
        >>> TokenEmbedding(10, 4)(keras.ops.ones((2, 3), "int32"))  # (2, 3, 4)
    """

    def call(self, inputs: Tensor, reverse: bool = False) -> Tensor:
        """Embed token ids, or project states onto the vocabulary."""
        if reverse:
            return super().call(inputs, reverse=True)
        return kernels.rows(ops.cast(self.embeddings, self.compute_dtype), ops.cast(inputs, "int32"))
