"""The part of the public site that presets are downloaded from: written to a folder, and verified on a server."""

import shutil

from keras_attn_zoo.presets.preset_registry import address_of, published, published_folder
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.fetching import remote_faults
from keras_attn_zoo.support.files import PathLike, atomic_path, write_text
from keras_attn_zoo.support.messages import progress_bar

# The checksums of all files, as `sha256sum --check` reads them.
SUMS = "SHA256SUMS"


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
