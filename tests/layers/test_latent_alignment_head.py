"""The latent alignment's mixture against the naive sum in NumPy float64, gradients included."""

import functools
import json

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.bodies import TokenEmbedding
from keras_attn_zoo.layers import LatentAlignmentHead
from keras_attn_zoo.layers.base.marginalization import marginalize
from tests.layers.calls import compiled, eager_gradients, of_unknown_sizes, value_and_gradients
from tests.layers.cases import numbers, weights_of
from tests.weights import fill_weights

BATCH, TARGET, VOCABULARY = 2, 3, 43
TARGETS = np.array([[4, 0, 42], [7, 7, 30]], dtype="int32")
# Sums of some dozen float32 numbers, relative to the largest.
TOLERANCE = 2e-6


def inputs_of(source=5, scale=1.0, padded=True):
    """Inputs of a head; the first sentence is padded, and its last row has nothing to align with."""
    prior = np.random.default_rng(source).dirichlet(np.ones(source), size=(BATCH, TARGET))
    if padded and source > 2:
        prior[0, :, -2:] = 0
    prior /= prior.sum(-1, keepdims=True)
    if padded:
        prior[0, -1] = 0
    return {
        "prior": prior.astype("float32"),
        "embedded": scale * numbers("embedded", BATCH, TARGET, 3),
        "states": scale * numbers("states", BATCH, TARGET, 7),
        "encoded": scale * numbers("encoded", BATCH, source, 11),
    }


def head_of(inputs, **arguments):
    head = LatentAlignmentHead(VOCABULARY, width=5, name="head", **arguments)
    head.build(*(x.shape for x in inputs.values()))
    fill_weights(head)
    return head


def naive(weights, prior, embedded, states, encoded, top_k=None):
    """Log-probabilities of all tokens, per row, and p(v|j): one softmax for every pair, added up as probabilities."""
    log_probs = np.full((BATCH, TARGET, VOCABULARY), -np.inf)
    lexicon = np.zeros((BATCH, TARGET, prior.shape[2], VOCABULARY))
    for b, i in np.ndindex(BATCH, TARGET):
        for j in range(prior.shape[2]):
            x = embedded[b, i] @ weights["embedded_map/kernel"] + states[b, i] @ weights["state_map/kernel"]
            logits = weights["kernel"] @ (x + encoded[b, j] @ weights["encoder_map/kernel"])
            lexicon[b, i, j] = logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())
        chosen = np.argsort(-prior[b, i], kind="stable")[: top_k or prior.shape[2]]
        for j in chosen:
            if prior[b, i, j] > 0:
                log_probs[b, i] = np.logaddexp(log_probs[b, i], np.log(prior[b, i, j]) + lexicon[b, i, j])
    return log_probs, lexicon


def expected(weights, inputs, top_k=None):
    """What the call returns, of the naive sum."""
    log_probs, lexicon = naive(weights, *inputs.values(), top_k=top_k)
    rows = np.take_along_axis(log_probs, TARGETS[..., None], axis=-1)[..., 0]
    of_targets = np.take_along_axis(lexicon, TARGETS[:, :, None, None], axis=-1)[..., 0]
    summed = summed_of(inputs["prior"], top_k)
    mass = np.where(inputs["prior"].any(-1), summed.sum(-1), 1.0)
    return {
        "log_probs": np.where(np.isfinite(rows), rows, 0.0),
        "smoothing": np.log(mass) + np.sum(summed * lexicon.mean(-1), axis=-1) / mass,
        "posterior": summed * np.exp(of_targets - np.where(np.isfinite(rows), rows, 0)[..., None]),
    }


def summed_of(prior, top_k):
    """The prior, 0 where it is not among the `top_k` largest of its row."""
    order = np.argsort(np.argsort(-prior, axis=-1, kind="stable"), axis=-1, kind="stable")
    return np.where(order < (top_k or prior.shape[-1]), prior, 0)


def assert_close(found, wanted, what="", tolerance=TOLERANCE):
    largest = max(1.0, np.abs(wanted).max(initial=0))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance * largest, err_msg=what)


# From flat to peaked, to where the parts of the logits are a hundred apart, and a product of matrices would underflow.
SCALES = (1.0, 6.0, 80.0)


@pytest.mark.parametrize("source", [1, 5])
def test_call_equals_the_naive_sum(source):
    head = head_of(inputs_of(source))
    call = compiled(lambda inputs: (head(**inputs, targets=TARGETS), head(**inputs)))
    for scale in SCALES:
        inputs = inputs_of(source, scale)
        (found, distribution), wanted = call(inputs), expected(weights_of(head), inputs)
        for name, value in wanted.items():
            assert_close(found[name], value, f"{name} at {scale}")
        some, (wanted, _) = inputs["prior"].any(-1), naive(weights_of(head), *inputs.values())
        assert_close(distribution[some], wanted[some], f"distribution at {scale}")
        assert_close(found["posterior"].sum(-1), inputs["prior"].any(-1), "the posterior is a distribution")


