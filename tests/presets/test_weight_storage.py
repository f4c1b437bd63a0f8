"""Presets in float16 and int8, and models whose weights are not drawn before they are loaded."""

import h5py
import keras
import keras_hub
import numpy as np
import pytest

from keras_attn_zoo.bodies import RNNBackbone
from keras_attn_zoo.presets import saving
from keras_attn_zoo.presets.loading_without_drawing import without_drawing
from keras_attn_zoo.presets.weight_storage import SCALES, quantized
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.translators import Translator
from tests import tiny


def weights(model):
    return {v.path: keras.ops.convert_to_numpy(keras.ops.cast(v.value, "float32")) for v in model.weights}


def kinds_of(preset):
    """The types of the numbers in a preset's file of weights."""
    with h5py.File(preset / "model.weights.h5") as file:
        kinds = set()
        file.visititems(lambda _, item: kinds.add(item.dtype.str) if isinstance(item, h5py.Dataset) else None)
    return kinds


def small_translator():
    # Large enough for matrices of more than 1,024 numbers, which int8 is for.
    return tiny.translator(embedding_dim=32, hidden_dim=48)


@pytest.mark.one_backend
def test_quantized_loses_half_a_step_at_most_on_the_better_axis():
    rng = np.random.default_rng(1)
    values = (rng.normal(size=(40, 30)) * 10.0 ** rng.integers(-3, 3, (40, 1))).astype("float32")
    q, scales = quantized(values)
    assert q.dtype == np.int8 and scales.shape == (40, 1)
    step = np.abs(values.astype("float64")).max(axis=1, keepdims=True) / 127
    assert (np.abs(q * scales.astype("float64") - values) <= 0.5001 * step).all()
    assert quantized(values.T)[1].shape == (1, 40)
    q, scales = quantized(np.zeros((3, 4), "float32"))
    assert (q == 0).all() and np.isfinite(scales).all()


@pytest.mark.one_backend
@pytest.mark.parametrize("storage, smaller, share", [("float16", 1.8, 1e-3), ("int8", 2.5, 1 / 250)])
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_a_preset_is_smaller_and_its_weights_are_near(tmp_path, storage, smaller, share, policy):
    first = small_translator()
    first.save_to_preset(tmp_path / "whole")
    first.save_to_preset(tmp_path / storage, storage=storage)
    sizes = [(tmp_path / name / "model.weights.h5").stat().st_size for name in ("whole", storage)]
    assert {"float16": "<f2", "int8": "|i1"}[storage] in kinds_of(tmp_path / storage)
    # HDF5 writes a kilobyte or so around each weight, in both.
    assert sizes[0] - sizes[1] > 4 * sum(w.size for w in weights(first).values()) * (1 - 1 / smaller)
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        second = Translator.from_preset(str(tmp_path / storage))
    finally:
        keras.config.set_dtype_policy(before)
    assert second.backbone.dtype_policy.name == policy
    expected, found = weights(first), weights(second)
    assert expected.keys() == found.keys()
    for name, values in expected.items():
        # Half a step of 127, for the largest number of the whole matrix.
        assert np.abs(found[name] - values).max(initial=0.0) <= share * np.abs(values).max(initial=0.0) + 1e-7, name


@pytest.mark.parametrize("storage", ["float32", "float16", "int8", "Keras' own"])
def test_a_model_that_computes_in_bfloat16_is_stored_like_any_other(tmp_path, storage, monkeypatch):
    small_translator().save_to_preset(tmp_path / "plain")
    first = Translator.from_preset(tmp_path / "plain", dtype="bfloat16")
    if storage == "Keras' own":
        # Two bytes for each number, as Keras writes them.
        monkeypatch.setattr(saving, "compact", lambda file, storage: file.getvalue())
    first.save_to_preset(tmp_path / "preset", **({} if storage == "Keras' own" else {"storage": storage}))
    assert kinds_of(tmp_path / "preset") == {"float32": {"<f4"}, "float16": {"<f2"}, "int8": {"|i1", "<f2", "<f4"}}.get(
        storage, {"|V2"}
    )
    second = Translator.from_preset(tmp_path / "preset")
    expected, found = weights(first), weights(second)
    assert expected.keys() == found.keys() and max(np.abs(w).max() for w in found.values()) > 0
    for name, values in expected.items():
        share = 1 / 250 if storage == "int8" else 1e-3 if storage == "float16" else 0.0
        assert np.abs(found[name] - values).max() <= share * np.abs(values).max() + 1e-7 * (share > 0), name


def test_a_model_held_in_float16_is_stored_in_int8_too(tmp_path):
    small_translator().save_to_preset(tmp_path / "plain")
    half = Translator.from_preset(tmp_path / "plain", dtype="float16")
    half.save_to_preset(tmp_path / "int8", storage="int8")
    assert "|i1" in kinds_of(tmp_path / "int8") <= {"|i1", "<f2", "<f4"}
    for first, second in zip(half.weights, Translator.from_preset(tmp_path / "int8").weights, strict=True):
        first, second = (np.asarray(keras.ops.convert_to_numpy(x), "float32") for x in (first, second))
        np.testing.assert_allclose(first, second, rtol=0, atol=np.abs(first).max() / 200 + 1e-6)


