"""The contents of the cells of a paper's tables: numbers of the runs in a folder, and their significance."""

import dataclasses
import logging
import statistics
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keras_attn_zoo.evaluation.significance import SEED, TESTS, ratio_test
from keras_attn_zoo.evaluation.text_scores import compare_systems, how_scored
from keras_attn_zoo.runs.described_corpora import is_description
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.runs.score_data import how_searched, without_outdated
from keras_attn_zoo.studies.comparison import Recipe, check_seed, folders_by_seed
from keras_attn_zoo.studies.measures import Scored, measure, number, ratio_of, tested
from keras_attn_zoo.studies.paper_tables import Cell, PaperTable
from keras_attn_zoo.studies.table import Result
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import kind_of, read_json, shown

_LOG = logging.getLogger(__name__)
# Where gold alignments were not given, those of the test text take their place.
_INSTEAD = {"gold": "test"}
_UNTESTED = "these are compared without a test"


@dataclasses.dataclass(frozen=True)
class Value:
    """Our number in a cell.

    Attributes:
        numbers: one for each seed; of several language pairs, their mean alone.
        p_values: of the comparison with the baseline's run of the same seed, one for each test text; empty if there is
            none.
        better: for each of these, whether it is better than the baseline's.
        difference: from the baseline, on average over seeds; None without a baseline.
        of_other_text: whether there is none because the baseline was scored on another text.
    """

    numbers: list[float]
    p_values: list[float] = dataclasses.field(default_factory=list)
    better: list[bool] = dataclasses.field(default_factory=list)
    difference: float | None = None
    of_other_text: bool = False

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        return statistics.fmean(self.numbers)

    @property
    def spread(self) -> float | None:
        """The standard deviation over seeds, of a sample (n - 1); None for one seed."""
        return statistics.stdev(self.numbers) if len(self.numbers) > 1 else None

    def differs(self, level: float, better: bool = False) -> bool:
        """Return whether each seed's run differs from the baseline's, p < `level`, in the same direction, or is better.

        Of several test texts, it must be so on each.
        """
        alike = all(self.better) if better else len(set(self.better)) == 1
        return bool(self.p_values) and alike and all(p < level for p in self.p_values)


