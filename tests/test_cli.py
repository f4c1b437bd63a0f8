"""The command `attn-zoo`, as its users meet it: output, files, exit statuses, one-line errors."""

import contextlib
import errno
import importlib.util
import io
import os
import queue
import shlex
import shutil
import signal
import subprocess
import sys
import threading

import keras
import pytest

from keras_attn_zoo import cli, process
from keras_attn_zoo.backends import choose_backend
from keras_attn_zoo.errors import UserError
from keras_attn_zoo.evaluation.alignments import format_alignment
from keras_attn_zoo.experiments import training
from keras_attn_zoo.experiments.corpora import embedded_corpus
from keras_attn_zoo.experiments.curves import curves_over_top_k, curves_over_trained_top_k
from keras_attn_zoo.experiments.loading import load_translator
from keras_attn_zoo.experiments.recipe import Recipe, run_recipe
from keras_attn_zoo.experiments.run_folder import RunFolder
from keras_attn_zoo.experiments.scoring import likelihood
from keras_attn_zoo.experiments.systems import SYSTEMS
from keras_attn_zoo.experiments.training import train_system
from keras_attn_zoo.files import read_json, write_json, write_text
from keras_attn_zoo.models import Translator
from tests.tiny_run import TINY

SENTENCES = ["rot haus", "hund geht blau", "katze"]


@pytest.fixture(autouse=True)
def signals_arrive():
    """What a shell has its background processes ignore, the commands leave ignored."""
    defaults = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: signal.SIG_DFL,
        signal.SIGHUP: signal.SIG_DFL,
    }
    before = {number: signal.signal(number, handler) for number, handler in defaults.items()}
    yield
    for number, handler in before.items():
        # None: set by a library of C.
        signal.signal(number, handler or signal.SIG_DFL)


@pytest.fixture
def attn_zoo(capsys):
    """Run a command line; return status, output and error output."""

    def run(*arguments):
        status = cli.main([str(argument) for argument in arguments])
        return status, *capsys.readouterr()

    return run


@pytest.fixture(scope="module")
def translations(trained):
    return [best[0].text for best in load_translator(trained).translate(SENTENCES)]


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
    monkeypatch.setattr(cli, "WINDOW_BATCHES", 2)
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
        ("haus " * 60 + "\n", "line 4 has 60 tokens"),
        (b"sch\xf6n\n", "line 4 is not UTF-8"),
        (b"r\0o\0t\0\n", "line 4 contains a NUL character"),
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
    monkeypatch.setattr(cli, "WINDOW_BATCHES", 1)
    status, output, error = attn_zoo("translate", trained, "--input", tmp_path / "in", "--batch-size", 1)
    assert (status, output) == (2, expected) and text in error


def test_n_best_lines_have_number_text_and_falling_scores(attn_zoo, trained):
    status, output, _ = attn_zoo("translate", trained, "--n-best", 2, *SENTENCES)
    rows = [line.split(" ||| ") for line in output.splitlines()]
    assert status == 0 and [int(row[0]) for row in rows] == [0, 0, 1, 1, 2, 2]
    assert all(float(rows[i][2]) >= float(rows[i + 1][2]) for i in (0, 2, 4))


def test_evaluate_text_alone(attn_zoo, tmp_path):
    (tmp_path / "a.txt").write_text("the red house is here today\n")
    status, output, _ = attn_zoo("evaluate", "--hypotheses", tmp_path / "a.txt", "--references", tmp_path / "a.txt")
    assert status == 0 and "100.0" in output
    (tmp_path / "b.txt").write_text("one\ntwo\n")
    status, _, error = attn_zoo("evaluate", "--hypotheses", tmp_path / "a.txt", "--references", tmp_path / "b.txt")
    assert status == 2 and "1" in error and "2" in error and error.count("\n") == 1
    text = ("--hypotheses", tmp_path / "a.txt", "--references", tmp_path / "a.txt")
    for option in (("--top-k", 2), ("--max-tokens", 70), ("--beams", 1)):
        status, output, error = attn_zoo("evaluate", *text, *option)
        assert (status, output) == (2, "") and "nothing is translated" in error


def test_evaluate_a_run_on_other_text(attn_zoo, trained, tmp_path):
    (tmp_path / "t.tsv").write_text("rot haus\thouse red\nkatze\tcat\n")
    status, output, _ = attn_zoo("evaluate", trained, "--test", tmp_path / "t.tsv", "--name", "other")
    assert status == 0 and "| tiny" in output and "BLEU" in output
    assert RunFolder(trained).read_scores()["other"]["sentences"] == 2
    assert attn_zoo("evaluate", trained, "--name", "other", "--stored") == (0, output, "")


