"""`attn-zoo translate`: translate sentences, a file or standard input."""

import argparse
import contextlib
import dataclasses
import hashlib
import io
import itertools
import json
import logging
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

from keras_attn_zoo.cli.device_options import add_devices_arguments
from keras_attn_zoo.cli.options import MODEL, add_batch_argument, add_loading_arguments, add_search_arguments, refuse
from keras_attn_zoo.cli.parser import Command, Parser, typed
from keras_attn_zoo.cli.search_options import (
    add_strategy_arguments,
    check_strategy_options,
    load_arguments,
    of_lines,
    read_constraints,
    sampler_from_options,
)
from keras_attn_zoo.onnx.description import DESCRIPTION, HYPOTHESES, is_exported
from keras_attn_zoo.runs.system import SETTINGS
from keras_attn_zoo.support.choices import MEANS
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.extras import require
from keras_attn_zoo.support.files import kind_of, open_output, shown
from keras_attn_zoo.support.messages import progress_bar
from keras_attn_zoo.support.resumable_output import resumable_output

_LOG = logging.getLogger(__name__)
# Number of batches that are sorted by length together before translation; sentences of one, if not set.
WINDOW_BATCHES = 100
_BATCH = 32
# One of which the folder of a run, or of a preset, has.
_OF_MODELS = ("config.json", "task.json")


def add_arguments(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument(
        "model", help=f"{MODEL}, or a folder that was exported to ONNX; several models translate as an ensemble"
    )
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
        "--resume",
        action="store_true",
        help="go on where an earlier call with --resume was stopped; until all is translated, OUTPUT.unfinished holds "
        "what is done",
    )
    parser.add_argument(
        "--n-best",
        type=typed(SETTINGS["Search"]["beams"]),
        default=1,
        help="translations per sentence; more than 1 are written as NUMBER ||| TEXT ||| SCORE lines (default: 1)",
    )
    parser.add_argument("--scores", action="store_true", help="write the score after each translation")
    parser.add_argument(
        "--mean",
        choices=MEANS,
        help="how the probabilities of an ensemble are combined: by their arithmetic mean, or the geometric one, the "
        f"mean of log-probabilities (default: {MEANS[0]})",
    )
    add_batch_argument(parser, "translated", None, f"{_BATCH}; of an export to ONNX, as many as have 128 hypotheses")
    add_search_arguments(parser)
    add_strategy_arguments(parser)
    add_loading_arguments(parser)
    add_devices_arguments(parser)


def run(options: argparse.Namespace) -> None:
    """Translate, and write each window of lines as soon as it is done."""
    from keras_attn_zoo.data.text_files import read_windows

    models, options.sentences = _models_and_sentences(options)
    _refuse_names(options.sentences)
    if options.sentences and options.input is not None:
        raise UserError("received both sentences and --input: give only one.")
    if len(models) > 1 and any(map(is_exported, models)):
        raise UserError("an ensemble takes no translator that was exported to ONNX: give the models themselves.")
    if options.mean is not None and len(models) < 2:
        raise UserError("--mean is for an ensemble: give several models before the sentences, or leave it out.")
    if options.resume and options.output is None:
        raise UserError("--resume goes on with a file: name it by --output.")
    _refuse_to_overwrite(options)
    check_strategy_options(options)
    if options.n_best > 1 and options.scores:
        raise UserError("--n-best already writes the scores: leave --scores out.")
    windows: Iterable[list[str]]
    if options.sentences:
        windows = [options.sentences]
    else:
        batch = options.batch_size or (HYPOTHESES if is_exported(options.model) else _BATCH)
        # What is gone on with is kept often; a fast search of long windows keeps all threads busy.
        window = WINDOW_BATCHES * (min(batch, _BATCH) if options.resume else batch)
        windows = read_windows("-" if options.input is None else options.input, window)

    _check_model(options.model)
    translate, made_by = _by_onnx(options) if is_exported(options.model) else _by_keras(options, models)
    bar = progress_bar("translating") if options.output else contextlib.nullcontext()
    with bar as show, _output(options, made_by) as output:
        done, windows = output.lines, output.rest(windows)
        for window in _from_leader(options, windows):
            _translate_window(translate, window, done, options, output.append, show)
            done += len(window)


def _refuse_to_overwrite(options):
    """Raise if the output is a file that is read, whatever name it is given."""
    for name in ("input", "prefix", "require_file"):
        read, written = getattr(options, name), options.output
        if None in (read, written) or not kind_of(read) == kind_of(written) == "file":
            continue
        if os.path.samefile(read, written):
            option = f"--{name.replace('_', '-')}"
            raise UserError(f"--output {shown(written)} would overwrite {option} {shown(read)}: name another file.")


