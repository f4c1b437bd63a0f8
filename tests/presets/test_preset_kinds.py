"""Presets whose files are not what they seem: pipes, devices, links, files of many gigabytes."""

import contextlib
import os
import re
import resource
import shutil
import signal
import socket
import tempfile
from pathlib import Path

import keras_hub
import pytest

from keras_attn_zoo import cli
from keras_attn_zoo.bodies import RNNBackbone
from keras_attn_zoo.data.truecasing import Truecaser
from keras_attn_zoo.presets.preset_checks import preset_files
from keras_attn_zoo.presets.preset_reading import check_folder
from keras_attn_zoo.support.checksums import CHECKSUMS, write_checksums
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import read_bytes
from keras_attn_zoo.translators import TranslationPreprocessor, TranslationTokenizer, Translator
from tests import tiny
from tests.other_user import as_nobody, open_to_all

pytestmark = pytest.mark.one_backend

SECONDS = 20
# More than a refusal takes, and less than any of the large files has.
ROOM = 4 * 2**30
CONFIGS = ("config.json", "task.json", "preprocessor.json", "tokenizer.json", "source_tokenizer.json")
WEIGHTS, ASSETS = (
    "model.weights.h5",
    ("assets/tokenizer/vocabulary.spm", "assets/source_tokenizer/vocabulary.spm", "assets/tokenizer/truecaser.txt"),
)
OWN = (Translator, RNNBackbone, TranslationPreprocessor, TranslationTokenizer)
# KerasHub reads configurations by itself, and leaves weights and subword models to this package's classes.
HUBS = (keras_hub.models.Seq2SeqLM, keras_hub.models.Backbone, keras_hub.models.Seq2SeqLMPreprocessor)


def _socket(path, outside):
    # The system takes short names only.
    with socket.socket(socket.AF_UNIX) as one, contextlib.chdir(path.parent):
        one.bind(path.name)


def _sparse(path, outside):
    with open(path, "wb") as file:
        file.truncate(16 * 2**30)


KINDS = {
    "pipe": lambda path, outside: os.mkfifo(path),
    "socket": _socket,
    "device": lambda path, outside: path.symlink_to("/dev/zero"),
    "link out": lambda path, outside: path.symlink_to(outside),
    "folder": lambda path, outside: path.mkdir(),
    "sparse": _sparse,
}
# What a link leads to is a good file, so that nothing but the link can be the reason.
REASONS = r"is a pipe or a device|is a folder|links to outside the preset|the [\d,]+ allowed|is damaged"


@contextlib.contextmanager
def little():
    """Neither time nor memory for what waits for a writer or reads all of a large file."""

    def ring(*arguments):
        pytest.fail("it waits for ever")

    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limits, handler = resource.getrlimit(resource.RLIMIT_AS), signal.signal(signal.SIGALRM, ring)
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, limits[1]))
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, handler)
        resource.setrlimit(resource.RLIMIT_AS, limits)


@pytest.fixture(scope="module")
def pristine(tmp_path_factory):
    """A preset with every kind of file, and no checksums."""
    folder = tmp_path_factory.mktemp("kinds") / "preset"
    truecaser = Truecaser(b"rot (9/9)\n")
    tokenizers = (
        tiny.tokenizer("source", config_file="source_tokenizer.json", truecaser=truecaser),
        tiny.tokenizer("target", truecaser=truecaser),
    )
    Translator(tiny.backbone(), TranslationPreprocessor(*tokenizers)).save_to_preset(folder)
    (folder / CHECKSUMS).unlink()
    return folder


@pytest.fixture
def preset(pristine, tmp_path):
    return shutil.copytree(pristine, tmp_path / "preset")


def put(preset, name, kind):
    """Put something else in the place of a file; a copy of the file itself is outside."""
    outside = preset.parent / "outside" / name
    outside.parent.mkdir(parents=True, exist_ok=True)
    (preset / name).rename(outside)
    KINDS[kind](preset / name, outside)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [*CONFIGS, WEIGHTS, *ASSETS])
def test_no_class_reads_what_is_no_file_of_the_preset(preset, name, kind):
    put(preset, name, kind)
    for cls in {WEIGHTS: OWN[:2]}.get(name, (OWN[0], OWN[2]) if name in ASSETS else OWN):
        with little(), pytest.raises(UserError) as error:
            cls.from_preset(str(preset))
        assert re.search(REASONS, str(error.value)) and Path(name).name in str(error.value), error.value
        assert "\n" not in str(error.value)


@pytest.fixture
def summed(preset):
    """A preset with every kind of file, and with checksums."""
    write_checksums(preset, preset_files(preset))
    return preset


def lengthen(path, size):
    """Add to a file what takes no room on the disk."""
    with open(path, "r+b") as file:
        file.truncate(size)


@pytest.mark.parametrize("name", [*CONFIGS, WEIGHTS, *ASSETS, "metadata.json", CHECKSUMS])
def test_sizes_come_before_checksums(summed, name):
    lengthen(summed / name, 200 * 2**30)
    with little(), pytest.raises(UserError, match=rf"{Path(name).name} has [\d,]{{15}} bytes, more than the [\d,]+ "):
        Translator.from_preset(summed)


@pytest.mark.parametrize("whole", [True, False])
def test_a_large_file_of_weights_holds_what_it_is_as_large_as(summed, whole):
    """It fits in memory, but to read it takes a minute where there is much of that."""
    if not whole:
        (summed / WEIGHTS).write_bytes(b"")
    lengthen(summed / WEIGHTS, 3 * 2**30)
    reason = r"has 3,221,225,472 bytes, but holds only [\d,]+ bytes" if whole else "is damaged or not a file of weights"
    with pytest.raises(UserError, match=rf"model\.weights\.h5 {reason}"):
        Translator.from_preset(summed)


