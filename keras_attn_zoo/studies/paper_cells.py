"""The contents of the cells of a paper's tables: numbers of the runs in a folder, and their significance."""

import dataclasses
import itertools
import logging
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keras_attn_zoo.evaluation.significance import SEED
from keras_attn_zoo.evaluation.text_scores import how_scored
from keras_attn_zoo.evaluation.training_comparison import (
    LEAST_SEEDS,
    TrainingComparison,
    compare_trainings,
    resampled_scores,
)
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.runs.score_data import how_searched, without_outdated
from keras_attn_zoo.runs.sentence_counts import counted
from keras_attn_zoo.runs.timing_data import BESIDE_OTHER_WORK, timed_together
from keras_attn_zoo.studies.comparison import Recipe, check_seed, folders_by_seed
from keras_attn_zoo.studies.measures import Scored, measure, number, ratio_of, step_of, tested
from keras_attn_zoo.studies.paper_tables import DECIMALS, Cell, PaperTable, cells_of
from keras_attn_zoo.studies.scores_by_length import LEAST_SENTENCES
from keras_attn_zoo.studies.table import LEAST_BLEU, Result
from keras_attn_zoo.studies.text_names import part_name, text_name
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import kind_of, read_json, shown

_LOG = logging.getLogger(__name__)
# Where gold alignments were not given, those of the test text take their place.
_INSTEAD = {"gold": "test"}
_UNTESTED = "these are compared without a test"
# How many texts are drawn of a test text.
SAMPLES = 1_000
# Why there is no comparison.
NOT_RUN, NOT_MEASURED, INCOMPARABLE = "not run", "not measured", "trained or scored on different texts"
NO_SENTENCES, SMOKE = "no scores of sentences", "a smoke run"
TIMED_APART = "not timed in one pass"


@dataclasses.dataclass(frozen=True)
class Value:
    """Our number in a cell.

    Attributes:
        numbers: one for each seed; of several language pairs, their mean alone.
        difference: between the means of it and of the baseline, over seeds; None without a baseline.
        comparison: with the baseline; None if too little is known of one of them.
        lacks: what is missing for a comparison, or why there is none; empty if there is one.
        remark: what has to be known of the number; empty for most.
    """

    numbers: list[float]
    difference: float | None = None
    comparison: TrainingComparison | None = None
    lacks: str = ""
    remark: str = ""

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        return statistics.fmean(self.numbers)

    @property
    def spread(self) -> float | None:
        """The standard deviation over seeds, of a sample (n - 1); None for one seed."""
        return statistics.stdev(self.numbers) if len(self.numbers) > 1 else None

    def differs(self, level: float) -> bool:
        """Return whether seeds and sentences show that it differs from the baseline, p < `level`."""
        return self.comparison is not None and self.comparison.p_value < level


