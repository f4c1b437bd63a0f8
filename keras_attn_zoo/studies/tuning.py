"""Tuning: each system of a comparison gets the values of some settings with which its validation loss is lowest."""

import dataclasses
from collections.abc import Collection, Iterable
from pathlib import Path

from keras_attn_zoo.devices import agreed
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.studies.comparison import Run, run_name
from keras_attn_zoo.studies.tuned_values import chosen_name, keep_tuned_values, tuned_values
from keras_attn_zoo.support.files import kind_of
from keras_attn_zoo.training.run_log import read_log


@dataclasses.dataclass(frozen=True)
class Candidates:
    """The runs of a system that differ in their seed and in the values of tuned settings alone.

    Attributes:
        name: what the names of their folders share.
        runs: all of them, those of the first seed too.
    """

    name: str
    runs: list[Run]

    @property
    def is_choice(self) -> bool:
        """Whether the system has any of the settings; if not, all runs are kept."""
        return any(name in run.point for run in self.runs for name in run.tuned)

    @property
    def first(self) -> list[Run]:
        """The runs of the first seed, of which one is chosen."""
        return [run for run in self.runs if run.system.seed == self.runs[0].system.seed]

    @property
    def count(self) -> int:
        """How many are trained: all of the first seed, and one of each other."""
        return len(self.first) + len(self._alike(_named(self.first[0]))) - 1

    def choose(self, out: Path, without: Collection[str] = ()) -> list[Run]:
        """Return the runs of all seeds with the values of the lowest validation loss, and keep a record of these.

        Args:
            out: the folder of the runs.
            without: names of those that failed. If all have, nothing is chosen.
        """
        if not self.is_choice:
            return self.runs
        losses = agreed(
            {run.name: None if run.name in without else validation_loss(out / run.name) for run in self.first}
        )
        known = {name: loss for name, loss in losses.items() if loss is not None}
        if not known:
            return []
        lowest = min(known, key=known.__getitem__)
        best = next(run for run in self.first if run.name == lowest)
        values = {name: best.point[name] for name in best.tuned if name in best.point}
        of_names = {_named(run): losses[run.name] for run in self.first}
        keep_tuned_values(out, {self.name: {"run": _named(best), "values": values, "validation_loss": of_names}})
        return self._alike(_named(best))

    def chosen(self, out: Path) -> list[Run]:
        """Return the same by the record of an earlier call; none if there is no such record."""
        return self._alike(tuned_values(out).get(self.name, {}).get("run")) if self.is_choice else self.runs

    def planned(self, out: Path) -> list[Run]:
        """Return what is to be trained: of further seeds, if nothing has been chosen yet, one that stands for each."""
        first, chosen = self.first, self.chosen(out)
        if chosen:
            done = tuned_values(out).get(self.name, {}).get("validation_loss", {})
            others = [run for run in first if self.is_choice and run not in chosen and _named(run) not in done]
            return [*others, *chosen]
        later = (run for run in self._alike(_named(first[0])) if run not in first)
        return [*first, *(dataclasses.replace(run, name=_of_best(run)) for run in later)]

    def _alike(self, name: str | None) -> list[Run]:
        return [run for run in self.runs if _named(run) == name]


def _of_best(run: Run) -> str:
    """What a run is called whose values are yet to be chosen."""
    return run_name(run.entry, {key: "best" if key in run.tuned else one for key, one in run.point.items()})


def _named(run: Run, without: Collection[str] = ()) -> str:
    """The name of a run without its seed and some settings."""
    return run_name(run.entry, {key: one for key, one in run.point.items() if key not in ("seed", *without)})


def candidates(runs: Iterable[Run]) -> list[Candidates]:
    """Return the runs of a comparison in groups, of each of which those with the best values are kept.

    Example:
        >>> from keras_attn_zoo.runs.system import System
        >>> system, name = System("a", {}), "dropout"
        >>> runs = [Run(f"a-{name}={rate}", "a", system, {name: rate}, tuned=(name,)) for rate in (0.1, 0.3)]
        >>> [[run.name for run in one.runs] for one in candidates(runs)]
        [['a-dropout=0.1', 'a-dropout=0.3']]
    """
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(_named(run, run.tuned), []).append(run)
    return [Candidates(name, group) for name, group in groups.items()]


def validation_loss(folder: Path) -> float | None:
    """Return the lowest validation loss of a run, that of the round that is kept; None if it has none."""
    log = RunFolder(folder).log
    lines = read_log(log) if kind_of(log) is not None else []
    return min((loss for line in lines if (loss := line.get("val_loss")) is not None), default=None)


def with_chosen_values(runs: Iterable[Run], asked: Collection[str], out: Path) -> list[Run]:
    """Return runs compared with baselines of the values that were chosen, less those of values that were not.

    Args:
        runs: the runs.
        asked: names of those that stay whatever was chosen.
        out: the folder of the runs.
    """
    return [
        dataclasses.replace(run, baseline=run.baseline and chosen_name(out, run.baseline))
        for run in runs
        if run.name in asked or chosen_name(out, run.name) == run.name
    ]
