"""Beam search over random transition tables, against enumeration and a literal search in Python."""

import itertools
import math

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.decoding import BeamSearch
from keras_attn_zoo.decoding.beam_search import IMPOSSIBLE
from tests.bodies.reference import log_softmax
from tests.decoding.literal_search import literal_beam_search, penalty

START, STOP, OTHER_STOP = 2, 3, 1
VOCABULARY = 4
ROWS = 6
PERIOD = 8


def table(seed=0, rows=ROWS):
    """Logits of the next token, given row, position and the two tokens before."""
    return 1.5 * np.random.default_rng(seed).standard_normal((rows, PERIOD, *[VOCABULARY] * 3))


def steps_of(logits, row, index, before, token):
    """The logits of a step, from a table."""
    number = ((row * PERIOD + index % PERIOD) * VOCABULARY + before) * VOCABULARY + token
    return ops.take(ops.convert_to_tensor(logits.reshape(-1, VOCABULARY).astype("float32")), number, axis=0)


def search(logits, prompt, sampler, index=1, mask=None, stop=(STOP,), **options):
    """Run the search; the state remembers the history of every hypothesis, and the steps taken."""
    rows, length = prompt.shape

    def next(tokens, cache, index):
        token, state = tokens[:, index - 1], cache["state"]
        steps = steps_of(logits, cache["memory"]["row"], index, state["before"], token)
        history = ops.slice_update(state["history"], (0, index - 1), token[:, None])
        state = {"before": token, "history": history, "steps": state["steps"] + 1}
        return steps, None, {"memory": cache["memory"], "state": state}

    before = prompt[:, index - 2] if index > 1 else np.zeros(rows)
    cache = {
        "memory": {"row": ops.arange(rows, dtype="int32")},
        "state": {
            "before": ops.convert_to_tensor(before.astype("int32")),
            "history": ops.convert_to_tensor(np.where(np.arange(length) < index - 1, prompt, 0), "int32"),
            "steps": ops.zeros((rows,), "int32"),
        },
    }
    found = sampler.search(
        next,
        ops.convert_to_tensor(prompt, "int32"),
        cache,
        index,
        mask=mask,
        stop_token_ids=None if stop is None else list(stop),
        **options,
    )
    return keras.tree.map_structure(ops.convert_to_numpy, found)


def prompts(length, rows=ROWS):
    prompt = np.zeros((rows, length), "int32")
    prompt[:, 0] = START
    return prompt


def next_log_probs(logits, row, tokens):
    before = tokens[-2] if len(tokens) > 1 else 0
    return log_softmax(logits[row, len(tokens) % PERIOD, before, tokens[-1]])


def enumerate_all(logits, row, length, alpha, stop=(STOP,)):
    """(score, log-probability, tokens) of all hypotheses, the best first."""
    found = []

    def extend(tokens, log_prob):
        n = len(tokens) - 1
        if n and (tokens[-1] in stop or n == length - 1):
            padded = (*tokens, *[0] * (length - len(tokens)))
            found.append((log_prob / penalty(n, alpha), log_prob, padded))
            return
        for token, step in enumerate(next_log_probs(logits, row, tokens)):
            extend((*tokens, token), log_prob + step)

    extend((START,), 0.0)
    return sorted(found, reverse=True)


def literally(logits, row, prompt, mask, beams, alpha, index=1, stop=(STOP,), considered=None):
    """The literal search of one row."""
    return literal_beam_search(
        lambda prefixes: [next_log_probs(logits, row, tokens) for tokens in prefixes],
        *(prompt, beams, alpha, stop, mask, index, considered),
    )


def assert_same(found, row, expected, beams):
    """Compare n-best lists: (score, log-probability, tokens, ...) the best first."""
    expected = expected[:beams]
    n = len(expected)
    np.testing.assert_allclose(found["scores"][row, :n], [e[0] for e in expected], rtol=0, atol=2e-5)
    np.testing.assert_allclose(found["log_probs"][row, :n], [e[1] for e in expected], rtol=0, atol=2e-5)
    assert found["token_ids"][row, :n].tolist() == [list(map(int, e[2])) for e in expected]
    assert (found["log_probs"][row, n:] < IMPOSSIBLE / 2).all()