class Runs:
    """The runs of a recipe that stand in a folder, those of all language pairs and seeds.

    Args:
        recipe: a `Recipe`.
        out: the folder; runs of another pair than the first are in a folder of that name.
        results: of runs that were compared; those beside them were left out.

    Attributes:
        uncompared: what is missing for a comparison with the baseline, by what has none.
    """

    def __init__(self, recipe: Recipe, out: Path, results: Iterable[Result] = ()) -> None:
        self.recipe, self.out = recipe, out
        self.uncompared: dict[str, str] = {}
        self._scores: dict[Path, dict[str, Any]] = {}
        self._folders: dict[tuple[str | None, str], dict[str, Path]] = {}
        self._descriptions: dict[Path, dict[str, Any]] = {}
        self._numbers: dict[tuple[Path, str, str, Path | None], float | None] = {}
        self._drawn: dict[tuple[Path, str, str], NDArray | None] = {}
        self._kept: set[Path] = {one.folder for one in results}
        self._told: set[str] = set()

    @property
    def pairs(self) -> list[str | None]:
        """The language pairs of which a run was scored."""
        pairs: list[str | None] = [*self.recipe.pairs]
        return [pair for pair in pairs or [None] if any(self._scored(pair, entry) for entry in self.recipe.entries)]

    def texts_of(self, pair: str | None, entry: str) -> list[str]:
        """Return what the training texts of a system's runs on a language pair are called."""
        return list(dict.fromkeys(text_name(self._description(folder)) for folder in self.folders(pair, entry)))

    def tested_on(self, pair: str | None, entry: str) -> list[str]:
        """Return what the test texts of a system's runs on a language pair are called."""
        return list(dict.fromkeys(self._text(folder, "test") for folder in self.folders(pair, entry)))

    def texts_in(self, cell: Cell) -> list[str]:
        """Return what the texts are called that our number in a cell is of."""
        found: dict[str, None] = {}
        part = measure(cell.measure).part
        for pair in self.pairs_of(cell):
            for folder, one in itertools.product(self.folders(pair, cell.entry), self._of_texts(cell, pair)):
                if part:
                    found[part_name(self._description(folder), part)] = None
                elif self._split(folder, one.split) in self._read(folder):
                    found[self._text(folder, one.split)] = None
        return list(found)

    def _text(self, folder, split):
        """What the text is called that stands for a split in a run."""
        name = self._split(folder, split)
        return part_name(self._description(folder), name, self._read(folder)[name].get("origin"))

    def _description(self, folder):
        if folder not in self._descriptions:
            self._descriptions[folder] = RunFolder(folder).corpus()
        return self._descriptions[folder]

    def steps_of(self, cell: Cell) -> list[int]:
        """Return after how many steps our number in a cell was measured, if that was during training."""
        folders = (folder for pair in self.pairs_of(cell) for folder in self.folders(pair, cell.entry))
        steps = (step_of(cell.measure, Scored(RunFolder(one), "test", self._read(one)["test"])) for one in folders)
        return list(dict.fromkeys(step for step in steps if step is not None))

    def value(self, cell: Cell, against: Cell | None = None) -> Value | None:
        """Return what stands in a cell; None if it was not run.

        Args:
            cell: the cell.
            against: another, whose number it is compared with, seed by seed.
        """
        if not cell.entry:
            return None
        found = [self._value(cell, against, pair) for pair in self.pairs_of(cell)]
        if len(found) == 1:
            return found[0]
        whole = [one for one in found if one is not None]
        if len(whole) < len(found):
            return None
        differences = [one.difference for one in whole if one.difference is not None]
        difference = statistics.fmean(differences) if len(differences) == len(found) else None
        remark = next(filter(None, (one.remark for one in whole)), "")
        return Value([statistics.fmean(one.mean for one in whole)], difference=difference, remark=remark)

    def pairs_of(self, cell: Cell) -> tuple[str | None, ...]:
        """Return the language pairs that a cell is of."""
        return cell.pairs or (self.recipe.first_pair,)

    def _value(self, cell, against, pair):
        if against is not None and _same(cell, against):
            against = None
        folders = self._scored(pair, cell.entry)
        others = folders if against is None else self._scored(pair, against.entry)
        parts = self._of_texts(cell, pair)
        own = self._means(folders, parts, others, pair)
        if not own:
            return None
        numbers = [*own.values()]
        timings = self._timings(cell, own)
        if against is None:
            return Value(numbers, remark=_remark(timings))
        of_against = self._of_texts(against, pair)
        its = self._means(others, of_against, others, pair)
        if cell.entry == against.entry:
            # Two scores of the same trainings, of those that have both.
            own, its = ({folder: side[folder] for folder in own if folder in its} for side in (own, its))
            numbers = [*own.values()] or numbers
        sides = [(cell, own, parts), (against, its, of_against)]
        difference, comparison, lacks = self._compared(pair, *sides)
        if lacks and measure(cell.measure).seeded:
            name = f"{cell.entry}{f' ({pair})' if pair != self.recipe.first_pair else ''}"
            self.uncompared[f"{cell.measure} of {name}" if lacks == NO_SENTENCES else name] = lacks
        remark = _remark(timings + self._timings(against, its))
        return Value(numbers, difference, comparison, lacks, remark)

    def _timings(self, cell, folders):
        """What the passes found that times in a cell are read from; nothing for other measures."""
        found = (RunFolder(folder).read_timing() for folder in folders) if measure(cell.measure).timed else ()
        return list(filter(None, found))

    def _compared(self, pair, *sides):
        """The difference between both sides, their comparison, and what is missing for one."""
        (cell, own, parts), (against, its, of_against) = sides
        if not (own and its):
            return None, None, f"{against.entry}: {NOT_MEASURED if self._scored(pair, against.entry) else NOT_RUN}"
        # A mean is not compared with a single text.
        if len(of_against) != len(parts) or not all(
            self._has_same_text(next(iter(own)), *both, next(iter(its))) for both in zip(parts, of_against, strict=True)
        ):
            return None, None, INCOMPARABLE
        difference = statistics.fmean(own.values()) - statistics.fmean(its.values())
        if not measure(cell.measure).seeded:
            together = timed_together(self._timings(cell, own) + self._timings(against, its))
            return (difference, None, "") if together else (None, None, TIMED_APART)
        if not self._have_same_references(own, parts, its, of_against):
            return None, None, INCOMPARABLE
        if self.recipe.scale == "smoke":
            return difference, None, SMOKE
        if lacks := "; ".join(dict.fromkeys(filter(None, (self._missing(*side[:2], pair) for side in sides)))):
            return difference, None, lacks
        drawn = [self._texts_drawn(folders, cells, pair) for _, folders, cells in sides]
        if None in drawn:
            return difference, None, NO_SENTENCES
        comparison = compare_trainings([*own.values()], [*its.values()], drawn, paired=[*own] == [*its])
        return difference, comparison, ""

    def _means(self, folders, parts, others, pair):
        """The number of each run of a system, by its folder: the mean of several texts."""
        found = {}
        for seed, folder in folders.items():
            numbers = [self._number(folder, part, others.get(seed), pair) for part in parts]
            if None not in numbers:
                found[folder] = statistics.fmean(numbers)
        return found

    def _missing(self, cell, numbers, pair):
        """What a system lacks for a comparison: seeds, sentences, or translations that are any good."""
        if len(numbers) < LEAST_SEEDS:
            return f"{cell.entry}: {len(numbers)} of {LEAST_SEEDS} seeds"
        scores = self._read(next(iter(numbers)))
        sentences = scores.get(self._split(next(iter(numbers)), cell.split), {}).get("sentences", LEAST_SENTENCES)
        if sentences < LEAST_SENTENCES:
            return f"{cell.entry}: {sentences} of {LEAST_SENTENCES} sentences"
        # A score of no translations, such as AER, is judged by those of the test text.
        split = self.recipe.tests_of(pair)[0] if measure(cell.measure).test is None else cell.split
        bleu = self._value(dataclasses.replace(cell, measure="BLEU", split=split), None, pair)
        if bleu is None or bleu.mean >= LEAST_BLEU or self._is_poor_in_paper(cell, split):
            return ""
        return f"{cell.entry}: BLEU {bleu.mean:.1f}, below {LEAST_BLEU:g}"

    def _is_poor_in_paper(self, cell, split):
        """Whether a paper's own BLEU of a system and a test text is as low."""
        found = [
            DECIMALS.match(one.figure)
            for one in cells_of(self.recipe.tables)
            if (one.entry, one.split, self.pairs_of(one)) == (cell.entry, split, self.pairs_of(cell))
            and one.measure in ("BLEU", "Multi-BLEU")
        ]
        return any(float(figure[0]) < LEAST_BLEU for figure in found if figure)

    def _of_texts(self, cell, pair):
        """A cell of each test text whose mean it is; the first alone if any run of its system lacks one of them."""
        splits = self.recipe.tests_of(pair)
        folders = self.folders(pair, cell.entry)
        if cell.split != splits[0] or not all(split in self._read(one) for one in folders for split in splits):
            return [cell]
        return [dataclasses.replace(cell, split=split) for split in splits]

    def counted_on(self, cell: Cell) -> Cell:
        """Return a cell; of a count of the training text, with another system if its own was not trained on a pair."""
        pairs = self.pairs_of(cell)
        if not (cell.entry and measure(cell.measure).large) or any(self._scored(pair, cell.entry) for pair in pairs):
            return cell
        others = (name for name in self.recipe.entries if any(self._scored(pair, name) for pair in pairs))
        return dataclasses.replace(cell, entry=next(others, cell.entry))

    def is_mean(self, cell: Cell, pair: str | None) -> bool:
        """Return whether a cell is the mean of several test texts of a language pair."""
        return len(self._of_texts(cell, pair)) > 1

    def against(self, table: PaperTable, cell: Cell) -> Cell | None:
        """Return the cell that another is compared with in a table: that of the baseline; None if there is none."""
        if not cell.entry:
            return None
        own = self.recipe.entries[cell.entry].baseline if table.baseline is None else table.baseline
        return None if own in (None, cell.entry) else dataclasses.replace(cell, entry=own)

    def scored(self, entry: str) -> RunFolder | None:
        """Return the first run of a system on the first language pair that was scored, or None."""
        return next(map(RunFolder, self.folders(self.recipe.first_pair, entry)), None)

    def folders(self, pair: str | None, entry: str) -> list[Path]:
        """Return the folders of a system's runs on a language pair that were scored, one for each seed."""
        return list(self._scored(pair, entry).values())

    def _scored(self, pair, entry):
        """The folders of a system's runs that were scored, by what their names say of the seed."""
        key = pair, entry
        if key not in self._folders:
            place = self.recipe.folder_of(self.out, pair)
            compared = {folder for folder in self._kept if folder.parent == place}
            folders = {
                seed: folder
                for seed, folder in folders_by_seed(place, entry).items()
                if "test" in self._read(folder) and (not compared or folder in compared)
            }
            self._folders[key] = _alike(folders) if len(folders) > 1 else folders
        return self._folders[key]

    def _read(self, folder):
        if folder not in self._scores:
            try:
                self._scores[folder] = without_outdated(RunFolder(folder).read_scores())
            except UserError as error:
                _LOG.warning("the paper's tables leave out %s: %s", shown(folder), error)
                self._scores[folder] = {}
        return self._scores[folder]

    def _split(self, folder, split):
        """The name of the scores that stand for a split in a run."""
        return split if split in self._read(folder) else _INSTEAD.get(split, split)

    def _number(self, folder, cell, other, pair):
        own = self._split(folder, cell.split)
        if own not in self._read(folder):
            return None
        key = folder, own, cell.measure, other
        if key not in self._numbers:
            baseline = None if other is None else RunFolder(other)
            scored = Scored(RunFolder(folder), own, self._read(folder)[own], baseline, pair)
            try:
                self._numbers[key] = number(cell.measure, scored)
            except UserError as error:
                self._numbers[key] = None
                self._tell(f"{shown(folder)} has no {cell.measure}: {error}")
        return self._numbers[key]

    def _has_same_text(self, folder, cell, against, other):
        """Whether two runs were trained and scored on the same text, as far as is known, or on two on purpose."""
        trained_on = {RunFolder(one).corpus().get("fingerprint") for one in (folder, other)}
        if len(trained_on - {None}) > 1:
            return False
        if cell.split != against.split:
            return True
        names = self._split(folder, cell.split), self._split(other, against.split)
        sums = [self._read(one)[name].get("text_checksum") for one, name in zip((folder, other), names, strict=True)]
        return len(set(names)) == 1 and (None in sums or len(set(sums)) == 1)

    def _texts_drawn(self, folders, parts, pair):
        """The scores of runs on drawn texts, each the mean of several texts; None if any run has no such scores."""
        every = []
        for folder in folders:
            of_parts = [self._resampled(folder, part, pair) for part in parts]
            if any(one is None for one in of_parts):
                return None
            every.append(np.mean(of_parts, axis=0))
        return every

    def _resampled(self, folder, cell, pair):
        """The scores of a run on texts that are drawn from the sentences of one; None if these are not known."""
        split, wanted = self._split(folder, cell.split), measure(cell.measure)
        key = folder, split, cell.measure
        if key not in self._drawn:
            test, drawn = tested(wanted, pair), None
            if test is not None:
                drawn = self._of_translations(folder, split, *test)
            elif wanted.sums:
                sums = self._sums(folder, split, wanted.sums)
                drawn = None if sums is None else (sums.T, lambda one: wanted.of_ratio(one[0] / one[1]))
            else:
                # Of a training, not of a text.
                drawn = np.zeros((1, 1)), lambda _: 0.0
            scores = None if drawn is None else resampled_scores(*drawn, SAMPLES, SEED)
            self._drawn[key] = scores if scores is not None and np.isfinite(scores).all() else None
        return self._drawn[key]

    def _of_translations(self, folder, split, metric, tokenize):
        """What a metric counts in the translations of a run, and how its score is computed of that; or None."""
        how = how_scored(self._read(folder)[split]["text"])
        how |= {} if tokenize is None else {"tokenize": tokenize}
        try:
            return counted(RunFolder(folder), split, metric, **how)
        except UserError as error:
            self._tell_untested(error)
            return None

    def _have_same_references(self, own, parts, its, of_against):
        """Whether runs were scored against the same references, as far as these are there, in the same way."""
        wanted = measure(parts[0].measure)
        if wanted.test is None and not wanted.sums:
            return True
        for one, other in zip(parts, of_against, strict=True):
            places = [
                (folder, self._split(folder, cell.split))
                for side, cell in ((own, one), (its, other))
                for folder in side
            ]
            found = self._references(*places)
            if found is not None and any(references != found[0] for references in found):
                return False
            how = [how_scored(self._read(folder)[split]["text"]) for folder, split in places if wanted.test is not None]
            if any(one != how[0] for one in how):
                return False
        return True

    def _references(self, *places):
        """References of runs and texts; None if any are missing or damaged, or counts were kept in their place."""
        if any(RunFolder(folder).has_counts_alone(name) for folder, name in places):
            return None
        try:
            return [RunFolder(folder).read_translations(name)[1] for folder, name in places]
        except UserError as error:
            self._tell_untested(error)
            return None

    def _tell_untested(self, error):
        self._tell(f"{str(error).rstrip('.')}; {_UNTESTED}")

    def _tell(self, what):
        """Warn of a damaged file, once for all cells that need it."""
        if what not in self._told:
            _LOG.warning("%s", what)
        self._told.add(what)

    def _sums(self, folder, name, sums):
        """What a run's score of a text is a ratio of, or None; of the score that stands there, not an earlier one."""
        path, scores = RunFolder(folder).sentence_sums(name), self._read(folder)[name]
        try:
            found = read_json(path) if kind_of(path) is not None else {}
            if isinstance(found, dict) and sums not in found:
                return None
            above, below = np.array(found[sums], "float64")
            whole = above.ndim == 1 and len(above) == scores["sentences"] and below.sum() > 0
            fits = whole and np.isclose(above.sum() / below.sum(), ratio_of(scores, sums), rtol=1e-6)
        except (UserError, KeyError, OverflowError, TypeError, ValueError):
            fits = False
        if fits:
            return np.stack([above, below])
        self._tell(f"{shown(path)} is damaged, or of other scores; {_UNTESTED}")
        return None


