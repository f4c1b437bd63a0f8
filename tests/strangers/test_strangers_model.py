"""In a stranger's model a layer does what `keras.layers.MultiHeadAttention` does there: masks, padding, training.

One functional model holds every mechanism, so that all of them cost one compilation.
"""

import functools
import warnings

import keras
import numpy as np
import pytest

from keras_attn_zoo import layers as package
from tests.layers.calls import BACKEND, to_numpy
from tests.layers.references import REFERENCES
from tests.strangers.models import (
    BATCH,
    PRECISIONS,
    STRANGERS,
    functional,
    inputs_with,
    precision,
    real_positions,
    sentences,
    sequential,
)
from tests.weights import fill_weights

# Relative to the largest number. Shorter sentences are other programs, which may add in another order.
TOLERANCE = {"float32": 5e-6, "mixed_bfloat16": 3e-2, "layers_in_bfloat16": 3e-2}
ON_PADDING = (50.0, np.nan, np.inf)

pytestmark = [pytest.mark.long, pytest.mark.slow_compiled]


class World:
    """A model of one precision, and what was predicted with it."""

    def __init__(self, name):
        self.precision, self.predicted = name, {}
        with precision(name) as options, warnings.catch_warnings(record=True) as self.warnings:
            warnings.simplefilter("always")
            # What an earlier test left open is told whenever it is collected.
            warnings.simplefilter("ignore", ResourceWarning)
            self.model, self.shown = functional(**options)
        fill_weights(self.model)
        # By XLA TensorFlow compiles for half a minute; each mechanism is so compiled in the tests of the laws.
        for model in (self.model, self.shown):
            model.compile(keras.optimizers.SGD(0.125), "mse", jit_compile=BACKEND == "jax")

    def predict(self, filler=0.0, more=0):
        """Contexts, scores and more by mechanism, float32."""
        if (filler, more) not in self.predicted:
            self.predicted[filler, more] = to_numpy(self.shown.predict(inputs_with(filler, more), verbose=0))
        return self.predicted[filler, more]

    def fit(self, filler):
        """Loss of one step from the same start, and all weights after it."""
        fill_weights(self.model)
        # Shuffled, the sentences of the batch would be added up in another order at each call.
        options = {"verbose": 0, "batch_size": BATCH, "shuffle": False}
        history = self.model.fit(inputs_with(filler), np.ones((BATCH, 1)), **options).history
        after = {w.path: to_numpy(w.value) for w in self.model.weights}
        fill_weights(self.model)
        return history["loss"][0], after


@functools.cache
def world(name):
    return World(name)


def by_day(count):
    """So many of the precisions by day, all of them at night."""
    return pytest.mark.parametrize(
        "name", [*PRECISIONS[:count], *(pytest.param(name, marks=pytest.mark.slow) for name in PRECISIONS[count:])]
    )


# Training, each precision and each length are programs of their own, which take a minute where they are compiled. The
# laws have each mechanism by itself in all of them.
COMPILED = BACKEND != "torch"
every_precision = by_day(1 if COMPILED else 2)
other_programs = by_day(0 if COMPILED else 1)


def test_every_public_layer_is_tried():
    """A new layer joins by the registry, or is added to these models by hand."""
    public = [getattr(package, name) for name in package.__all__]
    public = {x for x in public if isinstance(x, type) and issubclass(x, keras.layers.Layer)}
    # The last shares a head with the model, of which a file of it would have two.
    public -= {package.AttentionLayer, package.FirstOrderAlignment}
    tried = {type(layer) for layer in world("float32").shown._flatten_layers()}
    assert public <= tried
    in_a_row = {layer.name for layer in sequential()[0].layers} & set(map(str, STRANGERS))
    # A row of layers hands on one tensor, and cross-attention takes two.
    assert {str(stranger) for stranger in STRANGERS} - in_a_row == {str(x) for x in STRANGERS if x.cross}


@every_precision
def test_no_warnings(name):
    """A layer that lets go of a mask would be warned of by Keras, and rightly so in a stranger's own layer."""
    assert not [str(warning.message) for warning in world(name).warnings]


@every_precision
def test_padding_gets_no_weight(name):
    """Carried by Keras alone, masks give exact zeros: weights on padding, and rows of padding."""
    failures = {}
    for stranger in STRANGERS:
        rows, columns = real_positions(stranger)
        mask = rows[:, None, :, None] & columns[:, None, None, :]
        if stranger.causal:
            mask = mask & np.tril(np.ones(mask.shape[2:], dtype=bool))
        context, scores = (world(name).predict()[f"{stranger}.{part}"] for part in ("context", "scores"))
        total = scores.sum(axis=-1)
        found = {
            "weight on padding": np.abs(np.where(mask, 0, scores)).max(),
            "context on padding": np.abs(context[~rows]).max(),
            "negative weight": -min(scores.min(), 0),
        }
        if REFERENCES[stranger.name].share:
            found["sum of weights"] = np.any(total > 1 + 1e-6) or np.any(total[mask.any(-1) & (total == 0)])
        else:
            found["sum of weights"] = np.abs(total - np.broadcast_to(mask.any(-1), total.shape)).max() > 1e-5
        if wrong := {what: value for what, value in found.items() if value != 0}:
            failures[str(stranger)] = wrong
    assert not failures


