"""The devices that a command line asks for."""

import keras

from keras_attn_zoo.devices.context import Devices
from keras_attn_zoo.support.errors import UserError

KINDS = ("data", "model")


def devices_of(count: int | str | None, kind: str = "data") -> Devices | None:
    """Return the devices of `--devices` and `--distribution`, or None for a single one.

    Call this before anything is computed.

    Args:
        count: number of devices; "all"; None for one, or for all of several processes that were started together.
        kind: one of `KINDS`: what is divided among them, the rows of batches or also the largest weights.

    Raises:
        UserError: there are fewer devices; the backend cannot divide weights.

    Example:
        >>> devices_of(1) is None
        True
    """
    backend, wanted = keras.config.backend(), count if isinstance(count, int) else None
    if backend == "jax":
        from keras_attn_zoo.devices.mesh import mesh_of

        return mesh_of(wanted, kind)
    if kind != "data":
        raise UserError(f"under {backend}, weights are not divided: leave out --distribution, or give --backend jax.")
    if backend == "torch":
        from keras_attn_zoo.devices.processes import processes_of

        return processes_of(wanted)
    from keras_attn_zoo.devices.replicas import replicas_of

    return replicas_of(wanted)
