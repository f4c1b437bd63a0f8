"""What is scored is what stands in the files: scores are those of each scorer's own command line, to the digit."""

import csv
import json
import re
import subprocess
import sys

import numpy as np
import pytest
from sacrebleu import metrics

from keras_attn_zoo.data.text_files import read_translations
from keras_attn_zoo.evaluation.text_scores import ALL_METRICS, compare_systems, score_text, sentence_bleu
from tests.evaluation.test_multi_bleu import multi_bleu
from tests.hard_text import HYPOTHESES, REFERENCES, drawn, write

pytestmark = pytest.mark.long

MORE = drawn(60)
ROUGE = {"rouge1": "rouge1", "rouge2": "rouge2", "rougel": "rougeL", "rougelsum": "rougeLsum"}


@pytest.fixture
def files(tmp_path):
    """Translations with line ends of Windows, references, others."""
    hypotheses, references = HYPOTHESES + MORE[0], REFERENCES + MORE[1]
    return (
        write(tmp_path / "ours.txt", hypotheses, end="\r\n"),
        write(tmp_path / "a.txt", references),
        write(tmp_path / "b.txt", [f"{one}  indeed " for one in reversed(references)]),
    )


def run(*command):
    found = subprocess.run([sys.executable, "-m", *map(str, command)], capture_output=True, check=True)
    return found.stdout.decode()


def sacrebleu(hypotheses, references, *options):
    """Scores and signatures of the command line, by the name of the metric."""
    line = ("sacrebleu", *references, "-i", hypotheses, "-m", "bleu", "chrf", "ter", "-w", "10", *options)
    return {one["name"]: (one["score"], one["signature"]) for one in json.loads(run(*line))}


def ours(hypotheses, references, metrics=("bleu", "chrf", "ter"), **options):
    [lines] = read_translations(hypotheses, "hypothesis")
    first, *more = (one for file in references for one in read_translations(file))
    return score_text(lines, first, metrics, more_references=more, **options)


def by_name(scores):
    # As sacrebleu writes it, with names in place of the letters that its command line prints by default.
    return {one.name: (round(one.score, 10), one.signature) for one in scores.metrics.values()}


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(("tokenize", "lowercase"), [("13a", False), ("intl", True), ("zh", False), ("char", False)])
def test_bleu_chrf_and_ter_are_those_of_sacrebleu(files, count, tokenize, lowercase):
    references = files[1 : count + 1]
    case = ["--lowercase", "--chrf-lowercase"] if lowercase else ["--ter-case-sensitive"]
    wanted = sacrebleu(files[0], references, "--tokenize", tokenize, *case)
    assert by_name(ours(files[0], references, tokenize=tokenize, lowercase=lowercase)) == wanted


def test_normalised_ter_is_that_of_sacrebleu(files):
    [found] = by_name(ours(files[0], files[1:2], "ter_normalized")).values()
    wanted = sacrebleu(files[0], files[1:2], "--ter-case-sensitive", "--ter-normalized", "--ter-asian-support")["TER"]
    assert found == wanted


def test_the_command_prints_what_sacrebleu_prints(files):
    """Every line, with its signature and n-gram precisions."""
    printed = evaluate(files[0], *files[1:]).stdout.splitlines()
    line = ("sacrebleu", *files[1:], "-i", files[0], "-w", "2", "-f", "text", "--ter-case-sensitive", "-m")
    assert printed == [run(*line, metric).strip() for metric in ("bleu", "chrf", "ter")]
    assert len(printed) == 3


def evaluate(hypotheses, *references):
    line = [sys.executable, "-m", "keras_attn_zoo", "evaluate", "--hypotheses", hypotheses, "--references", *references]
    return subprocess.run(line, capture_output=True, check=True, text=True, encoding="utf-8")


def test_what_a_reader_would_make_equal_is_not(tmp_path):
    composed = write(tmp_path / "composed", ["schöne Häuser fielen über Nacht um"])
    taken_apart = write(tmp_path / "apart", ["scho\u0308ne Ha\u0308user u\u0308berfielen Ma\u0308nner"])
    assert ours(taken_apart, [composed])["bleu"].score == 0
    bengali = write(tmp_path / "bengali", ["আমি বা\u09dcি যাই"])
    as_nfc = write(tmp_path / "nfc", ["আমি বা\u09a1\u09bcি যাই"])
    assert by_name(ours(bengali, [as_nfc])) == sacrebleu(bengali, [as_nfc], "--ter-case-sensitive")
    assert ours(bengali, [as_nfc])["chrf"].score < 90


