"""`attn-zoo translate`: translate sentences, a file or standard input."""

import argparse
import contextlib
import logging
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from keras_attn_zoo.cli.device_options import add_devices_arguments
from keras_attn_zoo.cli.options import (
    MODEL,
    add_batch_argument,
    add_loading_arguments,
    add_search_arguments,
)
from keras_attn_zoo.cli.parser import Command, Parser, typed
from keras_attn_zoo.cli.search_options import (
    add_strategy_arguments,
    check_strategy_options,
    load_arguments,
    of_lines,
    read_constraints,
    sampler_from_options,
)
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.runs.system import SETTINGS
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import open_output, shown
from keras_attn_zoo.support.messages import progress_bar

_LOG = logging.getLogger(__name__)
# Number of batches that are sorted by length together before translation.
WINDOW_BATCHES = 100


def add_arguments(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument("model", help=MODEL)
    parser.add_argument(
        "sentences",
        nargs="*",
        metavar="SENTENCE",
        help="sentences to translate (default: standard input, one per line)",
    )
    parser.add_argument(
        "--input", metavar="FILE", help="file with one sentence per line, or SGM or XML of WMT; may be compressed"
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="output file (default: standard output)")
    parser.add_argument(
        "--n-best",
        type=typed(SETTINGS["Search"]["beams"]),
        default=1,
        help="translations per sentence; more than 1 are written as NUMBER ||| TEXT ||| SCORE lines (default: 1)",
    )
    parser.add_argument("--scores", action="store_true", help="write the score after each translation")
    add_batch_argument(parser, "translated")
    add_search_arguments(parser)
    add_strategy_arguments(parser)
    add_loading_arguments(parser)
    add_devices_arguments(parser)


def run(options: argparse.Namespace) -> None:
    """Translate, and write each window of lines as soon as it is done."""
    from keras_attn_zoo.data.text_files import read_windows

    if options.sentences and options.input is not None:
        raise UserError("received both sentences and --input: give only one.")
    check_strategy_options(options)
    if options.n_best > 1 and options.scores:
        raise UserError("--n-best already writes the scores: leave --scores out.")
    windows: Iterable[list[str]]
    if options.sentences:
        windows = [options.sentences]
    else:
        windows = read_windows("-" if options.input is None else options.input, WINDOW_BATCHES * options.batch_size)

    from keras_attn_zoo.devices import current
    from keras_attn_zoo.runs.loading import load_translator

    _refuse_names(options.sentences)
    devices = current()
    constraints = read_constraints(options)
    settings = options.beams, options.length_penalty, options.top_k, options.max_tokens, options.precision
    translator = load_translator(options.model, *settings, **load_arguments(options))
    sampler = sampler_from_options(options, translator)
    # All lines at once, before any is translated.
    lines = len(constraints.prefixes or ()) or (len(constraints.required) if options.require_file else 1)
    constraints.encode(translator.preprocessor.tokenizer, lines, translator.preprocessor.decoder_sequence_length)

    def translate(sentences, numbers, progress):
        return translator.translate(
            sentences,
            n_best=options.n_best,
            batch_size=options.batch_size,
            progress=progress,
            sampler=sampler,
            constraints=of_lines(constraints, numbers, options),
            mbr=options.mbr,
            replace_unknown=options.replace_unknown,
        )

    bar = progress_bar("translating") if options.output else contextlib.nullcontext()
    done = 0
    with bar as show, _writer(options.output) as write:
        for window in windows if devices is None else devices.from_leader(windows):
            _translate_window(translate, window, done, options, write, show)
            done += len(window)


def _refuse_names(sentences):
    """Raise for the name of a model or a file in place of a sentence: it would be translated."""
    from keras_attn_zoo.presets.preset_registry import names_preset

    elsewhere = "To translate the word itself, put it in a file, and give that with --input."
    for sentence in sentences:
        if any(map(str.isspace, sentence)):
            continue
        if names_preset(sentence) or RunFolder(sentence).holds_run:
            raise UserError(f"{shown(sentence)} is a model, and translate takes one, before the sentences. {elsewhere}")
        if os.path.isfile(sentence):
            raise UserError(f"{shown(sentence)} is a file: give it with --input. {elsewhere}")


def _translate_window(translate, window, before, options, write, show):
    """Translate the lines after the first `before` ones, and write their translations."""
    from keras_attn_zoo.translators.preprocessor import SentenceTooLong

    # Empty lines stay empty, so that input and output correspond line by line.
    numbers = [i for i, sentence in enumerate(window) if sentence.strip()]
    try:
        progress = show and (lambda done: show(before + done))
        found = translate([window[i] for i in numbers], [before + i for i in numbers], progress)
    except SentenceTooLong as error:
        i = numbers[error.number - 1]
        what = "sentence" if options.sentences else "line"
        if i and not (options.sentences or options.output):
            # In a stream, the lines before it are still translated.
            _translate_window(translate, window[:i], before, options, write, show)
        raise SentenceTooLong(before + i + 1, error.tokens, error.limit, what, error.most) from None
    # The translation of an empty line is empty and certain, so that every line has the same columns.
    best = [[("", 0.0)] for _ in window]
    for i, hypotheses in zip(numbers, found, strict=True):
        if hypotheses:
            best[i] = [(one.text, one.score) for one in hypotheses]
        else:
            _LOG.warning("line %d: no translation was found that meets the constraints", before + i + 1)
    write("".join(f"{_line(before + i, *one, options)}\n" for i, group in enumerate(best) for one in group))


def _line(number, text, score, options):
    if options.n_best > 1:
        return f"{number} ||| {text} ||| {score:.4f}"
    return f"{text}\t{score:.4f}" if options.scores else text


@contextlib.contextmanager
def _writer(path):
    """Yield a function that writes text at once: to standard output, or to a file that ends up whole or absent."""
    with contextlib.nullcontext(sys.stdout) if path is None else open_output(path) as file:

        def write(text):
            file.write(text if path is None else text.encode())
            file.flush()

        yield write


COMMAND = Command(
    "translate",
    "translate sentences, a file, or standard input",
    [
        'attn-zoo translate runs/bahdanau "Guten Morgen." "Wie geht es dir?"',
        "attn-zoo translate runs/bahdanau --input news.de --output news.en --beams 5",
        "cat news.de | attn-zoo translate hf://user/preset > news.en",
        'attn-zoo translate runs/bahdanau --n-best 3 "Guten Morgen."',
        "attn-zoo translate runs/bahdanau --input news.de --strategy sampling --mbr chrf",
        'attn-zoo translate runs/bahdanau --forbid good --require morning "Guten Morgen."',
    ],
    add_arguments,
    run,
    list_argument="sentences",
)