def _check_model(model):
    """Raise for what is no model, which can be said without Keras."""
    from keras_attn_zoo.presets.preset_registry import find_preset, names_preset

    if is_exported(model) or names_preset(model):
        return
    find_preset(model)
    if os.path.isdir(model) and not any(kind_of(os.path.join(model, name)) for name in _OF_MODELS):
        raise UserError(
            f"{shown(model)} is no model: it has neither the config.json of a run or a preset, nor the {DESCRIPTION} "
            "of an export to ONNX. Check the path."
        )


def _needs_keras(options):
    # What is no model is named when the command runs, as Keras may be missing.
    with contextlib.suppress(UserError):
        _check_model(options.model)
        return not is_exported(options.model)
    return False


def _by_keras(options, models):
    """Return a function that translates sentences by a model or an ensemble, and what its translations depend on."""
    from keras_attn_zoo.runs.loading import load_ensemble, load_translator

    constraints = read_constraints(options)
    how = {name: getattr(options, name) for name in ("beams", "length_penalty", "max_tokens", "precision")}
    how |= {"search_top_k": options.top_k, **load_arguments(options)}
    if len(models) > 1:
        translator = load_ensemble(models, options.mean or MEANS[0], **how)
    else:
        translator = load_translator(options.model, **how)
    sampler = sampler_from_options(options, translator)
    # All lines at once, before any is translated.
    lines = len(constraints.prefixes or ()) or (len(constraints.required) if options.require_file else 1)
    constraints.encode(translator.preprocessor.tokenizer, lines, translator.preprocessor.decoder_sequence_length)

    def translate(sentences, numbers, progress):
        return translator.translate(
            sentences,
            n_best=options.n_best,
            batch_size=options.batch_size or _BATCH,
            progress=progress,
            sampler=sampler,
            constraints=of_lines(constraints, numbers, options),
            mbr=options.mbr,
            replace_unknown=options.replace_unknown,
        )

    return translate, lambda: _made_by(options, translator, sampler or translator.sampler, constraints)


def _by_onnx(options):
    """Return the same of a translator that was exported to ONNX."""
    without = {**dict.fromkeys(("top_k", "strategy", "mbr", "prefix", "require_file", "devices", "backend"))}
    without |= {"forbid": [], "require": [], "replace_unknown": False, "precision": "float32", "distribution": "data"}
    refuse(options, f"{shown(options.model)} was exported to ONNX, with a plain beam search", **without)
    from keras_attn_zoo.onnx import ONNXTranslator
    from keras_attn_zoo.support.checksums import CHECKSUMS, sha256

    if options.resume:
        require("filelock", user="--resume", extra="onnx")
    translator = ONNXTranslator(options.model)
    names = ("n_best", "beams", "length_penalty", "coverage_penalty", "min_length", "no_repeat_ngram")
    how = {"max_length": options.max_tokens, **{name: getattr(options, name) for name in names}}

    def translate(sentences, numbers, progress):
        return translator.translate(sentences, batch_size=options.batch_size, progress=progress, **how)

    return translate, lambda: {**how, "scores": options.scores, "checksums": sha256(Path(options.model) / CHECKSUMS)}


def _from_leader(options, windows):
    """Yield the lines that the first of several processes reads."""
    if is_exported(options.model):
        return windows
    from keras_attn_zoo.devices import current

    devices = current()
    return windows if devices is None else devices.from_leader(windows)


def _models_and_sentences(options):
    """The models, which come first, and the sentences after them."""
    count = sum(1 for _ in itertools.takewhile(_names_model, options.sentences))
    return [options.model, *options.sentences[:count]], options.sentences[count:]


def _names_model(text):
    """Whether an argument names a model: no text of several words does."""
    from keras_attn_zoo.presets.preset_registry import names_preset

    if not text or any(map(str.isspace, text)):
        return False
    holds_model = any(os.path.isfile(os.path.join(text, name)) for name in _OF_MODELS)
    return holds_model or is_exported(text) or names_preset(text) or text.startswith("hf://")


def _refuse_names(sentences):
    """Raise for the name of a model, also a mistyped one, or a file in place of a sentence: it would be translated."""
    from keras_attn_zoo.presets.preset_registry import near_names

    elsewhere = "To translate the word itself, put it in a file, and give that with --input."
    for sentence in sentences:
        if _names_model(sentence):
            raise UserError(f"{shown(sentence)} is a model: models come before all sentences. {elsewhere}")
        if "_" in sentence and (near := near_names(sentence, cutoff=0.6)):
            raise UserError(f"there is no model {shown(sentence)}: did you mean {' or '.join(near)}? {elsewhere}")
        if any(map(str.isspace, sentence)):
            continue
        if os.path.isfile(sentence):
            raise UserError(f"{shown(sentence)} is a file: give it with --input. {elsewhere}")
        if (parent := os.path.dirname(sentence)) and os.path.isdir(parent):
            raise UserError(f"there is no model {shown(sentence)} in {shown(parent)}. {elsewhere}")


