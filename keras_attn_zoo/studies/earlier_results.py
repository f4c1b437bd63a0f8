"""What the results in a folder have of earlier calls, which those of a comparison gather."""

import contextlib
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_attn_zoo.evaluation.text_scores import how_scored
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.runs.score_data import without_outdated
from keras_attn_zoo.runs.system import check_settings
from keras_attn_zoo.studies.comparison import Recipe, Run, check_seed, run_name
from keras_attn_zoo.studies.scales import SCALES
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import kind_of, read_record, shown
from keras_attn_zoo.support.setting_types import shown_value

_LOG = logging.getLogger(__name__)
_NAME = re.compile(r"(?!\.\.?$)[^/\\\0]{1,255}")
# Where a setting begins in the name of a run.
_SETTING = re.compile(r"-(?=[a-z][a-z_]*(?:\.\w+)?=)")
FILE = "results.json"
# Of the file: the runs of its tables, and those that were left out of them.
RUNS, LEFT_OUT = "runs", "left_out"


def title_of(out: Path) -> str | None:
    """Return the title of the results in a folder, or None; say so if they are damaged."""
    title = read_record(out / FILE).get("title")
    if kind_of(file := out / FILE) is not None and not isinstance(title, str):
        _LOG.warning("%s is damaged and is written anew, with the runs of this call alone", shown(file))
    return title if isinstance(title, str) else None


def scale_of(out: Path) -> str | None:
    """Return the scale of the results in a folder, or None."""
    scale = read_record(out / FILE).get("scale")
    return scale if isinstance(scale, str) and scale in SCALES else None


def systems_of(out: Path) -> list[str]:
    """Return the names of the systems that the results in a folder are of, in their order."""
    return list(dict.fromkeys(one["system"] for one in records_of(out)))


def baseline_of(out: Path) -> str | None:
    """Return the name of the system that the results in a folder compare others with, or None."""
    named = (one.get("baseline_system") for one in records_of(out))
    return next((name for name in named if isinstance(name, str)), None)


def records_of(out: Path) -> list[dict[str, Any]]:
    """Return the runs of the results in a folder, those that were left out at the end."""
    content = read_record(out / FILE)
    lists = (found for key in (RUNS, LEFT_OUT) if isinstance(found := content.get(key), list))
    wanted = {"run": str, "system": str, "settings": dict}
    return [
        one
        for found in lists
        for one in found
        if isinstance(one, dict) and all(isinstance(one.get(key), kind) for key, kind in wanted.items())
        # The file may be anybody's: a run is in this folder.
        if _NAME.fullmatch(one["run"])
    ]


