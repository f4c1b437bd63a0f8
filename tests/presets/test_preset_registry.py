"""Published presets: where they are found, and what is done with copies that are not as published."""

import json
import os
import re
import shutil
import threading
from pathlib import Path

import pytest

from keras_attn_zoo.bodies import RNNBackbone
from keras_attn_zoo.cli import main
from keras_attn_zoo.presets import preset_registry
from keras_attn_zoo.presets.preset_registry import fetch_preset, find_preset, published
from keras_attn_zoo.runs.loading import load_translator
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.translators import TransformerTranslator, Translator
from tests import tiny
from tests.presets.preset_server import NAME, TEXTS, files_of

pytestmark = pytest.mark.one_backend


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
    (tmp_path / "own").mkdir()
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
    assert find_preset("hf://user/preset") == "hf://user/preset" and find_preset("own/mine") == "own/mine"


@pytest.mark.parametrize("kind", ["absent", "file"])
def test_a_folder_of_ones_own_that_is_none_is_refused(server, tmp_path, monkeypatch, capsys, kind):
    if kind == "file":
        (tmp_path / "own").write_text("")
    monkeypatch.setenv("ATTN_ZOO_PRESETS", str(tmp_path / "own"))
    with pytest.raises(
        UserError, match=r"^ATTN_ZOO_PRESETS names .*own, which is not a folder: correct or unset it\.$"
    ):
        Translator.from_preset(NAME)
    assert main(["presets"]) == 2 and "ATTN_ZOO_PRESETS names" in capsys.readouterr().err
    assert not server.requests