@pytest.mark.parametrize("sums", [True, False])
@pytest.mark.parametrize("closed", ["assets", "assets/tokenizer", "."])
def test_a_folder_without_permission_is_not_called_missing(pristine, closed, sums):
    with tempfile.TemporaryDirectory() as outside:
        preset = Path(shutil.copytree(pristine, Path(outside) / "preset"))
        if sums:
            write_checksums(preset, preset_files(preset))
        open_to_all(outside)
        (preset / closed).chmod(0)
        with as_nobody(), pytest.raises(UserError, match=r"cannot open .*preset/.*: Permission denied") as error:
            Translator.from_preset(preset)
        assert "missing" not in str(error.value)
        with as_nobody(), pytest.raises(UserError, match=r"cannot read .*preset.*: Permission denied"):
            check_folder(preset)
        (preset / closed).chmod(0o700)


# A link may lead to weights: KerasHub does not say that they are of a preset.
@pytest.mark.parametrize(
    ("name", "kind"),
    [(name, kind) for name in (WEIGHTS, *ASSETS[:2]) for kind in KINDS if (name, kind) != (WEIGHTS, "link out")],
)
def test_kerashubs_own_classes_do_not_read_it_either(preset, name, kind):
    put(preset, name, kind)
    for cls in (HUBS[0], HUBS[2]) if name in ASSETS else HUBS[:2]:
        with little(), pytest.raises(UserError, match=REASONS):
            cls.from_preset(str(preset))


@pytest.mark.long
@pytest.mark.parametrize("kind", ["pipe", "sparse", "link out"])
@pytest.mark.parametrize("index", [True, False])
def test_weights_in_several_files(preset, kind, index):
    """Keras divides large ones; it would open each by itself."""
    translator = Translator.from_preset(preset)
    translator.backbone.save_weights(preset / "model.weights.json", max_shard_size=1e-5)
    (preset / WEIGHTS).unlink()
    for cls in (Translator, HUBS[0]):
        cls.from_preset(str(preset))
    put(preset, "model.weights.json" if index else sorted(one.name for one in preset.glob("model_*.h5"))[0], kind)
    for cls in (Translator,) if index else (Translator, HUBS[0]):
        with little(), pytest.raises(UserError, match=REASONS):
            cls.from_preset(str(preset))


def test_weights_of_a_task(preset):
    os.mkfifo(preset / "task.weights.h5")
    for cls in (Translator, HUBS[0]):
        with little(), pytest.raises(UserError, match="is a pipe or a device"):
            cls.from_preset(str(preset))


def test_checksums_and_metadata_that_are_pipes(preset):
    """The metadata are read for a message alone."""
    put(preset, "metadata.json", "pipe")
    (preset / WEIGHTS).write_bytes(b"")
    with little(), pytest.raises(UserError, match=r"model\.weights\.h5 is damaged"):
        Translator.from_preset(preset)
    os.mkfifo(preset / CHECKSUMS)
    for cls in OWN:
        with little(), pytest.raises(UserError, match=rf"{CHECKSUMS} is a pipe"):
            cls.from_preset(preset)


def test_links_in_the_cache_of_a_hub_are_followed_as_far_as_its_blobs(pristine, tmp_path):
    repository = tmp_path / "models--user--preset"
    revision, blobs = repository / "snapshots" / ("0" * 40), repository / "blobs"
    blobs.mkdir(parents=True)
    for number, path in enumerate(sorted(one for one in pristine.rglob("*") if one.is_file())):
        link = revision / path.relative_to(pristine)
        link.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, blobs / str(number))
        link.symlink_to(os.path.relpath(blobs / str(number), link.parent))
    for cls in OWN:
        cls.from_preset(revision)
    # Wherever the folder is reached from; but not if a blob leads further.
    (tmp_path / "short").symlink_to(revision)
    Translator.from_preset(tmp_path / "short")
    (blobs / "0").rename(tmp_path / "0")
    (blobs / "0").symlink_to(tmp_path / "0")
    with pytest.raises(UserError, match="links to outside the preset"):
        Translator.from_preset(revision)


def test_links_between_files_of_a_preset_are_followed(preset):
    folder = preset / "assets"
    (folder / "source_tokenizer" / "truecaser.txt").unlink()
    (folder / "source_tokenizer" / "truecaser.txt").symlink_to("../tokenizer/truecaser.txt")
    Translator.from_preset(preset)


@pytest.mark.parametrize("kind", ["link out", "pipe", "device"])
def test_nothing_but_its_own_files_is_published(preset, kind, capsys):
    """Whatever lies in the folder would be uploaded, a private key that a link leads to as well."""
    Translator.from_preset(preset).save_to_preset(preset)
    (preset / "README.md").write_text("A card.\n")
    put(preset, "README.md", kind)
    with little():
        assert cli.main(["presets", "publish", str(preset.parent), "hf://user"]) == 2
    assert re.search(rf"README\.md.*({REASONS})", capsys.readouterr().err)


def test_a_pipe_that_takes_the_place_of_a_file_after_it_was_checked_is_not_waited_for(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "file")
    monkeypatch.setattr("keras_attn_zoo.support.files.check_file", lambda path: None)
    with little(), pytest.raises(UserError, match="was replaced by a pipe or a device"):
        read_bytes(tmp_path / "file")
