"""`attn-zoo align`: word alignments of given translations, by models or statistical aligners; their error rates."""

import argparse
import logging

from keras_attn_zoo.cli.options import (
    MODEL,
    NO_GOLD,
    add_attention_arguments,
    add_batch_argument,
    add_links_arguments,
    add_loading_arguments,
    add_word_pair_arguments,
    files_of_text,
    given_gold,
    layers_of,
    lengths_of,
    refuse,
    write_links,
)
from keras_attn_zoo.cli.parser import Command, Parser
from keras_attn_zoo.evaluation.aligners import align_text, check_aligner
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.support.choices import ALIGNERS
from keras_attn_zoo.support.errors import UserError, choice
from keras_attn_zoo.support.files import kind_of, shown
from keras_attn_zoo.support.messages import progress_bar

_LOG = logging.getLogger(__name__)


def add_arguments(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument(
        "model",
        help=f"{MODEL}; a run on the built-in corpus needs no text, as its test text has gold links; or a statistical "
        f"aligner, which is trained on the text: {', '.join(ALIGNERS)}",
    )
    add_word_pair_arguments(parser)
    parser.add_argument(
        "--train",
        nargs="+",
        metavar="FILE",
        help="more tokenised text for a statistical aligner to learn from: SOURCE TARGET, or one TSV file",
    )
    parser.add_argument("--reverse-model", metavar="MODEL", help="a model of the other direction, for --symmetrize")
    add_links_arguments(parser)
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
    from keras_attn_zoo.runs.word_alignment import score_links

    _check(options)
    pairs, gold = _text_and_gold(options)
    links = _links_of_aligner(options, pairs) if options.model in ALIGNERS else _links_of_models(options, pairs, gold)
    scores = None if gold is None else score_links(links, pairs, gold, options.leave_out)
    write_links(options, links, pairs, scores)


def _check(options):
    if options.model in ALIGNERS:
        of_models = {"layer": None, "heads": None, "max_tokens": None, "precision": "float32", "batch_size": 32}
        refuse(options, f"{options.model} is a statistical aligner, trained here", reverse_model=None, **of_models)
        check_aligner(options.model, options.symmetrize)
    else:
        if kind_of(options.model) is None and (said := choice(options.model, ALIGNERS)).startswith("did you mean"):
            raise UserError(f"there is neither a model nor an aligner {shown(options.model)}: {said}")
        refuse(options, f"{shown(options.model)} is no statistical aligner, and not trained here", train=None)
        if options.symmetrize is None:
            refuse(options, "there is no --symmetrize", reverse_model=None)
        elif options.reverse_model is None:
            raise UserError("--symmetrize needs links of both directions: give --reverse-model.")


def _text_and_gold(options):
    from keras_attn_zoo.data.text_files import read_bitext

    given = any(file is not None for file in (options.bitext, options.source, options.target, options.gold))
    pairs, gold = (None, None) if given or options.model in ALIGNERS else _own_gold(options.model)
    if pairs is not None:
        refuse(options, "the run provides the text and its gold links", reverse=False, **NO_GOLD)
    elif options.gold is None:
        refuse(options, "there is no --gold", **NO_GOLD)
    if pairs is None:
        pairs = read_bitext(options.bitext, options.source, options.target, options.reverse)
    if options.layer == "best" and gold is None and options.gold is None:
        raise UserError("--layer best compares alignment error rates: give --gold.")
    if options.gold is not None:
        gold = given_gold(options, lengths_of(pairs))
    return pairs, gold


def _own_gold(model):
    """Return the word pairs and gold links of a run on the built-in corpus; None and None for anything else."""
    from keras_attn_zoo.runs.described_corpora import corpus_from_description

    run = RunFolder(model)
    if not run.holds_run or "generated" not in run.corpus():
        return None, None
    gold = corpus_from_description(run.corpus(), test_only=True).gold
    return [(source, target) for source, target, _ in gold], [links for *_, links in gold]


def _links_of_aligner(options, pairs):
    from keras_attn_zoo.corpora.given_files import read_pairs
    from keras_attn_zoo.evaluation.alignments import as_alignment
    from keras_attn_zoo.runs.word_alignment import without_left_out

    train = read_pairs(files_of_text("train", options.train), options.reverse) if options.train else []
    words = [(source.split(), target.split()) for source, target in train if source and target]
    if len(words) < len(train):
        _LOG.info("left out %d pairs of the training text that have an empty side", len(train) - len(words))
    links = map(as_alignment, align_text(options.model, pairs, words, options.symmetrize))
    return [one.sure for one in without_left_out(links, pairs, options.leave_out)]


def _links_of_models(options, pairs, gold):
    from keras_attn_zoo.evaluation.symmetrization import symmetrize
    from keras_attn_zoo.runs.loading import load_translator

    translators = [
        load_translator(model, max_tokens=options.max_tokens, precision=options.precision)
        for model in (options.model, options.reverse_model)
        if model is not None
    ]
    layers = [None if options.layer == "best" else layers_of(translator, options.layer) for translator in translators]
    links = _links_of(translators[0], pairs, gold, layers[0], options)
    if options.symmetrize is None:
        return links
    turned = [(target, source) for source, target in pairs]
    reverse = _links_of(translators[1], turned, gold and [one.reverse() for one in gold], layers[1], options)
    return [
        symmetrize(one, {(j, i) for i, j in other}, options.symmetrize)
        for one, other in zip(links, reverse, strict=True)
    ]


def _links_of(translator, pairs, gold, layers, options):
    from keras_attn_zoo.runs.word_alignment import align_words

    with progress_bar("aligning", len(pairs)) as progress:
        arguments = {
            "heads": options.heads,
            "leave_out": options.leave_out,
            "batch_size": options.batch_size,
            "progress": progress,
        }
        if options.layer != "best":
            return align_words(translator, pairs, layers, **arguments)[0]
        links, table = _best_layer(translator, pairs, gold, arguments)
    print(table)
    return links


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
    "align the words of given translations, with a model or a statistical aligner, and score the links",
    [
        "attn-zoo align runs/bahdanau --source test.de --target test.en --output test.align",
        "attn-zoo align runs/bahdanau --bitext test.de-en --gold gold.talp --gold-format talp",
        "attn-zoo align runs/transformer --bitext test.de-en --gold gold.talp --gold-format talp --layer best",
        "attn-zoo align runs/de-en --reverse-model runs/en-de --symmetrize grow-diag-final-and --bitext test.de-en",
        "attn-zoo align hmm --bitext test.de-en --train train.de train.en --symmetrize intersection",
        "attn-zoo align runs/embedded --layer best",
    ],
    add_arguments,
    run,
)
