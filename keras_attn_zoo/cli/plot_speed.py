"""`attn-zoo plot speed`: measure and draw how fast models translate, by batch or by beam."""

import argparse
from typing import Any

from keras_attn_zoo.cli.options import (
    MODEL,
    add_loading_arguments,
    add_test_arguments,
    given_text,
    own_text,
    picture_command,
)
from keras_attn_zoo.cli.parser import Parser, typed
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.messages import progress_bar
from keras_attn_zoo.support.setting_types import Whole

# As in Zeng, §3.3: four beams for all batches, batches of 100 for all beams.
_BATCHES, _BEAMS = [1, 10, 50, 100], [1, 2, 4, 8]


def _add_arguments(parser: Parser) -> None:
    parser.add_argument("models", nargs="+", metavar="MODEL", help=MODEL)
    parser.add_argument("--by", choices=("batch", "beam"), default="batch", help="what varies (default: batch)")
    of_both = (("batch-sizes", _BATCHES, "100 with --by beam"), ("beams", _BEAMS, "4 with --by batch"))
    for name, values, fixed in of_both:
        parser.add_argument(
            f"--{name}",
            nargs="+",
            type=typed(Whole(least=1, most=4096)),
            metavar="N",
            help=f"{name.replace('-', ' ')} to measure (default: {' '.join(map(str, values))}; {fixed})",
        )
    parser.add_argument(
        "--sentences",
        type=typed(Whole(least=1, most=10**9)),
        metavar="N",
        help="translate the first N sentences of the text (default: all)",
    )
    parser.add_argument(
        "--runs",
        type=typed(Whole(least=1, most=1000)),
        default=3,
        metavar="N",
        help="number of timed translations, after one untimed run to compile (default: 3)",
    )
    add_test_arguments(parser)
    add_loading_arguments(parser)


def _draw(options: argparse.Namespace) -> None:
    """Measure, draw a curve for each model, and print the numbers."""
    from keras_attn_zoo.runs.curves import titles
    from keras_attn_zoo.runs.loading import load_translator
    from keras_attn_zoo.runs.search_time import translation_speed
    from keras_attn_zoo.studies.tabular import markdown_table
    from keras_attn_zoo.viewing.attention_pictures import plot_curves

    by_batch = options.by == "batch"
    batches = list(dict.fromkeys(options.batch_sizes or (_BATCHES if by_batch else [100])))
    beams = list(dict.fromkeys(options.beams or ([4] if by_batch else _BEAMS)))
    if len(beams if by_batch else batches) > 1:
        other = "beams" if by_batch else "batch-sizes"
        raise UserError(f"--by {options.by} takes one value of --{other}; received several.")
    given = given_text(options)
    found: dict[str, list[float]] = {}
    for model, title in zip(options.models, titles(options.models), strict=True):
        text = given or own_text(model)
        found[title] = []
        with progress_bar(title, len(batches) * len(beams), unit="setting") as progress:
            translator = load_translator(model, beams[0], max_tokens=options.max_tokens, precision=options.precision)
            encoded = text.encoded_for(translator.preprocessor)
            encoded = encoded.select(range(len(encoded))[: options.sentences])
            settings: Any = translator.search_settings
            for beam in beams:
                translator.search_settings = {**settings, "beams": beam}
                for batch in batches:
                    found[title].append(translation_speed(translator, encoded, batch, options.runs))
                    if progress:
                        progress(len(found[title]))
    varied = batches if by_batch else beams
    what = "sentences per batch" if by_batch else "beams"
    steps = list(range(len(varied)))
    curves = {title: (steps, speeds) for title, speeds in found.items()}
    ticks = {float(step): count for step, count in enumerate(varied)}
    rows = [[title, *(f"{speed:.0f}" for speed in speeds)] for title, speeds in found.items()]
    print(markdown_table([f"tokens/s by {what}", *map(str, varied)], rows))
    plot_curves(curves, options.output, "target tokens per second", xlabel=what, ticks=ticks)


SPEED = picture_command(
    "speed",
    "measure and draw how fast models translate a text, by the size of the batches or the number of beams",
    [
        "attn-zoo plot speed runs/transformer runs/ran-all --output by-batch.png",
        "attn-zoo plot speed runs/transformer runs/ran-all --by beam --batch-sizes 32 --output by-beam.png",
    ],
    _add_arguments,
    _draw,
)
