"""BLEU, chrF and TER with sacrebleu's signatures, ROUGE and METEOR likewise, and paired significance tests."""

import functools
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from keras_attn_zoo.support.errors import UserError, choice
from keras_attn_zoo.support.extras import require

require("sacrebleu", user=__name__)

from numpy.typing import NDArray
from sacrebleu.metrics import BLEU, CHRF, TER

from keras_attn_zoo.evaluation.multi_bleu import MultiBLEU
from keras_attn_zoo.evaluation.overlap_scores import OVERLAP_METRICS, overlap_metric
from keras_attn_zoo.evaluation.significance import (
    SEED,
    TESTS,
    SystemScore,
    corpus_statistics,
    paired_tests,
    score_of_sums,
)

METRICS = ("bleu", "chrf", "ter")
# TER of text in which punctuation and each Chinese character are words of their own.
NORMALIZED_TER = "ter_normalized"
ALL_METRICS = (*METRICS, NORMALIZED_TER, *OVERLAP_METRICS)

# sacrebleu's tokeniser for BLEU, unless another one is named.
TOKENIZE = "13a"
# Of sentences.
_CHRF = CHRF()
# Tokenisers that need packages, and the extra of sacrebleu that has them.
_EXTRAS = {"ja-mecab": "ja", "ko-mecab": "ko"}
# Ours, for Multi-BLEU.
_MOSES = re.compile(r"moses-([a-z]{2,3})", re.ASCII)


@dataclass(frozen=True)
class MetricScore:
    """One score of a corpus.

    Attributes:
        name: sacrebleu's name of the metric, such as `chrF2`.
        score: the score, in percent. Higher is better; of TER, lower.
        signature: sacrebleu's signature: version, case, tokenisation and the rest.
        verbose: sacrebleu's `verbose_score`, for BLEU the n-gram precisions and lengths; empty for metrics without one.
    """

    name: str
    score: float
    signature: str
    verbose: str

    def __str__(self) -> str:
        """One line, in sacrebleu's format."""
        return f"{self.name}|{self.signature} = {self.score:.2f} {self.verbose}".rstrip()


