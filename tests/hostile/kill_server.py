"""What killed commands download from and upload to: presets, corpora of two libraries and a hub, on loopback.

A process that is killed is forked from the one of this server, which goes on.
"""

import base64
import functools
import gzip
import io
import json
import os
import re
import shutil
import sys
import threading
import zipfile
from urllib.parse import unquote

from tests.corpora import catalogue_server
from tests.tiny_run import make_pairs

PRESET = "tiny_de_en"
PARTS = {"train": make_pairs(96), "valid": make_pairs(16, 200), "test": make_pairs(6, 400)}
SIDES = ("de", "en")
HUB, MTDATA, BY_HAND = ("tiny-hub-de-en", "tiny-mtdata-de-en", "tiny-hand-de-en")
_UPLOAD = re.compile(r"/api/models/(?P<model>[\w./-]+)/(?P<what>preupload|commit)/main")


class Server(catalogue_server.Server):
    """Serves data sets of a hub and files of mtdata, as for the tests of corpora; keeps uploads in a folder."""

    def __init__(self):
        super().__init__()
        self.RequestHandlerClass = _Handler
        self.uploaded = None
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def handle_error(self, request, client_address):
        """Say nothing of clients that were killed."""


class _Handler(catalogue_server.Handler):
    def do_HEAD(self):
        # Whether a model has a file.
        model, _, file = unquote(self.path).strip("/").partition("/resolve/main/")
        if not file:
            super().do_HEAD()
            return
        path = self.server.uploaded / model / file
        self.send_response(200 if path.is_file() else 404)
        if path.is_file():
            self.send_header("ETag", '"any"')
            self.send_header("X-Repo-Commit", catalogue_server.COMMIT)
        else:
            self.send_header("X-Error-Code", "EntryNotFound")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self):
        size = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(size) if size else b"".join(self._chunks())
        found = _UPLOAD.fullmatch(unquote(self.path).partition("?")[0])
        if found is None:
            # A model that is made, a card that is looked at.
            name = json.loads(body).get("name", "")
            self._say({"url": f"{self.server.address}/user/{name}", "errors": [], "warnings": []})
        elif found["what"] == "preupload":
            files = [one["path"] for one in json.loads(body)["files"]]
            self._say({"files": [{"path": f, "uploadMode": "regular", "shouldIgnore": False} for f in files]})
        else:
            self._commit(found["model"], [json.loads(line) for line in body.splitlines()])
            commit = catalogue_server.COMMIT
            self._say({"commitUrl": f"{self.server.address}/{found['model']}/commit/{commit}", "commitOid": commit})

    def _chunks(self):
        while size := int(self.rfile.readline() or b"0", 16):
            yield self.rfile.read(size)
            self.rfile.readline()

    def _commit(self, model, lines):
        for one in (line["value"] for line in lines if line["key"] == "file"):
            path = self.server.uploaded / model / one["path"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(base64.b64decode(one["content"]))

    def _say(self, answer):
        content = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def environment(address, root):
    """Where the libraries of hubs look, which read it when they are first imported."""
    names = {"HF_HOME": root / "hub", "HF_ENDPOINT": address, "HF_TOKEN": "hf_none", "HF_HUB_DISABLE_TELEMETRY": "1"}
    return {name: str(value) for name, value in names.items()}


def publish(server, folder):
    """Make the preset in a folder one that is published with this version."""
    from keras_attn_zoo.presets import preset_registry
    from keras_attn_zoo.support.checksums import sha256

    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    about = {p.relative_to(folder).as_posix(): {"size": p.stat().st_size, "sha256": sha256(p)} for p in files}
    server.files |= {f"/presets/{PRESET}/{path.relative_to(folder).as_posix()}": path.read_bytes() for path in files}
    facts = {**preset_registry.published()["transformer_tatoeba_de_en"], "files": about}
    preset_registry.published = lambda: {PRESET: facts}
    preset_registry.BASE_URL = server.address


def offer_corpora(server):
    """Make the catalogue one of three corpora: from a hub, through mtdata, and one that is put in place by hand."""
    from keras_attn_zoo.corpora import named_corpora

    rows = {
        part: b"".join(
            json.dumps({"translation": dict(zip(SIDES, pair, strict=True))}).encode() + b"\n" for pair in own
        )
        for part, own in PARTS.items()
    }
    server.add_data_set("a/one", {f"{part}.jsonl": content for part, content in rows.items()})
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for side, language in enumerate(SIDES):
            archive.writestr(f"all.{language}", lines("train", side))
    server.files["/train.zip"] = packed.getvalue()
    for part in ("valid", "test"):
        for side, language in enumerate(SIDES):
            server.files[f"/{part}.{language}.gz"] = gzip.compress(lines(part, side), mtime=0)
    plain = {
        part: {"name": f"Tiny-{part}-1-deu-eng", "url": [f"{server.address}/{part}.{one}.gz" for one in SIDES]}
        for part in ("valid", "test")
    }
    of_hub = {"repository": "a/one", **{part: {"files": f"{part}.jsonl"} for part in PARTS}}
    of_mtdata = {"train": ["Tiny-train-1-deu-eng"], **{part: [one] for part, one in plain.items()}}
    unsplit = {"repository": "a/one", "all": {"files": "train.jsonl"}}
    corpora = [
        named_corpora.NamedCorpus(HUB, "text", SIDES, "home", "terms", hub=of_hub),
        named_corpora.NamedCorpus(MTDATA, "text", SIDES, "home", "terms", mtdata=of_mtdata),
        named_corpora.NamedCorpus(BY_HAND, "text", SIDES, "home", "terms", hub=unsplit),
    ]
    named_corpora.catalogue = lambda: {corpus.name: corpus for corpus in corpora}
    _make_index_small(server.address)


def lines(part, side):
    """One side of a part of the text, as a file has it."""
    return "".join(f"{pair[side]}\n" for pair in PARTS[part]).encode()


def _make_index_small(address):
    """Have mtdata's index hold one entry. Nothing of it is imported here: a killed command does that, and writes it."""
    sys.modules |= catalogue_server.modules_without_entries()
    sys.modules["mtdata.index.statmt"].load_all = functools.partial(_add_entry, address)


def _add_entry(address, index):
    from mtdata.entry import Entry

    index.add_entry(
        Entry(did="Tiny-train-1-deu-eng", url=f"{address}/train.zip", in_paths=["*.de", "*.en"], in_ext="txt")
    )


def put_by_hand(work):
    """Put the text of a corpus that is not split in place, as a user does."""
    folder = work / "home" / ".cache" / "keras-attn-zoo" / "corpora" / BY_HAND
    folder.mkdir(parents=True)
    for side, language in enumerate(SIDES):
        (folder / f"all.{language}").write_bytes(lines("train", side))


def prepare_site(work):
    """Put the published preset into the cache, and small documentation beside what is written."""
    from tests.site.small_site import write_docs

    shutil.copytree(work / "run" / "best", work / "home" / ".cache" / "keras-attn-zoo" / "presets" / PRESET)
    write_docs(work / "docs")


def write_card(work):
    """Give a preset a card of its own."""
    (work / "run" / "best" / "README.md").write_text("# A card\n")


def start(root):
    """Start a server, before any library of a hub is imported; what is uploaded is kept in the working folder."""
    server = Server()
    os.environ |= environment(server.address, root)
    return server
