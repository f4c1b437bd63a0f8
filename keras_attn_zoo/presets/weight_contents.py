"""What a weight file holds, read only if all of it stands in the file itself."""

from pathlib import Path

import h5py

from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import PathLike, shown

# Bytes that a file with hundreds of weights has besides.
_OVERHEAD = 2**26


def datasets(file: h5py.File, path: PathLike) -> dict[str, h5py.Dataset]:
    """Return the datasets of an open weight file by name.

    HDF5 follows links and reads datasets from anywhere on the disk without a word, so that weights saved again would
    contain whatever a stranger's file points at; and it fills in what was never written, so that a small file can
    claim more numbers than fit in memory.

    Args:
        file: the open file.
        path: where it is.

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
