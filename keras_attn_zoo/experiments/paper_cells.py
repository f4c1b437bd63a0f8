"""What stands in the cells of a paper's tables: numbers of the runs in a folder, and their significance."""

import dataclasses
import re
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from keras_attn_zoo.evaluation.text_scores import compare_systems, how_scored
from keras_attn_zoo.experiments.comparison import Recipe
from keras_attn_zoo.experiments.measures import Scored, measure, number, tested
from keras_attn_zoo.experiments.paper_tables import Cell, PaperTable
from keras_attn_zoo.experiments.run_folder import RunFolder
from keras_attn_zoo.experiments.table import Result
from keras_attn_zoo.files import kind_of

# Where gold alignments were not given, those of the test text take their place.
_INSTEAD = {"gold": "test"}


@dataclasses.dataclass(frozen=True)
class Value:
    """Our number in a cell.

    Attributes:
        numbers: one for each seed; of several language pairs, their mean alone.
        p_values: of the comparison with the baseline's run of the same seed; empty if there is none.
        better: for each of these, whether it is better than the baseline's.
        difference: from the baseline, on average over seeds; None without a baseline.
    """

    numbers: list[float]
    p_values: list[float] = dataclasses.field(default_factory=list)
    better: list[bool] = dataclasses.field(default_factory=list)
    difference: float | None = None

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        return statistics.fmean(self.numbers)

    @property
    def spread(self) -> float | None:
        """The standard deviation over seeds, of a sample (n - 1); None for one seed."""
        return statistics.stdev(self.numbers) if len(self.numbers) > 1 else None

    def differs(self, level: float, better: bool = False) -> bool:
        """Whether every seed's run differs from the baseline's, p < `level`, in the same direction, or is better."""
        alike = all(self.better) if better else len(set(self.better)) == 1
        return bool(self.p_values) and alike and all(p < level for p in self.p_values)