def test_train_loads_the_trained_model_once(attn_zoo, trained, corpus, tmp_path, monkeypatch):
    folder, loaded = shutil.copytree(trained, tmp_path / "run"), []
    before = RunFolder(folder).read_scores()["test"]["text"]
    for name, side in zip(("de", "en"), zip(*corpus.splits.test, strict=True), strict=True):
        write_text(tmp_path / f"test.{name}", "".join(f"{sentence}\n" for sentence in side))
    from_preset = Translator.from_preset
    monkeypatch.setattr(Translator, "from_preset", lambda preset: loaded.append(preset) or from_preset(preset))
    monkeypatch.setattr(training, "train_system", lambda *_, **__: RunFolder(folder))
    text = (tmp_path / "test.de", tmp_path / "test.en")
    options = [word for part in ("--train", "--valid", "--test") for word in (part, *text)]
    status, output, _ = attn_zoo("train", "--system", "bahdanau", "--run", folder, *options)
    assert status == 0 and "| run" in output and loaded == [str(folder / "best")]
    assert RunFolder(folder).read_scores()["test"]["text"] == before
    assert len(list((folder / "pictures").iterdir())) == 4


@pytest.mark.parametrize("name", ["../other", "/tmp/other", "a/b", "..", ".", "", "a\nb", "a\\b", "a" * 201])
def test_names_of_test_sets_stay_in_the_run_folder(attn_zoo, trained, tmp_path, capsys, name):
    (tmp_path / "t.tsv").write_text("rot haus\thouse red\n")
    before = {path: path.stat().st_mtime_ns for path in trained.parent.rglob("*")}
    with pytest.raises(SystemExit) as stopped:
        attn_zoo("evaluate", trained, "--test", tmp_path / "t.tsv", "--name", name)
    error = capsys.readouterr().err
    assert stopped.value.code == 2 and "cannot name a test set" in error and error.count("\n") == 1
    run = RunFolder(trained)
    for entrance in (run.hypotheses, run.references, run.alignment, run.picture, lambda name: run.add_scores(name, {})):
        with pytest.raises(UserError, match="cannot name a test set"):
            entrance(name)
    assert before == {path: path.stat().st_mtime_ns for path in trained.parent.rglob("*")}


def test_evaluate_counts_of_positions_one_row_each(attn_zoo, trained, corpus, tmp_path, monkeypatch):
    measured = []

    def counted(*arguments):
        measured.append(likelihood(*arguments))
        return measured[-1]

    monkeypatch.setattr("keras_attn_zoo.experiments.scoring.likelihood", counted)
    run = train_system(TINY.override(output="latent", epochs=1, teacher_forcing=1.0), corpus, tmp_path / "latent")
    (tmp_path / "t.tsv").write_text("rot haus\thouse red\nkatze\tcat\n")
    arguments = ("--test", tmp_path / "t.tsv", "--name", "new", "--top-k", 2, 0, 2)
    status, output, _ = attn_zoo("evaluate", run.path, *arguments)
    rows = [line.split("|") for line in output.splitlines() if line.startswith("| latent")]
    assert status == 0 and [row[2].strip() for row in rows] == ["2", "all"]
    assert {name: scores["search_top_k"] for name, scores in run.read_scores().items()} == {"new-k2": 2, "new-k0": 0}
    assert "K: of the search" in output and len(measured) == 1
    curves, ticks = curves_over_top_k([run.path], "new", lambda scores: scores["search_top_k"])
    assert ticks == {0: 2, 1: "all"} and curves == {"latent": ([0, 1], [2, 0])}
    picture = tmp_path / "k.png"
    plot = ("plot", "top-k", run.path, "--key", "seconds", "--output", picture)
    assert attn_zoo(*plot, "--name", "new")[0] == 0 and picture.read_bytes().startswith(b"\x89PNG")
    status, _, error = attn_zoo(*plot)
    assert status == 2 and "evaluate it with --top-k" in error and error.count("\n") == 1
    # Over the number in training: the run sums over all, a copy that says two over two, the plain one is a level.
    other = shutil.copytree(run.path, tmp_path / "two")
    config = read_json(other / "config.json")
    config["system"]["backbone"] |= {"marginalization": "top_k", "top_k": 2}
    write_json(other / "config.json", config)
    for folder, bleu in ((run.path, 30.0), (other, 20.0), (trained, 10.0)):
        RunFolder(folder).add_scores("drawn", {**run.read_scores()["new-k2"], "bleu": bleu})
    curves, ticks = curves_over_trained_top_k([run.path, other, trained], "drawn", lambda scores: scores["bleu"])
    assert ticks == {0: 2, 1: "all"}
    assert curves == {"latent alignment": ([0, 1], [20.0, 30.0]), "tiny": ([0, 1], [10.0, 10.0])}
    with pytest.raises(UserError, match="trained with as many positions as a run before it"):
        curves_over_trained_top_k([run.path, shutil.copytree(run.path, tmp_path / "again")], "drawn", lambda scores: 0)
    plot = ("plot", "top-k", run.path, "--name", "new-k2", "--output", picture, "--key", "tokens/s")
    assert attn_zoo(*plot, "--trained")[0] == 0
    for call, text in (((*plot,), "give --trained"), ((*plot[:2], trained, *plot[3:], "--trained"), "not scored")):
        status, _, error = attn_zoo(*call)
        assert status == 2 and text in error and error.count("\n") == 1
    before = run.scores.read_bytes()
    status, _, error = attn_zoo("evaluate", run.path, trained, *arguments)
    assert status == 2 and f"{trained} has no latent alignment" in error and error.count("\n") == 1
    assert run.scores.read_bytes() == before
    # Of subwords, for the model has hardly learned to write a word.
    plot = ("plot", "attention", run.path, "rot haus", "--subwords", "--top-k", 1, "--output", picture)
    assert attn_zoo(*plot, "--beside", trained)[0] == 0


