"""Advice that names a value can be taken; failures of the disk name what could not be written."""

import errno
import os
import re

import pytest

from keras_attn_zoo import cli
from keras_attn_zoo.data.checked_text import SentenceTooLong
from keras_attn_zoo.data.encoded_text import EncodedText
from keras_attn_zoo.presets.preset_checks import check_preset
from keras_attn_zoo.runs.attention_by_layer import matrices_by_position
from keras_attn_zoo.runs.training import check_test_text
from keras_attn_zoo.support.choices import MOST_TOKENS
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.locks import locked
from keras_attn_zoo.training.run_log import RunLog
from tests import tiny


def advised(error):
    """The values that a message advises, on the command line and in Python."""
    found = re.findall(r"--max-tokens (\d+)|set_max_tokens\((\d+)\)", f"{error} {getattr(error, 'for_shell', '')}")
    return {int(shell or python) for shell, python in found}


@pytest.mark.parametrize("tokens", [30, MOST_TOKENS, MOST_TOKENS + 1, 3_400_001])
@pytest.mark.parametrize("longest", [None, 20])
def test_a_length_is_advised_only_if_it_is_taken(tokens, longest):
    taken = {tokens} if tokens <= (longest or MOST_TOKENS) else set()
    assert advised(SentenceTooLong(1, tokens, 10, most=longest)) == taken
    with pytest.raises(UserError, match="the longest is sentence 1") as error:
        check_test_text(EncodedText([[5] * tokens], [[5]], ("", "")), 10, "test", longest)
    assert advised(error.value) == taken


@pytest.mark.parametrize(("arguments", "longest"), [({}, None), ({"encoder_positions": "learned"}, 16)])
def test_a_translator_advises_what_its_weights_allow(arguments, longest):
    task = tiny.translator(body=tiny.transformer, **arguments)
    for words in (20, 12_000):
        with pytest.raises(SentenceTooLong) as error:
            task.translate([" ".join(["kalomi"] * words)])
        for tokens in advised(error.value):
            task.set_max_tokens(tokens)
            task.set_max_tokens(16)
        assert bool(advised(error.value)) == (longest is None and words == 20)


def test_positions_are_advised_only_if_they_are_taken():
    task = tiny.translator(body=tiny.transformer, decoder_attention="random_synthesizer")
    with pytest.raises(UserError, match="ask for fewer") as error:
        matrices_by_position(task, 17)
    assert not advised(error.value)


class Full:
    """A file on a full disk."""

    def write(self, text):
        raise OSError(errno.ENOSPC, "No space left on device")

    flush = close = lambda self: self.write("")


def test_a_full_disk_names_the_log(tmp_path):
    log = RunLog(tmp_path / "log.jsonl", None)
    log._file, log.step = Full(), 3
    for call in (lambda: log._write({}), lambda: log.on_train_end()):
        with pytest.raises(UserError, match=r"cannot write .*log\.jsonl: No space left on device\. Free some space"):
            call()


def test_a_lock_holds_on_a_full_disk(tmp_path, monkeypatch):
    monkeypatch.setattr("keras_attn_zoo.support.locks.json.dumps", lambda value: Full().write(value))
    with locked(tmp_path), pytest.raises(UserError, match="in use by another process"), locked(tmp_path):
        pass


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no full device")
def test_a_full_disk_names_standard_output(capsys, monkeypatch):
    with open("/dev/full", "w") as full:
        monkeypatch.setattr("sys.stdout", full)
        assert cli.main(["presets"]) == 2
        monkeypatch.undo()
        os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())
    assert "cannot write standard output: No space left on device" in capsys.readouterr().err


def test_a_folder_without_permission_is_not_taken_for_an_empty_one(tmp_path, monkeypatch):
    folder, stat = tmp_path / "preset", os.stat
    folder.mkdir()
    with pytest.raises(UserError, match=r"is not a preset: it has no config\.json"):
        check_preset(str(folder))

    def refused(path, *arguments, **options):
        if str(path).startswith(f"{folder}{os.sep}"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return stat(path, *arguments, **options)

    monkeypatch.setattr("os.stat", refused)
    with pytest.raises(UserError, match=r"cannot open .*config\.json: Permission denied"):
        check_preset(str(folder))
