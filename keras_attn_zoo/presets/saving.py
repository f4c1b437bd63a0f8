"""Saving and loading presets: whole, unchanged, and with parts that fit together."""

import contextlib
import hashlib
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import keras
import numpy as np
from keras import ops

from keras_attn_zoo.presets.hub_presets import downloading
from keras_attn_zoo.presets.loading_without_drawing import without_drawing
from keras_attn_zoo.presets.preset_agreement import check_agreement
from keras_attn_zoo.presets.preset_checks import (
    WEIGHTS,
    check_configs,
    check_preset,
    check_sizes,
    complete_preset,
    newer_version,
    shards,
)
from keras_attn_zoo.presets.preset_reading import has_file, preset_file, preset_json
from keras_attn_zoo.presets.preset_registry import find_preset, published
from keras_attn_zoo.presets.quantization import with_int8
from keras_attn_zoo.presets.weight_storage import STORAGES, compact, expanded, holds_int8, readable_shapes
from keras_attn_zoo.support.checksums import CHECKSUMS
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import PathLike, atomic_files, check_file, kind_of, open_output, reason_of, shown

# How the index of weights ends that Keras divided into several files.
_SHARDS = ".weights.json"
# Says, in the folder of a preset that is being saved, how its weights are stored. A task saves its parts into the same
# folder: checksums are computed once, when it is complete.
_STORAGE = ".preset in the making"
# What opens checkpoints of Transformers, by the "model_type" in their config.json: functions of a class of presets, the
# checkpoint, that file, and what `PresetFiles.from_preset` takes. Rooms above add theirs.
CONVERTERS: dict[str, Callable[..., Any]] = {}


class PresetFiles:
    """Mixin before a KerasHub class: its presets have checksums, which are compared before a preset is used.

    `checksums.json` holds the SHA-256 of every other file. KerasHub's own functions
    can read such presets too, but ignore the checksums.
    """

    def save_to_preset(self, preset_dir: PathLike, storage: str = "float32", **kwargs: Any) -> None:
        """Save a preset; see the base class.

        Args:
            preset_dir: the folder. If saving fails, what was there before is still there.
            storage: "float32"; "float16", half the size; or "int8", a quarter, with a scale for each row or column of
                a matrix. Whatever the storage, a model is loaded in the current dtype policy, and quantized layers
                in int8.
            **kwargs: see the base class.

        Raises:
            UserError: it cannot be written; a weight is not finite, or too large for float16; no such storage.
        """
        if (Path(preset_dir) / _STORAGE).exists():
            super().save_to_preset(preset_dir, **kwargs)
            return
        if storage not in STORAGES:
            raise UserError(f"storage must be one of {', '.join(STORAGES)}; received {storage!r}.")
        if kind_of(preset_dir) not in (None, "folder"):
            raise UserError(f"cannot save a preset to {shown(preset_dir)}, which is a file: give a folder.")
        with atomic_files(preset_dir, last=CHECKSUMS) as aside:
            (aside / _STORAGE).write_text(storage)
            super().save_to_preset(str(aside), **kwargs)
            (aside / _STORAGE).unlink()
            complete_preset(aside, Path(preset_dir))

    @classmethod
    def from_preset(cls, preset: PathLike, *args: Any, **kwargs: Any) -> Self:
        """Load a preset; see the base class.

        Args:
            preset: the name of a published preset, a folder, or an address such as `hf://user/preset`.
            *args, **kwargs: see the base class.

        Raises:
            UserError: there is no such preset; it cannot be downloaded; a file has changed since it was saved; its
                parts do not fit together; it needs a newer version of the package.
        """
        preset = str(find_preset(preset))
        loads = kwargs.get("load_weights", False)
        with downloading(preset) as preset:
            config = _foreign_config(preset)
            if config is not None:
                with _in_one_line(preset):
                    return CONVERTERS[config["model_type"]](cls, preset, config, *args, **kwargs)
            check_preset(preset)
            check_configs(preset)
            stored = check_sizes(preset, weights_needed=loads)
            check_agreement(lambda name: preset_json(preset, name) if has_file(preset, name) else None, preset)
            with _in_one_line(preset), without_drawing(stored) if loads else contextlib.nullcontext():
                if "dtype" in kwargs:
                    kwargs["dtype"] = with_int8(preset, kwargs["dtype"])
                return super().from_preset(preset, *args, **kwargs)


