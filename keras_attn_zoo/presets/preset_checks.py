"""Checks of a preset's files before anything is built from them: sums, names of classes and arguments, sizes."""

import inspect
import logging
import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras

import keras_attn_zoo
from keras_attn_zoo.presets.preset_agreement import check_agreement
from keras_attn_zoo.presets.preset_reading import has_file, preset_file, preset_json
from keras_attn_zoo.presets.weight_storage import readable_shapes
from keras_attn_zoo.support.checksums import CHECKSUMS, check_sum, read_checksums, write_checksums
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import read_json, shown, write_json
from keras_attn_zoo.support.setting_types import Layers, Length, Whole, Width, settings_of

WEIGHTS = ".weights.h5"
_PACKAGE = "keras_attn_zoo"
_CONFIG, _TASK, _METADATA, _SHARDS = "config.json", "task.json", "metadata.json", "model.weights.json"
_PARTS = ("preprocessor.json", "tokenizer.json", "source_tokenizer.json")
# The key of metadata.json with the version that wrote the preset.
_VERSION = "keras_attn_zoo_version"
# The longest sentence that positions may be made for.
LONGEST = 100_000
# Bytes whose checksum takes a second.
_LARGE = 2**30
_LENGTHS = ("encoder_sequence_length", "decoder_sequence_length")


def preset_files(folder: Path) -> list[str]:
    """Return the files of a preset that KerasHub reads, except for their checksums."""
    found = [path for pattern in ("*.json", f"*{WEIGHTS}", "assets/**/*") for path in folder.glob(pattern)]
    return [path.relative_to(folder).as_posix() for path in found if path.is_file() and path.name != CHECKSUMS]


def complete_preset(folder: Path, rest: Path) -> None:
    """Write the package's version into the metadata of a preset, if a body was saved, and the checksums of its files.

    Args:
        folder: where the files are that were saved.
        rest: where those are that were saved before.
    """
    metadata = next((path for path in (folder / _METADATA, rest / _METADATA) if path.is_file()), None)
    if metadata is not None:
        write_json(folder / _METADATA, {**read_json(metadata), _VERSION: keras_attn_zoo.__version__})
    paths = {name: folder / name if (folder / name).exists() else rest / name for name in (_CONFIG, _TASK, *_PARTS)}
    check_agreement(lambda name: read_json(paths[name]) if paths[name].is_file() else None, rest)
    write_checksums(folder, {*preset_files(folder), *preset_files(rest)}, rest)


def check_preset(preset: str) -> None:
    """Compare the files of a preset with its checksums; warn if it has none.

    Raises:
        UserError: a file is missing, or has changed since it was saved.
    """
    try:
        config = preset_file(preset, _CONFIG)
    except FileNotFoundError:
        if has_file(preset, CHECKSUMS):
            raise _missing(_CONFIG, preset) from None
        raise UserError(f"{shown(preset)} is not a preset: it has no {_CONFIG}. Check the path.") from None
    try:
        sums = read_checksums(preset_file(preset, CHECKSUMS))
    except FileNotFoundError:
        logging.getLogger(__name__).warning(
            "%s has no %s, so damage cannot be detected: save it again with save_to_preset.", shown(preset), CHECKSUMS
        )
        return
    for name, expected in sums.items():
        try:
            path = preset_file(preset, name)
        except FileNotFoundError:
            raise _missing(name, preset) from None
        # Before minutes are spent on its checksum; one that is far larger than its weights is refused too.
        if path.endswith(WEIGHTS) and os.path.getsize(path) > _LARGE and readable_shapes(path) is None:
            raise UserError(f"{shown(path)} is damaged or not a file of weights: restore it, or download it again.")
        check_sum(path, expected)
    # Otherwise a list without the weights would pass any weights.
    unlisted = sorted(set(preset_files(Path(config).parent)) - sums.keys())
    if unlisted:
        raise UserError(
            f"the preset {shown(preset)} has a file without a checksum in {CHECKSUMS} ({shown(unlisted[0])}): download "
            f"it again, or remove {CHECKSUMS} to use it unchecked."
        )


