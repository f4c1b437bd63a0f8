"""The weights of a checkpoint of Transformers, by name: safetensors, or PyTorch's own format without its pickles."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# NumPy has its bfloat16 from there, safetensors by that name.
import ml_dtypes
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from keras_attn_zoo.presets.preset_checks import LONGEST, shards
from keras_attn_zoo.presets.preset_reading import has_file, preset_file
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.extras import is_installed
from keras_attn_zoo.support.files import PathLike, check_file, open_output, read_failed, shown
from keras_attn_zoo.support.machine_memory import machine_bytes

SAFETENSORS, PYTORCH = "model.safetensors", "pytorch_model.bin"
# The types that weights are stored in there.
_TYPES = ("F64", "F32", "F16", "BF16")


class Checkpoint:
    """The weights of a checkpoint, each of which is taken once.

    Args:
        preset: a folder, or an address such as `hf://Helsinki-NLP/opus-mt-de-en`.

    Raises:
        UserError: there are no weights; a file is truncated or damaged; it needs PyTorch, which is not installed.
    """

    def __init__(self, preset: str) -> None:
        self.preset = preset
        self._weights = _read_weights(preset)

    @property
    def numbers(self) -> int:
        """How many numbers all weights are that nobody has taken."""
        return sum(weight.size for weight in self._weights.values())

    def check_sizes(self, arguments: dict[str, Any]) -> None:
        """Raise if a body with these arguments has sizes that no weight has, so that it might not fit in memory.

        Raises:
            UserError: names the field of config.json; the weights themselves do not fit in memory.
        """
        needed = 4 * self.numbers
        if needed > machine_bytes():
            raise UserError(
                f"the weights of {shown(self.preset)} take {needed:,} bytes in float32, more than the "
                f"{machine_bytes():,} of this machine's memory: use a smaller model."
            )
        widest = max((size for weight in self._weights.values() for size in weight.shape), default=0)
        bounds = {
            "source_vocabulary_size": ("vocab_size", widest),
            "target_vocabulary_size": ("decoder_vocab_size", widest),
            "width": ("d_model", widest),
            "ffn_dim": ("encoder_ffn_dim", widest),
            "encoder_layers": ("encoder_layers", len(self._weights)),
            "decoder_layers": ("decoder_layers", len(self._weights)),
            "max_length": ("max_position_embeddings", LONGEST),
        }
        for setting, (field, bound) in bounds.items():
            if arguments[setting] > bound:
                raise UserError(
                    f"config.json of {shown(self.preset)} says {field}={arguments[setting]:,}, but its weights allow "
                    f"at most {bound:,}: download both again."
                )

    def take(self, *names: str, shape: Sequence[int]) -> np.ndarray:
        """Return the first weight there is among some names, in float32.

        Raises:
            UserError: there is none; it has another shape; it is not finite.
        """
        name = next((name for name in names if name in self._weights), None)
        if name is None:
            raise UserError(
                f"the weight {names[0]} is missing from {shown(self.preset)}: the checkpoint is incomplete, or of "
                "another kind of model. Download it again."
            )
        weight = self._checked(name, shape).astype("float32")
        # Tied weights stand under several names.
        for one in names:
            self._weights.pop(one, None)
        return weight

    def positions(self, name: str, shape: Sequence[int]) -> np.ndarray | None:
        """Return a table of positions in the type that it is stored in, without taking it; None if there is none."""
        return self._checked(name, shape) if name in self._weights else None

    def drop(self, name: str) -> None:
        """Take a weight that need not be there."""
        self._weights.pop(name, None)

    def _checked(self, name, shape):
        weight = self._weights[name]
        if weight.shape != tuple(shape):
            raise UserError(
                f"the weight {name} of {shown(self.preset)} has the shape {weight.shape}, not {tuple(shape)} as its "
                "config.json says: download it again."
            )
        weight = np.asarray(weight)
        if not np.isfinite(weight.astype("float32")).all():
            raise UserError(f"the weight {name} of {shown(self.preset)} is not finite: do not use it.")
        return weight

    def check_all_taken(self) -> None:
        """Raise a `UserError` if there are weights that nobody took: the model would not be the one it says."""
        if self._weights:
            name = shown(min(self._weights))
            raise UserError(
                f"{shown(self.preset)} has a weight that a Marian model has no place for ({name}): it is of another "
                "kind of model."
            )


def checkpoint_file(preset: str, name: str) -> str:
    """Return the path of a file of a checkpoint, downloaded if necessary; raise a `UserError` if there is none."""
    try:
        return preset_file(preset, name)
    except FileNotFoundError:
        raise UserError(f"{name} is missing from {shown(preset)}: download it again.") from None


def _read_weights(preset):
    for name, read in ((SAFETENSORS, read_safetensors), (PYTORCH, _read_pytorch)):
        weights = {}
        for part in _parts(preset, name):
            weights |= read(checkpoint_file(preset, part))
        if weights:
            return weights
    raise UserError(f"there are no weights in {shown(preset)}, neither {SAFETENSORS} nor {PYTORCH}: download it again.")


def _parts(preset, name):
    """Return the files with the weights: one of a name, or those into which Transformers divides a large one."""
    index = f"{name}.index.json"
    if has_file(preset, name):
        return [name]
    return shards(preset, index, Path(name).suffix) if has_file(preset, index) else []


class _Stored:
    """A tensor of a file of safetensors, whose numbers are read where they are used."""

    def __init__(self, file, name):
        about = file.get_slice(name)
        self.type, self.shape = about.get_dtype(), tuple(about.get_shape())
        self.size = math.prod(self.shape)
        self._file, self._name = file, name

    def __array__(self, dtype=None, copy=None):
        return self._file.get_tensor(self._name)


def read_safetensors(path: PathLike) -> dict[str, Any]:
    """Return the tensors of a file of safetensors by name, of which NumPy makes arrays.

    Raises:
        UserError: there is no such file; it is truncated or damaged; a tensor is not of floating-point numbers.
    """
    check_file(path)
    try:
        file: Any = safe_open(path, "numpy")
    except SafetensorError as error:
        raise UserError(f"{shown(path)} is truncated or damaged ({shown(str(error))}): download it again.") from None
    except (OSError, MemoryError) as error:
        raise read_failed(path, error) from None
    found = {name: _Stored(file, name) for name in file.keys()}  # noqa: SIM118 it is no dict
    for name, tensor in found.items():
        if tensor.type not in _TYPES:
            raise UserError(
                f"{shown(path)} has {shown(name)} in the type {tensor.type}, which no weight has: use a checkpoint in "
                f"{', '.join(_TYPES)}."
            )
    return found


def write_safetensors(path: PathLike, tensors: Mapping[str, np.ndarray]) -> None:
    """Write tensors in float32.

    Example:
        >>> write_safetensors("/tmp/one.safetensors", {"one": np.ones((2, 3))})
        >>> read_safetensors("/tmp/one.safetensors")["one"].shape
        (2, 3)
    """
    values = {name: np.ascontiguousarray(tensor, "<f4") for name, tensor in tensors.items()}
    with open_output(path) as file:
        # Transformers wants to be told that they are laid out as PyTorch's are.
        file.write(save(values, {"format": "pt"}))


def _read_pytorch(path):
    if not is_installed("torch"):
        raise UserError(f"{shown(path)} is in PyTorch's own format: pip install torch, or convert it to {SAFETENSORS}.")
    import torch

    try:
        # Never anything but tensors: what a pickle would run is refused.
        weights = torch.load(path, map_location="cpu", weights_only=True)
        return {name: _array(weight) for name, weight in weights.items()}
    except Exception as error:
        # A cut archive raises anything, a pickle that holds more than tensors UnpicklingError.
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:120]
        raise UserError(f"{shown(path)} is truncated or damaged ({reason}): download it again.") from None


def _array(tensor):
    """A tensor of PyTorch in the type that it is stored in: NumPy itself has no bfloat16."""
    import torch

    if tensor.dtype == torch.bfloat16:
        return tensor.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return (tensor if tensor.is_floating_point() else tensor.float()).contiguous().numpy()
