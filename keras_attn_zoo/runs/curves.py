"""Curves: figures of runs over training steps, and scores over the number of source positions."""

import itertools
import json
import math
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from keras_attn_zoo.runs.run_folder import WITH_TOP_K, RunFolder
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import PathLike, shown
from keras_attn_zoo.training.run_log import read_log

# Each curve's steps and values, by name.
Curves: TypeAlias = dict[str, tuple[list[int], list[float]]]
# The curve of all runs with a latent alignment, in a picture over the numbers that each was trained with.
LATENT = "latent alignment"


def titles(folders: Collection[PathLike]) -> list[str]:
    """Return names of folders for a picture: as many of the last parts of the paths as tell them apart.

    Example:
        >>> titles(["runs/a", "runs/b"])
        ['a', 'b']
        >>> titles(["/data/one/a", "/data/two/a"])
        ['one/a', 'two/a']

    Raises:
        UserError: a folder was given twice.
    """
    # The folder "." has a name too.
    paths = [os.path.abspath(folder).split(os.sep) for folder in folders]
    twice = next((folder for folder, path in zip(folders, paths, strict=True) if paths.count(path) > 1), None)
    if twice is not None:
        raise UserError(f"{shown(twice)} was given twice: leave it out once.")
    by_parts = (["/".join(path[-count:]) for path in paths] for count in itertools.count(1))
    return next(names for names in by_parts if len(set(names)) == len(names))


def curves(folders: Collection[PathLike], key: str = "val_loss") -> Curves:
    """Return the curves of runs, for `plot_curves`: `{name: (steps, values)}`.

    Args:
        folders: run folders.
        key: a figure that the log has for every round, or else for every step.

    Raises:
        UserError: the log of a run has no such figure.
    """
    found = {}
    for folder, name in zip(folders, titles(folders), strict=True):
        run = RunFolder(folder)
        run.check_links()
        log = read_log(run.log)
        rounds = [line for line in log if "round" in line]
        lines = next(filter(None, ([line for line in some if _has(line, key)] for some in (rounds, log))), None)
        if lines is None:
            known = sorted({one for line in log for one in line if _has(line, one)} - {"round", "step"})
            choice = f"choose one of {', '.join(known)}" if rounds else "no round has been completed yet"
            raise UserError(f"the log of {shown(folder)} has no {shown(key)}: {choice}.")
        found[name] = ([line["step"] for line in lines], [line[key] for line in lines])
    return found


def _has(line, key):
    return isinstance(line.get(key), (int, float))


def mean_curve(curves: Sequence[tuple[Sequence[int], Sequence[float]]]) -> tuple[list[int], list[float], list[float]]:
    """Return the steps that all of several curves have, and the mean and the sample standard deviation (n - 1) at each.

    Raises:
        UserError: there is no such step.

    Example:
        >>> mean_curve([([1, 2], [3.0, 2.0]), ([1, 2, 3], [5.0, 2.0, 1.0])])
        ([1, 2], [4.0, 2.0], [1.4142135623730951, 0.0])
    """
    steps = sorted(set.intersection(*(set(own) for own, _ in curves)))
    if not steps:
        raise UserError("the curves of the seeds have no step in common: draw each run alone, without --over-seeds.")
    found = [dict(zip(own, values, strict=True)) for own, values in curves]
    values = np.array([[one[step] for step in steps] for one in found], "float64")
    return steps, values.mean(0).tolist(), values.std(0, ddof=1).tolist()


def seeds_of(names: Iterable[str], folders: Collection[PathLike]) -> dict[str, list[str]]:
    """Return the names of the runs that differ in nothing but the seed, by the name that they share in a picture.

    Args:
        names: of the runs, in the order of their folders.
        folders: the run folders.

    Returns:
        `{name of the first run, and the number of seeds if there are several: names}`.
    """
    groups: dict[str, list[str]] = {}
    for folder, name in zip(folders, names, strict=True):
        run = RunFolder(folder)
        # Runs of earlier versions have no fingerprints of validation and test text, and of subword models.
        text = {**run.corpus(), **dict.fromkeys(("valid_fingerprint", "test_fingerprint", "subwords"))}
        groups.setdefault(json.dumps([{**run.system().to_dict(), "seed": None}, text]), []).append(name)
    return {own[0] if len(own) == 1 else f"{own[0]}, {len(own)} seeds": own for own in groups.values()}


def over_seeds(found: Curves, folders: Collection[PathLike]) -> tuple[Curves, dict[str, list[float]]]:
    """Return the mean of the curves of runs that differ in nothing but the seed, and the standard deviation of each.

    The curves that were found are in the order of the run folders.

    Returns:
        curves by the names of `seeds_of`, and the deviations of those of several seeds.
    """
    means: Curves = {}
    deviations: dict[str, list[float]] = {}
    for shared, names in seeds_of(found, folders).items():
        if len(names) == 1:
            means[shared] = found[shared]
            continue
        steps, values, deviations[shared] = mean_curve([found[name] for name in names])
        means[shared] = steps, values
    return means, deviations


