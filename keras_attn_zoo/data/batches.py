"""Batches of a few fixed shapes, in an order fixed by a seed."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import keras
import numpy as np

from keras_attn_zoo.data import END, PAD, START
from keras_attn_zoo.data.cache import EncodedCorpus
from keras_attn_zoo.data.sampled_corpus import SampledCorpus
from keras_attn_zoo.data.shapes import assign_buckets, check_bounds, choose_bounds, rows_of_bucket
from keras_attn_zoo.data.subword_links import SubwordLinks
from keras_attn_zoo.devices import current
from keras_attn_zoo.support.errors import UserError

# Inputs by name, labels, and their weights.
Batch: TypeAlias = tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]
# Keys of the independent random streams of one seed.
_ORDER, _COINS, _SEGMENTS = range(3)


def _permutation(rng, count):
    # From uniform numbers, whose stream is the most stable across NumPy versions and platforms.
    return np.argsort(rng.random(count), kind="stable")


def _gather(ids, starts, lengths, width, end):
    """Return the ids of sentences, each with an end token, and the mask of real ones, both `(rows, width)`."""
    starts, lengths = starts[:, None], lengths[:, None]
    columns = np.arange(width)
    inside = columns < lengths
    positions = np.where(inside, starts + columns, 0)
    tokens = np.where(inside, ids[positions], PAD).astype(np.int32)
    tokens[columns == lengths] = end
    return tokens, columns <= lengths


class TranslationBatches(keras.utils.PyDataset):
    """Padded batches of an encoded corpus, as an endless stream or a single pass.

    Sentence pairs are sorted into buckets of fixed shapes, each with a fixed number of rows, so there are as many batch
    shapes as buckets; the last batch of a bucket is filled up with rows of weight zero.

    The stream is the concatenation of epochs, shuffled by (seed, epoch). It is cut into rounds of equal length, each
    followed by a validation; a round is what `fit` calls an epoch. Batch `i` is `i` batches after the start of the
    round set by `set_round`, so a run resumed at a round reads the same batches as an uninterrupted one.

    Train with `model.fit(**fit_arguments(batches), epochs=...)`.

    Every batch is `(x, y, sample_weight)`, with B rows, S source and T target tokens:

    - `x["encoder_token_ids"]`: int32 `(B, S)`, a sentence and its end token.
    - `x["encoder_padding_mask"]`: bool `(B, S)`, true on real tokens.
    - `x["decoder_token_ids"]`: int32 `(B, T)`, the start token and the sentence.
    - `x["decoder_padding_mask"]`: bool `(B, T)`.
    - `x["teacher_forcing_mask"]`, only with `teacher_forcing`: bool `(B, T)`, true where the
      decoder is fed the previous gold token instead of its own. Always true at position 0.
    - `x["links"]`, only with `links`: bool `(B, T, S)`, true where tokens of `y` and of the source are linked.
    - `y`: int32 `(B, T)`, the sentence and its end token.
    - `sample_weight`: float32 `(B, T)`, 1 on real tokens of `y`.

    Args:
        corpus: an `EncodedCorpus`, or a `SampledCorpus` for another segmentation of every sentence in each epoch.
        bounds: (S, T) of each bucket; `None` chooses them by `choose_bounds`.
        tokens_per_batch: maximum padded positions on a side; rows are rounded
            down to a multiple of 8, if there are at least 8.
        sentences_per_batch: rows of every batch. Give this or `tokens_per_batch`.
        seed: random seed of the order and of the coin tosses of teacher forcing.
        shuffle: whether to shuffle; otherwise buckets follow one another and sentences keep the order of the corpus.
        repeat: whether the stream is endless, instead of a single pass.
        bucket_count: maximum number of buckets, if `bounds` is not given.
        teacher_forcing: function of the step, counted in batches from the beginning of the stream, that returns the
            probability of feeding the gold token; with `None` it is always fed, and batches have no mask for it.
        rounds_per_epoch: approximate number of rounds in an epoch.
        steps_per_round: batches per round; overrides `rounds_per_epoch`.
        start, ends: id of the token that begins a target sentence, and of those that end a source and a target
            sentence.
        links: the `SubwordLinks` of the corpus, for guided alignment; None for batches without links.

    Attributes:
        bounds: (S, T) of the buckets.
        rows: rows of the batches of each bucket.
        batches_per_epoch: number of batches that contain the whole corpus once.
        round: the round that begins with batch 0.

    Raises:
        UserError: not exactly one batch size is given, a number is out of
            range, or a sentence is longer than the bounds.

    Example:
        >>> batches = TranslationBatches(corpus, tokens_per_batch=4096)  # doctest: +SKIP
        >>> x, y, sample_weight = batches[0]  # doctest: +SKIP
    """

    def __init__(
        self,
        corpus: EncodedCorpus | SampledCorpus,
        bounds: Sequence[tuple[int, int]] | None = None,
        tokens_per_batch: int | None = None,
        sentences_per_batch: int | None = None,
        seed: int = 0,
        shuffle: bool = True,
        repeat: bool = True,
        bucket_count: int = 6,
        teacher_forcing: Callable[[int], float] | None = None,
        rounds_per_epoch: float = 1,
        steps_per_round: int | None = None,
        start: int = START,
        ends: tuple[int, int] = (END, END),
        links: SubwordLinks | None = None,
    ) -> None:
        # Keras' worker threads lose and repeat batches from one epoch to the next; building one is fast.
        super().__init__(workers=1)
        if (tokens_per_batch is None) == (sentences_per_batch is None):
            raise UserError(
                f"tokens_per_batch={tokens_per_batch} and sentences_per_batch={sentences_per_batch}: "
                "give exactly one of them."
            )
        for name, value, least in (
            ("tokens_per_batch", tokens_per_batch, 1),
            ("sentences_per_batch", sentences_per_batch, 1),
            ("seed", seed, 0),
            ("bucket_count", bucket_count, 1),
            ("rounds_per_epoch", rounds_per_epoch, 1),
            ("steps_per_round", steps_per_round, 1),
        ):
            if value is not None and value < least:
                raise UserError(f"{name}={value} is below {least}: give at least {least}.")
        self.corpus, self.seed, self.shuffle, self.repeat = corpus, seed, shuffle, repeat
        self.teacher_forcing, self.start, self.ends, self.links = teacher_forcing, start, ends, links
        if bounds is None:
            bounds = choose_bounds(corpus.source_lengths, corpus.target_lengths, bucket_count)
        self.bounds = check_bounds(bounds)
        self.rows = [rows_of_bucket(bound, tokens_per_batch, sentences_per_batch) for bound in self.bounds]
        bucket = assign_buckets(self.bounds, corpus)
        self._members = [np.flatnonzero(bucket == index) for index in range(len(self.bounds))]
        self._batch_counts = [-(-len(m) // rows) for m, rows in zip(self._members, self.rows, strict=True)]
        self.batches_per_epoch = sum(self._batch_counts)
        if not repeat:
            self._round_length = self.batches_per_epoch
        else:
            self._round_length = steps_per_round or max(1, round(self.batches_per_epoch / rounds_per_epoch))
        self.round = 0
        self._plan = (None, None)

    def __len__(self) -> int:
        """Count the batches of a round."""
        return self._round_length

    @property
    def num_batches(self) -> int | None:
        """The number of batches for Keras: `None` for an endless stream."""
        return None if self.repeat else len(self)

    def __iter__(self) -> Iterator[Batch]:
        """Yield the batches of the round."""
        return (self[index] for index in range(len(self)))

    def set_round(self, number: int) -> None:
        """Make batch 0 the first of round `number`, counted from 0."""
        if number < 0 or (number > 0 and not self.repeat):
            raise UserError(f"invalid round {number}: give 0 or more, and only 0 for a single pass.")
        self.round = number

    def _rng(self, *key):
        return np.random.default_rng((self.seed, *key))

    def _rows_of_epoch(self, epoch):
        """List (bucket, rows) of each batch of an epoch in order; a row of -1 is padding."""
        rng = self._rng(_ORDER, epoch)
        batches = []
        for bucket, (members, rows, count) in enumerate(zip(self._members, self.rows, self._batch_counts, strict=True)):
            if self.shuffle:
                members = members[_permutation(rng, len(members))]
            filled = np.full((count, rows), -1)
            filled.flat[: len(members)] = members
            batches.extend((bucket, batch) for batch in filled)
        if self.shuffle:
            batches = [batches[i] for i in _permutation(rng, len(batches))]
        return batches

    def _locate(self, index):
        """Return the epoch of a batch of the stream, and its position there."""
        if index < 0 or (not self.repeat and index >= len(self)):
            raise IndexError(f"batch {index} of {len(self)}")
        return divmod(self.round * len(self) + index, self.batches_per_epoch)

    def _bucket_and_rows(self, index):
        epoch, position = self._locate(index)
        planned, plan = self._plan
        if planned != epoch:
            plan = self._rows_of_epoch(epoch)
            self._plan = (epoch, plan)
        return plan[position]

    def bound(self, index: int) -> tuple[int, int]:
        """Return the shape (S, T) that a batch is padded to."""
        return self.bounds[self._bucket_and_rows(index)[0]]

    def sentences(self, index: int) -> np.ndarray:
        """Return the corpus index of each row of a batch, shape `(B,)`; -1 is padding."""
        return self._bucket_and_rows(index)[1]

    def _teacher_forcing_mask(self, index, shape):
        step = self.round * len(self) + index
        ratio = float(self.teacher_forcing(step))
        if not 0 <= ratio <= 1:
            raise UserError(f"teacher_forcing returned {ratio} at step {step}: it must return a number from 0 to 1.")
        mask = self._rng(_COINS, *self._locate(index)).random(shape) < ratio
        mask[:, 0] = True
        return mask

    def __getitem__(self, index: int) -> Batch:
        """Build a batch; see the class for its parts."""
        bucket, rows = self._bucket_and_rows(index)
        source_width, target_width = self.bounds[bucket]
        key = (self.seed, _SEGMENTS, self._locate(index)[0])
        source, source_mask = _gather(*self.corpus.spans("source", rows, key), source_width, self.ends[0])
        labels, target_mask = _gather(*self.corpus.spans("target", rows, key), target_width, self.ends[1])
        previous = np.full_like(labels, self.start)
        previous[:, 1:] = np.where(target_mask[:, 1:], labels[:, :-1], PAD)
        x = {
            "encoder_token_ids": source,
            "encoder_padding_mask": source_mask,
            "decoder_token_ids": previous,
            "decoder_padding_mask": target_mask,
        }
        if self.teacher_forcing is not None:
            x["teacher_forcing_mask"] = self._teacher_forcing_mask(index, labels.shape)
        if self.links is not None:
            x["links"] = self.links.matrices(rows, target_width, source_width)
        return x, labels, (target_mask & (rows >= 0)[:, None]).astype(np.float32)


def evaluation_batches(
    corpus: EncodedCorpus,
    bounds: Sequence[tuple[int, int]] | None = None,
    tokens_per_batch: int | None = None,
    sentences_per_batch: int | None = None,
    bucket_count: int = 6,
    start: int = START,
    ends: tuple[int, int] = (END, END),
) -> TranslationBatches:
    """Create batches for a single pass in a fixed order, as validation and scoring need them.

    Args:
        corpus: an `EncodedCorpus`.
        bounds, tokens_per_batch, sentences_per_batch, bucket_count, start, ends: as in `TranslationBatches`.

    Returns:
        `TranslationBatches`; `sentences(i)` tells which row is which sentence.

    Raises:
        UserError: as in `TranslationBatches`.

    Example:
        >>> batches = evaluation_batches(corpus, sentences_per_batch=64)  # doctest: +SKIP
        >>> model.evaluate(as_fit_input(batches))  # doctest: +SKIP
    """
    return TranslationBatches(
        corpus,
        bounds=bounds,
        tokens_per_batch=tokens_per_batch,
        sentences_per_batch=sentences_per_batch,
        shuffle=False,
        repeat=False,
        bucket_count=bucket_count,
        start=start,
        ends=ends,
    )


class MappedBatches(keras.utils.PyDataset):
    """What a function makes of the batches of another data set.

    Args:
        dataset: the other one, which says how it is read.
        function: of a batch.
    """

    def __init__(self, dataset: keras.utils.PyDataset, function: Callable[[Any], Any]) -> None:
        super().__init__(dataset.workers, dataset.use_multiprocessing, dataset.max_queue_size)
        self._dataset, self._function = dataset, function
        self.on_epoch_begin, self.on_epoch_end = dataset.on_epoch_begin, dataset.on_epoch_end

    @property
    def num_batches(self) -> int | None:
        """The number of batches for Keras."""
        return self._dataset.num_batches

    def __getitem__(self, index: int) -> Any:
        """Return a batch."""
        return self._function(self._dataset[index])


def as_fit_input(batches: TranslationBatches) -> Any:
    """Return batches in a form that `fit`, `evaluate` and `validation_data` accept.

    TensorFlow gets a `tf.data.Dataset` with unknown shapes, because Keras would
    expect all batches to have the shapes of the first two.

    Args:
        batches: `TranslationBatches`. If they repeat, `fit` needs `steps_per_epoch`, which `fit_arguments` provides.

    Returns:
        `batches` themselves, or a dataset that yields them; with several devices, in rows that these can share.

    Example:
        >>> model.evaluate(as_fit_input(evaluation_batches(corpus, tokens_per_batch=4096)))  # doctest: +SKIP
    """
    devices = current()
    shared: Any = batches if devices is None else MappedBatches(batches, devices.share)
    if keras.config.backend() != "tensorflow":
        return shared
    import tensorflow as tf

    def stream():
        indices = itertools.count() if batches.repeat else range(len(batches))
        return (shared[index] for index in indices)

    signature = keras.tree.map_structure(lambda array: tf.TensorSpec((None,) * array.ndim, array.dtype), shared[0])
    dataset = tf.data.Dataset.from_generator(stream, output_signature=signature)
    if not batches.repeat:
        dataset = dataset.apply(tf.data.experimental.assert_cardinality(len(batches)))
    return dataset.prefetch(tf.data.AUTOTUNE)


def fit_arguments(batches: TranslationBatches) -> dict[str, Any]:
    """Return the arguments with which `fit` reads training batches, round by round.

    To resume, call `batches.set_round` first: `fit` starts at that round and counts it as its epoch of the same number.
    A further `fit` starts there again unless another round is set.

    Args:
        batches: `TranslationBatches` that repeat.

    Returns:
        A dict of `x`, `steps_per_epoch`, `initial_epoch` and `shuffle`.

    Example:
        >>> batches = TranslationBatches(corpus, tokens_per_batch=4096)  # doctest: +SKIP
        >>> model.fit(**fit_arguments(batches), epochs=10)  # doctest: +SKIP
    """
    return {
        "x": as_fit_input(batches),
        "steps_per_epoch": len(batches),
        "initial_epoch": batches.round,
        # The order is already fixed; Keras could not shuffle a stream anyway, and warns if asked to.
        "shuffle": False,
    }
