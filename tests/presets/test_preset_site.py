"""The site that presets are downloaded from: built into a folder, served on loopback, and verified there."""

import contextlib
import subprocess

import pytest

from keras_attn_zoo.cli import main
from keras_attn_zoo.presets import preset_registry, preset_site
from keras_attn_zoo.presets.preset_registry import fetch_preset
from keras_attn_zoo.presets.preset_site import write_presets
from keras_attn_zoo.support.errors import UserError
from tests.presets.preset_server import NAME, files_of

pytestmark = pytest.mark.one_backend


@pytest.fixture
def site(server, saved, tmp_path, monkeypatch):
    """The folder of a site, built from a checkout and served in place of the folder that was published from."""
    monkeypatch.setattr(preset_registry, "CHECKOUT", saved)
    write_presets(tmp_path / "site" / "presets")
    monkeypatch.setattr(preset_registry, "CHECKOUT", tmp_path / "no checkout")
    server.folder = tmp_path / "site"
    return tmp_path / "site"


def test_a_site_has_what_is_downloaded_and_its_checksums(site, saved):
    assert files_of(fetch_preset(NAME)) == files_of(site / "presets" / NAME) == files_of(saved / NAME)
    command = ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"]
    subprocess.run(command, cwd=site / "presets", check=True)
    assert (site / "presets" / "SHA256SUMS").read_text().count("\n") == len(files_of(saved / NAME))


def test_a_site_is_built_of_published_presets_alone(server, saved, tmp_path):
    fetch_preset(NAME)
    write_presets(tmp_path / "site")
    (fetch_preset(NAME) / "config.json").write_text("{}")
    before = files_of(tmp_path / "site")
    with pytest.raises(UserError, match=f"^{NAME} is not on this machine as published: attn-zoo presets --download"):
        write_presets(tmp_path / "site")
    assert files_of(tmp_path / "site") == before


def test_a_whole_site_is_verified_without_storing_it(site, server, tmp_path, monkeypatch, capsys):
    before = files_of(tmp_path)
    assert main(["presets", "verify-remote", NAME]) == 0
    assert capsys.readouterr().out == f"{NAME}: as published\n"
    # A whole site would have `site.json`.
    assert main(["presets", "verify-remote"]) == 2
    output, error = capsys.readouterr()
    assert output.startswith(f"{NAME}: as published\nsite.json: missing: ")
    assert error == f"attn-zoo: error: 1 file not as published at {server.address}: see above.\n"
    assert files_of(tmp_path) == before
    assert {path for path, _, _ in server.requests} == {
        "/site.json",
        *(f"/presets/{NAME}/{file}" for file in files_of(site / "presets" / NAME)),
    }
    # A copy of the site, wherever the site itself is.
    monkeypatch.setattr(preset_registry, "BASE_URL", "http://127.0.0.1:1")
    (tmp_path / "copies").mkdir()
    (tmp_path / "copies" / "a-b.c").symlink_to(site)
    server.folder = tmp_path / "copies"
    assert main(["presets", "verify-remote", "--base-url", f"{server.address}/a-b.c//", NAME]) == 0
    assert capsys.readouterr().out == f"{NAME}: as published\n"


@pytest.mark.parametrize("action", ["verify-remote", "--download"])
def test_a_site_without_an_address_is_said_to_have_none(server, tmp_path, monkeypatch, capsys, action):
    monkeypatch.setattr(preset_registry, "BASE_URL", "https://OWNER.github.io/keras-attn-zoo")
    assert main(["presets", action, NAME]) == 2
    error = capsys.readouterr().err
    assert error.startswith("attn-zoo: error: the public site has no address yet: set BASE_URL in ")
    assert error.count("\n") == 1 and not files_of(tmp_path / "cache")


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda data: None, "missing: the server says 404 Not Found"),
        (lambda data: data[:-7], "cut: {short:,} of {size:,} bytes"),
        (lambda data: b"", "cut: 0 of {size:,} bytes"),
        (lambda data: data + b"more", "altered: more than {size:,} bytes"),
        (lambda data: bytes([data[0] ^ 1]) + data[1:], "altered: its SHA-256 is "),
    ],
    ids=["missing", "cut", "empty", "longer", "altered"],
)
def test_every_file_that_is_not_as_published_is_a_line(site, capsys, change, fault):
    files = ("config.json", "model.weights.h5", "README.md")
    expected = []
    for path in (site / "presets" / NAME / file for file in files):
        data = path.read_bytes()
        expected.append(f"{NAME}/{path.name}: {fault.format(short=len(data) - 7, size=len(data))}")
        path.unlink()
        if (changed := change(data)) is not None:
            path.write_bytes(changed)
    assert main(["presets", "verify-remote", NAME]) == 2
    output, error = capsys.readouterr()
    assert len(output.splitlines()) == len(files)
    for line in expected:
        assert any(one.startswith(line) for one in output.splitlines()), (line, output)
    assert error == f"attn-zoo: error: 3 files not as published at {preset_registry.BASE_URL}: see above.\n"


@pytest.mark.parametrize("fault", ["cut", "stall", 500, 429, "redirect", "no ranges"])
def test_a_bad_connection_is_no_fault_of_a_file(site, server, capsys, fault):
    server.faults = [fault]
    assert main(["presets", "verify-remote", NAME]) == 0
    assert capsys.readouterr().out == f"{NAME}: as published\n" and not server.faults


@pytest.mark.parametrize(
    ("fault", "message"), [(500, "the server says 500"), ("cut", "the connection ended early"), ("shut", "refused")]
)
def test_a_network_that_fails_is_one_line(site, server, capsys, fault, message):
    server.faults = [fault] * 40
    if fault == "shut":
        server.shutdown()
        server.server_close()
    assert main(["presets", "verify-remote", NAME]) == 2
    output, error = capsys.readouterr()
    assert not output and error.count("\n") == 1
    assert error.startswith(f"attn-zoo: error: cannot download {server.address}/presets/{NAME}/") and message in error


def test_progress_is_that_of_all_files(site, saved, monkeypatch):
    shown, begun = [], []

    @contextlib.contextmanager
    def bar(what, total, unit):
        begun.append((what, total, unit))
        yield shown.append

    monkeypatch.setattr(preset_site, "progress_bar", bar)
    assert preset_site.verify_preset(NAME) == {}
    size = sum(map(len, files_of(saved / NAME).values()))
    assert begun == [(f"verifying {NAME}", size, "B")] and shown == sorted(shown) and shown[-1] == size


@pytest.mark.parametrize(
    "address", ["", "localhost", "ftp://host", "http://", "http://a b", "https://host?x", "file:///a"]
)
def test_an_address_of_another_kind_is_refused(server, capsys, address):
    with pytest.raises(SystemExit, match="2"):
        main(["presets", "verify-remote", "--base-url", address])
    error = capsys.readouterr().err
    assert "is not an address of the form https://HOST/FOLDER" in error and not server.requests


def test_an_unknown_name_is_refused_before_anything_is_read(server, capsys):
    assert main(["presets", "verify-remote", NAME, "tiny_de_fr"]) == 2
    assert f"did you mean {NAME}?" in capsys.readouterr().err and not server.requests