def test_evaluate_marks_what_differs_from_the_baseline(attn_zoo, trained, tmp_path):
    """The references themselves are better than the baseline; what differs in one sentence of forty is not."""
    references = [f"the {colour} house {number} is here today" for colour in ("red", "blue") for number in range(20)]
    texts = {
        "baseline": [line.replace("house", "dog") for line in references],
        "better": references,
        "alike": [line.replace("house", "dog").replace("red house 7", "house") for line in references],
    }
    runs = [tmp_path / name for name in texts]
    for run, lines in zip(runs, texts.values(), strict=True):
        shutil.copytree(trained, run)
        for part, written in (("hypotheses", lines), ("references", references)):
            (run / part / "test.txt").write_text("".join(line + "\n" for line in written), encoding="utf-8")
    status, output, _ = attn_zoo("evaluate", *runs, "--stored", "--baseline", runs[0])
    bleu = {line.split("|")[1].strip(): line.split("|")[2].strip() for line in output.splitlines() if "|" in line}
    assert status == 0 and bleu["better"].endswith("**")
    assert "*" not in bleu["baseline"] + bleu["alike"] and "differs from baseline" in output
    (runs[1] / "references" / "test.txt").write_text("other\n" * len(references), encoding="utf-8")
    for arguments, text in (
        ((*runs, "--stored", "--baseline", runs[0]), "scored on other texts"),
        ((runs[0], "--stored", "--baseline", runs[1]), "is not among the runs"),
    ):
        status, _, error = attn_zoo("evaluate", *arguments)
        assert status == 2 and text in error and error.count("\n") == 1
    (runs[1] / "references" / "test.txt").unlink()
    assert "holds no references of 'test'" in attn_zoo("evaluate", *runs, "--stored", "--baseline", runs[0])[2]


def test_align_scores_against_gold_of_either_index_base(attn_zoo, trained, tmp_path):
    (tmp_path / "bitext").write_text("rot haus ||| house red\nkatze ||| cat\n")
    outputs = []
    for base in (0, 1):
        (tmp_path / "gold").write_text(f"{base}-{base + 1} {base + 1}-{base}\n{base}-{base}\n")
        status, output, _ = attn_zoo(
            "align", trained, "--bitext", tmp_path / "bitext", "--gold", tmp_path / "gold", "--index-base", base
        )
        assert status == 0 and "AER" in output
        outputs.append(output)
    assert outputs[0] == outputs[1]
    status, links, _ = attn_zoo("align", trained, "--bitext", tmp_path / "bitext")
    assert status == 0 and [len(line.split()) for line in links.splitlines()] == [2, 1]
    assert links.splitlines()[1] == "0-0"
    (tmp_path / "gold").write_text("\n\n")
    status, output, error = attn_zoo("align", trained, "--bitext", tmp_path / "bitext", "--gold", tmp_path / "gold")
    assert (status, output) == (2, "") and "gold holds no link" in error