def assert_history(found, stop=(STOP,)):
    """The state holds, for every hypothesis, the tokens it was asked to continue."""
    rows, beams, length = found["token_ids"].shape
    history = found["state"]["history"].reshape(rows, beams, length)
    steps = found["state"]["steps"][0]
    for row, beam in itertools.product(range(rows), range(beams)):
        if found["log_probs"][row, beam] > IMPOSSIBLE / 2:
            assert (history[row, beam, :steps] == found["token_ids"][row, beam, :steps]).all()


@pytest.mark.parametrize("alpha, stop", [(0.0, (STOP,)), (1.0, (STOP,)), (2.0, (STOP,)), (0.6, (STOP, OTHER_STOP))])
def test_enough_beams_search_exhaustively(alpha, stop):
    logits, length = table(), 5
    beams = 130
    found = search(logits, prompts(length), BeamSearch(beams, alpha), stop=stop)
    for row in range(ROWS):
        expected = enumerate_all(logits, row, length, alpha, stop)
        assert len(expected) == (121 if len(stop) == 1 else 46)
        assert_same(found, row, expected, beams)
    assert_history(found)


@pytest.mark.parametrize("beams, alpha", [(1, 0.6), (2, 0.0), (3, 1.0), (5, 0.6)])
def test_few_beams_equal_a_literal_beam_search(beams, alpha):
    logits, length = table(seed=beams), 7
    prompt = prompts(length)
    found = search(logits, prompt, BeamSearch(beams, alpha))
    for row in range(ROWS):
        expected = literally(logits, row, prompt[row], np.zeros(length, bool), beams, alpha)
        assert_same(found, row, expected, beams)
    assert_history(found)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_a_search_for_some_hypotheses_ends_early_with_the_same(alpha):
    logits, length, beams = table(seed=3), 12, 5
    # An end that is likely, so that there is something to end early.
    logits[..., STOP] += 2.0
    every = search(logits, prompts(length), BeamSearch(beams, alpha))
    reached = []
    for n_best in range(1, beams + 1):
        found = search(logits, prompts(length), BeamSearch(beams, alpha), n_best=n_best)
        for name in ("token_ids", "scores", "log_probs"):
            np.testing.assert_array_equal(found[name][:, :n_best], every[name][:, :n_best])
        reached.append(int(found["state"]["steps"].max()))
    assert reached == sorted(reached) and reached[0] < reached[-1]


def traced(logits, prompt, sampler):
    """Search with a trace; the record of a row is its beginning, which the literal search knows too."""
    rows, length = prompt.shape

    def next(tokens, cache, index):
        before = ops.where(index > 1, tokens[:, index - 2], 0)
        steps = steps_of(logits, cache["memory"]["row"], index, before, tokens[:, index - 1])
        return steps, None, {**cache, "record": tokens}

    cache = {
        "memory": {"row": ops.arange(rows, dtype="int32")},
        "state": {},
        "record": ops.zeros((rows, length), "int32"),
    }
    prompt = ops.convert_to_tensor(prompt, "int32")
    found = sampler.search(next, prompt, cache, 1, stop_token_ids=[STOP], trace=True)
    return keras.tree.map_structure(ops.convert_to_numpy, found)


