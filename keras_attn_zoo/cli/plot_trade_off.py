"""`attn-zoo plot trade-off`: a score of runs over the time of a translation and the state of a search."""

import argparse
import logging
import statistics
from pathlib import Path
from typing import Any

from keras_attn_zoo.cli.options import add_over_seeds, picture_command
from keras_attn_zoo.cli.parser import Parser
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.runs.tasks import METRICS, first_heading
from keras_attn_zoo.runs.timing_data import BESIDE_OTHER_WORK, timed_together, translation_seconds
from keras_attn_zoo.support.errors import UserError

_LOG = logging.getLogger(__name__)


def _add_arguments(parser: Parser) -> None:
    parser.add_argument(
        "runs",
        nargs="+",
        type=Path,
        metavar="RUN",
        help="run folders, timed in one pass; those without times are left out",
    )
    parser.add_argument(
        "--key", choices=METRICS, help="score (default: the first of the runs' task, BLEU for translation)"
    )
    add_over_seeds(parser, "their mean, with the time of any of them")


def _draw(options: argparse.Namespace) -> None:
    from keras_attn_zoo.runs.curves import seeds_of, titles
    from keras_attn_zoo.runs.search_state import state_numbers
    from keras_attn_zoo.studies.ranking import STATE_LENGTH
    from keras_attn_zoo.viewing.bubble_chart import plot_bubbles

    runs = dict(zip(titles(options.runs), map(RunFolder, options.runs), strict=True))
    key = options.key or first_heading(next(iter(runs.values())).system().data.task)
    groups = seeds_of(runs, options.runs).values() if options.over_seeds else [[title] for title in runs]
    points: dict[str, tuple[float, float, float]] = {}
    timings: list[dict[str, Any]] = []
    untimed = []
    for titles_of in groups:
        of_seeds = [runs[title] for title in titles_of]
        timing = next((found for one in of_seeds if (found := one.read_timing()) is not None), None)
        if timing is None:
            untimed.append(titles_of[0])
            continue
        if not timed_together([timing, *timings]):
            raise UserError(
                f"{titles_of[0]} was not timed together with the others: `attn-zoo time` times them in turn."
            )
        timings.append(timing)
        system = of_seeds[0].system()
        score = statistics.fmean(_score(one, key) for one in of_seeds)
        # The values of its settings are no part of a system's name.
        title = titles_of[0] if system.name in points else system.name
        points[title] = translation_seconds(timing), score, state_numbers(system, STATE_LENGTH)
    if not points:
        raise UserError(f"{', '.join(untimed)}: not timed; give the runs to `attn-zoo time`, which takes them in turn.")
    if untimed:
        _LOG.warning("left out, as `attn-zoo time` has not timed them: %s", ", ".join(untimed))
    beside = f" ({BESIDE_OTHER_WORK})" if any(one["beside_other_work"] for one in timings) else ""
    xlabel = f"seconds to translate the test text{beside}; area: state of a search"
    plot_bubbles(points, options.output, xlabel, key)


def _score(run, key):
    try:
        return run.read_scores()["test"]["text"]["metrics"][METRICS[key]]["score"]
    except KeyError:
        raise UserError(f"{run.path} has no {key}: evaluate it first.") from None


TRADE_OFF = picture_command(
    "trade-off",
    "draw a score of several runs over the time of a translation; areas show the state of a search",
    [
        "attn-zoo plot trade-off runs/transformer runs/ran-all --output trade-off.png",
        "attn-zoo plot trade-off runs/a runs/a-seed=2 runs/b runs/b-seed=2 --over-seeds --key chrF --output chrf.pdf",
    ],
    _add_arguments,
    _draw,
)