def _missing(name, preset):
    return UserError(f"{name} is missing from the preset {shown(preset)}: restore or download it.")


def check_file_name(name: str, where: str) -> None:
    """Raise unless the `config_file` of a part is a file of a preset: KerasHub would write to any path.

    Args:
        name: of the file.
        where: what has it, for the message.
    """
    if name not in _PARTS:
        raise UserError(
            f"{where} has config_file={shown(repr(name))}, no file that a preset may write: use one of "
            f"{', '.join(_PARTS)}."
        )


def check_configs(preset: str) -> None:
    """Check what the configurations of a preset name: classes, arguments and files that this version knows.

    KerasHub would leave out the arguments of a body that it does not know, and compute something else.

    Raises:
        UserError: names the file, and the class, argument or file; says which version wrote the preset, if it says so.
    """
    for name in (_CONFIG, _TASK, *_PARTS):
        try:
            config = preset_json(preset, name)
        except FileNotFoundError:
            continue
        where = f"{name} of the preset {shown(preset)}"
        if not isinstance(config, dict) or not isinstance(config.get("config"), dict):
            raise UserError(f"{where} describes no object of Keras: restore the preset, or download it again.")
        nested: list[Any] = [config]
        while nested:
            one = nested.pop()
            if isinstance(one, dict):
                _check_object(one, where, preset)
                nested.extend(one.values())
            elif isinstance(one, list):
                nested.extend(one)


def _check_object(tree, where, preset):
    """Check one dict of a configuration: an object of Keras, its arguments, or anything else."""
    if "config_file" in tree:
        check_file_name(tree["config_file"], where)
    if tree.get("proto") is not None:
        raise UserError(f"{where} names a subword model outside of it ({shown(repr(tree['proto']))}): do not use it.")
    for key in _LENGTHS:
        if type(tree.get(key)) is int and not 2 <= tree[key] <= LONGEST:
            raise UserError(
                f"{where} says {key}={tree[key]:,}, not from 2 to {LONGEST:,}: restore it, or download it again."
            )
    registered = tree.get("registered_name")
    if not isinstance(registered, str) or not registered.startswith(f"{_PACKAGE}>"):
        return
    cls = keras.saving.get_registered_object(registered)
    if cls is None:
        raise UserError(f"{where} has a {shown(registered.partition('>')[2])}, a class {_unknown(preset)}")
    config = tree.get("config")
    if not isinstance(config, dict):
        return
    known = _arguments(cls)
    for argument in config:
        if argument not in known:
            raise UserError(f"{where} gives {cls.__name__} the argument {shown(argument)}, {_unknown(preset)}")


def _unknown(preset):
    written = _writer(preset)
    by = f"written by version {shown(written)}; " if written else ""
    return (
        f"unknown to this version of keras-attn-zoo ({by}this is {keras_attn_zoo.__version__}): pip install --upgrade "
        "keras-attn-zoo, or restore the preset."
    )


def _writer(preset):
    """The version that wrote a preset; "" if the preset does not say it."""
    try:
        written = preset_json(preset, _METADATA).get(_VERSION)
    except (FileNotFoundError, AttributeError, UserError):
        return ""
    return written if isinstance(written, str) else ""


def newer_version(preset: str) -> str:
    """Return advice for a preset that cannot be loaded and was written by a newer version; "" for any other."""
    written, here = _writer(preset), keras_attn_zoo.__version__
    if _numbers(written) <= _numbers(here):
        return ""
    return f"Version {shown(written)} of keras-attn-zoo wrote it, this is {here}: pip install --upgrade keras-attn-zoo."


def _numbers(version):
    return [int(part) for part in re.findall("[0-9]{1,9}", version)]