@dataclass(frozen=True)
class TextScores:
    """The scores of one corpus, by metric: `scores["bleu"].score`.

    Attributes:
        metrics: a `MetricScore` for each requested metric.
        segments: number of sentences.
        tokenize: sacrebleu's tokeniser for BLEU.
        lowercase: whether case was ignored.
        references: number of lists of references.
    """

    metrics: dict[str, MetricScore]
    segments: int
    tokenize: str = TOKENIZE
    lowercase: bool = False
    references: int = 1

    def __getitem__(self, metric: str) -> MetricScore:
        """The `MetricScore` of a metric."""
        return self.metrics[metric]

    def __str__(self) -> str:
        """One line per metric."""
        return "\n".join(str(score) for score in self.metrics.values())

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain dicts, ready for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class SystemComparison:
    """A paired test of several systems: `comparison["system"]["bleu"].p_value`.

    Attributes:
        baseline: name of the system that the others are compared with.
        systems: `{system: {metric: SystemScore}}`, the baseline first.
        signatures: `{metric: signature}`, with the test, its samples and its seed.
    """

    baseline: str
    systems: dict[str, dict[str, SystemScore]]
    signatures: dict[str, str]

    def __getitem__(self, system: str) -> dict[str, SystemScore]:
        """The scores of a system, by metric."""
        return self.systems[system]

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain dicts, ready for JSON."""
        return asdict(self)


def _build_metric(name, lowercase, tokenize):
    """Return one sacrebleu metric; `tokenize` applies only to BLEU."""
    if name in OVERLAP_METRICS:
        return overlap_metric(name)
    if name == "chrf":
        return CHRF(lowercase=lowercase)
    if name in ("ter", NORMALIZED_TER):
        normalized = name == NORMALIZED_TER
        return TER(case_sensitive=not lowercase, normalized=normalized, asian_support=normalized)
    return _build_bleu(lowercase, tokenize)


def _build_bleu(lowercase, tokenize):
    if moses := _MOSES.fullmatch(tokenize):
        return MultiBLEU(moses[1], lowercase)
    if tokenize not in BLEU.TOKENIZERS:
        names = [*BLEU.TOKENIZERS, "moses-LANGUAGE"]
        raise UserError(f"unknown tokenizer {tokenize!r}: {choice(tokenize, names)}")
    try:
        return BLEU(lowercase=lowercase, tokenize=tokenize)
    except (RuntimeError, ImportError, OSError) as error:
        if tokenize in _EXTRAS:
            raise UserError(
                f"the tokenizer {tokenize!r} needs packages that are not installed: "
                f"pip install 'sacrebleu[{_EXTRAS[tokenize]}]', or use another tokenizer."
            ) from error
        # Those of SentencePiece download their model.
        reason = " ".join(str(error).split())
        raise UserError(
            f"the tokenizer {tokenize!r} cannot be set up ({reason}): check the connection, or use another one."
        ) from error


def check_tokenizer(tokenize: str) -> None:
    """Raise if a tokeniser of sacrebleu cannot be used; call this before a long computation that ends with a score.

    Raises:
        UserError: names the nearest tokeniser, or what must be installed.

    Example:
        >>> check_tokenizer("intl")
    """
    _build_bleu(False, tokenize)


def _build_metrics(metrics, lowercase, tokenize):
    metrics = (metrics,) if isinstance(metrics, str) else tuple(metrics)
    if not metrics or not set(metrics) <= set(ALL_METRICS):
        raise UserError(f"unknown metrics {metrics}: choose from {', '.join(ALL_METRICS)}.")
    check_tokenizer(tokenize)
    return {name: _build_metric(name, lowercase, tokenize) for name in metrics}


def _checked_lines(lines, what):
    """Return `lines` as a list of strings; raise a `UserError` that names `what` if they are anything else."""
    if isinstance(lines, str):
        raise UserError(f"{what} are a single string: give a list of strings, one per sentence.")
    lines = list(lines)
    if not lines:
        raise UserError(f"{what} are empty: give at least one sentence.")
    for number, line in enumerate(lines, 1):
        if not isinstance(line, str):
            raise UserError(f"sentence {number} of {what} is {line!r}: give strings (empty ones are allowed).")
    return lines


def _check_counts(hypotheses, references, what="hypotheses"):
    if len(hypotheses) != len(references):
        raise UserError(
            f"there are {len(hypotheses)} {what} but {len(references)} references: give one reference per hypothesis."
        )


def score_text(
    hypotheses: Iterable[str],
    references: Iterable[str],
    metrics: str | Iterable[str] = METRICS,
    lowercase: bool = False,
    tokenize: str = TOKENIZE,
    more_references: Iterable[Iterable[str]] = (),
) -> TextScores:
    """Score translations against one or several references each with BLEU, chrF and TER, or with ROUGE and METEOR.

    Give plain detokenised text: sacrebleu tokenises it. BLEU, chrF and TER follow `lowercase`. sacrebleu's command line
    ignores case in TER by default; with `--ter-case-sensitive` it reports the number returned here. ROUGE and METEOR
    ignore case anyway; see `overlap_metric`.

    Args:
        hypotheses: list of strings, one per sentence; strings may be empty.
        references: list of equally many strings.
        metrics: any of "bleu", "chrf", "ter" and "ter_normalized", TER of text whose punctuation and Chinese characters
            are words of their own; with the extra `tasks`, also of "rouge1", "rouge2", "rougel",
            "rougelsum" and "meteor".
        lowercase: whether to ignore case.
        tokenize: sacrebleu's tokeniser for BLEU: "13a", "zh", "char", "intl", "none", ...; or Moses' for a language,
            such as "moses-de", for Multi-BLEU.
        more_references: further lists of references, each with one string per sentence; an empty one is a sentence
            that has no more.

    Returns:
        `TextScores`.

    Raises:
        UserError: no sentences, unequal counts, references without text, an unknown metric or tokeniser, a metric
            whose packages are not installed.

    Example:
        >>> scores = score_text(["the cat sat on the mat"], ["the cat sat on the mat"])
        >>> round(scores["bleu"].score, 1)
        100.0
    """
    computed = _build_metrics(metrics, lowercase, tokenize)
    translations = _checked_lines(hypotheses, "the hypotheses")
    every = _reference_lists(references, more_references, translations, "hypotheses")
    scores = {}
    for name, metric in computed.items():
        result = metric.corpus_score(translations, every)
        signature = str(metric.get_signature())
        verbose = json.loads(result.format(signature=signature, is_json=True)).get("verbose_score", "")
        scores[name] = MetricScore(result.name, float(result.score), signature, verbose.strip())
    return TextScores(scores, len(translations), tokenize, lowercase, len(every))


def _reference_lists(references, more_references, translations, what):
    """Return all lists of references as sacrebleu takes them; raise if they do not fit the translations."""
    wanted = _checked_lines(references, "the references")
    _check_counts(translations, wanted, what)
    if not any(line.strip() for line in wanted):
        raise UserError("all references are empty: give translations to compare with.")
    every = [wanted]
    for lines in more_references:
        lines = _checked_lines(lines, "the references")
        _check_counts(translations, lines, what)
        if len(every) == 1 and not all(line.strip() for line in wanted):
            raise UserError("a first reference is empty: with several references, each sentence needs one.")
        # sacrebleu leaves out None.
        every.append([line if line.strip() else None for line in lines])
    return every


def sentence_statistics(
    hypotheses: Iterable[str],
    references: Iterable[str],
    metric: str,
    lowercase: bool = False,
    tokenize: str = TOKENIZE,
    more_references: Iterable[Iterable[str]] = (),
) -> tuple[NDArray, Callable[[NDArray], float]]:
    """Return what a metric counts in each sentence, and the function from sums of these to the score of a text.

    Args:
        hypotheses, references, lowercase, tokenize, more_references: as for `score_text`.
        metric: one of its metrics.

    Returns:
        The counts, `(sentences, n)`, and the function.

    Example:
        >>> counts, score = sentence_statistics(["a b c d"], ["a b c d"], "bleu")
        >>> round(score(counts.sum(0)), 1)
        100.0
    """
    (computed,) = _build_metrics(metric, lowercase, tokenize).values()
    translations = _checked_lines(hypotheses, "the hypotheses")
    every = _reference_lists(references, more_references, translations, "hypotheses")
    return corpus_statistics(computed, translations, every), functools.partial(score_of_sums, computed)


def score_of_counts(metric: str, lowercase: bool = False, tokenize: str = TOKENIZE) -> Callable[[NDArray], float]:
    """Return the function of `sentence_statistics` alone, for counts that are known.

    Example:
        >>> counts, _ = sentence_statistics(["a b c d"], ["a b c d"], "bleu")
        >>> round(score_of_counts("bleu")(counts.sum(0)), 1)
        100.0
    """
    (computed,) = _build_metrics(metric, lowercase, tokenize).values()
    return functools.partial(score_of_sums, computed)


def how_scored(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options `tokenize` and `lowercase` of scores that `TextScores.as_dict` returned.

    Example:
        >>> how_scored(score_text(["a b"], ["a b"], tokenize="intl").as_dict())
        {'tokenize': 'intl', 'lowercase': False}
    """
    # Earlier versions had no such options.
    return {"tokenize": stored.get("tokenize", TOKENIZE), "lowercase": stored.get("lowercase", False)}