def test_two_at_once_fetch_it_once(server, saved):
    found = []
    threads = [threading.Thread(target=lambda: found.append(fetch_preset(NAME))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 2 and files_of(found[0]) == files_of(saved / NAME)
    assert len(server.requests) == len(files_of(saved / NAME))


@pytest.mark.parametrize("change", ["damaged", "missing", "outdated", "empty"])
def test_a_copy_that_is_not_as_published_is_replaced(server, saved, caplog, change):
    """Nothing of it is loaded, with or without a network."""
    folder = fetch_preset(NAME)
    if change == "damaged":
        weights = bytearray((folder / "model.weights.h5").read_bytes())
        weights[len(weights) // 2] ^= 1
        (folder / "model.weights.h5").write_bytes(weights)
    elif change == "missing":
        (folder / "task.json").unlink()
    elif change == "outdated":
        # Whole by its own checksums, but of an earlier registry; and with a file that there is no more.
        tiny.translator(seed=1).save_to_preset(folder, storage="float16")
        (folder / "old.json").write_text("{}")
    else:
        shutil.rmtree(folder)
        folder.mkdir()
    changed, server.faults = files_of(folder), [404]
    with pytest.raises(UserError, match="404 Not Found"):
        Translator.from_preset(NAME)
    assert files_of(folder) == changed
    caplog.clear()
    expected = Translator.from_preset(str(saved / NAME)).generate(TEXTS)
    assert Translator.from_preset(NAME).generate(TEXTS) == expected
    assert files_of(folder) == files_of(saved / NAME)
    [message] = caplog.messages
    assert str(folder) in message and "downloading it again" in message


@pytest.mark.parametrize("kind", ["file", "dangling link"])
def test_what_is_in_the_way_is_told_before_anything_is_downloaded(server, tmp_path, kind):
    path = tmp_path / "cache" / "keras-attn-zoo" / "presets" / NAME
    path.parent.mkdir(parents=True)
    if kind == "file":
        path.write_text("precious")
    else:
        path.symlink_to(tmp_path / "absent")
    with pytest.raises(
        UserError, match=rf"^{path} is not a folder: remove it, for the preset to be downloaded there\.$"
    ):
        Translator.from_preset(NAME)
    assert not server.requests and os.path.lexists(path)


@pytest.mark.parametrize("place", [NAME, "unfinished", f"unfinished/{NAME}"])
def test_what_a_link_in_the_cache_leads_to_is_not_touched(server, tmp_path, place):
    path = tmp_path / "cache" / "keras-attn-zoo" / "presets" / place
    (tmp_path / "elsewhere" / NAME).mkdir(parents=True)
    for folder in (tmp_path / "elsewhere", tmp_path / "elsewhere" / NAME):
        (folder / "keep").write_text("precious")
    path.parent.mkdir(parents=True)
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match=rf"^{path} is not a folder: remove it"):
        Translator.from_preset(NAME)
    assert not server.requests
    assert sorted(p.name for p in (tmp_path / "elsewhere").rglob("*")) == sorted(["keep", NAME, "keep"])


def test_a_linked_copy_that_is_whole_is_used(server, saved, tmp_path):
    path = tmp_path / "cache" / "keras-attn-zoo" / "presets" / NAME
    path.parent.mkdir(parents=True)
    path.symlink_to(saved / NAME)
    assert Translator.from_preset(NAME).generate(TEXTS) and not server.requests


def test_what_lies_among_the_parts_of_a_download_is_removed(server, saved, tmp_path):
    parts = tmp_path / "cache" / "keras-attn-zoo" / "presets" / "unfinished" / NAME
    (parts / "more").mkdir(parents=True)
    (parts / "config.json").mkdir()
    os.mkfifo(parts / "metadata.json")
    (parts / "more" / "old.json").write_text("{}")
    (tmp_path / "precious").write_text("precious")
    (parts / "task.json").symlink_to(tmp_path / "precious")
    assert files_of(fetch_preset(NAME)) == files_of(saved / NAME)
    assert (tmp_path / "precious").read_text() == "precious"


def test_a_user_without_a_home(server, saved, tmp_path, monkeypatch, capsys):
    """As in a container whose user has no entry among the passwords."""

    def home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", home)
    assert main(["presets"]) == 0 and NAME in capsys.readouterr().out
    assert main(["presets", "--verify"]) == 0
    assert main(["presets", "--download", NAME]) == 2
    error = capsys.readouterr().err
    assert "no home folder" in error and "set XDG_CACHE_HOME" in error and error.count("\n") == 1
    shutil.copytree(saved / NAME, tmp_path / "checkout" / NAME)
    assert Translator.from_preset(NAME).generate(TEXTS)


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
    for near in ("Tiny_de_en", "tiny-de-en", "tiny_de_en ", "TINY DE EN"):
        with pytest.raises(UserError, match=rf"no folder or published preset {near}: did you mean tiny_de_en\?$"):
            Translator.from_preset(near)
    for other in ("0000", "", "öü"):
        with pytest.raises(UserError, match=r"no folder or published preset .*: `attn-zoo presets` lists them"):
            load_translator(other)
    for path in ("./x", "runs/tiny_de_en"):
        with pytest.raises(UserError, match=f"no folder or published preset {path}: check the path"):
            Translator.from_preset(path)
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="file is a file, not the folder of a preset: check the path"):
        Translator.from_preset(tmp_path / "file")
    # Those of the user's own folder are known too.
    (tmp_path / "my_preset_de_fr").mkdir()
    monkeypatch.setenv(preset_registry.VARIABLE, str(tmp_path))
    with pytest.raises(UserError, match=r"my_preset_de: did you mean my_preset_de_fr\?"):
        load_translator("my_preset_de")


def test_the_command(server, saved, tmp_path, capsys):
    assert main(["presets"]) == 0
    assert re.search(rf"{NAME} +\| +bahdanau +\| +1\.5 \|.*\| +no +\|", capsys.readouterr().out)
    assert main(["presets", "--verify"]) == 0
    assert f"{NAME}: not on this machine" in capsys.readouterr().out
    # Asked for by name, it has to be there.
    assert main(["presets", "--verify", NAME]) == 2
    assert f"{NAME}: not on this machine: attn-zoo presets --download {NAME}" in capsys.readouterr().out
    assert main(["presets", "--download"]) == 0
    assert capsys.readouterr().out.startswith(f"{NAME}: {tmp_path / 'cache'}")
    assert main(["presets", "--verify", NAME]) == 0 and "is as published" in capsys.readouterr().out
    assert main(["presets", "--download", "tiny"]) == 2
    assert "did you mean tiny_de_en?" in capsys.readouterr().err
    (fetch_preset(NAME) / "config.json").write_text("{}")
    assert main(["presets", "--verify"]) == 2
    assert "config.json is damaged" in capsys.readouterr().out
    assert main(["presets", "--download", NAME]) == 0
    assert str(cached := tmp_path / "cache" / "keras-attn-zoo" / "presets" / NAME) in capsys.readouterr().err
    assert files_of(cached) == files_of(saved / NAME) and len(published()) == 1


def test_presets_of_ones_own_are_told_from_published_ones(server, saved, tmp_path, monkeypatch, capsys):
    own = tmp_path / "own"
    for name in (NAME, "mine"):
        tiny.translator(seed=5).save_to_preset(own / name)
    monkeypatch.setenv(preset_registry.VARIABLE, str(own))
    assert main(["presets"]) == 0
    assert re.search(rf"{NAME} .*\| +own +\|", capsys.readouterr().out)
    assert main(["presets", "--verify"]) == 2
    assert f"{own / NAME}, in ATTN_ZOO_PRESETS, is not the published preset but takes its place" in (
        capsys.readouterr().out
    )
    assert main(["presets", "--verify", "mine"]) == 2
    assert "mine is a preset of your own, in ATTN_ZOO_PRESETS: there is no published one." in capsys.readouterr().err
    # The published one stands in the checkout, behind it.
    shutil.copytree(saved / NAME, tmp_path / "checkout" / NAME)
    count = len(server.requests)
    assert main(["presets", "--download"]) == 0
    assert capsys.readouterr().out == f"{NAME}: {tmp_path / 'checkout' / NAME}\n" and len(server.requests) == count


def test_a_folder_of_ones_own_without_a_configuration_is_told(server, tmp_path, monkeypatch, caplog):
    """The published preset of that name is used in its place."""
    (tmp_path / "own" / NAME).mkdir(parents=True)
    monkeypatch.setenv(preset_registry.VARIABLE, str(tmp_path / "own"))
    assert Translator.from_preset(NAME).generate(TEXTS)
    [message] = caplog.messages
    assert message == f"{tmp_path / 'own' / NAME} has no config.json and is no preset: the published one is used"


def test_a_folder_that_is_no_preset_is_not_one_that_is_here(server, saved, tmp_path, monkeypatch, capsys):
    own, cached = tmp_path / "own", tmp_path / "cache" / "keras-attn-zoo" / "presets" / NAME
    (own / NAME).mkdir(parents=True)
    monkeypatch.setenv(preset_registry.VARIABLE, str(own))
    (tmp_path / "checkout" / NAME).mkdir(parents=True)
    assert main(["presets"]) == 0
    assert re.search(r"\| +no +\|", capsys.readouterr().out)
    (tmp_path / "checkout" / NAME).rmdir()
    assert main(["presets", "--download", NAME]) == 0
    assert capsys.readouterr().out == f"{NAME}: {cached}\n" and find_preset(NAME) == str(cached)
    # One's own preset of that name is used, but not the one that was to be downloaded.
    shutil.copytree(saved / NAME, own / NAME, dirs_exist_ok=True)
    (own / NAME / "checksums.json").unlink()
    shutil.rmtree(cached)
    assert find_preset(NAME) == str(own / NAME)
    assert main(["presets", "--download", NAME]) == 0
    assert capsys.readouterr().out == f"{NAME}: {cached}\n" and files_of(cached) == files_of(saved / NAME)
