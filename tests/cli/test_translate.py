"""`attn-zoo translate`: arguments, files and streams."""

import contextlib
import io
import os
import queue
import sys
import threading

import pytest

from keras_attn_zoo.cli import translate
from tests import tiny
from tests.cli.conftest import SENTENCES


@pytest.mark.every_backend
@pytest.mark.slow_compiled
def test_translate_argument_file_and_pipe_agree(attn_zoo, trained, translations, tmp_path, monkeypatch):
    assert attn_zoo("translate", trained, *SENTENCES) == (0, "".join(f"{t}\n" for t in translations), "")
    # An option between model and sentences, and an empty line, which stays one.
    status, output, _ = attn_zoo("translate", trained, "--beams", 2, SENTENCES[0], " ", SENTENCES[2])
    assert (status, output.split("\n")) == (0, [translations[0], "", translations[2], ""])
    (tmp_path / "in.txt").write_text("\n".join(SENTENCES) + "\n", encoding="utf-8")
    assert attn_zoo("translate", trained, "--input", tmp_path / "in.txt", "--output", tmp_path / "out.txt")[:2] == (
        0,
        "",
    )
    assert (tmp_path / "out.txt").read_text(encoding="utf-8").splitlines() == translations
    text = "\n".join(SENTENCES)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(text.encode()))))
    assert attn_zoo("translate", trained)[1].splitlines() == translations


class Endless(io.RawIOBase):
    """A pipe that never ends: the same bytes again and again."""

    def __init__(self, data):
        self.data, self.taken = data, 0

    def readable(self):
        return True

    def readinto(self, buffer):
        assert self.taken < 1 << 25, "read on and on"
        self.taken += (count := min(len(buffer), len(self.data)))
        buffer[:count] = self.data[:count]
        return count


def standard_input(monkeypatch, raw):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(raw)))


class Heard(io.StringIO):
    """An output that tells what is written when it is flushed, and may close after a line."""

    def __init__(self, closes=False):
        super().__init__()
        self.said, self.closes = queue.Queue(), closes

    def flush(self):
        if text := self.getvalue():
            self.said.put(text)
            self.seek(0)
            self.truncate()
            if self.closes:
                raise BrokenPipeError


def test_translate_answers_a_line_before_the_next_one_comes(attn_zoo, trained, translations, monkeypatch):
    """As `tail -f text | attn-zoo translate` does."""
    reading, writing = os.pipe()
    output, answers = Heard(), []

    def produce():
        with open(writing, "wb", buffering=0) as pipe:
            for sentence in SENTENCES:
                pipe.write(sentence.encode() + b"\n")
                with contextlib.suppress(queue.Empty):
                    answers.append(output.said.get(timeout=20))

    monkeypatch.setattr(sys, "stdout", output)
    producer = threading.Thread(target=produce)
    with open(reading, encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        producer.start()
        assert attn_zoo("translate", trained)[0] == 0
    producer.join()
    assert answers == [f"{one}\n" for one in translations]


def test_translate_an_endless_pipe_until_nobody_reads(attn_zoo, trained, translations, monkeypatch):
    """As `yes | attn-zoo translate | head -1` does: memory is bounded, and the end is quiet."""
    monkeypatch.setattr(translate, "WINDOW_BATCHES", 2)
    standard_input(monkeypatch, Endless(SENTENCES[0].encode() + b"\n"))
    monkeypatch.setattr(sys, "stdout", output := Heard(closes=True))
    assert attn_zoo("translate", trained, "--batch-size", 8)[0] == 0
    assert output.said.get_nowait() == f"{translations[0]}\n" * 16
    standard_input(monkeypatch, Endless(b"word " * 10_000))
    status, _, error = attn_zoo("translate", trained)
    assert status == 2 and "standard input line 1 has more than 16,777,216 bytes" in error and error.count("\n") == 1


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        ("haus " * 60 + "\n", "line 4 has 61 tokens"),
        (b"sch\xf6n\n", "line 4 is not UTF-8"),
        (b"r\0o\0t\0\n", "line 4 contains a NUL character: remove it, or convert the file from UTF-16 to UTF-8"),
    ],
    ids=["long", "latin-1", "utf-16"],
)
def test_what_comes_before_a_bad_line_is_translated(attn_zoo, trained, translations, tmp_path, monkeypatch, bad, text):
    lines = f"{SENTENCES[0]}\r\n\n{SENTENCES[2]}\n".encode() + (bad if isinstance(bad, bytes) else bad.encode())
    (tmp_path / "in").write_bytes(lines + b"rot haus")
    expected = f"{translations[0]}\n\n{translations[2]}\n"
    status, output, error = attn_zoo("translate", trained, "--input", tmp_path / "in")
    assert (status, output) == (2, expected) and text in error and error.count("\n") == 1
    status, output, error = attn_zoo("translate", trained, "--input", tmp_path / "in", "--output", tmp_path / "out")
    assert (status, output) == (2, "") and text in error.splitlines()[-1] and not (tmp_path / "out").exists()
    # Numbers go on from window to window.
    monkeypatch.setattr(translate, "WINDOW_BATCHES", 1)
    status, output, error = attn_zoo("translate", trained, "--input", tmp_path / "in", "--batch-size", 1)
    assert (status, output) == (2, expected) and text in error


