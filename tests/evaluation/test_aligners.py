import subprocess
import sys
import types

import pytest

from keras_attn_zoo.evaluation.aligners import ALIGNERS, align_text, check_aligner
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.extras import MissingPackageError

WORDS = dict(das="the", ein="a", Haus="house", Buch="book", Hund="dog", ist="is", alt="old", neu="new")


def pair(text):
    """Words and their translations; "ja" has none, so that links are others if the sides are mixed up."""
    return text.split(), [WORDS[word] for word in text.split() if word != "ja"]


TRAIN = [
    pair(f"{start}{article} {noun}{rest}")
    for start in ("", "ja ")
    for article in ("das", "ein")
    for noun in ("Haus", "Buch", "Hund")
    for rest in ("", " ist alt", " ist neu")
    for _ in range(5)
]
PAIRS = [pair("ja das Buch ist alt"), pair("ein Hund")]
LINKS = [{(1, 0), (2, 1), (3, 2), (4, 3)}, {(0, 0), (1, 1)}]
PACKAGES = {"fast_align": "systran_align", "eflomal": "eflomal"}


@pytest.mark.parametrize("name", ALIGNERS)
def test_an_aligner_learns_a_dictionary(name):
    if name in PACKAGES:
        pytest.importorskip(PACKAGES[name], exc_type=ImportError)
    method = "grow-diag-final-and"
    first, second = align_text(name, PAIRS, TRAIN, method)
    assert [{link for link in first if link[0] > 0}, second] == LINKS
    if name != "fast_align":
        # In one direction, a target word has at most one link; the other side may have several.
        text = [(["das", "Haus"], ["the", "house", "the"]), *PAIRS]
        forward = align_text(name, text, TRAIN)
        assert len(forward) == 3 and {(0, 0), (1, 1), (0, 2)} >= forward[0]
        assert len({i for _, i in forward[0]}) == len(forward[0])


def test_symmetrised_links_are_those_of_either_direction():
    """The models of this package are deterministic."""
    turned = [(target, source) for source, target in PAIRS]
    train = [(target, source) for source, target in TRAIN]
    forward = align_text("ibm1", PAIRS, TRAIN)
    reverse = [{(j, i) for i, j in links} for links in align_text("ibm1", turned, train)]
    both = [one | other for one, other in zip(forward, reverse, strict=True)]
    assert align_text("ibm1", PAIRS, TRAIN, "union") == both


class Killed:
    def align(self, *arguments):
        raise subprocess.CalledProcessError(-9, ["eflomal"])


def test_what_cannot_be_aligned_is_said_first(monkeypatch):
    with pytest.raises(UserError, match="no aligner 'fastalign': did you mean fast_align"):
        align_text("fastalign", PAIRS)
    monkeypatch.setitem(sys.modules, "eflomal", None)
    with pytest.raises(MissingPackageError, match=r"the aligner eflomal needs eflomal: pip install .*\[aligners\]"):
        check_aligner("eflomal")
    with pytest.raises(UserError, match="sentence pair 3 has an empty side: leave it out"):
        align_text("ibm1", PAIRS, [(["das"], [])])
    monkeypatch.setitem(sys.modules, "eflomal", types.SimpleNamespace(Aligner=Killed))
    with pytest.raises(UserError, match="eflomal ended with status -9: give it less text"):
        align_text("eflomal", PAIRS)
    monkeypatch.setitem(sys.modules, "systran_align", object())
    with pytest.raises(UserError, match="has no links but those of grow-diag-final-and"):
        check_aligner("fast_align", "union")
