"""Devices under JAX: a mesh of `keras.distribution`, of one process or of several."""

import atexit
import contextlib
import functools
import os
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import jax
import keras
import numpy as np
from jax.experimental import multihost_utils

from keras_attn_zoo.devices.context import Devices, first_sentence
from keras_attn_zoo.support.backends import is_out_of_memory, parts_of_processor
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.types import TensorTree

BATCH, MODEL = "batch", "model"
# How JAX is told of several virtual devices, and Keras of several processes.
_FORCED = "xla_force_host_platform_device_count"
_PROCESSES = "KERAS_DISTRIBUTION_NUM_PROCESSES"
# What an error of JAX begins with if another process has ended. Some are a ValueError.
_LOST = re.compile(r"(UNKNOWN|UNAVAILABLE|INTERNAL|ABORTED|CANCELLED|DEADLINE_EXCEEDED|FAILED_PRECONDITION): ")


class Mesh(Devices):
    """Devices of `keras.distribution`: the compiler divides the step and adds up the parts' sums.

    Args:
        distribution: a `keras.distribution.DataParallel`, or a `ModelParallel` with an axis "batch".
    """

    def __init__(self, distribution: Any) -> None:
        self.distribution = distribution
        mesh = distribution.device_mesh
        self.parts = mesh.shape[mesh.axis_names.index(BATCH)]
        self.processes, self.process = jax.process_count(), jax.process_index()

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Make the distribution Keras' own."""
        with self.distribution.scope():
            try:
                yield
            except (Exception, KeyboardInterrupt) as error:
                if self.processes == 1:
                    raise
                atexit.register(_leave)
                of_jax = isinstance(error, (jax.errors.JaxRuntimeError, ValueError))
                if of_jax and _LOST.match(str(error)) and not is_out_of_memory(error):
                    raise self.lost_another(first_sentence(error)) from None
                raise

    def over_rows(self, function: Callable[..., TensorTree]) -> Callable[..., TensorTree]:
        """Return a function that runs on every device with its rows.

        Each device runs by itself: divided by the compiler, a search would exchange its states at every step. Where
        the weights are divided, the devices have to work together.
        """
        mesh = self.distribution.device_mesh.backend_mesh
        whole, rows = jax.sharding.PartitionSpec(), jax.sharding.PartitionSpec(BATCH)

        def alone(values, *inputs):
            places = (whole, *(rows for _ in inputs))
            return jax.shard_map(function, mesh=mesh, in_specs=places, out_specs=rows, check_vma=False)(values, *inputs)

        together = isinstance(self.distribution, keras.distribution.ModelParallel)
        place = functools.partial(jax.sharding.NamedSharding, mesh)
        # Every process gets all rows.
        program = jax.jit(function if together else alone, out_shardings=place(whole))

        def call(values, *inputs):
            put = functools.partial(jax.make_array_from_process_local_data, place(rows))
            return program(values, *keras.tree.map_structure(put, inputs))

        return call

    def wait(self) -> None:
        """Wait until all processes are here."""
        if self.processes > 1:
            multihost_utils.sync_global_devices("wait")

    def broadcast(self, data: bytes) -> bytes:
        """Return the bytes that the leading process gave."""
        size = int(multihost_utils.broadcast_one_to_all(np.array(len(data))))
        buffer = np.zeros(size, "uint8")
        if self.leads:
            buffer[:] = np.frombuffer(data, "uint8")
        return bytes(np.asarray(multihost_utils.broadcast_one_to_all(buffer), "uint8"))


def _leave():
    """End this process, which has failed, where JAX would wait for the others for minutes and then abort."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(2)


# What grows with the vocabulary and with the feed-forward networks, and along which axis it is divided.
_DIVIDED = {
    r"(.*/)?(embeddings|output_projection/kernel|latent_alignment_head/kernel|ffn_output/kernel)": (MODEL, None),
    r"(.*/)?ffn_hidden/kernel": (None, MODEL),
    r"(.*/)?(output_projection|ffn_hidden)/bias": (MODEL,),
}


class _DividedWeights(keras.distribution.ModelParallel):
    """Each device has a part of the largest weights, and of their optimiser's state."""

    def __init__(self, names):
        mesh = keras.distribution.DeviceMesh((1, len(names)), (BATCH, MODEL), names)
        layouts = keras.distribution.LayoutMap(mesh)
        for path, axes in _DIVIDED.items():
            layouts[path] = axes
        super().__init__(layout_map=layouts, batch_dim_name=BATCH, auto_shard_dataset=False)

    def get_variable_layout(self, variable):
        layout = super().get_variable_layout(variable)
        sizes = zip(variable.shape, layout.axes, strict=True)
        if all(axis is None or size % self.device_mesh.devices.size == 0 for size, axis in sizes):
            return layout
        # JAX divides evenly or not at all.
        return keras.distribution.TensorLayout([None] * len(variable.shape), self.device_mesh)


def mesh_of(count: int | None, kind: str) -> Mesh | None:
    """Return the mesh of so many devices, of all for None; None if it is a single one.

    Where Keras' environment variables name several processes, their devices are used together.

    Args:
        count: number of devices; on a CPU, so many virtual ones.
        kind: "data" to divide rows alone, "model" to divide large weights too.

    Raises:
        UserError: there are fewer devices.
    """
    processes = int(os.environ.get(_PROCESSES) or 1)
    if processes > 1:
        keras.distribution.initialize()
    elif count is not None and _FORCED not in os.environ.get("XLA_FLAGS", ""):
        # Of no effect once JAX has started.
        with contextlib.suppress(RuntimeError):
            jax.config.update("jax_num_cpu_devices", parts_of_processor(count))
    names = keras.distribution.list_devices()
    if count is not None and (count > len(names) or (processes > 1 and count != len(names))):
        raise UserError(f"there are {len(names)} devices, not {count}: give --devices {len(names)}, or all.")
    names = names[:count]
    if len(names) == 1:
        if kind == "model":
            raise UserError("there is one device, and weights are divided among several: leave out --distribution.")
        return None
    if kind == "data":
        return Mesh(keras.distribution.DataParallel(devices=names, auto_shard_dataset=False))
    if processes > 1:
        raise UserError("weights are divided among the devices of one process: leave out --distribution.")
    return Mesh(_DividedWeights(names))
