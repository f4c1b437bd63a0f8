"""Options of `attn-zoo translate` beyond beam search: how translations are searched, and what they must have."""

import argparse
import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from keras_attn_zoo.cli.options import refuse
from keras_attn_zoo.cli.parser import Parser, typed
from keras_attn_zoo.runs.system import SETTINGS
from keras_attn_zoo.support.choices import LOWEST_TEMPERATURE, MOST_BEAMS
from keras_attn_zoo.support.errors import UserError, counted
from keras_attn_zoo.support.files import kind_of, shown
from keras_attn_zoo.support.setting_types import Number, Whole

if TYPE_CHECKING:
    from keras_attn_zoo.decoding import BeamSearch
    from keras_attn_zoo.translators import Constraints, Translator

STRATEGIES = ("beam", "diverse", "sampling")
# Settings of a search that are options here and nowhere else.
_SETTINGS = ("coverage_penalty", "min_length", "no_repeat_ngram")
_UTILITIES = ("chrf", "bleu")
# Of which minimum Bayes risk chooses, unless it is said.
_SAMPLES = 16
_OF_SAMPLING = ("samples", "temperature", "sample_top_k", "top_p", "seed")
_OF_DIVERSE = ("groups", "diversity")


def add_strategy_arguments(parser: Parser) -> None:
    """Add the options, for `load_arguments`, `sampler_from_options` and `read_constraints`."""
    group = parser.add_argument_group("search")
    for name in _SETTINGS:
        setting = SETTINGS["Search"][name]
        help = f"{setting.help} (default: the run's)"
        group.add_argument(f"--{name.replace('_', '-')}", type=typed(setting), metavar="N", help=help)
    group.add_argument(
        "--strategy",
        choices=STRATEGIES,
        metavar="NAME",
        help="beam, diverse for groups of beams that take different words, or sampling (default: the run's search)",
    )
    group.add_argument(
        "--groups",
        type=typed(Whole(least=1, most=MOST_BEAMS)),
        metavar="N",
        help="groups of --strategy diverse, a divisor of the beams (default: a group for each beam)",
    )
    group.add_argument(
        "--diversity",
        type=typed(Number(least=0, most=100)),
        metavar="N",
        help="what a word costs a group of --strategy diverse for each beam before that takes it (default: 0.5)",
    )
    group.add_argument(
        "--samples",
        type=typed(Whole(least=1, most=MOST_BEAMS)),
        metavar="N",
        help=f"translations that --strategy sampling draws for a sentence (default: --n-best; {_SAMPLES} with --mbr)",
    )
    group.add_argument(
        "--temperature",
        type=typed(Number(least=LOWEST_TEMPERATURE, most=100)),
        metavar="T",
        help="divides the logits that are drawn from; below 1 for likelier words (default: 1)",
    )
    group.add_argument(
        "--sample-top-k",
        type=typed(Whole(least=1, most=1_000_000)),
        metavar="K",
        help="draw from the K likeliest subwords (default: from all)",
    )
    group.add_argument(
        "--top-p",
        type=typed(Number(least=0, most=1, above=True)),
        metavar="P",
        help="draw from the fewest subwords whose probabilities sum to P (default: from all)",
    )
    group.add_argument(
        "--seed",
        type=typed(SETTINGS["System"]["seed"]),
        metavar="N",
        help="seed of the draws; the same seed and sentence give the same translations (default: 0)",
    )
    group.add_argument(
        "--mbr",
        choices=_UTILITIES,
        metavar="NAME",
        help="choose among all beams or samples the translation that agrees best with the others, by chrf or bleu",
    )
    group = parser.add_argument_group("constraints")
    group.add_argument(
        "--prefix",
        metavar="FILE",
        help="file with the beginning of each translation, one per line, from which it goes on; empty lines for none",
    )
    group.add_argument("--forbid", nargs="+", default=[], metavar="WORD", help="words that no translation has")
    group.add_argument("--require", nargs="+", default=[], metavar="WORD", help="words that every translation has")
    group.add_argument(
        "--require-file",
        metavar="FILE",
        help="file with the words that each translation has, one line per sentence, words or phrases separated by tabs",
    )
    group.add_argument(
        "--replace-unknown",
        action="store_true",
        help="write the source word that it attends to in place of an unknown word (word models only)",
    )


