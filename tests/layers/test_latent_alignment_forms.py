"""A latent alignment by the maximum and by one sampled position, against NumPy float64 and the exact expectation."""

import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.layers import LatentAlignmentHead
from tests.layers.calls import compiled, value_and_gradients
from tests.layers.cases import weights_of
from tests.layers.test_latent_alignment_head import (
    BATCH,
    SCALES,
    TARGET,
    TARGETS,
    VOCABULARY,
    assert_close,
    expected,
    head_of,
    inputs_of,
    naive,
)
from tests.weights import fill_weights


def joint_of(weights, inputs):
    """log p(j) p(v|j) of all tokens, -∞ where p(j) is 0, `(batch, target, source, vocabulary)`."""
    with np.errstate(divide="ignore"):
        return np.log(inputs["prior"])[..., None] + naive(weights, *inputs.values())[1]


# The maximum.


def test_the_maximum_equals_numpy_and_its_step():
    head = head_of(inputs_of(), marginalization="max")

    def run(inputs):
        rows = {name: ops.reshape(inputs[name], (BATCH * TARGET, -1)) for name in ("prior", "embedded", "states")}
        memory = head.prepare(inputs["encoded"])
        summed = head.step(**rows, memory=memory, top_k=0)
        return head(**inputs, targets=TARGETS), head(**inputs), head.step(**rows, memory=memory), summed

    call = compiled(run)
    for scale in SCALES:
        inputs = inputs_of(scale=scale)
        found, distribution, stepped, summed = call(inputs)
        joint, some = joint_of(weights_of(head), inputs), inputs["prior"].any(-1)
        best = joint.max(2)
        assert_close(distribution[some], best[some], f"at {scale}")
        # In a step, normalisers are too large where the logits are a hundred apart.
        if scale < SCALES[-1]:
            assert_close(stepped.reshape(best.shape)[some], best[some], f"step at {scale}")
        of_targets = np.take_along_axis(best, TARGETS[..., None], axis=-1)[..., 0]
        assert_close(found["log_probs"], np.where(some, of_targets, 0))
        assert_close(found["smoothing"], np.where(some, joint.mean(-1).max(-1), 0), "smoothing")
        wanted = expected(weights_of(head), inputs)
        assert_close(found["posterior"], wanted["posterior"], "posterior")
        # A search that is told to sum does so.
        exact = naive(weights_of(head), *inputs.values())[0]
        assert_close(summed.reshape(exact.shape)[some], exact[some], "the sum")


def test_only_the_best_position_is_trained():
    inputs = inputs_of(padded=False)
    head = head_of(inputs, marginalization="max")
    _, _, by_input = value_and_gradients(
        head, lambda inputs: ops.sum(head(**inputs, targets=TARGETS)["log_probs"]), inputs
    )
    joint = joint_of(weights_of(head), inputs)
    best = np.take_along_axis(joint, TARGETS[:, :, None, None], axis=-1)[..., 0].argmax(-1)
    wanted = np.eye(5)[best] / inputs["prior"]
    assert_close(by_input["prior"], wanted)


# One sampled position.

DRAWS = 4000


def sampled(head, inputs):
    """The sampled bound of many copies of the first sentence, its gradients by input, and log p(e_i|j)."""
    many = {name: np.repeat(x[:1], DRAWS, axis=0) for name, x in inputs.items()}
    targets = np.repeat(TARGETS[:1], DRAWS, axis=0)
    found = {}

    def loss(inputs):
        found["bound"] = head(**inputs, targets=targets, training=True)["bound"]
        return ops.sum(found["bound"])

    _, _, by_input = value_and_gradients(head, loss, many)
    return by_input


def test_the_sampled_bound_is_the_lexicon_of_a_sampled_position():
    """Each position as often as p(j) says, by a test of chi-squared; a row of none is 0."""
    inputs = inputs_of()
    head = head_of(inputs, marginalization="hard", seed=3)
    many = {name: np.repeat(x[:1], DRAWS, axis=0) for name, x in inputs.items()}
    targets = np.repeat(TARGETS[:1], DRAWS, axis=0)
    found = ops.convert_to_numpy(head(**many, targets=targets, training=True)["bound"])
    lexicon = np.take_along_axis(naive(weights_of(head), *inputs.values())[1], TARGETS[:, :, None, None], axis=-1)[
        0, ..., 0
    ]
    assert not found[:, -1].any()
    for i in range(TARGET - 1):
        places = np.abs(found[:, i, None] - lexicon[i]).argmin(1)
        assert_close(found[:, i], lexicon[i][places])
        counts, wanted = np.bincount(places, minlength=5), DRAWS * inputs["prior"][0, i]
        assert not counts[wanted == 0].any()
        real = wanted > 0
        # Of two degrees of freedom, it is above 13.8 once in a thousand seeds.
        assert np.sum((counts[real] - wanted[real]) ** 2 / wanted[real]) < 13.8


def test_the_gradient_of_the_samples_is_that_of_their_expectation():
    """Its mean over many draws, within five standard errors, of all inputs, with weights p(j) of mass below one."""
    inputs = inputs_of(padded=False)
    inputs["prior"] *= np.float32(0.8)
    head = head_of(inputs, marginalization="hard", seed=5)
    exact = LatentAlignmentHead(VOCABULARY, width=5, name="head")
    exact.build(*(x.shape for x in inputs.values()))
    fill_weights(exact)
    one = {name: x[:1] for name, x in inputs.items()}

    def expectation(x):
        prior = ops.convert_to_tensor(x["prior"])
        mass = ops.sum(prior, axis=-1)
        lexicon = exact.log_lexicon(**x, targets=TARGETS[:1])
        return ops.sum(ops.log(mass) + ops.sum(prior * lexicon, axis=-1) / mass)

    _, _, wanted = value_and_gradients(exact, expectation, one)
    for name, gradients in sampled(head, inputs).items():
        mean, deviation = gradients.mean(0), gradients.std(0)
        error = np.maximum(deviation / np.sqrt(DRAWS), 1e-6 * np.abs(wanted[name]).max())
        assert np.all(np.abs(mean - wanted[name][0]) < 5 * error), name
        # The states of the target side alone have the same gradient whatever is sampled only if the lexicon is linear.
        assert deviation.max() > 0.01, name


def test_outside_training_a_sampled_alignment_is_exact():
    inputs = inputs_of()
    head, exact = head_of(inputs, marginalization="hard"), head_of(inputs)
    run = compiled(lambda inputs: [one(**inputs, targets=TARGETS) for one in (head, exact)])
    found, wanted = run(inputs)
    for name, value in wanted.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
    np.testing.assert_array_equal(found["bound"], found["log_probs"])


@pytest.mark.one_backend
def test_samples_go_on_from_a_saved_state():
    inputs = inputs_of(padded=False)
    first, second = (head_of(inputs, marginalization="hard", seed=seed) for seed in (1, 2))

    def draw(head):
        return ops.convert_to_numpy(head(**inputs, targets=TARGETS, training=True)["bound"])

    drawn = draw(first)
    state = first.seed_generator.state.numpy()
    later = [draw(first), draw(first)]
    assert np.any(later[0] != drawn) and np.any(later[0] != later[1])
    second.seed_generator.state.assign(state)
    np.testing.assert_array_equal([draw(second), draw(second)], later)
    assert first.get_config()["seed"] == 1
