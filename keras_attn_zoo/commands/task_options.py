"""The option that names a task."""

import argparse
from collections.abc import Iterable

from keras_attn_zoo.commands.parser import Parser
from keras_attn_zoo.experiments.tasks import TASKS

TRANSLATION, *OTHER_TASKS = TASKS
# Of a system that is trained.
OF_A_RUN = "how long text is cut, what the test text is scored with, and what the built-in corpus is"


def add_task_argument(parser: Parser, others: Iterable[str], sets: str) -> None:
    """Add `--task`, with the tasks that there are beside translation; `sets` says what follows from it."""
    parser.add_argument(
        "--task",
        choices=(TRANSLATION, *others),
        default=TRANSLATION,
        help="what is learned: "
        + "; ".join(f"{name}, {TASKS[name].about}" for name in (TRANSLATION, *others))
        + f"; it sets {sets} (default: %(default)s)",
    )


def task_of(options: argparse.Namespace) -> str:
    """Return the task of `--task`; translation where there is no such option."""
    return getattr(options, "task", TRANSLATION)
