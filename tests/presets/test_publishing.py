"""Presets uploaded to a hub by KerasHub's own function, with their own cards; and a hub that refuses, in one line."""

import http.server
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from keras_attn_zoo.cli import main
from keras_attn_zoo.presets import hub_presets
from tests import tiny
from tests.presets.preset_server import files_of

pytestmark = pytest.mark.one_backend

huggingface_hub = pytest.importorskip("huggingface_hub")
NAMES = ("tiny_de_en", "tiny_en_de")
CARD = "# A card of our own\n"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("published")
    tiny.translator().save_to_preset(folder / NAMES[0], storage="int8")
    (folder / NAMES[0] / "README.md").write_text(CARD)
    shutil.copytree(folder / NAMES[0], folder / NAMES[1])
    # Beside the presets there may be other things.
    (folder / "make.py").touch()
    (folder / "drafts").mkdir()
    return folder


@pytest.fixture
def hub(monkeypatch):
    """The files of a hub by model, uploaded by the library's own functions, of which only the network is left out."""
    models = {}

    def create_repo(repo_id, exist_ok):
        assert exist_ok
        models.setdefault(repo_id, {})
        return huggingface_hub.RepoUrl(f"https://huggingface.co/{repo_id}")

    def upload_file(path_or_fileobj, path_in_repo, repo_id):
        is_content = isinstance(path_or_fileobj, bytes)
        models[repo_id][path_in_repo] = path_or_fileobj if is_content else Path(path_or_fileobj).read_bytes()

    def upload_folder(repo_id, folder_path):
        models[repo_id] |= files_of(Path(folder_path))

    for function in (create_repo, upload_file, upload_folder):
        monkeypatch.setattr(huggingface_hub, function.__name__, function)
    monkeypatch.setattr(huggingface_hub, "file_exists", lambda repo_id, filename: filename in models[repo_id])
    monkeypatch.setattr(hub_presets, "_answers", lambda url: True)
    return models


def test_every_preset_is_uploaded_under_its_name(saved, hub, capsys):
    before = files_of(saved)
    assert main(["presets", "publish", str(saved), "hf://somebody"]) == 0
    assert capsys.readouterr().out == "".join(f"{name}: hf://somebody/{name}\n" for name in NAMES)
    assert hub == {f"somebody/{name}": files_of(saved / name) for name in NAMES}
    # KerasHub writes a card of its own into the folder of a model without one on the hub, and removes it afterwards.
    assert files_of(saved) == before


def test_a_preset_without_a_card_gets_one_that_says_how_to_load_it(saved, hub, tmp_path, monkeypatch):
    shutil.copytree(saved / NAMES[0], tmp_path / NAMES[0])
    (tmp_path / NAMES[0] / "README.md").unlink()
    before, upload_folder, seen = files_of(tmp_path), huggingface_hub.upload_folder, []

    def upload(repo_id, folder_path):
        # KerasHub would put it there, and leave it there if it were killed now.
        seen.append(files_of(tmp_path))
        upload_folder(repo_id, folder_path)

    monkeypatch.setattr(huggingface_hub, "upload_folder", upload)
    for card in (f'from_preset("hf://somebody/{NAMES[0]}")'.encode(), b"# Written on the hub"):
        assert main(["presets", "publish", str(tmp_path), "hf://somebody/"]) == 0
        assert card in hub[f"somebody/{NAMES[0]}"]["README.md"]
        hub[f"somebody/{NAMES[0]}"]["README.md"] = b"# Written on the hub"
    assert seen == [before, before]


def test_kaggle(saved, monkeypatch):
    kagglehub = pytest.importorskip("kagglehub")
    sent = []
    monkeypatch.setattr(kagglehub, "model_upload", lambda handle, folder: sent.append((handle, folder)))
    assert main(["presets", "publish", str(saved), "kaggle://somebody"]) == 0
    assert sent == [(f"somebody/{name}/keras/{name}", str(saved / name)) for name in NAMES]


@pytest.mark.parametrize("address", ["somebody", "hf://", "hf://a/b", "ftp://somebody", "hf:// ", "hf://a b", "", "\n"])
def test_addresses_that_are_no_account(saved, hub, capsys, address):
    assert main(["presets", "publish", str(saved), address]) == 2
    error = capsys.readouterr().err
    assert "cannot publish to" in error and "give hf://USER or kaggle://USER." in error and error.count("\n") == 1
    assert not hub


def test_folders_without_presets(hub, tmp_path, capsys):
    for folder in (tmp_path, tmp_path / "nowhere", Path(__file__)):
        assert main(["presets", "publish", str(folder), "hf://somebody"]) == 2
        assert f"there are no presets in {folder}" in capsys.readouterr().err


