"""Normalisers: sparse ones against bisection in float64, their optimality, values by hand and finite differences."""

import dataclasses

import keras
import numpy as np
import pytest
from keras import ops

import keras_attn_zoo.layers
from keras_attn_zoo import kernels
from keras_attn_zoo.kernels.forms import plain
from keras_attn_zoo.layers.base.normalizers import FREE_NORMALIZERS, NORMALIZERS, entmax15, sparsemax
from tests.layers.calls import compiled, eager_gradients, of_unknown_sizes, to_numpy
from tests.layers.cases import CASES, weights_of
from tests.layers.equations import NORMALIZERS as BY_BISECTION

SPARSE = pytest.mark.parametrize("name", ["sparsemax", "entmax15"])
SEARCHED = {"sparsemax": kernels.sparsemax, "entmax15": kernels.entmax15}
PLAIN = {name: plain(function) for name, function in SEARCHED.items()}
TOLERANCE = 1e-6


def energies_of_all_kinds():
    """Rows near and far, of equal numbers, of one that stands out, of large numbers; and a mask with an empty row."""
    rng = np.random.default_rng(2)
    rows = [rng.normal(size=13) * scale for scale in (0.01, 0.3, 1.0, 3.0, 30.0)]
    # Each of these is left out by what is left after the one before.
    rows += [0.5 ** np.arange(13), 2 * 0.7 ** np.arange(13)]
    rows += [np.zeros(13), np.full(13, 7.0), np.eye(13)[4] * 50, 1e4 + rng.normal(size=13), np.repeat([0, 0.5], 7)[:13]]
    mask = rng.random((len(rows), 13)) < 0.7
    mask[3], mask[4], mask[8] = True, False, np.arange(13) == 9
    return np.array(rows, dtype="float32"), mask


@SPARSE
def test_against_bisection(name):
    energies, mask = energies_of_all_kinds()
    everything = np.ones_like(mask)
    found, masked = compiled(lambda e, m: (NORMALIZERS[name](e), NORMALIZERS[name](e, m)))(energies, mask)
    for weights, which in ((found, everything), (masked, mask)):
        wanted = np.stack([BY_BISECTION[name](e, m) for e, m in zip(energies.astype("float64"), which, strict=True)])
        np.testing.assert_allclose(weights, wanted, atol=TOLERANCE)
        np.testing.assert_allclose(weights.sum(-1), which.any(-1), atol=TOLERANCE)
        assert np.all(weights >= 0) and not weights[~which].any()
    assert (found[2:5] == 0).any(axis=-1).all(), "sparse"


@SPARSE
def test_sorting_and_searching_the_threshold_agree(name):
    """Of few numbers and of many, where a backend may take one way or the other."""
    energies, _ = energies_of_all_kinds()
    for times in (1, 500):
        many = np.tile(energies, (times, 1))
        found, sorted_, searched = compiled(lambda e: (NORMALIZERS[name](e), PLAIN[name](e), SEARCHED[name](e)))(many)
        for weights in (found, sorted_, searched):
            np.testing.assert_allclose(weights, np.tile(sorted_[: len(energies)], (times, 1)), atol=TOLERANCE)


@SPARSE
def test_optimality(name):
    """Karush, Kuhn and Tucker of max_p pᵀe + H(p): one multiplier inside the support, none that is larger outside."""
    energies, _ = energies_of_all_kinds()
    weights = ops.convert_to_numpy(NORMALIZERS[name](energies[:8])).astype("float64")
    for e, p in zip(energies[:8].astype("float64"), weights, strict=True):
        multiplier = e - (p if name == "sparsemax" else 2 * np.sqrt(p))
        inside = multiplier[p > 0]
        np.testing.assert_allclose(inside, inside.mean(), atol=2e-3 if name == "entmax15" else 1e-5)
        assert np.all(multiplier[p == 0] <= inside.mean() + 1e-5)


def test_by_hand():
    found = ops.convert_to_numpy(sparsemax([[0.0, 0.5, 3.0], [1.0, 1.0, 0.0], [0.4, 0.0, 0.1]]))
    np.testing.assert_allclose(found, [[0, 0, 1], [0.5, 0.5, 0], [17 / 30, 5 / 30, 8 / 30]], atol=TOLERANCE)
    # (1/2 - τ)² + τ² = 1 at τ = (1 - √7)/4.
    found = ops.convert_to_numpy(entmax15([[1.0, 0.0], [0.0, -5.0], [0.0, 0.0]]))
    a = (1 + np.sqrt(7)) / 4
    np.testing.assert_allclose(found, [[a**2, (a - 0.5) ** 2], [1, 0], [0.5, 0.5]], atol=TOLERANCE)


@SPARSE
def test_gradients(name):
    """Against central differences of bisection, and against what the plain form is differentiated to."""
    rng = np.random.default_rng(4)
    energies = (rng.normal(size=(6, 7)) * np.array([0.1, 0.5, 1, 1, 2, 4])[:, None]).astype("float32")
    mask = rng.random((6, 7)) < 0.8
    mask[2], mask[3] = True, False
    coefficients = rng.normal(size=(6, 7)).astype("float32")

    def loss(function):
        return lambda inputs: ops.sum(function(inputs["energies"]) * ops.convert_to_tensor(coefficients))

    inputs = {"energies": energies}
    found = eager_gradients(loss(lambda e: NORMALIZERS[name](e, mask)), inputs)["energies"]
    wanted = np.zeros((6, 7))
    for i, j in np.ndindex(6, 7):
        above, below = energies[i].astype("float64"), energies[i].astype("float64")
        above[j], below[j] = above[j] + 1e-6, below[j] - 1e-6
        change = BY_BISECTION[name](above, mask[i]) - BY_BISECTION[name](below, mask[i])
        wanted[i, j] = np.sum(coefficients[i] * change) / 2e-6
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert np.abs(wanted).max() > 0.1
    by_hand = eager_gradients(loss(NORMALIZERS[name]), inputs)["energies"]
    sorted_ = eager_gradients(loss(PLAIN[name]), inputs)["energies"]
    np.testing.assert_allclose(by_hand, sorted_, atol=1e-5)