def above_first(
    found: Curves, deviations: Mapping[str, Sequence[float]] | None = None
) -> tuple[Curves, dict[str, list[float]]]:
    """Return how far each curve is above the first, at the steps that both have, and the deviations at these.

    Args:
        found: the curves; the first becomes a line at 0.
        deviations: `{name: deviations}` of some of the curves. They stay those of each curve by itself.

    Raises:
        UserError: a curve has no step in common with the first.

    Example:
        >>> above_first({"a": ([1, 2], [3.0, 2.0]), "b": ([2, 3], [2.5, 1.0])})[0]
        {'a': ([1, 2], [0.0, 0.0]), 'b': ([2], [0.5])}
    """
    first = next(iter(found))
    level = dict(zip(*found[first], strict=True))
    above: Curves = {}
    kept: dict[str, list[float]] = {}
    for name, (steps, values) in found.items():
        shared = [place for place, step in enumerate(steps) if step in level]
        if not shared:
            raise UserError(f"{name} has no step in common with {first}: draw them without --difference.")
        above[name] = [steps[i] for i in shared], [values[i] - level[steps[i]] for i in shared]
        if deviations and name in deviations:
            kept[name] = [deviations[name][i] for i in shared]
    return above, kept


def curves_over_top_k(
    folders: Collection[PathLike], name: str, value: Callable[[RunFolder, str], Any]
) -> tuple[dict[str, tuple[list[int], list[Any]]], dict[float, int | str]]:
    """Return a score of runs over the number of source positions summed over in search, for `plot_curves`.

    Args:
        folders: run folders of latent alignments, scored with several `search_top_k`.
        name: name of the test set; scores named `NAME-kK` are used.
        value: function of a run and the name of its scores that returns a number, or what becomes one.

    Returns:
        curves `{run: (steps, values)}` and ticks `{step: label}`; "all" comes after the largest count.

    Raises:
        UserError: a run was not scored with any count.
    """
    found = {}
    for folder, title in zip(folders, titles(folders), strict=True):
        run = RunFolder(folder)
        own = {
            key: scores["search_top_k"]
            for key, scores in run.read_scores().items()
            if (found_k := WITH_TOP_K.fullmatch(key)) and found_k[1] == name and scores["search_top_k"] is not None
        }
        found[title] = {count: value(run, key) for key, count in own.items()}
        if not found[title]:
            raise UserError(
                f"{folder} was not scored with several --top-k: if it has a latent alignment, evaluate it with --top-k "
                "1 2 3 6 0."
            )
    return _over_counts(found)


def curves_over_trained_top_k(
    folders: Collection[PathLike], name: str, value: Callable[[RunFolder, str], Any]
) -> tuple[dict[str, tuple[list[int], list[Any]]], dict[float, int | str]]:
    """Return a score of runs over the number of source positions that each was trained with, for `plot_curves`.

    A latent alignment becomes a point, any other run a horizontal line. Arguments and results are otherwise those of
    `curves_over_top_k`.

    Raises:
        UserError: a run was not scored on the test set; two runs have the same number; no run has a latent alignment.
    """
    latent, levels = {}, {}
    for folder, title in zip(folders, titles(folders), strict=True):
        run = RunFolder(folder)
        scores, system = run.read_scores(), run.system()
        if name not in scores:
            raise UserError(f"{folder} has not been scored on {name!r}: evaluate it first.")
        if not system.is_latent:
            levels[title] = value(run, name)
            continue
        sizes = system.sizes
        count = sizes["top_k"] if sizes["marginalization"] == "top_k" else 0
        if count in latent:
            raise UserError(
                f"two runs were trained with the same number of positions ({count or 'all'}), the second in {folder}: "
                "give one run per number."
            )
        latent[count] = value(run, name)
    if not latent:
        raise UserError("no run has a latent alignment, so there is nothing to draw: give one that does.")
    return _over_counts({LATENT: latent, **{one: dict.fromkeys(latent, x) for one, x in levels.items()}})


def _over_counts(found):
    """Curves and ticks of `{curve: {count: value}}`; 0, all positions, comes last."""
    counts = sorted({k for values in found.values() for k in values}, key=lambda k: k or math.inf)
    ticks = {step: k or "all" for step, k in enumerate(counts)}
    curves = {
        run: ([step for step, k in enumerate(counts) if k in values], [values[k] for k in counts if k in values])
        for run, values in found.items()
    }
    return curves, ticks