def test_a_long_message_keeps_both_ends():
    text = process.one_line("begin " + "x" * 10_000 + " end")
    assert text.startswith("begin x") and text.endswith("x end") and len(text) < 5000


def test_align_takes_the_gold_of_the_embedded_corpus(attn_zoo, trained, tmp_path):
    """The same as of the text and the links in files."""
    run = RunFolder(tmp_path / "run")
    shutil.copytree(trained, run.path)
    sizes = {"train": 4, "valid": 2, "test": 6, "seed": 1, "max_words": 8}
    write_json(run.config, {**read_json(run.config), "corpus": {"generated": sizes}})
    gold = embedded_corpus(**sizes).gold
    write_text(tmp_path / "bitext", "".join(f"{' '.join(s)} ||| {' '.join(t)}\n" for s, t, _ in gold))
    write_text(tmp_path / "gold", "".join(format_alignment(links) + "\n" for *_, links in gold))
    files = ("--bitext", tmp_path / "bitext", "--gold", tmp_path / "gold")
    for layer in (("--layer", "best"), ()):
        status, output, _ = attn_zoo("align", run.path, *layer)
        assert (status, output) == attn_zoo("align", trained, *layer, *files)[:2] and "AER" in output and status == 0
    status, _, error = attn_zoo("align", run.path, "--gold-reverse")
    assert status == 2 and "those of the run: leave out --gold-reverse" in error
    status, _, error = attn_zoo("align", trained)
    assert status == 2 and "give --bitext" in error


def test_plots_are_pictures(attn_zoo, trained, tmp_path):
    assert attn_zoo("plot", "attention", trained, "rot haus", "--subwords", "--output", tmp_path / "a.png")[0] == 0
    assert (
        attn_zoo("plot", "attention", trained, "rot haus", "--target", "house", "--output", tmp_path / "b.svg")[0] == 0
    )
    assert (
        attn_zoo(
            "plot",
            "attention",
            trained,
            "rot haus",
            "--target",
            "house red",
            "--beside",
            trained,
            "--output",
            tmp_path / "d.png",
        )[0]
        == 0
    )
    assert attn_zoo("plot", "curves", trained, "--output", tmp_path / "c.pdf")[0] == 0
    assert [(tmp_path / n).read_bytes()[:4] for n in ("a.png", "c.pdf")] == [b"\x89PNG", b"%PDF"]
    status, _, error = attn_zoo("plot", "curves", trained, "--output", tmp_path / "c.doc")
    assert status == 2 and ".png" in error


@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        (["translate", "nowhere", "hallo"], ["nowhere", "check the path"]),
        (["train", "--system", "bahdanu", "--embedded", "--run", "r"], ["'bahdanu'", "bahdanau", "uniform"]),
        (["train", "--system", "uniform", "--run", "r"], ["--train", "--embedded"]),
        (["train", "--system", "uniform", "--embedded", "--run", "r", "--set", "epoch=1"], ["'epoch'", "epochs"]),
        (["train", "--system", "uniform", "--train", "a", "b", "c", "--run", "r"], ["received 3 files"]),
        (["train", "--system", "uniform", "--train", "no.de", "no.en", "--run", "r"], ["no.de"]),
        (["translate", "nowhere", "--backend", "theano", "x"], ["'theano'", "jax, tensorflow, torch"]),
        (["evaluate"], ["--hypotheses"]),
        (["align", "m", "--source", "x"], ["--bitext"]),
    ],
)
def test_bad_input_is_one_line_with_status_2_and_writes_nothing(attn_zoo, tmp_path, monkeypatch, arguments, texts):
    monkeypatch.chdir(tmp_path)
    status, output, error = attn_zoo(*arguments)
    assert (status, output) == (2, "")
    last = error.splitlines()[-1]
    assert last.startswith("attn-zoo: error: ") and all(text in last for text in texts)
    assert "Traceback" not in error
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("source", "target", "text"),
    [
        (b"rot\nblau\n", b"red\n", "has 2 lines"),
        (b"rot\n\xff\xfe\n", b"red\nblue\n", "line 2"),
        (b"", b"", "empty"),
        (b"\n\n\n", b"\n\n\n", "no sentence pair"),
        (b"rot haus\nblau hund\nkatze geht\n" * 4, b"red house\nblue dog\ncat goes\n" * 4, "8000"),
    ],
)
def test_bad_text_is_one_line(attn_zoo, tmp_path, source, target, text):
    (tmp_path / "s").write_bytes(source)
    (tmp_path / "t").write_bytes(target)
    files = [tmp_path / "s", tmp_path / "t"]
    status, _, error = attn_zoo(
        "train", "--system", "uniform", "--train", *files, "--valid", *files, "--test", *files, "--run", tmp_path / "r"
    )
    assert status == 2 and text in error.splitlines()[-1] and "Traceback" not in error
    assert not (tmp_path / "r" / "config.json").exists()
    assert not list(tmp_path.rglob("*.partial"))


