"""How presets are fetched from a server that does its worst."""

import contextlib
import time
import urllib.request
from pathlib import Path

import pytest

from keras_attn_zoo.presets import preset_registry
from keras_attn_zoo.presets.preset_registry import cache_folder, fetch_preset
from keras_attn_zoo.support import fetching
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.locks import locked
from keras_attn_zoo.translators import Translator
from tests.presets.preset_server import NAME, TEXTS, files_of

pytestmark = pytest.mark.one_backend


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


def test_a_file_that_was_not_published_is_never_loaded(server, saved):
    """KerasHub would take weights in several files for those of a preset, if there are any."""
    folder = fetch_preset(NAME)
    for name in ("model.weights.json", "assets/tokenizer/more.json"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("{}")
        assert preset_registry.local_folder(NAME) is None
        assert files_of(fetch_preset(NAME)) == files_of(saved / NAME)
    # What a file manager leaves there is no file of a preset.
    (folder / ".DS_Store").write_text("")
    assert preset_registry.local_folder(NAME) == folder


def test_a_download_shows_how_far_it_is(server, monkeypatch):
    shown, begun = [], []

    @contextlib.contextmanager
    def bar(what, total, unit):
        begun.append((what, total, unit))
        yield shown.append

    monkeypatch.setattr(preset_registry, "progress_bar", bar)
    # What is fetched again after a broken connection is not counted twice.
    server.faults = ["cut", "redirect"]
    sizes = [len(content) for content in files_of(fetch_preset(NAME)).values()]
    assert begun == [(f"downloading {NAME}", sum(sizes), "B")]
    assert shown == sorted(shown) and shown[0] < shown[-1] == sum(sizes)


@pytest.mark.parametrize(
    "fault, message",
    [
        ("another file", "is not the file that was published: its SHA-256 is"),
        ("too much", "is not the file that was published: it has more than"),
        ("login page", "is not the file that was published: it has 3 bytes, not 8. .*: a proxy may have sent"),
        ("a byte", "check the network and run the command again"),
        (404, "the server says 404 Not Found. It may have moved: pip install --upgrade"),
        (403, "the server says 403 Forbidden"),
        (500, "the server says 500 .*check the network and run the command again"),
    ],
)
def test_what_cannot_be_fetched_is_one_line_and_nothing_is_used(server, tmp_path, fault, message):
    # Attempts that bring something are not counted: a byte of the smallest file is something.
    server.faults = [fault] * 40
    with pytest.raises(UserError, match=message) as caught:
        Translator.from_preset(NAME)
    assert "\n" not in str(caught.value)
    cache = tmp_path / "cache" / "keras-attn-zoo" / "presets"
    assert not (cache / NAME).exists() and (fault != 404 or not any((cache / "unfinished").iterdir()))
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


def answer(head, body=b""):
    return b"HTTP/1.1 " + head + b"\r\n\r\n" + body


@pytest.mark.parametrize(
    "sent, message",
    [
        (answer(b"302 Found\r\nLocation: http://[::1/x"), "Invalid IPv6 URL"),
        (answer(b"302 Found\r\nLocation: http://" + b"a" * 70 + b".example/"), "label"),
        (answer("302 Found\r\nLocation: http://m\xfcnchen.example/".encode("latin1")), "cannot download"),
        (answer(b"302 Found\r\nLocation: http://127.0.0.1:x/"), "nonnumeric port"),
        (
            answer(b"302 Found\r\nLocation: ftp://127.0.0.1/x"),
            "redirects to ftp://127.0.0.1/x, which is not safe. Try again later",
        ),
        (answer(b"302 Found\r\nLocation: file:///etc/passwd"), "file:///etc/passwd"),
        (answer(b"200 OK\r\nTransfer-Encoding: chunked", b"-5\r\nabc"), "cannot download"),
        (answer(b"404 \x1b[31mevil\x07"), r"the server says 404 \[31mevil\."),
        (b"\x00\x01\n\r\n\r\n", "cannot download"),
        (answer(f"302 Found\r\nLocation: /presets/{NAME}/checksums.json".encode()), "infinite loop"),
    ],
)
def test_what_a_hostile_server_sends_is_one_line(server, sent, message):
    server.faults = [sent] * 50
    with pytest.raises(fetching.DownloadError, match=message) as caught:
        fetch_preset(NAME)
    assert str(caught.value).isprintable() and len(str(caught.value)) < 500


def test_no_redirect_leaves_an_encrypted_connection():
    redirects, request = fetching._Redirects(), urllib.request.Request("https://server.example/file")
    followed = redirects.redirect_request(request, None, 302, "Found", {}, "https://other.example/file")
    assert followed.full_url == "https://other.example/file"
    with pytest.raises(fetching.DownloadError, match=r"redirects to http://other.example/file, which is not safe"):
        redirects.redirect_request(request, None, 302, "Found", {}, "http://other.example/file")


@pytest.mark.parametrize("fault", [500, "stall", "cut", b""])
def test_with_a_deadline_nothing_is_tried_twice(server, fault):
    server.faults = [fault] * 3
    with pytest.raises(fetching.DownloadError, match="cannot download"):
        fetch_preset(NAME, time.monotonic() + 60)
    assert len(server.requests) == 1


def test_a_server_that_sends_forever_does_not_outlast_the_deadline(server, monkeypatch):
    """A byte now and then is no silence."""
    monkeypatch.setattr(fetching, "PATIENCE", 20.0)
    began = time.monotonic()
    server.faults = ["drip"] * 20
    with pytest.raises(fetching.DownloadError, match="it takes too long"):
        fetch_preset(NAME, began + 0.5)
    assert time.monotonic() - began < 3


@pytest.mark.parametrize("patience", [20.0, 0.2], ids=["deadline", "no deadline"])
@pytest.mark.parametrize("fault", ["headers", "continue"])
def test_headers_without_end_are_not_waited_for(server, monkeypatch, fault, patience):
    """A line that grows, or answer after answer that announces another one."""
    monkeypatch.setattr(fetching, "PATIENCE", patience)
    monkeypatch.setattr(fetching, "ATTEMPTS", 1)
    began = time.monotonic()
    server.faults = [fault]
    with pytest.raises(fetching.DownloadError, match="it takes too long"):
        fetch_preset(NAME, began + 0.5 if patience == 20.0 else None)
    assert time.monotonic() - began < 3


def test_another_download_is_waited_for_until_the_deadline(server):
    began = time.monotonic()
    with locked(cache_folder(), f".{NAME}.lock"):
        with pytest.raises(fetching.DownloadError, match=f"cannot download {NAME}: .* is in use by process"):
            fetch_preset(NAME, began + 0.4)
        assert 0.4 < time.monotonic() - began < 3
    fetch_preset(NAME, time.monotonic() + 60)