def test_an_empty_line_has_the_columns_of_the_others(attn_zoo, trained):
    assert attn_zoo("translate", trained, "--scores", " ")[1] == "\t0.0000\n"
    assert attn_zoo("translate", trained, "--n-best", 2, " ")[1] == "0 |||  ||| 0.0000\n"


def test_too_many_translations_and_tokens_are_refused_in_the_words_of_the_command_line(attn_zoo, refused, trained):
    line = ("translate", trained, "rot", "haus " * 60)
    refused("error: --n-best 3 is more than 2 beams: set --beams 3.\n", *line[:3], "--beams", 2, "--n-best", 3)
    refused("sentence 2 has 61 tokens", *line)
    refused("split it, or set --max-tokens 61.\n", *line)
    assert len(attn_zoo(*line, "--max-tokens", 61, "--beams", 1)[1].splitlines()) == 2


def test_names_are_no_sentences(refused, trained, tmp_path):
    (tmp_path / "odd.de").write_text("rot haus")
    for name, what in (
        ("transformer_tatoeba_de_en", "is a model: models come before all sentences"),
        (trained, "is a model: models come before all sentences"),
        (tmp_path / "odd.de", "is a file: give it with --input"),
    ):
        refused(f"{name} {what}", "translate", trained, "rot haus", name)
    mistyped = "there is no model average_tatoeba_de_en: did you mean transformer_average_tatoeba_de_en? To translate"
    refused(mistyped, "translate", trained, "average_tatoeba_de_en", "rot haus")
    for more in (("rot haus",), ("--input", tmp_path / "odd.de")):
        refused(f"there is no model {tmp_path / 'run'} in {tmp_path}", "translate", trained, tmp_path / "run", *more)


def test_what_is_read_is_not_overwritten(refused, trained, tmp_path):
    path, hard, soft = (tmp_path / name for name in ("in", "hard", "soft"))
    path.write_text("rot haus\n")
    hard.hardlink_to(path)
    soft.symlink_to(path)
    for output, option in ((path, "--input"), (hard, "--prefix"), (soft, "--require-file")):
        said = f"--output {output} would overwrite {option} {path}: name another file."
        refused(said, "translate", trained, "--output", output, option, path)
    assert path.read_text() == "rot haus\n" and len(list(tmp_path.iterdir())) == 3


def test_models_before_the_sentences_are_an_ensemble(attn_zoo, refused, trained, translations, tmp_path):
    """Of a model and its own preset, which translate as it does."""
    preset = trained / "best"
    expected = (0, "".join(f"{t}\n" for t in translations), "")
    assert attn_zoo("translate", trained, preset, *SENTENCES) == expected
    (tmp_path / "in").write_text("".join(f"{one}\n" for one in SENTENCES))
    others, search = (preset, trained, "--mean", "geometric"), ("--input", tmp_path / "in", "--beams", 3)
    of_one = attn_zoo("translate", trained, *search)
    assert of_one[1].strip() and attn_zoo("translate", trained, *others, *search) == of_one
    # The search is that of the first run, unless it is said.
    few = attn_zoo("translate", trained, preset, "--beams", 1, *SENTENCES)
    assert few == attn_zoo("translate", trained, "--beams", 1, *SENTENCES)
    refused("--mean is for an ensemble", "translate", trained, "--mean", "geometric", *SENTENCES)
    tiny.translator().save_to_preset(tmp_path / "other")
    refused("member 2 of the ensemble has other source subwords", "translate", trained, tmp_path / "other", "rot haus")
    refused("--top-k applies only to latent alignments", "translate", trained, preset, "--top-k", 2, "rot haus")


