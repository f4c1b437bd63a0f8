"""What is checked of a run before it is resumed: nothing that it relies on is missing, cut or of something else."""

import logging
from collections.abc import Sequence
from typing import Any

from keras_attn_zoo.data.text_files import read_columns
from keras_attn_zoo.presets.preset_checks import check_preset
from keras_attn_zoo.runs.loading import check_own_preset
from keras_attn_zoo.runs.run_folder import LARGEST_TEXT, RunFolder
from keras_attn_zoo.runs.system import System
from keras_attn_zoo.support.errors import UserError, counted
from keras_attn_zoo.support.files import check_size, kind_of, shown
from keras_attn_zoo.training.resumable_state import check_backend, saved_progress
from keras_attn_zoo.training.run_log import read_log

_LOG = logging.getLogger(__name__)
_REMEDY = "restore it from a backup, or remove the folder to start over."


def check_resumable(run: RunFolder, system: System, corpus: dict[str, Any], test: Sequence[Sequence[str]]) -> None:
    """Raise if the run in a folder, if there is one, cannot be resumed; nothing is trained, encoded or written.

    The arguments are those of `RunFolder.create`.

    Raises:
        UserError: the run was started with other settings, other text or another backend; one of its files is missing,
            damaged or of another run.
    """
    if not run.holds_run:
        return
    # First: what belongs to another model or text may differ in all else.
    run.check_settings(system, corpus, test)
    check_backend(run.backend())
    if kind_of(run.test) is None:
        _LOG.warning("%s is missing: to evaluate the run, give its test text with --test", shown(run.test))
    else:
        check_size(run.test, LARGEST_TEXT)
        # Earlier versions normalised it.
        if "test_fingerprint" in run.corpus() and list(read_columns(run.test, as_written=True)) != list(
            map(list, test)
        ):
            raise UserError(
                f"{shown(run.test)} was changed after the run began: restore it from a backup, or remove it."
            )
    rounds, _ = saved_progress(run.state)
    lines = read_log(run.log) if kind_of(run.log) else []
    logged = [line["step"] for line in lines if "round" in line]
    begun = logged or kind_of(run.best)
    lost = run.state if begun and not kind_of(run.state) else run.best if rounds and not kind_of(run.best) else None
    if lost is not None:
        done = counted(max(rounds, len(logged)), "round")
        raise UserError(f"{shown(run.path)} has trained {done}, but {lost.name} is missing: {_REMEDY}")
    if rounds:
        _check_log(run, lines, rounds)
        check_preset(str(run.best))
        check_own_preset(run)


def _check_log(run, lines, rounds):
    """Raise unless the log has all rounds of the state, and all steps of these; later ones are repeated."""
    ends = [(line["round"], line["step"]) for line in lines if line.get("round", rounds + 1) <= rounds]
    last = max((step for _, step in ends), default=0)
    found = [number for number, _ in ends]
    steps = [line["step"] for line in lines if "round" not in line and line["step"] <= last]
    # Lists only once they are known to be no longer than the log.
    all_rounds, all_steps = range(1, rounds + 1), range(1, last + 1)
    there = {number for number in found if number in all_rounds}
    logged = {number for number in steps if number in all_steps}
    if len(there) < rounds or len(logged) < last:
        wrong = (
            f"lacks lines: it has {len(there)} of the {counted(rounds, 'round')} trained, and "
            f"{counted(len(logged), 'step')} of {last:,}"
        )
    elif len({*found}) < len(found) or len({*steps}) < len(steps):
        wrong = "is damaged: it has lines twice"
    elif found == list(all_rounds) and steps == list(all_steps):
        return
    else:
        wrong = "is damaged: its lines do not count rounds and steps up from 1"
    raise UserError(f"{shown(run.log)} {wrong}: {_REMEDY}")
