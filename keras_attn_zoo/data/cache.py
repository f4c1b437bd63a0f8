"""Token ids of a corpus, encoded once and read from memory-mapped files."""

import contextlib
import hashlib
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_attn_zoo.data.encoded_text import encode_sentences
from keras_attn_zoo.data.filters import Filter, FilterReport, filter_numbered_pairs
from keras_attn_zoo.data.truncation import UNCUT, Truncation
from keras_attn_zoo.support.checksums import sha256
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import PathLike, atomic_path, read_json, write_json

if TYPE_CHECKING:
    from keras_attn_zoo.data.subwords import Subwords

# Part of every fingerprint: increase it whenever the same input would produce different files.
FORMAT = 1

_META = "meta.json"
_LINES = "lines.npy"
_SIDES = ("source", "target")
_CHUNK = 10_000


def _ids_file(side):
    return f"{side}_ids.npy"


def _offsets_file(side):
    return f"{side}_offsets.npy"


_FILES = {_META, _LINES, *map(_ids_file, _SIDES), *map(_offsets_file, _SIDES)}


class EncodedCorpus:
    """The token ids of a filtered parallel corpus, memory-mapped.

    Created by `build_cache`. Ids exclude start and end tokens. The files are compared with their SHA-256 when the cache
    is opened, which reads each of them once and takes about a second per gigabyte, or per ten million sentence pairs.

    Args:
        folder: the cache.

    Attributes:
        source_ids, target_ids: all ids of a side in one flat array.
        source_offsets, target_offsets: where each sentence begins in it, and the end; one longer than the corpus.
        source_lengths, target_lengths: tokens per sentence.
        lines: number of each sentence pair in the corpus before filtering, counted from 0.
        report: the `FilterReport` of the pairs kept and dropped.
        reused: whether `build_cache` reused an existing cache.

    Raises:
        UserError: the folder has no cache, or a damaged one.

    Example:
        >>> corpus = EncodedCorpus("runs/de-en/cache/train")  # doctest: +SKIP
        >>> corpus.source(0), corpus.target(0)  # doctest: +SKIP
    """

    def __init__(self, folder: PathLike) -> None:
        self.folder = Path(folder)
        self.reused = True
        self.meta = self._read_meta()
        self.report = self._read_report()
        self._check_sums()
        self.lines = self._open(_LINES)
        self.source_ids, self.source_offsets, self.source_lengths = self._open_side("source")
        self.target_ids, self.target_offsets, self.target_lengths = self._open_side("target")

    def _damaged(self, reason):
        return UserError(f"{self.folder} is not a cache, or is damaged ({reason}): remove it and build it again.")

    def _read_meta(self):
        meta = read_json(self.folder / _META)
        if not isinstance(meta, dict) or not {"format", "fingerprint", "report", "sha256"} <= meta.keys():
            raise self._damaged(f"{_META} is incomplete")
        if meta["format"] != FORMAT:
            raise self._damaged(f"format {meta['format']}, not {FORMAT}")
        return meta

    def _check_sums(self):
        sums = self.meta["sha256"]
        if not isinstance(sums, dict) or sums.keys() != _FILES - {_META}:
            raise self._damaged(f"{_META} does not have the checksums of the files")
        for name, expected in sums.items():
            if sha256(self.folder / name) != expected:
                raise self._damaged(f"{name} was changed")

    def _read_report(self):
        try:
            return FilterReport(**self.meta["report"])
        except TypeError as error:
            raise self._damaged(f"{_META}: {error}") from None

    def _open(self, name):
        try:
            array = np.load(self.folder / name, mmap_mode="r", allow_pickle=False)
        except (OSError, EOFError, ValueError) as error:
            raise self._damaged(f"{name}: {error}") from None
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise self._damaged(f"{name}: {array.dtype} of shape {array.shape}")
        # A plain view: indexing a memmap object costs more.
        return np.asarray(array)

    def _open_side(self, side):
        ids, offsets = self._open(_ids_file(side)), self._open(_offsets_file(side))
        lengths = np.diff(offsets)
        fits = len(lengths) == len(self.lines) > 0 and offsets[0] == 0 and offsets[-1] == len(ids)
        if not fits or lengths.min() < 1:
            raise self._damaged(f"{_offsets_file(side)} does not fit")
        return ids, offsets, lengths

    def __len__(self) -> int:
        """Count the sentence pairs."""
        return len(self.lines)

    def source(self, index: int) -> np.ndarray:
        """Return the source ids of a sentence pair, shape `(length,)`."""
        return self.source_ids[self.source_offsets[index] : self.source_offsets[index + 1]]

    def target(self, index: int) -> np.ndarray:
        """Return the target ids of a sentence pair, shape `(length,)`."""
        return self.target_ids[self.target_offsets[index] : self.target_offsets[index + 1]]

    def tokens(self, side: str) -> int:
        """Return how many tokens the sentences of a side have."""
        return len(self.source_ids if side == "source" else self.target_ids)

    def spans(self, side: str, rows: np.ndarray, key: Sequence[int] = ()) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the ids of a side, and for each row where its sentence begins and how long it is.

        Args:
            side: "source" or "target".
            rows: sentence pairs, counted from 0; -1 is an empty sentence.
            key: nothing here; see `SampledCorpus`.
        """
        ids, offsets, lengths = (getattr(self, f"{side}_{part}") for part in ("ids", "offsets", "lengths"))
        return ids, offsets[rows], np.where(rows < 0, 0, lengths[rows])

    def first_sources(self, sentences: Sequence[str], subwords: "Subwords") -> list[list[int]]:
        """Return the ids of the first source sentences of the text, those that were dropped included.

        Args:
            sentences: the sentences, from the first before filtering; encoded here only if they were dropped.
            subwords: the `Subwords` of the source side.

        Returns:
            The ids of each sentence, the end token included.
        """
        kept = {int(self.lines[i]): int(i) for i in np.flatnonzero(self.lines < len(sentences))}
        dropped = [number for number in range(len(sentences)) if number not in kept]
        encoded = dict(zip(dropped, encode_sentences(subwords, [sentences[i] for i in dropped]), strict=True))
        for number, i in kept.items():
            encoded[number] = [*self.source(i).tolist(), subwords.end]
        return [encoded[number] for number in range(len(sentences))]


def _hash_pairs(digest, pairs):
    """Hash the files that pairs are read from, or else the pairs."""
    if hasattr(pairs, "paths"):
        digest.update(json.dumps([type(pairs).__name__, getattr(pairs, "columns", None)]).encode())
        for path in pairs.paths:
            with open(path, "rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        return
    for source, target in pairs:
        digest.update(f"{len(source)} {len(target)} {source}{target}".encode())


def fingerprint(pairs: Iterable[tuple[str, str]], subwords: "Iterable[Subwords]", settings: Any) -> str:
    """Return a hash of the text, the subword models and the settings.

    Args:
        pairs: sentence pairs; those with `paths` are read as files.
        subwords: any number of `Subwords`.
        settings: plain data.

    Returns:
        A string of hexadecimal digits.

    Example:
        >>> fingerprint([("a", "b")], (), []) == fingerprint([("a", "c")], (), [])
        False
    """
    digest = hashlib.sha256(json.dumps([FORMAT, settings], sort_keys=True).encode())
    for model in subwords:
        digest.update(bytes.fromhex(model.checksum))
    _hash_pairs(digest, pairs)
    return digest.hexdigest()


@contextlib.contextmanager
def growing_array(path: PathLike, dtype: Any) -> Iterator[Callable[[Sequence[Any] | np.ndarray], None]]:
    """Open a one-dimensional `.npy` file and return a function that appends to it."""
    dtype, size = np.dtype(dtype), 0

    with open(path, "wb") as file:

        def write_header():
            # NumPy pads the header, so that the length, known only at the end, fits in later.
            header = {"descr": dtype.str, "fortran_order": False, "shape": (size,)}
            np.lib.format.write_array_header_1_0(file, header)

        def append(values):
            nonlocal size
            file.write(np.asarray(values, dtype=dtype).tobytes())
            size += len(values)

        write_header()
        yield append
        file.seek(0)
        write_header()


class SideWriter:
    """Writes the ids and offsets of the sentences of one side."""

    def __init__(self, folder: Path, side: str, vocabulary_size: int, files: contextlib.ExitStack) -> None:
        dtype = np.uint16 if vocabulary_size <= 2**16 else np.int32
        self._append_ids = files.enter_context(growing_array(folder / _ids_file(side), dtype))
        self._append_offsets = files.enter_context(growing_array(folder / _offsets_file(side), np.int64))
        self._append_offsets([0])
        self._size = 0

    def append(self, sentences: Sequence[Sequence[int]]) -> None:
        """Write the ids of some sentences."""
        ends = self._size + np.cumsum([len(ids) for ids in sentences], dtype=np.int64)
        self._append_offsets(ends)
        self._append_ids(list(itertools.chain.from_iterable(sentences)))
        self._size += sum(map(len, sentences))


def _reason_to_drop(encoded, limits):
    """The FilterReport attribute that counts a dropped pair; None to keep it."""
    for ids, limit in zip(encoded, limits, strict=True):
        if not ids:
            return "empty"
        if limit is not None and len(ids) > limit:
            return "over_limit"
    return None


def _chunks(items):
    while chunk := list(itertools.islice(items, _CHUNK)):
        yield chunk


def _write_arrays(folder, pairs, subwords, pair_filter, cuts, limits, progress):
    """Write ids, offsets and line numbers; return the report."""
    report, done = FilterReport(), 0
    with contextlib.ExitStack() as files:
        append_lines = files.enter_context(growing_array(folder / _LINES, np.int64))
        writers = [
            SideWriter(folder, side, model.vocabulary_size, files) for side, model in zip(_SIDES, subwords, strict=True)
        ]
        for chunk in _chunks(filter_numbered_pairs(pairs, pair_filter, report)):
            numbers, *texts = zip(*chunk, strict=True)
            encoded = [model.encode(list(text)) for model, text in zip(subwords, texts, strict=True)]
            kept = []
            for number, *ids in zip(numbers, *encoded, strict=True):
                ids = [cut(one) for cut, one in zip(cuts, ids, strict=True)]
                reason = _reason_to_drop(ids, limits)
                if reason:
                    report.kept -= 1
                    report.count(reason)
                else:
                    kept.append((number, *ids))
            append_lines([row[0] for row in kept])
            for column, writer in enumerate(writers, start=1):
                writer.append([row[column] for row in kept])
            done += len(chunk)
            if progress:
                progress(done)
    report.check_kept(pairs)
    return report


def _standing(folder, fingerprint):
    """Open the cache in a folder if it is complete and has this fingerprint; otherwise return None."""
    try:
        corpus = EncodedCorpus(folder)
    except UserError:
        return None
    return corpus if corpus.meta["fingerprint"] == fingerprint else None


def build_cache(
    folder: PathLike,
    pairs: Iterable[tuple[str, str]],
    source_subwords: "Subwords",
    target_subwords: "Subwords",
    pair_filter: Filter | None = None,
    max_source_tokens: int | None = None,
    max_target_tokens: int | None = None,
    progress: Callable[[int], None] | None = None,
    truncation: Truncation = UNCUT,
) -> EncodedCorpus:
    """Encode a parallel corpus, or open its existing cache.

    A cache is reused if the text, the subword models, the filter, the limits
    and the truncation are the same; otherwise, or if it is damaged, it is rebuilt.

    Args:
        folder: the cache, a folder with nothing else in it.
        pairs: (source, target) sentences that can be iterated more than once: `ParallelFiles`, `TSVFile` or a list.
        source_subwords, target_subwords: `Subwords` of the two sides.
        pair_filter: a `Filter`; with `None`, only pairs with an empty side are dropped.
        max_source_tokens, max_target_tokens: maximum tokens per sentence, without start and end; pairs above are
            dropped and counted. `None` for no limit.
        progress: called occasionally with the number of pairs encoded.
        truncation: what sentences are cut to, before the limits are applied.

    Returns:
        The `EncodedCorpus`; its `reused` tells whether the cache existed.

    Raises:
        UserError: the corpus cannot be read, no pairs are left, or the folder has other files.

    Example:
        >>> from keras_attn_zoo.data.subwords import Subwords, train_subword_pair
        >>> pairs = [("ein Haus", "a house"), ("ein Hund", "a dog")]
        >>> models = train_subword_pair(pairs, "/tmp/subwords", None, model_type="word")
        >>> corpus = build_cache("/tmp/cache", pairs, *map(Subwords, models))
        >>> len(corpus), corpus.source_lengths.tolist()
        (2, [2, 2])
    """
    folder = Path(folder)
    if iter(pairs) is pairs:
        raise UserError("pairs can be iterated only once: give a list, ParallelFiles or TSVFile.")
    if folder.is_dir() and (others := {path.name for path in folder.iterdir()} - _FILES):
        raise UserError(f"{folder} has other files in it ({min(others)}): choose a folder for the cache alone.")
    pair_filter = pair_filter or Filter()
    subwords, limits = (source_subwords, target_subwords), (max_source_tokens, max_target_tokens)
    cuts = truncation.source_ids, truncation.target_ids
    # The last was once an option.
    settings = [pair_filter.described(pairs), *limits, "drop"]
    if truncation != UNCUT:
        settings.append(asdict(truncation))
    found = fingerprint(pairs, subwords, settings)
    if corpus := _standing(folder, found):
        return corpus
    with atomic_path(folder) as aside:
        aside.mkdir()
        report = _write_arrays(aside, pairs, subwords, pair_filter, cuts, limits, progress)
        sums = {name: sha256(aside / name) for name in sorted(_FILES - {_META})}
        write_json(aside / _META, {"format": FORMAT, "fingerprint": found, "report": asdict(report), "sha256": sums})
    corpus = EncodedCorpus(folder)
    corpus.reused = False
    return corpus
