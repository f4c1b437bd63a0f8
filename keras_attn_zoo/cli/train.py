"""`attn-zoo train`: train a system on parallel text; the run folder gets its scores and pictures."""

import argparse
import dataclasses
from pathlib import Path

from keras_attn_zoo.cli.device_options import add_devices_arguments
from keras_attn_zoo.cli.options import (
    MODEL,
    OF_A_RUN,
    OTHER_TASKS,
    add_budget_argument,
    add_corpus_arguments,
    add_override_argument,
    add_precision_argument,
    add_scoring_arguments,
    add_task_argument,
    backend_of_run,
    corpus_from_options,
    refuse,
    resumed,
    scoring_options,
    settings_from_options,
    task_of,
)
from keras_attn_zoo.cli.parser import Command, Parser, typed
from keras_attn_zoo.runs.named_systems import SYSTEMS
from keras_attn_zoo.runs.run_folder import AVERAGE
from keras_attn_zoo.runs.settings import PARTS
from keras_attn_zoo.runs.system import SETTINGS
from keras_attn_zoo.support.errors import UserError, choice


def add_arguments(parser: Parser) -> None:
    """Add the options."""
    begins = parser.add_mutually_exclusive_group(required=True)
    begins.add_argument("--system", metavar="NAME", help="a named system; `attn-zoo systems` lists them all")
    begins.add_argument(
        "--from",
        dest="initial_model",
        metavar="MODEL",
        help=f"continue a trained model: {MODEL}; weights, subwords and body are its own, and of a run so are the "
        "settings, but for the length and guided alignment, unless they are changed",
    )
    parser.add_argument(
        "--freeze",
        nargs="+",
        choices=PARTS,
        metavar="PART",
        help=f"do not train the weights of these parts: {', '.join(PARTS)}",
    )
    parser.add_argument(
        "--lora",
        type=typed(dataclasses.replace(SETTINGS["Training"]["lora_rank"], optional=False)),
        metavar="RANK",
        help="with --from, train matrices of this rank beside the linear maps, and nothing else; what is saved has "
        "their products in its weights",
    )
    parser.add_argument(
        "--links",
        metavar="FILE",
        help="links of the training text for the setting guided_alignment, such as 0-0 1-2: a line for each pair, the "
        "source first; without it, an aligner links the text",
    )
    parser.add_argument(
        "--index-base", type=int, choices=(0, 1), help="number of the first word in these links (default: 0)"
    )
    parser.add_argument(
        "--run", type=Path, required=True, metavar="DIR", help="run folder for the model and its results"
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="resume the run in the run folder; with a larger --budget or epochs, one that has ended goes on",
    )
    parser.add_argument(
        "--tensorboard",
        action="store_true",
        help="write the log for TensorBoard too, into the folder tensorboard of the run",
    )
    parser.add_argument("--small", action="store_true", help="use the small sizes of attn-zoo demo, to try things out")
    add_budget_argument(parser)
    add_task_argument(parser, OTHER_TASKS, OF_A_RUN)
    add_corpus_arguments(parser)
    add_scoring_arguments(parser)
    add_devices_arguments(parser)
    add_precision_argument(parser, None)
    add_override_argument(parser)


def run(options: argparse.Namespace) -> None:
    """Train, score and draw, and print the table."""
    from keras_attn_zoo.runs.finished_run import score_and_draw
    from keras_attn_zoo.runs.named_systems import small
    from keras_attn_zoo.runs.tasks import settings_of_task
    from keras_attn_zoo.runs.training import train_system
    from keras_attn_zoo.studies.table import read_results, results_table

    given = {
        "freeze": options.freeze and ",".join(options.freeze),
        "lora_rank": options.lora,
        "guided_links": options.links,
        "guided_index_base": options.index_base,
    }
    settings = {**settings_from_options(options), **{name: value for name, value in given.items() if value}}
    if options.initial_model is not None:
        from keras_attn_zoo.runs.initial_model import system_from

        refuse(options, "--from gives the sizes", small=False)
        system = system_from(options.initial_model)
    elif options.system in SYSTEMS:
        system = small(SYSTEMS[options.system]) if options.small else SYSTEMS[options.system]
    else:
        raise UserError(f"unknown system {options.system!r}: {choice(options.system, SYSTEMS)}")
    system = resumed(system, options.run)
    system = system.override(**settings_of_task(task_of(options))).override(**settings)
    scoring = scoring_options(options)
    # Those are for comparisons: they need not fit this model.
    corpus = dataclasses.replace(corpus_from_options(options), more_tests={})
    run = train_system(
        system,
        corpus,
        options.run,
        resume=options.resume,
        max_tokens=options.max_tokens,
        tensorboard=options.tensorboard,
    )
    score_and_draw(run.path, corpus.test, options.max_tokens, **scoring)
    print(results_table(read_results([run.path], ("test", AVERAGE))).markdown())


COMMAND = Command(
    "train",
    "train a system on parallel text, then score it on the test text",
    [
        "attn-zoo train --system bahdanau --train train.de train.en --run runs/bahdanau",
        "attn-zoo train --system luong-general --train all.tsv --reverse --run runs/luong --set epochs=5",
        "attn-zoo train --system uniform --embedded --small --run runs/uniform --resume",
        "attn-zoo train --from runs/general --train mine.de mine.en --run runs/mine --set learning_rate=1e-4",
        "attn-zoo train --system bahdanau --train all.tsv --links all.align --run runs/guided "
        "--set guided_alignment=0.05",
        "attn-zoo train --system transformer --task dialogue --train turns.txt answers.txt --run runs/dialogue",
    ],
    add_arguments,
    run,
    interrupt_hint="Continue with --resume.",
    job="training",
    own_backend=lambda options: backend_of_run([options.run] if options.resume else []),
    resumes=True,
)
