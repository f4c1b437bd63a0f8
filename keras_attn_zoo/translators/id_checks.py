"""Ids that a caller gives: what a model cannot take is named before it runs, as a backend may make NaN of it."""

import reprlib
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from keras_attn_zoo.support.errors import UserError

LABELS = "the labels"


def check_ids(sizes: Mapping[str, int], x: Any, y: Any = None, sample_weight: Any = None) -> None:
    """Raise unless arrays are ids of sentence pairs, the next tokens as labels, and weights.

    Tensors are checked for their shapes alone, since reading them may wait for a device; anything but a dict of ids is
    left to Keras.

    Args:
        sizes: the sizes of the vocabularies, by "encoder" and "decoder".
        x: a dict of the inputs of a body.
        y: next tokens `(batch, target)`, or None.
        sample_weight: weights, or None.

    Raises:
        UserError: names an input that is missing, or has another shape, type or value.
    """
    if not isinstance(x, dict):
        return
    shapes = {}
    for side, size in sizes.items():
        name = f"{side}_token_ids"
        if name not in x:
            raise UserError(f"ids must be a dict with {name}; received {reprlib.repr(sorted(map(str, x)))}.")
        shapes[side] = _check_one(name, x[name], size)
        mask = x.get(f"{side}_padding_mask")
        if mask is not None and tuple(np.shape(mask)) != shapes[side]:
            raise UserError(
                f"{side}_padding_mask must have the shape of {name}, {shapes[side]}; received {tuple(np.shape(mask))}."
            )
    if shapes["encoder"][0] != shapes["decoder"][0]:
        raise UserError(
            f"encoder_token_ids has {shapes['encoder'][0]} rows but decoder_token_ids {shapes['decoder'][0]}: give the "
            "same number of each."
        )
    if y is not None and _check_one(LABELS, y, sizes["decoder"]) != shapes["decoder"]:
        raise UserError(
            f"{LABELS} must have the shape of decoder_token_ids, {shapes['decoder']}; received {tuple(np.shape(y))}."
        )
    if isinstance(sample_weight, (np.ndarray, list, tuple)):
        check_weights(sample_weight)


def check_weights(weights: Any) -> np.ndarray:
    """Return weights as an array; raise a `UserError` unless they are finite and not negative.

    Others would ruin the weights of the model.
    """
    try:
        found = np.asarray(keras.ops.convert_to_numpy(weights), "float32")
    except (TypeError, ValueError):
        found = np.full((1,), np.nan)
    if not (np.isfinite(found) & (found >= 0)).all():
        raise UserError(f"weights must be finite numbers of at least 0; received {reprlib.repr(weights)}.")
    return found


def _check_one(name, ids, size):
    """Return the shape of ids; raise unless they are those of sentences in a vocabulary of a size."""
    shape = tuple(np.shape(ids))
    if len(shape) != 2 or shape[1] == 0:
        raise UserError(f"{name} must have the shape (sentences, tokens), with a token at least; received {shape}.")
    if isinstance(ids, (np.ndarray, list, tuple)):
        values = np.asarray(ids)
        is_number = values.dtype.kind in "iuf"
        wrong = values[~((values >= 0) & (values < size) & (values % 1 == 0))] if is_number else values.ravel()
        if wrong.size:
            raise UserError(f"{name} must be ids from 0 to {size - 1}; received {reprlib.repr(wrong[0].item())}.")
    return shape
