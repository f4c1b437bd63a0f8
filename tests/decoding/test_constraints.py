"""What a search is given besides probabilities, against enumeration of all translations and literal searches."""

import itertools

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.decoding import (
    BeamSearch,
    DiverseBeamSearch,
    ForbiddenWords,
    GridBeamSearch,
    PooledBeamSearch,
    Sampling,
    coverage_penalty,
)
from keras_attn_zoo.decoding.grid_beam_search import phrase_rows
from keras_attn_zoo.decoding.logits_processors import IMPOSSIBLE
from tests.decoding.literal_search import penalty
from tests.decoding.test_beam_search import (
    ROWS,
    START,
    STOP,
    VOCABULARY,
    assert_history,
    assert_same,
    enumerate_all,
    next_log_probs,
    prompts,
    search,
    steps_of,
    table,
)

LENGTH, ENOUGH = 5, 130
# Tokens that begin a word, besides the end; 1 goes on with one.
WORD_STARTS = [0, 2, STOP]


def words_of(hypothesis):
    """The tokens of a hypothesis, without start, end and padding."""
    tokens = list(hypothesis[2][1:])
    return tokens[: tokens.index(STOP)] if STOP in tokens else tokens


def has_ngrams_once(tokens, n):
    ngrams = [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]
    return len(ngrams) == len(set(ngrams))


def has_phrase(tokens, phrase):
    ends = [i + len(phrase) for i in range(len(tokens)) if tokens[i : i + len(phrase)] == phrase]
    return any(end == len(tokens) or tokens[end] in WORD_STARTS for end in ends)


def assert_those(found, logits, is_allowed, alpha=0.6, beams=ENOUGH):
    """The results are all hypotheses that are allowed, the best first; some are, some are not."""
    for row in range(ROWS):
        every = enumerate_all(logits, row, LENGTH, alpha)
        allowed = [one for one in every if is_allowed(row, one)]
        assert 0 < len(allowed) < len(every)
        assert_same(found, row, allowed, beams)


@pytest.mark.slow_compiled
@pytest.mark.parametrize("least", [1, 3])
def test_a_minimum_length(least):
    logits = table()
    found = search(logits, prompts(LENGTH), BeamSearch(ENOUGH, 0.6, min_length=least))
    assert_those(found, logits, lambda row, one: len(words_of(one)) >= least)
    assert_history(found)


@pytest.mark.slow_compiled
@pytest.mark.parametrize("n", [1, 2, 3])
def test_no_repeated_ngrams(n):
    logits = table(1)
    found = search(logits, prompts(LENGTH), BeamSearch(ENOUGH, 0.6, no_repeat_ngram=n))
    assert_those(found, logits, lambda row, one: has_ngrams_once(words_of(one), n))


@pytest.mark.slow_compiled
def test_forced_beginnings_are_exempt_and_count():
    """A beginning may repeat itself and end; what follows may not repeat it."""
    logits, length, given = table(2), 6, [START, 1, 1, STOP]
    prompt = prompts(length)
    prompt[:, : len(given)] = given
    mask = np.broadcast_to(np.arange(length) < len(given), prompt.shape)
    found = search(logits, prompt, BeamSearch(ENOUGH, 0.6, no_repeat_ngram=1), mask=mask)
    for row in range(ROWS):
        of_given = sum(next_log_probs(logits, row, given[:i])[given[i]] for i in range(1, len(given)))
        ends = {
            (*given, *more): of_given + sum(next_log_probs(logits, row, (*given, *more[:i]))[more[i]] for i in (0, 1))
            for more in itertools.permutations((0, 2))
        }
        best = sorted(((log_prob / penalty(5, 0.6), log_prob, ids) for ids, log_prob in ends.items()), reverse=True)
        # Another start of the translation than the first is no repetition: the start is not of it.
        assert_same(found, row, best, ENOUGH)


@pytest.mark.parametrize("sampler", [PooledBeamSearch, BeamSearch])
def test_both_searches_keep_a_minimum_length_and_repeat_nothing(sampler):
    logits = table(3)
    logits[..., STOP] += 2.0
    found = search(logits, prompts(9), sampler(3, 0.6, min_length=3, no_repeat_ngram=2))
    plain = search(logits, prompts(9), sampler(3, 0.6))
    shorter = 0
    for row, beam in itertools.product(range(ROWS), range(3)):
        tokens = words_of((0, 0, found["token_ids"][row, beam].tolist()))
        assert len(tokens) >= 3 and has_ngrams_once(tokens, 2)
        shorter += len(words_of((0, 0, plain["token_ids"][row, beam].tolist()))) < 3
        total, ids = 0.0, found["token_ids"][row, beam].tolist()
        for i in range(1, ids.index(STOP) + 1 if STOP in ids else len(ids)):
            log_probs = next_log_probs(logits, row, ids[:i])
            total += log_probs[ids[i]]
            if sampler is PooledBeamSearch:
                # As in Transformers, what is allowed sums to 1.
                repeating = {token for token in range(len(log_probs)) if not has_ngrams_once([*ids[1:i], token], 2)}
                ruled_out = (repeating - {STOP}) | ({STOP} if i <= 3 else set())
                total -= np.log(np.exp(np.delete(log_probs, list(ruled_out))).sum())
        np.testing.assert_allclose(found["log_probs"][row, beam], total, atol=2e-5)
    assert shorter > 0