def test_a_damaged_preset_is_found_before_the_first_is_uploaded(saved, hub, tmp_path, capsys):
    shutil.copytree(saved, tmp_path / "presets")
    (tmp_path / "presets" / NAMES[1] / "config.json").write_text("{}")
    assert main(["presets", "publish", str(tmp_path / "presets"), "hf://somebody"]) == 2
    assert "config.json is damaged or was changed" in capsys.readouterr().err and not hub


@pytest.mark.parametrize(
    ("name", "without", "message"),
    [
        (None, "checksums.json", "checksums.json"),
        (None, "config.json", "config.json is missing"),
        ("c d", None, "a hub does not take 'c d' as the name of a model: rename"),
        ("ü", None, "a hub does not take 'ü' as the name of a model"),
    ],
)
def test_no_preset_is_left_out_without_a_word(saved, hub, tmp_path, capsys, name, without, message):
    shutil.copytree(saved, tmp_path / "presets")
    last = tmp_path / "presets" / NAMES[-1]
    if without:
        (last / without).unlink()
    else:
        last.rename(tmp_path / "presets" / name)
    assert main(["presets", "publish", str(tmp_path / "presets"), "hf://somebody"]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1 and not hub


def test_a_package_that_is_missing(saved, monkeypatch, capsys):
    monkeypatch.setitem(hub_presets.PACKAGES, "hf", "no_such_package")
    assert main(["presets", "publish", str(saved), "hf://somebody"]) == 2
    assert "needs the package no_such_package, which is not installed: pip install" in capsys.readouterr().err


class Hub(http.server.BaseHTTPRequestHandler):
    """A hub that refuses with the status, or complains with the message, that its server was given."""

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = json.dumps({"error": self.server.message}).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_HEAD(self):
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.mark.parametrize(
    "status, message, told",
    [
        (401, "Invalid username or password.", "log in (hf auth login) with an account that may write there"),
        (403, "You don't have the rights", "log in (hf auth login) with an account that may write there"),
        (402, "Storage limit\nreached", "Storage limit reached"),
    ],
)
def test_a_hub_that_refuses(saved, monkeypatch, capsys, status, message, told):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        server.status, server.message = status, message
        threading.Thread(target=server.serve_forever, args=(0.02,)).start()
        # Without an account.
        endpoint = f"http://127.0.0.1:{server.server_port}"
        api = huggingface_hub.HfApi(endpoint=endpoint, token=False)
        for name in ("create_repo", "upload_file", "file_exists", "upload_folder"):
            monkeypatch.setattr(huggingface_hub, name, getattr(api, name))
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", endpoint)
        before = files_of(saved)
        assert main(["presets", "publish", str(saved), "hf://somebody"]) == 2
        server.shutdown()
    output, error = capsys.readouterr()
    last = error.splitlines()[-1]
    assert f"cannot upload {saved / NAMES[0]} to hf://somebody/{NAMES[0]}: " in last and told in last and not output
    assert "Traceback" not in error and files_of(saved) == before


def test_kaggle_without_network_or_account(saved, monkeypatch, capsys):
    kagglehub = pytest.importorskip("kagglehub")
    requests = pytest.importorskip("requests")

    def unreachable(*_):
        raise requests.exceptions.ConnectionError("Max retries exceeded")

    def refused(*_):
        raise kagglehub.exceptions.UnauthenticatedError

    for upload, told in (
        (unreachable, "cannot reach www.kaggle.com"),
        (refused, "log in (python -c 'import kagglehub"),
    ):
        monkeypatch.setattr(kagglehub, "model_upload", upload)
        assert main(["presets", "publish", str(saved), "kaggle://somebody"]) == 2
        assert told in capsys.readouterr().err


@pytest.mark.slow
def test_a_process_that_has_used_nothing_of_the_hub(saved):
    with socket.create_server(("127.0.0.1", 0)) as server:
        host = f"127.0.0.1:{server.getsockname()[1]}"
    line = [sys.executable, "-m", "keras_attn_zoo", "presets", "publish", str(saved), "hf://somebody"]
    done = subprocess.run(line, env=os.environ | {"HF_ENDPOINT": f"http://{host}"}, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.endswith(f"cannot reach {host} to upload {saved / NAMES[0]}: check the network.\n")


def test_a_backend_before_the_subcommand_stays(monkeypatch):
    from keras_attn_zoo.cli import build_parser

    words = ["presets", "publish", "folder", "hf://somebody"]
    for line in (["presets", "--backend", "jax", *words[1:]], [*words, "--backend", "jax"]):
        assert build_parser().parse_args(line).backend == "jax"
    assert build_parser().parse_args(words).backend is None
