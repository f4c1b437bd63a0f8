"""What the tables of papers show of a run: from its scores, its log, its translations and its timing pass."""

import dataclasses
import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from keras_attn_zoo.evaluation.multi_bleu import MultiBLEU, require_moses
from keras_attn_zoo.evaluation.text_scores import NORMALIZED_TER, bleu_key, how_scored
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.runs.sentence_counts import counted
from keras_attn_zoo.runs.tasks import METRICS
from keras_attn_zoo.runs.timing_data import timed_together, translation_seconds
from keras_attn_zoo.studies.paper_tables import BLEU_AFTER
from keras_attn_zoo.studies.table import COLUMNS
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import kind_of, read_json
from keras_attn_zoo.training.run_log import read_log

_MULTI_BLEU = "Multi-BLEU"
_COUNTS = ("sentences", "running words", "vocabulary")
# What its tokeniser is for where no language pair is known.
_USUAL_LANGUAGE = "en"


@dataclasses.dataclass(frozen=True)
class Scored:
    """A run that was scored.

    Attributes:
        run: its folder.
        split: name of the scores.
        scores: what `score_run` found.
        baseline: folder of the baseline's run, or None.
        pair: its language pair, such as "en-de", or None.
    """

    run: RunFolder
    split: str
    scores: dict[str, Any]
    baseline: RunFolder | None = None
    pair: str | None = None

    @functools.cached_property
    def rounds(self) -> list[dict[str, Any]]:
        """The lines of the rounds in the log; none if there is no log."""
        return [line for line in read_log(self.run.log) if "round" in line] if kind_of(self.run.log) else []


@dataclasses.dataclass(frozen=True)
class Measure:
    """One number of a scored run.

    Attributes:
        value: function from a `Scored`. A missing score (KeyError, TypeError, ValueError) is an empty cell.
        digits: behind the point, where the paper has no figure to go by.
        unit: what stands behind the number.
        test: metric and tokeniser of `compare_systems`, or None for what it does not test, see `tested`; without a
            tokeniser, that of the run's scores.
        sums: where it is a ratio of sums over sentences, the name of these in the run's folder; tested by them.
        of_ratio: what the number is of that ratio.
        seeded: whether another training has another number: not of counts, nor of times of a timing pass.
        margin: how large a difference must be to be one, in units of the number.
        share: the same as a share of the other's number.
        sign: 1 if a higher number is better, -1 if a lower one.
        note: what has to be known of it; see `note_of`.
        large: whether it is a count of the training text, the same for each system, and is shown as "5.9M".
        timed: whether it is read from timing passes.
        part: "train" or "valid" if it is of this text, whatever scores it stands beside; empty for that of the scores.
    """

    value: Callable[[Scored], float]
    digits: int = 1
    unit: str = ""
    test: tuple[str, str | None] | None = None
    sums: str = ""
    of_ratio: Callable[[float], float] = float
    seeded: bool = True
    margin: float = 1.0
    share: float = 0.0
    sign: int = 1
    note: str = ""
    large: bool = False
    timed: bool = False
    part: str = ""


@functools.lru_cache(maxsize=4)
def _counts_of_text(folder, key, settings):
    """How many sentences, running words and different words each side of an encoded training text has."""
    from keras_attn_zoo.runs.preparation import encoded_training_text

    text = encoded_training_text(folder, key, settings)
    return {
        side: dict(zip(_COUNTS, (len(text), len(ids), int(np.count_nonzero(np.bincount(ids)))), strict=True))
        for side, ids in (("source", text.source_ids), ("target", text.target_ids))
    }


def _of_text(count, side):
    """A count of a side of the training text, which lies encoded beside the runs if it was not kept in its place."""

    def value(one):
        if kind_of(one.run.text_counts) is not None:
            return read_json(one.run.text_counts)[side][count]
        folder, key = one.run.path.absolute().parent / "data", one.run.corpus()["fingerprint"]
        return _counts_of_text(folder, key, one.run.system().data)[side][count]

    return Measure(value, large=True, seeded=False, note=_OF_TEXT, part="train")


def large(number: float) -> str:
    """Write a count as tables of corpora do.

    Example:
        >>> large(45_000), large(5_900_000), large(160_000_000), large(96)
        ('45k', '5.9M', '160M', '96')
    """
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if number >= size:
            value = number / size
            return f"{value:.{0 if value >= 100 or value == round(value) else 1}f}{letter}"
    return f"{number:.0f}"


def _of_scores(column, **options):
    return Measure(lambda one: COLUMNS[column].value(one.scores), **options)


