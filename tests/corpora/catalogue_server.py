"""A server on loopback that has files and data sets of a hub, and does its worst."""

import contextlib
import hashlib
import http.server
import importlib.util
import json
import re
import sys
import threading
import types
from pathlib import Path
from urllib.parse import unquote

import pytest

COMMIT = "c0ffee" * 6 + "beef"


class Server(http.server.ThreadingHTTPServer):
    """Serves `files`, bytes by path; `faults` holds, per request of content, how it goes wrong.

    Of paths in `unsized` it does not say how large they are.
    """

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.unsized, self.faults, self.requests = {}, set(), [], []

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_port}"

    def add_data_set(self, name, files):
        """Add a data set of the hub; a file above 100 bytes is listed by its SHA-256, as large files are."""
        siblings = []
        for file, data in files.items():
            git = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
            record = {"rfilename": file, "size": len(data), "blobId": git}
            if len(data) > 100:
                record["lfs"] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}
            siblings.append(record)
            self.files[f"/datasets/{name}/resolve/{COMMIT}/{file}"] = data
        info = {"id": name, "sha": COMMIT, "siblings": siblings}
        for revision in ("main", "refs/convert/parquet", COMMIT):
            self.files[f"/api/datasets/{name}/revision/{revision}"] = json.dumps(info).encode()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_HEAD(self):
        self.answer(None)

    def do_GET(self):
        path = unquote(self.path.partition("?")[0])
        asks = path.startswith("/api/")
        self.answer(self.server.faults.pop(0) if self.server.faults and not asks else "")

    def answer(self, fault):
        path = unquote(self.path.partition("?")[0])
        start = int(re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", "bytes=0-"))[1])
        self.server.requests.append((self.command, path, start))
        data = self.server.files.get(path)
        if data is None or isinstance(fault, int):
            self.send_response(fault or 404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        etag = hashlib.sha256(data).hexdigest()
        if fault == "another file":
            data = bytes(len(data))
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        if path not in self.server.unsized:
            self.send_header("Content-Length", str(len(data) - start))
        self.send_header("ETag", f'"{etag}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.end_headers()
        if fault is not None:
            self.wfile.write(data[start : start + (len(data) - start) // 2] if fault == "cut" else data[start:])
        self.close_connection = fault == "cut"

    def log_message(self, *args):
        pass


@contextlib.contextmanager
def serving():
    """Run a server while the context lasts."""
    with Server() as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server
        server.shutdown()


def modules_without_entries():
    """Modules in the place of those from which mtdata makes its index: it has 300,000 entries, and takes a while."""
    home = Path(importlib.util.find_spec("mtdata").origin).parent
    paths = [path.relative_to(home).with_suffix("") for path in (home / "index").rglob("*.py")]
    names = [".".join(("mtdata", *path.parts)) for path in paths if path.name != "__init__"]
    return {name: types.SimpleNamespace(load_all=lambda index: None) for name in names}


@contextlib.contextmanager
def unused_mtdata(folder):
    """Have mtdata as a new process finds it, with an index of nothing."""
    from keras_attn_zoo.corpora import mtdata_source

    pytest.importorskip("mtdata")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MTDATA", str(folder))
        for name in [name for name in sys.modules if name.partition(".")[0] == "mtdata"]:
            patch.delitem(sys.modules, name)
        for name, module in modules_without_entries().items():
            patch.setitem(sys.modules, name, module)
        mtdata_source._cache_class.cache_clear()
        yield
        mtdata_source._cache_class.cache_clear()
