"""`attn-zoo explore`: a page on which attention and search are explored."""

import argparse
import collections
import dataclasses
import itertools
import logging
import os
import tempfile
from pathlib import Path
from typing import Any

from keras_attn_zoo.cli.options import (
    MODEL,
    NO_GOLD,
    add_gold_arguments,
    add_loading_arguments,
    add_search_arguments,
    if_installed,
    lengths_of,
    links_in,
    refuse,
)
from keras_attn_zoo.cli.parser import Command, Parser, typed
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.support.errors import UserError, counted
from keras_attn_zoo.support.files import shown
from keras_attn_zoo.support.setting_types import Whole

_LOG = logging.getLogger(__name__)
# Sentences of a run's own test text, where none are given.
OWN_SENTENCES = 5
# How much a word must share with the name of a preset to be a misspelt name rather than a sentence, at most 1.
NEAR = 0.8


def add_arguments(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument(
        "arguments",
        nargs="+",
        metavar="MODEL_OR_SENTENCE",
        help=f"models, shown side by side: {MODEL}; then quoted sentences, starting with the first argument that "
        "names no model",
    )
    text = parser.add_argument_group("text")
    text.add_argument(
        "--text", metavar="FILE", help="source sentences, one per line, or SGM or XML of WMT; may be compressed"
    )
    text.add_argument(
        "--force", metavar="FILE", help="translations of your own, one per line, empty for none: forced and aligned"
    )
    text.add_argument("--gold", metavar="FILE", help="gold links between the words of --text and --force")
    add_gold_arguments(text)
    page = parser.add_argument_group("page")
    page.add_argument(
        "--output", type=Path, metavar="FILE", help="the page, one HTML file; with --live, a folder of static files"
    )
    page.add_argument(
        "--live",
        action="store_true",
        help="let the browser translate: the folder of --output, on any web server, has the page, the models as ONNX "
        "with weights in int8, and the libraries, which are downloaded once",
    )
    page.add_argument("--serve", action="store_true", help="serve the page, with a field for more sentences")
    page.add_argument("--host", default="127.0.0.1", help="address to serve on (default: this machine alone)")
    page.add_argument(
        "--port",
        type=typed(Whole(least=0, most=65535)),
        default=8000,
        help="port to serve on; 0 for any free port (default: 8000)",
    )
    page.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="another name by which the page is reached, such as that of a proxy; may be repeated (default: the "
        "address that it is served on, and names of this machine)",
    )
    page.add_argument(
        "--base-path",
        default="/",
        metavar="PATH",
        help="path of the page, where a proxy passes it on, such as /proxy/8000/ (default: /)",
    )
    page.add_argument(
        "--allow-frame",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="origin of pages that may show this one in a frame, such as https://example.org, or the scheme of an "
        "application, such as vscode-webview:; may be repeated (default: the page's own origin)",
    )
    add_search_arguments(parser)
    add_loading_arguments(parser)


def run(options: argparse.Namespace) -> None:
    """Write the page, or serve it until it is stopped."""
    from keras_attn_zoo.runs.curves import titles
    from keras_attn_zoo.runs.loading import load_translator
    from keras_attn_zoo.translators.exploration import explore

    access = _checked(options)
    models, sentences = _models_and_sentences(options.arguments)
    if options.live:
        _check_live(options, sentences)
        sentences, translations, gold = [], None, None
    else:
        sentences, translations, gold = _text(options, models, sentences)
    translators = {
        name: load_translator(
            model, options.beams, options.length_penalty, options.top_k, options.max_tokens, options.precision
        )
        for model, name in zip(models, titles(models), strict=True)
    }
    for name, translator in translators.items():
        kept: Any = translator.search_settings
        if "pooled" in kept:
            # A search with a pool records no steps, so there would be no search to explore.
            _LOG.info("%s is searched without a pool of finished hypotheses here, so translations may differ", name)
            translator.search_settings = {name: value for name, value in kept.items() if name != "pooled"}
    if options.live:
        _write_live(translators, models, options.output)
        return
    page = explore(translators, sentences, translations, gold, may_be_empty=options.serve)
    if options.output is not None:
        page.save(options.output)
        _LOG.info("wrote %s", options.output)
    if options.serve:
        _serve(page, translators, options, access)


def _checked(options):
    """Check the options; return what the server permits."""
    from keras_attn_zoo.viewing.page_access import Access

    if options.live and (options.serve or options.output is None):
        raise UserError("--live writes a folder for a web server: give --output FOLDER, and no --serve.")
    if options.output is None and not options.serve:
        raise UserError("say where the page goes: --output page.html, or --serve.")
    if not options.serve:
        of_server = {"host": "127.0.0.1", "port": 8000, "allow_host": [], "base_path": "/", "allow_frame": []}
        refuse(options, "there is no --serve", **of_server)
    if options.gold is None:
        refuse(options, "there is no --gold", **NO_GOLD)
    elif options.force is None:
        raise UserError("--gold needs --force: its links are those of given translations.")
    return Access(options.allow_host, options.base_path, options.allow_frame)


