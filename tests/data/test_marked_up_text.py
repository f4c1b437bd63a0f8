"""SGM and XML of WMT are read as segments wherever text is taken, in the order of their documents."""

import gzip
import time

import pytest

from keras_attn_zoo import cli
from keras_attn_zoo.corpora.given_files import read_pairs, read_test
from keras_attn_zoo.data.marked_up_text import segments_in
from keras_attn_zoo.data.text_files import (
    ParallelFiles,
    TSVFile,
    read_bitext,
    read_lines,
    read_translations,
    read_windows,
)
from keras_attn_zoo.support.errors import UserError

SOURCE = """<srcset setid="newstest" srclang="any">
<doc sysid="ref" docid="b" genre="news" origlang="de">
<hl><seg id="1">Haus &amp; Hof</seg></hl>
<p>
<seg id="2">zwei
 Zeilen</seg>
</p>
</doc>
<doc docid='a'><seg id=1>R&D <br> 5 &lt; 6</seg></doc>
</srcset>
"""
# Documents in another order, in capitals, by two translators.
REFERENCES = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE mteval SYSTEM "ftp://example.org/mteval.dtd">
<!-- <seg> of two --><mteval>
<REFSET setid="newstest" srclang="de" trglang="en">
<DOC docid="a" sysid="A"><SEG id="1">R&D <br> 5 &lt; 6!</SEG></DOC>
<DOC docid="b" sysid="A"><SEG id="1">house &#38; yard</SEG><SEG id="2">two  lines</SEG></DOC>
<DOC docid="a" sysid="B"><SEG id="1">research</SEG></DOC>
<DOC docid="b" sysid="B"><SEG id="1">home and yard</SEG><SEG id="2"></SEG></DOC>
</REFSET></mteval>
"""
SOURCES = ["Haus & Hof", "zwei Zeilen", "R&D <br> 5 < 6"]
FIRST, SECOND = ["house & yard", "two  lines", "R&D <br> 5 < 6!"], ["home and yard", "", "research"]
XML = """<?xml version='1.0' encoding='utf-8'?>
<dataset id="wmt">
  <collection id="general">
    <doc origlang="de" id="b">
      <src lang="de"><p><seg id="1">Haus &amp; Hof</seg></p><p><seg id="2">zwei
 Zeilen</seg></p></src>
      <ref lang="en" translator="A"><p><seg id="1">house &amp; yard</seg></p><p><seg id="2">two  lines</seg></p></ref>
      <ref lang="en" translator="B"><p><seg id="1">home and yard</seg></p></ref>
      <hyp system="one"><p><seg id="1">a house</seg><seg id="2">lines</seg></p></hyp>
    </doc>
    <doc origlang="de" id="a">
      <src lang="de"><seg id="1">R&amp;D &lt;br> 5 &lt; 6</seg></src>
      <ref lang="en" translator="B"><seg id="1">R&amp;D &lt;br> 5 &lt; 6!</seg></ref>
      <hyp system="one"><seg id="1">R</seg></hyp>
    </doc>
    <doc origlang="de" id="suite"><src lang="de"><seg id="1">nur eine Probe</seg></src></doc>
  </collection>
