import gzip

import numpy as np
import pytest

from keras_attn_zoo.evaluation.alignments import (
    FORMATS,
    Alignment,
    format_alignment,
    format_alignments,
    parse_alignment,
    read_alignments,
    write_alignments,
)
from keras_attn_zoo.evaluation.attention_links import extract_alignment, merge_subwords
from keras_attn_zoo.support.errors import UserError


def test_reading_one_based_possible_and_reversed_links(tmp_path):
    path = tmp_path / "gold.talp"
    path.write_text("2-1 3p4 \n\n1p1 1-1\n")
    first, empty, both = read_alignments(path, index_base=1)
    assert first.sure == {(1, 0)} and first.possible == {(1, 0), (2, 3)}
    assert empty == Alignment()
    assert both.sure == both.possible == {(0, 0)}
    assert read_alignments(path, index_base=1, reverse=True)[0].possible == {(0, 1), (3, 2)}
    assert read_alignments(path)[0].sure == {(2, 1)}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("index_base", [0, 1])
def test_round_trip(tmp_path, index_base, reverse):
    rng = np.random.default_rng(3)
    alignments = [
        Alignment({tuple(link) for link in rng.integers(0, 9, (4, 2)).tolist()}, {(11, k), (k, 12)}) for k in range(5)
    ]
    alignments.append(Alignment())
    write_alignments(tmp_path / "a.txt", alignments, index_base, reverse)
    assert read_alignments(tmp_path / "a.txt", index_base, reverse) == alignments


def test_text_form():
    alignment = Alignment(sure={(10, 0), (2, 3)}, possible={(2, 1)})
    assert format_alignment(alignment) == "2p1 2-3 10-0"
    assert format_alignment(alignment, index_base=1, reverse=True) == "2p3 4-3 1-11"
    assert format_alignment({(1, 0)}) == "1-0"
    assert format_alignment(Alignment()) == ""


@pytest.mark.parametrize("token", ["1-", "a-b", "1-2-3", "1:2", "-1-2", "1--2", "1P2", "1.0-2"])
def test_bad_tokens_are_named_with_file_and_line(tmp_path, token):
    path = tmp_path / "bad.txt"
    path.write_text(f"0-0\n0-1 {token} 3-3\n")
    with pytest.raises(UserError) as error:
        read_alignments(path)
    assert str(error.value).startswith(f"{path}, line 2: '{token}' is not a link")


def test_position_zero_in_a_file_that_counts_from_one(tmp_path):
    path = tmp_path / "zero.txt"
    path.write_text("1-1\n2-2\n3p0\n")
    with pytest.raises(UserError, match=r"zero.txt, line 3: '3p0' has position 0"):
        read_alignments(path, index_base=1)


def test_lengths_find_a_wrong_index_base_or_direction(tmp_path):
    path = tmp_path / "gold.talp"
    path.write_text("1-1\n2-1 3-2\n")
    lengths = [(1, 1), (3, 2)]
    assert len(read_alignments(path, index_base=1, lengths=lengths)) == 2
    with pytest.raises(UserError, match=r"line 1: link 1-1 points past .* 1 source and 1 target"):
        read_alignments(path, index_base=0, lengths=lengths)
    with pytest.raises(UserError, match=r"line 2: link 3-2 points past .*\(counted from 1, target first\): check"):
        read_alignments(path, index_base=1, reverse=True, lengths=lengths)
    with pytest.raises(UserError, match="2 lines, but there are 1 sentence pairs"):
        read_alignments(path, index_base=1, lengths=lengths[:1])


def test_links_are_read_as_other_text_is(tmp_path):
    """Compressed, with line ends of Windows; what cannot be read is named."""
    (tmp_path / "gold").write_bytes(gzip.compress("\ufeff1-2\r\n\r\n2p1".encode()))
    assert read_alignments(tmp_path / "gold") == [Alignment({(1, 2)}), Alignment(), Alignment((), {(2, 1)})]
    with pytest.raises(UserError, match=r"there is no file .*missing"):
        read_alignments(tmp_path / "missing")
    with pytest.raises(UserError, match="index_base must be 0 or 1; received 2"):
        parse_alignment("1-1", index_base=2)


PAIRS = [(["le", "chat", "noir"], ["the", "black", "cat"]), (["oui"], ["yes"]), (["a", "b"], ["c", "d"])]
SURE = [Alignment({(0, 0), (1, 2), (2, 1)}), Alignment(), Alignment({(1, 0), (0, 0)})]
MIXED = [Alignment({(0, 0)}, {(1, 2)}), Alignment(), Alignment((), {(1, 0)})]
# The links of MIXED; those of SURE where there are no possible ones.
TEXTS = {
    "pharaoh": "0-0 1p2\n\n1p0\n",
    "talp": "1-1 2p3\n\n2p1\n",
    "tsv": "1\t0-0 1p2\n2\t\n3\t1p0\n",
    "naacl": "1 1 1 S\n1 2 3 P\n3 2 1 P\n",
    "giza": "# Sentence pair (1) source length 3 target length 3 alignment score : 1\nthe black cat\n"
    "NULL ({ }) le ({ 1 }) chat ({ 3 }) noir ({ 2 })\n"
    "# Sentence pair (2) source length 1 target length 1 alignment score : 1\nyes\nNULL ({ }) oui ({ })\n"
    "# Sentence pair (3) source length 2 target length 2 alignment score : 1\nc d\nNULL ({ }) a ({ 1 }) b ({ 1 })\n",
}


