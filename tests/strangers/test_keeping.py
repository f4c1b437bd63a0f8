"""What strangers do with a trained model: clone it, save it, load it elsewhere, take its weights, export it."""

import dataclasses
import functools
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_attn_zoo.layers import ATTENTIONS
from keras_attn_zoo.layers.base.headed_attention import HeadedAttention
from tests.layers.calls import BACKEND, compiled, to_numpy
from tests.strangers.models import (
    BATCH,
    FAMILIES,
    PRECISIONS,
    STRANGERS,
    UNREGISTERED,
    functional,
    inputs_with,
    precision,
)
from tests.weights import fill_weights

# By day under PyTorch, which compiles nothing; at night under all.
pytestmark = [pytest.mark.long, pytest.mark.slow_compiled]

KEPT = [("functional", "float32"), ("subclassed", "layers_in_bfloat16")]
NIGHTLY = [(family, name) for family in FAMILIES for name in PRECISIONS if (family, name) not in KEPT]
every_model = pytest.mark.parametrize(
    ("family", "name"), [*KEPT, *(pytest.param(*which, marks=pytest.mark.slow) for which in NIGHTLY)]
)


def outputs_of(model, family):
    """All that a model gives, by name."""
    # A function of its own each time: JAX keeps the program of one that it has seen, with the weights of then.
    outputs = compiled(lambda inputs: model(inputs))(inputs_with(family=family))
    return outputs if isinstance(outputs, dict) else {"prediction": outputs}


@functools.cache
def trained(family, name):
    """A model after one step of training, and what it gives; of a functional model that is tested elsewhere."""
    with precision(name) as options:
        model, shown = FAMILIES[family](**options)
    fill_weights(model)
    if family != "functional":
        before = [to_numpy(w.value) for w in model.trainable_weights]
        # It takes TensorFlow half a minute to trace a subclassed model of this size.
        how = {"run_eagerly": family == "subclassed"} if BACKEND == "tensorflow" else {}
        model.compile(keras.optimizers.SGD(0.125), "mse", **how)
        model.fit(inputs_with(family=family), np.ones((BATCH, 1)), batch_size=BATCH, verbose=0)
        after = [to_numpy(w.value) for w in model.trainable_weights]
        assert all(np.isfinite(x).all() for x in after)
        assert any(map(np.any, (x != y for x, y in zip(before, after, strict=True))))
    if family == "subclassed":
        shown.show = True
    return shown, outputs_of(shown, family)


every_layer = pytest.mark.parametrize("layer", [*map(str, STRANGERS), *UNREGISTERED])
# What a backend's exported models are called.
EXPORTS = {"tensorflow": ".served", "torch": ".pt2"}
NOT_EXPORTED = {
    "torch": dict.fromkeys(
        UNREGISTERED[1:], "its guard of the normaliser depends on numbers, which torch.export refuses"
    ),
    "jax": {},
    "tensorflow": {},
}
KERNELS = "it has no weights, or kernels of the equation's own, with no projection that Keras could adapt"
WITHOUT_PROJECTIONS = {
    str(stranger): KERNELS
    for stranger in STRANGERS
    if stranger.cross and not issubclass(ATTENTIONS[stranger.name].layer, HeadedAttention)
}