def test_a_byte_order_mark_is_part_of_the_first_word_and_told(tmp_path):
    marked = write(tmp_path / "marked", ["\ufeffa red house stands here"])
    plain = write(tmp_path / "plain", ["a red house stands here"])
    assert by_name(ours(marked, [plain])) == sacrebleu(marked, [plain], "--ter-case-sensitive")
    found = evaluate(marked, plain)
    assert "= 100.00" not in found.stdout
    assert found.stderr.count("\n") == 1 and "marked begins with a byte order mark" in found.stderr


def test_a_blank_line_of_a_further_file_is_no_reference(tmp_path):
    """As `None` in sacrebleu's Python interface; its command line counts an empty reference."""
    hypotheses = ["the cat", "a dog runs in the park now"]
    first = ["the cat sat on a mat today", "the dog runs in a park now"]
    for blank in ("", "  "):
        files = [
            write(tmp_path / "ours", hypotheses),
            write(tmp_path / "a", first),
            write(tmp_path / "b", [blank, "a dog"]),
        ]
        found = ours(files[0], files[1:])
        for name, metric in (
            ("bleu", metrics.BLEU()),
            ("chrf", metrics.CHRF()),
            ("ter", metrics.TER(case_sensitive=True)),
        ):
            score = metric.corpus_score(hypotheses, [first, [None, "a dog"]])
            signature = str(metric.get_signature())
            assert "nrefs:var|" in signature
            assert (found[name].score, found[name].signature) == (score.score, signature)
        counted = sacrebleu(files[0], files[1:], "--ter-case-sensitive")
        assert all("nrefs:2|" in signature for _, signature in counted.values())
        assert found["bleu"].score < counted["BLEU"][0] - 1 and abs(found["ter"].score - counted["TER"][0]) > 1


def one_line_each(file):
    """The lines of a file whose carriage returns, which end a line for many programs, are blanks."""
    return file.read_bytes().replace(b"\r\n", b"\n").replace(b"\r", b" ")


def test_multi_bleu_is_that_of_words_split_by_sacremoses(files):
    def split(file):
        words = subprocess.run(
            [sys.executable, "-m", "sacremoses", "-l", "de", "tokenize"],
            input=one_line_each(file),
            capture_output=True,
            check=True,
        )
        return [one.split(" ") if one else [] for one in words.stdout.decode().split("\n")[:-1]]

    found = ours(files[0], files[1:], "bleu", tokenize="moses-de")["bleu"].score
    assert found == pytest.approx(multi_bleu(*map(split, files)), abs=1e-9)


def test_rouge_is_that_of_its_command_line(files, tmp_path):
    """It writes each sentence's score with six digits. Sentences of a summary stand on lines of their own."""
    for file in files[:2]:
        lines = one_line_each(file).decode().split("\n")[:-1]
        write(file, [f"{line} It is a house. Is it? Yes!" for line in lines])
    texts = [read_translations(file)[0] for file in files[:2]]
    for name, lines in zip(("hypotheses", "targets"), texts, strict=True):
        summaries = [re.sub(r"(?<=[.!?])\s+", "\n", one) for one in lines]
        (tmp_path / name).write_bytes("".join(f"{one}@@@" for one in summaries).encode())
    run(
        "rouge_score.rouge",
        f"--target_filepattern={tmp_path / 'targets'}",
        f"--prediction_filepattern={tmp_path / 'hypotheses'}",
        f"--output_filename={tmp_path / 'scores.csv'}",
        "--use_stemmer",
        "--noaggregate",
        "--delimiter=@@@",
        f"--rouge_types={','.join(ROUGE.values())}",
    )
    rows = list(csv.DictReader((tmp_path / "scores.csv").open()))
    found = ours(files[0], files[1:2], tuple(ROUGE))
    assert len(rows) == len(texts[0]) and 0 < found["rouge2"].score < 100
    for name, own in ROUGE.items():
        assert found[name].score == pytest.approx(100 * np.mean([float(row[f"{own}-F"]) for row in rows]), abs=1e-4)


def test_every_metric_is_compared():
    """METEOR, which has no command line, is counted by hand elsewhere."""
    assert set(ALL_METRICS) == {"bleu", "chrf", "ter", "ter_normalized", *ROUGE, "meteor"}


def test_significance_and_scores_of_sentences_are_those_of_the_same_text(files):
    [first], [second], [references] = map(read_translations, (files[0], files[2], files[1]))
    found = compare_systems("a", {"a": first, "b": second}, references, samples=10)
    for name, system in (("a", files[0]), ("b", files[2])):
        wanted = sacrebleu(system, files[1:2], "--ter-case-sensitive")
        for metric, title in (("bleu", "BLEU"), ("chrf", "chrF2"), ("ter", "TER")):
            assert round(found[name][metric].score, 10) == wanted[title][0]
    sentence = run("sacrebleu", files[1], "-i", files[0], "--sentence-level", "-b", "-w", "10").split()
    assert [round(sentence_bleu(*pair), 10) for pair in zip(first, references, strict=True)] == list(
        map(float, sentence)
    )