def _best(key, choose, scale=1, **options):
    """The best of a figure of the log over all rounds."""
    return Measure(lambda one: scale * choose(x for line in one.rounds if (x := line.get(key)) is not None), **options)


def _language(pair):
    return pair.rpartition("-")[2] if pair else _USUAL_LANGUAGE


def _moses(pair):
    return f"moses-{_language(pair)}"


def _scored_again(one, metric, **how):
    """What scores.json does not have, from the translations or what was counted in them."""
    counts, score = counted(one.run, one.split, metric, **{**how_scored(one.scores["text"]), **how})
    return score(counts.sum(0))


def _of_timing(value, **options):
    """A time or memory, from the timing pass that a run was a part of: a function of what it found, and `Scored`."""

    def number(one):
        timing = one.run.read_timing()
        if timing is None:
            raise ValueError("the run was not timed")
        return value(timing, one)

    return Measure(number, sign=-1, seeded=False, margin=0.0, **options)


def _relative_time(timing, one):
    other = one.baseline and one.baseline.read_timing()
    if not other or not timed_together([timing, other]) or timing["precision"] != other["precision"]:
        raise ValueError("the baseline was not timed in the same pass, or in another precision")
    return timing["step_seconds"] / other["step_seconds"]


def _translation_seconds(timing, one):
    if one.split != "test":
        raise ValueError("another text than the test text is not timed")
    return translation_seconds(timing)


def _percent(ratio):
    return 100 * ratio


def _aer(key):
    note = "AER: the end of the sentence and the full stop are left out"
    return Measure(lambda one: 100 * one.scores["alignment"][key], sums=key, of_ratio=_percent, sign=-1, note=note)


# A loss that is lower by this much is a perplexity lower by 5 %.
_ALMOST = 0.05
_FREE = "free-running: the decoder is fed its own predictions"
_ROUND = "lowest, highest: of all rounds of training"
_TIMED = "from a timing pass: systems in turn, compilation apart"
_OF_TEXT = "words: subwords of the training text; vocabularies: how many different ones occur in it"
MEASURES = {
    "BLEU": _of_scores("BLEU", test=("bleu", None)),
    _MULTI_BLEU: Measure(
        lambda one: _scored_again(one, "bleu", tokenize=_moses(one.pair)),
        digits=2,
        test=("bleu", "moses"),
        note="BLEU (the paper's multi-bleu.perl): without smoothing, {tokenizer}",
    ),
    "chrF": _of_scores("chrF", test=("chrf", None)),
    "TER": _of_scores("TER", test=("ter", None), sign=-1),
    "TER, normalized": Measure(
        lambda one: _scored_again(one, NORMALIZED_TER),
        test=(NORMALIZED_TER, None),
        sign=-1,
        note="TER: normalized, that is, punctuation and each Chinese character are words of their own",
    ),
    **{name: _of_scores(name, test=(METRICS[name], None)) for name in ("ROUGE-1", "ROUGE-2", "ROUGE-L")},
    "METEOR": _of_scores(
        "METEOR",
        test=(METRICS["METEOR"], None),
        note="METEOR: of equal words and stems, without synonyms and paraphrases",
    ),
    "perplexity": _of_scores("perplexity", digits=2, sums="loss", of_ratio=np.exp, share=_ALMOST, sign=-1),
    "accuracy": _of_scores("accuracy", sums="accuracy", of_ratio=_percent),
    "loss": Measure(lambda one: one.scores["loss"], digits=2, sums="loss", margin=_ALMOST, sign=-1),
    "loss, free-running": Measure(
        lambda one: one.scores["free_running"]["loss"],
        digits=2,
        sums="free_running_loss",
        margin=_ALMOST,
        sign=-1,
        note=_FREE,
    ),
    **{f"{count}, {side}": _of_text(count, side) for count in _COUNTS for side in ("source", "target")},
    "AER": _aer("aer_without_full_stop"),
    "AER, all layers": _aer("all_layers_aer_without_full_stop"),
    "parameters": _of_scores("parameters", unit=" M", digits=2, seeded=False, margin=0.0, sign=-1, part="train"),
    "training time": _of_timing(
        lambda timing, one: timing["step_seconds"] * one.scores["training"]["steps"],
        digits=0,
        timed=True,
        part="train",
        note=f"training time: steps of the run times seconds of a step, {_TIMED}",
    ),
    "translation time": _of_timing(
        _translation_seconds,
        timed=True,
        note=f"translation time: of the whole test text, by up to 200 sentences of it, {_TIMED}",
    ),
    "training time of a step, relative": _of_timing(
        _relative_time,
        unit="x",
        timed=True,
        part="train",
        note=f"training time: of a step, the median for each shape of batch, relative to the baseline's, {_TIMED}",
    ),
    "memory of a step": _of_timing(
        lambda timing, one: timing["step_bytes"] / 1e6,
        digits=0,
        unit=" MB",
        part="train",
        note="memory: at most, of a training step, besides weights and optimizer",
    ),
    "lowest training perplexity": _best("perplexity", min, digits=2, share=_ALMOST, sign=-1, part="train", note=_ROUND),
    "lowest training loss": _best("loss", min, digits=2, margin=_ALMOST, sign=-1, part="train", note=_ROUND),
    "highest training accuracy": _best("accuracy", max, 100, digits=2, part="train", note=_ROUND),
    "lowest validation perplexity": _best(
        "val_perplexity", min, digits=2, share=_ALMOST, sign=-1, part="valid", note=_ROUND
    ),
    "highest validation accuracy": _best("val_accuracy", max, 100, digits=2, part="valid", note=_ROUND),
}