def _arguments(cls):
    """Return the names of what the constructor of a class takes, those of its bases included."""
    # KerasHub takes it from the keyword arguments of tokenizers and preprocessors.
    names = {"config_file"} if hasattr(cls, "load_preset_assets") else set()
    for base in cls.__mro__:
        parameters = inspect.signature(base.__init__).parameters.values() if "__init__" in vars(base) else ()
        names |= {one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
    return names


def check_sizes(preset: str, weights_needed: bool = False) -> int | None:
    """Compare the sizes of a preset's body with its weights, before building a body that might not fit in memory.

    Returns:
        how many numbers the weights are; None if no file of weights can be read, which Keras then reports.

    Raises:
        UserError: no weight is as wide as the body would be; there are fewer weights than layers; there are no weights
            but they are needed; a file of weights refers to another file, or claims to be larger than it is.
    """
    shapes = _all_shapes(preset, weights_needed)
    if shapes is None:
        return None
    # A length that weights depend on is one of their widths; any other length only makes room for positions.
    widest = max((size for shape in shapes for size in shape), default=0)
    bounds = {Width: widest, Layers: len(shapes), Length: max(widest, LONGEST)}
    for name in (_CONFIG, _TASK):
        for argument, size, kind in _body_sizes(preset, name):
            bound = bounds[kind]
            if size > bound:
                raise UserError(
                    f"{name} of the preset {shown(preset)} says {argument}={size:,}, but its weights allow at most "
                    f"{bound:,}: restore the preset, or download it again."
                )
    return sum(math.prod(shape) for shape in shapes)


def _body_sizes(preset: str, name: str) -> Iterator[tuple[str, int, type[Whole]]]:
    """Yield the sizes of a body, from the configuration of a body or a task, each with what kind of size it is."""
    try:
        tree = preset_json(preset, name)
        tree = tree["config"]["backbone"] if name == _TASK else tree
        items, registered = list(tree["config"].items()), str(tree.get("registered_name"))
    except (FileNotFoundError, LookupError, TypeError, AttributeError):
        return
    declared = getattr(keras.saving.get_registered_object(registered), "arguments", None)
    settings = {} if declared is None else settings_of(declared)
    for argument, value in items:
        # Vocabulary sizes are no settings.
        kind = type(settings[argument]) if argument in settings else Width
        if type(value) is int and kind in (Width, Layers, Length):
            yield argument, value, kind


def _all_shapes(preset, needed):
    """Return the shapes of all weights of a preset, in one file or several."""
    names = [f"model{WEIGHTS}"]
    if not has_file(preset, names[0]):
        if not has_file(preset, _SHARDS):
            if needed:
                raise _missing(names[0], preset)
            return None
        names = shards(preset, _SHARDS, WEIGHTS)
    # A task's own weights, which translators do not have.
    names += [f"task{WEIGHTS}"] if has_file(preset, f"task{WEIGHTS}") else []
    found = [readable_shapes(preset_file(preset, name)) for name in names]
    return None if None in found else [shape for shapes in found for shape in shapes]


def shards(preset: str, index: str, suffix: str) -> list[str]:
    """Return the files that weights were divided into, as the file `index` says, which end in `suffix`.

    Raises:
        UserError: it names anything but files of weights beside it.
    """
    tree = preset_json(preset, index)
    places = tree.get("weight_map") if isinstance(tree, dict) else None
    if not isinstance(places, dict):
        raise UserError(
            f"{index} of the preset {shown(preset)} has no object called weight_map: restore the preset, or download "
            "it again."
        )
    names: list[Any] = [name for one in places.values() for name in (one if isinstance(one, list) else [one])]
    for name in names:
        if not isinstance(name, str) or Path(name).name != name or not name.endswith(suffix):
            raise UserError(
                f"{index} of the preset {shown(preset)} names {shown(repr(name))}, no file of weights in it: restore "
                "the preset, or download it again."
            )
    return sorted(set(names))