COEFFICIENTS = {"log_probs": numbers("a", BATCH, TARGET), "smoothing": numbers("b", BATCH, TARGET)}


@functools.cache
def differences(scale, top_k=None, step=1e-5):
    """Central differences of a weighted sum of the naive results, by weight and by input."""
    inputs = {name: x.astype("float64") for name, x in inputs_of(scale=scale).items()}
    weights = weights_of(head_of(inputs))

    def loss():
        found = expected(weights, inputs, top_k)
        return sum(np.sum(COEFFICIENTS[name] * found[name]) for name in COEFFICIENTS)

    def differentiate(x):
        gradient = np.zeros_like(x)
        for index in np.ndindex(x.shape):
            at = x[index]
            # A prior of 0 says that a position is not there.
            if x is inputs["prior"] and at == 0:
                continue
            x[index] = at + step
            above = loss()
            x[index] = at - step
            gradient[index] = (above - loss()) / (2 * step)
            x[index] = at
        return gradient

    return (
        {name: differentiate(x) for name, x in weights.items()},
        {name: differentiate(x) for name, x in inputs.items()},
    )


def gradients(head, inputs):
    """Gradients of the weighted sum that `differences` differentiates, by weight and by input."""

    def loss(inputs):
        found = head(**inputs, targets=TARGETS)
        return sum(ops.sum(ops.multiply(found[name], COEFFICIENTS[name])) for name in COEFFICIENTS)

    return value_and_gradients(head, loss, inputs)[1:]


TOP_2 = {"marginalization": "top_k", "top_k": 2}


@pytest.mark.parametrize(
    ("scale", "arguments"),
    [
        pytest.param(1.0, {}, id="flat"),
        pytest.param(80.0, {}, id="beyond_float32"),
        pytest.param(1.0, TOP_2, id="selected"),
        pytest.param(1.0, {**TOP_2, "top_k_gradient": "straight_through"}, id="straight_through"),
    ],
)
def test_gradients_equal_those_of_the_naive_sum(scale, arguments):
    inputs = inputs_of(scale=scale)
    by_weight, by_input = gradients(head_of(inputs, **arguments), inputs)
    weights, others = differences(scale, arguments.get("top_k"))
    assert by_weight.keys() == weights.keys()
    for name, gradient in {**by_weight, **by_input}.items():
        wanted = {**weights, **others}[name]
        if name == "prior" and arguments.get("top_k_gradient") == "straight_through":
            wanted = np.where(inputs["prior"] > 0, straight_through(weights_of(head_of(inputs)), inputs, 2), 0)
        if name == "prior":
            gradient = np.where(inputs["prior"] > 0, gradient, 0)
        # Of the extreme case the differences themselves are not exact to more.
        assert_close(gradient, wanted, name, tolerance=TOLERANCE if scale == 1 else 2e-4)
        assert np.any(wanted)


def test_eager_gradients_equal_those_of_a_compiled_call():
    """Of NumPy arrays, as they come from a user's data: JAX differentiates them without making tensors of them."""
    head = LatentAlignmentHead(3, width=2, name="head")
    inputs = {name: x[:1, :1, :4] for name, x in inputs_of(source=4, padded=False).items()}
    inputs["encoded"] = numbers("few", 1, 4, 2)
    targets = np.array([[2]])
    head.build(*(x.shape for x in inputs.values()))
    fill_weights(head)

    def loss(inputs):
        return ops.sum(head(**inputs, targets=targets)["log_probs"])

    _, _, wanted = value_and_gradients(head, loss, inputs)
    found = eager_gradients(loss, inputs)
    for name, gradient in wanted.items():
        assert_close(found[name], gradient, name)
        assert np.any(gradient), name


@pytest.mark.parametrize("top_k", [1, 2, 4, 9])
def test_top_k_sums_over_the_most_likely_positions(top_k):
    inputs = inputs_of()
    head = head_of(inputs, marginalization="top_k", top_k=top_k)
    found = compiled(lambda inputs: (head(**inputs, targets=TARGETS), head(**inputs)))(inputs)
    wanted = expected(weights_of(head), inputs, top_k)
    for name, value in wanted.items():
        assert_close(found[0][name], value, name)
    distribution, _ = naive(weights_of(head), *inputs.values(), top_k=top_k)
    some = inputs["prior"].any(-1)
    assert_close(found[1][some], distribution[some], "distribution")


