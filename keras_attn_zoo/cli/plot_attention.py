"""`attn-zoo plot attention` and `plot matrices`: weights of a sentence, and those that depend on positions alone."""

import argparse
import dataclasses
from pathlib import Path

from keras_attn_zoo.cli.options import (
    MODEL,
    add_attention_arguments,
    add_heads_argument,
    add_loading_arguments,
    add_search_arguments,
    layers_of,
    own_text,
    picture_command,
)
from keras_attn_zoo.cli.parser import Parser, typed
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import kind_of
from keras_attn_zoo.support.setting_types import Whole


def _add_attention(parser: Parser) -> None:
    parser.add_argument("model", help=MODEL)
    parser.add_argument("sentence", help="the source sentence")
    parser.add_argument(
        "--target", metavar="TEXT", help="translation to draw the attention of (default: the model's own)"
    )
    parser.add_argument(
        "--beside", nargs="+", default=[], metavar="MODEL", help="further models to draw beside the first one"
    )
    parser.add_argument(
        "--place",
        choices=("cross", "encoder", "decoder"),
        default="cross",
        help="cross-attention, or the self-attention of the encoder or the decoder, which is drawn over subwords "
        "(default: cross)",
    )
    parser.add_argument("--subwords", action="store_true", help="draw subwords instead of words")
    add_attention_arguments(parser)
    add_search_arguments(parser)
    add_loading_arguments(parser)


def _draw_attention(options: argparse.Namespace) -> None:
    from keras_attn_zoo.data.checked_text import SentenceTooLong
    from keras_attn_zoo.runs.attention_by_layer import self_attention
    from keras_attn_zoo.runs.curves import titles
    from keras_attn_zoo.runs.loading import load_translator
    from keras_attn_zoo.runs.word_alignment import sentence_picture
    from keras_attn_zoo.viewing.attention_pictures import plot_attentions

    panels, target, text = [], options.target, None
    words: list[list[str]] = []
    search = (options.beams, options.length_penalty, options.top_k)
    if target is not None and any(x is not None for x in search):
        raise UserError("with --target there is no search: leave out --beams, --length-penalty and --top-k.")
    if options.place != "cross" and options.layer == "posterior":
        raise UserError("--layer posterior is cross-attention: leave out --place, or choose another layer.")
    models = [options.model, *options.beside]
    for model, title in zip(models, titles(models), strict=True):
        # Only the first model searches, and only if no translation is given.
        beams, penalty, top_k = search if target is None else (None, None, None)
        translator = load_translator(model, beams, penalty, top_k, options.max_tokens, options.precision)
        if text is None or text.models != translator.preprocessor.models:
            try:
                text = translator.encode([options.sentence], None if target is None else [target])
            except SentenceTooLong as error:
                if target == options.target:
                    raise
                raise UserError(
                    f"the translation by {options.model} has {error.tokens} tokens in {model}, which accepts "
                    f"{error.limit}: give a translation with --target, or draw each alone."
                ) from None
        if target is None and (options.beside or options.place != "cross"):
            # All models are forced to the translation of the first, and self-attention is that along a translation.
            [[found]] = translator.translate(text)
            target, text = found.text, dataclasses.replace(text, targets=[found.token_ids])
        if options.place == "cross":
            layers = layers_of(translator, options.layer)
            matrix, *axes = sentence_picture(
                translator, options.sentence, target, options.subwords, layers, options.heads, text
            )
        else:
            layer = options.layer - 1 if isinstance(options.layer, int) else None
            try:
                matrix, *axes = self_attention(translator, text, options.place, layer, options.heads)
            except UserError as error:
                raise UserError(f"{model}: {error}") from None
        if words and words != axes:
            advice = "leave out --subwords" if options.place == "cross" else "draw each alone"
            raise UserError(f"{model} and {options.model} have different subwords: {advice}.")
        words = axes
        panels.append((title if options.beside else None, matrix))
    source_words, target_words = words
    plot_attentions(panels, source_words, target_words, options.output)


def _add_matrices(parser: Parser) -> None:
    parser.add_argument("model", help=MODEL)
    parser.add_argument(
        "--size",
        type=typed(Whole(least=1, most=1024)),
        metavar="N",
        help="number of positions (default: as many as the longest sentence of a run's test text has, at most 80; of "
        "other models 80, or as many as they accept)",
    )
    add_heads_argument(parser)
    add_loading_arguments(parser)


def _draw_matrices(options: argparse.Namespace) -> None:
    """Draw one panel for each layer, and a row for each side."""
    from keras_attn_zoo.runs.attention_by_layer import PLACES, matrices_by_position
    from keras_attn_zoo.runs.loading import load_translator
    from keras_attn_zoo.viewing.figures import plot_grids

    translator = load_translator(options.model, max_tokens=options.max_tokens, precision=options.precision)
    found = matrices_by_position(translator, options.size or _longest(translator, Path(options.model)), options.heads)
    rows = [
        [(f"{PLACES[place]}, layer {number + 1}", matrix) for number, matrix in layers.items()]
        for place, layers in found.items()
    ]
    # The first position of a decoder attends to itself alone; most weights are a hundredth of that.
    plot_grids(rows, options.output, "attended position", "position", "weight", gamma=0.5)


def _longest(translator, folder):
    """The size of the matrices of a run: what lies beyond the sentences of its text was hardly trained; or None."""
    from keras_attn_zoo.runs.attention_by_layer import MOST_POSITIONS

    run = RunFolder(folder)
    # Runs of early versions have no text of their own.
    if not run.holds_run or kind_of(run.test) != "file":
        return None
    preprocessor = translator.preprocessor
    most = min(MOST_POSITIONS, preprocessor.encoder_sequence_length, preprocessor.decoder_sequence_length)
    text = own_text(folder).encoded_for(preprocessor)
    return min(most, max((len(ids) for side in (text.sources, text.targets) for ids in side), default=most))


ATTENTION = picture_command(
    "attention",
    "draw the attention matrix of a sentence, with words on both axes",
    [
        'attn-zoo plot attention runs/bahdanau "Er ruft den Freund an." --output attention.png',
        'attn-zoo plot attention runs/bahdanau "Guten Tag." --target "Hello." --output forced.pdf',
        'attn-zoo plot attention runs/transformer "Er kam an." --place encoder --layer 2 --output encoder.png',
        'attn-zoo plot attention runs/plain "Er kam an." --beside runs/latent --output beside.png',
    ],
    _add_attention,
    _draw_attention,
)
MATRICES = picture_command(
    "matrices",
    "draw the weights of attention that does not depend on tokens: RAN, the Random Synthesizer, Gaussian attention",
    ["attn-zoo plot matrices runs/ran-all --output matrices.png", "... --size 40 --heads 0"],
    _add_matrices,
    _draw_matrices,
)