def interval_text(comparison: TrainingComparison, digits: int) -> str:
    """Return the confidence interval of 95 % of a difference, as it is printed."""
    return " to ".join(_signed(end, digits) for end in comparison.interval())


def _signed(number, digits):
    """A number with its sign, and as many digits as that takes, at most two more: an end at 0 decides."""
    digits = next((some for some in (digits, digits + 1) if round(number, some)), digits + 2)
    return f"{number:+.{digits}f}"


def _alike(folders):
    """Those of a system's runs that differ from the first one in their seed alone, and were scored like it."""
    first, kept, seeds = None, {}, {}
    for seed, folder in folders.items():
        run = RunFolder(folder)
        try:
            check_seed(folder, run.system().seed)
            if (other := seeds.get(run.system().seed)) is not None:
                raise UserError(f"it has the seed of {other}.")
            trained_on = run.corpus().get("fingerprint")
            settings = {**run.system().to_dict(), "seed": None, "name": None}, trained_on
            scores = run.read_scores()["test"]
            references = None if run.has_counts_alone("test") else run.read_translations("test")[1]
            of_text = scores.get("text_checksum") or references, how_scored(scores["text"]), how_searched(scores)
        except UserError as error:
            _LOG.warning("the paper's tables leave out %s: %s", shown(folder), error)
            continue
        seeds[run.system().seed] = folder.name
        first = first or (settings, of_text, folder.name)
        if (settings, of_text) == first[:2]:
            kept[seed] = folder
        else:
            same = [own == its for own, its in zip(settings, first[0], strict=True)]
            why = "was scored on another text, or otherwise," if all(same) else "has other settings"
            why = "was trained on another text" if same == [True, False] else why
            _LOG.warning("the paper's tables leave out %s: it %s than %s", folder.name, why, first[2])
    return kept


def _remark(timings):
    return BESIDE_OTHER_WORK if any(one["beside_other_work"] for one in timings) else ""


def _same(cell, other):
    return all(getattr(cell, name) == getattr(other, name) for name in ("entry", "split", "measure"))