def bleu_key(percent: int, tokenize: str = TOKENIZE, lowercase: bool = False) -> str:
    """Return the name in the log of the test text's BLEU after a part of the training, scored in this way."""
    how = f"{'' if tokenize == TOKENIZE else f'_{tokenize}'}{'_lowercase' if lowercase else ''}"
    return f"test_bleu_after_{percent}%{how}"


def sentence_bleu(hypothesis: str, *references: str, tokenize: str = TOKENIZE, lowercase: bool = False) -> float:
    """Return sacrebleu's sentence BLEU in percent: of n-grams as long as there are any; 0 if all references are empty.

    Example:
        >>> round(sentence_bleu("a b c d", "a b c d"), 1)
        100.0
    """
    given = [one for one in references if one.strip()]
    return float(_of_sentences(tokenize, lowercase).sentence_score(hypothesis, given).score) if given else 0.0


def sentence_chrf(hypothesis: str, *references: str) -> float:
    """Return sacrebleu's sentence chrF in percent; 0 if all references are empty.

    Example:
        >>> round(sentence_chrf("a b c d", "a b c d"), 1)
        100.0
    """
    given = [one for one in references if one.strip()]
    return float(_CHRF.sentence_score(hypothesis, given).score) if given else 0.0


@functools.cache
def _of_sentences(tokenize, lowercase):
    metric = _build_bleu(lowercase, tokenize)
    # Of Multi-BLEU too.
    metric.effective_order = True
    return metric


