"""Gradients of weights as one product after a loop, against the sum over positions that JAX makes by itself."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.kernels import is_repeating, linear, scan, weighted_sum
from keras_attn_zoo.layers.base.dense import Dense
from tests.layers.calls import BACKEND, value_and_gradients

pytestmark = pytest.mark.skipif(BACKEND != "jax", reason="of JAX alone")

LENGTH, WIDTH, SOURCE = 5, 4, 3
TOLERANCE = {"rtol": 0, "atol": 2e-5}


def numbers(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def inputs_of(rows):
    return {
        "x": numbers(0, LENGTH, rows, WIDTH),
        "first": numbers(1, rows, WIDTH),
        "own": 0.5 * numbers(2, WIDTH, WIDTH),
        "read": 0.5 * numbers(3, WIDTH, WIDTH),
        "bias": numbers(4, WIDTH),
        "value": numbers(5, rows, SOURCE, WIDTH),
        "unused": numbers(6, WIDTH, WIDTH),
    }


def loss(given, weights, reverse=False, checkpoint=False, keep=None):
    """A loop that multiplies twice by one weight and once by another, and weighs a value for each row."""

    def of_state(h):
        return linear(h, given["own"], given["bias"])

    def step(state, at):
        h, count = state
        # Two rows for each value.
        shares = ops.stack([ops.softmax(h[:, :SOURCE]), ops.tanh(h[:, :SOURCE])], axis=1)
        context = weighted_sum(shares, given["value"])
        h = ops.where(at["keep"], h, ops.tanh(at["x"] + (keras.remat(of_state) if checkpoint else of_state)(h)))
        output = linear(h, given["read"]) * linear(context[:, 0], given["own"]) + context[:, 1]
        return (h, count + 1), output

    keep = ops.convert_to_tensor(np.arange(LENGTH) == 1) if keep is None else keep
    steps = {"x": given["x"], "keep": keep}
    state = given["first"], ops.zeros((), "int32")
    weights = [given[name] for name in weights]
    (last, _), outputs = scan(step, state, steps, reverse=reverse, weights=weights)
    return ops.sum(ops.square(outputs)) + ops.sum(last)


ALL = ("own", "read", "value", "unused")


def gradients(function, inputs):
    return value_and_gradients(keras.layers.Identity(), function, inputs)[::2]


@pytest.mark.parametrize("rows", [1, 3, 64, 65])
@pytest.mark.parametrize("options", [{}, {"reverse": True}, {"checkpoint": True}], ids=["plain", "reverse", "remat"])
def test_gradients_are_those_of_the_plain_loop(rows, options):
    inputs = inputs_of(rows)
    wanted_loss, wanted = gradients(lambda given: loss(given, (), **options), inputs)
    found_loss, found = gradients(lambda given: loss(given, ALL, **options), inputs)
    np.testing.assert_allclose(found_loss, wanted_loss, rtol=1e-5)
    assert not wanted.pop("unused").any() and not found.pop("unused").any()
    for name, gradient in wanted.items():
        assert np.abs(gradient).max() > 0.1, name
        np.testing.assert_allclose(found[name] / rows, gradient / rows, **TOLERANCE, err_msg=name)


@pytest.mark.parametrize("stage", ["grad of jit", "jit of grad of checkpoint", "grad"])
def test_gradients_are_the_same_however_jax_stages_them(stage):
    import jax

    inputs = {name: ops.convert_to_tensor(x) for name, x in inputs_of(3).items()}
    # From outside of what is differentiated, as a mask may be.
    inputs["keep"] = ops.convert_to_tensor(np.arange(LENGTH) == 1)

    def of(weights):
        def run(given):
            own = {**inputs, **given}
            return loss(own, weights, keep=own["keep"])

        return run

    staged = {
        "grad of jit": lambda run: jax.grad(jax.jit(run)),
        "jit of grad of checkpoint": lambda run: jax.jit(jax.grad(jax.checkpoint(run))),
        "grad": jax.grad,
    }[stage](of(ALL))
    given = {name: x for name, x in inputs.items() if name != "keep"}
    wanted = jax.jit(jax.grad(of(())))(given)
    for name, gradient in staged(given).items():
        np.testing.assert_allclose(gradient, wanted[name], **TOLERANCE, err_msg=name)


@pytest.mark.parametrize("outer", ["own", "x"])
@pytest.mark.parametrize("inner", ["own", "x"])
def test_a_second_derivative_is_refused(inner, outer):
    import jax

    inputs = {name: ops.convert_to_tensor(x) for name, x in inputs_of(3).items()}

    def norm(x):
        first = jax.grad(lambda y: loss({**inputs, outer: x, inner: y}, ALL))(x if inner == outer else inputs[inner])
        return ops.sum(ops.square(first))

    with pytest.raises(NotImplementedError, match="call it with `training=False`"):
        jax.make_jaxpr(jax.grad(norm))(inputs[outer])


def carries(jaxpr):
    """The shapes of all arrays that loops carry from position to position."""
    found = []
    for equation in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        if equation.primitive.name == "scan":
            first = equation.params["num_consts"]
            found += [v.aval.shape for v in equation.invars[first : first + equation.params["num_carry"]]]
        for inner in equation.params.values():
            if hasattr(getattr(inner, "jaxpr", inner), "eqns"):
                found += carries(inner)
    return found


def test_weights_alone_are_summed_after_the_loop():
    """The loop that goes back carries no array of the size of a weight, unless the weight is left out."""
    import jax

    inputs = {name: ops.convert_to_tensor(x) for name, x in inputs_of(3).items()}

    def carried(weights):
        return carries(jax.make_jaxpr(jax.grad(lambda given: loss(given, weights)))(inputs)).count((WIDTH, WIDTH))

    assert [carried(()), carried(("own",)), carried(ALL)] == [2, 1, 0]


def test_bfloat16_factors_have_exact_sums():
    """Sums of -1, 0 and 1 over all positions, to 385, which bfloat16 would round to 384."""
    length, rows = 77, 5
    rng = np.random.default_rng(0)
    inputs = {"x": np.ones((length, rows, 2)), "kernel": rng.integers(-1, 2, (2, 3))}
    inputs = {name: x.astype("float32") for name, x in inputs.items()}

    def of(given, weights):
        x = ops.cast(given["x"], "bfloat16")
        step = lambda state, at: (state, linear(at, given["kernel"], compute_dtype="bfloat16"))  # noqa: E731
        _, outputs = scan(step, ops.zeros(()), x, weights=weights)
        return ops.sum(ops.cast(outputs, "float32"))

    value, found = gradients(lambda given: of(given, [given["kernel"]]), inputs)
    np.testing.assert_array_equal(value, length * rows * inputs["kernel"].sum())
    np.testing.assert_array_equal(found["kernel"], np.full((2, 3), length * rows))
    np.testing.assert_array_equal(found["x"], np.broadcast_to(inputs["kernel"].sum(1), inputs["x"].shape))


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_the_kernel_of_a_layer_is_summed_after_the_loop(policy):
    import jax

    layer = Dense(3, dtype=policy)
    layer.build((None, WIDTH))

    def of(kernel, x, summed_after):
        with keras.StatelessScope(state_mapping=[(layer.kernel, kernel)]):
            weights = [kernel] if summed_after else []
            _, outputs = scan(lambda state, at: (state, layer(at)), ops.zeros(()), x, weights=weights)
        return ops.sum(ops.cast(outputs, "float32"))

    x = np.random.default_rng(0).integers(-1, 2, (LENGTH, 2, WIDTH)).astype("float32")
    given = layer.kernel.value, ops.convert_to_tensor(x)
    wanted = np.repeat(x.sum((0, 1))[:, None], 3, 1)
    for summed_after, carried in ((False, 1), (True, 0)):
        gradient = jax.grad(lambda *given, after=summed_after: of(*given, after))
        np.testing.assert_array_equal(gradient(*given), wanted)
        assert carries(jax.make_jaxpr(gradient)(*given)).count((WIDTH, 3)) == carried
    assert not is_repeating()
