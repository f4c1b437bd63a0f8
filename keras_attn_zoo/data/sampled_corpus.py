"""Subword sampling: several segmentations of each sentence, of which each epoch draws one."""

import contextlib
import functools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from keras_attn_zoo.data.cache import EncodedCorpus, SideWriter, fingerprint, growing_array
from keras_attn_zoo.data.subwords import Subwords
from keras_attn_zoo.data.truncation import UNCUT, Truncation
from keras_attn_zoo.support.checksums import sha256
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import PathLike, atomic_path, read_json, write_json

# Part of every fingerprint: increase it whenever the same input would produce different files.
_FORMAT = 1
_META = "meta.json"
_SIDES = ("source", "target")
_PARTS = ("ids", "offsets", "scores", "firsts")
# Sentences whose probabilities are computed at once.
_CHUNK = 100_000


class SampledCorpus:
    """The best segmentations of every sentence of an `EncodedCorpus`, memory-mapped, of which one is drawn.

    Created by `build_sampled_corpus`. Use it in place of the `EncodedCorpus` to train on subword samples, as Kudo
    (2018) proposes: a segmentation x of a sentence is drawn with a probability in proportion to P(x)^alpha, from as
    many as there are. Which one depends on the key, such as seed and epoch, and on the sentence, whatever else is in
    the batch.

    Args:
        folder: where the segmentations are.
        corpus: the `EncodedCorpus`.
        alpha: exponent of the probabilities.

    Attributes:
        source_lengths, target_lengths: tokens of the longest segmentation of each sentence, so that a batch has room
            for any of them.
        lines: see `EncodedCorpus`.

    Raises:
        UserError: the folder has no segmentations, or damaged ones.

    Example:
        >>> corpus = SampledCorpus("data/train-best-30", EncodedCorpus("data/train"), 0.1)  # doctest: +SKIP
        >>> ids, starts, lengths = corpus.spans("source", rows, key=(seed, epoch))  # doctest: +SKIP
    """

    def __init__(self, folder: PathLike, corpus: EncodedCorpus, alpha: float) -> None:
        self.folder, self.corpus, self.alpha = Path(folder), corpus, alpha
        self.lines = corpus.lines
        self.meta = read_json(self.folder / _META)
        if not isinstance(self.meta, dict) or not isinstance(self.meta.get("sha256"), dict):
            raise self._damaged(_META)
        for side in _SIDES:
            for part in _PARTS:
                name = _file(side, part)
                if sha256(self.folder / name) != self.meta["sha256"].get(name):
                    raise self._damaged(name)
        self._sides = {side: [self._open(_file(side, part)) for part in _PARTS] for side in _SIDES}
        self.source_lengths, self.target_lengths = map(self._longest, _SIDES)

    def _damaged(self, name):
        return UserError(f"{self.folder} has no segmentations, or is damaged ({name}): remove it and build it again.")

    def _open(self, name):
        return np.asarray(np.load(self.folder / name, mmap_mode="r", allow_pickle=False))

    def _longest(self, side):
        _, offsets, _, firsts = self._sides[side]
        if len(firsts) != len(self.lines) + 1:
            raise self._damaged(_file(side, "firsts"))
        return np.maximum.reduceat(np.diff(offsets), firsts[:-1])

    def __len__(self) -> int:
        """Count the sentence pairs."""
        return len(self.lines)

    def tokens(self, side: str) -> int:
        """Return how many tokens the sentences of a side have, on average over all draws."""
        return self._tokens[side]

    @functools.cached_property
    def _tokens(self):
        return {side: round(self._expected(side)) for side in _SIDES}

    def _expected(self, side):
        _, offsets, scores, firsts = self._sides[side]
        expected = 0.0
        for begin in range(0, len(self), _CHUNK):
            bounds = firsts[begin : begin + _CHUNK + 1]
            first, counts = bounds[:-1] - bounds[0], np.diff(bounds)
            scaled = self.alpha * scores[bounds[0] : bounds[-1]].astype("float64")
            weights = np.exp(scaled - np.repeat(np.maximum.reduceat(scaled, first), counts))
            lengths = np.diff(offsets[bounds[0] : bounds[-1] + 1])
            expected += (np.add.reduceat(weights * lengths, first) / np.add.reduceat(weights, first)).sum()
        return expected

    def spans(self, side: str, rows: np.ndarray, key: Sequence[int] = ()) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the ids of a side, and for each row where its segmentation begins and how long it is.

        Args:
            side: "source" or "target".
            rows: sentence pairs, counted from 0; -1 is an empty sentence.
            key: integers of at least 0, by which segmentations are drawn.
        """
        ids, offsets, scores, firsts = self._sides[side]
        first, last = firsts[np.maximum(rows, 0)], firsts[np.maximum(rows, 0) + 1]
        columns = first[:, None] + np.arange((last - first).max())
        # Of the last candidate where there are no more of them.
        scaled = self.alpha * scores[np.minimum(columns, last[:, None] - 1)].astype("float64")
        scaled = np.where(columns < last[:, None], scaled, -np.inf)
        sums = np.exp(scaled - scaled.max(axis=1, keepdims=True)).cumsum(axis=1)
        below = (sums <= uniform_numbers((*key, _SIDES.index(side)), rows)[:, None] * sums[:, -1:]).sum(axis=1)
        chosen = np.minimum(first + below, last - 1)
        starts = offsets[chosen]
        return ids, starts, np.where(rows < 0, 0, offsets[chosen + 1] - starts)


def uniform_numbers(key: Sequence[int], rows: np.ndarray) -> np.ndarray:
    """Return a number from 0 up to 1 for each row, which depends on the key and the row alone.

    Args:
        key: integers of at least 0.
        rows: integers of at least -1.

    Example:
        >>> bool(uniform_numbers((1, 2), np.array([7]))[0] == uniform_numbers((1, 2), np.array([5, 7]))[1])
        True
    """
    state = np.random.SeedSequence(tuple(key)).generate_state(1, np.uint64)
    # The generator SplitMix64, as many steps ahead as the number of the row.
    mixed = state + (np.asarray(rows) + 2).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed = mixed ^ (mixed >> np.uint64(31))
    return (mixed >> np.uint64(11)) * 2.0**-53


def build_sampled_corpus(
    folder: PathLike,
    corpus: EncodedCorpus,
    pairs: Iterable[tuple[str, str]],
    source_subwords: Subwords,
    target_subwords: Subwords,
    count: int,
    alpha: float,
    max_tokens: int | None = None,
    progress: Callable[[int], None] | None = None,
    truncation: Truncation = UNCUT,
) -> SampledCorpus:
    """Segment the sentences of an encoded corpus in several ways, or open what exists.

    On disk, this takes about `count` times the space of the ids.

    Args:
        folder: where to write, a folder with nothing else in it.
        corpus: what `build_cache` made of the pairs.
        pairs: the same pairs; those that were dropped are skipped.
        source_subwords, target_subwords: the same `Subwords`, of unigram models.
        count: segmentations of a sentence, at most.
        alpha: see `SampledCorpus`; the files do not depend on it.
        max_tokens: maximum tokens of a segmentation; longer ones are left out.
        progress: called occasionally with the number of pairs done.
        truncation: what segmentations are cut to, that of the encoded corpus.

    Returns:
        The `SampledCorpus`.

    Raises:
        UserError: a subword model that is not a unigram model; the pairs cannot be read.
    """
    folder = Path(folder)
    found = fingerprint([], (), [_FORMAT, corpus.meta["fingerprint"], count, max_tokens])
    with contextlib.suppress(UserError):
        standing = SampledCorpus(folder, corpus, alpha)
        if standing.meta.get("fingerprint") == found:
            return standing
    with atomic_path(folder) as aside:
        aside.mkdir()
        with contextlib.ExitStack() as files:
            writers = [
                _writer(aside, side, model, max_tokens, cut, files)
                for side, model, cut in zip(
                    _SIDES,
                    (source_subwords, target_subwords),
                    (truncation.source_ids, truncation.target_ids),
                    strict=True,
                )
            ]
            done = 0
            for number, pair in enumerate(pairs):
                if done == len(corpus) or number != corpus.lines[done]:
                    continue
                for write, sentence, own in zip(writers, pair, (corpus.source, corpus.target), strict=True):
                    write(sentence, count, own(done).tolist())
                done += 1
                if progress and done % 1000 == 0:
                    progress(done)
        sums = {_file(side, part): sha256(aside / _file(side, part)) for side in _SIDES for part in _PARTS}
        write_json(aside / _META, {"fingerprint": found, "sha256": sums})
    return SampledCorpus(folder, corpus, alpha)


def _file(side, part):
    return f"{side}_{part}.npy"


def _writer(folder, side, subwords, max_tokens, cut, files):
    """Return a function that appends the segmentations of a sentence to the arrays of a side."""
    segmentations = SideWriter(folder, side, subwords.vocabulary_size, files)
    append_scores = files.enter_context(growing_array(folder / _file(side, "scores"), np.float32))
    append_firsts = files.enter_context(growing_array(folder / _file(side, "firsts"), np.int64))
    append_firsts([0])
    written = 0

    def write(sentence, count, best):
        nonlocal written
        every = [(cut(ids), score) for ids, score in subwords.n_best(sentence, count)]
        # The best segmentation fits; of several that are equally good, it may be another one than the search's first.
        kept = [(ids, score) for ids, score in every if max_tokens is None or len(ids) <= max_tokens] or [(best, 0.0)]
        segmentations.append([ids for ids, _ in kept])
        append_scores([score for _, score in kept])
        written += len(kept)
        append_firsts([written])

    return write
