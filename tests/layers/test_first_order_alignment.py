"""The hidden Markov model of a latent alignment, against the sum over all paths in NumPy float64."""

import itertools
import json

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.layers import FirstOrderAlignment, LatentAlignmentHead
from tests.layers.calls import compiled, of_unknown_sizes, value_and_gradients
from tests.layers.cases import weights_of
from tests.layers.test_latent_alignment_head import BATCH, TARGET, VOCABULARY, assert_close, inputs_of, naive
from tests.weights import fill_weights

# The tokens e_0..e_{I-1}, and those they are followed by.
TOKENS = np.array([[4, 0, 42, 9], [7, 7, 30, 2]], dtype="int32")
BEFORE, AFTER = TOKENS[:, :-1], TOKENS[:, 1:]
MAX_JUMP = 2


def inputs_without_empty_rows(source=5):
    """The first sentence is padded."""
    inputs, plain = inputs_of(source), inputs_of(source, padded=False)["prior"]
    plain = np.where(inputs["prior"].any(1, keepdims=True), plain, 0)
    return {**inputs, "prior": plain / plain.sum(-1, keepdims=True)}


def model_of(inputs, max_jump=MAX_JUMP, **arguments):
    """A head, and the layer before it, with weights."""
    head = LatentAlignmentHead(VOCABULARY, width=5, name="head")
    layer = FirstOrderAlignment(head, max_jump, name="alignment", **arguments)
    layer.build(*(x.shape for x in inputs.values()))
    fill_weights(layer, scale=1.0)
    return head, layer


def all_paths(weights, inputs, b, jumps):
    """p(a_1..a_I, e_1..e_I) of a sentence for all alignments, `(source,) * target`."""
    own = {name.removeprefix("head/"): x for name, x in weights.items()}
    lexicon = naive(own, *inputs.values())[1][b]
    prior, source = inputs["prior"][b].astype("float64"), inputs["prior"].shape[2]
    found = np.zeros((source,) * TARGET)
    for path in itertools.product(range(source), repeat=TARGET):
        p = 1.0
        for i, j in enumerate(path):
            moved = prior[i]
            if i > 0:
                reach = np.clip(np.arange(source) - path[i - 1], -MAX_JUMP, MAX_JUMP)
                moved = moved * np.exp(jumps[reach + MAX_JUMP])
                moved = moved / moved.sum()
            p *= moved[j] * np.exp(lexicon[i, j, AFTER[b, i]])
        found[path] = p
    return found


def test_likelihood_and_posterior_are_those_of_the_sum_over_all_paths():
    inputs = inputs_without_empty_rows()
    head, layer = model_of(inputs)

    def run(inputs):
        prior = layer(**inputs, tokens=BEFORE)
        return prior, head(**{**inputs, "prior": prior}, targets=AFTER)

    prior, found = compiled(run)(inputs)
    weights = weights_of(layer)
    for b in range(BATCH):
        joint = all_paths(weights, inputs, b, weights["jumps"].astype("float64"))
        assert_close(found["log_probs"][b].sum(), np.log(joint.sum()))
        # That of the last position knows all tokens.
        last = joint.sum((0, 1)) / joint.sum()
        assert_close(found["posterior"][b, -1], last)
    assert_close(prior.sum(-1), np.ones((BATCH, TARGET)))
    assert np.abs(prior - inputs["prior"])[:, 1:].max() > 0.05


def test_steps_equal_the_call():
    """A position at a time, for two hypotheses of each sentence, of which the second has other tokens."""
    inputs = inputs_without_empty_rows()
    head, layer = model_of(inputs)
    others = np.array([[1, 1, 1], [5, 6, 8]])

    def run(inputs):
        wanted = [layer(**inputs, tokens=tokens) for tokens in (BEFORE, others)]
        memory, found = head.prepare(inputs["encoded"], np.any(inputs_without_empty_rows()["prior"], 1)), []
        aligned = head.unaligned(2 * BATCH, memory)
        for i in range(TARGET):
            rows = {name: ops.repeat(inputs[name][:, i], 2, axis=0) for name in ("prior", "embedded", "states")}
            tokens = ops.reshape(ops.stack([BEFORE[:, i], others[:, i]], axis=1), (-1,))
            prior = layer.step(rows["prior"], head.posterior(tokens, memory, aligned))
            aligned = head.align(**{**rows, "prior": prior}, memory=memory)
            found.append(ops.reshape(prior, (BATCH, 2, -1)))
        return ops.stack(wanted, axis=1), ops.stack(found, axis=2)

    wanted, found = compiled(run)(inputs)
    assert_close(found, wanted)