@pytest.mark.parametrize("beams, alpha", [(1, 0.0), (2, 0.0), (3, 1.0), (5, 0.6)])
def test_a_trace_holds_what_a_literal_search_considers(beams, alpha):
    logits, length = table(seed=beams), 7
    prompt = prompts(length)
    found, plain = traced(logits, prompt, BeamSearch(beams, alpha)), search(logits, prompt, BeamSearch(beams, alpha))
    for name in ("token_ids", "scores", "log_probs"):
        np.testing.assert_array_equal(found[name], plain[name])
    trace, dropped = found["trace"], 0
    for row in range(ROWS):
        considered = []
        literally(logits, row, prompt[row], np.zeros(length, bool), beams, alpha, considered=considered)
        kept = [tuple(prompt[row, :1])]
        for position, expected in enumerate(considered, start=1):
            if (trace["log_probs"][row, position] < IMPOSSIBLE / 2).all():
                assert all(STOP in tokens[1:] for tokens in kept)
                break
            expected = expected[: 2 * beams]
            at = {name: trace[name][row, position] for name in ("token_ids", "parents", "log_probs", "scores")}
            real = at["log_probs"] > IMPOSSIBLE / 2
            assert real.tolist() == [i < len(expected) for i in range(2 * beams)]
            np.testing.assert_allclose(at["scores"][real], [one[0] for one in expected], rtol=0, atol=2e-5)
            np.testing.assert_allclose(at["log_probs"][real], [one[1] for one in expected], rtol=0, atol=2e-5)
            tokens = [(*kept[at["parents"][i]], at["token_ids"][i]) for i in range(len(expected))]
            assert tokens == [one[2] for one in expected]
            for beam, beginning in enumerate(kept):
                assert tuple(trace["record"][row, position, beam][:position]) == beginning
            kept, dropped = tokens[:beams], dropped + len(tokens[beams:])
    assert dropped > 0


def test_call_returns_the_best_of_search():
    logits = table(seed=2)

    def next(tokens, cache, index):
        flat = ops.convert_to_tensor(logits[0, 0, 0].astype("float32"))
        return ops.take(flat, tokens[:, index - 1], axis=0), None, cache

    arguments = {
        "next": next,
        "prompt": ops.convert_to_tensor(prompts(5)),
        "cache": {"memory": (), "state": ()},
        "index": 1,
        "stop_token_ids": (STOP,),
    }
    sampler = BeamSearch(4, 0.5)
    best = ops.convert_to_numpy(sampler(**arguments))
    found = ops.convert_to_numpy(sampler.search(**arguments)["token_ids"])
    assert best.shape == (ROWS, 5)
    np.testing.assert_array_equal(best, found[:, 0])


def finishing_table():
    """Ends at once with p = .54, or goes on with .46 and then .87, and never ends."""
    logits = np.full((1, PERIOD, *[VOCABULARY] * 3), -50.0)
    logits[0, 1, 0, START, STOP], logits[0, 1, 0, START, 1] = math.log(0.54), math.log(0.46)
    logits[0, 2:, :, 1, 1], logits[0, 2:, :, 1, 2] = math.log(0.87), math.log(0.13)
    # What follows the end would cost much.
    logits[0, :, :, STOP] = 0.0
    return logits


def test_a_finished_hypothesis_keeps_its_probability_and_a_length_penalty_can_prefer_a_longer_one():
    found = search(finishing_table(), prompts(4, rows=1), BeamSearch(2))
    assert found["token_ids"][0, 0].tolist() == [START, STOP, 0, 0]
    assert math.isclose(found["log_probs"][0, 0], math.log(0.54), abs_tol=1e-5)
    assert found["token_ids"][0, 1].tolist() == [START, 1, 1, 1]
    assert math.isclose(found["log_probs"][0, 1], math.log(0.46 * 0.87**2), abs_tol=1e-5)
    found = search(finishing_table(), prompts(4, rows=1), BeamSearch(2, length_penalty=4.0))
    assert found["token_ids"][0, 0].tolist() == [START, 1, 1, 1]
    expected = math.log(0.46 * 0.87**2) / (8 / 6) ** 4
    assert math.isclose(found["scores"][0, 0], expected, abs_tol=1e-5)


@pytest.mark.parametrize("beams", [1, 3])
def test_forced_beginnings(beams):
    logits, length = table(seed=4), 7
    prompt, lengths = prompts(length), [1, 2, 3, 4, 5, 7]
    mask = np.arange(length) < np.array(lengths)[:, None]
    given = np.random.default_rng(1).integers(0, VOCABULARY, prompt.shape)
    # A stop token in the beginning ends nothing.
    given[3, 2] = STOP
    prompt[:, 1:] = np.where(mask, given, 0)[:, 1:]
    found = search(logits, prompt, BeamSearch(beams, 0.6), mask=mask)
    for row in range(ROWS):
        expected = literally(logits, row, prompt[row], mask[row], beams, 0.6)
        assert_same(found, row, expected, beams)
        assert found["token_ids"][row, 0, : lengths[row]].tolist() == prompt[row, : lengths[row]].tolist()
    assert_history(found)


