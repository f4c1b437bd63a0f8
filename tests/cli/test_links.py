"""`attn-zoo links`."""

import pytest

from keras_attn_zoo.evaluation.alignments import FORMATS, Alignment, format_alignments, read_alignments
from keras_attn_zoo.evaluation.symmetrization import SYMMETRIZATIONS, symmetrize

FORWARD = [{(0, 0), (1, 1), (1, 2)}, {(0, 0)}, set()]
REVERSE = [{(0, 0), (1, 1), (2, 2)}, set(), {(1, 0)}]


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    """Links of both directions, the second as an aligner of that direction writes them; gold links and the text."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "forward").write_text(format_alignments(FORWARD))
    (tmp_path / "reverse").write_text(format_alignments(REVERSE, reverse=True))
    gold = [Alignment({(0, 0)}, {(1, 1)}), Alignment({(0, 0)}), Alignment()]
    (tmp_path / "gold").write_text(format_alignments(gold, format="naacl"))
    (tmp_path / "bitext").write_text("a b c ||| x y z\nd ||| w\ne f ||| v\n")


@pytest.mark.parametrize("first", FORMATS)
@pytest.mark.parametrize("second", FORMATS)
def test_every_format_becomes_every_other(attn_zoo, tmp_path, first, second):
    text = ("--bitext", "bitext")
    assert attn_zoo("links", "forward", "--format", first, "--output", "one", *text)[0] == 0
    assert attn_zoo("links", "one", "--input-format", first, "--format", second, "--output", "other", *text)[0] == 0
    lengths = [(3, 3), (1, 1), (2, 1)]
    assert read_alignments("other", lengths=lengths, format=second) == [Alignment(one) for one in FORWARD]


def test_the_base_of_what_is_written(attn_zoo):
    assert attn_zoo("links", "forward", "--output-base", "1")[1] == format_alignments(FORWARD, index_base=1)
    status, _, error = attn_zoo("links", "forward", "--format", "naacl", "--output-base", "0")
    assert status == 2 and "files of the format naacl count from 1, not 0" in error


@pytest.mark.parametrize("method", SYMMETRIZATIONS)
def test_two_directions_become_one(attn_zoo, method):
    status, output, _ = attn_zoo("links", "forward", "reverse", "--target-first", "second", "--symmetrize", method)
    expected = [symmetrize(one, other, method) for one, other in zip(FORWARD, REVERSE, strict=True)]
    assert (status, output) == (0, format_alignments(expected))


def test_links_are_scored(attn_zoo):
    status, output, _ = attn_zoo("links", "forward", "--gold", "gold", "--gold-format", "naacl", "--bitext", "bitext")
    # Of 4 links, 2 are sure and 1 is possible; 2 are sure in all.
    assert status == 0 and output.startswith("AER 16.7 %, precision 75.0 %, recall 100.0 %: 4 links")
    turned = (
        "links",
        "forward",
        "--target-first",
        "first",
        "--gold",
        "gold",
        "--gold-format",
        "naacl",
        "--gold-reverse",
    )
    assert attn_zoo(*turned, "--bitext", "bitext", "--reverse")[1] == output


def test_a_base_that_nothing_tells_is_said(attn_zoo, tmp_path):
    (tmp_path / "one").write_text("1-1\n1-1\n1-1\n")
    doubt = "one: read as counted from 0, although no position is 0: if words are counted from 1, give"
    told = f"{doubt} --input-base 1"
    assert told in attn_zoo("links", "one")[2]
    for options in (("--input-base", 0), ("--input-base", 1), ("--input-format", "talp")):
        assert attn_zoo("links", "one", *options)[2] == ""
    assert attn_zoo("links", "forward")[2] == ""
    (tmp_path / "bitext").write_text("a b ||| c d\n" * 3)
    (tmp_path / "zero").write_text("0-0\n" * 3)
    told = "zero has a position 0 and one has none: if both count from 0, give --input-base 0"
    assert told in attn_zoo("links", "one", "zero", "--symmetrize", "union")[2]
    assert attn_zoo("links", "one", "zero", "--symmetrize", "union", "--input-base", 0)[0] == 0
    error = attn_zoo("links", "zero", "--gold", "one")[2]
    assert (
        "one: read as counted from 0, although no position is 0: if words are counted from 1, give --index-base 1"
        in error
    )


@pytest.mark.parametrize(
    ("said", "arguments"),
    [
        ("received 2 files of links", ["forward", "reverse"]),
        ("received 1 file of links", ["forward", "--symmetrize", "union"]),
        ("there is one file of links, which is the first", ["forward", "--target-first", "both"]),
        ("leave out --index-base", ["forward", "--index-base", "1"]),
        ("there is no text: leave out --reverse", ["forward", "--reverse"]),
        ("give --bitext, or --source and --target", ["forward", "--format", "giza"]),
        ("give --bitext, or --source and --target", ["forward", "--source", "bitext"]),
        ("naacl count from 1, not 0", ["forward", "--input-format", "naacl", "--input-base", "0"]),
        ("forward has 3 sentence pairs but gold has 2", ["forward", "--gold", "gold", "--gold-format", "naacl"]),
        ("line 1: link 2-3 points past", ["reverse", "--bitext", "bitext"]),
        ("there is no file nowhere", ["forward", "nowhere", "--symmetrize", "union"]),
        ("line 1: '0' is not a link", ["naacl"]),
    ],
)
def test_what_is_wrong_with_a_command_line_is_said(refused, tmp_path, said, arguments):
    (tmp_path / "reverse").write_text("2-1 2-3\n\n\n")
    (tmp_path / "naacl").write_text("0 0 0\n")
    refused(said, "links", *arguments)