def test_gradients_equal_differences_of_the_sum_over_all_paths():
    """Of the weights of the jumps, to which everything else leads too, and of the attention."""
    inputs = inputs_without_empty_rows(source=3)
    head, layer = model_of(inputs)

    def loss(inputs):
        return ops.sum(head(**{**inputs, "prior": layer(**inputs, tokens=BEFORE)}, targets=AFTER)["log_probs"])

    _, by_weight, by_input = value_and_gradients(layer, loss, inputs)
    weights = {name: x.astype("float64") for name, x in weights_of(layer).items()}
    exact = {name: x.astype("float64") for name, x in inputs.items()}

    def value():
        return sum(np.log(all_paths(weights, exact, b, weights["jumps"]).sum()) for b in range(BATCH))

    for x, gradient in ((weights["jumps"], by_weight["jumps"]), (exact["prior"], by_input["prior"])):
        wanted, step = np.zeros_like(x), 1e-5
        for index in np.ndindex(x.shape):
            at = x[index]
            if at == 0:
                gradient[index] = 0
                continue
            x[index] = at + step
            above = value()
            x[index] = at - step
            wanted[index] = (above - value()) / (2 * step)
            x[index] = at
        assert_close(gradient, wanted, tolerance=1e-5)
        assert np.abs(wanted).max() > 0.01


def test_gradients_beside_an_empty_row():
    """As on padding, where nothing is divided by 0."""
    inputs = inputs_of()
    inputs["prior"][0, -1] = 0
    head, layer = model_of(inputs)

    def loss(inputs):
        return ops.sum(head(**{**inputs, "prior": layer(**inputs, tokens=BEFORE)}, targets=AFTER)["log_probs"])

    _, by_weight, by_input = value_and_gradients(layer, loss, inputs)
    assert all(np.isfinite(x).all() for x in (*by_weight.values(), *by_input.values()))
    assert np.abs(by_weight["jumps"]).max() > 1e-3


def test_without_weights_for_jumps_positions_are_independent():
    inputs = inputs_of()
    _, layer = model_of(inputs)
    layer.jumps.assign(np.full(2 * MAX_JUMP + 1, 3.0))
    assert_close(compiled(lambda inputs: layer(**inputs, tokens=BEFORE))(inputs), inputs["prior"])


def test_a_jump_that_is_all_but_impossible():
    """Where nothing else is allowed, it is taken; nothing underflows."""
    inputs = inputs_without_empty_rows()
    _, layer = model_of(inputs)
    layer.jumps.assign(np.array([-200, -200, 200, -200, -200], "float32"))
    inputs["prior"] = np.eye(5, dtype="float32")[[[0, 1, 2], [4, 0, 4]]]
    found = compiled(lambda inputs: layer(**inputs, tokens=BEFORE))(inputs)
    assert_close(found, inputs["prior"])


def test_lengths_unknown_when_traced():
    _, layer = model_of(inputs_of())
    run = of_unknown_sizes(lambda inputs: layer(**inputs, tokens=BEFORE), inputs_of(), no_width=("prior",))
    for source in (1, 3, 6):
        inputs = inputs_without_empty_rows(source)
        found = run(inputs)
        assert_close(found.sum(-1), np.ones((BATCH, TARGET)))
        assert not found[inputs["prior"] == 0].any()


@pytest.mark.one_backend
def test_config_round_trip():
    layer = FirstOrderAlignment(LatentAlignmentHead(9, 4), 3, dtype="mixed_bfloat16")
    config = json.loads(json.dumps(layer.get_config()))
    assert FirstOrderAlignment.from_config(config).get_config() == layer.get_config()
    assert keras.saving.get_registered_name(FirstOrderAlignment) == "keras_attn_zoo>FirstOrderAlignment"


@pytest.mark.one_backend
@pytest.mark.parametrize("max_jump", [0, -1, 1.5, None])
def test_a_longest_jump_that_cannot_be(max_jump):
    with pytest.raises(ValueError, match=r"^FirstOrderAlignment: `max_jump` must be a positive integer"):
        FirstOrderAlignment(LatentAlignmentHead(9, 4), max_jump)
