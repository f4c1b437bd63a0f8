"""The beam search in NumPy, held against that on Keras, on tables of probabilities."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.decoding import BeamSearch, PooledBeamSearch
from keras_attn_zoo.onnx import numpy_beam_search as in_numpy

SENTENCES, LENGTH, VOCABULARY, SOURCE = 12, 9, 11, 4
START, END = 2, 3


@pytest.fixture(scope="module")
def logits():
    """Logits of the next token, by sentence, position and last token; some sentences end early, others never."""
    rng = np.random.default_rng(5)
    found = rng.normal(size=(SENTENCES, LENGTH, VOCABULARY, VOCABULARY)).astype("float32")
    found[..., END] += rng.normal(scale=3, size=(SENTENCES, 1, 1))
    return found


class TableSteps:
    """What `ONNXSteps` are to a search, of tables."""

    def __init__(self, logits):
        self.mask = np.ones((SENTENCES, SOURCE), "bool")
        self.log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        self.sentences = self.of_rows = np.arange(SENTENCES)
        self.position = 0

    def __call__(self, token_ids, rows):
        # Rows follow their sentence, also when others have left.
        assert np.array_equal(self.of_rows[rows], np.broadcast_to(self.sentences[:, None], rows.shape))
        self.of_rows = self.of_rows[rows].reshape(-1)
        self.position += 1
        found = self.log_probs[self.sentences[:, None], self.position, token_ids]
        attention = np.broadcast_to(token_ids[..., None, None], (*token_ids.shape, 1, SOURCE)).astype("float32")
        return found.copy(), attention

    def keep(self, sentences):
        self.mask, self.sentences = self.mask[sentences], self.sentences[sentences]


def by_keras(sampler, logits):
    prompt = np.zeros((SENTENCES, LENGTH), "int32")
    prompt[:, 0] = START
    table = ops.convert_to_tensor(logits.reshape(-1, VOCABULARY))

    def next(tokens, cache, index):
        place = (cache["memory"] * LENGTH + index) * VOCABULARY + tokens[:, index - 1]
        return ops.take(table, place, axis=0), None, cache

    cache = {"memory": ops.arange(SENTENCES, dtype="int32"), "state": {"model": ops.zeros((SENTENCES, 1))}}
    mask = prompt == START
    found = sampler.search(next, ops.convert_to_tensor(prompt), cache, 1, ops.convert_to_tensor(mask), (END,))
    return [keras.ops.convert_to_numpy(found[name]) for name in ("token_ids", "scores", "log_probs")]


@pytest.mark.parametrize("beams", [1, 4])
@pytest.mark.parametrize(
    "pooled, options",
    [
        (False, {"length_penalty": 0.0}),
        (False, {"length_penalty": 1.3, "min_length": 3, "no_repeat_ngram": 2}),
        (True, {"length_penalty": 1.0}),
        (True, {"length_penalty": 0.7, "early_stopping": True, "forced_end": END}),
        (True, {"length_penalty": 1.1, "early_stopping": "never", "no_repeat_ngram": 1}),
        (True, {"length_penalty": 1.0, "min_length": 3, "no_repeat_ngram": 2, "forced_end": END}),
    ],
)
def test_translations_are_those_of_the_search_on_keras(logits, beams, pooled, options):
    ours, theirs = (in_numpy.PooledBeamSearch, PooledBeamSearch) if pooled else (in_numpy.BeamSearch, BeamSearch)
    found = ours(beams, end=END, limit=LENGTH, n_best=beams, attention=True, **options).search(
        TableSteps(logits), START
    )
    token_ids, scores, log_probs = by_keras(theirs(beams, **options), logits)
    for sentence, hypotheses in enumerate(found):
        assert len(hypotheses) == (log_probs[sentence] > in_numpy.IMPOSSIBLE / 2).sum()
        for one, ids, score, log_prob in zip(
            hypotheses, token_ids[sentence], scores[sentence], log_probs[sentence], strict=False
        ):
            kept = one.token_ids[: [*one.token_ids, END].index(END) + 1]
            assert kept.tolist() == ids[1 : len(kept) + 1].tolist()
            np.testing.assert_allclose([one.score, one.log_prob], [score, log_prob], rtol=1e-5)
            # Each position attended by the token before it.
            assert one.attention[: len(kept), 0, 0].tolist() == ids[: len(kept)].tolist()
            # Neither keeps that of a batch.
            assert one.attention.base is None and one.token_ids.base is None


def test_fewer_translations_are_the_first_of_all(logits):
    options = {"length_penalty": 0.8, "end": END, "limit": LENGTH}
    every, best = (
        in_numpy.BeamSearch(5, n_best=n_best, **options).search(TableSteps(logits), START) for n_best in (5, 2)
    )
    for some, all_of_them in zip(best, every, strict=True):
        assert [one.score for one in some] == [one.score for one in all_of_them[:2]]


@pytest.mark.parametrize("count, k", [(5, 5), (63, 2), (70, 3), (1000, 1), (1003, 7)])
def test_the_largest_numbers_are_those_of_a_full_sort(count, k):
    x = np.random.default_rng(count).normal(size=(4, count)).astype("float32")
    values, places = in_numpy.top_k(x, k)
    expected = np.argsort(-x, axis=1)[:, :k]
    assert np.array_equal(places, expected) and np.array_equal(values, np.take_along_axis(x, expected, axis=1))
