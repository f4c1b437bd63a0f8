import gzip

import numpy as np
import pytest

from keras_attn_zoo.cli.process import reason
from keras_attn_zoo.evaluation.alignment_scores import alignment_scores
from keras_attn_zoo.evaluation.alignments import (
    Alignment,
    format_alignment,
    parse_alignment,
    read_alignments,
    write_alignments,
)
from keras_attn_zoo.evaluation.attention_links import extract_alignment, merge_subwords
from keras_attn_zoo.support.errors import UserError


def test_scores_computed_by_hand():
    gold = [
        Alignment(sure={(0, 0), (1, 1)}, possible={(2, 1)}),
        Alignment(sure={(0, 0)}, possible={(1, 0), (1, 1)}),
    ]
    predicted = [{(0, 0), (2, 1), (3, 3)}, {(1, 0)}]
    # A = 4 links; in S: (0,0) = 1; in P: (0,0), (2,1), (1,0) = 3; S = 3.
    scores = alignment_scores(predicted, gold)
    assert scores.precision == pytest.approx(3 / 4)
    assert scores.recall == pytest.approx(1 / 3)
    assert scores.aer == pytest.approx(1 - (1 + 3) / (4 + 3))
    assert (scores.links, scores.sure, scores.possible, scores.sentences) == (4, 3, 6, 2)


def test_predicted_alignments_count_with_all_their_links():
    gold = [Alignment(sure={(0, 0)}, possible={(1, 1)})]
    assert alignment_scores([Alignment({(0, 0)}, {(1, 1)})], gold).aer == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("predicted", "gold", "expected"),
    [
        (set(), Alignment(sure={(0, 0)}), (1.0, 1.0, 0.0)),
        ({(0, 0), (1, 1)}, Alignment(possible={(0, 0)}), (0.5, 0.5, 1.0)),
        (set(), Alignment(), (0.0, 1.0, 1.0)),
    ],
)
def test_empty_links(predicted, gold, expected):
    scores = alignment_scores([predicted], [gold])
    assert (scores.aer, scores.precision, scores.recall) == pytest.approx(expected)


def test_scores_say_what_was_compared():
    text = str(alignment_scores([{(0, 0), (5, 5)}], [Alignment(sure={(0, 0)}, possible={(1, 1)})]))
    assert "AER 33.3 %" in text and "precision 50.0 %" in text and "recall 100.0 %" in text
    assert "1 sure and 2 possible" in text
    assert "(source, target)" in text and "index base" in text


def test_bad_input_of_scores():
    with pytest.raises(UserError, match="1 predicted but 2 gold"):
        alignment_scores([set()], [Alignment(), Alignment()])
    with pytest.raises(UserError, match="no alignments"):
        alignment_scores([], [])


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
    with pytest.raises(UserError, match=r"line 2: link 3-2 points past .*reverse=True") as error:
        read_alignments(path, index_base=1, reverse=True, lengths=lengths)
    # On the command line, in its own words.
    assert "(counted from 1, target first): check --index-base and --gold-reverse." in reason(error.value)
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