@pytest.mark.slow_compiled
def test_a_body_and_kerashubs_own_function_read_int8(tmp_path):
    first = small_translator()
    first.save_to_preset(tmp_path / "int8", storage="int8")
    task = Translator.from_preset(str(tmp_path / "int8"))
    body = RNNBackbone.from_preset(str(tmp_path / "int8"))
    for name, values in weights(task.backbone).items():
        np.testing.assert_array_equal(weights(body)[name], values)
    texts = tiny.sentences("source")[:3]
    hub = keras_hub.models.Seq2SeqLM.from_preset(str(tmp_path / "int8"))
    assert task.generate(texts) == hub.generate(texts)


@pytest.mark.one_backend
def test_float16_refuses_what_it_cannot_hold_and_a_storage_must_exist(tmp_path):
    task = small_translator()
    with pytest.raises(UserError, match="storage must be one of float32, float16, int8; received 'int4'"):
        task.save_to_preset(tmp_path / "preset", storage="int4")
    bias = next(v for v in task.backbone.weights if v.ndim == 1)
    bias.assign(np.full(bias.shape, 7e4, "float32"))
    for storage in ("float16", "int8"):
        with pytest.raises(UserError, match="reaches 70,000, out of range for float16"):
            task.save_to_preset(tmp_path / "preset", storage=storage)


@pytest.mark.one_backend
@pytest.mark.parametrize("harm", ["other shape", "one number", "one missing", "all missing"])
def test_scales_that_do_not_fit_are_refused(tmp_path, harm):
    small_translator().save_to_preset(tmp_path / "preset", storage="int8")
    (tmp_path / "preset" / "checksums.json").unlink()
    with h5py.File(tmp_path / "preset" / "model.weights.h5", "a") as file:
        names = []
        file[SCALES].visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
        del file[SCALES][names[0]]
        if harm == "all missing":
            del file[SCALES]
        elif harm != "one missing":
            file[SCALES][names[0]] = np.ones((3, 1) if harm == "other shape" else (1, 1), "float32")
    with pytest.raises(UserError, match=r"the scales of .* are missing or do not fit"):
        Translator.from_preset(str(tmp_path / "preset"))


def test_undrawn_weights_are_zero_and_their_initialisers_draw_afterwards():
    chosen = {"class_name": "RandomNormal", "config": {"stddev": 2.0}}
    given = keras.initializers.RandomNormal(seed=1)
    with without_drawing():
        layer = keras.layers.Bidirectional(keras.layers.GRU(5, kernel_initializer=chosen, bias_initializer="ones"))
        layer.build((None, 4, 3))
        other = keras.layers.Dense(2, kernel_initializer=given)
        other.build((None, 3))
    for weight in layer.weights:
        assert (keras.ops.convert_to_numpy(weight) == (1.0 if "bias" in weight.path else 0.0)).all(), weight.path
    assert keras.ops.convert_to_numpy(other.kernel).any()
    cell = layer.backward_layer.cell
    named = keras.initializers.serialize(keras.initializers.RandomNormal(stddev=2.0))
    assert keras.initializers.serialize(cell.kernel_initializer) == named
    again = keras.layers.GRU.from_config(cell.get_config())
    assert type(again.kernel_initializer) is keras.initializers.RandomNormal
    assert type(again.recurrent_initializer) is keras.initializers.Orthogonal
    square = keras.ops.convert_to_numpy(cell.recurrent_initializer((4, 4)))
    np.testing.assert_allclose(square @ square.T, np.eye(4), atol=1e-5)
    assert keras.ops.convert_to_numpy(keras.layers.Dense(2).kernel_initializer((3, 2))).any()


@pytest.mark.one_backend
@pytest.mark.parametrize(
    "initializer",
    [
        *("zeros", "ones", "zero", "normal", "identity", "IdentityInitializer", "orthogonal", "OrthogonalInitializer"),
        {"class_name": "Constant", "config": {"value": 2}},
    ],
    ids=str,
)
def test_a_model_of_more_numbers_than_its_file_is_refused_whatever_it_starts_with(initializer):
    with without_drawing(stored=9_999):
        layer = keras.layers.Dense(200, kernel_initializer=initializer)
        with pytest.raises(UserError, match="a model of more than 40,000 numbers, but its weights are only 9,999"):
            layer.build((None, 200))
    assert not layer.weights
    layer.build((None, 200))


@pytest.mark.one_backend
def test_a_preset_without_its_weights_draws_them(tmp_path):
    small_translator().save_to_preset(tmp_path / "preset")
    for load_weights in (True, False):
        task = Translator.from_preset(str(tmp_path / "preset"), load_weights=load_weights)
        assert all(keras.ops.convert_to_numpy(v.value).any() for v in task.weights if "kernel" in v.path)


def test_keras_is_left_as_it_is():
    before, initializers = keras.layers.Layer.add_weight, dict(vars(keras.initializers))
    with without_drawing(), without_drawing():
        assert keras.layers.Layer.add_weight is before
        assert dict(vars(keras.initializers)) == initializers