class _OfClass:
    """A property of a class, as KerasHub looks `presets` up."""

    def __init__(self, function):
        self._function = function

    def __get__(self, instance, owner):
        return self._function(owner)


class PresetLoading(PresetFiles):
    """Mixin before a KerasHub class: presets are loaded in the current dtype policy, not the one they were saved in.

    Layers that were quantized are loaded in int8. KerasHub has the same rules, but fails on a preset of a mixed policy.
    """

    @_OfClass
    def presets(cls: Any) -> dict[str, dict[str, Any]]:
        """The published presets of this class, by name."""
        kinds = (cls, *cls.__subclasses__())
        bodies = {getattr(kind, "backbone_cls", kind).__name__ for kind in kinds}
        return {name: facts for name, facts in published().items() if facts["body"] in bodies}

    @classmethod
    def from_preset(cls, preset: PathLike, load_weights: bool = True, **kwargs: Any) -> Self:
        """Load a preset; see the base class. `dtype` is by default Keras' current dtype policy."""
        if kwargs.get("dtype") is None:
            kwargs["dtype"] = keras.config.dtype_policy()
        _check_policy(kwargs["dtype"])
        loaded: Any = super().from_preset(preset, load_weights=load_weights, **kwargs)
        preprocessor = getattr(loaded, "preprocessor", None)
        if preprocessor is not None:
            check_vocabulary_sizes(loaded.backbone, preprocessor)
        return loaded


def _check_policy(dtype):
    try:
        keras.dtype_policies.get(dtype)
    except (TypeError, ValueError):
        raise UserError(
            f"there is no dtype policy {dtype!r}: use float32, bfloat16, float16, mixed_bfloat16 or mixed_float16; "
            'for int8, load the preset and call quantize("int8").'
        ) from None


class WeightFiles:
    """Mixin before a Keras model: weights are written whole, and loaded only if they fit the model and are finite."""

    def save_weights(self, filepath: PathLike, *args: Any, **kwargs: Any) -> None:
        """Save the weights; see `keras.Model.save_weights`.

        Raises:
            UserError: a weight is not finite; the file cannot be written.
        """
        check_finite(self, "the model was not saved")
        if not str(filepath).endswith(WEIGHTS):
            super().save_weights(filepath, *args, **kwargs)
            return
        # The HDF5 library crashes if the disk is full.
        memory = _WeightsInMemory()
        super().save_weights(memory, *args, **kwargs)
        chosen = Path(filepath).parent / _STORAGE
        storage = chosen.read_text() if chosen.exists() else "float32"
        as_is = storage == "float32" and getattr(self, "variable_dtype", None) != "bfloat16"
        weights = memory.getvalue() if as_is else compact(memory, storage)
        with open_output(filepath) as file:
            file.write(weights)

    def load_weights(self, filepath: PathLike, skip_mismatch: bool = False, **kwargs: Any) -> None:
        """Load weights; see `keras.Model.load_weights`.

        Raises:
            UserError: the file is damaged; it has more weights than the model, or larger ones; a weight is not finite.
        """
        if str(filepath).endswith(WEIGHTS):
            shapes = readable_shapes(filepath)
            if shapes is not None and not skip_mismatch:
                _check_surplus(self, filepath, shapes)
        elif str(filepath).endswith(_SHARDS):
            folder = str(Path(filepath).parent)
            for name in shards(folder, Path(filepath).name, WEIGHTS):
                readable_shapes(preset_file(folder, name))
        compacted = str(filepath).endswith(WEIGHTS) and holds_int8(filepath)
        try:
            source = _WeightsInMemory(expanded(filepath)) if compacted else filepath
            super().load_weights(source, skip_mismatch=skip_mismatch, **kwargs)
        except (OSError, KeyError, UnicodeError, RuntimeError) as error:
            # What HDF5 raises where bytes are missing or changed; backends raise subclasses.
            if isinstance(error, RuntimeError) and type(error) is not RuntimeError:
                raise
            check_file(filepath)
            reason = " ".join(reason_of(error).split())
            raise UserError(
                f"{shown(filepath)} is damaged or not a file of weights ({reason}): restore it, or download it again."
            ) from error
        check_finite(self, f"do not use {shown(filepath)}")