def differences(found, wanted, tolerance):
    """What differs between two trees of arrays, by path, relative to the largest number."""
    found, wanted = (dict(keras.tree.flatten_with_path(x)) for x in (found, wanted))
    assert found.keys() == wanted.keys()
    different = {}
    for path, x in wanted.items():
        with np.errstate(invalid="ignore"):
            largest = np.max(np.abs(found[path] - x)) / max(1.0, np.max(np.abs(x)))
        if not largest <= tolerance:
            different["/".join(map(str, path))] = largest
    return different


@pytest.mark.parametrize("filler", ON_PADDING)
@every_precision
def test_what_stands_on_padding_reaches_nothing(name, filler):
    """Neither weights nor contexts, nor a latent alignment: to the bit, and were it NaN."""
    different = differences(world(name).predict(filler), world(name).predict(), 0)
    assert not different


@other_programs
def test_one_step_of_training(name):
    """Every weight learns, and what stands on padding reaches no loss, no gradient and no weight: were it NaN."""
    loss, weights = world(name).fit(0.0)
    assert np.isfinite(loss)
    before = {w.path: to_numpy(w.value) for w in world(name).model.weights}
    padding = "target_embedding/embeddings"
    np.testing.assert_array_equal(weights[padding][0], before[padding][0])
    if name == "float32":
        without = {f"{s}/{weight}" for s in STRANGERS for weight in REFERENCES[s.name].without_gradient}
        paths = {w.path for w in world(name).model.trainable_weights if np.array_equal(weights[w.path], before[w.path])}
        assert paths <= without
    for filler in ON_PADDING:
        different = differences([world(name).fit(filler)], [(loss, weights)], 0)
        assert not different, f"{filler} on padding"


def cut(tree, wanted):
    """The start of every array, as much as is wanted."""
    return keras.tree.map_structure(lambda x, y: x[tuple(map(slice, y.shape))], tree, wanted)


@other_programs
def test_more_padding_changes_nothing(name):
    """Neither what a mechanism gives, nor what its neighbours make of it: they get its mask."""
    wanted, found = world(name).predict(), world(name).predict(more=2)
    tolerance = TOLERANCE[name]
    different = differences(cut(found, wanted), wanted, tolerance)
    assert not different


@other_programs
def test_a_sentence_alone(name):
    """Padded in a batch or alone and without any padding, a sentence gives the same."""
    rows = slice(1, 2)
    alone = {name: x[rows, : np.sum(x[1] > 0)] for name, x in sentences().items()} | {"filler": np.zeros((1, 1))}
    found = to_numpy(world(name).shown.predict(alone, verbose=0))
    wanted = keras.tree.map_structure(lambda x: x[rows], world(name).predict())
    different = differences(found, cut(wanted, found), TOLERANCE[name])
    assert not different


@every_precision
def test_declared_shapes_and_types(name):
    """What a model says of its outputs before it runs is what comes."""
    failures = {}
    predicted = dict(keras.tree.flatten_with_path(world(name).shown.predict(inputs_with(), verbose=0)))
    for path, declared in keras.tree.flatten_with_path(world(name).shown.output):
        found = predicted[path]
        fits = len(found.shape) == len(declared.shape) and str(found.dtype) == declared.dtype
        fits = fits and all(want in (None, have) for have, want in zip(found.shape, declared.shape, strict=True))
        if not fits:
            failures[path] = (declared.shape, declared.dtype, found.shape, found.dtype)
    assert not failures


@pytest.mark.slow
@pytest.mark.skipif(
    BACKEND != "torch",
    reason="Keras 3.15's own layers fail in a scope: its Dropout under JAX, and any `fit` under TensorFlow",
)
def test_rematerialisation():
    """What is computed again for the backward pass is what was computed before it."""
    start = world("float32").model.get_weights()
    wanted = world("float32").fit(0.0)[1].values()
    with keras.RematScope(mode="full"):
        again = World("float32")
        again.model.set_weights(start)
        again.model.fit(inputs_with(), np.ones((BATCH, 1)), verbose=0, batch_size=BATCH, shuffle=False)
    different = differences(again.model.get_weights(), list(wanted), 1e-6)
    assert not different
