"""`attn-zoo plot curves`, `plot by-length` and `plot top-k`: figures of runs, read from their folders."""

import argparse
import itertools
import math
from collections import Counter
from pathlib import Path

from keras_attn_zoo.cli.options import (
    add_name_argument,
    add_test_arguments,
    given_text,
    own_text,
    picture_command,
    refuse,
)
from keras_attn_zoo.cli.parser import Parser, typed
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.runs.tasks import METRICS, first_heading
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.setting_types import Whole

# Behind what is drawn, on its axis.
_OVER_SEEDS = ", mean ± standard deviation"
_OF_TOP_K = {"seconds": "translation time in seconds", "tokens/s": "target tokens per second in training"}
# Measured in training.
_OF_TRAINING = ("tokens/s", "speed-ratio")


def _add_runs(parser: Parser, help: str = "run folders") -> None:
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help=help)


def _add_over_seeds(parser: Parser) -> None:
    parser.add_argument(
        "--over-seeds",
        action="store_true",
        help="draw runs that differ in nothing but the seed as one curve: their mean, in a band of the sample standard "
        "deviation",
    )


def _add_curves(parser: Parser) -> None:
    _add_runs(parser)
    parser.add_argument(
        "--key",
        nargs="+",
        type=lambda text: text.split(","),
        default=[["val_loss"]],
        help="figures to draw, keys of the log, separated by spaces or commas (default: val_loss)",
    )
    parser.add_argument(
        "--difference", action="store_true", help="draw how far each curve is above the first run's, if they lie close"
    )
    parser.add_argument(
        "--log-scale", action="store_true", help="use a logarithmic axis, for figures that fall far, such as perplexity"
    )
    _add_over_seeds(parser)


def _draw_curves(options: argparse.Namespace) -> None:
    from keras_attn_zoo.runs.curves import above_first, curves, over_seeds
    from keras_attn_zoo.viewing.attention_pictures import plot_curves

    if options.difference:
        refuse(options, "a logarithmic axis has no room for differences below 0", log_scale=False)
        if len(options.runs) < 2:
            raise UserError("--difference compares runs: give two or more.")
    keys = dict.fromkeys(itertools.chain(*options.key))
    labels = {key: key.replace("val_", "validation ").replace("_", " ") for key in keys}
    drawn, deviations, above = {}, {}, ""
    for key, label in labels.items():
        found = curves(options.runs, key)
        of_seeds: dict[str, list[float]] = {}
        if options.over_seeds:
            found, of_seeds = over_seeds(found, options.runs)
        if options.difference:
            found, of_seeds = above_first(found, of_seeds)
            above = f" above that of {next(iter(found))}"
        for name, curve in found.items():
            title = f"{name}, {label}" if len(labels) > 1 else name
            drawn[title] = curve
            if name in of_seeds:
                deviations[title] = of_seeds[name]
    ylabel = " and ".join(labels.values()) + above + (_OVER_SEEDS if deviations else "")
    plot_curves(drawn, options.output, ylabel=ylabel, log_scale=options.log_scale, deviations=deviations)


def _add_by_length(parser: Parser) -> None:
    _add_runs(parser, "run folders, scored on the text")
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
    _add_over_seeds(parser)
    add_name_argument(parser)
    add_test_arguments(parser)


def _draw_by_length(options: argparse.Namespace) -> None:
    from keras_attn_zoo.data.words import normalise, word_count
    from keras_attn_zoo.evaluation.text_scores import how_scored
    from keras_attn_zoo.runs.curves import over_seeds, titles
    from keras_attn_zoo.studies.scores_by_length import class_of, length_classes, scores_by_length, usual_bounds
    from keras_attn_zoo.viewing.attention_pictures import plot_curves

    if options.side == "target":
        refuse(options, "the lengths are those of the run's references", test=None, reverse=False)
    texts, given = [], given_text(options)
    key = options.key or first_heading(RunFolder(options.runs[0]).system().data.task)
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
        scores = scores_by_length(hypotheses, references, lengths, bounds, METRICS[key], more, **how)
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
    ylabel = key + (_OVER_SEEDS if deviations else "")
    plot_curves(curves, options.output, ylabel, xlabel=xlabel, ticks=ticks, deviations=deviations)