class Runs:
    """The runs of a recipe that stand in a folder, those of all language pairs and seeds.

    Args:
        recipe: a `Recipe`.
        out: the folder; runs of another pair than the first are in a folder of that name.
        test: "bootstrap" or "randomization", see `compare_systems`.
        results: of runs that were compared before, which is not done again; those beside them were left out.

    Attributes:
        without: baselines that were not scored, or on another text, by the names of those that miss them.
    """

    def __init__(self, recipe: Recipe, out: Path, test: str, results: Iterable[Result] = ()) -> None:
        self.recipe, self.out, self.test = recipe, out, test
        self.without: dict[str, str] = {}
        self._scores: dict[Path, dict[str, Any]] = {}
        self._folders: dict[tuple[str | None, str], dict[str, Path]] = {}
        self._texts: dict[tuple[str | None, str], list[str]] = {}
        self._numbers: dict[tuple[Path, str, str, Path | None], float | None] = {}
        self._p_values: dict[tuple[Path, str, Path, str, tuple[str, str | None]], float | None] = {}
        self._kept: set[Path] = set()
        self._told: set[str] = set()
        for one in results:
            self._kept.add(one.folder)
            if one.baseline is not None:
                for metric, found in one.against.items():
                    key = one.folder, one.name, one.baseline, one.name, (metric, None)
                    self._p_values[key] = found.p_value

    @property
    def pairs(self) -> list[str | None]:
        """The language pairs of which a run was scored."""
        pairs: list[str | None] = [*self.recipe.pairs]
        return [pair for pair in pairs or [None] if any(self._scored(pair, entry) for entry in self.recipe.entries)]

    def texts_of(self, pair: str | None, entry: str) -> list[str]:
        """Return what the training texts of a system's runs on a language pair are called."""
        key = pair, entry
        if key not in self._texts:
            self._texts[key] = list(
                dict.fromkeys(text_name(RunFolder(one).corpus()) for one in self.folders(pair, entry))
            )
        return self._texts[key]

    def tested_on(self, pair: str | None, entry: str) -> list[str]:
        """Return the names of the files of the test texts of a system's runs on a language pair, if they are files."""
        corpora = filter(is_description, (RunFolder(one).corpus() for one in self.folders(pair, entry)))
        every = (one.get("test", []) for one in corpora if isinstance(one.get("test", []), list))
        return list(dict.fromkeys(", ".join(Path(name).name for name in names) for names in every if names))

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
        return Value([statistics.fmean(one.mean for one in whole)], difference=difference)

    def pairs_of(self, cell: Cell) -> tuple[str | None, ...]:
        """Return the language pairs that a cell is of."""
        return cell.pairs or (self.recipe.first_pair,)

    def _value(self, cell, against, pair):
        if against is not None and _same(cell, against):
            against = None
        folders = self._scored(pair, cell.entry)
        others = self._scored(pair, cell.entry if against is None else against.entry)
        numbers, p_values, better, differences, of_other_text = [], [], [], [], False
        wanted, parts = measure(cell.measure), self._of_texts(cell, pair)
        of_against = [] if against is None else self._of_texts(against, pair)
        for seed, folder in folders.items():
            other = others.get(seed)
            found = [self._number(folder, part, other, pair) for part in parts]
            if None in found:
                continue
            numbers.append(statistics.fmean(found))
            # A mean is not compared with a single text.
            if other is None or len(of_against) != len(parts):
                continue
            references = [self._number(other, part, other, pair) for part in of_against]
            if None in references:
                continue
            if not all(self._has_same_text(folder, *both, other) for both in zip(parts, of_against, strict=True)):
                of_other_text = True
                continue
            differences.append(numbers[-1] - statistics.fmean(references))
            for own, its, one, reference in zip(parts, of_against, found, references, strict=True):
                of_test = tested(wanted, pair)
                p_value = (
                    self._p_value_of_sums(folder, own, other, its)
                    if of_test is None
                    else self._p_value(folder, own, other, its, of_test)
                )
                if p_value is not None:
                    p_values.append(p_value)
                    better.append(wanted.sign * (one - reference) > 0)
        if not numbers:
            return None
        # Of some seeds or texts alone it would be another comparison.
        whole = len(p_values) == len(numbers) * len(parts)
        expected = wanted.test is not None or (wanted.sums and len(differences) < len(numbers))
        if not whole and against is not None and expected:
            name = f"{cell.entry}{f' ({pair})' if pair != self.recipe.first_pair else ''}"
            self.without[name] = against.entry
        return Value(
            numbers,
            p_values if whole else [],
            better if whole else [],
            statistics.fmean(differences) if len(differences) == len(numbers) else None,
            of_other_text,
        )

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
            baseline = self._read(other).get(own) if other is not None else None
            scored = Scored(RunFolder(folder), own, self._read(folder)[own], baseline, pair)
            try:
                self._numbers[key] = number(cell.measure, scored)
            except UserError as error:
                self._numbers[key] = None
                self._tell(f"{shown(folder)} has no {cell.measure}: {error}")
        return self._numbers[key]

    def _has_same_text(self, folder, cell, against, other):
        """Whether two runs were scored on the same text, as far as their scores say, or on two on purpose."""
        if cell.split != against.split:
            return True
        names = self._split(folder, cell.split), self._split(other, against.split)
        sums = [self._read(one)[name].get("text_checksum") for one, name in zip((folder, other), names, strict=True)]
        return len(set(names)) == 1 and (None in sums or len(set(sums)) == 1)

    def _p_value(self, folder, cell, other, against, test):
        """The p-value of a run against another's; None if they were scored on different texts."""
        own, others = self._split(folder, cell.split), self._split(other, against.split)
        metric, tokenize = test
        key = folder, own, other, others, test
        if key not in self._p_values:
            both = self._translations((folder, own), (other, others))
            if both is None:
                self._p_values[key] = None
                return None
            (translations, references), (of_other, wanted) = both
            how = how_scored(self._read(folder)[own]["text"])
            if references != wanted or how != how_scored(self._read(other)[others]["text"]):
                return None
            if tokenize is not None:
                how["tokenize"] = tokenize
            first, *more = wanted
            systems = {"": of_other, "ours": translations}
            found = compare_systems("", systems, first, metric, test=self.test, more_references=more, **how)
            self._p_values[key] = found["ours"][metric].p_value
        return self._p_values[key]

    def _translations(self, *places):
        """Translations and references of runs and texts; None if any are missing, or not those that were scored."""
        try:
            return [RunFolder(folder).read_translations(name) for folder, name in places]
        except UserError as error:
            self._tell(f"{str(error).rstrip('.')}; {_UNTESTED}")
            return None

    def _tell(self, what):
        """Warn of a damaged file, once for all cells that need it."""
        if what not in self._told:
            _LOG.warning("%s", what)
        self._told.add(what)

    def _p_value_of_sums(self, folder, cell, other, against):
        """The same for ratios of sums over sentences; None too if a run has no such sums, of the text of its scores."""
        of_own, of_other = measure(cell.measure).sums, measure(against.measure).sums
        if not (of_own and of_other):
            return None
        own_split, other_split = self._split(folder, cell.split), self._split(other, against.split)
        # Measures of the same sums, such as loss and perplexity, share a test.
        key = folder, own_split, other, other_split, (of_own, of_other)
        if key not in self._p_values:
            own, its = self._sums(folder, own_split, of_own), self._sums(other, other_split, of_other)
            # Those of a text with the same sentences left out, as they were too long.
            both = self._translations((folder, own_split), (other, other_split))
            alike = own is not None and its is not None and both is not None and both[0][1] == both[1][1]
            self._p_values[key] = ratio_test(own, its, self.test, TESTS[self.test], SEED) if alike else None
        return self._p_values[key]

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
            of_text = run.read_translations("test")[1], how_scored(scores["text"]), how_searched(scores)
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


def text_name(description: Mapping[str, Any]) -> str:
    """Return what a text is called: its name, or those of its training files.

    Example:
        >>> text_name({"train": ["data/train.de", "data/train.en"], "reverse": False})
        'train.de, train.en'
    """
    if not is_description(description):
        return "unknown"
    if "generated" in description:
        return "the built-in corpus"
    return description["name"] if "name" in description else ", ".join(Path(one).name for one in description["train"])


def _same(cell, other):
    return all(getattr(cell, name) == getattr(other, name) for name in ("entry", "split", "measure"))
