"""The published presets: their names, and where to find them."""

import contextlib
import difflib
import functools
import importlib.metadata
import logging
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import keras_attn_zoo
from keras_attn_zoo.support.caches import cache_of
from keras_attn_zoo.support.checksums import check_sum
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.fetching import DownloadError, fetch_files
from keras_attn_zoo.support.files import PathLike, atomic_path, check_size, kind_of, read_json, shown
from keras_attn_zoo.support.locks import InUseError, locked
from keras_attn_zoo.support.messages import progress_bar

_LOG = logging.getLogger(__name__)
# The public site, set by whoever publishes it. Presets are downloaded from it: see `address_of`.
BASE_URL = "https://OWNER.github.io/keras-attn-zoo"
# The environment variable for a folder of presets that takes precedence over all others.
VARIABLE = "ATTN_ZOO_PRESETS"
REGISTRY = Path(__file__).with_name("presets.json")
# How much a wrong name must share with a right one to be taken for it.
NEAR = 0.4
# A preset's description, with its license, and the pictures that it shows.
CARD, PICTURES = "README.md", ("attention.png", "curve.png")
# The folder of presets in a source checkout, beside the package.
CHECKOUT = Path(__file__).parents[2] / "presets"
# The distribution that is built there, and the group of the entry points by which packages of presets are found.
DISTRIBUTION, ENTRY_POINTS = "keras-attn-zoo-presets", "keras_attn_zoo.presets"


@functools.cache
def published() -> Mapping[str, dict[str, Any]]:
    """Return the presets by name: "description", "license", "parameters", "scores", "files" and so on."""
    return read_json(REGISTRY)["presets"]


def size_of(facts: Mapping[str, Any]) -> int:
    """Return the bytes of the files that a preset is loaded from: all but its card, which says this, and pictures."""
    return sum(record["size"] for name, record in facts["files"].items() if name not in (CARD, *PICTURES))


def cache_folder() -> Path:
    """Return the folder for downloaded presets; see `cache_of`."""
    return cache_of("presets")


def own_folder() -> Path | None:
    """Return the folder that `ATTN_ZOO_PRESETS` names, or None; raise a `UserError` if it is not a folder."""
    own = os.environ.get(VARIABLE)
    if own and not os.path.isdir(own):
        raise UserError(f"{VARIABLE} names {shown(own)}, which is not a folder: correct or unset it.")
    return Path(own) if own else None


def find_preset(preset: PathLike, deadline: float | None = None) -> str:
    """Return the folder of a published preset; return another folder or an address unchanged.

    A name is looked up in the folder named by the environment variable `ATTN_ZOO_PRESETS`, in `presets/` of a source
    checkout, in the installed package `keras-attn-zoo-presets`, and in the cache. Copies in these two whose files are
    not those of this version are passed over. A preset found nowhere is downloaded. The folder may also hold presets
    under names of their own.

    Args:
        preset: the name of a published preset; or a folder, or an address such as `hf://user/preset`.
        deadline: see `fetch_files`.

    Raises:
        UserError: neither a published preset nor a folder; a preset that cannot be downloaded; files other than those
            published.
    """
    if not isinstance(preset, (str, os.PathLike)):
        raise UserError(f"a preset is a name, a folder or an address; received {shown(repr(preset))}.")
    preset = os.fspath(preset)
    if names_preset(preset):
        # With Keras, which a list of presets does not need.
        from keras_attn_zoo.devices import leader_first, leads

        # Of several processes, one downloads.
        with leader_first():
            found = local_folder(preset)
            if found is None and not leads():
                raise UserError(
                    f"{preset} was downloaded on the machine of the first process alone: run attn-zoo presets "
                    f"--download {preset} on each machine."
                )
            return str(found or fetch_preset(preset, deadline))
    if "://" in preset or os.path.isdir(preset):
        return preset
    if kind_of(preset) is not None:
        raise UserError(f"{shown(preset)} is a file, not the folder of a preset: check the path.")
    advice = "check the path." if "/" in preset else nearest(preset)
    if any(map(str.isspace, preset)) and not near_names(preset, NEAR):
        preset, advice = repr(preset), "a model is named first, and sentences follow."
    raise UserError(f"there is no folder or published preset {shown(preset)}: {advice}")