def measure(name: str) -> Measure:
    """Return one of `MEASURES`, or "BLEU after N% of the steps", of the test text.

    Example:
        >>> measure("training time of a step, relative").unit
        'x'
    """
    if (found := BLEU_AFTER.fullmatch(name)) is None:
        return MEASURES[name]
    note = (
        "BLEU by steps is of the test text, with the weights of that step; empty if training ended before, or had a "
        "budget of minutes, or if it was scored again in another way"
    )

    return Measure(lambda one: _measured_after(found[1], one)[1], note=note)


def text_counts(one: Scored) -> dict[str, dict[str, float | None]]:
    """Return how many sentences, words and different words each side of a run's training text has, as far as is known.

    They stand in place of the text where a run is kept without it.
    """
    return {side: {count: number(f"{count}, {side}", one) for count in _COUNTS} for side in ("source", "target")}


def _measured_after(percent, one):
    """The step after which a BLEU was measured in training, and that BLEU; raise StopIteration if it was not."""
    key = bleu_key(int(percent), **how_scored(one.scores["text"]))
    return next((line["step"], line[key]) for line in one.rounds if line.get(key) is not None)


def step_of(name: str, one: Scored) -> int | None:
    """Return after how many steps of a run a "BLEU after N% of the steps" was measured; None if it was not, or else."""
    found = BLEU_AFTER.fullmatch(name)
    try:
        return None if found is None else int(_measured_after(found[1], one)[0])
    except (UserError, KeyError, TypeError, ValueError, StopIteration):
        return None


def tested(one: Measure, pair: str | None) -> tuple[str, str | None] | None:
    """Return metric and tokeniser that a measure is tested with; for Multi-BLEU, the tokeniser of the target language.

    Example:
        >>> tested(measure("Multi-BLEU"), "en-lv")
        ('bleu', 'moses-lv')
    """
    return (one.test[0], _moses(pair)) if one.test is not None and one.test[1] == "moses" else one.test


def ratio_of(scores: dict[str, Any], sums: str) -> float:
    """Return the score that is the ratio of sums with such a name, see `Measure.sums`.

    Raises:
        KeyError: there is none.

    Example:
        >>> ratio_of({"loss": 2.5, "alignment": {"aer_without_full_stop": 0.5}}, "aer_without_full_stop")
        0.5
    """
    if sums == "free_running_loss":
        return scores["free_running"]["loss"]
    return (scores if sums in scores else scores["alignment"])[sums]


def note_of(name: str, pair: str | None) -> str:
    """Return what has to be known of a measure, for a language pair; of Multi-BLEU, also its tokeniser.

    Example:
        >>> "tok:moses-de-sacremoses" in note_of("Multi-BLEU", "en-de")
        True
    """
    note = measure(name).note
    if name != _MULTI_BLEU:
        return note
    return note.format(tokenizer=f"tok:{MultiBLEU(_language(pair)).tokenizer_signature}")


def check_measures(names: Iterable[str]) -> None:
    """Raise if the package that one of the measures needs is not installed.

    Raises:
        MissingPackageError: names it, and the command that installs it.

    Example:
        >>> check_measures(["BLEU", "Multi-BLEU"])
    """
    if _MULTI_BLEU in names:
        require_moses()


def number(name: str, one: Scored) -> float | None:
    """Return what a run has for a measure, or None.

    Raises:
        UserError: a file of the run is damaged.
    """
    try:
        return float(measure(name).value(one))
    except UserError:
        raise
    except (OverflowError, KeyError, TypeError, ValueError, StopIteration, ZeroDivisionError):
        return None
