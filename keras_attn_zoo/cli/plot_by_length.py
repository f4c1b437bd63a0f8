"""`attn-zoo plot by-length`: draw a score of several runs by the length of the sentences."""

import argparse
import logging
import math
from collections import Counter
from pathlib import Path

from keras_attn_zoo.cli.options import add_name_argument, add_picture_argument, refuse
from keras_attn_zoo.cli.over_seeds import OVER_SEEDS, add_over_seeds_argument
from keras_attn_zoo.cli.parser import Command, Parser, typed
from keras_attn_zoo.cli.text_options import add_test_arguments, given_text, own_text
from keras_attn_zoo.runs.tasks import METRICS, first_heading
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.setting_types import Whole

_LOG = logging.getLogger(__name__)


def add_arguments(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run folders, scored on the text")
    parser.add_argument(
        "--side", choices=("source", "target"), default="source", help="whose words are counted (default: source)"
    )
    parser.add_argument(
        "--bounds",
        nargs="+",
        type=typed(Whole(least=1, most=10_000)),
        metavar="N",
        help="longest length of each class but the last, in words (default: 10 20 30 40 50 60, or closer ones if most "
        "sentences are shorter)",
    )
    parser.add_argument(
        "--key", choices=METRICS, help="score (default: the first of the runs' task, BLEU for translation)"
    )
    add_over_seeds_argument(parser)
    add_name_argument(parser)
    add_test_arguments(parser)
    add_picture_argument(parser)


def run(options: argparse.Namespace) -> None:
    """Draw a curve for each run."""
    from keras_attn_zoo.data.words import normalise, word_count
    from keras_attn_zoo.evaluation.text_scores import how_scored
    from keras_attn_zoo.runs.curves import over_seeds, titles
    from keras_attn_zoo.runs.run_folder import RunFolder
    from keras_attn_zoo.studies.scores_by_length import class_of, length_classes, scores_by_length, usual_bounds
    from keras_attn_zoo.viewing.attention_pictures import plot_curves

    if options.side == "target":
        refuse(options, "the lengths are those of the run's references", test=None, reverse=False)
    texts, given = [], given_text(options)
    if options.key is None:
        options.key = first_heading(RunFolder(options.runs[0]).system().data.task)
    for folder in options.runs:
        hypotheses, (references, *more) = RunFolder(folder).read_translations(options.name)
        lines = references
        if options.side == "source":
            text = given or own_text(folder)
            if [normalise(line) for line in text.targets] != [normalise(line) for line in references]:
                raise UserError(f"{folder} was scored on another text: give the one that was translated with --test.")
            lines = text.sources
        stored = RunFolder(folder).read_scores().get(options.name, {}).get("text", {})
        texts.append((hypotheses, references, [word_count(line) for line in lines], more, how_scored(stored)))
    bounds = options.bounds or usual_bounds([length for _, _, lengths, *_ in texts for length in lengths])
    classes = length_classes(bounds)
    curves, counts = {}, []
    for (hypotheses, references, lengths, more, how), title in zip(texts, titles(options.runs), strict=True):
        counts.append(Counter(class_of(length, bounds) for length in lengths))
        scores = scores_by_length(hypotheses, references, lengths, bounds, METRICS[options.key], more, **how)
        curves[title] = (list(range(len(scores))), scores)
    # Leave out the first and last classes if no sentence is that short or long.
    scored = [step for _, scores in curves.values() for step, one in enumerate(scores) if not math.isnan(one)]
    kept = slice(min(scored), max(scored) + 1)
    ticks = {float(step): classes[step] for step in range(len(classes))[kept]}
    xlabel = f"{options.side} words"
    if all(one == counts[0] for one in counts):
        # What a score of few sentences is worth.
        ticks = {step: f"{name}\n({counts[0][int(step)]})" for step, name in ticks.items()}
        xlabel += " (sentences)"
    curves = {title: (steps[kept], scores[kept]) for title, (steps, scores) in curves.items()}
    deviations: dict[str, list[float]] = {}
    if options.over_seeds:
        curves, deviations = over_seeds(curves, options.runs)
    ylabel = options.key + (OVER_SEEDS if deviations else "")
    plot_curves(curves, options.output, ylabel, xlabel=xlabel, ticks=ticks, deviations=deviations)
    _LOG.info("wrote %s", options.output)


COMMAND = Command(
    "by-length",
    "draw a score of several runs by the length of source or target sentences",
    [
        "attn-zoo plot by-length runs/transformer runs/ran-all --output by-length.png",
        "attn-zoo plot by-length runs/transformer --side target --bounds 5 10 15 20 --key chrF --output chrf.pdf",
    ],
    add_arguments,
    run,
)
