"""`attn-zoo align`: word alignments of given translations, and their error rates."""

import argparse
import logging
import sys
from pathlib import Path

from keras_attn_zoo.cli.options import (
    MODEL,
    add_attention_arguments,
    add_batch_argument,
    add_gold_arguments,
    add_loading_arguments,
    given_gold,
    layers_of,
    refuse,
)
from keras_attn_zoo.cli.parser import Command, Parser
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import write_text
from keras_attn_zoo.support.messages import progress_bar

_LOG = logging.getLogger(__name__)


def add_arguments(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument(
        "model",
        help=f"{MODEL}; a run on the built-in corpus needs no text, as its test text has gold links",
    )
    parser.add_argument("--source", metavar="FILE", help="source sentences, one per line, words separated by spaces")
    parser.add_argument("--target", metavar="FILE", help="their translations, in the same format")
    parser.add_argument("--bitext", metavar="FILE", help="both in one file, as SOURCE ||| TARGET lines")
    parser.add_argument("--reverse", action="store_true", help="use the second side as the source")
    parser.add_argument("--gold", metavar="FILE", help="gold links to score against: i-j is sure, ipj possible")
    add_gold_arguments(parser)
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="file for the links, source-target and counted from 0"
    )
    add_attention_arguments(parser, ("best",), "; best for the layer with the lowest error rate against --gold")
    add_loading_arguments(parser)
    parser.add_argument(
        "--leave-out",
        nargs="*",
        default=["end"],
        choices=("end", "full_stop"),
        help="never align words to the end of the sentence or to the full stop (default: end)",
    )
    add_batch_argument(parser, "decoded")


def run(options: argparse.Namespace) -> None:
    """Align; write or print the links, and print their scores against gold links if there are any."""
    from keras_attn_zoo.evaluation.alignments import Alignment, format_alignment
    from keras_attn_zoo.runs.loading import load_translator
    from keras_attn_zoo.runs.word_alignment import align_words, score_links

    pairs, gold = _text_and_gold(options)
    translator = load_translator(options.model, max_tokens=options.max_tokens, precision=options.precision)
    with progress_bar("aligning", len(pairs)) as progress:
        arguments = {
            "heads": options.heads,
            "leave_out": options.leave_out,
            "batch_size": options.batch_size,
            "progress": progress,
        }
        if options.layer == "best":
            links, table = _best_layer(translator, pairs, gold, arguments)
        else:
            links, _ = align_words(translator, pairs, layers_of(translator, options.layer), **arguments)
            table = None
    if table:
        print(table)
    text = "".join(format_alignment(Alignment(sure=frozenset(one))) + "\n" for one in links)
    if options.output:
        write_text(options.output, text)
        _LOG.info("wrote %s", options.output)
    elif gold is None:
        sys.stdout.write(text)
    if gold is not None:
        print(score_links(links, pairs, gold, options.leave_out))


def _text_and_gold(options):
    from keras_attn_zoo.data.text_files import read_bitext

    given = any(file is not None for file in (options.bitext, options.source, options.target, options.gold))
    pairs, gold = (None, None) if given else _own_gold(options.model)
    if pairs is not None:
        why = "the run provides the text and its gold links"
        refuse(options, why, reverse=False, gold_reverse=False, index_base=0)
    elif options.gold is None:
        refuse(options, "there is no --gold", gold_reverse=False, index_base=0)
    if pairs is None:
        pairs = read_bitext(options.bitext, options.source, options.target, options.reverse)
    if options.layer == "best" and gold is None and options.gold is None:
        raise UserError("--layer best compares alignment error rates: give --gold.")
    if options.gold is not None:
        gold = given_gold(options, pairs)
    return pairs, gold


def _own_gold(model):
    """Return the word pairs and gold links of a run on the built-in corpus; None and None for anything else."""
    from keras_attn_zoo.runs.described_corpora import corpus_from_description

    run = RunFolder(model)
    if not run.holds_run or "generated" not in run.corpus():
        return None, None
    gold = corpus_from_description(run.corpus(), test_only=True).gold
    return [(source, target) for source, target, _ in gold], [links for *_, links in gold]


def _best_layer(translator, pairs, gold, arguments):
    from keras_attn_zoo.runs.word_alignment import align_by_layer
    from keras_attn_zoo.studies.tabular import markdown_table

    found = align_by_layer(translator, pairs, gold, **arguments)
    best = min((layer for layer in found if not isinstance(layer, str)), key=lambda layer: found[layer][1].aer)
    rows = [
        [f"{layer if isinstance(layer, str) else layer + 1}{' (best)' if layer == best else ''}"]
        + [f"{100 * value:.1f}" for value in (scores.aer, scores.precision, scores.recall)]
        for layer, (_, scores) in found.items()
    ]
    return found[best][0], markdown_table(["layer", "AER", "precision", "recall"], rows)


COMMAND = Command(
    "align",
    "align the words of given translations, in Pharaoh format, and score them against gold links",
    [
        "attn-zoo align runs/bahdanau --source test.de --target test.en --output test.align",
        "attn-zoo align runs/bahdanau --bitext test.de-en --gold gold.talp --index-base 1",
        "attn-zoo align runs/transformer --bitext test.de-en --gold gold.talp --index-base 1 --layer best",
        "attn-zoo align runs/embedded --layer best",
    ],
    add_arguments,
    run,
)
