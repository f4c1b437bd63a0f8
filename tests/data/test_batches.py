"""Batches against their literal construction: shapes, order, rounds, coins."""

import itertools
from collections import Counter
from itertools import chain

import numpy as np
import pytest

from keras_attn_zoo.data.batches import TranslationBatches, evaluation_batches
from tests.data.helpers import one_line_error, same


@pytest.fixture(scope="module")
def corpus(make_corpus):
    return make_corpus(np.random.default_rng(7).integers(1, 24, (101, 2)))


# One batch


def expected_batch(corpus, rows, bound):
    """Literal construction of a batch, row by row."""
    source_width, target_width = bound
    x = {name: [] for name in ("source", "source_mask", "decoder", "target_mask")}
    y, weight = [], []
    for row in rows:
        source = [] if row < 0 else corpus.source(row).tolist()
        target = [] if row < 0 else corpus.target(row).tolist()
        fill_source, fill_target = source_width - len(source) - 1, target_width - len(target) - 1
        x["source"].append([*source, 3] + [0] * fill_source)
        x["source_mask"].append([True] * (len(source) + 1) + [False] * fill_source)
        x["decoder"].append([2, *target] + [0] * fill_target)
        x["target_mask"].append([True] * (len(target) + 1) + [False] * fill_target)
        y.append([*target, 3] + [0] * fill_target)
        weight.append([float(row >= 0)] * (len(target) + 1) + [0.0] * fill_target)
    return x["source"], x["source_mask"], x["decoder"], x["target_mask"], y, weight


@pytest.mark.parametrize("shuffle", [True, False])
def test_batches_equal_the_literal_construction(corpus, shuffle):
    batches = TranslationBatches(corpus, sentences_per_batch=8, shuffle=shuffle, bucket_count=4)
    fillers = 0
    for index in range(len(batches)):
        x, y, weight = batches[index]
        rows = batches.sentences(index)
        bound = (x["encoder_token_ids"].shape[1], y.shape[1])
        assert bound in batches.bounds
        arrays = (
            x["encoder_token_ids"],
            x["encoder_padding_mask"],
            x["decoder_token_ids"],
            x["decoder_padding_mask"],
            y,
            weight,
        )
        for array, expected in zip(arrays, expected_batch(corpus, rows, bound), strict=True):
            assert array.tolist() == expected
        assert [str(a.dtype) for a in arrays] == ["int32", "bool", "int32", "bool", "int32", "float32"]
        assert "teacher_forcing_mask" not in x, "the teacher always forces"
        assert x["encoder_padding_mask"].any(axis=1).all(), "no row is fully masked"
        fillers += (rows < 0).sum()
    assert 0 < fillers < 4 * 8


@pytest.mark.parametrize("batch_size", [{"sentences_per_batch": 7}, {"tokens_per_batch": 200}])
def test_an_epoch_holds_every_sentence_once_in_few_shapes(corpus, batch_size):
    batches = TranslationBatches(corpus, **batch_size, bucket_count=3, seed=5)
    seen, shapes = Counter(), Counter()
    for index in range(len(batches)):
        x, _, weight = batches[index]
        seen.update(row for row in batches.sentences(index).tolist() if row >= 0)
        shapes[(x["encoder_token_ids"].shape, weight.shape)] += 1
    assert seen == Counter(range(len(corpus)))
    assert len(shapes) == 3
    expected = {((rows, s), (rows, t)) for rows, (s, t) in zip(batches.rows, batches.bounds, strict=True)}
    assert set(shapes) == expected


def test_rows_by_tokens(corpus):
    batches = TranslationBatches(corpus, bounds=[(6, 4), (10, 12), (24, 24)], tokens_per_batch=150)
    assert batches.rows == [24, 8, 6], "150 // 6 = 25 and 150 // 12 = 12 go down to multiples of 8"
    assert TranslationBatches(corpus, bounds=[(24, 24)], tokens_per_batch=3).rows == [1]


def test_each_pair_goes_to_the_narrowest_bucket(corpus):
    bounds = [(24, 24), (12, 24), (24, 12), (8, 8)]
    batches = TranslationBatches(corpus, bounds=bounds, sentences_per_batch=4)
    for index in range(len(batches)):
        x, y, _ = batches[index]
        shape = (x["encoder_token_ids"].shape[1], y.shape[1])
        for row in batches.sentences(index):
            if row >= 0:
                lengths = corpus.source_lengths[row], corpus.target_lengths[row]
                fits = [sum(b) for b in bounds if lengths[0] < b[0] and lengths[1] < b[1]]
                assert sum(shape) == min(fits)


# Order


def test_order_is_a_function_of_seed_and_epoch(corpus):
    def order(seed, round_number):
        batches = TranslationBatches(corpus, sentences_per_batch=8, seed=seed)
        batches.set_round(round_number)
        return [batches.sentences(index).tolist() for index in range(len(batches))]

    assert order(0, 0) == order(0, 0)
    assert order(0, 0) != order(1, 0)
    assert order(0, 0) != order(0, 1)
    assert sorted(chain(*order(0, 0))) == sorted(chain(*order(0, 1)))


