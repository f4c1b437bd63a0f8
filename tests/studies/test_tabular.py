"""Tables as Markdown and as LaTeX."""

import re
import shutil
import subprocess

import pytest

from keras_attn_zoo.studies.tabular import Table, markdown_table

TABLE = Table(
    ["system", "BLEU", "accuracy"],
    [["rnn_latent", "27.1 ± 0.3", "50 %"], ["a&b~{c}^\\#$", "30.0**", "–"]],
    ["p < 0.05", "bleu: nrefs:1|case:mixed"],
)


def test_markdown_table_has_one_width_a_column():
    table = markdown_table(["system", "BLEU"], [["a", "1.0"], ["longer name", "10.0"]])
    assert len({len(line) for line in table.splitlines()}) == 1
    assert table.splitlines()[1].endswith(":|")
    assert markdown_table(["a", "b"], [["x", "text"], ["y", "z"]], text=["b"]).splitlines()[1:] == [
        "|---|------|",
        "| x | text |",
        "| y | z    |",
    ]


def test_notes_stand_below_the_table():
    assert TABLE.markdown().endswith(" |\n\n- p < 0.05\n- bleu: nrefs:1|case:mixed")
    assert Table(["a"], [["1"]]).markdown() == "| a |\n|---|\n| 1 |"


def test_latex_escapes_what_it_reads_otherwise():
    lines = [line.strip() for line in TABLE.latex("50 % of _all_.").splitlines()]
    rows = lines[lines.index(r"\toprule") + 1 : lines.index(r"\bottomrule")]
    assert rows == [
        r"system & BLEU & accuracy \\",
        r"\midrule",
        r"rnn\_latent & 27.1 $\pm$ 0.3 & 50 \% \\",
        r"a\&b\textasciitilde{}\{c\}\textasciicircum{}\textbackslash{}\#\$ & 30.0$^{\ast\ast}$ & -- \\",
    ]
    assert r"\caption{50 \% of \_all\_. p \textless{} 0.05. bleu: nrefs:1\textbar{}\allowbreak{}case:mixed.}" in lines
    assert r"\begin{tabular}{lrr}" in lines


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex")
def test_latex_compiles(tmp_path):
    """Whatever a sentence holds: letters that the standard fonts lack are question marks."""
    signature = "bleu: nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"
    odd = ["„Straße“ → 100 % & Größe… «ł» ‚x‘ 中文 Ą", "[b] {c} | $d$ ~ # _ ^ \\ –—", "28.2 ± 0.1† [28.18 (+0.48)†]"]
    sentences = Table(["–Pos-E, En⇒De", "Ro→En", "BLEU"], [odd])
    wide = Table([f"a long heading {k}" for k in range(14)], [["[0, 1]", *["-"] * 13]], [signature] * 3)
    packages = [r"\usepackage{booktabs}", r"\usepackage{graphicx}"]
    parts = [r"\documentclass{article}", *packages, r"\begin{document}", TABLE.latex("Results"), wide.latex("Wide")]
    parts.append(sentences.latex("Sentences"))
    (tmp_path / "table.tex").write_text("\n".join([*parts, r"\end{document}"]), encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "table.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert not re.search(r"Overfull|Missing character", done.stdout)