def test_an_automaton_forbids_its_words():
    logits = table(4)
    # 2 1 is forbidden, and so is 1 at the beginning; state 1 is that behind a 2.
    automaton = ForbiddenWords(np.array([[0, 0, 1, 0], [0, -1, 1, 0]]), reach=1, end=STOP)
    found = search(logits, prompts(LENGTH), BeamSearch(ENOUGH, 0.6), processors=[automaton])

    def is_allowed(row, one):
        tokens = [START, *words_of(one)]
        return (2, 1) not in itertools.pairwise(tokens)

    assert START == 2
    assert_those(found, logits, is_allowed)


def test_a_forbidden_word_does_not_stand_where_a_translation_is_cut():
    logits = table(8)
    # 0 is forbidden, unless a 1 goes on with it.
    automaton = ForbiddenWords(np.array([[1, 0, 0, 0], [-1, 0, -1, -1]]), reach=1, end=STOP)
    found = search(logits, prompts(LENGTH), BeamSearch(ENOUGH, 0.6), processors=[automaton])

    def is_allowed(row, one):
        return all(following == 1 for token, following in itertools.pairwise([*words_of(one), STOP]) if token == 0)

    assert_those(found, logits, is_allowed)


@pytest.mark.parametrize("sampler", [BeamSearch, PooledBeamSearch, Sampling, DiverseBeamSearch])
def test_where_nothing_is_possible_nothing_is_found(sampler):
    """A translation has more tokens than there are, and none of them twice."""
    beams = {"groups": 3} if sampler is DiverseBeamSearch else {}
    searched = sampler(3, min_length=6, no_repeat_ngram=1, **beams)
    data = {"numbers": ops.full((ROWS, 3, 8), 0.3)} if sampler is Sampling else None
    found = search(table(2), prompts(8), searched, data=data)
    assert (found["log_probs"] < IMPOSSIBLE / 2).all()


PHRASES = [[[1]], [[0, 1]], [[2, 2], [1]], [[1, 1], [1, 0]], [], [[0], [0], [2]]]


@pytest.mark.slow_compiled
def test_required_phrases_with_enough_beams():
    logits = table(5)
    tokens = max(sum(map(len, one)) for one in PHRASES)
    sampler = GridBeamSearch(ENOUGH, phrase_tokens=tokens, word_starts=WORD_STARTS, length_penalty=0.6)
    found = search(logits, prompts(LENGTH), sampler, data={"phrases": ops.convert_to_tensor(phrase_rows(PHRASES))})
    assert found["token_ids"].shape == (ROWS, ENOUGH, LENGTH)
    for row, phrases in enumerate(PHRASES):
        every = enumerate_all(logits, row, LENGTH, 0.6)
        allowed = [one for one in every if all(has_phrase(words_of(one), phrase) for phrase in phrases)]
        assert len(allowed) > 0 and (len(allowed) < len(every) or not phrases)
        assert_same(found, row, allowed, ENOUGH)
    assert_history(found)


def literal_grid(logits, row, phrases, length, beams, alpha, banks):
    """A grid beam search over lists of tokens: hypotheses (score, log-probability, tokens, whether it has ended)."""

    def left(tokens):
        missing = [one for one in phrases if not has_phrase(tokens, one)]
        begun = [k for one in missing for k in range(len(one)) if k and tokens[-k:] == one[:k]]
        return sum(map(len, missing)) - max(begun, default=0)

    kept = [(0.0, 0.0, (START,), False)]
    for position in range(1, length):
        candidates = [(score, log_prob, (*tokens, 0), True) for score, log_prob, tokens, ended in kept if ended]
        for _, log_prob, tokens, ended in kept:
            if not ended:
                for token, step in enumerate(next_log_probs(logits, row, tokens)):
                    total = log_prob + step
                    candidates.append((total / penalty(position, alpha), total, (*tokens, token), token == STOP))
        banked = {number: [] for number in range(banks)}
        for one in sorted(candidates, reverse=True):
            number = left(words_of(one))
            if not (one[3] and number):
                banked[number].append(one)
        kept = [one for bank in banked.values() for one in bank[:beams]]
    return [one for one in kept if not left(words_of(one))]


@pytest.mark.parametrize("beams", [3, pytest.param(1, marks=pytest.mark.slow_compiled)])
def test_required_phrases_with_few_beams_equal_a_literal_search(beams):
    logits, length = table(6 + beams), 7
    banks = 1 + max(sum(map(len, one)) for one in PHRASES)
    sampler = GridBeamSearch(beams, banks - 1, WORD_STARTS, length_penalty=1.0)
    found = search(logits, prompts(length), sampler, data={"phrases": ops.convert_to_tensor(phrase_rows(PHRASES))})
    for row, phrases in enumerate(PHRASES):
        expected = literal_grid(logits, row, phrases, length, beams, 1.0, banks)
        assert expected
        assert_same(found, row, expected, beams)
    assert_history(found)


