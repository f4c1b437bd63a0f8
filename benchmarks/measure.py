"""Time and peak memory of a layer's call, alone and with its gradients, measured as each backend requires."""

import ctypes
import time

import keras
from keras import ops, tree

from keras_attn_zoo.kernels import peak_bytes

BACKEND = keras.config.backend()
if BACKEND == "torch":
    import torch

    # As XLA and TensorFlow do by themselves: the weights of a sharp softmax would make products ten times as slow.
    # Before any work, because threads take it over from the one that starts them.
    torch.set_flush_denormal(True)
# glibc's names of the size from which memory comes from the system, and goes back to it when it is freed; and of what
# may lie free before it goes back too.
_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD = -3, -1
# What glibc arrives at by itself in a process that has freed large arrays; `peak_bytes` leaves other values.
_USUAL = {_M_MMAP_THRESHOLD: 1 << 25, _M_TRIM_THRESHOLD: 1 << 26}


class Call:
    """A layer's call on given inputs, compiled once, that can be run any number of times.

    Args:
        layer: a built layer.
        inputs: tree of arrays; the gradient is taken with respect to them.
        call: function of the layer and the inputs that returns one tensor; by default, the layer called with the inputs
            as keywords.
        backward: whether the gradients of inputs and weights are computed too.
    """

    def __init__(self, layer, inputs, call=None, backward=False):
        self._layer = layer
        self._call = call or (lambda layer, inputs: layer(**inputs))
        self._inputs = tree.map_structure(ops.convert_to_tensor, inputs)
        self._run = getattr(self, f"_{BACKEND}")(backward)

    def __call__(self):
        """Run it and wait for the results."""
        self._run()

    def seconds(self):
        """Seconds of one run."""
        began = time.perf_counter()
        self._run()
        return time.perf_counter() - began

    def peak_bytes(self):
        """Peak memory of one run besides inputs and weights; call it before anything is timed."""
        if BACKEND == "jax":
            analysis = self._compiled.memory_analysis()
            return analysis.temp_size_in_bytes + analysis.output_size_in_bytes
        return peak_bytes(self._run)

    def _jax(self, backward):
        import jax

        weights = [v.value for v in self._layer.trainable_variables]
        others = [v.value for v in self._layer.non_trainable_variables]

        def forward(weights, inputs):
            with keras.StatelessScope(
                [*zip(self._layer.trainable_variables, weights, strict=True),
                 *zip(self._layer.non_trainable_variables, others, strict=True)]
            ):  # fmt: skip
                return self._call(self._layer, inputs)

        floats = {k: v for k, v in self._inputs.items() if "float" in str(v.dtype)}
        rest = {k: v for k, v in self._inputs.items() if k not in floats}

        def loss(weights, floats):
            return forward(weights, {**floats, **rest}).astype("float32").sum()

        function = jax.grad(loss, argnums=(0, 1)) if backward else lambda w, x: forward(w, {**x, **rest})
        self._compiled = jax.jit(function).lower(weights, floats).compile()
        return lambda: jax.block_until_ready(self._compiled(weights, floats))

    def _tensorflow(self, backward):
        import tensorflow as tf

        weights = [v.value for v in self._layer.trainable_variables]
        floats = [x for x in tree.flatten(self._inputs) if x.dtype.is_floating]

        @tf.function
        def function():
            if not backward:
                return self._call(self._layer, self._inputs)
            with tf.GradientTape() as tape:
                tape.watch(floats)
                loss = tf.reduce_sum(tf.cast(self._call(self._layer, self._inputs), "float32"))
            return tape.gradient(loss, [*weights, *floats])

        return lambda: tree.map_structure(lambda x: None if x is None else x.numpy(), function())

    def _torch(self, backward):
        import torch

        weights = [v.value for v in self._layer.trainable_variables]
        floats = [x.requires_grad_() for x in tree.flatten(self._inputs) if x.is_floating_point()]

        def run():
            if not backward:
                with torch.no_grad():
                    result = [self._call(self._layer, self._inputs)]
            else:
                loss = self._call(self._layer, self._inputs).float().sum()
                result = torch.autograd.grad(loss, [*weights, *floats], allow_unused=True)
            if result[0] is not None and result[0].is_cuda:
                torch.cuda.synchronize()

        return run


def side_by_side(calls, seconds=1.0, rounds=5):
    """Median seconds of each of several calls, run in turn for a minimum of seconds and rounds.

    Each is timed when it runs for the second time in a row: the first one finds the caches and the memory as another
    call left them, and behind one that needs a gigabyte takes up to half as long again.
    """
    for name, size in _USUAL.items():
        ctypes.CDLL(None).mallopt(name, size)
    for call in calls:
        call()
    times, began = [[] for _ in calls], time.perf_counter()
    while time.perf_counter() - began < seconds * len(calls) or len(times[0]) < rounds:
        for call, found in zip(calls, times, strict=True):
            call()
            found.append(call.seconds())
    return [sorted(found)[len(found) // 2] for found in times]
