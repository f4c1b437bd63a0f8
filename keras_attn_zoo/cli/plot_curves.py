"""`attn-zoo plot curves`, `plot by-length` and `plot top-k`: figures of runs, read from their folders."""

import argparse
import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keras_attn_zoo.cli.options import (
    OVER_SEEDS,
    add_name_argument,
    add_over_seeds,
    add_test_arguments,
    given_text,
    own_text,
    picture_command,
    refuse,
)
from keras_attn_zoo.cli.parser import Parser, typed
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.runs.tasks import METRICS, first_heading
from keras_attn_zoo.runs.timing_data import BESIDE_OTHER_WORK, timed_together
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.setting_types import Whole

# Behind what is drawn, on its axis.
_OF_TOP_K = {"seconds": "translation time in seconds", "tokens/s": "target tokens per second in training"}
_INTERVAL = ", 95 % interval"
# In place of a title where an axis shows less than the noise, or may do so.
_NO_CLASSES_DIFFER = "within the noise: in no class of length do two systems differ, p < 0.05 (Holm)"
_NO_POINTS_DIFFER = "within the noise: no two points differ, p < 0.05 (Holm)"
_NO_CURVES_DIFFER = "within the noise: in the end, no curve differs from the first, p < 0.05 (Holm)"
_ONE_TRAINING = "trained once: two trainings of one system may differ as much"
# How far curves are moved from each other, as a part of what is between two classes.
_BESIDE = 0.06
# Of training, as `attn-zoo time` found it.
_OF_TRAINING = ("tokens/s", "speed-ratio")


def _add_runs(parser: Parser, help: str = "run folders") -> None:
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help=help)


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
    add_over_seeds(parser, "their mean, in a band of the sample standard deviation")


def _draw_curves(options: argparse.Namespace) -> None:
    from keras_attn_zoo.runs.curves import above_first, curves, over_seeds, seeds_of
    from keras_attn_zoo.viewing.attention_pictures import plot_curves

    if options.difference:
        refuse(options, "a logarithmic axis has no room for differences below 0", log_scale=False)
        if len(options.runs) < 2:
            raise UserError("--difference compares runs: give two or more.")
    keys = dict.fromkeys(itertools.chain(*options.key))
    labels = {key: key.replace("val_", "validation ").replace("_", " ") for key in keys}
    drawn, deviations, above, notes = {}, {}, "", set()
    for key, label in labels.items():
        of_runs = found = curves(options.runs, key)
        of_seeds: dict[str, list[float]] = {}
        if options.over_seeds:
            found, of_seeds = over_seeds(of_runs, options.runs)
        if options.difference:
            found, of_seeds = above_first(found, of_seeds)
            above = f" above that of {next(iter(found))}"
            groups = seeds_of(of_runs, options.runs).values() if options.over_seeds else [[name] for name in of_runs]
            notes.add(_about_differences([[of_runs[name] for name in own] for own in groups]))
        for name, curve in found.items():
            title = f"{name}, {label}" if len(labels) > 1 else name
            drawn[title] = curve
            if name in of_seeds:
                deviations[title] = of_seeds[name]
    ylabel = " and ".join(labels.values()) + above + (OVER_SEEDS if deviations else "")
    note = notes.pop() if len(notes) == 1 else None
    plot_curves(drawn, options.output, ylabel=ylabel, title=note, log_scale=options.log_scale, deviations=deviations)


def _about_differences(groups):
    """What a picture of differences from the first curve says of the noise; None if there are larger ones.

    Of several trainings each, their last steps are compared by Welch's test.
    """
    from keras_attn_zoo.evaluation.training_comparison import compare_trainings, holm

    first, *others = groups
    if min(map(len, groups)) == 1:
        return _ONE_TRAINING
    p_values = []
    for own in others:
        curves = [dict(zip(*curve, strict=True)) for curve in (*first, *own)]
        last = max(set.intersection(*map(set, curves)))
        values = [curve[last] for curve in curves]
        p_values.append(compare_trainings(values[len(first) :], values[: len(first)]).p_value)
    return _NO_CURVES_DIFFER if others and min(holm(p_values)) >= 0.05 else None


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
        "sentences are shorter); a class of fewer than 20 sentences joins its neighbour",
    )
    parser.add_argument(
        "--key", choices=METRICS, help="score (default: the first of the runs' task, BLEU for translation)"
    )
    add_over_seeds(parser, "their mean, with an interval that counts them too")
    add_name_argument(parser)
    add_test_arguments(parser)


