"""The tasks that the same systems are trained for: how each is scored, and how long its text is."""

import dataclasses
from typing import Any

from keras_attn_zoo.support.errors import UserError

# What a test text can be scored with: names in tables and in scores.json.
METRICS = {
    **{"BLEU": "bleu", "chrF": "chrf", "TER": "ter"},
    **{"ROUGE-1": "rouge1", "ROUGE-2": "rouge2", "ROUGE-L": "rougel", "ROUGE-Lsum": "rougelsum", "METEOR": "meteor"},
}


@dataclasses.dataclass(frozen=True)
class Task:
    """What a system learns.

    Attributes:
        name: its name, the value of the setting `task`.
        about: what goes in and what comes out.
        metrics: what its test text is scored with, see `score_text`. The first is the one that stands for all where
            there is room for one alone.
        settings: settings of every system that is trained for it, in which a system may differ.
    """

    name: str
    about: str
    metrics: tuple[str, ...]
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)


# No limits in words: long text is cut.
_LONG = {"max_words": None, "max_length_ratio": None}

TASKS = {
    task.name: task
    for task in (
        Task("translation", "a sentence and its translation", ("bleu", "chrf", "ter")),
        Task(
            "summarization",
            "an article and its summary",
            ("rouge1", "rouge2", "rougel", "rougelsum"),
            # The lengths that are usual for CNN/Daily Mail, there in words.
            {"max_tokens": 400, "truncate_source": 400, "truncate_target": 100, **_LONG},
        ),
        Task(
            "dialogue",
            "the turns so far and the answer",
            ("bleu", "rougel", "meteor"),
            # The last turns are those that are answered.
            {"max_tokens": 256, "truncate_source": 256, "truncate_target": 100, "truncate_keep": "end", **_LONG},
        ),
    )
}


def first_heading(task: str) -> str:
    """Return what the first score of a task is called in tables.

    Example:
        >>> first_heading("summarization")
        'ROUGE-1'
    """
    return next(heading for heading, metric in METRICS.items() if metric == TASKS[task].metrics[0])


def settings_of_task(name: str) -> dict[str, Any]:
    """Return the settings of every system that is trained for a task; none for translation.

    Example:
        >>> settings_of_task("summarization")["truncate_source"]
        400
        >>> settings_of_task("translation")
        {}
    """
    return {"task": name, **TASKS[name].settings} if TASKS[name].settings else {}


def check_task(name: str) -> None:
    """Raise if the packages that a task is scored with are not installed."""
    from keras_attn_zoo.evaluation.overlap_scores import OVERLAP_METRICS, require_overlap

    if set(TASKS[name].metrics) & set(OVERLAP_METRICS):
        require_overlap()


def check_generated(name: Any) -> str:
    """Return the name of a task, from a file, for which text is to be generated; raise if there is no such task."""
    if not isinstance(name, str) or name not in TASKS:
        raise UserError(f"there is no task {str(name)[:100]!r}: choose from {', '.join(TASKS)}.")
    return name
