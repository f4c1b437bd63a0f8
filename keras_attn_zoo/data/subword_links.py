"""Links between the subwords of an encoded corpus, for guided alignment."""

import contextlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from keras_attn_zoo.data.cache import EncodedCorpus, fingerprint, growing_array
from keras_attn_zoo.support.checksums import sha256
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import PathLike, atomic_path, read_json, write_json

# Part of every fingerprint: increase it whenever the same input would produce different files.
_FORMAT = 1
_META = "meta.json"
_TYPES = {"targets": np.uint16, "sources": np.uint16, "offsets": np.int64}


class SubwordLinks:
    """The links of every sentence pair of an `EncodedCorpus`, memory-mapped.

    Created by `build_subword_links`. Give it to `TranslationBatches`, whose batches then have links for
    `Translator.compile(guided_alignment=...)`.

    Args:
        folder: where the links are.

    Raises:
        UserError: the folder has no links, or damaged ones.

    Example:
        >>> links = SubwordLinks("data/links")  # doctest: +SKIP
        >>> batches = TranslationBatches(corpus, links=links, tokens_per_batch=4096)  # doctest: +SKIP
    """

    def __init__(self, folder: PathLike) -> None:
        self.folder = Path(folder)
        self.meta = read_json(self.folder / _META)
        sums = self.meta.get("sha256") if isinstance(self.meta, dict) else None
        for name in map(_file, _TYPES):
            if not isinstance(sums, dict) or sha256(self.folder / name) != sums.get(name):
                raise UserError(f"{self.folder} has no links, or is damaged ({name}): remove it and build it again.")
        self._targets, self._sources, self._offsets = (
            np.asarray(np.load(self.folder / name, mmap_mode="r", allow_pickle=False)) for name in map(_file, _TYPES)
        )

    def __len__(self) -> int:
        """Count the sentence pairs."""
        return len(self._offsets) - 1

    def matrices(self, rows: np.ndarray, target: int, source: int) -> np.ndarray:
        """Return the links of some sentence pairs, bool `(rows, target, source)`.

        Args:
            rows: sentence pairs, counted from 0; -1 has no links.
            target, source: tokens that there is room for.
        """
        starts = self._offsets[rows]
        counts = np.where(rows < 0, 0, self._offsets[rows + 1] - starts)
        # Where each link stands among all: those of a row follow one another.
        places = np.arange(counts.sum()) + np.repeat(starts - np.cumsum(counts) + counts, counts)
        found = np.zeros((len(rows), target, source), bool)
        found[np.repeat(np.arange(len(rows)), counts), self._targets[places], self._sources[places]] = True
        return found


def build_subword_links(folder: PathLike, corpus: EncodedCorpus, key: str, links: Iterable[np.ndarray]) -> SubwordLinks:
    """Write the links of an encoded corpus, or open what exists.

    Args:
        folder: where to write, a folder with nothing else in it.
        corpus: the corpus.
        key: where the links come from; what exists is opened if corpus and key are the same.
        links: for each sentence pair of the corpus, the places of linked tokens `(links, 2)`, target first; read only
            if nothing exists.
    """
    folder = Path(folder)
    found = fingerprint([], (), [_FORMAT, corpus.meta["fingerprint"], key])
    with contextlib.suppress(UserError):
        standing = SubwordLinks(folder)
        if standing.meta.get("fingerprint") == found:
            return standing
    with atomic_path(folder) as aside:
        aside.mkdir()
        with contextlib.ExitStack() as files:
            targets, sources, offsets = (
                files.enter_context(growing_array(aside / _file(name), dtype)) for name, dtype in _TYPES.items()
            )
            written = 0
            offsets([written])
            for _, of_pair in zip(range(len(corpus)), links, strict=True):
                targets(of_pair[:, 0])
                sources(of_pair[:, 1])
                written += len(of_pair)
                offsets([written])
        sums = {name: sha256(aside / name) for name in map(_file, _TYPES)}
        write_json(aside / _META, {"fingerprint": found, "sha256": sums})
    return SubwordLinks(folder)


def _file(name):
    return f"{name}.npy"
