"""The table of what timing passes found of runs."""

import logging
from collections.abc import Collection
from typing import Any

from keras_attn_zoo.runs.curves import titles
from keras_attn_zoo.runs.memory import shown_bytes
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.runs.timing_data import BESIDE_OTHER_WORK, timed_together, translation_seconds
from keras_attn_zoo.studies.tabular import Table
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import PathLike, shown

_LOG = logging.getLogger(__name__)


def timing_table(folders: Collection[PathLike]) -> Table | None:
    """Return times and memory of runs, times also relative to the first run of their pass; None if none was timed."""
    read = zip(titles(folders), map(_read, folders), strict=True)
    found = {name: timing for name, timing in read if timing is not None}
    if not found:
        return None
    rows: list[list[str]] = []
    passes: dict[str, list[str]] = {}
    for name, timing in found.items():
        first, its = next((one, other) for one, other in found.items() if timed_together([timing, other]))
        passes.setdefault(first, []).append(name)
        alike = timing["precision"] == its["precision"]
        mark = f" ({BESIDE_OTHER_WORK})" if timing["beside_other_work"] else ""
        rows.append(
            [
                f"{name}{mark}",
                f"{1000 * timing['step_seconds']:.1f}",
                _ratio(timing["step_seconds"], its["step_seconds"]) if alike else "–",
                f"{timing['tokens_per_second']:.0f}",
                shown_bytes(timing["step_bytes"]) if timing.get("step_bytes") else "–",
                f"{translation_seconds(timing):.2f}",
                _ratio(translation_seconds(timing), translation_seconds(its)),
                timing["precision"],
            ]
        )
    headings = ["system", "step, ms", "relative", "tokens/s", "memory", "translation, s", "relative", "precision"]
    notes = [_about(found[first], first, names) for first, names in passes.items()]
    notes += [
        "memory: at most, of a training step, besides weights and optimizer",
        "precision: of training; translation is in float32",
    ]
    return Table(headings, rows, notes)


def _read(folder):
    """What a pass found of a run; None if it was not timed, or the file is damaged."""
    try:
        return RunFolder(folder).read_timing()
    except UserError as error:
        _LOG.warning("the table of times leaves out %s: %s", shown(folder), error)
        return None


def _ratio(one: float, other: float) -> str:
    return f"{one / other:.2f}x" if other else "–"


def _about(timing: dict[str, Any], first: str, names: list[str]) -> str:
    """A line on a pass."""
    return (
        f"{', '.join(names)}: timed in turn, {timing['rounds']} rounds, medians, without compilation, "
        f"{timing['started']}, under {timing['backend']} on {timing['machine']} ({timing['cores_used']:.1f} of "
        f"{timing['cores']} cores; others used {timing['used_by_others']:.0%}); translation of the test text by "
        f"{timing['sentences']} of its {timing['test_sentences']} sentences; relative to {first}"
    )