def test_a_run_that_exists_and_a_sentence_that_is_too_long(attn_zoo, trained, tmp_path):
    (tmp_path / "s").write_text("rot haus\n" * 20)
    status, _, error = attn_zoo(
        "train", "--system", "uniform", "--train", tmp_path / "s", tmp_path / "s", "--run", trained
    )
    assert status == 2 and "--resume" in error
    status, output, error = attn_zoo("translate", trained, "rot", "haus " * 60)
    assert (status, output) == (2, "") and "sentence 2 has 60 tokens" in error and "--max-tokens" in error
    status, output, _ = attn_zoo("translate", trained, "rot", "haus " * 60, "--max-tokens", "70", "--beams", "1")
    assert status == 0 and len(output.splitlines()) == 2


def test_a_full_disk_is_one_line(attn_zoo, trained, monkeypatch):
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        status, _, error = attn_zoo("translate", trained, "rot haus")
        monkeypatch.undo()
    assert status == 2 and "No space left on device" in error


def act(monkeypatch, action):
    """Have the command `demo` do something else."""
    monkeypatch.setattr(cli, "_demo", lambda options: action())


@pytest.fixture
def left(monkeypatch):
    """A queue of the statuses with which a process would have ended at once."""
    statuses = queue.Queue()
    monkeypatch.setattr(process.os, "_exit", statuses.put)
    return statuses


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("made_of_it", [None, UserError("cannot compile"), SystemError("a library's own")])
def test_a_signal_stops_whatever_a_library_makes_of_it(attn_zoo, monkeypatch, left, name, made_of_it):
    number, before = signal.Signals[name], signal.getsignal(signal.Signals[name])

    def stopped():
        try:
            signal.raise_signal(number)
        except KeyboardInterrupt:
            if made_of_it is not None:
                raise made_of_it from None
            raise

    act(monkeypatch, stopped)
    status, output, error = attn_zoo("demo")
    assert (status, output) == (128 + number, "") and left.empty()
    assert error == "\nattn-zoo: stopped. A training run resumes at its last round.\n"
    assert signal.getsignal(number) is before


def test_ctrl_c_without_a_signal(attn_zoo, monkeypatch):
    def stop():
        raise KeyboardInterrupt

    act(monkeypatch, stop)
    status, _, error = attn_zoo("demo")
    assert status == 130 and "resumes" in error and "Traceback" not in error


def test_a_second_signal_ends_the_process_whatever_it_is_busy_with(attn_zoo, monkeypatch, left):
    ended = []

    def busy():
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert left.empty()
        signal.raise_signal(signal.SIGTERM)
        ended.append(left.get(timeout=20))

    act(monkeypatch, busy)
    status, _, error = attn_zoo("demo")
    assert ended == [130] and status == 130 and error.count("stopped") == 1


def test_an_interrupt_that_a_library_loses_ends_the_process(attn_zoo, monkeypatch, left):
    ended = []

    class Lost:
        def __del__(self):
            signal.raise_signal(signal.SIGTERM)

    def destroyed():
        lost = Lost()
        del lost
        ended.append(left.get(timeout=20))

    act(monkeypatch, destroyed)
    status, _, error = attn_zoo("demo")
    assert ended == [143] and status == 143 and "Traceback" not in error

    def swallowed():
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        ended.append(left.get(timeout=20))

    monkeypatch.setattr(process, "GRACE", 0.05)
    act(monkeypatch, swallowed)
    assert attn_zoo("demo")[0] == 143 and ended == [143, 143]


def test_what_ignores_a_signal_goes_on(attn_zoo, monkeypatch):
    """As under `nohup`."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        act(monkeypatch, lambda: signal.raise_signal(signal.SIGHUP))
        assert attn_zoo("demo") == (0, "", "")
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_process_is_stopped_twice_and_says_so_once():
    """The second signal comes while it cleans up."""
    script = """