class _WeightsInMemory(io.BytesIO):
    """A buffer that Keras takes for the path of a weights file, because of its name."""

    def __str__(self):
        return f"model{WEIGHTS}"


@contextlib.contextmanager
def _in_one_line(preset: str) -> Iterator[None]:
    """Report whatever Keras raises about the files of a preset in one line, but errors of the computer and packages."""
    try:
        yield
    except (ImportError, MemoryError):
        raise
    except UserError as error:
        if advice := newer_version(preset):
            raise UserError(f"{error} {advice}") from error
        raise
    except Exception as error:
        known: BaseException | None = error
        while known is not None and not isinstance(known, UserError):
            known = known.__cause__ or known.__context__
        lines = str(known or error).strip().splitlines()
        reason = (lines or [type(error).__name__])[0].rstrip(".:")[:300]
        raise UserError(
            f"cannot load the preset {shown(preset)} ({reason}): check the arguments, restore the preset, or download "
            f"it again. {newer_version(preset)}".rstrip()
        ) from error


def _foreign_config(preset):
    """Return the config.json of a checkpoint of Transformers; None for a preset of KerasHub, or if there is none."""
    # A preset with checksums is of ours; they are compared before its configuration is read.
    if has_file(preset, CHECKSUMS) or not has_file(preset, "config.json"):
        return None
    config = preset_json(preset, "config.json")
    if not isinstance(config, dict) or "registered_name" in config or "model_type" not in config:
        return None
    kind = config["model_type"]
    if not isinstance(kind, str) or kind not in CONVERTERS:
        raise UserError(
            f"{shown(preset)} is a {shown(kind)} model: of the models of Transformers, only "
            f"{' and '.join(CONVERTERS)} models can be opened."
        )
    return config


def check_finite(model: keras.Model, consequence: str) -> None:
    """Raise a `UserError` that names the weight if one of a model is NaN or infinite."""
    for weight in model.weights:
        if not np.isfinite(_values(weight)).all():
            raise UserError(
                f"the weight {weight.path} is not finite, so its output would be meaningless: {consequence}."
            )


def weights_checksum(model: keras.Model) -> str:
    """Return twelve hexadecimal digits of the SHA-256 of all weights of a model, whatever they are called.

    Example:
        >>> weights_checksum(keras.Sequential([keras.layers.Dense(1)]))
        'e3b0c44298fc'
    """
    digest = hashlib.sha256()
    for weight in model.weights:
        digest.update(_values(weight).tobytes())
    return digest.hexdigest()[:12]


def _values(weight):
    return ops.convert_to_numpy(ops.cast(weight, "float32") if weight.dtype == "bfloat16" else weight)


def check_vocabulary_sizes(backbone: Any, preprocessor: Any) -> None:
    """Raise a `UserError` if a tokenizer and the embedding on its side differ in vocabulary size."""
    sides = (
        ("source", preprocessor.source_tokenizer, backbone.source_vocabulary_size),
        ("target", preprocessor.tokenizer, backbone.target_vocabulary_size),
    )
    for side, tokenizer, size in sides:
        # When a preset is loaded, a tokenizer gets its model later.
        if tokenizer.proto is not None and tokenizer.vocabulary_size() != size:
            raise UserError(
                f"the {side} tokenizer has {tokenizer.vocabulary_size()} tokens, but the model was built for {size}: "
                "use the tokenizer that belongs to the model."
            )


def _check_surplus(model, path, shapes):
    """Raise if a file has weights that the model does not have; Keras would ignore them."""
    sizes = [int(np.prod(shape)) for shape in shapes]
    wanted = [int(np.prod(weight.shape)) for weight in model.weights]
    if len(sizes) > len(wanted) or sum(sizes) > sum(wanted):
        raise UserError(
            f"{shown(path)} has {len(sizes)} weights with {sum(sizes):,} numbers, but the model has {len(wanted)} with "
            f"{sum(wanted):,}: load the weights of this model."
        )