def _translate_window(translate, window, before, options, append, show):
    """Translate the lines after the first `before` ones, and write their translations."""
    from keras_attn_zoo.data.checked_text import SentenceTooLong

    # Empty lines stay empty, so that input and output correspond line by line.
    numbers = [i for i, sentence in enumerate(window) if sentence.strip()]
    try:
        progress = show and (lambda done: show(before + done))
        found = translate([window[i] for i in numbers], [before + i for i in numbers], progress)
    except SentenceTooLong as error:
        i = numbers[error.number - 1]
        what = "sentence" if options.sentences else "line"
        if i and not options.sentences and (options.resume or not options.output):
            # In a stream, or what is gone on with, the lines before it are still translated.
            _translate_window(translate, window[:i], before, options, append, show)
        raise SentenceTooLong(before + i + 1, error.tokens, error.limit, what, error.most) from None
    # The translation of an empty line is empty and certain, so that every line has the same columns.
    best = [[("", 0.0)] for _ in window]
    for i, hypotheses in zip(numbers, found, strict=True):
        if hypotheses:
            best[i] = [(one.text, one.score) for one in hypotheses]
        else:
            _LOG.warning("line %d: no translation was found that meets the constraints", before + i + 1)
    lines = (_line(before + i, *one, options) for i, group in enumerate(best) for one in group)
    append("".join(f"{line}\n" for line in lines), window)


def _line(number, text, score, options):
    if options.n_best > 1:
        return f"{number} ||| {text} ||| {score:.4f}"
    return f"{text}\t{score:.4f}" if options.scores else text


class _Output:
    """Lines that are written at once; what `resumable_output` opens is used in the same way."""

    lines = 0

    def __init__(self, file: IO[Any]) -> None:
        self._file = file

    def rest(self, windows: Iterable[list[str]]) -> Iterable[list[str]]:
        """Return all lines of the text."""
        return windows

    def append(self, text: str, lines: list[str]) -> None:
        """Write what was made of some lines."""
        self._file.write(text if isinstance(self._file, io.TextIOBase) else text.encode())
        self._file.flush()


@contextlib.contextmanager
def _output(options, made_by):
    """Open standard output, or a file that ends up whole or absent, or goes on growing with `--resume`."""
    if options.resume:
        with resumable_output(options.output, made_by()) as output:
            yield output
        return
    with contextlib.nullcontext(sys.stdout) if options.output is None else open_output(options.output) as file:
        yield _Output(file)


def _made_by(options, translator, sampler, constraints):
    """What translations depend on beside the text, by name."""
    from keras_attn_zoo.presets.saving import weights_checksum

    preprocessor = translator.preprocessor
    ruled = json.dumps(dataclasses.asdict(constraints)).encode()
    return {
        **{name: getattr(options, name) for name in ("n_best", "scores", "mean", "precision", "mbr")},
        "replace_unknown": options.replace_unknown,
        "constraints": hashlib.sha256(ruled).hexdigest(),
        "weights": weights_checksum(translator.backbone),
        "subwords": preprocessor.models,
        "max_tokens": [preprocessor.encoder_sequence_length, preprocessor.decoder_sequence_length],
        "sampler": type(sampler).__name__,
        **sampler.get_config(),
        "search_top_k": translator.search_top_k,
    }


COMMAND = Command(
    "translate",
    "translate sentences, a file, or standard input",
    [
        'attn-zoo translate runs/bahdanau "Guten Morgen." "Wie geht es dir?"',
        "attn-zoo translate runs/bahdanau --input news.de --output news.en --beams 5",
        "cat news.de | attn-zoo translate hf://user/preset > news.en",
        "attn-zoo translate runs/bahdanau --input train.de --output distilled.en --resume",
        'attn-zoo translate runs/bahdanau --n-best 3 "Guten Morgen."',
        'attn-zoo translate runs/bahdanau runs/transformer "Guten Morgen."',
        "attn-zoo translate exported --input news.de --output news.en",
        "attn-zoo translate runs/bahdanau --input news.de --strategy sampling --mbr chrf",
        'attn-zoo translate runs/bahdanau --forbid good --require morning "Guten Morgen."',
    ],
    add_arguments,
    run,
    list_argument="sentences",
    needs_keras=_needs_keras,
)