import atexit, sys, time
from keras_attn_zoo import cli
def wait(text):
    print(text, flush=True)
    time.sleep(60)
def act(options):
    try:
        wait("begun")
    finally:
        wait("cleaning up")
cli._demo = act
atexit.register(wait, "leaving")
sys.argv = ["attn-zoo", "demo", "--backend", sys.argv[1]]
sys.exit(cli.main())
"""
    # JAX and PyTorch are not imported for this.
    backend = next(name for name in ("jax", "torch", "tensorflow") if importlib.util.find_spec(name) is not None)
    command = [sys.executable, "-c", script, backend]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        for text in ("begun\n", "cleaning up\n"):
            assert running.stdout.readline() == text
            running.send_signal(signal.SIGTERM)
        assert running.stdout.read() == ""
        error = running.stderr.read()
        assert running.wait() == 143
    assert error == "\nattn-zoo: stopped. A training run resumes at its last round.\n"


def test_a_process_that_leaves_says_nothing_more(monkeypatch, left):
    """An interrupt while Python exits would be a traceback; the system's own way of ending is quiet."""
    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(sys, "argv", ["attn-zoo", "demo"])
    try:
        act(monkeypatch, lambda: None)
        assert cli.main() == 0 and signal.getsignal(signal.SIGINT) == signal.SIG_DFL and left.empty()
        signal.signal(signal.SIGINT, before)
        act(monkeypatch, lambda: signal.raise_signal(signal.SIGINT))
        assert cli.main() == 130 and left.get_nowait() == 130
    finally:
        signal.signal(signal.SIGINT, before)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def test_closed_streams_are_one_line(attn_zoo, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "stdin", None)
    status, output, error = attn_zoo("translate", "model")
    assert (status, output) == (2, "") and "standard input is closed" in error and error.count("\n") == 1
    monkeypatch.setattr(sys, "stdout", None)
    status, _, error = attn_zoo("systems")
    assert status == 2 and "standard output is closed" in error and error.count("\n") == 1


def test_files_do_not_take_the_numbers_of_closed_streams(tmp_path):
    """Libraries write to descriptors 1 and 2: they would write into a file that was opened in their place."""
    script = """
import os
from keras_attn_zoo.process import prepare_streams
try:
    prepare_streams()
except ValueError as error:
    said = str(error)
with open("out", "w") as file:
    print(file.fileno() > 2, said, file=file)
"""
    shell = f"{shlex.quote(sys.executable)} -c {shlex.quote(script)} <&- >&- 2>&-"
    subprocess.run(["sh", "-c", shell], cwd=tmp_path, check=True, env={**os.environ, "PYTHONPATH": os.getcwd()})
    assert (tmp_path / "out").read_text().startswith("True standard output is closed")