def straight_through(weights, inputs, top_k):
    """Derivatives of the full sums with respect to each p(j), at the values of the K best."""
    log_probs, lexicon = naive(weights, *inputs.values(), top_k=top_k)
    some = inputs["prior"].any(-1, keepdims=True)
    rows = np.where(some, np.take_along_axis(log_probs, TARGETS[..., None], axis=-1), 0)
    of_targets = np.take_along_axis(lexicon, TARGETS[:, :, None, None], axis=-1)[..., 0]
    summed, means = summed_of(inputs["prior"], top_k), lexicon.mean(-1)
    mass = np.where(some, summed.sum(-1, keepdims=True), 1)
    by_smoothing = (1 + means - (summed * means).sum(-1, keepdims=True) / mass) / mass
    by = {"log_probs": np.exp(of_targets - rows), "smoothing": by_smoothing}
    return sum(COEFFICIENTS[name][..., None] * one for name, one in by.items())


def test_what_is_left_out_gets_the_gradient_of_the_full_sum_or_none():
    """Otherwise both gradients are the same, and so is the sum."""
    inputs = inputs_of(padded=False)
    found = {}
    for gradient in ("straight_through", "selected"):
        by_weight, by_input = gradients(head_of(inputs, **TOP_2, top_k_gradient=gradient), inputs)
        found[gradient] = {**by_weight, **by_input}
    left_out = summed_of(inputs["prior"], 2) == 0
    straight, selected = (one.pop("prior") for one in found.values())
    assert np.all(straight[left_out] != 0) and np.all(selected[left_out] == 0)
    assert_close(straight[~left_out], selected[~left_out])
    for name, gradient in found["straight_through"].items():
        assert_close(gradient, found["selected"][name], name)


@pytest.mark.parametrize("top_k", [1, 2, None])
def test_smoothing_is_at_most_that_of_the_mixture(top_k):
    """The mean of log Σ_j p(j) p(v|j) over the vocabulary, to which it is equal where one position is summed."""
    inputs = inputs_of(scale=6.0)
    head = head_of(inputs, marginalization="exact" if top_k is None else "top_k", top_k=top_k or 1)
    found = compiled(lambda inputs: head(**inputs, targets=TARGETS)["smoothing"])(inputs)
    some = inputs["prior"].any(-1)
    mixture = naive(weights_of(head), *inputs.values(), top_k=top_k)[0][some].mean(-1)
    gap = mixture - found[some]
    assert np.all(gap > 0.01) if top_k != 1 else np.abs(gap).max() < TOLERANCE * np.abs(mixture).max()


def test_top_k_of_equals():
    """What is larger comes before what is first."""
    inputs = inputs_of(padded=False)
    inputs["prior"][:] = [0.2, 0.1, 0.2, 0.2, 0.3]
    head = head_of(inputs, marginalization="top_k", top_k=2)
    found = compiled(lambda inputs: head(**inputs, targets=TARGETS)["posterior"])(inputs)
    np.testing.assert_array_equal(found[0, 0] > 0, [True, False, False, False, True])


@pytest.mark.parametrize("top_k", [None, 0, 1, 3])
def test_a_step_of_one_row_or_of_beams_equals_the_naive_sum(top_k):
    """The target positions of a sentence stand for its beams; padded source positions hold anything."""
    head = head_of(inputs_of(), marginalization="top_k", top_k=2)
    step = compiled(lambda inputs: head.step(**inputs[0], memory=head.prepare(*inputs[1:]), top_k=top_k))
    for scale in SCALES:
        inputs = inputs_of(scale=scale)
        mask = inputs["prior"].any(1)
        encoded = np.where(mask[..., None], inputs["encoded"], 1e3)
        wanted, _ = naive(weights_of(head), *inputs.values(), top_k=2 if top_k is None else top_k or None)
        for rows in (1, TARGET):
            flat = {name: inputs[name][:, :rows].reshape(BATCH * rows, -1) for name in ("prior", "embedded", "states")}
            found = step((flat, encoded, mask))
            some = flat["prior"].any(-1)
            assert_close(found[some], wanted[:, :rows].reshape(BATCH * rows, -1)[some], f"at {scale}, {rows} rows")