def names_preset(name: str) -> bool:
    """Return whether a name is a preset's: a published one, or one in the folder that `ATTN_ZOO_PRESETS` names."""
    if name in published():
        return True
    if name in ("", ".", "..") or os.path.basename(name) != name or os.path.isdir(name):
        return False
    own = own_folder()
    return own is not None and os.path.isdir(own / name)


def near_names(name: str, cutoff: float) -> list[str]:
    """Return the names of the presets that a name is nearest to: several that are equally near, or none.

    Args:
        name: what was given.
        cutoff: how much both must share, from 0 to 1; case, surrounding spaces and hyphens do not count.
    """
    own = own_folder()
    known = {*published(), *(os.listdir(own) if own else ())}
    plain = name.strip().lower().replace("-", "_")
    likeness = {one: difflib.SequenceMatcher(None, plain, one).ratio() for one in sorted(known)}
    most = max(likeness.values(), default=0.0)
    return [one for one, ratio in likeness.items() if ratio == most >= cutoff]


def nearest(name: str) -> str:
    """Return the advice for a name that no preset has."""
    near = " or ".join(near_names(name, NEAR))
    return f"did you mean {near}?" if near else "`attn-zoo presets` lists them."


def local_folder(name: str) -> Path | None:
    """Return the folder of a preset on this machine, after checking it; None if it must be downloaded.

    Raises:
        UserError: a file in the checkout is missing, or is not the published one.
    """
    folder, own = local_path(name), own_folder()
    if own is not None and os.path.isdir(own / name):
        # A folder that the user names may have presets of their own.
        if folder == own / name:
            return folder
        _LOG.warning("%s has no config.json and is no preset: the published one is used", shown(own / name))
    for copy in _copies(name):
        try:
            check_published(name, copy)
        except UserError:
            if copy.parent == CHECKOUT:
                raise
            install = f"pip install --force-reinstall {DISTRIBUTION}=={keras_attn_zoo.__version__}"
            remedy = "downloading it again" if copy.parent in _cache() else install
            _LOG.warning("%s is damaged or of another version of keras-attn-zoo: %s", shown(copy), remedy)
        else:
            return copy
    return None


def local_path(name: str) -> Path | None:
    """Return the folder of a preset on this machine, or None."""
    own = own_folder()
    if own is not None and os.path.isdir(own / name) and (is_preset(own / name) or name not in published()):
        return own / name
    return next(_copies(name), None)


def is_preset(folder: Path) -> bool:
    """Return whether a folder holds a preset, whatever is wrong with it."""
    return os.path.isfile(folder / "config.json")


def place_of(folder: Path) -> str:
    """Return where a preset's folder is: "own", in what `ATTN_ZOO_PRESETS` names; "checkout", "package" or "cache"."""
    if folder.parent == own_folder():
        return "own"
    return "checkout" if folder.parent == CHECKOUT else "cache" if folder.parent in _cache() else "package"


def published_folder(name: str) -> Path | None:
    """Return a folder on this machine, other than the user's own, with the files of a published preset, or None."""
    return next((copy for copy in _copies(name) if is_published(name, copy)), None)


def _copies(name: str) -> Iterator[Path]:
    """Yield the folders of a published preset on this machine, other than the user's own, in order."""
    if name not in published():
        return
    # Packages are looked for, which takes some milliseconds, if the checkout is not enough.
    for places in (lambda: [CHECKOUT], _installed, _cache):
        yield from (place / name for place in places() if os.path.isdir(place / name))


def _installed():
    """The folders of installed packages of presets, of which nothing is imported."""
    return [Path(str(one.dist.locate_file(one.module))) for one in importlib.metadata.entry_points(group=ENTRY_POINTS)]