def _models_and_sentences(arguments):
    """The first argument and those behind it that name models; and the rest."""
    from keras_attn_zoo.presets.preset_registry import find_preset, near_names

    if not _names_model(arguments[0]):
        # It says what is wrong with a name.
        find_preset(arguments[0])
    models = [arguments[0], *itertools.takewhile(_names_model, arguments[1:])]
    sentences = arguments[len(models) :]
    for argument in sentences:
        if _names_model(argument):
            raise UserError(
                f"{shown(argument)} is a model behind sentences: models come first; give a sentence that looks like a "
                "path in a file, with --text."
            )
        if any(map(str.isspace, argument)):
            continue
        near = " or ".join(near_names(argument, NEAR))
        if near or "/" in argument:
            raise UserError(
                f"{shown(argument)} is not a model{f': did you mean {near}?' if near else '.'} Give a sentence that "
                "looks like one in a file, with --text."
            )
    twice = next((model for model, count in collections.Counter(models).items() if count > 1), None)
    if twice is not None:
        raise UserError(f"the model {shown(twice)} is given twice: give each once.")
    return models, sentences


def _names_model(argument):
    from keras_attn_zoo.presets.hub_presets import PACKAGES
    from keras_attn_zoo.presets.preset_registry import names_preset

    scheme, separator, address = argument.partition("://")
    # A sentence may hold an address.
    if separator and scheme in PACKAGES and not any(map(str.isspace, address)):
        return True
    return names_preset(argument) or os.path.isdir(argument)


def _text(options, models, sentences):
    from keras_attn_zoo.data.text_files import read_lines

    if sentences and options.text is not None:
        raise UserError("received both sentences and --text: give only one.")
    if options.text is not None:
        sentences = list(read_lines(options.text))
    if not sentences:
        return _own_text(options, models[0])
    translations = gold = None
    if options.force is not None:
        translations = [line or None for line in read_lines(options.force, "reference")]
        if len(translations) != len(sentences):
            raise UserError(
                f"{counted(len(sentences), 'sentence')}, but {counted(len(translations), 'line')} in {options.force}: "
                "give one translation for each, or an empty line."
            )
    if options.gold is not None:
        sentences = [line.split() for line in sentences]
        translations = [line and line.split() for line in translations]
        lengths = lengths_of((one, other or ()) for one, other in zip(sentences, translations, strict=True))
        found = links_in(
            options.gold, options.gold_format, options.index_base, options.gold_reverse, lengths, "--index-base"
        )
        gold = [one if other else None for one, other in zip(found, translations, strict=True)]
    if options.text is None:
        return sentences, translations, gold
    return _without_empty_lines(options.text, sentences, translations, gold)


def _without_empty_lines(file, sentences, *others):
    """Leave empty lines out of a file of sentences, and what belongs to them, with a message."""
    kept = [i for i, sentence in enumerate(sentences) if (sentence.split() if isinstance(sentence, str) else sentence)]
    if len(kept) < len(sentences):
        _LOG.info("%s: left out %d of %d lines, which are empty", file, len(sentences) - len(kept), len(sentences))
    return tuple(side and [side[i] for i in kept] for side in (sentences, *others))


def _own_text(options, model):
    """The first sentences of a run's own test text, with their translations, and gold links if there are any."""
    from keras_attn_zoo.runs.described_corpora import own_test_text

    refuse(options, "there are no sentences", force=None, gold=None)
    run = RunFolder(model)
    if run.holds_run:
        text = own_test_text(run)
        if text.gold is not None:
            return [list(side) for side in zip(*text.gold[:OWN_SENTENCES], strict=True)]
        return text.sources[:OWN_SENTENCES], text.targets[:OWN_SENTENCES], None
    if options.serve:
        return [], None, None
    raise UserError("there is nothing to explore: give sentences, or a file of them with --text.")


def _check_live(options, sentences):
    """Check what only a live page is refused."""
    from keras_attn_zoo.translators.onnx_export import check_onnx_export

    if sentences:
        raise UserError(f"--live writes a page that takes sentences later: leave {shown(sentences[0])} out.")
    refuse(options, "--live takes sentences later", text=None, force=None, gold=None)
    check_onnx_export(options.output)


def _write_live(translators, models, folder):
    from keras_attn_zoo.presets.preset_registry import find_preset, published
    from keras_attn_zoo.translators.live_folder import stored_in_int8, write_live_folder

    with tempfile.TemporaryDirectory() as aside:
        live = {}
        for number, (model, (name, translator)) in enumerate(zip(models, translators.items(), strict=True)):
            run = RunFolder(model)
            preset = run.best if run.holds_run else find_preset(model)
            live[name] = stored_in_int8(translator, preset, Path(aside) / str(number))
            if facts := published().get(str(model)):
                live[name] = dataclasses.replace(live[name], languages=(facts["source"], facts["target"]))
        write_live_folder(live, folder)
    _LOG.info("wrote %s: put it on any web server, such as python -m http.server", shown(folder))


def _serve(page, translators, options, access):
    from keras_attn_zoo.translators.exploration import explore
    from keras_attn_zoo.viewing.page_server import PageServer

    def examine(sentence, target):
        return explore(translators, [sentence], [target])

    with PageServer(page, examine, options.host, options.port, access) as server:
        print(f"the page is at {server.url} until Ctrl-C", flush=True)
        server.serve_forever()


COMMAND = Command(
    "explore",
    "write a page, or serve one, that shows attention and search: every layer and head, every beam",
    [
        'attn-zoo explore runs/bahdanau "Er ruft den alten Freund an." --output page.html',
        "attn-zoo explore runs/bahdanau runs/transformer --text news.de --output page.html",
        "attn-zoo explore runs/bahdanau --text test.de --force test.en --gold test.gold --output page.html",
        "attn-zoo explore runs/bahdanau --serve",
        "attn-zoo explore bahdanau_tatoeba_de_en transformer_tatoeba_de_en --live --output live",
    ],
    add_arguments,
    run,
    list_argument="arguments",
    # It writes programs of ONNX.
    own_backend=lambda options: if_installed("torch") if options.live else None,
)
