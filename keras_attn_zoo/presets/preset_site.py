"""The public site: the part that presets are downloaded from, written to a folder; all of it, verified on a server."""

import re
import shutil
import urllib.parse

from keras_attn_zoo.presets.preset_registry import address_of, base_of, published, published_folder
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.fetching import DownloadError, fetch_small, remote_faults
from keras_attn_zoo.support.files import PathLike, atomic_path, parse_json, write_text
from keras_attn_zoo.support.messages import progress_bar

# The checksums of all files, as `sha256sum --check` reads them.
SUMS = "SHA256SUMS"
# What a whole site consists of, and by which it is known: {"files": {path: {"size": bytes, "sha256": digits}}}.
MANIFEST = "site.json"
_LARGEST_MANIFEST = 5_000_000


def write_presets(folder: PathLike) -> None:
    """Write the files of all published presets, as they are downloaded, and their checksums to a folder.

    It gets `NAME/FILE` for every file of the registry, and `SHA256SUMS`. A server that has the folder as `presets/` is
    a site to download from; see `address_of`.

    Raises:
        UserError: a preset is not on this machine as published.
    """
    with atomic_path(folder) as new:
        sums = []
        for name, facts in published().items():
            source = published_folder(name)
            if source is None:
                raise UserError(f"{name} is not on this machine as published: attn-zoo presets --download {name}")
            for file, record in facts["files"].items():
                (new / name / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source / file, new / name / file)
                sums.append(f"{record['sha256']}  {name}/{file}\n")
        write_text(new / SUMS, "".join(sums))


def verify_preset(name: str, base_url: str | None = None) -> dict[str, str]:
    """Return what is wrong with the files of a published preset on a server: missing, cut or altered, by name.

    Args:
        name: of the preset.
        base_url: of a site other than the public one.

    Raises:
        DownloadError: the network or the server fails.

    Example:
        >>> verify_preset("transformer_tatoeba_de_en", "http://localhost:8000")  # doctest: +SKIP
        {'config.json': 'cut: 100 of 1,066 bytes'}
    """
    files = published()[name]["files"]
    total = sum(record["size"] for record in files.values())
    with progress_bar(f"verifying {name}", total, "B") as progress:
        return remote_faults(files, lambda file: address_of(name, file, base_url), progress)


def verify_site(base_url: str | None = None) -> dict[str, str]:
    """Return what is wrong with the files of a whole site on a server, by path, as its `site.json` has them.

    Published presets are left out, which `verify_preset` compares with what this version knows of them.

    Args:
        base_url: of a site other than the public one.

    Raises:
        DownloadError: the network or the server fails; `site.json` is damaged.

    Example:
        >>> verify_site("http://localhost:8000")  # doctest: +SKIP
        {'live/live.js': 'missing: the server says 404 Not Found'}
    """
    known = {f"presets/{name}/{file}" for name, facts in published().items() for file in facts["files"]}
    address = f"{base_of(base_url)}/{MANIFEST}"
    data = fetch_small(address, _LARGEST_MANIFEST)
    if data is None:
        return {MANIFEST: "missing: without it, presets alone can be verified, by their names"}
    found = parse_json(data, address)
    files = found.get("files") if isinstance(found, dict) else None
    if not isinstance(files, dict) or not all(map(_is_record, files.values())):
        raise DownloadError(f"{address} has no checksums: build the site again with attn-zoo site, and publish it.")
    files = {path: record for path, record in files.items() if path not in known}
    total = sum(record["size"] for record in files.values())
    with progress_bar("verifying the site", total, "B") as progress:
        return remote_faults(files, lambda path: f"{base_of(base_url)}/{urllib.parse.quote(path)}", progress)


def _is_record(value):
    """Whether a value is a `FileRecord`."""
    return (
        isinstance(value, dict)
        and type(value.get("size")) is int
        and isinstance(value.get("sha256"), str)
        and re.fullmatch("[0-9a-f]{64}", value["sha256"]) is not None
    )
