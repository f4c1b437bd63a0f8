import pytest

from keras_attn_zoo.evaluation.alignment_scores import alignment_scores
from keras_attn_zoo.evaluation.alignments import Alignment
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