</dataset>
"""


@pytest.fixture
def files(tmp_path):
    for name, content in {"src.sgm": SOURCE, "ref.sgm": REFERENCES, "wmt.xml": XML}.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    return [tmp_path / name for name in ("src.sgm", "ref.sgm", "wmt.xml")]


def test_source_and_references_of_sgm(files):
    source, references, _ = files
    assert list(read_lines(source)) == SOURCES
    assert list(read_windows(source, 2)) == [SOURCES[:2], SOURCES[2:]]
    assert read_translations(references, beside=source) == [FIRST, SECOND]
    normalised = [" ".join(one.split()) for one in FIRST]
    assert list(ParallelFiles(source, references)) == list(zip(SOURCES, normalised, strict=True))
    pairs, more = read_test((source, references))
    assert pairs == list(zip(SOURCES, FIRST, strict=True)) and more == [SECOND]
    assert read_bitext(source=source, target=references)[1] == (["zwei", "Zeilen"], ["two", "lines"])


def test_what_a_file_is_does_not_depend_on_its_name_or_compression(files, tmp_path):
    (tmp_path / "text").write_bytes(gzip.compress(files[0].read_bytes()))
    (tmp_path / "xml").write_bytes(b"\xef\xbb\xbf" + files[2].read_bytes())
    assert list(read_lines(tmp_path / "text")) == list(read_lines(tmp_path / "xml")) == SOURCES
    # A document alone, as some are published, is told by its name.
    (tmp_path / "one.sgm").write_text("<doc docid='a'>\n<seg id='1'>a house</seg>\n</doc>\n")
    assert list(read_lines(tmp_path / "one.sgm")) == ["a house"]


@pytest.mark.parametrize(
    "content",
    [
        '<doc docid="a" sysid="A">\n<seg id="1">a house</seg>\n<seg id="2">a dog</seg></doc>\n',
        "<DOC sysid='A' docid=a><p>\n<seg id=1>a house</seg><seg id=2>a dog</seg></p></DOC>",
        "<!-- by A -->\n<seg id='1'> a house </seg>\n<seg id='2'> a\ndog </seg>\n",
        "<mteval version='1'>\n<refset>\n<doc>\n<seg>a house</seg><seg>a dog</seg></doc></refset></mteval>",
        "<refset>\n<doc><seg>a house</seg><seg>a dog</seg></doc></refset>",
        "<?xml version='1.0'?>\n<doc>\n<seg>a house</seg>\n<seg>a dog</seg></doc>",
        "<?xml version='1.0'?><dataset><!-- A --><doc><ref><seg>a house</seg><seg>a dog</seg></ref></doc></dataset>",
    ],
)
@pytest.mark.parametrize("name", ["text.txt", "text.sgm"])
def test_parts_of_such_files_are_read_whatever_their_name(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    assert read_translations(tmp_path / name) == [["a house", "a dog"]]
    assert list(read_lines(tmp_path / name)) == ["a house", "a dog"]


def test_a_file_of_xml_has_both_sides(files, tmp_path):
    xml = files[2]
    # Each sentence has its first reference, whoever it is by; those without any are left out.
    more = ["home and yard", "", ""]
    assert list(read_lines(xml)) == SOURCES
    assert read_translations(xml) == [FIRST, more]
    assert read_translations(xml, "hypothesis") == [["a house", "lines", "R"]]
    assert read_pairs(xml, as_written=True) == list(TSVFile(xml, as_written=True))
    assert read_test(xml) == (list(zip(SOURCES, FIRST, strict=True)), [more])
    (tmp_path / "third").write_text("c\nd\ne\n")
    assert read_test((xml, tmp_path / "third"))[1] == [more, ["c", "d", "e"]]
    assert read_pairs(xml, reverse=True)[0] == ("house & yard", "Haus & Hof")


@pytest.mark.parametrize("ids", [("refid='A'", "refid='B'"), ("", "")])
def test_sets_of_one_file_are_several_references(tmp_path, ids):
    """NIST's: who has translated a set stands in its own tag."""
    sets = [
        f"<refset setid='t' srclang='de' trglang='en' {one}><doc docid='a'><seg id='1'>{text}</seg></doc></refset>"
        for one, text in zip(ids, ("a house", "one house"), strict=True)
    ]
    (tmp_path / "ref").write_text(f"<mteval>{''.join(sets)}</mteval>")
    assert read_translations(tmp_path / "ref") == [["a house"], ["one house"]]


def test_references_of_xml_without_a_translator(tmp_path):
    refs = "".join(f"<ref><seg id='1'>{one}</seg></ref>" for one in ("a house", "one house"))
    (tmp_path / "x").write_text(f"<dataset><doc id='1'><src><seg id='1'>ein Haus</seg></src>{refs}</doc></dataset>")
    assert read_translations(tmp_path / "x") == [["a house"], ["one house"]]


