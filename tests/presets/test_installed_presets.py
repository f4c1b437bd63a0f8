"""The package of presets: built from `presets/` as pip does it, installed, and looked up between checkout and cache."""

import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import keras_attn_zoo
from keras_attn_zoo.cli import main
from keras_attn_zoo.presets import preset_registry
from keras_attn_zoo.presets.preset_registry import fetch_preset, find_preset, published_folder
from keras_attn_zoo.translators import Translator
from tests.presets.preset_server import NAME, TEXTS, files_of, write_registry

pytestmark = [pytest.mark.one_backend, pytest.mark.long]

PRESETS = Path(__file__).resolve().parents[2] / "presets"
PACKAGE = "keras_attn_zoo_presets"


@pytest.fixture(scope="module")
def checkout(saved, tmp_path_factory):
    """A checkout with the programs of `presets/`, but one preset, and things that were left there."""
    folder = tmp_path_factory.mktemp("checkout")
    shutil.copytree(saved, folder / "presets")
    for path in (path for path in PRESETS.iterdir() if path.is_file()):
        shutil.copy(path, folder / "presets")
    (folder / "keras_attn_zoo" / "presets").mkdir(parents=True)
    write_registry(folder / "keras_attn_zoo" / "presets" / "presets.json", saved)
    shutil.copytree(saved / NAME, folder / "presets" / "draft_de_en")
    for name in ("README.md~", ".config.json.swp", "assets/more.spm", f"../build/lib/{PACKAGE}/{NAME}/old.json"):
        path = folder / "presets" / NAME / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return folder


@pytest.fixture(scope="module")
def wheel(checkout, tmp_path_factory):
    return _build(checkout, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def site_packages(wheel, tmp_path_factory):
    """A folder that the wheel is installed in."""
    folder = tmp_path_factory.mktemp("installed")
    _pip("install", "--target", folder, wheel)
    return folder


def _build(checkout, folder):
    """Build the wheel of the presets of a checkout into a folder."""
    _pip("wheel", "--no-build-isolation", "--wheel-dir", folder, checkout / "presets")
    [path] = folder.glob("*.whl")
    return path


def _pip(*arguments, **options):
    offline = ["--no-index", "--no-deps", "--disable-pip-version-check", "--quiet"]
    command = [sys.executable, "-m", "pip", arguments[0], *offline, *map(str, arguments[1:])]
    subprocess.run(command, check=True, **options)


@pytest.fixture
def installed(server, site_packages, tmp_path, monkeypatch):
    """A copy of the installed folder of the preset, on the path of this process."""
    folder = shutil.copytree(site_packages, tmp_path / "site-packages")
    monkeypatch.syspath_prepend(folder)
    return folder / PACKAGE / NAME


def test_the_wheel_has_the_published_files_and_nothing_beside_them(wheel, saved):
    names = [name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name]
    assert sorted(names) == sorted(f"{PACKAGE}/{NAME}/{file}" for file in files_of(saved / NAME))


@pytest.mark.parametrize("change", [lambda path: path.write_text("{}"), Path.unlink], ids=["altered", "missing"])
def test_no_wheel_is_built_of_other_files(checkout, tmp_path, change):
    folder = shutil.copytree(checkout, tmp_path / "checkout")
    path = folder / "presets" / NAME / "config.json"
    change(path)
    with pytest.raises(subprocess.CalledProcessError) as error:
        _pip(
            "wheel", "--no-build-isolation", "--wheel-dir", tmp_path, folder / "presets", capture_output=True, text=True
        )
    said = f"{path} is missing or not as presets.json has it: restore it, or build {NAME} again."
    assert said in map(str.strip, error.value.stderr.splitlines()) and "Traceback" not in error.value.stderr


def test_its_version_is_that_of_the_registry(wheel):
    project = tomllib.loads((PRESETS / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["version"] == keras_attn_zoo.__version__ and project["name"] == preset_registry.DISTRIBUTION
    assert list(project["entry-points"]) == [preset_registry.ENTRY_POINTS]
    assert wheel.name == f"{PACKAGE}-{keras_attn_zoo.__version__}-py3-none-any.whl"


def test_an_installed_preset_is_loaded_with_everything_else_out_of_reach(installed, server, saved, capsys):
    expected = Translator.from_preset(str(saved / NAME)).generate(TEXTS)
    assert find_preset(NAME) == str(installed) and Translator.from_preset(NAME).generate(TEXTS) == expected
    assert main(["presets"]) == 0 and " | package |" in capsys.readouterr().out
    assert main(["presets", "--verify", NAME]) == 0 and main(["presets", "--download", NAME]) == 0
    assert capsys.readouterr().out == f"{NAME}: {installed} is as published\n{NAME}: {installed}\n"
    assert PACKAGE not in sys.modules and not server.requests


def test_every_place_in_its_turn(installed, server, saved, tmp_path, monkeypatch):
    """As each is taken away, the next one is found."""
    own, checkout = tmp_path / "own" / NAME, tmp_path / "checkout" / NAME
    cached = tmp_path / "cache" / "keras-attn-zoo" / "presets" / NAME
    for folder in (own, checkout, cached):
        shutil.copytree(saved / NAME, folder)
    monkeypatch.setenv(preset_registry.VARIABLE, str(own.parent))
    for folder in (own, checkout, installed, cached):
        assert find_preset(NAME) == str(folder) and not server.requests
        if folder != own:
            assert published_folder(NAME) == folder
        shutil.rmtree(folder)
    assert find_preset(NAME) == str(cached) and server.requests


@pytest.mark.parametrize("change", ["altered", "missing", "more", "empty"])
def test_a_package_of_another_version_is_passed_over_with_one_line(installed, server, saved, caplog, change):
    if change == "altered":
        (installed / "config.json").write_text("{}")
    elif change == "missing":
        (installed / "model.weights.h5").unlink()
    elif change == "more":
        (installed / "model.weights.json").write_text("{}")
    else:
        shutil.rmtree(installed)
        installed.mkdir()
    cached = fetch_preset(NAME)
    count = len(server.requests)
    assert Translator.from_preset(NAME).generate(TEXTS) and find_preset(cached) == str(cached)
    remedy = f"pip install --force-reinstall keras-attn-zoo-presets=={keras_attn_zoo.__version__}"
    assert caplog.messages == [f"{installed} is damaged or of another version of keras-attn-zoo: {remedy}"]
    # Without a copy in the cache, it is downloaded.
    shutil.rmtree(cached)
    assert find_preset(NAME) == str(cached) and len(server.requests) == 2 * count


def test_what_is_left_of_a_package_is_no_place(installed, server, tmp_path):
    shutil.rmtree(installed.parent)
    assert find_preset(NAME) == str(tmp_path / "cache" / "keras-attn-zoo" / "presets" / NAME)


@pytest.mark.slow
def test_every_published_preset_is_found_in_the_wheel_as_published(tmp_path, monkeypatch):
    """By its checksums, with the checkout out of reach."""
    folder = tmp_path / "site-packages"
    checkout = tmp_path / "checkout"
    shutil.copytree(PRESETS, checkout / "presets")
    (checkout / "keras_attn_zoo" / "presets").mkdir(parents=True)
    shutil.copy(preset_registry.REGISTRY, checkout / "keras_attn_zoo" / "presets")
    _pip("install", "--target", folder, _build(checkout, tmp_path))
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(preset_registry, "CHECKOUT", tmp_path / "nowhere")
    expected = {name: folder / PACKAGE / name for name in preset_registry.published()}
    assert {name: published_folder(name) for name in expected} == expected
    assert sorted((folder / PACKAGE).iterdir()) == sorted(expected.values())
