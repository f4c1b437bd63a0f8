"""What is checked of a run before it is resumed: nothing that it relies on is missing, cut or of something else."""

import logging
from collections.abc import Sequence
from typing import Any

from keras_attn_zoo.data.text_files import read_columns
from keras_attn_zoo.presets.preset_checks import check_preset
from keras_attn_zoo.runs.budget import amount
from keras_attn_zoo.runs.loading import check_own_preset
from keras_attn_zoo.runs.run_folder import LARGEST_TEXT, RunFolder
from keras_attn_zoo.runs.system import System
from keras_attn_zoo.support.errors import UserError, counted
from keras_attn_zoo.support.files import check_size, kind_of, shown
from keras_attn_zoo.training.resumable_state import check_backend, saved_progress
from keras_attn_zoo.training.run_log import clock_of, read_log, read_steps

_LOG = logging.getLogger(__name__)
_REMEDY = "restore it from a backup, or remove the folder to start over."


def check_resumable(
    run: RunFolder, system: System, corpus: dict[str, Any], test: Sequence[Sequence[str]], length: bool = True
) -> None:
    """Raise if the run in a folder, if there is one, cannot be resumed; nothing is trained, encoded or written.

    The arguments are those of `RunFolder.check_settings`, and the sentences of the test text with their references.

    Raises:
        UserError: the run was started with other settings, other text or another backend; one of its files is missing,
            damaged or of another run.
    """
    if not run.holds_run:
        return
    # First: what belongs to another model or text may differ in all else.
    run.check_settings(system, corpus, length)
    if not length and has_other_length(run, system) and system.training.schedule == "cosine":
        raise UserError(
            f"{shown(run.path)} was started with {_length(run.system())}, now {_length(system)}: with "
            "schedule=cosine, the rate of every step depends on the last one. Train for longer in another folder, or "
            "go on from this model with --from."
        )
    check_backend(run.backend())
    if kind_of(run.test) is None:
        _LOG.warning("%s is missing: to evaluate the run, give its test text with --test", shown(run.test))
    else:
        check_size(run.test, LARGEST_TEXT)
        if list(read_columns(run.test, as_written=True)) != list(map(list, test)):
            raise UserError(
                f"{shown(run.test)} was changed after the run began: restore it from a backup, or remove it."
            )
    rounds, ended = saved_progress(run.state)
    lines = read_log(run.log) if kind_of(run.log) else []
    logged = [line["step"] for line in lines if "round" in line]
    begun, saved = logged or kind_of(run.best), rounds or ended
    lost = run.state if begun and not kind_of(run.state) else run.best if saved and not kind_of(run.best) else None
    if lost is not None:
        done = counted(max(rounds, len(logged)), "round")
        raise UserError(f"{shown(run.path)} has trained {done}, but {lost.name} is missing: {_REMEDY}")
    if saved:
        _check_log(run, lines, rounds)
        check_preset(str(run.best))
        check_own_preset(run)


def has_other_length(run: RunFolder, system: System) -> bool:
    """Return whether a run was started to be trained for longer, or less long, than a system."""
    return _length(run.system()) != _length(system)


def _length(system):
    training = system.training
    return f"epochs={training.epochs:g}" if training.budget is None else f"budget={training.budget}"


def check_length(run: RunFolder, system: System, steps: int | None) -> None:
    """Raise if a run has been trained for as long as a system is to be, or longer.

    Args:
        run: the run.
        system: its system, with another length.
        steps: how many steps are planned, if known.

    Raises:
        UserError: says how long it has been trained.
    """
    done = read_steps(run.log) if kind_of(run.log) else []
    number, unit = (steps, "steps") if system.training.budget is None else amount(system.training.budget)
    tokens = sum(step["tokens"] for step in done)
    spent = {"steps": len(done), "tokens": tokens, "min": clock_of(done).steady / 60}[unit]
    if spent >= number:
        raise UserError(
            f"{shown(run.path)} has been trained for {spent:,.10g} {unit}, which {_length(system)} does not exceed: "
            "give more, or resume it with what it was started with."
        )


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