def test_output_is_utf_8_whatever_the_locale(attn_zoo, monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    # Half of a pair of surrogates, as a damaged file of JSON has it.
    act(monkeypatch, lambda: print("schön \ud83d"))
    assert attn_zoo("demo")[0] == 0
    assert written.getvalue() == "schön \\ud83d\n".encode()


@pytest.mark.parametrize(
    ("argument", "text"),
    [
        ("sch\udcf6n", "argument 3 is not UTF-8: 'sch\\udcf6n'"),
        ("a\0b", "argument 3 contains a NUL character: 'a\\x00b'"),
    ],
)
def test_arguments_that_are_not_text(attn_zoo, argument, text):
    for command in ("translate", "evaluate"):
        status, output, error = attn_zoo(command, "model", argument)
        assert (status, output) == (2, "") and text in error and error.count("\n") == 1
    assert "argument 4, of --input, " in attn_zoo("translate", "model", "--input", argument)[2]


class ResourceExhaustedError(Exception):
    """As TensorFlow has it."""


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (MemoryError(), "out of memory (MemoryError)"),
        (RuntimeError("RESOURCE_EXHAUSTED: 8 GB"), "out of memory (RuntimeError: RESOURCE_EXHAUSTED: 8 GB)"),
        (ResourceExhaustedError("OOM when\nallocating"), "out of memory (ResourceExhaustedError: OOM when)"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "out of memory"),
        (ModuleNotFoundError("No module named 'nix'", name="nix"), "cannot import nix"),
        (OSError(errno.ELOOP, "Too many levels of symbolic links", "a\nb"), "cannot use a\\nb: Too many levels"),
        (OSError(errno.EBADF, "Bad file descriptor"), "cannot write: Bad file descriptor"),
        (UserError("no 'a\x1b[2J\nb'" + "c" * 9999), "no 'a\\x1b[2J\\nb'ccc"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_failures_of_the_environment_are_one_line(attn_zoo, monkeypatch, error, text):
    def fail():
        raise error

    act(monkeypatch, fail)
    status, output, said = attn_zoo("demo")
    assert (status, output) == (2, "") and text in said and said.count("\n") == 1 and len(said) < 5000


def test_errors_of_the_program_are_not_hidden(attn_zoo, monkeypatch):
    for error in (ValueError("a bug"), RecursionError("a bug"), ImportError("a bug", name="keras_attn_zoo.nix")):

        def fail(error=error):
            raise error

        act(monkeypatch, fail)
        with pytest.raises(type(error), match="a bug"):
            attn_zoo("demo")


def test_a_library_that_breaks_while_it_is_imported(attn_zoo, monkeypatch, tmp_path):
    (tmp_path / "broken_library.py").write_text("raise TypeError('built for another version')\n")
    monkeypatch.syspath_prepend(tmp_path)
    act(monkeypatch, lambda: importlib.import_module("broken_library"))
    status, _, error = attn_zoo("demo")
    assert status == 2 and error.count("\n") == 1
    assert "cannot import broken_library (TypeError: built for another version)" in error and "--backend" in error


def test_a_configuration_that_keras_cannot_use(tmp_path):
    (tmp_path / "keras.json").write_text('{"floatx": "float12"}')
    command = [sys.executable, "-m", "keras_attn_zoo.cli", "evaluate", str(tmp_path), "--stored"]
    environment = {**os.environ, "KERAS_HOME": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert f"Keras cannot use its configuration {tmp_path / 'keras.json'} (" in done.stderr


def test_options_are_written_out_and_given_once(attn_zoo, capsys):
    for arguments, text in (
        (("translate", "m", "--beam", 2), "unrecognized arguments: --beam 2"),
        (("translate", "m", "--beams", 2, "--beams=3"), "--beams was given 2 times"),
        (("train", "--train", "a", "--embedded", "--train", "b"), "--train was given 2 times"),
        (("translate", "m", "-x"), "-- goes before what begins with a dash"),
        (("evaluate", "a\nb", "--nix"), "unrecognized arguments: --nix"),
    ):
        with pytest.raises(SystemExit) as stopped:
            attn_zoo(*arguments)
        error = capsys.readouterr().err
        assert stopped.value.code == 2 and text in error and error.count("\n") == 1


def test_sentences_that_begin_with_a_dash(attn_zoo, trained, translations):
    """They are sentences, before and after options."""
    expected = attn_zoo("translate", trained, "--", "-x", SENTENCES[0])
    assert expected[0] == 0 and expected[1].splitlines()[1] == translations[0]
    assert attn_zoo("translate", trained, "--beams", 2, "--", "-x", SENTENCES[0]) == expected


def parsers():
    """Every command, and one recipe for all."""
    commands = [["demo"], ["systems"], ["train"], ["translate"], ["evaluate"], ["align"]]
    plots = [["plot", kind] for kind in ("attention", "curves", "top-k")]
    for words in ([], *commands, *plots):
        yield f"attn-zoo {' '.join(words)}".strip(), lambda words=words: cli.main([*words, "--help"])
    recipe = Recipe(title="title", entries={}, default=())
    text = "A first line that is rather long, and goes on for some more words than a narrow terminal has.\n\nRead so:\n"
    text += "- An item of a list, which has so many words that it\n  goes on in another line; they are filled.\n"
    yield "", lambda: run_recipe(recipe, text, ["--help"])


def test_help_fits_the_terminal_and_shows_examples(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for name, show in parsers():
        with pytest.raises(SystemExit) as stopped:
            show()
        assert stopped.value.code == 0
        text = capsys.readouterr().out
        # Commands are left as they can be copied.
        assert all(len(line) < 80 for line in text.splitlines() if not line.lstrip().startswith(("attn-zoo", "--")))
        if name.count(" "):
            assert f"\n  {name}" in text.split("examples:")[1]
    assert "- An item of a list, which has so many words that it goes on in another line;\n  they are" in text
    assert "\n  Data:\n    vocabulary_size=8000\n        subwords of each model" in text


def test_backend_choice(monkeypatch, tmp_path):
    backend = keras.config.backend()
    assert choose_backend(backend) == backend
    monkeypatch.setenv("KERAS_BACKEND", backend)
    assert choose_backend() == backend
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    script = "from keras_attn_zoo.backends import choose_backend; print(choose_backend())"

    def chosen(configured):
        (tmp_path / "keras.json").write_text(f'{{"backend": "{configured}"}}')
        environment = {key: value for key, value in os.environ.items() if key != "KERAS_BACKEND"}
        return subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        ).stdout.strip()

    assert chosen("torch") == "torch"
    monkeypatch.setenv("KERAS_BACKEND", "nonsense")
    with pytest.raises(UserError, match="unknown backend 'nonsense' in KERAS_BACKEND: choose one of"):
        choose_backend()
    # Keras writes "tensorflow" by itself, so that says nothing: the fastest installed is taken.
    assert chosen("tensorflow") == "jax"
    with pytest.raises(UserError, match="unknown backend 'mxnet': choose one of jax, tensorflow, torch"):
        choose_backend("mxnet")


def test_systems_with_their_parameters(attn_zoo):
    _, output, _ = attn_zoo("systems", "--vocabulary-size", 1000)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in output.splitlines()[2:]]
    assert [row[0] for row in rows] == list(SYSTEMS)
    counts = {row[0]: int(row[2].replace(",", "")) for row in rows}
    # Vaswani's base model with one matrix of embeddings, summed up by hand; d, f, h, n of its sizes.
    d, f, h, n = 512, 2048, 8, 256
    attention, norm = 4 * (d * d + d), 2 * d
    network = d * f + f + f * d + d
    encoder, decoder = attention + network + 2 * norm, 2 * attention + network + 3 * norm
    assert counts["transformer"] == 1000 * d + 6 * (encoder + decoder)
    # Zeng: no query and no key; for each side h matrices, and a transition with its bias and normalisation.
    side = 6 * attention // 2 - (h * n * n + n * n + n + 2 * n)
    assert counts["transformer"] - counts["ran-all"] == 2 * side == 5_122_560
    assert counts["transformer"] - counts["ran-e"] == counts["transformer"] - counts["ran-d"] == side
    # Rosendahl, equations 2, 6 and 10, in the six layers of the decoder: W_f of every head; two matrices; nothing.
    assert counts["previous-context"] - counts["transformer"] == 6 * h * (d // h) ** 2
    assert counts["expanded-key-value-2"] - counts["transformer"] == 6 * 2 * d * d
    assert counts["weight-subtraction"] == counts["transformer"]
    # Bahar: three maps more, and the matrix shared.
    assert counts["transformer-latent"] - counts["transformer"] == 3 * d * d


def test_options_that_would_mean_nothing_are_refused(attn_zoo, trained, tmp_path):
    picture = tmp_path / "p.png"
    train = ("train", "--system", "uniform", "--run", tmp_path / "r")
    text_alone = ("evaluate", "--hypotheses", "a", "--references", "a")
    for arguments, text in (
        ((*text_alone, "--baseline", trained), "nothing is translated: leave out --baseline"),
        ((*text_alone, "--stored", "--name", "x", "--reverse"), "leave out --reverse and --name and --stored"),
        (("evaluate", trained, "--stored", "--test", "a", "b", "--beams", 2), "leave out --beams and --test"),
        (("evaluate", trained, "--reverse"), "as the run read it: leave out --reverse"),
        ((*train, "--embedded", "--valid", "a"), "a text of its own: leave out --valid"),
        ((*train, "--valid", "a", "--test", "a", "--train", "a", "--split-seed", 3), "leave out --split-seed"),
        (("align", trained, "--bitext", "a", "--index-base", 1), "there is no --gold: leave out --index-base"),
        (("translate", trained, "--input", ""), "there is no file ''"),
        (("translate", trained, "--n-best", 2, "--scores", "rot haus"), "--n-best writes the scores by itself"),
        (
            ("plot", "attention", trained, "rot haus", "--target", "house", "--beams", 3, "--output", picture),
            "nothing is searched",
        ),
    ):
        status, output, error = attn_zoo(*arguments)
        assert (status, output) == (2, "") and text in error and error.count("\n") == 1
    assert not picture.exists()


def test_a_head_that_is_not_there_is_said_before_anything_is_decoded(attn_zoo, trained, tmp_path):
    (tmp_path / "a").write_text("rot haus\n")
    status, output, error = attn_zoo(
        "align", trained, "--source", tmp_path / "a", "--target", tmp_path / "a", "--heads", 1
    )
    assert (status, output) == (2, "") and "there is no head 1" in error and "aligned" not in error
