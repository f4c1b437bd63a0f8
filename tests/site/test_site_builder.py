"""The site as a folder: whole, with links that lead somewhere, refused where it would cost someone something."""

import json
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

pytestmark = pytest.mark.one_backend


def test_a_site_has_all_parts_and_no_fault(built):
    names = {path.name for path in built.iterdir()}
    assert names == {"index.html", "assets", "gallery", "guide", "live", "presets", "site.json", ".nojekyll"}
    assert site_faults(built) == []
    manifest = json.loads((built / "site.json").read_text("utf-8"))["files"]
    assert manifest == {name: len(data) for name, data in files_of(built).items() if name != "site.json"}


def test_presets_are_verified_on_the_built_site(built, address, tmp_path, capsys):
    with few_presets(tmp_path):
        assert main(["presets", "verify-remote", "--base-url", address]) == 0
    assert capsys.readouterr().out == "".join(f"{name}: as published\n" for name in NAMES)
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=built / "presets", check=True)


def fault(page, text):
    """Something wrong on a page that is right otherwise."""
    return page, lambda before: before.replace("</main>", f"{text}</main>", 1)


@pytest.mark.parametrize(
    ("page", "change", "expected"),
    [
        (
            *fault("index.html", '<a href="gallery/none.html">x</a>'),
            "index.html leads to gallery/none.html, which is not",
        ),
        (*fault("gallery/index.html", '<a href="../../x">x</a>'), "gallery/index.html leads to ../../x, which is not"),
        (*fault("index.html", '<a href="presets/#none">x</a>'), "leads to presets/#none, which has no such anchor"),
        (*fault("index.html", '<img src="https://a.example/b.png">'), "index.html loads https://a.example/b.png"),
        (*fault("index.html", '<script src="//a.example/b.js"></script>'), "index.html loads //a.example/b.js"),
        ("index.html", lambda text: text.replace("img-src 'self'", "img-src https:"), "index.html permits https:"),
        ("index.html", lambda text: text.replace("default-src", "frame-src"), "index.html has no policy"),
        (
            "assets/site.css",
            lambda text: text + "\na { background: url(https://a.example/b.png) }",
            "site.css loads https:",
        ),
        ("assets/site.css", lambda text: text + "\n@import 'none.css';", "site.css loads none.css, which is not there"),
    ],
)
def test_faults_are_found(built, tmp_path, page, change, expected):
    site = tmp_path / "site"
    shutil.copytree(built, site, ignore=shutil.ignore_patterns("*.h5", "live"))
    for name in ("index.html", "live/index.html"):
        (site / name).parent.mkdir(exist_ok=True)
        (site / name).write_bytes((built / name).read_bytes())
    before = site_faults(site)
    path = site / page
    path.write_text(change(path.read_text("utf-8")), "utf-8")
    (found,) = [one for one in site_faults(site) if one not in before]
    assert expected in found


def test_an_earlier_site_is_replaced_and_nothing_else(small, built, tmp_path, monkeypatch):
    folder = tmp_path / "site"
    # What is refused is refused before anything is built.
    monkeypatch.setattr(site_builder, "write_presets", None)
    folder.write_text("mine")
    with pytest.raises(UserError, match="is a file: give a folder for the site"):
        build_site(folder)
    folder.unlink()
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    with pytest.raises(UserError, match="is not empty and holds no earlier site"):
        build_site(folder)
    shutil.rmtree(folder)
    shutil.copytree(built, folder)
    (folder / "CNAME").write_text("mine")
    with pytest.raises(UserError, match="CNAME is not of the earlier site, which is replaced as a whole: move it away"):
        build_site(folder)
    assert files_of(folder) == files_of(built) | {"CNAME": b"mine"}


def test_a_site_that_fails_leaves_nothing(small, docs, built, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "site"
    shutil.copytree(built, folder)
    before = files_of(tmp_path)
    monkeypatch.setattr(site_builder, "MOST", 1_000_000)
    assert main(["site", str(folder)]) == 2
    error = capsys.readouterr().err
    assert "attn-zoo: error: the site would have " in error and " MB, above 1 MB: presets 8.3, " in error
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
