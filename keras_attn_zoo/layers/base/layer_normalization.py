"""Layer normalisation, and that by the root mean square, which a `keras.RematScope` computes again."""

import keras

from keras_attn_zoo.layers.base.rematerialization import Rematerialized


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class LayerNormalization(Rematerialized, keras.layers.LayerNormalization):
    """`keras.layers.LayerNormalization`, as part of a layer that is computed again in the backward pass.

        y = γ (x - mean x) / √(var x + ε) + β

    Args:
        **kwargs: see `keras.layers.LayerNormalization`.

    Shapes: out as in.

    Example:
        >>> LayerNormalization()(keras.ops.ones((2, 3)))  # zeros

    Source: Ba et al., Layer normalization, 2016.
    """


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class RMSNormalization(Rematerialized, keras.layers.RMSNormalization):
    """`keras.layers.RMSNormalization`, as part of a layer that is computed again in the backward pass.

        y = γ x / √(mean x² + ε)

    Args:
        **kwargs: see `keras.layers.RMSNormalization`.

    Shapes: out as in.

    Example:
        >>> RMSNormalization()(2 * keras.ops.ones((2, 3)))  # ones

    Source: Zhang and Sennrich, Root mean square layer normalization, 2019.
    """
