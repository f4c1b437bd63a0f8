"""The site as a folder: whole, with links that lead somewhere, refused where it would cost someone something."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from keras_attn_zoo.cli import main
from keras_attn_zoo.site import site_builder
from keras_attn_zoo.site.site_builder import build_site
from keras_attn_zoo.site.site_checks import site_faults
from keras_attn_zoo.support.errors import UserError
from tests.presets.preset_server import files_of
from tests.site.small_site import NAMES, few_presets
from tests.viewing.static_site import site

pytestmark = pytest.mark.one_backend


def test_a_site_has_all_parts_and_no_fault(built):
    names = {path.name for path in built.iterdir()}
    assert names == {"index.html", "assets", "gallery", "guide", "live", "presets", "site.json", ".nojekyll"}
    assert site_faults(built) == []
    manifest = json.loads((built / "site.json").read_text("utf-8"))["files"]
    assert manifest == {
        name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in files_of(built).items()
        if name not in ("site.json", ".nojekyll")
    }
    # Hosts that serve no such file are as good.
    assert not [name for name in manifest if "/." in f"/{name}"]


def test_the_built_site_is_verified_on_its_server(built, address, tmp_path, capsys):
    published = "".join(f"{name}: as published\n" for name in NAMES)
    with few_presets(tmp_path):
        assert main(["presets", "verify-remote", "--base-url", address]) == 0
        assert capsys.readouterr().out == f"{published}the rest of the site: as published\n"
        shutil.copytree(built, copy := tmp_path / "a site")
        (copy / "live" / "live.js").unlink()
        for path in ("presets/index.html", "guide/index.html"):
            (copy / path).write_bytes((copy / path).read_bytes()[:-1] + b"?")
        with site(copy) as server:
            line = ["presets", "verify-remote", "--base-url", server]
            assert main(line) == 2
            output, error = capsys.readouterr()
            assert error.endswith(f"3 files not as published at {server.rstrip('/')}: see above.\n"), output
            assert output.startswith(published)
            found = dict(line.split(": ", 1) for line in output.splitlines()[len(NAMES) :])
            assert found.pop("live/live.js") == "missing: the server says 404 File not found"
            assert found.keys() == {"presets/index.html", "guide/index.html"}
            assert all(fault.startswith("altered: its SHA-256 is ") for fault in found.values())
            # Presets that are named are verified alone.
            assert main([*line, NAMES[0]]) == 0
            for damaged, message in {
                "<p>": "/site.json is damaged: it is not JSON",
                "[]": "/site.json has no checksums: build the site again",
                '{"files": {"index.html": 12}}': "/site.json has no checksums: build the site again",
            }.items():
                (copy / "site.json").write_text(damaged)
                assert main(line) == 2
                assert message in capsys.readouterr().err.splitlines()[-1]
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=built / "presets", check=True)


POLICY = "default-src 'none'; img-src 'self'; script-src 'self' 'sha256-YQ=='"
META = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
GOOD = {
    "index.html": f'{META}<link rel="stylesheet" href="a/b.css"><a href="a/#one">x</a><a href="https://a.example/">x</a>'
    '<a href="#two">x</a><p id="two"><a href="a/b%20c.txt?d">x</a>',
    "a/index.html": f'{META}<p id="one"><a href="../">x</a>',
    "a/b.css": "a { background: url('data:image/svg+xml,x') } @import 'c.css';",
    "a/c.css": "a { background: url(b.css) }",
    "a/b c.txt": "",
}


@pytest.mark.parametrize(
    ("page", "more", "expected"),
    [
        ("index.html", "", None),
        ("index.html", '<a href="a/none.html">x</a>', "index.html leads to a/none.html, which is not there"),
        ("a/index.html", '<a href="../../x">x</a>', "a/index.html leads to ../../x, which is not there"),
        ("index.html", '<a href="a#none">x</a>', "index.html leads to a#none, which has no such anchor"),
        ("index.html", '<a href="#none">x</a>', "index.html leads to #none, which has no such anchor"),
        ("index.html", '<img src="https://a.example/b.png">', "index.html loads https://a.example/b.png"),
        ("a/index.html", '<script src="//a.example/b.js"></script>', "a/index.html loads //a.example/b.js"),
        ("index.html", '<script src="b.js"></script>', "index.html leads to b.js, which is not there"),
        ("c.html", "<p>", "c.html has no policy of what it may load"),
        ("c.html", META.replace("'self'", "https:", 1), "c.html permits https:"),
        ("a/c.css", "a { background: url(https://a.example/b.png) }", "a/c.css loads https://a.example/b.png"),
        ("a/c.css", "@import '../none.css';", "a/c.css loads ../none.css, which is not there"),
    ],
)
def test_faults_are_found(tmp_path, page, more, expected):
    for name, text in {**GOOD, page: GOOD.get(page, "") + more}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    assert site_faults(tmp_path) == ([expected] if expected else [])


def test_an_earlier_site_is_replaced_and_nothing_else(small, built, tmp_path, monkeypatch):
    folder = tmp_path / "site"
    # What is refused is refused before anything is built.
    monkeypatch.setattr(site_builder, "write_presets", None)
    folder.write_text("mine")
    with pytest.raises(UserError, match="is a file: give a folder for the site"):
        build_site(folder)
    folder.unlink()
    elsewhere = tmp_path / "elsewhere"
    for mine in (lambda path: path.write_text("mine"), os.mkdir, lambda path: path.symlink_to(elsewhere)):
        folder.mkdir()
        mine(folder / "mine")
        with pytest.raises(UserError, match="is not empty and holds no earlier site"):
            build_site(folder)
        (folder / "site.json").write_text('{"files": []}')
        with pytest.raises(UserError, match="is not empty and holds no earlier site"):
            build_site(folder)
        (folder / "site.json").unlink()
        (folder / "mine").rename(tmp_path / f"mine {len(list(tmp_path.iterdir()))}")
        folder.rmdir()
    shutil.copytree(built, folder)
    (folder / "CNAME").write_text("mine")
    with pytest.raises(UserError, match="CNAME is not of the earlier site, which is replaced as a whole: move it away"):
        build_site(folder)
    assert files_of(folder) == files_of(built) | {"CNAME": b"mine"}


def test_a_site_that_fails_leaves_nothing(small, docs, built, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "site"
    shutil.copytree(built, folder)
    before = files_of(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(site_builder, "write_guide", lambda folder: None)
        for limit, most, message in (
            ("MOST", 1_000_000, r"the site would have [\d.]+ MB, above 1 MB: presets 10\.0, "),
            (
                "MOST_OF_FIRST_VIEW",
                90_000,
                r"the first view, before a model is chosen, would load 1\d\d KB, above 90 KB",
            ),
            ("MOST_OF_MODEL", 2_000_000, f"{NAMES[0]} would load 5\\.4 MB when it is chosen, above 2 MB"),
        ):
            with patch.context() as limited:
                limited.setattr(site_builder, limit, most)
                assert main(["site", str(folder)]) == 2
            assert re.search(f"attn-zoo: error: {message}", capsys.readouterr().err), limit
    (bad := tmp_path / "docs").mkdir()
    before = files_of(tmp_path)
    shutil.copytree(docs, bad, dirs_exist_ok=True)
    (bad / "index.md").write_text(f"{(docs / 'index.md').read_text()}\n[x](none.md)\n")
    monkeypatch.setattr(site_builder, "DOCS", bad)
    assert main(["site", str(folder)]) == 2
    error = capsys.readouterr().err
    assert "attn-zoo: error: Sphinx cannot build the guide: " in error and "index.md:" in error and "WARNING: " in error
    shutil.rmtree(bad)
    assert files_of(tmp_path) == before


def test_what_is_missing_is_named(small, tmp_path, monkeypatch, capsys):
    for name in ("sphinx", "furo"):
        monkeypatch.setitem(sys.modules, name, None)
    assert main(["site", str(tmp_path / "site")]) == 2
    assert "attn-zoo site needs sphinx, furo: pip install 'keras-attn-zoo[docs]'" in capsys.readouterr().err
    monkeypatch.setattr(site_builder, "DOCS", tmp_path / "none")
    assert main(["site", str(tmp_path / "site")]) == 2
    assert "run attn-zoo site there" in capsys.readouterr().err
    assert not (tmp_path / "site").exists()
