"""Files of safetensors: a header in JSON, then the numbers of every tensor; nothing in them runs."""

import itertools
import json
import math
import struct
from collections.abc import Mapping

import ml_dtypes
import numpy as np

from keras_attn_zoo.errors import UserError
from keras_attn_zoo.files import PathLike, open_output, read_bytes, shown, without_twins

# Names of the types that weights are stored in.
_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": ml_dtypes.bfloat16}
_LARGEST_FILE = 2**36
_LARGEST_HEADER = 100_000_000


def read_safetensors(path: PathLike) -> dict[str, np.ndarray]:
    """Return the tensors of a file by name.

    Raises:
        UserError: there is no such file; it is truncated or damaged; a tensor is not of floating-point numbers.

    Example:
        >>> read_safetensors("model.safetensors")["lm_head.weight"].shape  # doctest: +SKIP
        (58101, 512)
    """
    data = read_bytes(path, _LARGEST_FILE)
    try:
        [size] = struct.unpack("<Q", data[:8])
        if size > _LARGEST_HEADER:
            raise ValueError("its header is too long")
        header = json.loads(data[8 : 8 + size], object_pairs_hook=without_twins)
        entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
        tensors = {name: _tensor(data, 8 + size, name, entry) for name, entry in entries.items()}
        spans = sorted(tuple(entry["data_offsets"]) for entry in entries.values())
        # Copies of one tensor could take up any amount of memory, and bytes of no tensor may be a lost one's.
        bounds = [(0, 0), *spans, (len(data) - 8 - size,) * 2]
        if any(begin != end for (_, end), (begin, _) in itertools.pairwise(bounds)):
            raise ValueError("its tensors overlap, or leave bytes between or after them")
        return tensors
    except (struct.error, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        reason = error if type(error) is ValueError else "its header cannot be read"
        raise UserError(f"{shown(path)} is truncated or damaged ({reason}): download it again.") from None


def _tensor(data, first, name, entry):
    stored = _TYPES.get(entry["dtype"])
    if stored is None:
        raise ValueError(f"the type {shown(repr(entry['dtype']))} of {shown(name)} is unknown")
    begin, end = entry["data_offsets"]
    shape = tuple(entry["shape"])
    if any(type(size) is not int or size < 0 for size in (*shape, begin, end)):
        raise ValueError(f"the shape or place of {shown(name)} is not made of integers")
    count = math.prod(shape)
    if not begin <= end <= len(data) - first or end - begin != count * np.dtype(stored).itemsize:
        raise ValueError(f"{shown(name)} is not whole")
    return np.frombuffer(data, stored, count, first + begin).reshape(shape)


def write_safetensors(path: PathLike, tensors: Mapping[str, np.ndarray]) -> None:
    """Write tensors in float32.

    Raises:
        UserError: the file cannot be written.

    Example:
        >>> write_safetensors("/tmp/one.safetensors", {"one": np.ones((2, 3))})
        >>> read_safetensors("/tmp/one.safetensors")["one"].shape
        (2, 3)
    """
    # Transformers wants to be told that they are laid out as PyTorch's are.
    header: dict = {"__metadata__": {"format": "pt"}}
    first, parts = 0, []
    for name, tensor in tensors.items():
        values = np.ascontiguousarray(tensor, "<f4")
        header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": [first, first + values.nbytes]}
        first += values.nbytes
        parts.append(values)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open_output(path) as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for values in parts:
            file.write(values.tobytes())
