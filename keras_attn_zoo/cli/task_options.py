"""The option that names a task."""

import argparse
from collections.abc import Iterable

from keras_attn_zoo.cli.parser import Parser
from keras_attn_zoo.runs.tasks import TASKS
from keras_attn_zoo.support.errors import UserError

TRANSLATION, *OTHER_TASKS = TASKS
# Of a system that is trained.
OF_A_RUN = "how long text is cut, what the test text is scored with, and what the built-in corpus is"


def add_task_argument(parser: Parser, others: Iterable[str], sets: str, corpus: bool = True) -> None:
    """Add `--task`.

    Args:
        parser: a `Parser`.
        others: the tasks that there are beside translation.
        sets: what follows from the task.
        corpus: whether there is `--corpus`, see `task_of`.
    """
    parser.add_argument(
        "--task",
        choices=(TRANSLATION, *others),
        help="what is learned: "
        + "; ".join(f"{name}, {TASKS[name].about}" for name in (TRANSLATION, *others))
        + f"; it sets {sets} (default: {'that of --corpus, or ' * corpus}{TRANSLATION})",
    )


def task_of(options: argparse.Namespace) -> str:
    """Return the task of `--task` or of `--corpus`; translation where there is neither.

    Raises:
        UserError: no such corpus; its task is another one than that of `--task`, or one that the command does not have.
    """
    given, corpus = getattr(options, "task", None), getattr(options, "corpus", None)
    if corpus is None:
        return given or TRANSLATION
    from keras_attn_zoo.corpora.named_corpora import find_corpus

    own = find_corpus(corpus)[0].task
    if given not in (None, own):
        raise UserError(f"the corpus {corpus} is for {own}: leave out --task {given}, or choose another corpus.")
    known = (TRANSLATION, *getattr(options, "of_tasks", OTHER_TASKS))
    if own not in known:
        raise UserError(f"the corpus {corpus} is for {own}, but these systems are for {' and '.join(known)}.")
    return own