@SPARSE
def test_bfloat16_and_unknown_sizes(name):
    """Float32 inside whatever comes, and one trace for all lengths, one position among them."""
    call = of_unknown_sizes(lambda x: NORMALIZERS[name](ops.cast(x["e"], "bfloat16"), x["mask"]), {
        "e": np.zeros((2, 3), "float32"), "mask": np.ones((2, 3), bool)
    }, no_width=("e", "mask"))  # fmt: skip
    for length in (1, 5):
        e = (np.arange(2 * length).reshape(2, length) % 3 / 4).astype("float32")
        mask = np.arange(length) < [[length], [length - 1]]
        weights = NORMALIZERS[name](ops.cast(e, "bfloat16"), mask)
        assert keras.backend.standardize_dtype(weights.dtype) == "float32"
        wanted = [BY_BISECTION[name](*row) for row in zip(e.astype("float64"), mask, strict=True)]
        np.testing.assert_allclose(call({"e": e, "mask": mask}), wanted, atol=TOLERANCE)


@pytest.mark.one_backend
@pytest.mark.parametrize("case", [case for case in CASES if case.normalizer == "softmax"], ids=str)
def test_every_mechanism_takes_it_or_says_why_not(case):
    """The call and the steps equal the reference whose weights are found by bisection."""
    name = ("entmax15", "sparsemax", "softmax1", "sigmoid")[len(case.name) % 4]
    layer, sparse = case.layer(), dataclasses.replace(case, normalizer=name)
    if layer.softmax_alone:
        with pytest.raises(ValueError, match=f"{type(layer).__name__} supports only the softmax as `normalizer`"):
            sparse.layer()
        return
    layer, inputs = sparse.layer(), case.inputs()
    assert layer.get_config()["normalizer"] == name
    wanted = sparse.expected(weights_of(layer), inputs, **case.causal)
    context, scores = to_numpy(layer(**inputs, **case.causal, return_attention_scores=True))
    np.testing.assert_allclose(context, wanted[0], atol=3e-6)
    np.testing.assert_allclose(scores, wanted[1], atol=TOLERANCE)
    softmax = dataclasses.replace(case, normalizer="softmax").expected(weights_of(layer), inputs, **case.causal)
    assert np.abs(wanted[1] - softmax[1]).max() > 0.01
    memory = layer.prepare(inputs["value"]) if case.cross else layer.prepare(max_length=case.target)
    state = layer.initial_state(memory, batch_size=2)
    for i in range(case.target):
        context, scores, state = layer.step(inputs["query"][:, i], memory, state, position=i)
        np.testing.assert_allclose(to_numpy(context), wanted[0][:, i], atol=3e-6)
        np.testing.assert_allclose(to_numpy(scores), wanted[1][:, :, i], atol=TOLERANCE)


@pytest.mark.parametrize("name", FREE_NORMALIZERS)
def test_weights_that_do_not_sum_to_one(name):
    """Against the equation in float64, of large energies too; masks may have one source position for all."""
    energies, mask = energies_of_all_kinds()
    masks = {"rows": mask, "of_all": np.arange(len(energies))[:, None] != 3, "none": np.ones((1, 1), bool)}
    found = compiled(lambda e, ms: {which: NORMALIZERS[name](e, m) for which, m in ms.items()})(energies, masks)
    found["none"] = to_numpy(NORMALIZERS[name](energies))
    for which, mask in masks.items():
        rows = zip(energies.astype("float64"), np.broadcast_to(mask, energies.shape), strict=True)
        with np.errstate(over="ignore"):
            wanted = np.stack([OF_ROW[name](*row) for row in rows])
        np.testing.assert_allclose(found[which], wanted, atol=TOLERANCE, err_msg=which)
    assert tuple(NORMALIZERS[name](ops.zeros((2, 0, 5))).shape) == (2, 0, 5)


def of_sink(e, mask):
    """The softmax beside 0, shifted so that nothing overflows."""
    shares = np.where(mask, np.exp(e - max(e.max(), 0)), 0)
    return shares / (np.exp(-max(e.max(), 0)) + shares.sum())


OF_ROW = {"softmax1": of_sink, "sigmoid": BY_BISECTION["sigmoid"]}


def test_an_unknown_normalizer():
    with pytest.raises(ValueError, match="`normalizer` must be one of softmax, sparsemax, entmax15, softmax1, sigmoid"):
        keras_attn_zoo.layers.BahdanauAttention(units=3, normalizer="hardmax")


@SPARSE
@pytest.mark.parametrize("shape", [(0, 4, 5), (2, 0, 5)])
def test_no_rows_are_no_weights(name, shape):
    assert tuple(NORMALIZERS[name](ops.zeros(shape)).shape) == shape
    assert tuple(SEARCHED[name](ops.zeros(shape)).shape) == shape
    layer = keras_attn_zoo.layers.LuongAttention(normalizer=name)
    contexts = layer(ops.zeros((0, 4, 6)), ops.zeros((0, 3, 6)))
    assert tuple(contexts.shape) == (0, 4, 6)
