"""Files of safetensors, with NumPy's arrays of bfloat16 too; nothing in them runs."""

import json
import math
import mmap
import struct
from collections.abc import Mapping

import ml_dtypes
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import PathLike, open_input, open_output, read_failed, shown, without_twins

# Names of the types that weights are stored in.
_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": ml_dtypes.bfloat16}


def read_safetensors(path: PathLike) -> dict[str, np.ndarray]:
    """Return the tensors of a file by name, whose numbers are read where they are used.

    The library, which checks the header, has no tensors of bfloat16 for NumPy.

    Raises:
        UserError: there is no such file; it is truncated or damaged; a tensor is not of floating-point numbers.

    Example:
        >>> read_safetensors("model.safetensors")["lm_head.weight"].shape  # doctest: +SKIP
        (58101, 512)
    """
    with open_input(path) as file:
        try:
            # This checks the header: types, shapes, and that the tensors fill the file without overlapping.
            with safe_open(path, "numpy"):
                pass
            first = 8 + struct.unpack("<Q", file.read(8))[0]
            header = json.loads(file.read(first - 8), object_pairs_hook=without_twins)
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (SafetensorError, ValueError) as error:
            raise UserError(
                f"{shown(path)} is truncated or damaged ({shown(str(error))}): download it again."
            ) from None
        except (OSError, MemoryError) as error:
            raise read_failed(path, error) from None
    header.pop("__metadata__", None)
    for name, entry in header.items():
        if entry["dtype"] not in _TYPES:
            raise UserError(
                f"{shown(path)} has {shown(name)} in the type {entry['dtype']}, which no weight has: use a checkpoint "
                f"in {', '.join(_TYPES)}."
            )
    return {
        name: np.frombuffer(
            content, _TYPES[entry["dtype"]], math.prod(entry["shape"]), first + entry["data_offsets"][0]
        ).reshape(entry["shape"])
        for name, entry in header.items()
    }


def write_safetensors(path: PathLike, tensors: Mapping[str, np.ndarray]) -> None:
    """Write tensors in float32.

    Raises:
        UserError: the file cannot be written.

    Example:
        >>> write_safetensors("/tmp/one.safetensors", {"one": np.ones((2, 3))})
        >>> read_safetensors("/tmp/one.safetensors")["one"].shape
        (2, 3)
    """
    values = {name: np.ascontiguousarray(tensor, "<f4") for name, tensor in tensors.items()}
    with open_output(path) as file:
        # Transformers wants to be told that they are laid out as PyTorch's are.
        file.write(save(values, {"format": "pt"}))