def literal_diverse(logits, row, length, size, groups, diversity, alpha):
    """A diverse beam search over lists of tokens, group by group at every position."""
    kept = [[(0.0, 0.0, (START,), False)] for _ in range(groups)]
    for position in range(1, length):
        counts = np.zeros(VOCABULARY)
        for group, hypotheses in enumerate(kept):
            candidates = [
                (score, score, log_prob, (*ids, 0), True) for score, log_prob, ids, ended in hypotheses if ended
            ]
            for _, log_prob, ids, ended in hypotheses:
                for token, step in enumerate([] if ended else next_log_probs(logits, row, ids)):
                    total, divisor = log_prob + step, penalty(position, alpha)
                    chosen_by = (total - diversity * counts[token]) / divisor
                    candidates.append((chosen_by, total / divisor, total, (*ids, token), token == STOP))
            kept[group] = [one[1:] for one in sorted(candidates, reverse=True)[:size]]
            ended_before = {ids for _, _, ids, ended in hypotheses if ended}
            for *_, ids, _ in kept[group]:
                counts[ids[-1]] += ids[:-1] not in ended_before
    return sorted({ids: (score, log_prob, ids) for group in kept for score, log_prob, ids, _ in group}.values())[::-1]


@pytest.mark.parametrize(
    ("size", "groups", "diversity"),
    [(2, 3, 0.5), *(pytest.param(*one, marks=pytest.mark.slow_compiled) for one in ((1, 4, 1.0), (3, 2, 0.0)))],
)
def test_diverse_groups_equal_a_literal_search(size, groups, diversity):
    logits, length = table(size), 7
    sampler = DiverseBeamSearch(size * groups, 0.6, groups, diversity)
    found = search(logits, prompts(length), sampler, n_best=1)
    for row in range(ROWS):
        expected = literal_diverse(logits, row, length, size, groups, diversity, 0.6)
        # Two groups may have found the same one: of what counts once, there is less.
        assert len(expected) == size or diversity > 0
        assert_same(found, row, expected, size * groups)
    assert_history(found)
    with pytest.raises(ValueError, match=r"`groups` must divide num_beams=6. Received: 4"):
        DiverseBeamSearch(6, groups=4)


@pytest.mark.parametrize("n_best", [2, pytest.param(None, marks=pytest.mark.slow_compiled)])
def test_coverage_is_part_of_the_score(n_best):
    """The attention of each position depends on what has been translated."""
    logits, sources, beta, alpha = table(7), 3, 0.4, 0.6
    weights = np.random.default_rng(8).dirichlet(np.full(sources, 0.5), (ROWS, LENGTH, VOCABULARY))

    def next(tokens, cache, index):
        token, row = tokens[:, index - 1], cache["memory"]["row"]
        before = ops.where(index > 1, tokens[:, index - 2], 0)
        flat = ops.convert_to_tensor(weights.reshape(-1, sources).astype("float32"))
        coverage = cache["state"]["coverage"] + ops.take(flat, (row * LENGTH + index) * VOCABULARY + token, axis=0)
        steps = steps_of(logits, row, index, before, token)
        bonus = coverage_penalty(coverage, beta)
        return steps, None, {**cache, "state": {"coverage": coverage}, "bonus": bonus}

    cache = {
        "memory": {"row": ops.arange(ROWS, dtype="int32")},
        "state": {"coverage": ops.zeros((ROWS, sources), "float32")},
    }
    sampler = BeamSearch(ENOUGH, alpha, coverage_penalty=beta)
    prompt = ops.convert_to_tensor(prompts(LENGTH), "int32")
    found = sampler.search(next, prompt, cache, 1, stop_token_ids=[STOP], n_best=n_best)
    found = keras.tree.map_structure(ops.convert_to_numpy, found)
    changed = 0
    for row in range(ROWS):
        plain = enumerate_all(logits, row, LENGTH, alpha)
        scored = []
        for score, log_prob, tokens in plain:
            end = tokens.index(STOP) if STOP in tokens else LENGTH - 1
            coverage = sum(weights[row, i, tokens[i - 1]] for i in range(1, end + 1))
            scored.append((score + beta * np.log(np.minimum(coverage, 1.0)).sum(), log_prob, tokens))
        scored = sorted(scored, reverse=True)[: n_best or len(scored)]
        np.testing.assert_allclose(found["scores"][row, : len(scored)], [one[0] for one in scored], atol=3e-5)
        assert found["token_ids"][row, : len(scored)].tolist() == [list(one[2]) for one in scored]
        changed += plain[0][2] != scored[0][2]
    assert changed > 0
    with pytest.raises(ValueError, match="PooledBeamSearch: `coverage_penalty` must be 0"):
        PooledBeamSearch(3, coverage_penalty=0.1)
