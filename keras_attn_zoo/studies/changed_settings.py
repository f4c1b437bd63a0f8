"""In which settings the runs of a comparison differ from its systems, as they are at its scale."""

from collections.abc import Collection, Iterable
from typing import Any, TypeAlias

from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.runs.system import System
from keras_attn_zoo.studies.comparison import Recipe
from keras_attn_zoo.studies.equal_parameters import WIDTHS
from keras_attn_zoo.studies.paper_cells import Runs
from keras_attn_zoo.studies.tuned_values import tuned_values
from keras_attn_zoo.support.escapes import in_markdown

# By setting: names of runs or systems, by the value of the comparison's system and that of the run.
Changes: TypeAlias = dict[str, dict[tuple[str, str], list[str]]]


def changes(pairs: Iterable[tuple[str, System, System]]) -> Changes:
    """Return in what systems differ from those that they were made of.

    Args:
        pairs: the name, the original, and what was made of it.

    Example:
        >>> one = System("a", {})
        >>> changes([("a", one, one.override(beams=4))])
        {'beams': {('5', '4'): ['a']}}
    """
    found: Changes = {}
    for name, theirs, own in pairs:
        known, values = ({**one.values, "precision": one.precision} for one in (theirs, own))
        for key in values.keys() & known.keys():
            if values[key] != known[key]:
                names = found.setdefault(key, {}).setdefault((_shown(known[key]), _shown(values[key])), [])
                names.append(name)
    return dict(sorted(found.items()))


def changes_of(runs: Runs) -> Changes:
    """Return in what the scored runs of a recipe, those of all language pairs, differ from its systems."""
    original = runs.recipe.original or runs.recipe
    tuned = {name for one in tuned_values(runs.out).values() for name in one["values"]}

    def every():
        for pair in runs.pairs:
            for entry, its in original.for_pair(pair).at_scale(runs.recipe.scale).entries.items():
                for folder in runs.folders(pair, entry):
                    yield f"`{entry}`", its.system, RunFolder(folder).system()

    return without_computed(changes(every()), original, tuned)


def without_computed(found: Changes, recipe: Recipe, tuned: Collection[str] = ()) -> Changes:
    """Return changes without those that a comparison makes: values that were tuned, and widths of `equal_runs`."""
    computed = {*tuned, *(() if recipe.equal_to is None else WIDTHS.values())}
    return {name: one for name, one in found.items() if name not in computed}


def changes_line(found: Changes, every: Collection[str] = (), scale: str | None = "") -> str:
    """Return the settings in a line; empty if there are none.

    Args:
        found: the settings.
        every: all names; where a change is not of all of them, those that it is of stand beside it.
        scale: the scale of the systems; None as published.

    Example:
        >>> changes_line({"beams": {("5", "4"): ["`a`"]}})
        'Settings changed: beams=4 (5).'
        >>> changes_line({"beams": {("5", "4"): ["`a`"]}}, ["`a`", "`b`"], "small")
        "Settings changed, the recipe's at the scale small in parentheses: beams=4 (5; `a`)."
    """
    parts = []
    for key, values in found.items():
        of = []
        for (theirs, own), names in values.items():
            some = "" if {*every} <= {*names} else f"; {', '.join(dict.fromkeys(names))}"
            of.append(f"{own} ({theirs}{some})")
        parts.append(f"{key}={' or '.join(dict.fromkeys(of))}")
    at_scale = f" at the scale {scale}" if scale else ""
    recipe = f", the recipe's{at_scale} in parentheses" if every else ""
    return in_markdown(f"Settings changed{recipe}: {', '.join(parts)}.") if parts else ""


def _shown(value: Any) -> str:
    """A value of a setting as a cell."""
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else f"{value}"
