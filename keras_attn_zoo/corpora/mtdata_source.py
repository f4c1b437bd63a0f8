"""Text through mtdata: its index says where a corpus is, its parsers read it; the download is resumed by `fetching`."""

import contextlib
import functools
import hashlib
import logging
import os
import sys
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from keras_attn_zoo.data.splits import Pair
from keras_attn_zoo.support.caches import who_else_writes
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.extras import require
from keras_attn_zoo.support.fetching import fetch_unlisted
from keras_attn_zoo.support.files import atomic_files, reason_of, shown
from keras_attn_zoo.support.locks import locked
from keras_attn_zoo.support.messages import progress_bar

_LOG = logging.getLogger(__name__)


def read_entries(
    entries: Iterable[str | dict[str, Any]], sides: tuple[str, str], folder: Path, index_folder: Path
) -> Iterator[Pair]:
    """Download entries of mtdata, and yield their sentence pairs, one entry after the other.

    Args:
        entries: names in mtdata's index; or `{"name": ..., "url": [source, target]}` for what it lacks.
        sides: languages of source and target; an entry of the other direction is turned round.
        folder: for the downloaded files; those of an earlier attempt are kept or completed.
        index_folder: for mtdata's own index, unless the environment variable `MTDATA` names another folder.

    Raises:
        MissingPackageError: mtdata is not installed.
        DownloadError: see `fetch_unlisted`.
        UserError: the index has no such entry; a file is damaged.
    """
    require("mtdata", user="this corpus", extra="corpora")
    # It is read when mtdata is first imported.
    os.environ.setdefault("MTDATA", str(index_folder))
    for entry in entries:
        with _silenced():
            found, turned = _find(entry, sides)
        yield from _read(found, turned, folder)


def _read(entry, turned, folder):
    from mtdata.parser import Parser

    with _silenced():
        try:
            # The cache needs the index.
            several = isinstance(entry.url, tuple)
            paths = [_fetched(url, folder) for url in entry.url] if several else _cache_class()(folder).get_entry(entry)
            rows = Parser(paths, ext=entry.in_ext or None, ent=entry).read_segs(show_pbar=False)
            for row in rows:
                source, target = (row[0] or "", row[1] or "") if len(row) > 1 else ("", "")
                yield (target, source) if turned else (source, target)
        except (UserError, GeneratorExit):
            raise
        # mtdata raises many kinds, `Exception` and `AssertionError` among them.
        except Exception as error:
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            raise UserError(
                f"cannot read {entry.did} ({reason}): remove {shown(folder)} to download it again."
            ) from error


def _find(entry, sides):
    """Return an entry of mtdata, and whether its source is the second side."""
    from mtdata.entry import DatasetId, Entry
    from mtdata.iso.bcp47 import bcp47

    if isinstance(entry, str):
        name, index = DatasetId.parse(entry), _index()
        if name not in index:
            raise UserError(f"mtdata's index has no {entry}: pip install --upgrade mtdata, or remove its index.")
        found = index[name]
    else:
        found = Entry(did=entry["name"], url=tuple(entry["url"]), ext="txt.gz", in_ext="txt")
    return found, found.did.langs[0] != bcp47(sides[0])


@functools.cache
def _cache_class():
    from mtdata.cache import Cache

    class ResumingCache(Cache):
        """mtdata's own downloads start over when they break, and go on where a certificate is wrong."""

        def get_local_path(self, url, filename=None, fix_missing=True, entry=None):
            return _fetched(url, self.root)

        def get_local_in_paths(self, path, entry):
            _check_inside(path)
            return super().get_local_in_paths(path, entry)

    return ResumingCache


def _check_inside(archive):
    """Raise if an archive would be unpacked to outside its folder: a link in one may lead anywhere."""
    # Before Python 3.11.4, there is no such check.
    if tarfile.is_tarfile(archive) and hasattr(tarfile, "data_filter"):
        with tarfile.open(archive) as members:
            for member in members:
                tarfile.data_filter(member, str(archive.parent))


def _fetched(url, folder):
    """Download a file; return its path."""
    # Different addresses end in the same name; the name has the suffix that says how to read the file.
    name = url.split("/")[-1]
    path = folder / f"{hashlib.sha256(url.encode()).hexdigest()[:8]}-{name}"
    with progress_bar(f"downloading {name}", None, "B") as progress:
        fetch_unlisted(url, path, progress)
    return path


def _index():
    """The index of mtdata, which it writes at first with the help of any `mtdata*.py` in the current folder."""
    import mtdata

    if reason := who_else_writes(mtdata.cache_dir):
        raise UserError(
            f"mtdata's index in {shown(mtdata.cache_dir)} is left alone, since {reason}, and it may hold programs: "
            "change that, or set MTDATA to a folder of your own."
        )
    file = mtdata.cached_index_file
    if "mtdata.index" not in sys.modules and not file.exists():
        _LOG.info("mtdata writes its index to %s, once; this takes half a minute", shown(file.parent))
        with locked(file.parent, wait=True):
            if not file.exists():
                _write_index(file)
    try:
        with contextlib.chdir(file.parent):
            from mtdata.index import INDEX
    # Whatever its bytes say.
    except Exception as error:
        raise UserError(f"mtdata cannot read its index {shown(file)} ({reason_of(error)}): remove it.") from error
    return INDEX


def _write_index(file):
    """Have mtdata write its index, whole: if it is stopped, it leaves half of one, and cannot read that afterwards."""
    import mtdata

    with atomic_files(file.parent, last=file.name) as aside, contextlib.chdir(file.parent):
        mtdata.cached_index_file = aside / file.name
        try:
            import mtdata.index
        finally:
            mtdata.cached_index_file = file


@contextlib.contextmanager
def _silenced():
    """Keep mtdata from setting up the root logger, and from logging through it."""
    root, nowhere = logging.getLogger(), logging.NullHandler()

    def from_elsewhere(record):
        return f"{os.sep}mtdata{os.sep}" not in record.pathname

    root.addHandler(nowhere)
    root.addFilter(from_elsewhere)
    try:
        yield
    finally:
        root.removeFilter(from_elsewhere)
        root.removeHandler(nowhere)
