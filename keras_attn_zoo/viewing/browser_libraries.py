"""The libraries that translate in a browser, onnxruntime and SentencePiece, from the npm registry."""

import importlib.resources
import os
import shutil
import tarfile
from pathlib import Path

from keras_attn_zoo.support.caches import cache_of, create
from keras_attn_zoo.support.checksums import check_sum
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.extras import require
from keras_attn_zoo.support.fetching import fetch_files
from keras_attn_zoo.support.files import kind_of, shown
from keras_attn_zoo.support.messages import progress_bar
from keras_attn_zoo.support.types import FileRecord

# Names a folder that has the packages, where there is no network.
VARIABLE = "ATTN_ZOO_NPM"
_REGISTRY = "https://registry.npmjs.org"
_ORT, _SENTENCEPIECE = "onnxruntime-web-1.30.0.tgz", "sentencepiece-js-1.1.1.tgz"
_ADDRESSES = {
    _ORT: f"{_REGISTRY}/onnxruntime-web/-/{_ORT}",
    _SENTENCEPIECE: f"{_REGISTRY}/@agnai/sentencepiece-js/-/{_SENTENCEPIECE}",
}
_PACKAGES: dict[str, FileRecord] = {
    _ORT: {"size": 33_106_585, "sha256": "d2228df7e4616bc3348bf504ee888f3bec43789a273f0a63f3e68d203ce3bf71"},
    _SENTENCEPIECE: {"size": 274_952, "sha256": "72b3ebe2eb6f185ed649d10ed4187a4c32c0033b5719be086b50fda1427bb9bd"},
}
# Of each package the files that are used, and what they are called: not every server knows .mjs for a script.
# onnxruntime's has one program for one thread and for several, without what needs a GPU.
ONNXRUNTIME, WASM, SENTENCEPIECE = "onnxruntime.js", "onnxruntime.wasm", "sentencepiece.js"
_MEMBERS = {
    _ORT: {"package/dist/ort.wasm.bundle.min.mjs": ONNXRUNTIME, "package/dist/ort-wasm-simd-threaded.wasm": WASM},
    _SENTENCEPIECE: {"package/dist/index.js": SENTENCEPIECE, "package/LICENSE": "sentencepiece.LICENSE.txt"},
}
# The npm package of onnxruntime has no licence in it; that of Python, of the same source, has.
_NOTICES = {"LICENSE": "onnxruntime.LICENSE.txt", "ThirdPartyNotices.txt": "onnxruntime.NOTICES.txt"}


def write_libraries(folder: Path) -> None:
    """Write the libraries, and their licences, to a new folder.

    Their packages are downloaded once, to the cache; or taken from the folder that `ATTN_ZOO_NPM` names, where
    `npm pack` put them.

    Raises:
        UserError: no network and no such folder; a package that is not the one of this version.
    """
    require("onnxruntime", user="a page that translates", extra="onnx")
    packages = _packages()
    folder.mkdir()
    for package, members in _MEMBERS.items():
        with tarfile.open(packages / package) as archive:
            for member, name in members.items():
                found = archive.extractfile(member)
                if found is None:
                    raise UserError(f"{shown(packages / package)} has no {member}: download it again.")
                with found, (folder / name).open("wb") as file:
                    shutil.copyfileobj(found, file)
    for name, written in _NOTICES.items():
        (folder / written).write_bytes(importlib.resources.files("onnxruntime").joinpath(name).read_bytes())


def _packages():
    """The folder with the packages."""
    own = os.environ.get(VARIABLE)
    if own:
        for package, record in _PACKAGES.items():
            if kind_of(Path(own) / package) != "file":
                raise UserError(f"{VARIABLE} names {shown(own)}, which has no {package}: put it there, or unset it.")
            check_sum(Path(own) / package, record["sha256"], "the version that is used here")
        return Path(own)
    folder = cache_of("npm")
    create(folder)
    total = sum(record["size"] for record in _PACKAGES.values())
    with progress_bar("downloading onnxruntime-web and sentencepiece-js", total, "B") as progress:
        # What is there already is checked alone.
        fetch_files(folder, _PACKAGES, _ADDRESSES.__getitem__, progress)
    return folder