@dataclasses.dataclass(frozen=True)
class _Translated:
    """A test text and its translations: all lists of references, the words of the sentences, and how it is scored."""

    translations: list[str]
    references: list[list[str]]
    lengths: list[int]
    how: dict[str, Any]


def _translated(options: argparse.Namespace) -> Iterator[_Translated]:
    """The text of each run, with the lengths of the side that is asked for."""
    from keras_attn_zoo.data.words import normalise, word_count
    from keras_attn_zoo.evaluation.text_scores import how_scored

    given = given_text(options)
    for folder in options.runs:
        translations, references = RunFolder(folder).read_translations(options.name)
        lines = references[0]
        if options.side == "source":
            text = given or own_text(folder)
            if [normalise(line) for line in text.targets] != [normalise(line) for line in lines]:
                raise UserError(f"{folder} was scored on another text: give the one that was translated with --test.")
            lines = text.sources
        stored = RunFolder(folder).read_scores().get(options.name, {}).get("text", {})
        yield _Translated(translations, references, [word_count(line) for line in lines], how_scored(stored))


def _draw_by_length(options: argparse.Namespace) -> None:
    from keras_attn_zoo.runs.curves import seeds_of, titles
    from keras_attn_zoo.studies.scores_by_length import (
        class_of,
        joined_bounds,
        length_classes,
        scores_by_length,
        usual_bounds,
    )
    from keras_attn_zoo.viewing.attention_pictures import plot_curves

    if options.side == "target":
        refuse(options, "the lengths are those of the run's references", test=None, reverse=False)
    if options.bounds:
        length_classes(options.bounds)
    key = options.key or first_heading(RunFolder(options.runs[0]).system().data.task)
    texts = dict(zip(titles(options.runs), _translated(options), strict=True))
    lengths = [one.lengths for one in texts.values()]
    bounds = joined_bounds(options.bounds, lengths) if options.bounds else usual_bounds(lengths)
    scores = {
        title: scores_by_length(
            one.translations, one.references[0], one.lengths, bounds, METRICS[key], one.references[1:], **one.how
        )
        for title, one in texts.items()
    }
    groups = seeds_of(texts, options.runs) if options.over_seeds else {title: [title] for title in texts}
    # Of each curve, for each class of length, the scores of its trainings.
    sampled = {shared: list(zip(*(scores[one] for one in own), strict=True)) for shared, own in groups.items()}
    curves, deviations = _with_intervals({title: (range(len(one)), one) for title, one in sampled.items()})
    ticks: dict[float, str] = dict(enumerate(length_classes(bounds)))
    xlabel, note = f"{options.side} words", None
    first, *others = texts.values()
    if all((one.lengths, one.references) == (first.lengths, first.references) for one in others):
        sizes = Counter(class_of(length, bounds) for length in first.lengths)
        ticks = {step: f"{name}\n({sizes[int(step)]})" for step, name in ticks.items()}
        xlabel += " (sentences)"
        note = _NO_CLASSES_DIFFER if len(sampled) > 1 and not _differ(sampled.values()) else None
    over = "seeds and sentences" if len(groups) < len(texts) else "sentences"
    ylabel = f"{key}{_INTERVAL} over {over}"
    plot_curves(curves, options.output, ylabel, title=note, xlabel=xlabel, ticks=ticks, deviations=deviations)


