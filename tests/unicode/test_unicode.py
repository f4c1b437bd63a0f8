"""A hundred sentences of all kinds of characters; `python -m tests --all` tries thousands."""

import contextlib
import io

import pytest

from keras_attn_zoo.cli import main
from keras_attn_zoo.runs.word_alignment import align_words
from keras_attn_zoo.support.errors import UserError
from tests.unicode import checks
from tests.unicode.checks import check, check_uses
from tests.unicode.models import KINDS, kind_of, translator
from tests.unicode.sentences import SURROGATES, categories, pair

CASES = 100


def cases(kind, count=CASES):
    return [number for number in range(count) if kind_of(number) == kind]


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_every_piece_is_in_a_word_and_every_word_has_its_letters(kind):
    assert check(kind, cases(kind)) == {}


@pytest.mark.long
def test_commands_pictures_and_server(tmp_path):
    """At night, of every kind."""
    assert check_uses("bpe bytes", cases("bpe bytes", 50), tmp_path) == {}


def test_cases_have_all_kinds_of_characters():
    text = "".join(word for number in range(3000) for side in pair(number) for word in side)
    assert len(categories()) == 29 and all(set(text) & set(characters) for characters in categories().values())
    assert [pair(number) for number in range(9)] == [pair(number) for number in range(9)]


def test_what_is_wrong_is_seen(monkeypatch):
    """Pieces of the word before, an error, and a word without its letters."""
    group_pieces, join_words = checks.group_pieces, checks.join_words

    def shifted(*given):
        return [max(min(group, 0), group - 1) for group in group_pieces(*given)]

    def without_first(words):
        return join_words(list(words)[1:])

    for name, broken, seen in (
        ("group_pieces", shifted, "in word"),
        ("group_pieces", lambda *given: 1 / 0, "ZeroDivisionError"),
        ("as_sentence", lambda words: without_first(words)[0], "letters"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(checks, name, broken)
            assert any(seen in reason for reason in check("char", [0, 1, 2]).values())


@pytest.mark.parametrize("surrogate", SURROGATES)
def test_undecoded_bytes_are_refused_in_a_line(surrogate, tmp_path):
    task = translator("char")
    text = f"ka {surrogate}lo"
    for use in (
        lambda: task.explore([text], ["ka"]),
        lambda: task.explore(["ka"], [["lo", surrogate]]),
        lambda: task.score([text], ["ka"]),
        lambda: align_words(task, [(["ka"], ["lo", surrogate])]),
    ):
        with pytest.raises(UserError, match="unpaired surrogate") as error:
            use()
        assert str(error.value).isprintable()
    task.save_to_preset(tmp_path / "preset")
    for arguments in (["plot", "attention"], ["explore"]):
        with contextlib.redirect_stderr(io.StringIO()) as said:
            status = main([*arguments, str(tmp_path / "preset"), text, "--output", str(tmp_path / "one.html")])
        assert status == 2 and len(said.getvalue().splitlines()) == 1
