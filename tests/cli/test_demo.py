"""`attn-zoo demo` at a tiny size: presets translate, two systems are trained, and what is in the way is one line."""

import os
import shlex
import shutil
import socket
import time

import pytest

from keras_attn_zoo.cli import demo
from keras_attn_zoo.presets import preset_registry
from keras_attn_zoo.runs.loading import load_translator
from keras_attn_zoo.runs.precision import resolve
from keras_attn_zoo.support import fetching
from keras_attn_zoo.support.locks import locked
from tests import tiny
from tests.cli.test_explore import data_of

SENTENCES = ("ka lo", "mi tu re")


@pytest.fixture
def small(monkeypatch, tmp_path):
    """A demonstration of seconds, without presets, in an empty current folder."""
    monkeypatch.setattr(demo, "CORPUS", {"train": 48, "valid": 8, "test": 6, "max_words": 6, "words_per_kind": 1})
    sizes = {"embedding_dim": 8, "hidden_dim": 8, "vocabulary_size": None, "model_type": "word", "max_tokens": 16}
    steps = {"epochs": 2, "warmup_steps": 1, "sentences_per_batch": 16, "bucket_count": 1, "beams": 2}
    monkeypatch.setattr(demo, "SETTINGS", {**demo.SETTINGS, **sizes, **steps})
    monkeypatch.setattr(demo, "SENTENCES", SENTENCES)
    monkeypatch.setattr(preset_registry, "published", lambda: {})
    monkeypatch.delenv(preset_registry.VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def presets(tmp_path_factory):
    """A folder of tiny presets under the names that the demonstration asks for."""
    folder = tmp_path_factory.mktemp("presets")
    for name, seed in zip(demo.PRESETS, (0, 1, 2), strict=True):
        tiny.translator(seed=seed).save_to_preset(folder / name)
    return folder


def test_presets_translate_and_their_page_is_named(attn_zoo, small, presets, monkeypatch):
    monkeypatch.setenv(preset_registry.VARIABLE, str(presets))
    monkeypatch.setattr(demo, "train", lambda out, precision: print("trained", out))
    status, output, error = attn_zoo("demo", "--out", "new")
    first, second = error.splitlines()
    assert status == 0 and first == "translating with published presets"
    suitable = second.removeprefix("computing in ").partition(":")[0]
    assert suitable == resolve("auto")
    assert output.endswith("browser:\n  new/presets.html\n\ntrained new\n")
    lines = output.splitlines()
    for name in demo.PRESETS:
        translator = load_translator(presets / name, precision=suitable)
        assert translator.compute_dtype == suitable
        for sentence in SENTENCES:
            # As the page has it: found by a search of its own, which must be the usual one.
            [[best, *_]] = translator.translate([sentence])
            source = next(i for i, line in enumerate(lines) if line.startswith("  source ") and line.endswith(sentence))
            assert f"{name:<32}  {best.text}".rstrip() in [line.strip() for line in lines[source:]]
    data = data_of(demo.Path("new/presets.html"))
    assert [system["name"] for system in data["systems"]] == list(demo.PRESETS)
    assert [sentence["text"] for sentence in data["sentences"]] == list(SENTENCES)


@pytest.mark.long
def test_without_presets_it_trains_scores_and_draws_and_is_resumed(attn_zoo, small):
    status, output, error = attn_zoo("demo")
    assert status == 0, error
    assert error.splitlines()[1].startswith(
        "continuing without published presets: there is no folder or published preset"
    )
    lines = output.splitlines()
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    assert table[0] == ["system", *demo.COLUMNS] and [row[0] for row in table[2:]] == ["bahdanau", "uniform"]
    # The same figures as in the file with all of them.
    whole = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in demo.Path("demo-run/results.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("|")
    ]
    for row in range(2, 4):
        figures = dict(zip(whole[0], whole[row], strict=True))
        assert table[row] == [figures[heading] for heading in table[0]]
    assert sum(line.startswith("  reference ") for line in lines) == demo.SAMPLES
    named = [line.strip() for line in lines if line.endswith((".md", ".png"))]
    assert len(named) == 10 and all(os.path.getsize(path) for path in named)
    assert not os.path.exists("demo-run/presets.html")
    command = shlex.split(lines[-1])
    assert command[0] == "attn-zoo" and attn_zoo(*command[1:])[0] == 0
    assert [system["name"] for system in data_of(demo.Path("demo-run/page.html"))["systems"]] == ["bahdanau", "uniform"]

    status, again, error = attn_zoo("demo")
    assert (status, again) == (0, output) and error.count("training is already complete") == 2


@pytest.mark.parametrize("damage", ["missing", "damaged"])
def test_a_preset_that_cannot_be_loaded_is_one_line_and_the_others_translate(
    attn_zoo, small, presets, monkeypatch, tmp_path, damage
):
    own = tmp_path / "own"
    own.mkdir()
    for name in demo.PRESETS[:2]:
        (own / name).symlink_to(presets / name)
    if damage == "damaged":
        shutil.copytree(presets / demo.PRESETS[2], own / demo.PRESETS[2])
        os.truncate(own / demo.PRESETS[2] / "model.weights.h5", 1000)
    monkeypatch.setenv(preset_registry.VARIABLE, str(own))
    monkeypatch.setattr(demo, "train", lambda out, precision: print("trained", out))
    status, output, error = attn_zoo("demo", "--out", "new")
    assert status == 0 and output.endswith("trained new\n")
    assert error.count("\n") == 3 and error.splitlines()[2].startswith(f"continuing without {demo.PRESETS[2]}: ")
    assert [system["name"] for system in data_of(demo.Path("new/presets.html"))["systems"]] == list(demo.PRESETS[:2])


@pytest.mark.parametrize("answers", [False, True])
def test_without_a_network_the_training_begins_at_once(attn_zoo, small, presets, monkeypatch, tmp_path, answers):
    """One attempt for all presets that are not on this machine, whether nothing listens or nothing is sent."""
    file = {"checksums.json": {"size": 10, "sha256": "0" * 64}}
    monkeypatch.setattr(preset_registry, "published", lambda: {name: {"files": file} for name in demo.PRESETS})
    monkeypatch.setattr(preset_registry, "CHECKOUT", tmp_path / "absent")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(fetching, "PATIENCE", 0.3)
    monkeypatch.setattr(fetching, "PAUSE", 30)
    monkeypatch.setattr(demo, "train", lambda out, precision: print("trained", out))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        if not answers:
            silent.close()
        monkeypatch.setattr(preset_registry, "BASE_URL", address)
        began = time.monotonic()
        status, output, error = attn_zoo("demo", "--out", "new")
        assert time.monotonic() - began < 10
    assert (status, output) == (0, "trained new\n")
    [line] = error.splitlines()[1:]
    assert line.startswith("continuing without published presets: cannot download http://127.0.0.1:")
    assert f"/{demo.PRESETS[0]}/checksums.json" in line and ("timed out" if answers else "refused") in line


def test_what_is_in_the_way_is_found_before_anything_is_loaded(attn_zoo, refused, small, monkeypatch):
    monkeypatch.setattr(demo, "translate", lambda path, precision: pytest.fail("translated"))
    with open("file", "w") as file:
        file.write("precious")
    refused("file", "demo", "--out", "file")
    with locked("busy"):
        refused("busy is in use by process", "demo", "--out", "busy")
    os.makedirs("other/bahdanau")
    with open("other/bahdanau/letters.txt", "w") as file:
        file.write("dear")
    monkeypatch.setattr(demo, "translate", lambda path, precision: None)
    status, output, error = attn_zoo("demo", "--out", "other")
    assert (status, output) == (2, "") and "other/bahdanau is not empty and is not a run folder" in error


@pytest.mark.skipif(not os.path.isdir("/sys/kernel"), reason="needs folders in which nobody may write")
@pytest.mark.parametrize("folder", ["/sys/new", "/proc/new"])
def test_a_folder_that_cannot_be_made(refused, small, monkeypatch, folder):
    monkeypatch.setattr(demo, "translate", lambda path, precision: pytest.fail("translated"))
    refused(f"cannot write {folder}", "demo", "--out", folder)