@every_model
def test_clone(family, name):
    """A clone has weights of its own, drawn anew; with those of the model it gives the same."""
    model, outputs = trained(family, name)
    with precision(name):
        clone = keras.models.clone_model(model)
    if family == "subclassed":
        clone.build_from_config(model.get_build_config())
    assert [(w.name, w.shape) for w in clone.weights] == [(w.name, w.shape) for w in model.weights]
    values = [[to_numpy(w.value) for w in x.weights] for x in (clone, model)]
    same = [np.ptp(drawn) > 0 and np.array_equal(drawn, theirs) for drawn, theirs in zip(*values, strict=True)]
    assert not [w.path for w, is_same in zip(clone.weights, same, strict=True) if is_same]
    clone.set_weights(model.get_weights())
    for a, b in zip(clone.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
    for output, found in outputs_of(clone, family).items():
        np.testing.assert_array_equal(found, outputs[output], output)


def keep(folder, name, model, outputs):
    """Save a model, and what it gives."""
    model.save(folder / f"{name}.keras")
    np.savez(folder / f"{name}.npz", **outputs)


def fresh_process(folder):
    """What a fresh process finds to differ in the models of a folder."""
    process = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-m", "tests.strangers.fresh_process", folder],
        cwd=Path(__file__).parents[2],
        env=os.environ,
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr[-3000:]
    return json.loads(process.stdout.splitlines()[-1])


def keep_with_weights(folder, which):
    for family, name in which:
        shown, outputs = trained(family, name)
        keep(folder, f"{family}-{name}", shown, outputs)
        shown.save_weights(folder / f"{family}-{name}.weights.h5")


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """One fresh process for all that the tests of this file keep: it takes seconds to start."""
    folder = tmp_path_factory.mktemp("kept")
    keep_with_weights(folder, KEPT)
    for adapted in (lora(), int8()):
        keep(folder, adapted.name, adapted.model, adapted.outputs)
    return fresh_process(folder)


@pytest.mark.parametrize(("family", "name"), KEPT)
def test_saved_and_loaded_in_a_fresh_process(report, family, name):
    """A whole model, and weights into a model that the code makes anew."""
    assert report[f"{family}-{name}.keras"] == {}
    assert report[f"{family}-{name}.weights.h5"] == {}


@pytest.mark.slow
def test_saved_and_loaded_in_a_fresh_process_in_all_precisions(tmp_path):
    keep_with_weights(tmp_path, NIGHTLY)
    found = fresh_process(tmp_path)
    assert len(found) == 2 * len(NIGHTLY)
    assert not {what: different for what, different in found.items() if different}


@dataclasses.dataclass
class Adapted:
    """A functional model whose projections were adapted, by mechanism, and what it gives."""

    name: str
    model: keras.Model
    projections: dict
    before: dict
    outputs: dict

    def of(self, name):
        """The outputs of one mechanism, before and after."""
        return [{key: x[key] for key in x if key.startswith(f"{name}.")} for x in (self.before, self.outputs)]


def projections_of(model, method):
    """The layers inside every mechanism that have a method, as KerasHub looks for them."""
    names = [*map(str, STRANGERS), *UNREGISTERED]
    inside = {name: model.get_layer(name)._flatten_layers() for name in names}
    return {name: [x for x in layers if has(x, method)] for name, layers in inside.items()}


def has(layer, method):
    """Whether a layer has a method of its own, for Keras' base class has some that only raise."""
    return getattr(type(layer), method, None) not in (None, getattr(keras.Layer, method, None))


@functools.cache
def lora():
    """One step of training in which all is frozen but projections, and their kernels too: as KerasHub does it."""
    model, shown = functional()
    fill_weights(shown)
    before = outputs_of(shown, "functional")
    projections = projections_of(shown, "enable_lora")
    for layer in shown._flatten_layers(include_self=False):
        layer.trainable = False
    for layer in itertools.chain(*projections.values()):
        layer.trainable = True
        layer.enable_lora(2)
    kinds = model.trainable_weights, model.non_trainable_weights
    free, frozen = ({w.path: to_numpy(w.value) for w in weights} for weights in kinds)
    assert {path.rsplit("/", 1)[1] for path in free} == {"lora_kernel_a", "lora_kernel_b", "bias"}
    at_first = outputs_of(shown, "functional")
    for name, x in before.items():
        np.testing.assert_allclose(at_first[name], x, rtol=0, atol=1e-6 * max(1.0, np.abs(x).max()), err_msg=name)
    model.compile(keras.optimizers.SGD(0.125), "mse", run_eagerly=BACKEND == "tensorflow")
    model.fit(inputs_with(), np.ones((BATCH, 1)), batch_size=BATCH, verbose=0)
    after = {w.path: to_numpy(w.value) for w in model.weights}
    assert not [path for path, x in frozen.items() if not np.array_equal(after[path], x)]
    # At first the second factor is 0, and with it the gradient of the first.
    assert not [path for path, x in free.items() if path.endswith("_b") and np.array_equal(after[path], x)]
    return Adapted("functional-float32-lora", shown, projections, before, outputs_of(shown, "functional"))


@functools.cache
def int8():
    """Projections of int8."""
    _, shown = functional()
    fill_weights(shown)
    before = outputs_of(shown, "functional")
    projections = projections_of(shown, "quantize")
    shown.quantize("int8")
    return Adapted("functional-float32-int8", shown, projections, before, outputs_of(shown, "functional"))


@every_layer
def test_low_rank_adaptation(layer, report):
    """Additions of low rank alone learn, they tell in what the mechanism gives, and they are saved."""
    if layer in WITHOUT_PROJECTIONS:
        assert not lora().projections[layer]
        pytest.skip(WITHOUT_PROJECTIONS[layer])
    assert lora().projections[layer]
    assert not [x.path for x in lora().projections[layer] if not x.lora_enabled]
    before, after = lora().of(layer)
    assert any(np.any(after[name] != x) for name, x in before.items())
    assert not {name for name in report["functional-float32-lora.keras"] if name.startswith(f"{layer}.")}


@every_layer
def test_int8(layer, report):
    """Projections hold integers, and what the mechanism gives stays close."""
    if layer in WITHOUT_PROJECTIONS:
        assert not int8().projections[layer]
        pytest.skip(WITHOUT_PROJECTIONS[layer])
    assert int8().projections[layer]
    kinds = {x.path: keras.backend.standardize_dtype(x.kernel.dtype) for x in int8().projections[layer]}
    # The transition of recurrent attention is part of a softmax: float32 whatever a policy says.
    assert [path for path, kind in kinds.items() if kind != "int8"] == [
        x for x in kinds if x.endswith("transition/dense")
    ]
    before, after = int8().of(layer)
    for name, x in before.items():
        np.testing.assert_allclose(after[name], x, rtol=0, atol=0.05 * max(1.0, np.abs(x).max()), err_msg=name)
    assert not {name for name in report["functional-float32-int8.keras"] if name.startswith(f"{layer}.")}


def export(model, path):
    """Export what can be: of unknown lengths, but on PyTorch."""
    left_out = tuple(f"{name}." for name in NOT_EXPORTED[BACKEND])
    if left_out:
        outputs = {name: x for name, x in model.output.items() if not f"{name}.".startswith((*left_out, "prediction."))}
        model = keras.Model(model.input, outputs)
    if BACKEND == "torch":
        inputs = {name: keras.InputSpec(shape=x.shape, dtype=x.dtype) for name, x in inputs_with().items()}
        model.export(path, format="torch", input_signature=[inputs], verbose=False)
    else:
        model.export(path, format="tf_saved_model", verbose=False)


@pytest.mark.slow
@pytest.mark.skipif(BACKEND not in EXPORTS, reason="JAX exports by TensorFlow, which is hidden here")
def test_exported(tmp_path):
    """Without this package, an exported model gives the same; what cannot be exported is declared."""
    model, outputs = trained("functional", "float32")
    keep(tmp_path, "functional-float32", model, outputs)
    name = f"functional-float32{EXPORTS[BACKEND]}"
    export(model, tmp_path / name)
    assert fresh_process(tmp_path)[name] == {}