def test_shuffling_mixes_buckets_and_sentences(corpus):
    batches = TranslationBatches(corpus, sentences_per_batch=4, bucket_count=4)
    widths = [x["encoder_token_ids"].shape[1] for x, *_ in batches]
    assert widths != sorted(widths) and widths != sorted(widths, reverse=True)
    rows = batches.sentences(0)
    assert rows.tolist() != sorted(rows)


def test_evaluation_is_one_pass_in_order(corpus):
    batches = evaluation_batches(corpus, sentences_per_batch=8, bucket_count=3)
    assert batches.num_batches == len(batches) == len(list(batches))
    order = np.concatenate([batches.sentences(index) for index in range(len(batches))])
    order = order[order >= 0]
    assert sorted(order) == list(range(len(corpus)))
    assert (np.diff(order) < 0).sum() <= 2, "within a bucket in the order of the corpus"
    with pytest.raises(IndexError):
        batches[len(batches)]
    one_line_error("invalid round 1", lambda: batches.set_round(1))


# Rounds


@pytest.mark.parametrize("options", [{}, {"rounds_per_epoch": 4}, {"rounds_per_epoch": 1000}, {"steps_per_round": 5}])
def test_rounds_are_one_continuous_stream(corpus, options):
    def ratio(step):
        return 1 / (1 + step / 20)

    whole = TranslationBatches(corpus, sentences_per_batch=6, teacher_forcing=ratio)
    n = whole.batches_per_epoch
    stream = []
    for epoch in range(3):
        whole.set_round(epoch)
        stream.extend(whole)
    assert len(stream) == 3 * n
    rounds = TranslationBatches(corpus, sentences_per_batch=6, teacher_forcing=ratio, **options)
    length = options.get("steps_per_round") or max(1, round(n / options.get("rounds_per_epoch", 1)))
    assert len(rounds) == length
    for number in range(len(stream) // length):
        rounds.set_round(number)
        for index, batch in enumerate(rounds):
            assert same(batch, stream[number * length + index])
    rounds.set_round(0)
    assert all(same(rounds[index], batch) for index, batch in enumerate(stream)), "index runs on past a round"


# Teacher forcing


def test_coins_follow_the_ratio_and_the_step(corpus):
    steps = []

    def ratio(step):
        steps.append(step)
        return 0.25

    batches = TranslationBatches(corpus, sentences_per_batch=16, teacher_forcing=ratio, rounds_per_epoch=2)
    batches.set_round(3)
    masks = [x["teacher_forcing_mask"] for x, *_ in batches]
    assert steps == [3 * len(batches) + index for index in range(len(batches))]
    assert all(mask[:, 0].all() for mask in masks)
    coins = np.concatenate([mask[:, 1:].ravel() for mask in masks])
    assert abs(coins.mean() - 0.25) < 4 * np.sqrt(0.25 * 0.75 / len(coins))
    assert same(batches[1], batches[1])


def test_coins_differ_between_batches_epochs_and_seeds(corpus):
    def coins(seed, index):
        batches = TranslationBatches(
            corpus, [(24, 24)], sentences_per_batch=16, seed=seed, teacher_forcing=lambda step: 0.5
        )
        return batches[index][0]["teacher_forcing_mask"]

    epoch = -(-len(corpus) // 16)
    masks = [coins(0, 0), coins(0, 1), coins(0, epoch), coins(1, 0)]
    for first, second in itertools.combinations(masks, 2):
        assert (first != second).any()


# Errors


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({}, "give exactly one"),
        ({"tokens_per_batch": 9, "sentences_per_batch": 9}, "give exactly one"),
        ({"sentences_per_batch": 0}, "sentences_per_batch=0 is below 1"),
        ({"tokens_per_batch": -1}, "tokens_per_batch=-1 is below 1"),
        ({"sentences_per_batch": 1, "seed": -1}, "seed=-1"),
        ({"sentences_per_batch": 1, "rounds_per_epoch": 0}, "rounds_per_epoch=0"),
        ({"sentences_per_batch": 1, "steps_per_round": 0}, "steps_per_round=0"),
        ({"sentences_per_batch": 1, "bucket_count": 0}, "bucket_count=0"),
        ({"sentences_per_batch": 1, "bounds": []}, "must be pairs"),
        ({"sentences_per_batch": 1, "bounds": [(3, 4, 5)]}, "must be pairs"),
    ],
)
def test_bad_arguments(corpus, options, match):
    one_line_error(match, lambda: TranslationBatches(corpus, **options))


def test_sentence_above_the_bounds(make_corpus):
    corpus = make_corpus([(3, 3), (3, 8), (9, 3)])
    one_line_error(
        r"line 2 of the corpus has 4 source and 9 target tokens.*\[\(8, 8\)\]",
        lambda: TranslationBatches(corpus, bounds=[(8, 8)], sentences_per_batch=2),
    )
    assert len(TranslationBatches(corpus, bounds=[(10, 9)], sentences_per_batch=2)) == 2


def test_bad_ratio_and_round(corpus):
    batches = TranslationBatches(corpus, sentences_per_batch=8, teacher_forcing=lambda step: 2 - step)
    one_line_error("teacher_forcing returned 2.0 at step 0", lambda: batches[0])
    assert batches[1]
    one_line_error("invalid round -1", lambda: batches.set_round(-1))