@pytest.mark.parametrize("name", FORMATS)
def test_formats_are_written_as_they_are_known_and_read_again(tmp_path, name):
    links = SURE if name == "giza" else MIXED
    assert format_alignments(links, format=name, pairs=PAIRS) == TEXTS[name]
    for reverse in (False, True):
        write_alignments(tmp_path / "links", links, reverse=reverse, format=name, pairs=PAIRS)
        lengths = [(len(source), len(target)) for source, target in PAIRS]
        assert read_alignments(tmp_path / "links", None, reverse, lengths, name) == links
        turned = read_alignments(tmp_path / "links", None, not reverse, format=name)
        assert turned == [one.reverse() for one in links]


def test_what_other_programs_write_is_read(tmp_path):
    """Numbers with zeros in front, confidences, words without links; ids; GIZA's empty word and braces as words."""
    texts = {
        "naacl": "0003 2 1 P 0.7\n0001 1 1\n\n0001 0 2 S\n0001 2 2 S 1e-3\n",
        "tsv": "doc-1\t0-1\n2-2\t\n",
        "giza": "# Sentence pair (1) source length 2 target length 3 alignment score : 3.1e-05\nx y z\n"
        "NULL ({ 2 }) ({ ({ 1 3 }) }) ({ }) \n",
    }
    found = {}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        found[name] = read_alignments(tmp_path / name, format=name)
    assert found["naacl"] == [Alignment({(0, 0), (1, 1)}), Alignment(), Alignment((), {(1, 0)})]
    assert found["tsv"] == [Alignment({(0, 1)}), Alignment()]
    assert found["giza"] == [Alignment({(0, 0), (0, 2)})]
    assert len(read_alignments(tmp_path / "naacl", lengths=[(2, 2)] * 5, format="naacl")) == 5
    (tmp_path / "tsv").write_text("1\t1-1\n")
    assert read_alignments(tmp_path / "tsv", index_base=1, format="tsv") == [Alignment({(0, 0)})]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("tsv", "0-0\n", "line 1: there is no tab"),
        (
            "pharaoh",
            "7\t0-0\n",
            "line 1: '7' is not a link: .* choose the format: one of pharaoh, talp, naacl, giza, tsv",
        ),
        ("talp", "1-1 0p1\n", "line 1: '0p1' has position 0"),
        ("naacl", "1 1 1 S\n1 1-1\n", "line 2: '1 1-1' is not a link of this format: write ID SOURCE TARGET"),
        ("naacl", "0 1 1\n", "line 1: there is no sentence pair 0: count from 1 to 2"),
        ("naacl", "1 1 1\n3 1 1\n", "line 2: there is no sentence pair 3: count from 1 to 2"),
        ("naacl", "2 1 2\n", "sentence pair 2: link 1-2 points past the last word of 1 source and 1 target"),
        ("giza", "1-1\n", r"line 1: expected '# Sentence pair \(1\)"),
        ("giza", "# Sentence pair (1) source\nx\n", r"line 3: expected 'NULL \(\{ \}\)"),
        ("giza", "# Sentence pair (1) source\nx\nNULL ({ }) y ({ 1 )\n", r"line 3: expected 'NULL \(\{ \}\)"),
        ("giza", "# Sentence pair (1) source\nx\nNULL ({ }) y ({ 0 })\n", "line 3: a word has position 0"),
        ("pharaoh", "0-0\n", "has 1 lines, but there are 2 sentence pairs"),
    ],
)
def test_what_is_not_in_a_format_is_named_with_its_place(tmp_path, name, text, said):
    (tmp_path / "links").write_text(text)
    with pytest.raises(UserError, match=said):
        read_alignments(tmp_path / "links", lengths=[(1, 1), (1, 1)], format=name)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"format": "pharao"}, "no format 'pharao' of alignments: did you mean pharaoh"),
        ({"format": "naacl", "index_base": 0}, "format naacl count from 1, not 0: leave out the base"),
        ({"format": "giza"}, "the format giza holds the words too"),
        ({"format": "giza", "pairs": PAIRS[:1]}, "the format giza has no links that are merely possible"),
        ({"pairs": PAIRS}, "1 alignments but 3 sentence pairs"),
    ],
)
def test_links_that_a_format_cannot_hold(options, said):
    with pytest.raises(UserError, match=said):
        format_alignments([Alignment({(0, 0)}, {(1, 2)})], **options)


