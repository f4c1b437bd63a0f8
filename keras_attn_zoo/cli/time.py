"""`attn-zoo time`: time trained runs in turn, on an idle machine."""

import argparse
from pathlib import Path

from keras_attn_zoo.cli.options import ask, backend_of_run
from keras_attn_zoo.cli.parser import Command, Parser, typed
from keras_attn_zoo.runs.timing_data import ROUNDS
from keras_attn_zoo.support.setting_types import Whole


def add_arguments(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run folders, which are compared")
    parser.add_argument(
        "--rounds",
        type=typed(Whole(least=1, most=1000)),
        default=ROUNDS,
        metavar="N",
        help="how often each run has its turn; times are medians (default: %(default)s)",
    )
    parser.add_argument(
        "--anyway",
        action="store_true",
        help="go on while other processes use the machine, and mark the figures (default: refuse)",
    )


def run(options: argparse.Namespace) -> None:
    """Time the runs, and print the table."""
    from keras_attn_zoo.runs.timing_pass import time_runs
    from keras_attn_zoo.studies.timing_table import timing_table

    time_runs(options.runs, options.rounds, options.anyway, ask)
    table = timing_table(options.runs)
    if table is not None:
        print(table.markdown())


COMMAND = Command(
    "time",
    "time training steps and translation of trained runs in turn, on an idle machine, for the tables that compare them",
    ["attn-zoo time runs/transformer runs/ran-all", "attn-zoo time runs/transformer runs/ran-all --anyway --rounds 9"],
    add_arguments,
    run,
    list_argument="runs",
    job="training",
    own_backend=lambda options: backend_of_run(options.runs),
)
