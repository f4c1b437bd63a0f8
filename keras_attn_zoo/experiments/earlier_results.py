"""What the results in a folder have of earlier calls, which those of a comparison gather."""

import contextlib
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_attn_zoo.errors import UserError
from keras_attn_zoo.evaluation.text_scores import how_scored
from keras_attn_zoo.experiments.comparison import Recipe, Run, expand
from keras_attn_zoo.experiments.run_folder import RunFolder
from keras_attn_zoo.experiments.scales import SCALES
from keras_attn_zoo.files import kind_of, read_json, shown

_LOG = logging.getLogger(__name__)
_NAME = re.compile(r"(?!\.\.?$)[^/\\\0]{1,200}")
FILE = "results.json"
# Of the file: the runs of its tables, and those that were left out of them.
RUNS, LEFT_OUT = "runs", "left_out"


def _content(out: Path) -> dict[str, Any]:
    """Return what the file in a folder has; nothing if there is none, or it is damaged."""
    found = None
    if kind_of(file := out / FILE) == "file":
        with contextlib.suppress(UserError):
            found = read_json(file)
    return found if isinstance(found, dict) else {}


def title_of(out: Path) -> str | None:
    """Return the title of the results in a folder, or None; say so if they are damaged."""
    title = _content(out).get("title")
    if kind_of(file := out / FILE) is not None and not isinstance(title, str):
        _LOG.warning("%s is damaged and is written anew, with the runs of this call alone", shown(file))
    return title if isinstance(title, str) else None


def scale_of(out: Path) -> str | None:
    """Return the scale of the results in a folder, or None."""
    scale = _content(out).get("scale")
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
    content = _content(out)
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
    """Return what the results in a folder have of other runs there than those of new records: later ones may gather it.

    Args:
        out: the folder.
        records: the new ones.
    """
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


def gathered(asked: Sequence[Run], out: Path, recipe: Recipe) -> list[Run]:
    """Return the runs of a call, and with them those of the results in their folder.

    Args:
        asked: the runs of the call.
        out: the folder.
        recipe: the comparison, which says what each run is compared with.
    """
    # One for each test text.
    earlier = {one["run"]: one for one in records_of(out)}
    found = {run.name: run for run in asked}
    for name, one in earlier.items():
        if name not in found and (run := _run(one, recipe)) is not None and _is_scored(out / name):
            found[name] = run
    names = in_order(filter(found.__contains__, earlier), (run.name for run in asked))
    return [found[name] for name in names]


def _run(record, recipe):
    """The run of a record; None if the comparison does not know it, or its name is not that of its settings."""
    name, settings = record["system"], record["settings"]
    try:
        both = [name, recipe.entries[name].baseline]
        entries = {one: recipe.entries[one] for one in both if one is not None}
        grid = {key: [value] for key, value in settings.items() if key != "seed"}
        run = next(run for run in expand(entries, {}, grid, [settings["seed"]]) if run.entry == name)
    except (UserError, KeyError, TypeError, ValueError):
        return None
    return run if run.name == record["run"] else None


def _is_scored(folder):
    """Whether a run of an earlier call is there, and whole as far as tables need it."""
    run = RunFolder(folder)
    with contextlib.suppress(UserError):
        return run.holds_run and "test" in run.read_scores() and run.system() is not None
    _LOG.warning("the results leave out %s, which is damaged", shown(folder))
    return False


def comparable(folders: Sequence[Path], asked: Sequence[Path], name: str) -> list[Path]:
    """Return the run folders that were scored on the same text in the same way; those that were asked for in any case.

    Args:
        folders: run folders.
        asked: those of them that were asked for, which say what text and what way.
        name: name of the scores.
    """
    scored = [folder for folder in folders if name in RunFolder(folder).read_scores()]
    if set(scored) <= set(asked):
        return scored
    how = {folder: _how(folder, name) for folder in scored}
    wanted = [how[folder] for folder in scored if folder in asked] or [next(filter(None, how.values()), None)]
    kept = [one for one in scored if one in asked or (how[one] is not None and all(how[one] == its for its in wanted))]
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
