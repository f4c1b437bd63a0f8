"""A few shapes to pad batches to, since compiled backends compile once per shape.

For training and validation, all lengths are known beforehand, and the shapes are chosen accordingly. Sentences to be
translated, aligned or scored arrive call by call and are padded to a fixed grid, so that later calls reuse the shapes.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_attn_zoo.support.errors import UserError

# The grid: lengths are multiples of a step; the number of rows is small, a multiple of a step, or the batch size.
LENGTH_STEP = 8
SMALL_ROWS, ROWS_STEP = (1, 8), 32
# Rows of a batch of which only the loss is wanted: validation text, and references of a test set.
EVALUATION_ROWS = 64
# Rows that KerasHub's `generate` searches at once: the beams of a list of thousands would fill the memory.
GENERATED_ROWS = 128


class GridBatch(NamedTuple):
    """A batch of sentences on the grid of shapes.

    Attributes:
        members: index of each sentence.
        rows: number of rows, padding included.
        widths: padded length of each side.
    """

    members: list[int]
    rows: int
    widths: tuple[int, ...]


def grid_batches(lengths: Sequence[Sequence[int]], limits: Sequence[int], batch_size: int) -> Iterator[GridBatch]:
    """Divide sentences into batches of similar length, with shapes from a grid.

    Sentences are sorted by their longest side, so that the sentences of most batches are about equally long.

    Args:
        lengths: for each side, the tokens of every sentence, special tokens included.
        limits: for each side, the maximum tokens of a sentence.
        batch_size: sentences per batch.

    Yields:
        `GridBatch`.

    Example:
        >>> [batch] = grid_batches([[3, 9]], limits=[128], batch_size=32)
        >>> batch.members, batch.rows, batch.widths
        ([0, 1], 8, (16,))
    """
    order = sorted(range(len(lengths[0])), key=lambda i: max(side[i] for side in lengths))
    for start in range(0, len(order), batch_size):
        members = order[start : start + batch_size]
        rows = grid_rows(len(members), batch_size)
        longest = [max(side[i] for i in members) for side in lengths]
        yield GridBatch(members, rows, tuple(map(grid_length, longest, limits)))


def grid_length(length: int, limit: int) -> int:
    """Return the grid length that fits `length` tokens; the limit is also on the grid."""
    return min(-(-length // LENGTH_STEP) * LENGTH_STEP, limit)


def grid_rows(count: int, most: int | None = None) -> int:
    """Return the number of rows on the grid that fits `count` of them; `most`, the batch size, is on the grid too.

    Example:
        >>> [grid_rows(count) for count in (1, 2, 9, 33)]
        [1, 8, 32, 64]
    """
    rows = next((n for n in SMALL_ROWS if n >= count), -(-count // ROWS_STEP) * ROWS_STEP)
    return rows if most is None else min(rows, most)


def pad_rows(x: np.ndarray, rows: int) -> np.ndarray:
    """Fill up a batch with copies of its last row."""
    return np.concatenate([x, np.repeat(x[-1:], rows - len(x), axis=0)]) if len(x) < rows else x


def row_batches(inputs: dict[str, np.ndarray]) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
    """Divide a batch that is padded already into parts of at most `GENERATED_ROWS`, filled up to the grid's rows.

    Yields:
        the number of real rows, and the part.

    Example:
        >>> [(count, part["ids"].shape) for count, part in row_batches({"ids": np.zeros((130, 7))})]
        [(128, (128, 7)), (2, (8, 7))]
    """
    total = len(next(iter(inputs.values())))
    for start in range(0, total, GENERATED_ROWS):
        count = min(GENERATED_ROWS, total - start)
        rows = grid_rows(count, GENERATED_ROWS)
        yield count, {name: pad_rows(value[start : start + count], rows) for name, value in inputs.items()}


def choose_bounds(
    source_lengths: Sequence[int], target_lengths: Sequence[int], bucket_count: int = 6, multiple: int = 2
) -> list[tuple[int, int]]:
    """Choose the shapes that the sentence pairs of a corpus are padded to, with as little padding as possible.

    Compiled backends compile once per shape, so there should be few. Pairs are sorted by their longer side and divided
    into buckets; each bucket is as wide, on either side, as its longest sentence with its end token, rounded up. Of all
    divisions, the one with the fewest cells is chosen,

        sum over buckets b of  n_b (S_b + T_b),

    with n_b pairs in the bucket with bounds S_b and T_b.

    Args:
        source_lengths: tokens of each source sentence, without the end token.
        target_lengths: tokens of each target sentence.
        bucket_count: maximum number of buckets.
        multiple: bounds are rounded up to multiples of it.

    Returns:
        A list of (S, T), shortest first.

    Example:
        >>> choose_bounds([3, 3, 9], [3, 4, 7], bucket_count=2)
        [(4, 6), (10, 8)]
    """
    source, target = np.asarray(source_lengths) + 1, np.asarray(target_lengths) + 1
    keys, group = np.unique(np.maximum(source, target), return_inverse=True)
    pairs_before = np.concatenate([[0], np.cumsum(np.bincount(group))])
    widest = np.zeros((2, len(keys)), dtype=np.int64)
    np.maximum.at(widest[0], group, source)
    np.maximum.at(widest[1], group, target)
    widest = -(-widest // multiple) * multiple
    # cells[b, k]: fewest cells of the first k keys in exactly b buckets; the last begins at key cut[b, k].
    cells = np.full((bucket_count + 1, len(keys) + 1), np.inf)
    cells[0, 0] = 0
    cut = np.zeros(cells.shape, dtype=np.int64)
    for end in range(1, len(keys) + 1):
        width = np.maximum.accumulate(widest[:, :end][:, ::-1], axis=1)[:, ::-1].sum(axis=0)
        total = cells[:-1, :end] + (pairs_before[end] - pairs_before[:end]) * width
        cut[1:, end] = total.argmin(axis=1)
        cells[1:, end] = total.min(axis=1)
    bounds, end = [], len(keys)
    for bucket in range(int(cells[:, end].argmin()), 0, -1):
        begin = cut[bucket, end]
        source_bound, target_bound = widest[:, begin:end].max(axis=1)
        bounds.append((int(source_bound), int(target_bound)))
        end = begin
    return bounds[::-1]


def check_bounds(bounds: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """Return the bounds of buckets in order; raise if they are not pairs of lengths."""
    pairs: list[Any] = [tuple(bound) for bound in bounds]
    if not pairs or any(len(pair) != 2 or min(pair) < 2 for pair in pairs):
        raise UserError(f"bounds={pairs} must be pairs (source, target) of lengths of at least 2.")
    # The narrowest bucket that takes a sentence pair comes first.
    return sorted(set(pairs), key=lambda bound: (sum(bound), bound))


def assign_buckets(bounds: Sequence[tuple[int, int]], corpus: Any) -> np.ndarray:
    """Return the first bucket that fits each sentence pair of an `EncodedCorpus`; raise if none does."""
    source, target = corpus.source_lengths + 1, corpus.target_lengths + 1
    bucket = np.full(len(corpus), -1)
    for index in reversed(range(len(bounds))):
        bucket[(source <= bounds[index][0]) & (target <= bounds[index][1])] = index
    if bucket.min() < 0:
        worst = int(bucket.argmin())
        raise UserError(
            f"line {corpus.lines[worst] + 1} of the corpus has {source[worst]} source and {target[worst]} "
            f"target tokens, including the end token, which exceeds the bounds {bounds}: give larger bounds, "
            "or limit the tokens of the cache."
        )
    return bucket


def rows_of_bucket(bound: tuple[int, int], tokens_per_batch: int | None, sentences_per_batch: int | None) -> int:
    """Return the rows of a bucket's batches: a multiple of 8, if there are at least 8."""
    if sentences_per_batch is not None:
        return sentences_per_batch
    rows = max(1, (tokens_per_batch or 0) // max(bound))
    return rows if rows < 8 else rows // 8 * 8
