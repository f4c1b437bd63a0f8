"""A server of one published preset, which does its worst."""

import contextlib
import hashlib
import http.server
import json
import re
import threading

import pytest

from keras_attn_zoo.presets import preset_registry
from keras_attn_zoo.support import fetching
from tests import tiny

NAME = "tiny_de_en"
TEXTS = tiny.sentences("source")[:2]


class Server(http.server.ThreadingHTTPServer):
    """Serves the files of a site; `faults` holds, per request of a file, how it goes wrong."""

    daemon_threads = True

    def __init__(self, folder):
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder, self.faults, self.requests, self.released = folder, [], [], threading.Event()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        server = self.server
        fault = server.faults.pop(0) if server.faults else None
        start = int(re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", "bytes=0-"))[1])
        server.requests.append((self.path, start, fault))
        path = server.folder / self.path.lstrip("/").removeprefix("moved/")
        if isinstance(fault, bytes):
            self.wfile.write(fault)
            self.close_connection = True
            return
        if fault in ("headers", "continue"):
            with contextlib.suppress(OSError):
                self.wfile.write(b"HTTP/1.1 200 OK\r\nX: " if fault == "headers" else b"")
                while not server.released.wait(0.02):
                    self.wfile.write(b"x" if fault == "headers" else b"HTTP/1.1 100 Continue\r\n\r\n")
            self.close_connection = True
            return
        if fault == "redirect":
            self.send_response(302)
            self.send_header("Location", f"/moved{self.path}")
            self.end_headers()
            return
        if isinstance(fault, int) or not path.is_file():
            self.send_error(fault or 404)
            return
        data = path.read_bytes()
        if fault == "another file":
            data = bytes(len(data))
        if fault == "too much":
            data += b"more"
        if fault == "login page":
            data = b"<a>"
        if fault == "a byte":
            data = data[: start + 1]
        if fault == "no ranges":
            start = 0
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        body = data[start:]
        says = {"too small": len(body) // 2, "too large": len(body) + 9}.get(fault, len(body))
        if fault == "a byte":
            says = path.stat().st_size - start
        self.send_header("Content-Length", str(says))
        self.end_headers()
        if fault == "drip":
            with contextlib.suppress(OSError):
                for byte in body:
                    self.wfile.write(bytes([byte]))
                    server.released.wait(0.05)
            return
        if fault in ("cut", "stall"):
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            if fault == "stall":
                server.released.wait(5)
            self.close_connection = True
        else:
            self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site") / "presets"
    tiny.translator().save_to_preset(folder / NAME, storage="float16")
    (folder / NAME / "README.md").write_text("# A card")
    return folder


def write_registry(path, saved):
    """Write a registry of the one preset."""
    records = {
        name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in sorted(files_of(saved / NAME).items())
    }
    facts = {"body": "RNNBackbone", "system": "bahdanau", "parameters": 1, "scores": {"bleu": 1.5}, "files": records}
    path.write_text(json.dumps({"presets": {NAME: facts}}))


@pytest.fixture
def server(saved, monkeypatch, tmp_path):
    """A server of the one published preset; no copy of it is on this machine."""
    write_registry(tmp_path / "presets.json", saved)
    monkeypatch.setattr(preset_registry, "REGISTRY", tmp_path / "presets.json")
    monkeypatch.setattr(preset_registry, "CHECKOUT", tmp_path / "checkout")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("ATTN_ZOO_PRESETS", raising=False)
    monkeypatch.setattr(fetching, "PATIENCE", 0.3)
    monkeypatch.setattr(fetching, "PAUSE", 0.01)
    preset_registry.published.cache_clear()
    with Server(saved.parent) as server:
        monkeypatch.setattr(preset_registry, "BASE_URL", server.address)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        server.released.set()
        server.shutdown()
    preset_registry.published.cache_clear()


def files_of(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
