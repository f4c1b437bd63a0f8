"""The public site, built into one folder for any static host."""

import logging
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import keras_attn_zoo
from keras_attn_zoo.presets.preset_registry import CHECKOUT, published, published_folder
from keras_attn_zoo.presets.preset_site import MANIFEST, write_presets
from keras_attn_zoo.site.site_checks import loaded_with, site_faults
from keras_attn_zoo.site.site_pages import write_pages
from keras_attn_zoo.support.checksums import sha256
from keras_attn_zoo.support.errors import UserError, counted
from keras_attn_zoo.support.extras import require
from keras_attn_zoo.support.files import PathLike, atomic_path, kind_of, read_json, shown, write_json, write_text
from keras_attn_zoo.translators.live_folder import LiveModel, write_live_folder
from keras_attn_zoo.translators.onnx_export import check_onnx_export
from keras_attn_zoo.translators.translator import Translator

DOCS, CITATION = CHECKOUT.parent / "docs", CHECKOUT.parent / "CITATION.cff"
# Bytes at most: of all that a host holds, of what the first view loads, and of what a preset costs who chooses it.
MOST, MOST_OF_FIRST_VIEW, MOST_OF_MODEL = 90_000_000, 400_000, 6_000_000
# With it, GitHub makes no pages of Markdown, and keeps folders that begin with an underscore. It is in no
# manifest: other hosts may serve no file that begins with a dot.
_NO_JEKYLL = ".nojekyll"
# Faults that a message lists.
_LISTED = 5
_REASON = re.compile(r"^.*(WARNING: |ERROR: |\w(Error|Exception): ).*$", re.MULTILINE)
_LOG = logging.getLogger(__name__)


def check_site_folder(folder: PathLike) -> None:
    """Raise unless a site can be built into a folder: an empty one, none yet, or an earlier site with nothing added.

    Raises:
        UserError: the folder holds something else; the documentation or what builds it is missing.
    """
    if kind_of(DOCS / "conf.py") != "file":
        raise UserError("the guide is built from docs/ of a checkout of the project: run attn-zoo site there.")
    require("sphinx", "myst_parser", "furo", user="attn-zoo site", extra="docs")
    kind = kind_of(folder)
    if kind not in (None, "folder"):
        raise UserError(f"{shown(folder)} is a {kind}: give a folder for the site.")
    found = _files(Path(folder))
    if kind is None or not any(Path(folder).iterdir()):
        return
    manifest = read_json(Path(folder) / MANIFEST) if MANIFEST in found else None
    known = manifest.get("files") if isinstance(manifest, dict) else None
    if not isinstance(known, dict):
        raise UserError(f"{shown(folder)} is not empty and holds no earlier site: give another folder, or empty it.")
    added = sorted(found.keys() - known.keys() - {MANIFEST, _NO_JEKYLL})
    if added:
        raise UserError(
            f"{shown(Path(folder) / added[0])} is not of the earlier site, which is replaced as a whole: move it away."
        )


def build_site(folder: PathLike) -> dict[str, int]:
    """Build the site: landing page, live demonstration, gallery, guide and API, presets; return the bytes of its parts.

    It takes the place of an earlier site, and is there as a whole or not at all. All its links are relative, so it may
    stand at any address.

    Raises:
        UserError: see `check_site_folder`; a preset is not on this machine as published; the guide cannot be built; a
            link leads nowhere; the site, its first view or a model is too large.
    """
    check_site_folder(folder)
    with atomic_path(folder) as new:
        new.mkdir(parents=True)
        check_onnx_export(new / "live")
        write_presets(new / "presets")
        write_pages(new, CITATION)
        write_live_folder(live_models(), new / "live")
        _LOG.info("building the guide and the reference of the API, which takes some minutes")
        write_guide(new / "guide")
        files = _files(new)
        parts = _sizes(files)
        _check_site(new, files, parts)
        sums = {path: {"size": size, "sha256": sha256(new / path)} for path, size in files.items()}
        write_json(new / MANIFEST, {"version": keras_attn_zoo.__version__, "files": sums})
        write_text(new / _NO_JEKYLL, "")
    return parts


def live_models() -> dict[str, LiveModel]:
    """Return the published presets as the live demonstration takes them.

    It reads their weights where the site has them for download.
    """
    models = {}
    for name, facts in published().items():
        folder = published_folder(name)
        if folder is not None:
            translator = Translator.from_preset(str(folder), dtype="float32")
            languages = facts["source"], facts["target"]
            models[name] = LiveModel(translator, folder, f"../presets/{name}", languages)
    return models


def write_guide(folder: Path) -> None:
    """Write the guide and the reference of the API, as Sphinx builds them.

    Raises:
        UserError: with the first of Sphinx' warnings.
    """
    with tempfile.TemporaryDirectory() as aside:
        said = Path(aside) / "warnings.txt"
        command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-t", "site", "-w", str(said)]
        command += ["-d", f"{aside}/doctrees", "-D", "html_copy_source=0", str(DOCS), str(folder)]
        built = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        warnings = said.read_text(encoding="utf-8", errors="replace") if said.exists() else ""
    # Of use to Sphinx alone; not every host serves what begins with a dot.
    (folder / ".buildinfo").unlink(missing_ok=True)
    if built.returncode:
        # Without a warning, it ended in an exception.
        found = _REASON.search(warnings) or _REASON.search(built.stderr)
        raise UserError(f"Sphinx cannot build the guide: {found[0].strip() if found else built.stderr[-200:]}")


def _check_site(folder, files, parts):
    total = sum(parts.values())
    if total > MOST:
        told = ", ".join(f"{name} {size / 1e6:.1f}" for name, size in parts.items())
        raise UserError(f"the site would have {total / 1e6:.1f} MB, above {MOST / 1e6:.0f} MB: {told}.")
    first = sum(files[path] for path in loaded_with(folder, "index.html"))
    if first > MOST_OF_FIRST_VIEW:
        raise UserError(
            f"the first view, before a model is chosen, would load {first / 1e3:.0f} KB, above "
            f"{MOST_OF_FIRST_VIEW / 1e3:.0f} KB."
        )
    for name in published():
        model = sum(size for path, size in files.items() if path.startswith(f"live/models/{name}/"))
        model += files[f"presets/{name}/model.weights.h5"]
        if model > MOST_OF_MODEL:
            raise UserError(
                f"{name} would load {model / 1e6:.1f} MB when it is chosen, above {MOST_OF_MODEL / 1e6:.0f} MB."
            )
    faults = site_faults(folder)
    if faults:
        more = f"; and {len(faults) - _LISTED} more" if len(faults) > _LISTED else ""
        raise UserError(f"the site has {counted(len(faults), 'fault')}: {'; '.join(faults[:_LISTED])}{more}.")


def _files(folder):
    """The sizes of the files in a folder, and of links, by their paths."""
    found = sorted(path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return {path.relative_to(folder).as_posix(): path.lstat().st_size for path in found}


def _sizes(files):
    """The bytes of each part of a site, the largest first; what stands beside them belongs to the pages."""
    parts: dict[str, int] = {}
    for path, size in files.items():
        name = path.split("/")[0] if path.startswith(("presets/", "guide/", "live/", "gallery/")) else "pages"
        parts[name] = parts.get(name, 0) + size
    return dict(sorted(parts.items(), key=lambda part: -part[1]))
