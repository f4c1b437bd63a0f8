"""Published presets: where they are found, and how they are fetched from a server that does its worst."""

import hashlib
import http.server
import json
import re
import shutil
import threading
from pathlib import Path

import pytest

from keras_attn_zoo import fetching
from keras_attn_zoo.cli import main
from keras_attn_zoo.errors import UserError
from keras_attn_zoo.experiments.loading import load_translator
from keras_attn_zoo.models import RNNBackbone, TransformerTranslator, Translator, preset_registry
from keras_attn_zoo.models.preset_registry import ADDRESS, fetch_preset, find_preset, published
from tests import tiny

pytestmark = pytest.mark.one_backend

NAME = "tiny_de_en"
TEXTS = tiny.sentences("source")[:2]


class Server(http.server.ThreadingHTTPServer):
    """Serves the files of a folder; `faults` holds, per request of a file, how it goes wrong."""

    daemon_threads = True

    def __init__(self, folder):
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder, self.faults, self.requests, self.released = folder, [], [], threading.Event()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_port}/{{preset}}/{{file}}"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        server = self.server
        fault = server.faults.pop(0) if server.faults else None
        start = int(re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", "bytes=0-"))[1])
        server.requests.append((self.path, start, fault))
        path = server.folder / self.path.lstrip("/").removeprefix("moved/")
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
        if fault == "no ranges":
            start = 0
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        body = data[start:]
        says = {"too small": len(body) // 2, "too large": len(body) + 9}.get(fault, len(body))
        self.send_header("Content-Length", str(says))
        self.end_headers()
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
    folder = tmp_path_factory.mktemp("published")
    tiny.translator().save_to_preset(folder / NAME, storage="float16")
    return folder


@pytest.fixture
def server(saved, monkeypatch, tmp_path):
    """A server of the one published preset; no copy of it is on this machine."""
    records = {
        path.relative_to(saved / NAME).as_posix(): {
            "size": path.stat().st_size,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        }
        for path in sorted((saved / NAME).rglob("*"))
        if path.is_file()
    }
    facts = {"body": "RNNBackbone", "system": "bahdanau", "parameters": 1, "scores": {"bleu": 1.5}, "files": records}
    (tmp_path / "presets.json").write_text(json.dumps({"presets": {NAME: facts}}))
    monkeypatch.setattr(preset_registry, "REGISTRY", tmp_path / "presets.json")
    monkeypatch.setattr(preset_registry, "CHECKOUT", tmp_path / "checkout")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("ATTN_ZOO_PRESETS", raising=False)
    monkeypatch.setattr(fetching, "PATIENCE", 0.3)
    monkeypatch.setattr(fetching, "PAUSE", 0.01)
    preset_registry.published.cache_clear()
    with Server(saved) as server:
        monkeypatch.setattr(preset_registry, "ADDRESS", server.address)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        server.released.set()
        server.shutdown()
    preset_registry.published.cache_clear()


def files_of(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_name_is_fetched_once_and_translates_as_its_folder(server, saved, tmp_path):
    expected = Translator.from_preset(str(saved / NAME)).generate(TEXTS)
    assert Translator.from_preset(NAME).generate(TEXTS) == expected
    cached = tmp_path / "cache" / "keras-attn-zoo" / "presets"
    assert files_of(cached / NAME) == files_of(saved / NAME)
    assert {path.name for path in cached.iterdir()} <= {NAME, "unfinished"}
    count = len(server.requests)
    assert count == len(files_of(saved / NAME))
    assert load_translator(NAME).generate(TEXTS) == expected
    assert len(server.requests) == count


def test_presets_of_a_class(server):
    assert list(Translator.presets) == [NAME] == list(RNNBackbone.presets)
    assert not TransformerTranslator.presets


def test_places_in_order(server, saved, tmp_path, monkeypatch):
    cached = fetch_preset(NAME)
    assert find_preset(NAME) == str(cached)
    shutil.copytree(saved / NAME, tmp_path / "checkout" / NAME)
    assert find_preset(NAME) == str(tmp_path / "checkout" / NAME)
    monkeypatch.setenv("ATTN_ZOO_PRESETS", str(tmp_path / "own"))
    assert find_preset(NAME) == str(tmp_path / "checkout" / NAME)
    shutil.copytree(saved / NAME, tmp_path / "own" / NAME)
    assert find_preset(NAME) == str(tmp_path / "own" / NAME)
    # A folder of one's own may hold more than is published.
    shutil.copytree(saved / NAME, tmp_path / "own" / "mine")
    assert find_preset("mine") == str(tmp_path / "own" / "mine")
    monkeypatch.chdir(tmp_path / "own")
    assert find_preset("mine") == "mine"
    monkeypatch.delenv("ATTN_ZOO_PRESETS")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="no folder or published preset mine"):
        find_preset("mine")
    # What is no name is left as it is.
    assert find_preset("hf://user/preset") == "hf://user/preset" and find_preset("runs/mine") == "runs/mine"


@pytest.mark.parametrize(
    "faults",
    [
        ["cut"],
        ["cut", "cut", "cut", "cut", "cut"],
        ["stall"],
        ["cut", "no ranges"],
        ["too small"],
        ["too large"],
        [500, 503, 429],
        ["redirect"],
        ["cut", 416],
        ["cut", "redirect", "cut"],
    ],
    ids=lambda faults: "-".join(map(str, faults)),
)
def test_a_bad_connection_is_overcome(server, saved, faults):
    server.faults = list(faults)
    assert files_of(fetch_preset(NAME)) == files_of(saved / NAME)
    assert not server.faults
    if faults == ["cut"]:
        # The second half alone was asked for again.
        first, second = (request[1] for request in server.requests[:2])
        assert first == 0 and second > 0


@pytest.mark.parametrize(
    "fault, message",
    [
        ("another file", "is not the file that was published: its SHA-256 is"),
        ("too much", "is not the file that was published: it has more than"),
        (404, "the server says 404 Not Found"),
        (403, "the server says 403 Forbidden"),
        (500, "the server says 500 .*check the network and run the command again"),
    ],
)
def test_what_cannot_be_fetched_is_one_line_and_nothing_is_used(server, tmp_path, fault, message):
    server.faults = [fault] * 4
    with pytest.raises(UserError, match=message) as caught:
        Translator.from_preset(NAME)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "cache" / "keras-attn-zoo" / "presets" / NAME).exists()
    server.faults = []
    assert Translator.from_preset(NAME).generate(TEXTS)


def test_a_stopped_fetch_is_resumed_by_the_next_process(server, saved):
    # Four attempts that bring nothing new end it; what came before them stays.
    server.faults = ["cut"] + [500] * 4
    with pytest.raises(UserError, match="run the command again to resume"):
        fetch_preset(NAME)
    count = len(server.requests)
    assert files_of(fetch_preset(NAME)) == files_of(saved / NAME)
    assert server.requests[count][1] > 0


def test_a_part_of_another_file_is_not_kept(server, saved, tmp_path):
    part = tmp_path / "cache" / "keras-attn-zoo" / "presets" / "unfinished" / NAME
    part.mkdir(parents=True)
    (part / "config.json").write_bytes(b"?" * 10)
    (part / "task.json").write_bytes(b"?" * 100_000)
    assert files_of(fetch_preset(NAME)) == files_of(saved / NAME)


def test_no_network(server, monkeypatch):
    server.shutdown()
    server.server_close()
    with pytest.raises(UserError, match=r"cannot download http://127.*Connection refused.*check the network"):
        Translator.from_preset(NAME)


def test_a_full_disk(server, monkeypatch):
    opened = fetching._opened
    monkeypatch.setattr(fetching, "_opened", lambda path, mode: opened(Path("/dev/full"), mode))
    with pytest.raises(UserError, match=r"cannot write .*: No space left on device. Free some space"):
        fetch_preset(NAME)


def test_two_at_once_fetch_it_once(server, saved):
    found = []
    threads = [threading.Thread(target=lambda: found.append(fetch_preset(NAME))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 2 and files_of(found[0]) == files_of(saved / NAME)
    assert len(server.requests) == len(files_of(saved / NAME))


def test_a_damaged_copy_is_found_before_anything_is_loaded(server):
    folder = fetch_preset(NAME)
    weights = folder / "model.weights.h5"
    data = bytearray(weights.read_bytes())
    data[len(data) // 2] ^= 1
    weights.write_bytes(data)
    with pytest.raises(UserError, match=r"model\.weights\.h5 is damaged or was changed.*presets\.json"):
        Translator.from_preset(NAME)
    (folder / "task.json").unlink()
    with pytest.raises(UserError, match=r"damaged|task\.json is missing"):
        Translator.from_preset(NAME)


def test_a_newer_format_says_so(saved, tmp_path):
    shutil.copytree(saved / NAME, tmp_path / "preset")
    sums = json.loads((tmp_path / "preset" / "checksums.json").read_text())
    (tmp_path / "preset" / "checksums.json").write_text(json.dumps({**sums, "format": 99}))
    with pytest.raises(
        UserError, match="has format 99, but this version of keras-attn-zoo reads at most 1: pip install"
    ):
        Translator.from_preset(str(tmp_path / "preset"))


def test_an_unknown_name_names_the_nearest(server, tmp_path, monkeypatch):
    with pytest.raises(UserError, match=r"no folder or published preset tiny_de_fr: did you mean tiny_de_en\?"):
        Translator.from_preset("tiny_de_fr")
    with pytest.raises(UserError, match="no folder or published preset 0000: `attn-zoo presets` lists them"):
        load_translator("0000")
    # Those of the user's own folder are known too.
    (tmp_path / "my_preset_de_fr").mkdir()
    monkeypatch.setenv(preset_registry.VARIABLE, str(tmp_path))
    with pytest.raises(UserError, match=r"my_preset_de: did you mean my_preset_de_fr\?"):
        load_translator("my_preset_de")


def test_the_command(server, saved, tmp_path, capsys):
    assert main(["presets"]) == 0
    assert re.search(rf"{NAME} +\| +bahdanau \| +1\.5 \|.*\| +no \|", capsys.readouterr().out)
    assert main(["presets", "--verify"]) == 0
    assert f"{NAME}: not on this machine" in capsys.readouterr().out
    assert main(["presets", "--download"]) == 0
    assert capsys.readouterr().out.startswith(f"{NAME}: {tmp_path / 'cache'}")
    assert main(["presets", "--verify", NAME]) == 0 and "is as published" in capsys.readouterr().out
    assert main(["presets", "--download", "tiny"]) == 2
    assert "did you mean tiny_de_en?" in capsys.readouterr().err
    (fetch_preset(NAME) / "config.json").write_text("{}")
    assert main(["presets", "--verify"]) == 2
    assert "config.json is damaged" in capsys.readouterr().out
    assert len(published()) == 1


def test_the_address_is_one_constant(server):
    """Whoever publishes sets it; it leads to the address at which `hf://` presets are."""
    from huggingface_hub import hf_hub_url

    assert ADDRESS.format(preset=NAME, file="assets/tokenizer/vocabulary.spm") == hf_hub_url(
        f"keras-attn-zoo/{NAME}", "assets/tokenizer/vocabulary.spm"
    )
