"""The folder of a corpus: downloaded or put there by hand, and checked before it is read."""

import hashlib
import itertools
import logging
import os
import shutil
from pathlib import Path
from typing import Any

from keras_attn_zoo.corpora import hub_source, mtdata_source
from keras_attn_zoo.corpora.held_out import METHOD, hold_out
from keras_attn_zoo.corpora.named_corpora import PARTS, NamedCorpus
from keras_attn_zoo.data.splits import MAX_HELD_OUT
from keras_attn_zoo.data.text_files import ParallelFiles, TSVFile
from keras_attn_zoo.data.words import normalise
from keras_attn_zoo.support.caches import cache_of, who_else_writes
from keras_attn_zoo.support.checksums import FORMAT, read_checksums, sha256
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.extras import MissingPackageError
from keras_attn_zoo.support.fetching import DownloadError
from keras_attn_zoo.support.files import (
    PathLike,
    atomic_files,
    atomic_path,
    kind_of,
    open_output,
    read_json,
    reason_of,
    shown,
    write_json,
)
from keras_attn_zoo.support.locks import locked

_LOG = logging.getLogger(__name__)
# The environment variable for the folder of all corpora.
VARIABLE = "ATTN_ZOO_CORPORA"
# In the folder of a corpus: its origin, its size, and the checksums of its files.
MANIFEST = "corpus.json"


def cache_folder() -> Path:
    """Return the folder for all corpora: that of `ATTN_ZOO_CORPORA`, or one in `XDG_CACHE_HOME` or `~/.cache`."""
    own = os.environ.get(VARIABLE)
    # No shell expands a `~` that comes from a Dockerfile or a service; this function leaves what is not a user.
    return Path(os.path.expanduser(own)) if own else cache_of("corpora")


def corpus_folder(corpus: NamedCorpus) -> Path:
    """Return the folder of a corpus, whether it is there or not."""
    return cache_folder() / corpus.name


def is_here(corpus: NamedCorpus) -> bool:
    """Return whether a corpus is on this machine: downloaded, or all its files put there by hand."""
    folder = corpus_folder(corpus)
    return kind_of(folder / MANIFEST) is not None or _by_hand(corpus, folder) is not None


def by_hand(corpus: NamedCorpus) -> str:
    """Return which files a corpus consists of if they are put in place by hand, and where, as the end of a sentence."""
    source, target = corpus.sides
    parts = "all (which is then split), or " * (corpus.parts == ("all",)) + "train, valid and test"
    further = f" (and {', '.join(corpus.more_tests)} for its scores)" if corpus.more_tests else ""
    return (
        f"put {parts}{further}, each as a file .{source} and one .{target} with one sentence per line, or as one .tsv "
        f"with the columns {source} and {target}, plain or .gz, into {shown(corpus_folder(corpus))}"
    )


def provide(corpus: NamedCorpus, fetch: bool = True) -> dict[str, Any]:
    """Return what the manifest of a corpus says, after comparing its files with it; download it if necessary.

    Args:
        corpus: a `NamedCorpus`.
        fetch: whether it may be downloaded.

    Raises:
        UserError: a file was changed or is missing; others may write to the folder, and `ATTN_ZOO_CORPORA` does not
            name it; the corpus cannot be downloaded; a full disk.
    """
    folder = corpus_folder(corpus)
    _check_writers(folder)
    # Without a lock, so that the folder may be on a disk that is read only.
    if kind_of(folder / MANIFEST) is None:
        try:
            cache_folder().mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"cannot create the folder of corpora {shown(cache_folder())}: {reason_of(error)}. Set {VARIABLE}, or "
                "XDG_CACHE_HOME, to a folder that can be written."
            ) from error
        with locked(cache_folder(), f".{corpus.name}.lock", wait=True):
            if kind_of(folder / MANIFEST) is None:
                _make(corpus, folder, fetch)
    # Downloads stay until the text is in place, and after that if the process is killed at that moment.
    shutil.rmtree(_downloads(corpus), ignore_errors=True)
    return check(corpus)


def _downloads(corpus):
    """The folder in which the files of a corpus are kept while it is being downloaded."""
    return cache_folder() / "unfinished" / corpus.name


def check(corpus: NamedCorpus) -> dict[str, Any]:
    """Return the manifest of a corpus, after comparing the files with it.

    Raises:
        UserError: names the file that was changed or is missing, or that others may write to.
    """
    folder = corpus_folder(corpus)
    _check_writers(folder)
    remedy = (
        f"restore it, or remove {shown(folder / MANIFEST)} if it was meant to change, or the whole folder to download "
        "the text again."
    )
    sums = read_checksums(folder / MANIFEST)
    for name, expected in sums.items():
        path = folder / name
        if kind_of(path) != "file":
            raise UserError(f"{shown(path)} is missing: {remedy}")
        if (found := sha256(path)) != expected:
            raise UserError(
                f"{shown(path)} is damaged or was changed: its SHA-256 is {found[:12]}..., not {expected[:12]}... as "
                f"in {MANIFEST}: {remedy}"
            )
    manifest = read_json(folder / MANIFEST)
    if not _is_whole(manifest, sums):
        raise UserError(f"{shown(folder / MANIFEST)} is damaged: it does not name the files of the text. Remove it.")
    if manifest.get("name") != corpus.name:
        raise UserError(
            f"{shown(folder)} holds {shown(manifest.get('name'))}, not {corpus.name}: rename or remove the folder."
        )
    return manifest


