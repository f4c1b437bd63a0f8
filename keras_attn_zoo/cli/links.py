"""`attn-zoo links`: convert, symmetrise and score word alignments in files."""

import argparse

from keras_attn_zoo.cli.options import (
    NO_GOLD,
    add_links_arguments,
    add_word_pair_arguments,
    given_gold,
    lengths_of,
    links_in,
    refuse,
    write_links,
)
from keras_attn_zoo.cli.parser import Command, Parser
from keras_attn_zoo.evaluation.alignments import FORMATS, base_of, lowest_position
from keras_attn_zoo.support.errors import UserError, counted
from keras_attn_zoo.support.files import shown

# Which of the files have the target first.
_TARGET_FIRST = {"first": (True, False), "second": (False, True), "both": (True, True), None: (False, False)}


def add_arguments(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="links; for --symmetrize, those of a direction in each of two files"
    )
    parser.add_argument(
        "--input-format", choices=FORMATS, default="pharaoh", help="format of the files (default: pharaoh)"
    )
    parser.add_argument(
        "--input-base",
        type=int,
        choices=(0, 1),
        help="number of the first word in the files (default: 0 in the formats pharaoh and tsv, 1 in the others)",
    )
    parser.add_argument(
        "--target-first",
        choices=[name for name in _TARGET_FIRST if name],
        help="read this file, or both, as target-source, as aligners write the links of the other direction",
    )
    add_links_arguments(parser)
    add_word_pair_arguments(parser)


def run(options: argparse.Namespace) -> None:
    """Write or print the links, and print their scores against gold links if there are any."""
    from keras_attn_zoo.data.text_files import read_bitext
    from keras_attn_zoo.evaluation.alignment_scores import alignment_scores
    from keras_attn_zoo.evaluation.alignments import Alignment
    from keras_attn_zoo.evaluation.symmetrization import symmetrize

    _check(options)
    base_of(options.format, options.output_base)
    pairs = lengths = gold = None
    if any(file is not None for file in (options.bitext, options.source, options.target)):
        pairs = read_bitext(options.bitext, options.source, options.target, options.reverse)
        lengths = lengths_of(pairs)
    links, *more = (
        links_in(file, options.input_format, options.input_base, target_first, lengths, "--input-base")
        for file, target_first in zip(options.files, _TARGET_FIRST[options.target_first], strict=False)
    )
    for other in more:
        _check_counts(options.files[0], links, options.files[1], other)
        lowest = lowest_position(links), lowest_position(other)
        if options.input_base is None and 0 in lowest and any(lowest):
            # Of the two directions of one text, both have links of the first word, or neither has.
            first, second = sorted(options.files, key=lambda file: lowest[options.files.index(file)])
            raise UserError(
                f"{shown(first)} has a position 0 and {shown(second)} has none: if both count from 0, give "
                "--input-base 0, or else convert the one that counts from 1 first."
            )
        links = [
            Alignment(symmetrize(one.possible, another.possible, options.symmetrize))
            for one, another in zip(links, other, strict=True)
        ]
    if options.gold is not None:
        gold = given_gold(options, lengths)
        _check_counts(options.files[0], links, options.gold, gold)
    write_links(options, links, pairs, None if gold is None else alignment_scores(links, gold))


def _check_counts(file, links, other_file, others):
    if len(links) != len(others):
        raise UserError(
            f"{shown(file)} has {counted(len(links), 'sentence pair')} but {shown(other_file)} has {len(others)}: give "
            "links of one text, and that text itself if its last pairs have none in naacl or giza."
        )


def _check(options):
    count = 1 if options.symmetrize is None else 2
    if len(options.files) != count:
        raise UserError(
            f"received {counted(len(options.files), 'file')} of links: give one, or one for each direction and "
            "--symmetrize."
        )
    if count == 1 and options.target_first in ("second", "both"):
        raise UserError(f"--target-first {options.target_first}: there is one file of links, which is the first.")
    if options.gold is None:
        refuse(options, "there is no --gold", **NO_GOLD)
    if options.bitext is None and options.source is None:
        refuse(options, "there is no text", reverse=False)
        if options.format == "giza":
            raise UserError("the format giza has the words too: give --bitext, or --source and --target.")


COMMAND = Command(
    "links",
    "convert word alignments between formats, symmetrise those of two directions, and score them against gold links",
    [
        "attn-zoo links test.A3.final --input-format giza --output test.align",
        "attn-zoo links forward.align reverse.align --symmetrize grow-diag-final-and --output test.align",
        "attn-zoo links de-en.align en-de.align --target-first second --symmetrize union --gold gold.talp "
        "--gold-format talp",
        "attn-zoo links gold.naacl --input-format naacl --format talp --output gold.talp",
    ],
    add_arguments,
    run,
    list_argument="files",
)
