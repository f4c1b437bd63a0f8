"""Presets of a hub, where the network fails: a hub on this machine that is shut, stalls, or has nothing."""

import contextlib
import hashlib
import http.server
import re
import shutil
import socket
import threading
import time

import keras_hub
import pytest

from keras_attn_zoo.presets import hub_presets
from keras_attn_zoo.presets.hub_presets import downloading
from keras_attn_zoo.runs.loading import load_translator
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.translators import Translator
from tests import tiny

pytestmark = pytest.mark.one_backend

constants = pytest.importorskip("huggingface_hub.constants")


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """Return a function that puts the hub at a port of this machine; the cache is empty."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(hub_presets, "PATIENCE", 0.3)

    def at(port):
        endpoint = f"http://127.0.0.1:{port}"
        monkeypatch.setattr(constants, "ENDPOINT", endpoint)
        monkeypatch.setattr(
            constants,
            "HUGGINGFACE_CO_URL_TEMPLATE",
            endpoint + "/{repo_id}/resolve/{revision}/{filename}",
        )

    return at


@pytest.fixture
def stalling():
    """A port that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def shut():
    """A port that takes no connections: it was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class Repository(http.server.BaseHTTPRequestHandler):
    """A hub with the files of one preset, or without any."""

    def answer(self, body):
        # Other paths are of the hub's interface, about the whole repository, which not every hub has.
        start, _, file = self.path.partition("/resolve/main/")
        folder = self.server.folder
        if folder is None or start != "/user/preset" or not (path := folder / file).is_file():
            self.send_response(404)
            self.send_header("X-Error-Code", "EntryNotFound" if folder else "RepoNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        data = path.read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("X-Repo-Commit", "0" * 40)
        self.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()}"')
        self.end_headers()
        if body:
            self.wfile.write(data)

    def do_HEAD(self):
        self.answer(body=False)

    def do_GET(self):
        self.answer(body=True)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A preset, stored as the published ones are, and what it translates to."""
    folder = tmp_path_factory.mktemp("saved") / "preset"
    task = tiny.translator()
    task.save_to_preset(folder, storage="int8")
    return folder, Translator.from_preset(folder).generate(tiny.sentences("source")[:3])


@contextlib.contextmanager
def answering(hub, folder, monkeypatch):
    """A hub that has the files of a folder, or no repository for None."""
    # It answers, if the machine is not busy with something else.
    monkeypatch.setattr(hub_presets, "PATIENCE", 10.0)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Repository) as server:
        server.folder = folder
        threading.Thread(target=server.serve_forever, args=(0.02,)).start()
        hub(server.server_port)
        try:
            yield
        finally:
            server.shutdown()


LOADERS = pytest.mark.parametrize("cls", [Translator, keras_hub.models.Seq2SeqLM], ids=["ours", "hub"])


@LOADERS
def test_a_preset_of_a_hub(hub, saved, cls, monkeypatch):
    folder, expected = saved
    with answering(hub, folder, monkeypatch):
        task = cls.from_preset("hf://user/preset")
    assert type(task) is Translator and task.generate(tiny.sentences("source")[:3]) == expected


@pytest.mark.long
@pytest.mark.parametrize("shards", [False, True], ids=["one file", "shards"])
def test_a_marian_model_of_a_hub(hub, tmp_path, monkeypatch, shards):
    checkpoint = pytest.importorskip("tests.translators.marian_checkpoint")
    model, _ = checkpoint.write(tmp_path / "marian")
    if shards:
        (tmp_path / "marian" / "model.safetensors").unlink()
        model.save_pretrained(tmp_path / "marian", max_shard_size="8KB")
    with answering(hub, tmp_path / "marian", monkeypatch):
        task = load_translator("hf://user/preset")
    texts = checkpoint.text("source", 3)
    assert task.generate(texts) == load_translator(tmp_path / "marian").generate(texts)