def compare_systems(
    baseline: str,
    systems: Mapping[str, Iterable[str]],
    references: Iterable[str],
    metrics: str | Iterable[str] = METRICS,
    lowercase: bool = False,
    tokenize: str = TOKENIZE,
    samples: int | None = None,
    seed: int = SEED,
    test: str = "bootstrap",
    more_references: Iterable[Iterable[str]] = (),
) -> SystemComparison:
    """Test whether systems differ from a baseline, by paired bootstrap or by approximate randomization.

    Bootstrap, by sacrebleu: sentences are drawn with replacement into `samples` corpora as large as the original, the
    same for all systems, and every system is scored on each of them. This test is as good as one-sided, in the
    direction of the difference that was seen: of two equally good systems, one is better with p < 0.05 in about one of
    ten test texts. Randomization: in each of `samples` trials, system and baseline exchange every translation with a
    probability of 1/2. This test is two-sided. The difference between a system and the baseline is significant at level
    α if its `p_value` is below α.

    Args:
        baseline: name of one of `systems`.
        systems: `{name: hypotheses}`, including the baseline.
        references: list of strings, one per sentence.
        metrics, lowercase, tokenize: as for `score_text`.
        samples: number of resampled corpora or trials; by default 1,000 of the former or 10,000 of the latter.
        seed: positive integer; the same seed gives the same numbers.
        test: "bootstrap" or "randomization".
        more_references: as for `score_text`.

    Returns:
        `SystemComparison`.

    Raises:
        UserError: `baseline` is not among `systems` or is the only one, numbers of
            sentences differ, or an option is out of range.

    Example:
        >>> references = ["a b c d e", "f g h i j"]
        >>> systems = {"plain": ["a b c d x", "f g h i j"], "new": references}
        >>> comparison = compare_systems("plain", systems, references, metrics="bleu")
        >>> round(comparison["new"]["bleu"].score, 1)
        100.0
    """
    computed = _build_metrics(metrics, lowercase, tokenize)
    if baseline not in systems:
        raise UserError(f"the baseline {baseline!r} is not a system: {choice(str(baseline), systems)}")
    if len(systems) < 2:
        raise UserError(f"{baseline!r} is the only system: give at least one other to compare it with.")
    if test not in TESTS:
        raise UserError(f"there is no test {test!r}: choose from {', '.join(TESTS)}.")
    samples = TESTS[test] if samples is None else samples
    if samples < 1:
        raise UserError(f"samples is {samples}: give a positive number.")
    if seed < 1:  # to sacrebleu, 0 means "no seed"
        raise UserError(f"seed is {seed}: give a positive integer.")
    references, further = _checked_lines(references, "the references"), [list(lines) for lines in more_references]
    named_systems = []
    for name in [baseline, *(name for name in systems if name != baseline)]:
        hypotheses = _checked_lines(systems[name], f"the hypotheses of {name!r}")
        every = _reference_lists(references, further, hypotheses, f"hypotheses of {name!r}")
        named_systems.append((name, hypotheses))
    texts = dict(named_systems)
    tested = {name: paired_tests(texts, metric, every, test, samples, seed) for name, metric in computed.items()}
    return SystemComparison(
        baseline=baseline,
        systems={system: {metric: found[0][system] for metric, found in tested.items()} for system in texts},
        signatures={metric: signature for metric, (_, signature) in tested.items()},
    )
