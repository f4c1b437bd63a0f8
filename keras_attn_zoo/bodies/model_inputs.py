"""The inputs of a body, two of which are optional."""

from collections.abc import Mapping
from typing import Any

import keras

from keras_attn_zoo.support.types import Tensor

OPTIONAL_INPUTS = {"decoder_padding_mask": None, "teacher_forcing_mask": None}


def translation_inputs() -> dict[str, keras.KerasTensor]:
    """Return the inputs of a body's functional model."""
    return {
        "encoder_token_ids": keras.Input((None,), dtype="int32", name="encoder_token_ids"),
        "encoder_padding_mask": keras.Input((None,), dtype="bool", name="encoder_padding_mask"),
        "decoder_token_ids": keras.Input((None,), dtype="int32", name="decoder_token_ids"),
        "decoder_padding_mask": keras.Input((None,), dtype="bool", name="decoder_padding_mask", optional=True),
        "teacher_forcing_mask": keras.Input((None,), dtype="bool", name="teacher_forcing_mask", optional=True),
    }


def with_optional_specs(inputs: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return tensors without values for all inputs: what a body returns has the same shapes whether there is one.

    Example:
        >>> x = {"decoder_token_ids": keras.KerasTensor((2, 5), "int32")}
        >>> with_optional_specs(x)["teacher_forcing_mask"].shape
        (2, 5)
    """
    shape = inputs["decoder_token_ids"].shape
    given = {name: x for name, x in inputs.items() if x is not None}
    return {**{name: keras.KerasTensor(shape, "bool") for name in OPTIONAL_INPUTS}, **given}