def test_evaluate_scores_segments(capsys, files, tmp_path):
    def evaluate(hypotheses, references):
        assert cli.main(["evaluate", "--hypotheses", str(hypotheses), "--references", str(references)]) == 0
        return capsys.readouterr().out

    hypotheses = REFERENCES.replace("REFSET", "TSTSET").split('<DOC docid="a" sysid="B">')[0]
    (tmp_path / "hyp.sgm").write_text(hypotheses)
    found = evaluate(tmp_path / "hyp.sgm", files[1])
    assert "BLEU|nrefs:var|" in found and "= 100.00" in found
    # Plain translations, in the order of the documents of the source.
    (tmp_path / "plain").write_text("".join(f"{line}\n" for line in FIRST))
    assert evaluate(tmp_path / "plain", files[2]) == found


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tmx", "<?xml version='1.0'?>\n<tmx version='1.4'>", r"a translation memory \(TMX\), which is not read"),
        ("a", "<tmx version='1.4'>", r"`python -m mtdata.tmx --langs SOURCE-TARGET --inp "),
        ("a.xml", "<html><body>x</body></html>", r"a web page \(HTML\), which is not read"),
        ("a.html", "<!doctype html><title>x</title>", r"a web page \(HTML\), which is not read"),
        ("a", "\ufeff<!-- x -->\n<!DOCTYPE HTML PUBLIC 'x'>\n<p>ein Haus\n", r"a web page \(HTML\)"),
        ("a.de", "<HTML lang='de'>\nein Haus\n", r"a web page \(HTML\)"),
        ("a.de", "<html>ein Haus</html>\n", r"a web page \(HTML\)"),
        ("a.de", "<?xml version='1.0'?>\n<html xmlns='x'><body/></html>", r"a web page \(HTML\)"),
        ("a.txt", "<?xml version='1.0'?>\n<xliff version='1.2'>", r"its element <xliff> is not of WMT"),
        ("a.txt", "<doc docid='1'>\nein Haus\n</doc>", r"has no segments"),
        ("a.xml", "<dataset><doc id='1'><src><seg id='1'>x</seg>", r"damaged XML"),
        ("a.xml", "<dataset></dataset>", r"has no segments"),
        (
            "a.xml",
            "<!DOCTYPE d [<!ENTITY a 'aaaa'><!ENTITY b '&a;&a;'>]><dataset><doc id='1'/></dataset>",
            r"declares entities",
        ),
        ("a.sgm", "<srcset setid='1'><doc docid='1'><seg id='1'>x<seg id='2'>y</seg>", r"a <seg> without </seg>"),
        ("a.sgm", "<srcset setid='1'><doc docid='1'><seg id='1'>x", r"a <seg> without </seg>"),
        ("a.sgm", b"<srcset setid='1'>\n<doc docid='1'><seg id='1'>\xff</seg>", r"line 2 is not UTF-8"),
        (
            "a.sgm",
            "<srcset setid='1'>\n<doc docid='1'><seg id='1'>a\0</seg>",
            r"line 2 contains a NUL character: remove it, or convert",
        ),
        ("a.sgm", "<srcset setid='1'><doc docid='1'><!-- <seg id='1'>x</seg>", r"a comment <!-- without -->"),
        ("a.sgm", "<srcset setid='1'><doc docid='1'><seg id='1'><![CDATA[x]]></seg>", r"a section <!\[CDATA\["),
        (
            "a.xml",
            "<dataset><doc id='1'><doc><src><seg id='1'>x</seg></src></doc></doc></dataset>",
            r"a <doc> in a <doc>",
        ),
        ("a.xml", "<dataset><doc><src><seg>x<seg>y</seg></seg></src></doc></dataset>", r"a <seg> in a <seg>"),
    ],
)
def test_other_markup_and_damaged_files_are_refused_in_a_line(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError, match=message) as caught:
        list(read_lines(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "<b>bold</b> words",
        "<seg> is a tag",
        "<seg id='1'> is one with a number, and <seg id='2'> another",
        "<seg>nothing but a segment</seg>",
        "<doc docid='1'> begins a document",
        "<doc id='12' title='Haus'>",
        "<mteval> is a root",
        "<srcset> and <refset> are sets",
        "<dataset> is another",
        "<html> is a tag",
        "<html5> is none",
        "<!doctype html> declares a page",
        "<?xml version='1.0'?> declares XML",
        "<?php",
        "<!-- a -->",
        "<",
        "< 5 % of <doc",
    ],
)
def test_text_with_tags_is_text(tmp_path, text):
    (tmp_path / "text").write_text(text + "\n")
    assert list(read_lines(tmp_path / "text")) == [text]


def test_files_of_other_texts_are_not_paired(files, tmp_path):
    other = tmp_path / "other.sgm"
    other.write_text(REFERENCES.replace('docid="b"', 'docid="c"'))
    with pytest.raises(UserError, match=r"but not segment 1 of the document 'b': give files of the same text"):
        list(ParallelFiles(files[0], other))
    with pytest.raises(UserError, match="has no reference: give two files"):
        list(TSVFile(files[0]))


def test_a_strangers_markup_does_not_take_for_ever(tmp_path):
    began = time.monotonic()
    for name, content in {
        "comments.sgm": "<!---->" * 1000 + "x",
        "open.sgm": "<srcset setid='1'>" + "</seg>" * 50_000 + "<seg>" * 50_000,
        "comment.sgm": "<srcset setid='1'>" + "<!--" * 100_000,
        "tags.sgm": "<srcset setid='1'><doc docid='1'>" + "<doc " * 200_000,
        "attributes.sgm": f"<srcset setid='1'><seg {'a' * 200_000}>x</seg>",
        "spaces.sgm": f"<srcset setid='1'><seg>x{' ' * 200_000}y</seg>",
        "digits.sgm": f"<srcset setid='1'><seg>&#{'9' * 5000};</seg>",
    }.items():
        (tmp_path / name).write_text(content)
        damaged = name not in ("comments.sgm", "attributes.sgm", "spaces.sgm", "digits.sgm")
        with pytest.raises(UserError) if damaged else pytest.MonkeyPatch.context():
            list(read_lines(tmp_path / name))
    assert time.monotonic() - began < 10


def test_a_file_that_is_too_large_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(f"{segments_in.__module__}._LARGEST", 20)
    (tmp_path / "a.sgm").write_text(SOURCE)
    with pytest.raises(UserError, match="more than 20 bytes of SGM or XML"):
        list(read_lines(tmp_path / "a.sgm"))
