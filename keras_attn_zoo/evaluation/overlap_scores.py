"""ROUGE of summaries and METEOR of answers, as metrics of sacrebleu: its signatures and paired tests hold for them too.

Both are the mean over sentences of a score between 0 and 1, in percent. Both are made for English.
"""

import functools
import importlib.metadata
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.extras import TASKS, require

require("sacrebleu", user=__name__)

from sacrebleu.metrics.base import Metric, Score, Signature

# Names in scores.json and in tables, and what rouge-score calls them.
_ROUGE = {
    "rouge1": ("ROUGE-1", "rouge1"),
    "rouge2": ("ROUGE-2", "rouge2"),
    "rougel": ("ROUGE-L", "rougeL"),
    "rougelsum": ("ROUGE-Lsum", "rougeLsum"),
}
# The parameters of METEOR as it was first published: the weight of recall, the exponent and the weight of the penalty.
_METEOR = {"alpha": 0.9, "beta": 3.0, "gamma": 0.5}
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")

OVERLAP_METRICS = (*_ROUGE, "meteor")


def require_overlap() -> None:
    """Raise a `MissingPackageError` if the packages of ROUGE and METEOR are not installed."""
    require(*TASKS, user="scoring with ROUGE or METEOR", extra="tasks")


def check_references(metrics: Iterable[str], references: Iterable[Sequence[str]], name: str) -> None:
    """Raise if a reference has letters, but no word that one of the metrics counts.

    Args:
        metrics: names, see `score_text`.
        references: lists of references, each with one for every sentence.
        name: name of the text.

    Raises:
        UserError: names the sentence.

    Example:
        >>> check_references(["rouge1"], [["the cat", ""]], "test")
    """
    if not set(metrics) & set(_ROUGE):
        return
    for lines in references:
        for number, one in enumerate(lines, start=1):
            _check_counted(one, f", a reference of {name} sentence {number}")


def _check_counted(reference, where=""):
    """Raise if ROUGE would find no word in a reference that has some."""
    from rouge_score import tokenize

    if any(map(str.isalpha, reference)) and not tokenize.tokenize(reference, None):
        raise UserError(
            f"ROUGE counts words of a to z and digits alone, and there are none in {reference[:60]!r}{where}."
        )


def overlap_metric(name: str) -> Metric:
    """Return one of `OVERLAP_METRICS` as a metric of sacrebleu.

    - `rouge1`, `rouge2`: F1 of the words, or the pairs of adjacent words, that two texts share.
    - `rougel`: F1 of the longest common subsequence of the whole texts.
    - `rougelsum`: the same, sentence by sentence of the reference, as is usual for summaries of several sentences.
      A sentence ends at a full stop, a question mark or an exclamation mark before a blank.
    - `meteor`: mean of precision and recall of matched words, recall weighing nine times as much, less a penalty for
      matches that are scattered. Words match if they, or their stems, are equal.

    ROUGE compares stems (Porter's) in lower case; letters other than a to z separate words, as in the original. METEOR
    splits off punctuation as BLEU does (13a). It has no synonyms, which the original looks up in WordNet: without
    them, scores are lower. Nor does it have what METEOR 1.5 added: paraphrases, and weights tuned for each language.
    With several references, the best counts.

    Raises:
        MissingPackageError: the packages are not installed.

    Example:
        >>> round(overlap_metric("rouge1").corpus_score(["the cat sat"], [["the cat slept"]]).score, 1)
        66.7
    """
    require_overlap()
    if name == "meteor":
        details = {"case": "lc", "tok": "13a", "match": "exact+stem", **_METEOR}
        return _MeanOverSentences("METEOR", "nltk", details, _meteor())
    title, own = _ROUGE[name]
    details = {"measure": "f1", "case": "lc", "tok": "ascii", "stem": "porter"}
    return _MeanOverSentences(title, "rouge-score", details, _rouge(own))


class _Signature(Signature):
    """Names the library that scores instead of sacrebleu, and its options."""

    def __init__(self, args: dict) -> None:
        super().__init__(args)
        self.info.update(args["details"], version=args["version"])


class _MeanOverSentences(Metric):
    """A metric whose score of a text is the mean of its sentences' scores."""

    _SIGNATURE_TYPE = _Signature

    def __init__(self, title: str, package: str, details: dict[str, Any], score: Callable) -> None:
        super().__init__()
        self.title, self.details, self.score = title, details, score
        self.version = f"{package}-{importlib.metadata.version(package)}"

    def _preprocess_segment(self, sent: str) -> str:
        return sent

    def _extract_reference_info(self, refs: Sequence[str]) -> dict[str, Any]:
        return {"references": refs}

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict) -> list[Any]:
        return [self.score(ref_kwargs["references"], hypothesis), 1]

    def _compute_score_from_stats(self, stats: Sequence[Any]) -> Score:
        return Score(self.title, 100 * float(stats[0]) / float(stats[1]))

    def _aggregate_and_compute(self, stats: Sequence[Sequence[Any]]) -> Score:
        return self._compute_score_from_stats(np.sum(stats, axis=0))


class _Stemmer:
    """Porter's stemmer; the few words that make up most of a text are stemmed once."""

    def __init__(self, **options: Any) -> None:
        from nltk.stem.porter import PorterStemmer

        self.stem = functools.lru_cache(2**16)(PorterStemmer(**options).stem)


def _rouge(kind):
    """A function from references and a hypothesis to the best F1."""
    from rouge_score import rouge_scorer, tokenize

    class Tokenizer:
        stemmer = _Stemmer()

        def tokenize(self, text: str) -> list[str]:
            return tokenize.tokenize(text, self.stemmer)

    scorer = rouge_scorer.RougeScorer([kind], tokenizer=Tokenizer())

    def lines(text):
        return _SENTENCE_END.sub("\n", text) if kind == "rougeLsum" else text

    def score(references, hypothesis):
        for one in references:
            _check_counted(one)
        return scorer.score_multi([lines(one) for one in references], lines(hypothesis))[kind].fmeasure

    return score


class _NoSynonyms:
    """In place of WordNet, whose data nothing here downloads: no word has a synonym."""

    def synsets(self, word: str) -> list:
        return []


def _meteor():
    """A function from references and a hypothesis to the best score."""
    from nltk.translate.meteor_score import meteor_score
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    split, options = Tokenizer13a(), {"stemmer": _Stemmer(), "wordnet": _NoSynonyms(), **_METEOR}

    def score(references, hypothesis):
        return meteor_score([split(one).split() for one in references], split(hypothesis).split(), **options)

    return score