def _check_writers(folder):
    """Raise if others could have changed a text and its checksums, unless the user has chosen where it is."""
    if not os.environ.get(VARIABLE) and (reason := who_else_writes(folder)):
        raise UserError(
            f"the text in {shown(folder)} is left alone, since {reason}: change that, or set {VARIABLE} to the folder "
            "of all corpora if it is to be used all the same."
        )


def _is_whole(manifest, sums):
    """Whether a manifest names one or two of its files for every part and further text, and counts its pairs."""
    files, pairs = manifest.get("files"), manifest.get("pairs")
    if not isinstance(files, dict) or not isinstance(pairs, dict):
        return False
    named = [files.get(part) for part in {*PARTS, *files}]
    fits = all(isinstance(one, list) and one and all(isinstance(x, str) and x in sums for x in one) for one in named)
    return fits and all(type(count) is int for count in pairs.values())


def text_of(corpus: NamedCorpus, manifest: dict[str, Any]) -> dict[str, PathLike | tuple[PathLike, PathLike]]:
    """Return the files of each part and further test text that is there: source and target, or one TSV file."""
    folder, files = corpus_folder(corpus), manifest["files"]
    parts = (*PARTS, *(name for name in corpus.more_tests if name in files))
    found = {part: [folder / name for name in files[part]] for part in parts}
    return {part: (paths[0], paths[1]) if len(paths) == 2 else paths[0] for part, paths in found.items()}


def _make(corpus, folder, fetch):
    """Write the manifest of files put there by hand; otherwise download the text."""
    files = _by_hand(corpus, folder)
    if files is not None:
        _adopt(corpus, folder, files)
        return
    kind = kind_of(folder)
    if kind not in (None, "folder"):
        raise UserError(f"{shown(folder)} is not a folder: remove it.")
    if kind and any(folder.iterdir()):
        raise UserError(f"{shown(folder)} is not a whole corpus: {by_hand(corpus)}, or remove it.")
    if not fetch:
        raise UserError(
            f"{corpus.name} is not on this machine: attn-zoo corpora --download {corpus.name}; or {by_hand(corpus)}."
        )
    try:
        _download(corpus, folder)
    except (DownloadError, MissingPackageError) as error:
        # Both are also answered by files from elsewhere.
        raise type(error)(f"{str(error).rstrip('.')}. Or {by_hand(corpus)}.") from error


def _by_hand(corpus, folder):
    """The files of each part in a folder, and of the further test texts that it has; None if a part is missing."""
    if kind_of(folder) != "folder":
        return None
    wanted = [("all",), PARTS] if corpus.parts == ("all",) else [PARTS]
    for parts in wanted:
        files = {part: _files_of(folder, part, corpus.sides) for part in parts}
        if all(files.values()):
            further = {name: _files_of(folder, name, corpus.sides) for name in corpus.more_tests}
            return {**files, **{name: found for name, found in further.items() if found}}
    return None


def _files_of(folder, part, sides):
    """Names of the files of a part; none if they are not there."""
    for endings in (sides, ("tsv",)):
        plain = [f"{part}.{ending}" for ending in endings]
        names = [name if kind_of(folder / name) else f"{name}.gz" for name in plain]
        if all(kind_of(folder / name) == "file" for name in names):
            return names
    return []


def _adopt(corpus, folder, files):
    """Write the manifest of a folder that was filled by hand."""
    texts = {part: _opened([folder / name for name in names]) for part, names in files.items()}
    if "all" in texts:
        with atomic_files(folder, last=MANIFEST) as split:
            _write(corpus, split, texts, {"origin": "by hand"})
            if own := _other_parts(corpus, folder, split):
                raise UserError(
                    f"{shown(folder)} has all of the text, and parts that are not its split ({', '.join(own)}): remove "
                    "one or the other."
                )
        return
    pairs = {part: sum(1 for _ in text) for part, text in texts.items()}
    for part, expected in corpus.sha256.items():
        if part in texts and _sums(texts[part]) != list(expected):
            _LOG.warning("the %s text in %s is not the published one of %s", part, shown(folder), corpus.name)
    _write_manifest(corpus, folder, files, {"origin": "by hand", "pairs": pairs})


