"""Readout: combines decoder state, context and previous word into the input of the output projection."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_attn_zoo.layers.base.checks import check_choice, check_positive
from keras_attn_zoo.layers.base.dense import Dense
from keras_attn_zoo.support.choices import READOUTS
from keras_attn_zoo.support.configuration import Configured
from keras_attn_zoo.support.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class Readout(Configured, keras.layers.Layer):
    """Combine the decoder state s_i, the context c_i and, if given, the embedding of y_{i-1}.

    Use it between an RNN decoder and its projection onto the vocabulary.

        t_i = [s_i ; c_i ; e_i]                            kind="linear", without `units`
        t_i = W [s_i ; c_i ; e_i]                          kind="linear"
        t_i = tanh(W [s_i ; c_i ; e_i] + b)                kind="tanh"
        t_ik = max(t̃_{i,2k-1}, t̃_{i,2k}), t̃_i = W [...] + b   kind="maxout"
        t_i = s_i                                          kind="state"

    Args:
        kind: "linear", "tanh", "maxout" or "state".
        units: width of t_i; for "linear", None leaves the concatenation as it is.

    Shapes:
        in: a list of `(..., width)`; out `(..., units)`.

    Raises:
        ValueError: an unknown kind; `units` that are not a positive integer; "tanh" or "maxout" without
            `units`, "state" with.

    Example:
        >>> Readout("maxout", 4)([keras.ops.ones((2, 3)), keras.ops.ones((2, 5))])  # (2, 4)

    Source: "linear" Hiemsch, section 6; "tanh" Dang, section 2.4 (the attentional state of the work it cites); "maxout"
    named by Hiemsch, section 6, as Bahdanau's; "state" Bahar, equation 12, where the text has s_{i-1}.
    """

    def __init__(self, kind: str, units: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_choice(self, "kind", kind, READOUTS)
        if units is not None and kind == "state":
            raise ValueError(f"Readout: kind='state' takes no `units`. Received: units={units}.")
        if units is None and kind in ("tanh", "maxout"):
            raise ValueError(f"Readout: kind={kind!r} needs `units`. Received: units=None.")
        if units is not None:
            units = check_positive(self, "units", units)
        self.kind = kind
        self.units = units
        if units is not None:
            width = 2 * units if kind == "maxout" else units
            self.dense = Dense(width, use_bias=kind != "linear", dtype=self.dtype_policy, name="dense")

    def build(self, input_shape: Sequence[Shape]) -> None:
        """Build the linear map."""
        if self.units is not None:
            self.dense.build((None, sum(shape[-1] for shape in input_shape)))
        self.built = True

    def call(self, inputs: Sequence[Tensor]) -> Tensor:
        """Return t, from a list of state, context and embedding."""
        if self.kind == "state":
            return ops.cast(inputs[0], self.compute_dtype)
        joined = ops.concatenate([ops.cast(x, self.compute_dtype) for x in inputs], axis=-1)
        if self.units is None:
            return joined
        joined = self.dense(joined)
        if self.kind == "tanh":
            return ops.tanh(joined)
        if self.kind == "maxout":
            return ops.maximum(joined[..., ::2], joined[..., 1::2])
        return joined

    def compute_output_shape(self, input_shape: Sequence[Shape]) -> Shape:
        """Return the shape of t."""
        if self.kind == "state":
            return input_shape[0]
        width = self.units or sum(shape[-1] for shape in input_shape)
        return (*input_shape[0][:-1], width)
