"""Devices under TensorFlow: replicas of `tf.distribute.MirroredStrategy`, on one machine."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from keras_attn_zoo.devices.context import SEEDS_APART, Devices
from keras_attn_zoo.support.backends import divide_processor
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.types import Tensor, TensorTree


class Replicas(Devices):
    """Devices of one process, each with the weights, under a strategy of `tf.distribute`.

    Args:
        strategy: a `tf.distribute.MirroredStrategy`.
    """

    def __init__(self, strategy: Any) -> None:
        self.strategy = strategy
        self.parts = strategy.num_replicas_in_sync

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Create variables on all devices."""
        with self.strategy.scope(), tf.variable_creator_scope(_own_seeds):
            yield

    def over_rows(self, function: Callable[..., TensorTree]) -> Callable[..., TensorTree]:
        """Return a function that runs on every device with its rows."""

        def on_replica(whole, rows):
            number = tf.distribute.get_replica_context().replica_id_in_sync_group

            def own(x):
                return tf.reshape(x, (self.parts, x.shape[0] // self.parts, *x.shape[1:]))[number]

            return function(whole, *keras.tree.map_structure(own, rows))

        def divided(whole, *rows):
            found = self.strategy.run(on_replica, args=(whole, rows))
            return keras.tree.map_structure(
                lambda x: tf.concat(self.strategy.experimental_local_results(x), axis=0), found
            )

        return tf.function(divided, autograph=False)

    def sum(self, tensors: list[Tensor | None]) -> list[Tensor | None]:
        """Return the sums of tensors over all replicas, in a replica; None where there is no tensor."""
        given = [tensor for tensor in tensors if tensor is not None]
        summed = iter(tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, given))
        return [None if tensor is None else next(summed) for tensor in tensors]

    def of_first(self, tensors: list[Tensor | None]) -> list[Tensor | None]:
        """Return tensors as they are in the first replica, and zeros in the others."""
        is_first = tf.equal(tf.distribute.get_replica_context().replica_id_in_sync_group, 0)
        return [None if one is None else tf.where(is_first, one, tf.zeros_like(one)) for one in tensors]

    def separate_noise(self, model: Any) -> None:
        """Let each replica draw other random numbers in the seed generators of a model."""

        def move(state):
            number = tf.distribute.get_replica_context().replica_id_in_sync_group
            state.assign_add(tf.stack([tf.cast(SEEDS_APART * number, state.dtype), tf.zeros((), state.dtype)]))

        for variable in model.non_trainable_variables:
            if variable.path.endswith("seed_generator_state"):
                self.strategy.run(functools.partial(move, variable.value))


def _own_seeds(create, **arguments):
    """Create a variable; the state of a seed generator is each replica's own, and the first one's is saved."""
    if str(arguments.get("name")).endswith("seed_generator_state"):
        arguments["synchronization"] = tf.VariableSynchronization.ON_READ
        arguments["aggregation"] = tf.VariableAggregation.ONLY_FIRST_REPLICA
    return create(**arguments)


def replicas_of(count: int | None) -> Replicas | None:
    """Return so many replicas, of all devices for None; None if it is a single one.

    Args:
        count: number of devices; on a CPU, so many virtual ones.

    Raises:
        UserError: there are fewer devices.
    """
    kind = "GPU" if tf.config.list_physical_devices("GPU") else "CPU"
    if kind == "CPU" and count is not None:
        # Of no effect once TensorFlow has started.
        with contextlib.suppress(RuntimeError):
            divide_processor(count)
    names = [device.name for device in tf.config.list_logical_devices(kind)]
    if count is not None and count > len(names):
        raise UserError(f"there are {len(names)} devices, not {count}: give --devices {len(names)}, or all.")
    names = names[:count]
    return Replicas(_strategy(tuple(names))) if len(names) > 1 else None


@functools.cache
def _strategy(names):
    """The strategy of devices. A process has one: the sums of a second one would be taken for those of the first."""
    return tf.distribute.MirroredStrategy(names)