def test_links_past_the_last_word_are_not_written():
    with pytest.raises(UserError, match="sentence pair 1: the link 2-3 points past the last word"):
        format_alignments([{(1, 2)}], format="giza", pairs=[(["a", "b"], ["c", "d"])])


def test_leaving_words_out():
    alignment = Alignment({(0, 0), (4, 3)}, {(1, 3), (4, 1), (2, 2)})
    assert alignment.without([4], [3]) == Alignment({(0, 0)}, {(2, 2)})
    assert alignment.without() == alignment


@pytest.mark.parametrize("source_reduction", ["mean", "sum"])
def test_merging_equals_loops_over_pieces(source_reduction):
    rng = np.random.default_rng(0)
    attention = rng.dirichlet(np.ones(7), size=5)
    source_groups = [0, 1, 1, 3, 3, 3, -1]
    target_groups = [0, 0, 1, -1, 2]
    merged = merge_subwords(attention, source_groups, target_groups, source_reduction)
    assert merged.shape == (3, 4)
    for w in range(3):
        for v in range(4):
            rows = [i for i, group in enumerate(target_groups) if group == w]
            columns = [j for j, group in enumerate(source_groups) if group == v]
            total = sum(attention[i, j] for i in rows for j in columns)
            count = len(rows) * (len(columns) if source_reduction == "mean" else 1)
            assert merged[w, v] == pytest.approx(total / count if columns else 0.0, abs=1e-12)


def test_merging_may_drop_everything():
    assert merge_subwords([[0.5, 0.5]], [-1, -1], [0]).shape == (1, 0)


@pytest.mark.parametrize(
    ("attention", "source", "target", "message"),
    [
        ([[0.5, 0.5]], [0], [0], r"source groups of shape \(1,\).* 2 source pieces"),
        ([[0.5, 0.5]], [0, 0], [0, 1], r"target groups of shape \(2,\).* 1 target pieces"),
        ([[0.5, 0.5]], [0.0, 1.0], [0], "integer"),
        ([[0.5, 0.5]], [0, -2], [0], "hold -2"),
        ([[0.5, np.nan]], [0, 1], [0], "NaN"),
        ([0.5, 0.5], [0, 1], [0], r"shape \(2,\)"),
    ],
)
def test_bad_input_of_merging(attention, source, target, message):
    with pytest.raises(UserError, match=message):
        merge_subwords(attention, source, target)
    with pytest.raises(UserError, match="source_reduction is 'max'"):
        merge_subwords([[1.0]], [0], [0], source_reduction="max")


WEIGHTS = np.array([[0.1, 0.2, 0.7], [0.4, 0.4, 0.2], [0.0, 0.3, 0.7]])


def test_argmax_links_each_target_word_to_its_best_source_word():
    links = extract_alignment(WEIGHTS)
    assert links == {(2, 0), (0, 1), (2, 2)}
    assert all(type(position) is int for link in links for position in link)


def test_ignored_source_words_yield_to_the_next_best():
    assert extract_alignment(WEIGHTS, ignore_source=[2]) == {(1, 0), (0, 1), (1, 2)}
    assert extract_alignment(WEIGHTS, ignore_source=[2], ignore_target=[0, 2]) == {(0, 1)}
    assert extract_alignment(WEIGHTS, ignore_source=[0, 1, 2]) == set()


def test_threshold_gives_any_number_of_links():
    assert extract_alignment(WEIGHTS, "threshold", threshold=0.4) == {(2, 0), (0, 1), (1, 1), (2, 2)}
    assert extract_alignment(WEIGHTS, "threshold", threshold=0.4, ignore_source=[2]) == {(0, 1), (1, 1)}
    assert extract_alignment(WEIGHTS, "threshold", threshold=0.8) == set()


def test_words_without_weight_get_no_link():
    assert extract_alignment([[0.0, 0.0], [0.0, 1.0]]) == {(1, 1)}
    assert extract_alignment([[0.0, 0.0]], "threshold", threshold=0.0) == set()
    assert extract_alignment(np.zeros((2, 0))) == set()


@pytest.mark.parametrize(
    ("weights", "options", "message"),
    [
        (WEIGHTS[None], {}, r"shape \(1, 3, 3\)"),
        (WEIGHTS * np.nan, {}, "NaN"),
        (WEIGHTS, {"method": "viterbi"}, "viterbi.*argmax"),
        (WEIGHTS, {"method": "threshold"}, "threshold=None"),
        (WEIGHTS, {"threshold": 0.5}, "argmax.*threshold=0.5"),
        (WEIGHTS, {"ignore_source": [3]}, "source position 3 is outside the 3"),
        (WEIGHTS, {"ignore_target": [-1]}, "target position -1"),
    ],
)
def test_bad_input_of_extraction(weights, options, message):
    with pytest.raises(UserError, match=message):
        extract_alignment(weights, **options)