def check_strategy_options(options: argparse.Namespace) -> None:
    """Raise if options of a search are given that it does not have."""
    if options.strategy != "sampling":
        refuse(options, "only --strategy sampling draws", **dict.fromkeys(_OF_SAMPLING))
    if options.strategy != "diverse":
        refuse(options, "only --strategy diverse has groups", **dict.fromkeys(_OF_DIVERSE))
    if options.strategy == "sampling":
        refuse(options, "--strategy sampling has no beams, but --samples", beams=None)
    if options.strategy in ("diverse", "sampling"):
        why = "required words need plain beam search, --strategy beam"
        refuse(options, why, require=[], require_file=None)
    if options.require and options.require_file is not None:
        raise UserError("received both --require and --require-file: give only one.")


def load_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """Return the settings of the search, as `load_translator` takes them."""
    return {"plain": options.strategy is not None, **{name: getattr(options, name) for name in _SETTINGS}}


def sampler_from_options(options: argparse.Namespace, translator: "Translator") -> "BeamSearch | None":
    """Return the search of `--strategy`, with the settings of the translator's; None if it stays that one."""
    from keras_attn_zoo.decoding import DiverseBeamSearch, Sampling

    own: Any = translator.sampler
    if options.strategy not in ("diverse", "sampling"):
        return None
    kept = {name: value for name, value in own.get_config().items() if name not in ("num_beams", "temperature")}
    if options.strategy == "diverse":
        if own.num_beams == 1:
            raise UserError("--strategy diverse needs several beams, and the search has one: give more --beams.")
        groups = own.num_beams if options.groups is None else options.groups
        if own.num_beams % groups:
            beams = -(-own.num_beams // groups) * groups
            raise UserError(f"--groups {groups} does not divide {own.num_beams} beams: set --beams {beams}.")
        diversity = 0.5 if options.diversity is None else options.diversity
        return DiverseBeamSearch(own.num_beams, groups=groups, diversity=diversity, **kept)
    samples = options.samples or (options.n_best if options.mbr is None else max(_SAMPLES, options.n_best))
    named = {"top_k": options.sample_top_k, "top_p": options.top_p, "seed": options.seed or 0}
    return Sampling(samples, options.temperature or 1.0, **named, **kept)


def read_constraints(options: argparse.Namespace) -> "Constraints":
    """Return the constraints of all lines of the input; raise unless the files fit it, as far as it can be counted."""
    from keras_attn_zoo.data.text_files import read_columns, read_lines
    from keras_attn_zoo.translators import Constraints

    prefixes = None if options.prefix is None else list(read_lines(options.prefix))
    required: list[Any] = list(options.require)
    if options.require_file is not None:
        required = [[word for word in words if word] for words in read_columns(options.require_file)]
    by_line = (options.prefix, prefixes), (options.require_file, required)
    for file, lines in by_line:
        if file is None or lines is None:
            continue
        count = len(options.sentences)
        if options.input is not None and kind_of(options.input) == "file":
            count = sum(1 for _ in read_lines(options.input))
        if count not in (0, len(lines)):
            raise _other_count(file, lines, count)
    return Constraints(prefixes, options.forbid, required)


def of_lines(constraints: "Constraints", numbers: Sequence[int], options: argparse.Namespace) -> "Constraints":
    """Return the constraints of the lines with these numbers, counted from 0."""
    given = {"prefixes": options.prefix, "required": options.require_file}
    chosen = {}
    for name in (name for name, file in given.items() if file is not None):
        lines: Any = getattr(constraints, name)
        if numbers and numbers[-1] >= len(lines):
            raise _other_count(given[name], lines, "more")
        chosen[name] = [lines[number] for number in numbers]
    return dataclasses.replace(constraints, **chosen)


def _other_count(file, lines, count):
    return UserError(
        f"{shown(file)} has {counted(len(lines), 'line')}, but the text has {count}: give a line for each sentence."
    )
