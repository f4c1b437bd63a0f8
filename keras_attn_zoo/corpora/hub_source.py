"""Text of data sets on the Hugging Face Hub, downloaded with its library and compared with the checksums it lists."""

import csv
import errno
import fnmatch
import hashlib
import itertools
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from keras_attn_zoo.data.splits import Pair
from keras_attn_zoo.support.checksums import sha256
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.extras import require
from keras_attn_zoo.support.fetching import DownloadError
from keras_attn_zoo.support.files import reason_of, shown, write_failed

# Seconds within which the hub must answer.
PATIENCE = 20.0
_OF_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS}
# Columns of articles are longer than the module's own limit of 128 KiB.
_LONGEST_FIELD = 2**24


def read_part(
    data_set: Mapping[str, Any], part: str, sides: tuple[str, str], folder: Path, origin: dict[str, str]
) -> Iterator[Pair]:
    """Download a part of a data set, and yield its sentence pairs.

    Args:
        data_set: `hub` of a corpus, see `corpora.toml`.
        part: name of the part.
        sides: names of source and target.
        folder: for the downloaded files; those of an earlier attempt are kept or completed.
        origin: gets the commit of each repository that is read, which further parts are then read from.

    Raises:
        MissingPackageError: the library of the hub, or that of Parquet files, is not installed.
        DownloadError: no network, no such data set, or a file other than the hub lists.
        UserError: a full disk; a file without the columns.
    """
    given = {**data_set, **data_set[part]}
    first = given.get("skip", 0)
    last = first + given["most"] if "most" in given else None
    yield from itertools.islice(_pairs(given, sides, folder, origin), first, last)


def _pairs(given, sides, folder, origin):
    turns, fields = given.get("turns"), given.get("fields") or [f"translation.{side}" for side in sides]
    for path in _files(given["repository"], given.get("revision", "main"), given["files"], folder, origin):
        columns = [turns] if turns else [name for field in fields for name in _names(field)]
        for row in _rows(path, sorted({name.partition(".")[0] for name in columns})):
            try:
                if turns:
                    said = _value(row, turns)
                    yield from itertools.pairwise(said)
                else:
                    source, target = (_text(row, field) for field in fields)
                    yield source, target
            except (KeyError, IndexError, TypeError, ValueError):
                raise UserError(f"{shown(path)} has no {' or '.join(columns)}: its data set has changed.") from None


def _files(repository, revision, pattern, folder, origin):
    """Download the files of a repository that match a pattern, in order; return their paths."""
    reader = ["pyarrow"] if pattern.endswith(".parquet") else []
    require("huggingface_hub", *reader, user="this corpus", extra="corpora")
    from huggingface_hub import HfApi, constants, hf_hub_download

    where = f"{repository} on {urlsplit(constants.ENDPOINT).netloc}"
    commit = origin.get(repository, revision)
    try:
        info = HfApi(endpoint=constants.ENDPOINT).dataset_info(
            repository, revision=commit, files_metadata=True, timeout=PATIENCE
        )
        origin[repository] = info.sha
        listed = [one for one in info.siblings or () if fnmatch.fnmatchcase(one.rfilename, pattern)]
        paths = []
        for one in sorted(listed, key=lambda one: one.rfilename):
            path = hf_hub_download(
                repository,
                one.rfilename,
                repo_type="dataset",
                revision=info.sha,
                local_dir=folder / repository.replace("/", "--"),
                endpoint=constants.ENDPOINT,
                etag_timeout=PATIENCE,
            )
            _check(Path(path), one, where)
            paths.append(Path(path))
    except UserError:
        raise
    except Exception as error:
        # Errors of the network have no class in common.
        if isinstance(error, OSError) and error.errno in _OF_DISK:
            raise write_failed(folder, error) from error
        raise DownloadError(f"cannot download {where}: {_reason(error)}.") from error
    if not paths:
        raise DownloadError(f"cannot download {where}: it has no {pattern}.")
    return paths


def _reason(error):
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status in (401, 403):
        return f"the server says {status}: accept the terms of the data set on its page, and `hf auth login`"
    if status:
        return f"the server says {status}"
    text = " ".join(str(error).split())[:150].rstrip(".") or type(error).__name__
    return f"{text}; check the network and run the command again to resume"


def _check(path, listed, where):
    """Raise unless a file is the one that the hub lists: by its SHA-256, or as Git counts small files."""
    if listed.lfs is not None:
        expected, found = listed.lfs.sha256, sha256(path)
    else:
        content = path.read_bytes()
        expected, found = listed.blob_id, hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    if found != expected:
        path.unlink()
        raise DownloadError(
            f"{listed.rfilename} of {where} is not the file that is listed there: its checksum is {found[:12]}..., "
            f"not {expected[:12]}.... Try again later, or check the network: a proxy may have sent a different file."
        )


def _rows(path, columns):
    """Yield the rows of a file as dicts."""
    try:
        if path.suffix == ".parquet":
            from pyarrow.parquet import ParquetFile

            for batch in ParquetFile(path).iter_batches(columns=columns):
                yield from batch.to_pylist()
            return
        with path.open(encoding="utf-8", newline="") as lines:
            if path.suffix == ".csv":
                csv.field_size_limit(min(_LONGEST_FIELD, sys.maxsize))
                yield from csv.DictReader(lines)
            else:
                yield from map(json.loads, lines)
    except (OSError, ValueError, csv.Error) as error:
        # Errors of Arrow are among these.
        raise UserError(f"cannot read {shown(path)}: {reason_of(error)}. Remove it to download it again.") from error


def _names(field):
    return [field] if isinstance(field, str) else field


def _text(row, field):
    """The text of a field: that of its columns, and of lists in them, joined by spaces."""
    found = (_value(row, name) for name in _names(field))
    return " ".join(" ".join(one) if isinstance(one, list) else one or "" for one in found)


def _value(row, name):
    """What is in a column; `a.b` is in the record `a`, `a.-1` the last of the list `a`."""
    for step in name.split("."):
        row = row[int(step) if isinstance(row, list) else step]
    return row