def _cache():
    """The cache, if there can be one."""
    try:
        return [cache_folder()]
    except UserError:
        return []


def check_published(name: str, folder: PathLike) -> None:
    """Raise a `UserError` that names the file unless the files in a folder are those of a published preset."""
    for file, record in published()[name]["files"].items():
        path = Path(folder) / file
        if kind_of(path) != "file":
            raise UserError(f"{shown(path)} is missing: restore it, or remove {shown(folder)} to download it again.")
        check_size(path, record["size"])
        check_sum(path, record["sha256"], REGISTRY.name)
    # What is there besides could be loaded in place of them, as weights in several files are.
    known = published()[name]["files"].keys()
    for path in sorted(Path(folder).rglob("*")):
        if path.relative_to(folder).as_posix() not in known and not path.is_dir() and not path.name.startswith("."):
            raise UserError(f"{shown(path)} is not a file of {name}: remove it.")


def fetch_preset(name: str, deadline: float | None = None) -> Path:
    """Download a published preset to the cache; what an earlier attempt downloaded is kept.

    A folder in the cache whose files are not those published is replaced.

    Raises:
        UserError: something else is where the folder would be; see `fetch_files`.
    """
    files = published()[name]["files"]
    folder = cache_folder() / name
    aside = cache_folder() / "unfinished" / name
    with _alone(name, deadline):
        if is_published(name, folder):
            # Another process has downloaded it meanwhile.
            return folder
        for place in (folder, aside.parent, aside):
            # What a link leads to is someone else's, and would be replaced.
            if os.path.lexists(place) and (place.is_symlink() or not place.is_dir()):
                raise UserError(f"{shown(place)} is not a folder: remove it, for the preset to be downloaded there.")
        _tidy(aside, files)
        total = sum(record["size"] for record in files.values())
        try:
            with progress_bar(f"downloading {name}", total, "B") as progress:
                fetch_files(aside, files, lambda file: address_of(name, file), progress, deadline)
        finally:
            _remove_empty_folders(aside)
        with atomic_path(folder) as whole:
            os.replace(aside, whole)
    return folder


@contextlib.contextmanager
def _alone(name, deadline):
    """Keep other processes from downloading a preset; wait for one that does."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(cache_folder(), f".{name}.lock", wait=True, deadline=deadline))
        except InUseError as error:
            raise DownloadError(f"cannot download {name}: {error}") from None
        yield


def is_published(name: str, folder: PathLike) -> bool:
    """Return whether the files in a folder are those of a published preset."""
    try:
        check_published(name, folder)
    except UserError:
        return False
    return True


def address_of(name: str, file: str, base_url: str | None = None) -> str:
    """Return where a file of a published preset is downloaded from: a site, by default the public one."""
    return f"{base_of(base_url)}/presets/{name}/{file}"


def base_of(base_url: str | None) -> str:
    """Return the address of a site, by default of the public one; raise a `DownloadError` if that is not set."""
    # Not in capitals, which whoever sets the address may replace in the whole file.
    if base_url is None and "//owner." in BASE_URL.lower():
        raise DownloadError(f"the public site has no address yet: set BASE_URL in {shown(__file__)}, now {BASE_URL}.")
    return base_url or BASE_URL


def _remove_empty_folders(folder):
    """Remove a folder and those in it, except for any that hold a part of a download."""
    for path in [*sorted(folder.rglob("*/"), reverse=True), folder]:
        with contextlib.suppress(OSError):
            path.rmdir()


def _tidy(folder, files):
    """Remove whatever in a folder is not one of some files, or part of one: links, and what other versions left."""
    for path in sorted(folder.rglob("*"), reverse=True):
        known = path.relative_to(folder).as_posix()
        if path.is_symlink() or (path.exists() and not path.is_file() and not path.is_dir()):
            path.unlink()
        elif path.is_dir():
            if not any(file.startswith(f"{known}/") for file in files):
                shutil.rmtree(path)
        elif known not in files:
            path.unlink()
