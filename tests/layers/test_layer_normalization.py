"""Layer normalisation against Keras' own: in which type, with which options, and that both forms are used."""

import keras
import numpy as np
import pytest

from keras_attn_zoo.layers.base import layer_normalization
from keras_attn_zoo.layers.base.layer_normalization import LayerNormalization
from tests.layers.calls import BACKEND

X = 1000 + 3 * np.random.default_rng(0).standard_normal((4, 6))


@pytest.mark.parametrize("given", ["float32", "bfloat16", "float64", "int32"])
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "mixed_float16", "float64"])
def test_types_are_those_of_keras(policy, given):
    if BACKEND == "jax" and "float64" in (policy, given):
        pytest.skip("JAX has no float64 unless it is told so")
    ours, theirs = (kind(dtype=policy) for kind in (LayerNormalization, keras.layers.LayerNormalization))
    x = keras.ops.cast(X, given)
    found, wanted = ours(x, training=True), theirs(x)
    assert found.dtype == wanted.dtype
    # Keras rounds its result to the type of the inputs first.
    exact = {"bfloat16": 0.02, "float64": 1e-9}.get(given, 2e-4) if policy in ("float32", "float64") else 0.02
    exact = max(exact, 2e-4) if policy == "float32" else exact
    np.testing.assert_allclose(
        *(keras.ops.convert_to_numpy(keras.ops.cast(y, "float64")) for y in (found, wanted)), atol=exact
    )


@pytest.mark.parametrize(
    "options", [{"scale": False}, {"center": False}, {"axis": 1}, {"axis": (1, 2)}, {"rms_scaling": True}], ids=str
)
@pytest.mark.filterwarnings("ignore:You passed `rms_scaling")
def test_options_are_those_of_keras(options):
    if BACKEND == "torch" and options == {"axis": 1}:
        pytest.skip("Keras' own layer fails there")
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype("float32")
    found = LayerNormalization(**options)(x, training=True)
    wanted = keras.layers.LayerNormalization(**options)(x)
    np.testing.assert_allclose(*map(keras.ops.convert_to_numpy, (found, wanted)), atol=1e-5)


@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_where_the_shorter_gradient_is_used(kind, monkeypatch):
    used = []
    plain = layer_normalization.layer_normalized
    monkeypatch.setattr(layer_normalization, "layer_normalized", lambda *args: used.append(kind) or plain(*args))
    layer = LayerNormalization(dtype=f"mixed_{kind}" if kind == "bfloat16" else kind)
    x = keras.ops.cast(X, kind)
    layer(x)
    layer(x, training=False)
    assert used == []
    layer(x, training=True)
    assert bool(used) == (kind in {"tensorflow": ("float32", "bfloat16"), "jax": ("bfloat16",), "torch": ()}[BACKEND])
    copy = keras.layers.deserialize(keras.layers.serialize(layer))
    assert isinstance(copy, LayerNormalization) and copy.epsilon == layer.epsilon