def _other_parts(corpus, folder, split):
    """Names of parts in a folder, but for files of a split: a process that was killed may have put them there."""
    names = (
        f"{part}.{ending}{packed}" for part in PARTS for ending in (*corpus.sides, "tsv") for packed in ("", ".gz")
    )
    there = [name for name in names if kind_of(folder / name)]
    return [name for name in there if kind_of(split / name) is None or sha256(split / name) != sha256(folder / name)]


def _sums(text):
    """The checksums of both sides of a text, as `_check_published` has them of its files."""
    sums = hashlib.sha256(), hashlib.sha256()
    for pair in text:
        for one, side in zip(sums, pair, strict=True):
            one.update(f"{side}\n".encode("utf-8", "replace"))
    return [one.hexdigest() for one in sums]


def _opened(paths):
    return TSVFile(*paths) if len(paths) == 1 else ParallelFiles(*paths)


def _download(corpus, folder):
    """Download a corpus; the folder appears once all of it is there."""
    _LOG.info("downloading %s to %s; terms of use: %s, see %s", corpus.name, shown(folder), corpus.terms, corpus.home)
    aside, origin = _downloads(corpus), {}
    read = _reader(corpus, aside, origin)
    with atomic_path(folder) as whole:
        whole.mkdir()
        texts = {part: read(part) for part in (*corpus.parts, *corpus.more_tests)}
        _write(
            corpus, whole, texts, {"origin": corpus.library, "source": corpus.mtdata or corpus.hub, "commits": origin}
        )
        _check_published(corpus, whole, aside)


def _reader(corpus, aside, origin):
    """A function that downloads and yields a part."""
    if corpus.hub:
        return lambda part: hub_source.read_part(corpus.hub, part, corpus.sides, aside, origin)
    # A file of mtdata's may run programs: not one of a folder that others may write to.
    index = cache_of("mtdata")
    return lambda part: mtdata_source.read_entries(corpus.mtdata[part], corpus.sides, aside, index)


def _write(corpus, folder, texts, facts):
    """Write the text, split where its source is not, and the manifest."""
    dropped = dict.fromkeys(texts, 0)
    cleaned = {part: _cleaned(text, part, dropped) for part, text in texts.items()}
    further = {name: cleaned.pop(name) for name in corpus.more_tests if name in cleaned}
    missing = [part for part in PARTS if part not in cleaned]
    if missing:
        # Small beside the training text.
        given = {part: list(cleaned.pop(part)) for part in ("valid", "test") if part in cleaned}
        pairs = list(cleaned.pop("all" if "all" in cleaned else "train"))
        wanted = next(map(len, given.values()), max(len(pairs) // 10, 1))
        missing = [part for part in missing if part != "train"]
        cleaned = {**given, **hold_out(pairs, dict.fromkeys(missing, min(wanted, MAX_HELD_OUT)))}
        facts = {**facts, "held_out": {"parts": missing, "how": METHOD}}
    cleaned.update(further)
    files = {part: [f"{part}.{side}" for side in corpus.sides] for part in (*PARTS, *further)}
    counts = {part: _write_pairs(cleaned[part], [folder / name for name in names]) for part, names in files.items()}
    _write_manifest(corpus, folder, files, {**facts, "pairs": counts, "dropped": dropped})


def _check_published(corpus, folder, aside):
    """Raise if a text is not the one of the catalogue, where that has its checksums."""
    for part, expected in corpus.sha256.items():
        for side, known in zip(corpus.sides, expected, strict=True):
            if (found := sha256(folder / f"{part}.{side}")) != known:
                shutil.rmtree(aside, ignore_errors=True)
                raise DownloadError(
                    f"the text of {part}.{side} is not that of {corpus.name}: its SHA-256 is {found[:12]}..., not "
                    f"{known[:12]}.... Try again later, or check the network."
                )


def _cleaned(pairs, part, dropped):
    """Yield pairs with both sides; count the others."""
    for pair in pairs:
        source, target = (normalise(side.replace("\0", "")) for side in pair)
        if source and target:
            yield source, target
        else:
            dropped[part] += 1


def _write_pairs(pairs, paths):
    """Write two files, one sentence a line; return the number of lines."""
    count = 0
    with open_output(paths[0]) as sources, open_output(paths[1]) as targets:
        for source, target in pairs:
            sources.write(f"{source}\n".encode("utf-8", "replace"))
            targets.write(f"{target}\n".encode("utf-8", "replace"))
            count += 1
    if not count:
        raise UserError(f"there are no sentence pairs for {shown(paths[0])}: its source is empty. Try again later.")
    return count


def _write_manifest(corpus, folder, files, facts):
    names = sorted(itertools.chain(*files.values()))
    sums = {name: sha256(folder / name) for name in names}
    record = {"format": FORMAT, "name": corpus.name, "sides": list(corpus.sides), "files": files, **facts}
    write_json(folder / MANIFEST, {**record, "sha256": sums})
