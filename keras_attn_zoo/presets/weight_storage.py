"""Weight files: read only if all of it stands in them; of half or a quarter of the size, in float16 or int8."""

import io
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import PathLike, check_file, shown

STORAGES = ("float32", "float16", "int8")
# A group besides those of Keras, which holds the scales under the names of the matrices.
SCALES = "int8_scales"
# Attributes: of a file, how it is stored; of a matrix, that it has scales.
_STORAGE, _SCALED = "storage", "scaled"
# Smaller tensors and all vectors stay in float16: int8 would save too little.
_SMALLEST = 1024
# Bytes that a file with hundreds of weights has besides.
_OVERHEAD = 2**26


def compact(file: io.BytesIO, storage: str) -> bytes:
    """Return a Keras weight file with its tensors in float32, bfloat16 or, for int8, float16 stored in another way.

    Args:
        file: the weight file, in memory.
        storage: "float32"; "float16", which Keras can read directly too; or "int8", which `expanded` converts for
            Keras: w ≈ s q, where q is an integer from -127 to 127 and s the scale of a row or column.

    Raises:
        UserError: a weight is beyond the range of float16, ±65,504.
    """
    return _rewritten(file, lambda target, name, values: _store(target, name, values, storage), {_STORAGE: storage})


def _store(target, name, values, storage):
    if values.dtype == np.float16 and storage == "int8":
        values = values.astype(np.float32)
    if values.dtype != np.float32 or storage == "float32":
        target[name] = values
        return
    if storage == "int8" and values.ndim > 1 and values.size >= _SMALLEST:
        target[name], target[f"{SCALES}/{name}"] = quantized(values)
        target[name].attrs[_SCALED] = True
        return
    with np.errstate(over="ignore"):
        half = values.astype(np.float16)
    if not np.isfinite(half).all():
        raise UserError(
            f"the weight {name} reaches {np.abs(values).max():,.0f}, out of range for float16: store it in float32."
        )
    target[name] = half


