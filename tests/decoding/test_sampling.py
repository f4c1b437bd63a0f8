"""Translations that are drawn, against the distributions that they are drawn from."""

import keras
import keras_hub
import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.decoding import Sampling
from tests.bodies.reference import log_softmax
from tests.decoding.test_beam_search import START, STOP, VOCABULARY, assert_history, next_log_probs, search, table

SAMPLES, SENTENCES = 40, 300
# The 99.9 % point of χ² for 1, 2 and 3 degrees of freedom.
BOUNDS = {1: 10.8, 2: 13.8, 3: 16.3}


def kept(probabilities, top_k, top_p):
    """A distribution without what top-k and top-p leave out, token by token."""
    order = sorted(range(VOCABULARY), key=lambda token: -probabilities[token])[:top_k]
    chosen, mass = [], 0.0
    for token in order:
        if top_p is None or mass < top_p:
            chosen.append(token)
        mass += probabilities[token]
    left = np.where(np.isin(np.arange(VOCABULARY), chosen), probabilities, 0.0)
    return left / left.sum()


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"),
    [
        (2.0, 3, 0.7),
        *(
            pytest.param(*one, marks=pytest.mark.slow_compiled)
            for one in ((1.0, None, None), (0.5, None, None), (1.0, 2, None), (1.0, None, 0.95))
        ),
    ],
)
def test_tokens_have_their_distribution(temperature, top_k, top_p):
    """Of the second token too, whose distribution depends on the first."""
    logits = np.repeat(table(5, rows=1), SENTENCES, axis=0)
    sampler = Sampling(SAMPLES, temperature, top_k, top_p, seed=3)
    numbers = sampler.numbers([[row] for row in range(SENTENCES)], 3)
    prompt = np.zeros((SENTENCES, 3), "int32")
    prompt[:, 0] = START
    found = search(logits, prompt, sampler, data={"numbers": ops.convert_to_tensor(numbers)})
    ids = found["token_ids"].reshape(-1, 3)

    def distribution(tokens):
        scaled = np.exp(log_softmax(next_log_probs(logits, 0, tokens) / temperature))
        return kept(scaled, top_k, top_p)

    def fits(drawn, expected):
        counts = np.bincount(drawn, minlength=VOCABULARY)
        assert not counts[expected == 0].any()
        real = expected > 0
        wanted = expected[real] * len(drawn)
        assert ((counts[real] - wanted) ** 2 / wanted).sum() < BOUNDS[real.sum() - 1]

    fits(ids[:, 1], distribution((START,)))
    first = np.bincount(ids[:, 1], minlength=VOCABULARY)
    first[STOP] = 0
    fits(ids[ids[:, 1] == first.argmax(), 2], distribution((START, int(first.argmax()))))
    assert_history(found)


def test_scores_are_those_of_the_model():
    logits, rows, length = table(6), 6, 7
    sampler = Sampling(5, temperature=1.7, length_penalty=0.6, seed=1, min_length=2)
    prompt = np.zeros((rows, length), "int32")
    prompt[:, 0] = START
    numbers = sampler.numbers([[row] for row in range(rows)], length)
    found = search(logits, prompt, sampler, data={"numbers": ops.convert_to_tensor(numbers)})
    for row in range(rows):
        for beam, ids in enumerate(found["token_ids"][row].tolist()):
            end = ids.index(STOP, 1) if STOP in ids[1:] else length - 1
            assert end > 2 and not any(ids[end + 1 :])
            total = sum(next_log_probs(logits, row, ids[:i])[ids[i]] for i in range(1, end + 1))
            np.testing.assert_allclose(found["log_probs"][row, beam], total, atol=2e-5)
            np.testing.assert_allclose(found["scores"][row, beam], total / ((5 + end) / 6) ** 0.6, atol=2e-5)


def test_numbers_belong_to_a_sentence_and_a_seed():
    sampler = Sampling(3, seed=1)
    both, alone = sampler.numbers([[5, 3], [6, 3]], 9), sampler.numbers([[6, 3]], 9)
    np.testing.assert_array_equal(both[1], alone[0])
    others = both[0], Sampling(3, seed=2).numbers([[6, 3]], 9)[0], alone[0][::-1]
    assert all((one != alone[0]).mean() > 0.6 for one in others)
    assert both.dtype == "float32" and both.min() >= 0 and both.max() < 1


def test_it_draws_like_samplers_of_kerashub():
    found = Sampling.like(keras_hub.samplers.TopPSampler(p=0.3, k=7, seed=5, temperature=0.5), 4)
    given = {"samples": 4, "temperature": 0.5, "top_k": 7, "top_p": 0.3, "seed": 5}
    assert given.items() <= found.get_config().items()
    assert Sampling.like(keras_hub.samplers.TopKSampler(k=2), 1).get_config()["top_k"] == 2
    assert Sampling.like(keras_hub.samplers.GreedySampler(), 1) is None
    restored = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(found))
    assert restored.get_config() == found.get_config()


@pytest.mark.parametrize(
    "arguments",
    [
        *({"samples": 0}, {"temperature": 0}, {"temperature": 1e-4}),
        *({"top_k": 0}, {"top_p": 1.5}, {"top_p": 0}, {"seed": -1}),
    ],
)
def test_errors(arguments):
    with pytest.raises(ValueError, match=f"Received: {next(iter(arguments.values()))}"):
        Sampling(**arguments)
