"""What Keras' and KerasHub's methods take, whatever its form: here text becomes batches of ids, and ids stay.

Text is a dict of "encoder_text" and "decoder_text", or sources as x and translations as y. It comes as a whole or in
batches, from whatever Keras reads batches from.
"""

import copy
import functools
import reprlib
import types
from collections.abc import Iterator, Mapping
from typing import Any

import keras
import numpy as np

from keras_attn_zoo.data.batches import MappedBatches
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.translators.texts import TEXTS, holds_text, is_dataset, map_in_graph

LABELS = "the labels"


def to_ids(
    preprocessor: Any, sizes: Mapping[str, int], x: Any, y: Any = None, sample_weight: Any = None
) -> tuple[Any, Any, Any]:
    """Return arguments of a method of `keras.Model` in which text is replaced by its ids.

    Args:
        preprocessor: a `TranslationPreprocessor`, or None.
        sizes: the sizes of the vocabularies, see `check_ids`.
        x, y, sample_weight: sentence pairs, with one weight for each pair, or ids; or x alone, a source of batches of
            these: a `tf.data.Dataset`, a `keras.utils.PyDataset`, a PyTorch `DataLoader`, a generator.

    Raises:
        UserError: nothing; ids that `check_ids` refuses; text, but no preprocessor; sources without translations;
            labels beside text; weights that are not one for each pair; a `tf.data.Dataset` of text that is not batched;
            a `PyDataset` without batches.

    """
    encode = functools.partial(_encode, preprocessor, sizes)

    def encoded(batch):
        """A batch as Keras wants it from a source of batches: a tuple without what there is not."""
        x, y, sample_weight = encode(*keras.utils.unpack_x_y_sample_weight(batch))
        return (x,) if y is None else (x, y) if sample_weight is None else (x, y, sample_weight)

    if x is None:
        raise UserError("there are no sentences: give text or ids; received None.")
    if is_dataset(x):
        x = _mapped(x, preprocessor, encode)
    elif isinstance(x, keras.utils.PyDataset):
        if x.num_batches == 0:
            raise UserError(f"{type(x).__name__} has no batches: give it some sentences.")
        # Batches of ids may have shapes of which Keras must be told.
        x = MappedBatches(x, encoded) if _has_text(x[0]) else x
    elif isinstance(x, types.GeneratorType):
        x = (encoded(batch) for batch in x)
    elif hasattr(x, "collate_fn"):
        x = _collated(x, encoded)
    else:
        x, y, sample_weight = encode(x, y, sample_weight)
    return x, y, sample_weight


def source_batches(x: Any) -> Iterator[Any] | None:
    """Return the inputs of each batch from a source of batches, see `to_ids`; None for anything else."""
    if is_dataset(x):
        # One string comes as bytes.
        found = (keras.tree.map_structure(np.asarray, batch) for batch in x.as_numpy_iterator())
    elif isinstance(x, keras.utils.PyDataset):
        found = (x[i] for i in range(x.num_batches))
    elif isinstance(x, types.GeneratorType) or hasattr(x, "collate_fn"):
        found = iter(x)
    else:
        return None
    return (_inputs_of(batch) for batch in found)


def joined(results: list[Any]) -> Any:
    """Return the results of batches as those of one: lists of strings, single strings, or dicts of arrays."""
    if results and isinstance(results[0], dict):
        return {name: np.concatenate([one[name] for one in results]) for name in results[0]}
    return [text for one in results for text in ([one] if isinstance(one, str) else one)]