def _add_top_k(parser: Parser) -> None:
    _add_runs(parser)
    parser.add_argument(
        "--key",
        default="BLEU",
        choices=("BLEU", "chrF", "TER", "seconds", *_OF_TRAINING),
        help="figure to draw: a score, translation time in seconds, training speed in tokens/s, or speed-ratio, "
        "how many times faster a run without a latent alignment is trained (default: BLEU)",
    )
    parser.add_argument(
        "--trained",
        action="store_true",
        help="draw over the number of positions in training: one point per run, and a horizontal line for each run "
        "without a latent alignment (default: over the numbers given to evaluate --top-k)",
    )
    add_name_argument(parser)


def _draw_top_k(options: argparse.Namespace) -> None:
    from keras_attn_zoo.runs.curves import LATENT, curves_over_top_k, curves_over_trained_top_k
    from keras_attn_zoo.studies.table import steady_translation_seconds
    from keras_attn_zoo.viewing.attention_pictures import plot_curves

    if options.key in _OF_TRAINING and not options.trained:
        raise UserError(f"{options.key} is measured in training: give --trained as well.")

    def value(scores):
        if options.key == "seconds":
            return steady_translation_seconds(scores)
        if options.key in _OF_TRAINING:
            return scores["training"]["tokens_per_second"]
        return scores["text"]["metrics"][METRICS[options.key]]["score"]

    draw = curves_over_trained_top_k if options.trained else curves_over_top_k
    curves, ticks = draw(options.runs, options.name, value)
    xlabel = f"source positions summed over in {'training' if options.trained else 'search'}"
    ylabel = _OF_TOP_K.get(options.key, options.key)
    if options.key == "speed-ratio":
        curves, baseline = _relative(curves, LATENT)
        ylabel = f"training speed of {baseline} / training speed"
    plot_curves(curves, options.output, ylabel, xlabel=xlabel, ticks=ticks)


def _relative(curves, latent):
    """The level of the only run without a latent alignment over all curves, and the name of that run."""
    levels = [name for name in curves if name != latent]
    if len(levels) != 1:
        raise UserError(f"speed-ratio needs one run without a latent alignment; received {len(levels)}: give one.")
    level = curves[levels[0]][1][0]
    return {name: (steps, [level / value for value in values]) for name, (steps, values) in curves.items()}, levels[0]


CURVES = picture_command(
    "curves",
    "draw the training curves of several runs in one picture",
    [
        "attn-zoo plot curves runs/bahdanau runs/uniform --output curves.png",
        "... --key val_bleu",
        "attn-zoo plot curves runs/transformer runs/ran-e runs/ran-d --difference --output curves.png",
        "attn-zoo plot curves runs/bahdanau runs/bahdanau-seed=2 runs/bahdanau-seed=3 --over-seeds --output curves.png",
    ],
    _add_curves,
    _draw_curves,
)
BY_LENGTH = picture_command(
    "by-length",
    "draw a score of several runs by the length of source or target sentences",
    [
        "attn-zoo plot by-length runs/transformer runs/ran-all --output by-length.png",
        "attn-zoo plot by-length runs/transformer --side target --bounds 5 10 15 20 --key chrF --output chrf.pdf",
    ],
    _add_by_length,
    _draw_by_length,
)
TOP_K = picture_command(
    "top-k",
    "draw a score of latent alignments over the number of source positions that they sum over",
    [
        "attn-zoo plot top-k runs/top-6 runs/exact --output bleu.png",
        "attn-zoo plot top-k runs/top-6 runs/exact --key seconds --output seconds.png",
        "attn-zoo plot top-k runs/top-1 runs/top-6 runs/exact runs/plain --trained --output bleu.png",
        "attn-zoo plot top-k runs/top-1 runs/top-6 runs/exact runs/plain --trained --key speed-ratio --output x.png",
    ],
    _add_top_k,
    _draw_top_k,
)
