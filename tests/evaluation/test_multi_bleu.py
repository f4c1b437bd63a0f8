"""Multi-BLEU: words split by hand, and the score of multi-bleu.perl in a few lines."""

import math
import sys
from collections import Counter

import pytest

from keras_attn_zoo.evaluation.multi_bleu import MultiBLEU
from keras_attn_zoo.evaluation.text_scores import score_text
from keras_attn_zoo.support.errors import UserError

# Text, and its words as Moses splits them.
GERMAN = {
    'Er sagt (z.B.) "ja, Dr. Müller", zu 3,5 % & mehr.': 'Er sagt ( z.B. ) " ja , Dr. Müller " , zu 3,5 % & mehr .',
    "Das ist Prof. Meyers U-Bahn-Linie Nr. 5!": "Das ist Prof. Meyers U-Bahn-Linie Nr. 5 !",
    "Sie sagt ja zu Dr. Müllers U-Bahn.": "Sie sagt ja zu Dr. Müllers U-Bahn .",
    "Das ist die Linie Nr. 5 hier.": "Das ist die Linie Nr. 5 hier .",
    "Er sagt ja, zu 3,5 % und mehr.": "Er sagt ja , zu 3,5 % und mehr .",
    "das ist Prof. Meyers Linie Nr. 5!": "das ist Prof. Meyers Linie Nr. 5 !",
}
FIRST, SECOND, A, B, LONG, LOWER = GERMAN


def ngrams(words, n):
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def multi_bleu(hypotheses, *references):
    """multi-bleu.perl: clipped counts of n-grams, and a penalty for what is shorter than the nearest references."""
    right, total, length, wanted = Counter(), Counter(), 0, 0
    for words, *others in zip(hypotheses, *references, strict=True):
        length += len(words)
        wanted += min((abs(len(one) - len(words)), len(one)) for one in others)[1]
        for n in range(1, 5):
            best = Counter()
            for one in others:
                best |= ngrams(one, n)
            right[n] += sum((ngrams(words, n) & best).values())
            total[n] += max(len(words) - n + 1, 0)
    if not all(right[n] for n in range(1, 5)):
        return 0.0
    precision = math.exp(sum(math.log(right[n] / total[n]) for n in range(1, 5)) / 4)
    return 100 * precision * min(1.0, math.exp(1 - wanted / length))


def words(*texts, lower=False):
    return [(GERMAN[text].lower() if lower else GERMAN[text]).split() for text in texts]


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize(
    ("hypotheses", "references"),
    [
        ((LONG, LOWER), [(FIRST, SECOND)]),
        ((LONG, LOWER), [(FIRST, SECOND), (A, B)]),
        ((FIRST, LOWER), [(LONG, SECOND)]),
        ((FIRST, SECOND), [(FIRST, SECOND)]),
        # No four words are right: sacrebleu's usual smoothing would give more than 0.
        ((A, FIRST), [(B, SECOND)]),
    ],
)
def test_equals_the_script_on_words_split_by_hand(hypotheses, references, lowercase):
    found = score_text(
        hypotheses, references[0], "bleu", lowercase, tokenize="moses-de", more_references=references[1:]
    )["bleu"]
    wanted = multi_bleu(words(*hypotheses, lower=lowercase), *(words(*one, lower=lowercase) for one in references))
    assert found.score == pytest.approx(wanted)
    assert f"case:{'lc' if lowercase else 'mixed'}|eff:no|tok:moses-de-sacremoses-" in found.signature
    assert "|smooth:none|" in found.signature


def test_abbreviations_are_those_of_the_language():
    """In English, `No.` is one before a number. Turkish has those of English."""
    for language, text, split in (
        ("de", "Nr. Fünf ist", "Nr. Fünf ist"),
        ("en", "No. Five is", "No . Five is"),
        ("en", "No. 5 is", "No. 5 is"),
        ("lv", "No. 5 is", "No . 5 is"),
        ("tr", "No. 5 is", "No. 5 is"),
        ("fr", "l'homme va", "l' homme va"),
        ("en", "it's well-known", "it 's well-known"),
    ):
        assert MultiBLEU(language).corpus_score([text], [[text]]).counts[0] == len(split.split()), (language, text)
    assert "moses-tr-with-abbreviations-en-sacremoses" in str(MultiBLEU("tr").tokenizer_signature)


def test_what_is_missing_or_unknown_is_one_line(monkeypatch):
    for name in ("moses-german", "moses-DE", "moses-", "moses"):
        with pytest.raises(
            UserError, match=f"unknown tokenizer '{name}': (choose one of|did you mean).* moses-LANGUAGE"
        ):
            score_text(["a"], ["a"], "bleu", tokenize=name)
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    with pytest.raises(UserError, match=r"needs sacremoses: pip install 'keras-attn-zoo\[translate\]'\.$"):
        score_text(["a"], ["a"], "bleu", tokenize="moses-de")