def test_a_later_start_counts_from_there():
    logits, length, index = table(seed=6), 6, 3
    prompt = prompts(length)
    prompt[:, 1:3] = np.random.default_rng(2).integers(0, VOCABULARY, (ROWS, 2))
    found = search(logits, prompt, BeamSearch(3, 1.0), index=index)
    for row in range(ROWS):
        expected = literally(logits, row, prompt[row], np.zeros(length, bool), 3, 1.0, index=index)
        assert_same(found, row, expected, 3)
    assert_history(found)


def test_without_stop_tokens_everything_goes_to_the_end():
    logits = table(seed=7)
    found = search(logits, prompts(5), BeamSearch(3, 0.6), stop=None)
    for row in range(ROWS):
        prompt = prompts(5)[row]
        expected = literally(logits, row, prompt, np.zeros(5, bool), 3, 0.6, stop=())
        assert_same(found, row, expected, 3)


def test_temperature_divides_the_logits():
    logits = table(seed=8)
    warm = search(logits, prompts(5), BeamSearch(2, temperature=2.0))
    plain = search(logits / 2, prompts(5), BeamSearch(2))
    np.testing.assert_array_equal(warm["token_ids"], plain["token_ids"])
    np.testing.assert_allclose(warm["scores"], plain["scores"], rtol=0, atol=1e-5)


def test_stopping_early_changes_nothing():
    alpha = 1.0
    logits = table(seed=3)
    logits[..., STOP] += 4.0
    short, long = (search(logits, prompts(n), BeamSearch(3, alpha)) for n in (14, 40))
    # The search stops when all have finished: more room makes neither more steps nor other results.
    steps = short["state"]["steps"][0]
    assert steps < 13
    assert long["state"]["steps"][0] == steps
    np.testing.assert_array_equal(long["token_ids"][..., :14], short["token_ids"])
    np.testing.assert_allclose(long["scores"], short["scores"], rtol=0, atol=1e-6)
    for row in range(ROWS):
        expected = literally(logits, row, prompts(14)[row], np.zeros(14, bool), 3, alpha)
        assert_same(short, row, expected, 3)


def test_configuration():
    given = {
        **{"num_beams": 7, "length_penalty": 0.4, "temperature": 1.5},
        **{"coverage_penalty": 0.2, "min_length": 2, "no_repeat_ngram": 3},
    }
    restored = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(BeamSearch(**given)))
    assert isinstance(restored, BeamSearch)
    assert restored.get_config() == given


@pytest.mark.parametrize(
    "arguments",
    [
        *({"num_beams": 0}, {"num_beams": 2.0}, {"length_penalty": -0.1}, {"coverage_penalty": -1}),
        *({"min_length": -1}, {"no_repeat_ngram": 1.5}, {"num_beams": "4"}, {"length_penalty": None}),
    ],
)
def test_errors(arguments):
    with pytest.raises(ValueError, match=f"Received: {next(iter(arguments.values()))!r}"):
        BeamSearch(**arguments)


@pytest.mark.parametrize("n_best", [1, 2])
def test_what_is_certain_in_little_room_is_what_all_of_it_gives(n_best):
    """A running hypothesis of a high length penalty may win by length alone, for which there must be room enough."""
    rows, little, length = 400, 4, 20
    logits, sampler = table(3, rows), BeamSearch(3, 4.0)
    logits[..., STOP] += 1.0
    whole = search(logits, prompts(length, rows), sampler, n_best=n_best)
    part = search(logits, prompts(little, rows), sampler, n_best=n_best, limit=length)
    certain = part["certain"]
    assert 0 < certain.sum() < rows
    for name in ("log_probs", "scores"):
        np.testing.assert_array_equal(part[name][certain, :n_best], whole[name][certain, :n_best])
    np.testing.assert_array_equal(part["token_ids"][certain, :n_best], whole["token_ids"][certain, :n_best, :little])
    assert not whole["token_ids"][certain, :n_best, little:].any()
