"""`attn-zoo plot lengths`: draw how long the sentences of a text are."""

import argparse
import collections

from keras_attn_zoo.cli.options import ask, picture_command
from keras_attn_zoo.cli.parser import Parser, typed
from keras_attn_zoo.data.words import word_count
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.support.files import kind_of
from keras_attn_zoo.support.setting_types import Whole


def _add_arguments(parser: Parser) -> None:
    parser.add_argument(
        "texts",
        nargs="+",
        metavar="TEXT",
        help="a file, one sentence per line; or a run folder, for both sides of its training, validation and test text",
    )
    parser.add_argument(
        "--width",
        type=typed(Whole(least=1, most=1000)),
        default=1,
        metavar="N",
        help="lengths per bar, in words (default: 1)",
    )
    # The text of runs that were trained on it just now, which therefore need not be asked for: see `draw_pictures`.
    parser.set_defaults(known_corpus=None)


def _draw(options: argparse.Namespace) -> None:
    """Draw a histogram for each file, and for each side of the text of runs."""
    import numpy as np

    from keras_attn_zoo.data.text_files import read_lines
    from keras_attn_zoo.runs.curves import titles
    from keras_attn_zoo.viewing.figures import plot_histograms

    lengths, described = {}, []
    for text, title in zip(options.texts, titles(options.texts), strict=True):
        if kind_of(text) != "folder":
            lengths[title] = [_lengths(read_lines(text))]
        elif (corpus := _corpus_of(text, options.known_corpus)).description not in described:
            # Runs that share their text have one histogram for each side.
            described.append(corpus.description)
            lengths[title] = [_lengths(pair[side] for part in corpus.splits for pair in part) for side in (0, 1)]
    histograms = {
        title if len(sides) == 1 else side if len(lengths) == 1 else f"{title}, {side}": counts
        for title, sides in lengths.items()
        for side, counts in zip(("source", "target"), sides, strict=False)
    }
    # A bar of one length stands around its number.
    edges = np.arange(0, max(map(max, histograms.values())) + options.width + 1, options.width) - 0.5
    heights = {
        title: np.histogram(list(counts), edges, weights=list(counts.values()))[0]
        for title, counts in histograms.items()
    }
    plot_histograms(heights, edges, options.output, "words", "sentences")


def _lengths(lines):
    return collections.Counter(word_count(line) for line in lines)


def _corpus_of(folder, known):
    """The text of a run: one that is known, or read again."""
    from keras_attn_zoo.runs.described_corpora import own_corpus

    run = RunFolder(folder)
    own = run.corpus()
    if known is not None and all(own.get(name) == value for name, value in known.description.items()):
        return known
    return own_corpus(run, ask)


LENGTHS = picture_command(
    "lengths",
    "draw a histogram of the lengths of sentences",
    [
        "attn-zoo plot lengths train.de train.en --output lengths.png",
        "attn-zoo plot lengths runs/bahdanau --output lengths.png",
    ],
    _add_arguments,
    _draw,
)
