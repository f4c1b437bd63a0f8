"""Truecasing against what was worked out by hand, and text through truecased subwords."""

import pytest

from keras_attn_zoo.data.subwords import Subwords, train_subwords
from keras_attn_zoo.data.truecasing import Truecaser, train_truecaser
from keras_attn_zoo.support.errors import UserError

TEXT = [
    "Der Hund sieht das Haus.",
    "Das Haus ist gut. Es steht.",
    "Er sagt: Der Hund",
    "- Ja, die HUND (12)",
    "Was? »Das?« ",
]
# Inside sentences: Hund sieht das Haus, Haus ist gut, steht, sagt, Hund, die HUND.
MODEL = """\
das (1/1)
die (1/1)
gut (1/1)
Haus (2/2)
Hund (2/3) HUND (1)
ist (1/1)
sagt (1/1)
sieht (1/1)
steht (1/1)
"""


@pytest.fixture
def truecaser(tmp_path):
    return Truecaser(train_truecaser(TEXT, tmp_path / "model"))


def test_the_model_has_the_words_inside_of_sentences(truecaser):
    assert truecaser.model_bytes.decode() == MODEL


@pytest.mark.parametrize(
    ("plain", "wanted"),
    [
        ("Das ist HAUS und Haus", "das ist Haus und Haus"),
        ("Der HUND, der hund", "Der HUND, der Hund"),
        ("„Das Haus“ steht. Gut!", "„das Haus“ steht. Gut!"),
        ("Es steht. - Gut!", "Es steht. - Gut!"),
        ("- Gut (Das)", "- gut (das)"),
        ("Haus-Hund.", "Haus-Hund."),
        ("12 Gut", "12 gut"),
        ("HUND", "Hund"),
        ("...", "..."),
        ("", ""),
    ],
)
def test_sentences_worked_out_by_hand(truecaser, plain, wanted):
    assert truecaser.truecase(plain) == wanted


@pytest.mark.parametrize(
    ("truecased", "wanted"),
    [
        ("das Haus. gut", "Das Haus. gut"),
        ("„das Haus“", "„Das Haus“"),
        ("12 Hunde", "12 Hunde"),
        ("ßa", "ßa"),
        ("- ... -", "- ... -"),
        ("", ""),
    ],
)
def test_the_first_word_gets_its_capital_back(truecased, wanted):
    assert Truecaser.detruecase(truecased) == wanted


def test_equal_counts_and_letters_that_become_two(tmp_path):
    """Small letters come first, whatever the order of the text; İ has a longer lower case."""
    for text in (["x Ab aB ab"], ["x ab aB Ab İst İst"]):
        assert train_truecaser(text, tmp_path / "model").read_text() == "ab (1/3) aB (1) Ab (1)\n"


def test_bad_models_are_one_line(tmp_path):
    for content in (b"\xff", b"Haus\n", b"Haus (1/1) Maus (1)\n", b"Haus (1/1) \n", b"Haus (x/1)\n"):
        with pytest.raises(UserError, match="is not a truecaser, or is damaged") as caught:
            Truecaser(content)
        assert "\n" not in str(caught.value)


def test_text_without_capitals_has_no_case_to_learn(tmp_path):
    for text in (["一 二", "12 34"], ["das haus", "ein haus"]):
        with pytest.raises(UserError, match="no word of the text has a capital letter"):
            train_truecaser(text, tmp_path / "model")
    assert not (tmp_path / "model").exists()
    # One that begins a sentence is enough, though it teaches nothing.
    assert train_truecaser(["Das haus"], tmp_path / "model").read_text() == "haus (1/1)\n"


def test_text_is_truecased_on_its_way_to_ids_and_back(truecaser, tmp_path):
    path = train_subwords(map(truecaser.truecase, TEXT), tmp_path / "spm", None, model_type="char")
    plain, cased = Subwords(path), Subwords(path, truecaser)
    assert cased.encode(["Das Haus ist gut."]) == plain.encode(["das Haus ist gut."])
    [ids] = cased.encode(["Das Haus ist gut."])
    assert cased.decode(ids) == "Das Haus ist gut." and plain.decode(ids) == "das Haus ist gut."
    assert cased.checksum != plain.checksum == Subwords(path).checksum


def test_a_letter_in_another_case_composes_with_its_mark(tmp_path):
    """There is a small j with a caron, and no capital one."""
    truecaser = Truecaser(train_truecaser(["Das j ist da"], tmp_path / "model"))
    assert truecaser.truecase("J\u030c ist da") == "\u01f0 ist da"
