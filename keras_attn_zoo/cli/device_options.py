"""The options `--devices` and `--distribution`, and processes that were started together."""

import argparse
import contextlib
import os
from collections.abc import Iterator

from keras_attn_zoo.cli.parser import Parser, typed
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.setting_types import Whole

# Of each backend whose processes may be started together: what starts them, and the environment variables that tell
# their number and that of this one.
_STARTED = {
    "torch": ("torchrun", "WORLD_SIZE", "RANK"),
    "jax": ("Keras", "KERAS_DISTRIBUTION_NUM_PROCESSES", "KERAS_DISTRIBUTION_PROCESS_ID"),
}


def add_devices_arguments(parser: Parser) -> None:
    """Add `--devices` and `--distribution`."""
    parser.add_argument(
        "--devices",
        type=typed(Whole(least=1, most=4096, words=("all",))),
        metavar="N",
        help="number of devices that share the rows of every batch, or all (default: one; all with --distribution "
        "model; those of all processes that torchrun or Keras' environment variables name)",
    )
    parser.add_argument(
        "--distribution",
        choices=("data", "model"),
        default="data",
        help="what is divided among the devices: the rows of batches, or the largest weights too (JAX only); "
        "default: data",
    )


@contextlib.contextmanager
def on_devices(options: argparse.Namespace, backend: str) -> Iterator[bool]:
    """Use the devices of `add_devices_arguments`, if the command has these options, under a backend.

    Yields:
        whether this process writes messages; of several, one does.

    Raises:
        UserError: see `devices_of`; this is not the first of processes that were started together, and they cannot work
            together: each would write the same files.
    """
    has_option = hasattr(options, "devices")
    together = False
    for of_backend, (starter, number, own) in _STARTED.items():
        if _whole(number, 1) <= 1:
            continue
        if has_option and of_backend == backend:
            together = True
        elif (process := _whole(own, 0)) > 0:
            why, advice = "this command runs in one process", "start it without the others"
            if has_option:
                why, advice = f"the backend {backend} does not join them", f"give --backend {of_backend}"
            raise UserError(f"this is process {process + 1} of those that {starter} has started, but {why}: {advice}.")
    if not has_option or not (together or options.devices not in (None, 1) or options.distribution != "data"):
        yield True
        return
    from keras_attn_zoo.devices import devices_of, leads, using

    with using(devices_of(options.devices, options.distribution)):
        yield leads()


def _whole(variable, otherwise):
    value = os.environ.get(variable) or str(otherwise)
    if not value.isdecimal():
        raise UserError(f"the environment variable {variable} is {value!r}: give it a number, or unset it.")
    return int(value)