@LOADERS
def test_a_preset_of_kaggle(saved, monkeypatch, cls):
    kagglehub = pytest.importorskip("kagglehub")
    folder, expected = saved
    asked = []

    def download(handle, path):
        asked.append(handle)
        if not (folder / path).is_file():
            raise ValueError(f"{path} is not present in the model files.")
        return str(folder / path)

    monkeypatch.setattr(kagglehub, "model_download", download)
    task = cls.from_preset("kaggle://user/model/keras/variation")
    assert set(asked) == {"user/model/keras/variation"}
    assert type(task) is Translator and task.generate(tiny.sentences("source")[:3]) == expected


@pytest.mark.parametrize("state", ["shut", "stalling"])
def test_a_hub_that_does_not_answer_is_named_within_seconds(hub, request, state):
    port = request.getfixturevalue(state)
    hub(port)
    began = time.monotonic()
    with pytest.raises(UserError, match=f"cannot reach 127.0.0.1:{port} for hf://user/preset.*: check the network"):
        load_translator("hf://user/preset")
    assert time.monotonic() - began < 5
    assert not constants.HF_HUB_OFFLINE


def test_a_cached_preset_needs_no_network(hub, shut, trained, tmp_path):
    hub(shut)
    commit = "0" * 40
    repository = tmp_path / "cache" / "models--user--preset"
    shutil.copytree(trained / "best", repository / "snapshots" / commit)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    began = time.monotonic()
    expected = load_translator(trained / "best").translate(["rot haus"])
    assert load_translator("hf://user/preset").translate(["rot haus"]) == expected
    assert time.monotonic() - began < 60


def test_a_preset_that_there_is_not(hub, monkeypatch):
    with (
        answering(hub, None, monkeypatch),
        pytest.raises(UserError, match="hf://user/preset does not exist or is private"),
    ):
        load_translator("hf://user/preset")


@pytest.mark.parametrize(
    ("preset", "text"),
    [
        ("http://x/y", "http://x/y cannot be downloaded: give a folder, or an address that begins with hf://, kaggle:"),
        ("HF://user/preset", "cannot be downloaded"),
        ("hf://", "not of the form hf://USER/PRESET"),
        ("hf://a/b/c", "not of the form hf://USER/PRESET"),
        ("hf://../../etc", "not of the form hf://USER/PRESET"),
        ("kaggle://", "kaggle:// is not of the form kaggle://USER/MODEL/FRAMEWORK/VARIATION or"),
        ("kaggle://a//keras/c", "not of the form kaggle://USER/MODEL/FRAMEWORK/VARIATION or"),
        ("kaggle://a/b/keras/c/last", "not of the form kaggle://USER/MODEL/FRAMEWORK/VARIATION or"),
        ("nix://a\nb", r"'nix://a\nb' cannot be downloaded"),
        ("hf://a\nb", r"'hf://a\nb' is not of the form hf://USER/PRESET"),
    ],
)
def test_addresses_that_cannot_be_used(hub, shut, preset, text):
    hub(shut)
    for load in (load_translator, Translator.from_preset):
        with pytest.raises(UserError, match=re.escape(text)):
            load(preset)


def test_a_package_that_is_not_there(monkeypatch):
    monkeypatch.setitem(hub_presets.PACKAGES, "modelscope", "no_such_package")
    with pytest.raises(UserError, match="modelscope://a/b needs the package no_such_package"):
        load_translator("modelscope://a/b")


def test_errors_of_the_network_are_told_from_others():
    with (
        pytest.raises(UserError, match=r"cannot reach www\.kaggle\.com for kaggle://a/b/keras/c"),
        downloading("kaggle://a/b/keras/c"),
    ):
        try:
            raise socket.gaierror(-3, "Temporary failure in name resolution")
        except OSError:
            raise ValueError("Max retries exceeded") from None
    with pytest.raises(ValueError, match="damaged") as caught, downloading("kaggle://a/b/keras/c"):
        raise ValueError("damaged")
    assert not isinstance(caught.value, UserError)
    with pytest.raises(KeyError), downloading("a_folder"):
        raise KeyError