def _with_intervals(sampled):
    """Curves and half the widths of their intervals, of steps and the scores of trainings at each."""
    from keras_attn_zoo.studies.sampled_scores import interval

    curves, deviations = {}, {}
    for number, (title, (steps, trainings)) in enumerate(sampled.items()):
        means, deviations[title] = map(list, zip(*map(interval, trainings), strict=True))
        # Bars stand beside each other.
        aside = _BESIDE * (number - (len(sampled) - 1) / 2)
        curves[title] = ([step + aside for step in steps], means)
    return curves, deviations


def _differ(curves):
    """Whether two of several curves differ in any class of length."""
    from keras_attn_zoo.studies.sampled_scores import any_differ

    pairs = itertools.combinations(curves, 2)
    return any_differ(both for pair in pairs for both in zip(*pair, strict=True))


def _add_top_k(parser: Parser) -> None:
    _add_runs(parser)
    parser.add_argument(
        "--key",
        default="BLEU",
        choices=("BLEU", "chrF", "TER", "seconds", *_OF_TRAINING),
        help="figure to draw: a score, translation time in seconds as scored, training speed in tokens/s as `attn-zoo "
        "time` found it, or speed-ratio, how many times faster a run without a latent alignment is trained (default: "
        "BLEU)",
    )
    parser.add_argument(
        "--trained",
        action="store_true",
        help="draw over the number of positions in training: one point per run, and a horizontal line for each run "
        "without a latent alignment (default: over the numbers given to evaluate --top-k)",
    )
    add_name_argument(parser)


def _draw_top_k(options: argparse.Namespace) -> None:
    from keras_attn_zoo.evaluation.text_scores import how_scored
    from keras_attn_zoo.runs.curves import LATENT, curves_over_top_k, curves_over_trained_top_k
    from keras_attn_zoo.studies.sampled_scores import any_differ, sampled_score
    from keras_attn_zoo.studies.table import steady_translation_seconds
    from keras_attn_zoo.viewing.attention_pictures import plot_curves

    if options.key in _OF_TRAINING and not options.trained:
        raise UserError(f"{options.key} is measured in training: give --trained as well.")

    texts = set()
    timings = _read_timings(options.runs) if options.key in _OF_TRAINING else {}

    def value(run, name):
        scores = run.read_scores()[name]
        if options.key == "seconds":
            return steady_translation_seconds(scores)
        if options.key in _OF_TRAINING:
            return timings[run.path]["tokens_per_second"]
        translations, references = run.read_translations(name)
        texts.add(str(references))
        return sampled_score(translations, *references, metric=METRICS[options.key], **how_scored(scores["text"]))

    draw = curves_over_trained_top_k if options.trained else curves_over_top_k
    curves, ticks = draw(options.runs, options.name, value)
    xlabel = f"source positions summed over in {'training' if options.trained else 'search'}"
    ylabel, deviations, note = _OF_TOP_K.get(options.key, options.key), None, None
    if options.key == "speed-ratio":
        curves, baseline = _relative(curves, LATENT)
        ylabel = f"training speed of {baseline} / training speed"
    if any(one["beside_other_work"] for one in timings.values()):
        ylabel += f" ({BESIDE_OTHER_WORK})"
    if texts:
        ylabel += f"{_INTERVAL} over sentences"
        # A level is one score.
        points = {id(one): one for _, scores in curves.values() for one in scores}.values()
        differing = any_differ(([one], [other]) for one, other in itertools.combinations(points, 2))
        note = None if differing or len(texts) > 1 or len(points) == 1 else _NO_POINTS_DIFFER
        curves, deviations = _with_intervals(
            {title: (steps, [[one] for one in scores]) for title, (steps, scores) in curves.items()}
        )
    plot_curves(curves, options.output, ylabel, title=note, xlabel=xlabel, ticks=ticks, deviations=deviations)


def _read_timings(folders):
    """What a pass found of runs that took turns in it."""
    found = {}
    for run in map(RunFolder, folders):
        found[run.path] = run.read_timing()
        if found[run.path] is None or not timed_together([found[run.path], *found.values()]):
            raise UserError(f"{run.path} was not timed together with the others: `attn-zoo time` times them in turn.")
    return found


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