@pytest.mark.parametrize("form", [(), ("--n-best", "2"), ("--scores",)], ids=["plain", "n-best", "scores"])
def test_a_stopped_translation_goes_on(attn_zoo, trained, tmp_path, monkeypatch, form):
    """In windows of one line each, a file is what a single call writes, and the lines before the stop stay."""
    (tmp_path / "in").write_text("".join(f"{one}\n" for one in (*SENTENCES, "", *SENTENCES)))
    line = ("translate", trained, "--input", tmp_path / "in", *form, "--output")
    assert attn_zoo(*line, tmp_path / "whole")[0] == 0
    monkeypatch.setattr(translate, "WINDOW_BATCHES", 1)
    translate_window, calls = translate._translate_window, []

    def stops(*arguments):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        translate_window(*arguments)

    monkeypatch.setattr(translate, "_translate_window", stops)
    status, _, _ = attn_zoo(*line, tmp_path / "out", "--resume", "--batch-size", 1)
    assert status == 130 and not (tmp_path / "out").exists()
    # Large batches make no larger windows.
    monkeypatch.setattr(translate, "_BATCH", 2)
    assert attn_zoo(*line, tmp_path / "out", "--resume", "--batch-size", 500)[0] == 0
    # One of two lines that were left in their window, then two, then one.
    assert len(calls) == 3 + 3
    assert (tmp_path / "out").read_bytes() == (tmp_path / "whole").read_bytes()
    assert {one.name for one in tmp_path.iterdir()} == {"in", "whole", "out"}


def test_what_a_stopped_translation_was_made_by_is_compared(attn_zoo, refused, trained, tmp_path, monkeypatch):
    monkeypatch.setattr(translate, "WINDOW_BATCHES", 1)
    (tmp_path / "in").write_text(f"{SENTENCES[0]}\n{'haus ' * 60}\n{SENTENCES[1]}\n")
    line = ("translate", trained, "--input", tmp_path / "in", "--output", tmp_path / "out", "--resume", "--batch-size")
    # A line that cannot be translated ends it too.
    status, _, error = attn_zoo(*line, 2)
    assert status == 2 and "line 2 has 61 tokens" in error and not (tmp_path / "out").exists()
    for more, said in (
        (("--beams", 4), "was begun with num_beams="),
        (("--precision", "bfloat16"), "was begun with precision=float32, not bfloat16"),
        (("--n-best", 2), "was begun with n_best=1, not 2"),
    ):
        refused(said, *line, 2, *more)
    refused("was begun with mean=None, not geometric", line[0], trained, *line[1:], 2, "--mean", "geometric")
    # What comes after it may be corrected.
    (tmp_path / "in").write_text(f"{SENTENCES[0]}\n{SENTENCES[2]}\n{SENTENCES[1]}\n")
    assert attn_zoo(*line, 2)[0] == 0 and len((tmp_path / "out").read_text().splitlines()) == 3
    refused("--resume goes on with a file: name it by --output", "translate", trained, "--resume", "rot haus")


def test_n_best_lines_have_number_text_and_falling_scores(attn_zoo, trained):
    status, output, _ = attn_zoo("translate", trained, "--n-best", 2, *SENTENCES)
    rows = [line.split(" ||| ") for line in output.splitlines()]
    assert status == 0 and [int(row[0]) for row in rows] == [0, 0, 1, 1, 2, 2]
    assert all(float(rows[i][2]) >= float(rows[i + 1][2]) for i in (0, 2, 4))


def test_sentences_that_begin_with_a_dash(attn_zoo, trained, translations):
    """They are sentences, before and after options."""
    expected = attn_zoo("translate", trained, "--", "-x", SENTENCES[0])
    assert expected[0] == 0 and expected[1].splitlines()[1] == translations[0]
    assert attn_zoo("translate", trained, "--beams", 2, "--", "-x", SENTENCES[0]) == expected