class Runs:
    """The runs of a recipe that stand in a folder, those of all language pairs and seeds.

    Args:
        recipe: a `Recipe`.
        out: the folder; runs of another pair than the first are in a folder of that name.
        test: "bootstrap" or "randomization", see `compare_systems`.
        results: of runs that were compared before, which is not done again.

    Attributes:
        without: baselines that were not scored, or on another text, by the names of those that miss them.
    """

    def __init__(self, recipe: Recipe, out: Path, test: str, results: Iterable[Result] = ()) -> None:
        self.recipe, self.out, self.test = recipe, out, test
        self.without: dict[str, str] = {}
        self._scores: dict[Path, dict[str, Any]] = {}
        self._folders: dict[tuple[str | None, str], dict[str, Path]] = {}
        self._numbers: dict[tuple[Path, str, str, Path | None], float | None] = {}
        self._p_values: dict[tuple[Path, Path, str, tuple[str, str]], float] = {}
        for one in results:
            if one.baseline is not None:
                for metric, found in one.against.items():
                    self._keep(one.folder, one.baseline, one.name, (metric, None), found.p_value)

    @property
    def pairs(self) -> list[str | None]:
        """The language pairs of which a run was scored."""
        pairs: list[str | None] = [*self.recipe.pairs]
        return [pair for pair in pairs or [None] if any(self._scored(pair, entry) for entry in self.recipe.entries)]

    def value(self, table: PaperTable, cell: Cell) -> Value | None:
        """Return what stands in a cell; None if it was not run."""
        if not cell.entry:
            return None
        pairs = self.pairs_of(cell)
        if len(pairs) == 1:
            return self._value(table, cell, pairs[0])
        found = [self._value(table, cell, pair) for pair in pairs]
        whole = [one for one in found if one is not None]
        if len(whole) < len(pairs):
            return None
        differences = [one.difference for one in whole if one.difference is not None]
        difference = statistics.fmean(differences) if len(differences) == len(pairs) else None
        return Value([statistics.fmean(one.mean for one in whole)], difference=difference)

    def pairs_of(self, cell: Cell) -> tuple[str | None, ...]:
        """Return the language pairs of a cell; None if the recipe has none."""
        return cell.pairs or (self.recipe.first_pair,)

    def _value(self, table, cell, pair):
        folders, split = self._scored(pair, cell.entry), cell.split
        baseline = self.baseline(table, cell.entry)
        others = self._scored(pair, baseline or cell.entry)
        numbers, p_values, better, differences = [], [], [], []
        for seed, folder in folders.items():
            other = others.get(seed)
            found = self._number(folder, split, cell.measure, other, pair)
            if found is None:
                continue
            numbers.append(found)
            against = None if other in (None, folder) else self._number(other, split, cell.measure, other, pair)
            if against is None:
                continue
            differences.append(found - against)
            wanted = measure(cell.measure)
            p_value = wanted.test and self._p_value(folder, other, split, tested(wanted, pair))
            if p_value is not None:
                p_values.append(p_value)
                better.append(wanted.sign * differences[-1] > 0)
        if not numbers:
            return None
        # Of some seeds alone it would be another comparison.
        whole = len(p_values) == len(numbers)
        if not whole and baseline is not None and measure(cell.measure).test is not None:
            self.without[f"{cell.entry}{f' ({pair})' if pair != self.recipe.first_pair else ''}"] = baseline
        return Value(
            numbers,
            p_values if whole else [],
            better if whole else [],
            statistics.fmean(differences) if len(differences) == len(numbers) else None,
        )

    def baseline(self, table: PaperTable, entry: str) -> str | None:
        """Return the name of the system that another is compared with in a table, or None."""
        own = self.recipe.entries[entry].baseline if table.baseline is None else table.baseline
        return None if own == entry else own

    def scored(self, entry: str) -> RunFolder | None:
        """Return the first run of a system on the first language pair that was scored, or None."""
        return next(map(RunFolder, self._scored(self.recipe.first_pair, entry).values()), None)

    def _scored(self, pair, entry):
        """The folders of a system's runs that were scored, by what their names say of the seed."""
        key = pair, entry
        if key not in self._folders:
            named, place = re.compile(rf"{re.escape(entry)}((?:-seed=\d+)?)"), self.recipe.folder_of(self.out, pair)
            found = {}
            for folder in sorted(place.iterdir()) if kind_of(place) == "folder" else ():
                if (name := named.fullmatch(folder.name)) and "test" in self._read(folder):
                    found[name[1]] = folder
            self._folders[key] = dict(sorted(found.items(), key=lambda one: (len(one[0]), one[0])))
        return self._folders[key]

    def _read(self, folder):
        if folder not in self._scores:
            self._scores[folder] = RunFolder(folder).read_scores()
        return self._scores[folder]

    def _split(self, folder, split):
        """The name of the scores that stand for a split in a run."""
        return split if split in self._read(folder) else _INSTEAD.get(split, split)

    def _number(self, folder, split, name, other, pair):
        own = self._split(folder, split)
        if own not in self._read(folder):
            return None
        key = folder, own, name, other
        if key not in self._numbers:
            baseline = self._read(other).get(own) if other is not None else None
            scored = Scored(RunFolder(folder), own, self._read(folder)[own], baseline, pair)
            self._numbers[key] = number(name, scored)
        return self._numbers[key]

    def _p_value(self, folder, other, split, test):
        """The p-value of a run against its baseline's; None if they were scored on different texts."""
        split = self._split(folder, split)
        if (folder, other, split, test) not in self._p_values:
            metric, tokenize = test
            translations, references = RunFolder(folder).read_translations(split)
            of_other, wanted = RunFolder(other).read_translations(split)
            how, of_baseline = (how_scored(self._read(one)[split]["text"]) for one in (folder, other))
            if references != wanted or how != of_baseline:
                return None
            if tokenize is not None:
                how["tokenize"] = tokenize
            first, *more = wanted
            systems = {"": of_other, "ours": translations}
            found = compare_systems("", systems, first, metric, test=self.test, more_references=more, **how)
            self._keep(folder, other, split, test, found["ours"][metric].p_value)
        return self._p_values[folder, other, split, test]

    def _keep(self, folder, other, split, test, p_value):
        self._p_values[folder, other, split, test] = p_value