def quantized(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return q in int8 and broadcastable scales s in float32, with q s as close to the values as possible.

    There is a scale for each index of the first or the last axis, whichever loses less: the largest number of each
    row or column becomes ±127.

    Example:
        >>> q, scales = quantized(np.array([[1.0, -2.0], [100.0, 50.0]]))
        >>> q.tolist()
        [[1, -5], [127, 127]]
    """
    best: Any = None
    for axis in (0, values.ndim - 1):
        others = tuple(i for i in range(values.ndim) if i != axis)
        largest = np.abs(values).max(axis=others, keepdims=True)
        scales = (np.where(largest == 0, 1.0, largest) / 127).astype(np.float32)
        q = np.rint(values / scales).astype(np.int8)
        error = float(np.square(q * scales - values).sum(dtype=np.float64))
        if best is None or error < best[0]:
            best = error, q, scales
    return best[1], best[2]


def holds_int8(path: PathLike) -> bool:
    """Return whether a weight file needs `expanded` to read it.

    Raises:
        UserError: it is stored in another way than those of `STORAGES`.
    """
    try:
        with h5py.File(path) as file:
            storage = file.attrs.get(_STORAGE, "float32")
    except OSError:
        return False
    if not isinstance(storage, str) or storage not in STORAGES:
        raise UserError(
            f"{shown(path)} is stored as {shown(repr(storage))}, which this version of keras-attn-zoo cannot read: pip "
            "install --upgrade keras-attn-zoo, or download it again."
        )
    return storage == "int8"


def expanded(path: PathLike) -> bytes:
    """Return, in memory, a weight file that Keras can read from one that `compact` stored in int8.

    Raises:
        UserError: a matrix lacks its scales, or they do not fit it; see also `datasets`.
    """
    with h5py.File(path) as source:
        every = datasets(source, path)

        def restore(target, name, values):
            if _SCALED in source[name].attrs:
                values = _restored(path, name, values, every.get(f"{SCALES}/{name}"))
            target[name] = values

        return _rewritten(path, restore, {_STORAGE: "float32"})


def _rewritten(file, store, attributes):
    """Return a copy, in memory, of a weight file without scales; `store(target, name, values)` writes each tensor."""
    result = io.BytesIO()
    with h5py.File(file) as source, h5py.File(result, "w") as target:

        def copy(name, item):
            if is_weight(name, item):
                store(target, name, item[()] if item.attrs.get("dtype") != "bfloat16" else _of_bfloat16(item))
            elif name.split("/")[0] == SCALES:
                return
            else:
                target.require_group(name)
            target[name].attrs.update({key: value for key, value in item.attrs.items() if key != "dtype"})

        target.attrs.update({**source.attrs, **attributes})
        source.visititems(copy)
    return result.getvalue()


def _of_bfloat16(item):
    """The numbers of a tensor that Keras wrote in bfloat16, which HDF5 does not have: two bytes each, and a note."""
    # They are the upper half of a float32.
    return (item[()].view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def is_weight(name: str, item: Any) -> bool:
    """Return whether an item of a weight file is a weight, and neither a group nor a scale."""
    return isinstance(item, h5py.Dataset) and name.split("/")[0] != SCALES


def readable_shapes(path: PathLike) -> list[tuple[int, ...]] | None:
    """Return the shapes of all weights in a file; None if it cannot be read, which Keras then reports.

    Raises:
        UserError: see `datasets`.
    """
    check_file(path)
    try:
        with h5py.File(path) as file:
            return [item.shape for name, item in datasets(file, path).items() if is_weight(name, item)]
    except UserError:
        raise
    except (OSError, RuntimeError, ValueError, KeyError):
        return None


def _restored(path, name, values, scale):
    shapes = [tuple(size if i == axis else 1 for i, size in enumerate(values.shape)) for axis in (0, values.ndim - 1)]
    if scale is None or scale.shape not in shapes:
        raise UserError(
            f"{shown(path)} is damaged: the scales of {name} are missing or do not fit. Download or save it again."
        )
    return values * scale[()]


def datasets(file: h5py.File, path: PathLike) -> dict[str, h5py.Dataset]:
    """Return the datasets of an open weight file by name.

    HDF5 follows links and reads datasets from anywhere on the disk without a word, so that weights saved again would
    contain whatever a stranger's file points at; and it fills in what was never written, so that a small file can
    claim more numbers than fit in memory.

    Raises:
        UserError: a link, or a dataset that stands elsewhere, is not of numbers, or larger than the file;
            a file that is far larger than what it holds.
    """
    found: dict[str, h5py.Dataset] = {}
    groups = [("", file["/"])]
    # Addresses: one item under two names could be a loop.
    seen = {_address(file["/"])}
    while groups:
        prefix, group = groups.pop()
        for key in group:
            name = f"{prefix}{key}"
            link = group.get(key, getlink=True)
            item = group[key] if isinstance(link, h5py.HardLink) else None
            if item is None or _address(item) in seen:
                raise _refused(path, name, "has a link in place of")
            seen.add(_address(item))
            if isinstance(item, h5py.Group):
                groups.append((f"{name}/", item))
                continue
            _check_dataset(path, name, item)
            found[name] = item
    size, there = sum(item.nbytes for item in found.values()), Path(path).stat().st_size
    if size > there:
        raise UserError(
            f"{shown(path)} claims to hold {size:,} bytes of weights, but has only {there:,}: restore it, or download "
            "it again."
        )
    # What no weight accounts for would be read all the same, for its checksum.
    if there > 2 * size + _OVERHEAD:
        raise UserError(
            f"{shown(path)} has {there:,} bytes, but holds only {size:,} bytes of weights: restore it, or download it "
            "again."
        )
    return found


def _address(item):
    return h5py.h5o.get_info(item.id).addr


def _check_dataset(path, name, item):
    if not isinstance(item, h5py.Dataset):
        raise _refused(path, name, "has no numbers in")
    if item.external or item.is_virtual:
        raise _refused(path, name, "reads another file for")
    # Keras' way of writing bfloat16.
    numbers = item.dtype.kind in "fiu" or (item.dtype.str == "|V2" and item.attrs.get("dtype") == "bfloat16")
    if not numbers or item.shape is None:
        raise _refused(path, name, "has no numbers in")


def _refused(path, name, what):
    return UserError(f"{shown(path)} {what} {shown(name)}, as no file of weights does: do not use it.")