def left_out_of(out: Path, records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return what the results in a folder have of runs there that new records lack: later ones may gather it."""
    names = {one["run"] for one in records}
    return [one for one in records_of(out) if one["run"] not in names and kind_of(out / one["run"]) == "folder"]


def in_order(earlier: Iterable[str], asked: Iterable[str]) -> list[str]:
    """Return the names of earlier calls with those of this one behind them; if it has them all, in its own order.

    Example:
        >>> in_order(["a", "b"], ["c", "a"]), in_order(["a", "b"], ["b", "a"])
        (['a', 'b', 'c'], ['b', 'a'])
    """
    earlier, asked = list(earlier), list(asked)
    return list(dict.fromkeys([*asked, *earlier] if set(earlier) <= set(asked) else [*earlier, *asked]))


def names_of(out: Path, systems: Iterable[str]) -> list[str]:
    """Return the names of the scored runs of systems in a folder, of any seed and any values of a grid.

    Those of a system stand together, and within it those of all seeds.
    """
    names: list[str] = []
    every = [*out.iterdir()] if kind_of(out) == "folder" else []
    for system in systems:
        runs = [RunFolder(one) for one in every if _SETTING.split(one.name)[0] == system]
        own = [run.path.name for run in runs if run.holds_run and kind_of(run.scores) is not None]
        names += sorted(own, key=lambda name: (name.partition("-seed=")[0], len(name), name))
    return names


def merged_runs(asked: Sequence[Run], out: Path, recipe: Recipe, others: Iterable[str] = ()) -> list[Run]:
    """Return the runs of a call, and with them those of the results in their folder; name those that are left out.

    Args:
        asked, out: the runs of the call, and the folder.
        recipe: the comparison, which says what each run is compared with.
        others: names of further runs there, which no results need to have.
    """
    # One for each test text.
    earlier = {one["run"]: one for one in records_of(out)}
    for name in others:
        system, *settings = _SETTING.split(name)
        earlier.setdefault(name, {"system": system, "settings": dict(one.split("=", 1) for one in settings)})
    found = {run.name: run for run in asked}
    known = [*earlier, *found]
    for name, one in earlier.items():
        if name not in found:
            try:
                found[name] = _run(out / name, one, recipe, known)
            except UserError as error:
                _LOG.warning("the results leave out %s: %s", shown(name), error)
    names = in_order(filter(found.__contains__, earlier), (run.name for run in asked))
    return [found[name] for name in names]


def _run(folder, record, recipe, known):
    """The run of a record, as its folder has it; what else the call said that trained it is not known any more."""
    entry, run, system = record["system"], RunFolder(folder), None
    if not run.holds_run:
        raise UserError("there is no run in its folder")
    with contextlib.suppress(UserError):
        system = run.system() if "test" in run.read_scores() else None
    if system is None:
        raise UserError("it is damaged")
    check_seed(folder, system.seed)
    if entry not in recipe.entries:
        raise UserError(f"this comparison has no system {shown_value(entry)}")
    # A name may have a checksum of the value, which is none itself.
    settings, own = dict(record["settings"]), system.values
    same = {
        key
        for key in settings.keys() & own.keys()
        if run_name("", {key: own[key]}) == run_name("", {key: settings[key]})
    }
    settings = check_settings({key: value for key, value in settings.items() if key not in same})
    settings |= {key: own[key] for key in same}
    without = {key: value for key, value in settings.items() if key != "seed"}
    point = next((one for one in (without, settings) if run_name(entry, one) == folder.name), None)
    if point is None:
        raise UserError("its name is not that of its settings")
    baseline = record.get("baseline")
    if record.get("baseline_system") != recipe.entries[entry].baseline or baseline not in known:
        baseline = _baseline(entry, system, point, recipe)
    return Run(folder.name, entry, system, point, baseline)


def _baseline(entry, system, point, recipe):
    """The name of the run that another is compared with: the same values, as far as the baseline has the settings."""
    own, name = recipe.entries[entry].system, recipe.entries[entry].baseline
    if name is None:
        return None
    known, its = own.values, recipe.entries[name].system
    # Its output and its mechanisms decide which settings it has: those that were changed here were changed there.
    changed = {key: value for key, value in system.values.items() if value != known.get(key)}
    for key in {one.partition(".")[0] for one in point if "." in one} & changed.keys():
        # An argument that is a value of the grid makes no other mechanism.
        if _mechanism(changed[key]) == _mechanism(known.get(key)):
            del changed[key]
    if system.seed == own.seed:
        point = {**point, "seed": system.seed}
    has = its.applicable_settings({**changed, **point})
    return run_name(name, {key: has[key] for key in point if key in has and (key, has[key]) != ("seed", its.seed)})


def _mechanism(value):
    """The name of a mechanism that has arguments or none."""
    return value.get("attention") if isinstance(value, dict) else value


def comparable(folders: Sequence[Path], asked: Sequence[Path], name: str) -> list[Path]:
    """Return the run folders that were scored on the same text in the same way; the others are named.

    Args:
        folders: run folders.
        asked: those of them that were asked for, the first of which says what text and what way. One whose
            translations are missing is kept.
        name: name of the scores.
    """
    scored = [folder for folder in folders if name in RunFolder(folder).read_scores()]
    for folder in scored[:]:
        if name not in without_outdated(RunFolder(folder).read_scores()):
            _LOG.warning(
                "the results of %r leave out %s, which was trained further since: score it again", name, folder.name
            )
            scored.remove(folder)
    how = {folder: _how(folder, name) for folder in scored}
    first = sorted(scored, key=lambda folder: folder not in asked)
    wanted = next((how[folder] for folder in first if how[folder] is not None), None)
    kept = [one for one in scored if (one in asked if how[one] is None else how[one] == wanted)]
    for folder in scored:
        if folder not in kept:
            which = "the results" if name == "test" else f"the results of {name!r}"
            _LOG.warning("%s leave out %s: it was scored on another text, or otherwise", which, folder.name)
    return kept


def _how(folder, name):
    """On what, and how, a run was scored; None if its translations are not there."""
    run = RunFolder(folder)
    with contextlib.suppress(UserError):
        return run.read_translations(name)[1], how_scored(run.read_scores()[name]["text"])
    return None