def test_what_stands_at_padding_disturbs_nobody():
    inputs = inputs_of()
    head = head_of(inputs)
    spoilt = {**inputs, "encoded": inputs["encoded"].copy()}
    spoilt["encoded"][0, -2:] = np.nan
    mask = np.ones((BATCH, 5), "bool")
    mask[0, -2:] = False
    for with_targets in (True, False):
        call = compiled(lambda inputs, targets=TARGETS if with_targets else None: head(**inputs, targets=targets))
        for clean, found in zip(*(keras.tree.flatten(call(x)) for x in (inputs, spoilt)), strict=True):
            np.testing.assert_array_equal(found, clean)
    rows = [ops.convert_to_tensor(inputs[name][:, 0]) for name in ("prior", "embedded", "states")]
    steps = [head.step(*rows, head.prepare(ops.convert_to_tensor(x["encoded"]), mask)) for x in (inputs, spoilt)]
    np.testing.assert_array_equal(*(ops.convert_to_numpy(x) for x in steps))


@pytest.mark.parametrize("arguments", [{}, {"marginalization": "top_k", "top_k": 4}], ids=["exact", "top_k"])
def test_lengths_unknown_when_traced(arguments):
    head = head_of(inputs_of(), **arguments)
    run = of_unknown_sizes(lambda inputs: head(**inputs, targets=TARGETS), inputs_of(), no_width=("prior",))
    for source in (1, 3, 6):
        inputs = inputs_of(source)
        wanted = expected(weights_of(head), inputs, arguments.get("top_k"))
        assert_close(run(inputs)["log_probs"], wanted["log_probs"], f"{source} positions")


def test_mixed_precision_is_of_the_projections_alone():
    """Given the logits, in bfloat16, everything is as exact as in float32; the prior is not rounded."""
    inputs = inputs_of()
    head = head_of(inputs, dtype="mixed_bfloat16")
    tokens = np.broadcast_to(np.arange(VOCABULARY), (BATCH, TARGET, VOCABULARY))

    def run(inputs):
        left, right = head.lexicon(*(ops.cast(inputs[name], "bfloat16") for name in ("embedded", "states", "encoded")))
        memory, rows = head.prepare(inputs["encoded"]), {}
        for name in ("prior", "embedded", "states"):
            rows[name] = ops.reshape(inputs[name], (BATCH * TARGET, -1))
        stepped = ops.reshape(head.step(**rows, memory=memory), tokens.shape)
        return head(**inputs, targets=TARGETS), stepped, left, right

    found, stepped, left, right = compiled(run)(inputs)
    logits = left[:, :, None].astype("float64") + right[:, None]
    lexicon = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    wanted = np.log(np.maximum(np.einsum("bij,bijv->biv", inputs["prior"], np.exp(lexicon)), 1e-300))
    some = inputs["prior"].any(-1)
    assert_close(found["log_probs"][some], np.take_along_axis(wanted, TARGETS[..., None], -1)[..., 0][some])
    assert_close(found["logits"][some], wanted[some], "distribution")
    assert_close(stepped[some], wanted[some], "step")
    assert_close(found["posterior"].sum(-1), some, "the posterior is a distribution")


def test_gradients_in_mixed_precision():
    """Of the prior as exact as in float32; of the matrix but for the rounding of what is multiplied."""
    inputs = inputs_of()
    head = head_of(inputs, dtype="mixed_bfloat16")

    def run(inputs):
        embedded, states, encoded = (ops.cast(inputs[name], "bfloat16") for name in ("embedded", "states", "encoded"))
        projected = head.maps["embedded"](embedded) + head.maps["state"](states), head.maps["encoder"](encoded)
        return *(ops.cast(x, "float32") for x in projected), *head.lexicon(embedded, states, encoded)

    of_target, of_source, left, right = (x.astype("float64") for x in compiled(run)(inputs))
    _, by_weight, by_input = value_and_gradients(
        head, lambda x: ops.sum(head(**x, targets=TARGETS)["log_probs"]), inputs
    )
    logits = left[:, :, None] + right[:, None]
    probs = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    of_token = np.take_along_axis(probs, TARGETS[..., None, None], -1)[..., 0]
    total = (inputs["prior"] * of_token).sum(-1, keepdims=True)
    by_prior = np.divide(of_token, total, out=np.zeros_like(of_token), where=inputs["prior"] > 0)
    assert_close(by_input["prior"] * (inputs["prior"] > 0), by_prior)
    posterior = inputs["prior"] * by_prior
    by_logits = posterior[..., None] * (np.eye(VOCABULARY)[TARGETS][:, :, None] - probs)
    wanted = np.einsum("bijv,biw->vw", by_logits, of_target) + np.einsum("bijv,bjw->vw", by_logits, of_source)
    np.testing.assert_allclose(by_weight["kernel"], wanted, rtol=0, atol=2**-7 * np.abs(wanted).max())


