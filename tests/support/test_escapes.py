"""Names and scores of a stranger: what each target makes of them."""

import csv
import dataclasses
import io
import json
import logging
import re
import shutil

import pytest

from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.studies.table import read_results, results_table
from keras_attn_zoo.studies.tabular import csv_text
from keras_attn_zoo.support.escapes import in_csv, in_html, in_latex, in_markdown, printable
from keras_attn_zoo.support.messages import shown
from keras_attn_zoo.viewing.canvas import wrapped
from keras_attn_zoo.viewing.page import Page
from tests.viewing import samples

# Each is what some target would do something for.
HOSTILE = [
    "\x1b[2J\x1b]0;title\x07",
    "a\nb\r\nc",
    "\u202edlrow\u2066",
    "\x9b31m",
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<!-- -->",
    "&lt;script&gt;",
    "![x](http://example.org/x.png)",
    "[x](javascript:alert(1))",
    "a | b | c",
    '=HYPERLINK("http://example.org")',
    "+1+1",
    "-1+1",
    "@SUM(A1)",
    "\t=1+1",
    r"\input{/etc/passwd}",
    "a & b % c # d $e$ {f} ~g ^h _i",
    "x\n\n- y",
    "| a |\n|---|\n# b",
    "\\<b>",
    "\\\\<b>",
    "\\|",
    "[x\\](y)",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_target_does_anything_for_a_text(text):
    for one in (printable(text), in_markdown(text), in_csv(text), in_latex(text), wrapped(text, 99)):
        assert one.isprintable(), one
    # Without what is escaped, nothing of it is left.
    bare = re.sub(r"\\.", "", in_markdown(text, cell=True))
    assert not re.search(r"\||<[A-Za-z/!?]|&\w+;|\]\(", bare), bare
    assert not re.search("[<>\"']", in_html(text))
    assert in_csv(text)[:1] not in ("=", "+", "-", "@")
    # All that is left of a command is one of ours, or of the text as it looks.
    commands = set(re.findall(r"\\[a-z]+", in_latex(text)))
    assert commands <= {rf"\{name}" for name in ("textbackslash", "textasciitilde", "textasciicircum", "textless")} | {
        r"\textgreater",
        r"\textbar",
        r"\allowbreak",
    }


@pytest.mark.parametrize(
    "text", ["a-b_c", "bahdanau", "Größe 3", "p < 0.05, a>b", "BLEU|nrefs:1", "R&D", "12.3**", "–"]
)
def test_plain_text_stays_as_it_is(text):
    assert printable(text) == text == in_csv(text) == in_markdown(text)


@pytest.mark.parametrize("value", ["-0.5", "+3", "-1,000", "-3 %", 7, -0.5, None])
def test_numbers_stay_numbers(value):
    assert in_csv(value) == value


def test_tables_of_a_strangers_run(trained, tmp_path, capsys):
    """His folder's name, and every string of his scores."""
    name = "<script>x\x1b[2J\n=1+1"
    run = RunFolder(shutil.copytree(trained, tmp_path / name))
    scores = json.loads(run.scores.read_text())

    def hostile(value):
        if isinstance(value, dict):
            return {key: hostile(one) for key, one in value.items()}
        return value + "".join(HOSTILE) if isinstance(value, str) else value

    run.scores.write_text(json.dumps({"test": hostile(scores["test"])}))
    table = results_table(read_results([run.path]))
    lines = table.markdown().splitlines()
    assert len(lines) == 3 + 1 + len(table.notes) and all(line.isprintable() for line in lines)
    assert "=HYPERLINK" in table.markdown() and not re.search(r"(?<!\\)<[A-Za-z/!]", table.markdown())
    latex = table.latex("t\x1b\n\n")
    assert latex.replace("\n", "").isprintable() and "\n\n" not in latex
    [heading, row] = csv.reader(io.StringIO(csv_text([{"=a": "=b", "c": -1.0}])))
    assert (heading, row) == (["'=a", "c"], ["'=b", "-1.0"])


def test_messages_are_one_line_each(capsys):
    with shown():
        logging.getLogger("keras_attn_zoo.x").info("in %s", "a\x1b[2J\nb")
    assert capsys.readouterr().err == "in a\\x1b[2J\\nb\n"


@pytest.mark.parametrize("text", ["\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "\U0001f469\u200d\U0001f4bb"])
def test_joiners_belong_to_words(text):
    assert printable(text) == text
    result = dataclasses.replace(samples.sentence(None), text=f"{text}\n{text}")
    assert f": {text} {text}</title>" in Page([samples.system()], [result], [[samples.result()]]).html()
