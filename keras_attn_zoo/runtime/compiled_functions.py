"""Functions that read a model's variables, each compiled once, as the backend requires.

Keras compiles one function each for `predict`, `evaluate` and KerasHub's `generate`, and keeps what they need between
calls on the model. These functions keep nothing, so several threads may run them on one model.
"""

import functools
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops, tree

from keras_attn_zoo.data.shapes import GridBatch, pad_rows
from keras_attn_zoo.devices import Devices, current
from keras_attn_zoo.kernels import PreparedWeight, inference, parallel_batches
from keras_attn_zoo.runtime.parallel_batches import FirstCall, in_order, in_parts
from keras_attn_zoo.runtime.prepared_weights import PreparedWeights
from keras_attn_zoo.support.types import TensorTree

# More than a translator has at a time: searches with and without attention, scores, a layer's attention.
MOST_FUNCTIONS = 16
# Of all functions together, one for each shape: a file of text takes about 30. Of a small model each takes 10 to 20 MB.
MOST_PROGRAMS = 64
# TensorFlow never frees what XLA has compiled, so the first shapes alone are compiled, and kept; others run as graphs.
MOST_OF_TENSORFLOW = 32


class Programs:
    """The compiled functions of a model, one for each shape of arguments; those used least recently are dropped.

    Args:
        model: the model.

    Example:
        >>> programs = Programs(translator)
        >>> found = programs.run("logits", lambda: lambda x: translator(x)["logits"], inputs)  # doctest: +SKIP
    """

    def __init__(self, model: keras.Model) -> None:
        self._model = model
        self._weights = PreparedWeights(model)
        self._functions: dict[Hashable, Callable] = {}
        self._compiled: dict[Hashable, tuple[Callable, FirstCall]] = {}
        self._lasting: dict[Hashable, tuple[Callable, FirstCall]] = {}
        self._lock = threading.Lock()

    def run(
        self,
        key: Hashable,
        make: Callable[[], Callable],
        *inputs: TensorTree,
        changing: Sequence[keras.Variable] = (),
        around: Callable[[Callable], Callable] | None = None,
        beams: int = 0,
    ) -> TensorTree:
        """Run the function of a key on trees of arrays; return arrays.

        Args:
            key: identifies the function among those of the model.
            make: returns the function; called if the key is new.
            *inputs: arguments of the function.
            changing: see `compiled`.
            around: function of the compiled function, on arrays, to the one that is run in its place.
            beams: see `compiled`.
        """
        run = self._prepared(key, make, changing, around, beams=beams)
        # Random numbers are drawn for a batch as a whole.
        return (run if changing else in_parts(run, self._parallel_batches))(*inputs)

    def _parallel_batches(self):
        return 1 if current() is not None or self._model.run_eagerly else parallel_batches()

    def _is_eager(self):
        return keras.config.backend() == "torch" or self._model.run_eagerly

    def _prepared(self, key, make, changing=(), around=None, clock=None, beams=0):
        """The function of a key, from arrays to arrays."""
        devices = None if changing else current()
        # TensorFlow's graphs hold the variables that they were traced with, and LoRA and `quantize` replace variables.
        key = key, devices, tuple(map(id, self._model.variables))
        with self._lock:
            function = _most_recent(self._functions, key, make, MOST_FUNCTIONS)

        def program(inputs):
            # A function that is not compiled takes all shapes.
            shapes = None if self._is_eager() else _shapes(inputs)

            def make_program(jit=True):
                return compiled(self._model, function, changing, devices, self._weights, beams, jit), FirstCall()

            entry = key, shapes
            with self._lock:
                if keras.config.backend() != "tensorflow" or shapes is None:
                    return _most_recent(self._compiled, entry, make_program, MOST_PROGRAMS)
                if entry not in self._lasting and len(self._lasting) < MOST_OF_TENSORFLOW:
                    self._lasting[entry] = make_program()
                if entry in self._lasting:
                    return self._lasting[entry]
                graph = functools.partial(make_program, jit=False)
                return _most_recent(self._compiled, entry, graph, MOST_PROGRAMS - MOST_OF_TENSORFLOW)

        def on_devices(*inputs):
            if devices is None:
                call, first_call = program(inputs)
                with first_call.one_at_a_time():
                    return _arrays(call(*inputs))
            filled = devices.fill(inputs)
            call, _ = program(filled)
            found = devices.gather(_arrays(call(*devices.own(filled))))
            rows, all_rows = (len(tree.flatten(one)[0]) for one in (inputs, filled))
            return tree.map_structure(lambda x: x[: len(x) * rows // all_rows], found)

        def run(*inputs):
            began = time.perf_counter()
            found = on_devices(*inputs)
            if clock is not None:
                clock.record(_shapes(inputs), time.perf_counter() - began)
            return found

        return run if around is None else around(run)

    def run_batches(
        self,
        batches: Iterable[GridBatch],
        sides: Sequence[Sequence[Any]],
        key: Hashable,
        make: Callable[[], Callable],
        pack: Callable[..., tuple],
        read: Callable[..., Any],
        progress: Callable[[int], None] | None = None,
        clock: Any = None,
        around: Callable[[Callable], Callable] | None = None,
        beams: int = 0,
    ) -> list[Any]:
        """Run the function of a key over encoded sentences, or over pairs of them.

        Args:
            batches: the batches of the sentences.
            sides: ids of all sources; those of all targets too, for pairs; whatever else belongs to each sentence.
            key, make: see `run`.
            pack: function of a batch, a list for each side, and of the lengths to pad ids to; returns the
                arguments of the function of the key.
            read: function of the ids of a sentence, one list for each side, of the results for its batch, and of its
                row there.
            progress: function called with the number of sentences done, after every batch.
            clock: a `CompilationClock`, which records the shapes and the seconds of every search; with one, they run
                one after the other.
            around, beams: see `run`.

        Returns:
            What `read` returns for each sentence.
        """
        results: list[Any] = [None] * len(sides[0])
        batches, done = list(batches), 0
        # Once: going through all layers for their variables takes as long as a step of a small model.
        run, count = self._prepared(key, make, around=around, clock=clock, beams=beams), 1
        # Seconds of batches that run at once would say nothing.
        if clock is None and len(batches) == 1:
            run = in_parts(run, self._parallel_batches)
        elif clock is None:
            count = self._parallel_batches()
            # One of each shape first: threads that begin with the same shape wait for each other.
            first = {(batch.rows, batch.widths): batch for batch in reversed(batches)}
            batches.sort(key=lambda batch: first[batch.rows, batch.widths] is not batch)

        def run_batch(batch):
            packed = pack(*([side[i] for i in batch.members] for side in sides), *batch.widths)
            packed = tree.map_structure(lambda value: pad_rows(value, batch.rows), packed)
            return run(*packed)

        for batch, found in zip(batches, in_order(run_batch, batches, count), strict=True):
            for row, i in enumerate(batch.members):
                results[i] = read(*(side[i] for side in sides), found, row)
            done += len(batch.members)
            if progress is not None:
                progress(done)
        return results


def _most_recent(made, key, make, most):
    """Return what was made for a key; make it if need be, and drop what was used least recently."""
    # Put last: the first is the one that was used least recently.
    found = made.pop(key) if key in made else make()
    made[key] = found
    while len(made) > most:
        del made[next(iter(made))]
    return found


def _shapes(inputs):
    return tuple(x.shape for x in tree.flatten(inputs))


def _arrays(tensors):
    return tree.map_structure(lambda x: np.asarray(ops.convert_to_numpy(x)), tensors)


def compiled(
    model: keras.Model,
    function: Callable,
    changing: Sequence[keras.Variable],
    devices: Devices | None,
    weights: PreparedWeights,
    beams: int,
    jit: bool = True,
) -> Callable:
    """Compile a function of tensors that reads the variables of a model, without gradients.

    Args:
        model: the model; if it runs eagerly, the function is not compiled.
        function: function of trees of tensors.
        changing: variables that the function changes, such as the random states of a sampler.
        devices: `Devices` that share the rows of its arguments; without them, each computes all.
        weights: the model's, prepared for inference; JAX alone takes them.
        beams: hypotheses of a sentence, if the function runs the steps of a search; else 0.
        jit: whether TensorFlow compiles it by XLA, if the model does; otherwise it is a graph.
    """
    backend = keras.config.backend()
    if backend == "tensorflow" and not model.run_eagerly:
        import tensorflow as tf

        function = inference()(function)
        if devices is not None:
            return functools.partial(devices.over_rows(lambda _, *inputs: function(*inputs)), None)
        # No AutoGraph: rewriting the function and all that it calls takes longer than tracing it.
        return tf.function(function, jit_compile=jit and getattr(model, "jit_compile", True), autograph=False)
    if backend == "jax" and not model.run_eagerly:
        import jax

        program = _compiled_by_jax(model, function, changing, devices, weights, beams)
        # Keras' conversion would compile a program for each shape.
        return program if devices is not None else lambda *inputs: program(*jax.device_put(inputs))
    if backend == "torch":
        import torch

        return torch.no_grad()(_on_tensors(inference()(function)))
    return _on_tensors(inference()(function))


def _on_tensors(function):
    """Return the function with its arrays converted to tensors."""
    return lambda *inputs: function(*tree.map_structure(ops.convert_to_tensor, inputs))


def _compiled_by_jax(model, function, changing, devices, weights, beams):
    import jax

    # Whose order does not change as layers are frozen.
    variables = [*changing, *model.variables]
    how: dict[int, bool] = {}

    def stateless(state, *inputs):
        values, matrices = state
        prepared = {key: PreparedWeight(matrix, how[key]) for key, matrix in matrices.items()}
        scope = keras.StatelessScope(state_mapping=list(zip(variables, values, strict=True)))
        with inference(prepared), scope:
            outputs = function(*inputs)
        return outputs, [scope.get_current_value(variable) for variable in changing]

    program = jax.jit(stateless) if devices is None else devices.over_rows(stateless)

    @functools.cache
    def wanted(rows):
        return weights.wanted(rows)

    def call(*inputs):
        rows = tree.flatten(inputs)[0].shape[0] * beams
        prepared = weights.prepare(wanted(rows if rows and devices is None else None))
        how.update({key: one.transposed for key, one in prepared.items()})
        state = [variable.value for variable in variables], {key: one.matrix for key, one in prepared.items()}
        outputs, changed = program(state, *inputs)
        for variable, value in zip(changing, changed, strict=True):
            variable.assign(value)
        return outputs

    return call
