"""Adam and its update, against its equations in NumPy."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.kernels import rows, torch_forms
from keras_attn_zoo.training.adam import Adam

SHAPES = [(3, 4), (5,), ()]
STEPS = 6


def literal_adam(weights, gradients, rates, clip=None, beta_1=0.9, beta_2=0.999, epsilon=1e-7):
    """Kingma and Ba, section 2, in the efficient order of its last sentence; gradients `[step][weight]`."""
    weights = [w.astype("float64") for w in weights]
    m, v = ([np.zeros(w.shape) for w in weights] for _ in range(2))
    for t, (step, rate) in enumerate(zip(gradients, rates, strict=True), 1):
        norm = np.sqrt(sum((g.astype("float64") ** 2).sum() for g in step))
        share = min(1.0, clip / norm) if clip else 1.0
        for i, g in enumerate(step):
            g = g.astype("float64") * share
            m[i] = beta_1 * m[i] + (1 - beta_1) * g
            v[i] = beta_2 * v[i] + (1 - beta_2) * g**2
            size = rate * np.sqrt(1 - beta_2**t) / (1 - beta_1**t)
            weights[i] = weights[i] - size * m[i] / (np.sqrt(v[i]) + epsilon)
    return weights


def run(optimizer, weights, gradients):
    variables = [keras.Variable(w, name=f"weight_{i}") for i, w in enumerate(weights)]
    optimizer.build(variables)
    for step in gradients:
        optimizer.apply([ops.convert_to_tensor(g) for g in step], variables)
    return [ops.convert_to_numpy(v.value) for v in variables], optimizer


@pytest.mark.parametrize(
    ("options", "scale"),
    # The second has gradients in which ε counts as much as √v.
    [
        ({}, 1.0),
        ({"epsilon": 1e-3, "beta_1": 0.8, "beta_2": 0.95}, 1e-3),
        ({"global_clipnorm": 0.5}, 1.0),
        ({"use_ema": True, "ema_momentum": 0.7}, 1.0),
    ],
    ids=["plain", "small_gradients", "clipped", "averaged"],
)
def test_updates_are_those_of_the_paper(options, scale):
    rng = np.random.default_rng(3)
    weights = [rng.standard_normal(shape).astype("float32") for shape in SHAPES]
    gradients = [[scale * rng.standard_normal(shape).astype("float32") for shape in SHAPES] for _ in range(STEPS)]
    schedule = keras.optimizers.schedules.PolynomialDecay(0.1, STEPS, 0.02)
    rates = [0.1 - 0.08 * t / STEPS for t in range(STEPS)]
    clip = options.get("global_clipnorm")
    literal = {name: value for name, value in options.items() if name in ("epsilon", "beta_1", "beta_2")}
    found, optimizer = run(Adam(schedule, **options), weights, gradients)
    for ours, expected in zip(found, literal_adam(weights, gradients, rates, clip, **literal), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=2e-5, atol=2e-6)
    # The state is Keras' own: a run may go on with either.
    theirs, keras_adam = run(keras.optimizers.Adam(schedule, **options), weights, gradients)
    paths = [variable.path.split("/", 1)[-1] for variable in keras_adam.variables]
    assert [variable.path.split("/", 1)[-1] for variable in optimizer.variables] == paths
    for ours, other in zip(optimizer.variables, keras_adam.variables, strict=True):
        np.testing.assert_allclose(
            ops.convert_to_numpy(ours.value), ops.convert_to_numpy(other.value), rtol=2e-5, atol=1e-7
        )
    for ours, other in zip(found, theirs, strict=True):
        np.testing.assert_allclose(ours, other, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("amsgrad", [False, True])
@pytest.mark.parametrize("norm", ["small", "large", "infinite", "unknown", "negative limit"])
@pytest.mark.parametrize("heeded", [True, False])
def test_a_known_norm_clips_as_keras_does(norm, amsgrad, heeded, monkeypatch):
    """Also where PyTorch's update does not heed the factor, as on Apple's GPUs."""
    if not heeded:
        monkeypatch.setattr(torch_forms, "_heeds_scale", lambda _: False)
    rng = np.random.default_rng(4)
    weights = [rng.standard_normal(shape).astype("float32") for shape in SHAPES]
    gradients = [rng.standard_normal(shape).astype("float32") for shape in SHAPES]
    size = float(np.sqrt(sum((g**2).sum() for g in gradients)))
    if norm in ("infinite", "unknown"):
        gradients[0].flat[0] = size = np.inf if norm == "infinite" else np.nan
    limit = {"large": 0.1, "negative limit": -1.0}.get(norm, 1e3)
    theirs, _ = run(keras.optimizers.Adam(0.1, global_clipnorm=limit, amsgrad=amsgrad), weights, [gradients] * 2)
    optimizer, variables = Adam(0.1, global_clipnorm=limit, amsgrad=amsgrad), [keras.Variable(w) for w in weights]
    optimizer.build(variables)
    for _ in range(2):
        optimizer.apply([ops.convert_to_tensor(g) for g in gradients], variables, ops.convert_to_tensor(size))
    for ours, other in zip(variables, theirs, strict=True):
        np.testing.assert_allclose(ops.convert_to_numpy(ours.value), other, rtol=2e-5, atol=2e-6)
    assert np.isfinite(theirs[0]).all() == (norm not in ("infinite", "unknown"))


def test_the_configuration_is_that_of_keras():
    again = keras.optimizers.deserialize(keras.optimizers.serialize(Adam(0.3, global_clipnorm=2.0)))
    assert type(again) is Adam and again.global_clipnorm == 2.0


@pytest.mark.parametrize("options", [{}, {"weight_decay": 0.1}], ids=["plain", "of Keras"])
def test_weights_may_come_one_by_one_to_an_optimizer_that_is_not_built(options):
    found = []
    for kind in (Adam, keras.optimizers.Adam):
        variables, optimizer = [keras.Variable(np.ones(3, "float32")) for _ in range(2)], kind(0.1, **options)
        for _ in range(2):
            gradients = [ops.convert_to_tensor(np.full(3, 0.5, "float32")) for _ in variables]
            optimizer.apply(gradients, iter(variables) if kind is Adam else variables)
        found.append([ops.convert_to_numpy(v.value) for v in variables])
    np.testing.assert_allclose(*found, rtol=2e-5)
    assert (found[0][0] < 0.9).all()


def test_what_float32_cannot_hold_is_clipped_as_by_keras():
    found = []
    for kind in (Adam, keras.optimizers.Adam):
        variable = keras.Variable(np.ones(3), dtype="float64" if keras.config.backend() != "jax" else "float32")
        large = 1e30 if keras.config.backend() != "jax" else 1e10
        gradient = ops.convert_to_tensor(np.full(3, large), dtype=variable.dtype)
        optimizer = kind(0.1, global_clipnorm=1.0)
        optimizer.apply([gradient], [variable])
        found.append(ops.convert_to_numpy(variable.value))
    np.testing.assert_allclose(*found, rtol=1e-6)
    assert np.isfinite(found[0]).all()


class Halved(Adam):
    def update_step(self, gradient, variable, learning_rate):
        super().update_step(gradient, variable, learning_rate / 2)


def test_a_subclass_may_change_the_update():
    variable = keras.Variable(np.ones(3, "float32"))
    Halved(0.1).apply([ops.ones(3)], [variable])
    np.testing.assert_allclose(ops.convert_to_numpy(variable.value), 0.95, rtol=1e-4)


@pytest.mark.skipif(keras.config.backend() != "tensorflow", reason="sparse gradients are TensorFlow's")
def test_the_gradient_of_rows_is_dense():
    import tensorflow as tf

    table = tf.Variable(np.ones((4, 2), "float32"))
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(rows(tf.convert_to_tensor(table), ops.convert_to_tensor([1, 1, 3])))
    found = tape.gradient(total, table)
    assert isinstance(found, tf.Tensor)
    np.testing.assert_array_equal(found, [[0, 0], [2, 2], [0, 0], [1, 1]])