@pytest.mark.parametrize("vanishing", [1e-30, 1e-36, 2e-38])
def test_a_position_that_the_alignment_all_but_excludes_may_still_explain_the_token(vanishing):
    """Its lexicon is e^200 times that of the other one: exact where a product of probabilities would overflow."""
    head = LatentAlignmentHead(2, width=1)
    inputs = {"prior": np.array([[[1 - vanishing, vanishing]]]), "lexicon": np.array([[[-200.0, -0.5]]])}
    inputs = {name: x.astype("float32") for name, x in inputs.items()}

    def run(x):
        return marginalize(*head._selected(x["prior"]), x["lexicon"])

    log_probs, posterior = compiled(run)(inputs)
    np.testing.assert_allclose(log_probs, [[np.log(vanishing) - 0.5]], rtol=1e-6)
    np.testing.assert_allclose(posterior, [[[0, 1]]], atol=1e-6)
    _, _, by_input = value_and_gradients(head, lambda x: ops.sum(run(x)[0]), inputs)
    np.testing.assert_allclose(by_input["lexicon"], [[[0, 1]]], atol=1e-6)
    np.testing.assert_allclose(by_input["prior"] * vanishing, [[[0, 1]]], atol=1e-5)


def test_a_weight_that_float32_cannot_hold_is_none():
    head = LatentAlignmentHead(2, width=1)
    inputs = {"prior": np.array([[[1, 1e-39]]], "float32"), "lexicon": np.array([[[-200.0, -0.5]]], "float32")}
    log_probs, posterior = compiled(lambda x: marginalize(*head._selected(x["prior"]), x["lexicon"]))(inputs)
    np.testing.assert_allclose(log_probs, [[-200.0]])
    np.testing.assert_array_equal(posterior, [[[1, 0]]])


def test_a_shared_matrix():
    embedding = TokenEmbedding(VOCABULARY, 5, name="embedding")
    inputs = inputs_of()
    head = head_of(inputs, embedding=embedding)
    own = head_of(inputs)
    own.kernel.assign(embedding.embeddings)
    found, wanted = (
        compiled(lambda inputs, one=one: one(**inputs, targets=TARGETS))(inputs)["log_probs"] for one in (head, own)
    )
    assert_close(found, wanted)


@pytest.mark.one_backend
def test_config_round_trip():
    head = LatentAlignmentHead(
        9, 4, marginalization="top_k", top_k=3, top_k_gradient="selected", dtype="mixed_bfloat16"
    )
    config = json.loads(json.dumps(head.get_config()))
    assert LatentAlignmentHead.from_config(config).get_config() == head.get_config()
    assert keras.saving.get_registered_name(LatentAlignmentHead) == "keras_attn_zoo>LatentAlignmentHead"


@pytest.mark.one_backend
def test_a_shared_matrix_is_saved_and_loaded(tmp_path):
    inputs = inputs_of()
    embedding = TokenEmbedding(VOCABULARY, 5, name="embedding")
    given = {name: keras.Input(x.shape[1:], name=name) for name, x in inputs.items()}
    ids = keras.Input((TARGET,), dtype="int32", name="ids")
    head = LatentAlignmentHead(VOCABULARY, width=5, embedding=embedding, name="head")
    logits = head(given["prior"], embedding(ids), given["states"], given["encoded"])
    model = keras.Model({**given, "ids": ids}, logits)
    fill_weights(model)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.get_layer("head").embedding is loaded.get_layer("embedding")
    x = {**inputs, "ids": TARGETS}
    np.testing.assert_array_equal(loaded.predict_on_batch(x), model.predict_on_batch(x))
    again = LatentAlignmentHead.from_config(json.loads(json.dumps(head.get_config())))
    assert again(**inputs).shape == (BATCH, TARGET, VOCABULARY)


def test_the_straight_through_gradient_is_cut_off_where_float32_ends():
    """The position that is left out explains the token e^199.5 times better than the one that is counted."""
    head = LatentAlignmentHead(2, width=1, marginalization="top_k", top_k=1, top_k_gradient="straight_through")
    inputs = {"prior": np.array([[[0.9, 0.1]]]), "lexicon": np.array([[[-200.0, -0.5]]])}
    inputs = {name: x.astype("float32") for name, x in inputs.items()}
    value, _, by_input = value_and_gradients(
        head, lambda x: ops.sum(marginalize(*head._selected(x["prior"]), x["lexicon"])[0]), inputs
    )
    np.testing.assert_allclose(value, np.log(0.9) - 200, rtol=1e-6)
    np.testing.assert_allclose(by_input["prior"], [[[1 / 0.9, np.exp(46)]]], rtol=1e-4)