def ids_for_search(sizes: Mapping[str, int], inputs: Any, max_length: int | None) -> dict[str, Any]:
    """Return the ids of a search with room for `max_length` target tokens, or for as many as there are.

    Raises:
        UserError: text; ids that `check_ids` refuses; no mask; or a beginning that is longer.
    """
    _encode(None, sizes, inputs)
    if not isinstance(inputs, dict):
        raise UserError(f"ids must be a dict of the model's inputs; received {reprlib.repr(inputs)}.")
    if missing := {"encoder_padding_mask", "decoder_padding_mask"} - inputs.keys():
        raise UserError(f"a search needs {min(missing)} beside the ids: give it, as the preprocessor does.")
    inputs = {name: x if isinstance(x, np.ndarray) else keras.ops.convert_to_numpy(x) for name, x in inputs.items()}
    if max_length is None:
        return inputs
    for name in ("decoder_token_ids", "decoder_padding_mask"):
        x, mask = inputs[name], inputs["decoder_padding_mask"]
        if mask[:, max_length:].any():
            raise UserError(f"a beginning is longer than max_length={max_length}: give a larger one.")
        inputs[name] = np.pad(x[:, :max_length], [(0, 0), (0, max(0, max_length - x.shape[1]))])
    return inputs


def _encode(preprocessor, sizes, x, y=None, sample_weight=None):
    """The ids of sentence pairs; ids as they are."""
    if holds_text(x) and holds_text(y):
        x, y = dict(zip(TEXTS, (x, y), strict=True)), None
    if not _has_text(x):
        check_ids(sizes, x, y, sample_weight)
        return x, y, sample_weight
    if preprocessor is None:
        raise UserError("this translator has no preprocessor and takes only ids: give it one, or give ids.")
    if not isinstance(x, dict):
        raise UserError(
            "this takes sources and their translations: give a dict of encoder_text and decoder_text, or call "
            f"translate for sources alone; received {reprlib.repr(x)}."
        )
    if y is not None:
        raise UserError(f"the labels of text are made of decoder_text: leave y out; received {reprlib.repr(y)}.")
    for name, texts in x.items():
        if isinstance(texts, str) or getattr(texts, "shape", None) == ():
            raise UserError(f"{name} must be a list of strings; received {reprlib.repr(texts)}: put it into a list.")
    x, y, weights = preprocessor(x)
    if not len(y):
        raise UserError("there are no sentences: give at least one pair; received an empty list.")
    if sample_weight is not None:
        sample_weight = check_weights(sample_weight)
        if sample_weight.shape != (len(y),):
            raise UserError(
                f"text takes one weight for each pair, {len(y)} here; received weights of shape {sample_weight.shape}."
            )
        weights = weights * sample_weight[:, None]
    return x, y, weights


def _inputs_of(batch):
    """The inputs of a batch, which may have labels, rather than the first of its strings."""
    labelled = isinstance(batch, (list, tuple)) and len(batch) and not isinstance(batch[0], (str, bytes))
    return batch[0] if labelled else batch


def _has_text(batch):
    """Whether a batch, or the inputs of one, are text."""
    x = _inputs_of(batch)
    return not {*TEXTS}.isdisjoint(x) or any(map(holds_text, x.values())) if isinstance(x, dict) else holds_text(x)


def _mapped(dataset, preprocessor, encode):
    """A `tf.data.Dataset` of ids."""
    specs = keras.tree.flatten(dataset.element_spec)
    texts = [one for one in specs if getattr(one, "dtype", None) == "string"]
    if not texts:
        return dataset
    if preprocessor is None:
        encode("")
    if any(one.shape.rank == 0 for one in texts):
        raise UserError("the tf.data.Dataset is not batched: call batch(32) or the like on it.")
    unpack = keras.utils.unpack_x_y_sample_weight
    # An element that is a dict is one argument, as one that is a tuple of it alone.
    return map_in_graph(dataset, lambda *batch: encode(*unpack(batch)), preprocessor.outputs())


def _collated(loader, encoded):
    """A PyTorch `DataLoader` of ids: what joins samples to a batch encodes it too."""
    import torch

    def collate(samples):
        return keras.tree.map_structure(torch.as_tensor, encoded(join(samples)))

    join, loader = loader.collate_fn, copy.copy(loader)
    loader.collate_fn = collate
    return loader


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
    wanted = (*shapes["decoder"], shapes["encoder"][1])
    if "links" in x and tuple(np.shape(x["links"])) != wanted:
        raise UserError(
            f"links must have the shape (sentences, target, source), {wanted}; received {tuple(np.shape(x['links']))}."
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
