"""The shapes of batches: buckets against all ways to cut a corpus, the grid of single calls by its rules."""

import itertools
from itertools import chain

import numpy as np
import pytest

from keras_attn_zoo.data.shapes import choose_bounds, grid_batches, pad_rows

# Buckets of a corpus.


def padded_cells(segments, multiple):
    cells = 0
    for segment in segments:
        source, target = (-(-(max(side) + 1) // multiple) * multiple for side in zip(*segment, strict=True))
        cells += len(segment) * (source + target)
    return cells


def best_of_all_cuts(lengths, bucket_count, multiple):
    """Try every way to cut the pairs, sorted by their longer side, between different longer sides."""
    groups = [list(group) for _, group in itertools.groupby(sorted(lengths, key=max), key=max)]
    return min(
        padded_cells([list(chain(*groups[a:b])) for a, b in itertools.pairwise((0, *cuts, len(groups)))], multiple)
        for count in range(min(bucket_count, len(groups)))
        for cuts in itertools.combinations(range(1, len(groups)), count)
    )


def cells_in_narrowest_bounds(lengths, bounds):
    return sum(min(s + t for s, t in bounds if source < s and target < t) for source, target in lengths)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("bucket_count", [1, 2, 3, 9])
def test_bounds_are_the_best_of_all_cuts(seed, bucket_count):
    rng = np.random.default_rng(seed)
    multiple = int(rng.integers(1, 4))
    lengths = rng.integers(1, 25, (12, 2))
    bounds = choose_bounds(*lengths.T, bucket_count, multiple)
    assert len(bounds) <= bucket_count
    assert all(side % multiple == 0 for bound in bounds for side in bound)
    # A pair may fit a narrower bucket than that of its cut.
    best = best_of_all_cuts(lengths.tolist(), bucket_count, multiple)
    assert cells_in_narrowest_bounds(lengths.tolist(), bounds) <= best
    # With sides of one length it cannot.
    square = np.repeat(lengths[:, :1], 2, axis=1)
    bounds = choose_bounds(*square.T, bucket_count, multiple)
    best = best_of_all_cuts(square.tolist(), bucket_count, multiple)
    assert cells_in_narrowest_bounds(square.tolist(), bounds) == best


def test_bounds_of_many_lengths_are_quick_and_cover():
    rng = np.random.default_rng(0)
    source, target = rng.geometric(0.01, (2, 20_000))
    bounds = choose_bounds(source, target, 6)
    assert len(bounds) == 6
    covered = np.zeros(len(source), dtype=bool)
    for s, t in bounds:
        covered |= (source < s) & (target < t)
    assert covered.all()


# The grid of single calls.


@pytest.mark.parametrize("count, batch_size", [(1, 32), (40, 32), (77, 20)])
def test_batches_hold_every_sentence_once_and_are_just_wide_enough(count, batch_size):
    lengths = np.random.default_rng(count).integers(1, 51, (2, count)).tolist()
    limits, seen, count_of_batches = (50, 46), [], 0
    lengths[1] = [min(length, 46) for length in lengths[1]]
    for batch in grid_batches(lengths, limits, batch_size):
        count_of_batches += 1
        seen.extend(batch.members)
        assert batch.rows == min(n for n in (1, 8, 32, 128, batch_size) if n >= len(batch.members))
        for width, side, limit in zip(batch.widths, lengths, limits, strict=True):
            longest = max(side[i] for i in batch.members)
            assert longest <= width <= limit and width < longest + 8 and (width % 8 == 0 or width == limit)
    assert sorted(seen) == list(range(count)) and count_of_batches == -(-count // batch_size)
    longer = [max(side[i] for side in lengths) for i in seen]
    assert longer == sorted(longer)


def test_many_sentences_have_few_shapes():
    """Pairs of about the same length, as translations are: about one shape per multiple of eight, not one per pair."""
    rng = np.random.default_rng(0)
    source = np.minimum(rng.geometric(0.05, 3000) + 2, 100)
    target = np.clip(source + rng.integers(-4, 5, 3000), 1, 100)
    shapes = {(b.rows, b.widths) for b in grid_batches([source.tolist(), target.tolist()], (128, 128), 32)}
    assert len(shapes) <= 16


def test_rows_are_filled_up_with_the_last():
    x = np.array([[1, 2], [3, 4]])
    assert pad_rows(x, 4).tolist() == [[1, 2], [3, 4], [3, 4], [3, 4]]
    assert pad_rows(x, 2) is x
