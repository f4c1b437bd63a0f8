"""`attn-zoo compare`: train named systems on one text, score them, and write a table."""

import argparse

from keras_attn_zoo.cli.options import OTHER_TASKS
from keras_attn_zoo.cli.parser import Command, Parser
from keras_attn_zoo.cli.run_comparison import add_comparison_arguments, own_backend, run_comparison, system_names
from keras_attn_zoo.runs.named_systems import SYSTEMS
from keras_attn_zoo.studies.comparison import OF_SYSTEMS, Entry, Recipe
from keras_attn_zoo.support.errors import UserError, choice


def add_arguments(parser: Parser) -> None:
    """Add the options."""
    add_comparison_arguments(parser, SYSTEMS, None, dict.fromkeys(OTHER_TASKS, ()))
    parser.add_argument(
        "--baseline",
        metavar="NAME",
        help="the system that the others are compared with: scores that differ significantly get stars",
    )


def run(options: argparse.Namespace) -> None:
    """Compare the systems."""
    from keras_attn_zoo.studies.earlier_results import baseline_of, in_order, systems_of

    names = system_names(options)
    every = in_order((name for name in systems_of(options.out) if name in SYSTEMS), names)
    if options.baseline not in (None, *every):
        raise UserError(f"the baseline {options.baseline!r} is not compared: {choice(options.baseline, every)}")
    baseline = options.baseline or baseline_of(options.out)
    entries = {
        name: Entry(system, baseline=baseline if baseline in SYSTEMS and name != baseline else None)
        for name, system in SYSTEMS.items()
    }
    pictures = {"curves.png": f"curves --over-seeds {' '.join(every)}"}
    run_comparison(Recipe(f"{OF_SYSTEMS} {', '.join(every)}", entries, tuple(names), pictures=pictures), options)


COMMAND = Command(
    "compare",
    "train several systems on one text, with several seeds or on a grid of settings, and compare their scores",
    [
        "attn-zoo compare --systems bahdanau,uniform --train train.de train.en --out runs/attention",
        "attn-zoo compare --systems bahdanau luong-general --train all.tsv --out runs/seeds --seeds 1 2 3 "
        "--baseline bahdanau",
        "attn-zoo compare --systems transformer --train all.tsv --out runs/grid --grid learning_rate=1e-3,5e-4 "
        "dropout=0.1,0.3",
        "attn-zoo compare --systems transformer ran-all --task summarization --train articles.txt summaries.txt "
        "--out runs/summaries",
    ],
    add_arguments,
    run,
    interrupt_hint="Run the command again to resume it.",
    own_backend=own_backend,
    resumes=True,
)
