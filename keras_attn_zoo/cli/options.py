"""Options shared by commands and recipes, and functions that read them."""

import argparse
import dataclasses
import importlib.util
import logging
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_attn_zoo.bodies.schema import MOST_HEADS, MOST_LAYERS
from keras_attn_zoo.cli.parser import Command, Parser, checked, typed
from keras_attn_zoo.corpora.corpus import Corpus
from keras_attn_zoo.corpora.given_files import TextFiles, is_tsv, read_test
from keras_attn_zoo.corpora.parallel_text import ParallelText
from keras_attn_zoo.data.splits import MAX_HELD_OUT
from keras_attn_zoo.evaluation.alignment_scores import AlignmentScores
from keras_attn_zoo.evaluation.alignments import (
    FORMATS,
    Alignment,
    Link,
    WordPair,
    format_alignments,
    lowest_position,
    read_alignments,
    tell_base,
)
from keras_attn_zoo.evaluation.symmetrization import SYMMETRIZATIONS
from keras_attn_zoo.runs.run_folder import RunFolder, check_name, is_further
from keras_attn_zoo.runs.system import SETTINGS, System, parse_settings, read_settings
from keras_attn_zoo.runs.tasks import TASKS
from keras_attn_zoo.studies.scales import SCALES
from keras_attn_zoo.support.backends import BACKENDS
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import PathLike, kind_of, shown, write_text
from keras_attn_zoo.support.setting_types import Whole
from keras_attn_zoo.viewing.picture_types import SUFFIXES, checked_suffix

if TYPE_CHECKING:
    from keras_attn_zoo.corpora.named_corpora import NamedCorpus

_LOG = logging.getLogger(__name__)
_SUFFIXES = f"{', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"
# Of `compare_systems`; the first is the default.
SIGNIFICANCE_TESTS = ("bootstrap", "randomization")
# Of a test text.
FURTHER = "; after these (the latter named .tsv, .tsv.gz, .tsv.xz or .tsv.bz2), files with further references"
# What the label of an axis says of such runs.
OVER_SEEDS = ", mean ± standard deviation"
MODEL = "a run folder, the name or folder of a preset, or hf://user/preset"
TRANSLATION, *OTHER_TASKS = TASKS
# The options of `add_gold_arguments` without gold links.
NO_GOLD: dict[str, object] = {"gold_format": "pharaoh", "index_base": None, "gold_reverse": False}
# Of a system that is trained.
OF_A_RUN = "how long text is cut, what the test text is scored with, and what the built-in corpus is"


def add_backend_argument(parser: Parser, default: str | None = None, resumes: bool = False) -> None:
    """Add `--backend`; `resumes` says whether there may be a run to resume."""
    parser.set_defaults(resumes=resumes)
    parser.add_argument(
        "--backend",
        metavar="NAME",
        default=default,
        help=f"one of {', '.join(BACKENDS)} (default: {'that of the run to resume; else ' * resumes}as configured, for "
        "example in KERAS_BACKEND; else the fastest for the command)",
    )


def add_precision_argument(parser: Parser, default: str | None = "float32") -> None:
    """Add `--precision`; with None, `settings_from_options` and `resumed` know the default."""
    parser.add_argument(
        "--precision",
        type=typed(SETTINGS["System"]["precision"]),
        default=default,
        metavar="NAME",
        help="what to compute in: float32, bfloat16, or auto for bfloat16 where this machine gains from it "
        f"(default: {default or 'that of the run to resume; else float32'})",
    )


def add_corpus_arguments(parser: Parser) -> argparse._ArgumentGroup:
    """Add the options that name training, validation and test text; return their group."""
    group = parser.add_argument_group("text: two files with one sentence per line, or one TSV file; also compressed")
    for name, text in (("train", "training"), ("valid", "validation"), ("test", "test")):
        about = f"{text} text: SOURCE TARGET, or one TSV file{FURTHER * (name == 'test')}"
        group.add_argument(f"--{name}", nargs="+", metavar="FILE", help=about)
    group.add_argument("--reverse", action="store_true", help="use the second file or column as the source")
    group.add_argument(
        "--split-seed",
        type=typed(SETTINGS["System"]["seed"]),
        default=0,
        metavar="N",
        help="seed of the random 8:1:1 split made without --valid and --test (default: %(default)s)",
    )
    group.add_argument(
        "--max-held-out",
        type=typed(Whole(least=1, most=10**9, optional=True)),
        default=MAX_HELD_OUT,
        metavar="N",
        help="maximum validation sentences, and maximum test sentences, of that split; the others are for training; "
        "none for no maximum (default: %(default)s)",
    )
    group.add_argument(
        "--corpus",
        metavar="NAME",
        help="a corpus by name, such as multi30k-de-en; it is downloaded at first use; `attn-zoo corpora` lists them",
    )
    group.add_argument("--embedded", action="store_true", help="use the built-in synthetic corpus")
    group.add_argument(
        "--max-tokens",
        type=typed(SETTINGS["Data"]["max_tokens"]),
        metavar="N",
        help="maximum tokens of a test sentence, as far as the model's weights allow (default: 1.25 times the "
        "setting max_tokens)",
    )
    return group


def add_budget_argument(parser: Parser) -> None:
    """Add `--budget`, for `settings_from_options`."""
    parser.add_argument(
        "--budget",
        type=typed(dataclasses.replace(SETTINGS["Training"]["budget"], optional=False)),
        metavar="AMOUNT",
        help="length of training, instead of the setting epochs: 40000steps, 20Mtokens, 30min or 2h",
    )


def add_significance_argument(parser: Parser) -> None:
    """Add `--significance`, the test of `compare_systems`."""
    parser.add_argument(
        "--significance",
        choices=SIGNIFICANCE_TESTS,
        default=SIGNIFICANCE_TESTS[0],
        help="how scores are compared with those of the baseline: one-sided paired bootstrap (1,000 samples) or "
        "approximate randomization (10,000 trials); default: %(default)s",
    )


def add_override_argument(parser: Parser) -> None:
    """Add `--settings` and `--set`, for `settings_from_options`, and a list of all settings."""
    parser.add_argument(
        "--settings",
        metavar="FILE",
        help="TOML file of settings, for example epochs = 3; the command line takes precedence",
    )
    parser.add_argument(
        "--set",
        nargs="+",
        default=[],
        action="extend",
        metavar="NAME=VALUE",
        help="change settings of the system, for example epochs=3 hidden_dim=256 seed=2; all are listed below",
    )
    lines = []
    for part, settings in SETTINGS.items():
        lines.append(f"{part}:")
        for name, setting in settings.items():
            lines.append(f"  {name}={setting.default}")
            lines.append(f"      {setting.help}: {setting.values}")
    parser.add_argument_group("settings, with defaults that named systems may override", "\n".join(lines))


def add_loading_arguments(parser: Parser) -> None:
    """Add `--max-tokens` and `--precision` for a trained model."""
    parser.add_argument(
        "--max-tokens",
        type=typed(SETTINGS["Data"]["max_tokens"]),
        metavar="N",
        help="maximum tokens of a sentence, as far as the model's weights allow (default: the model's)",
    )
    add_precision_argument(parser)


def add_search_arguments(parser: Parser, several: bool = False) -> None:
    """Add the search settings; with `several`, `--top-k` takes a list."""
    search = SETTINGS["Search"]
    for name in ("beams", "length_penalty"):
        setting = search[name]
        parser.add_argument(
            f"--{name.replace('_', '-')}", type=typed(setting), help=f"{setting.help} (default: the run's)"
        )
    parser.add_argument(
        "--top-k",
        type=typed(dataclasses.replace(search["search_top_k"], optional=False)),
        metavar="K",
        nargs="+" if several else None,
        default=[None] if several else None,
        help="source positions that a latent alignment sums over; 0 for all"
        + ("; several are scored one by one, as NAME-kK" if several else "")
        + " (default: the run's)",
    )


def add_gold_arguments(group: Any) -> None:
    """Add the options that say how gold links are written, to a parser or a group of its options."""
    group.add_argument(
        "--gold-format",
        choices=FORMATS,
        default="pharaoh",
        help="format of the gold links: pharaoh, such as 0-1, or 0p1 for a possible link; talp, the same counted from "
        "1; naacl, lines of ID SOURCE TARGET S or P; giza, its A3.final; tsv, an id and a tab before links "
        "(default: pharaoh)",
    )
    group.add_argument(
        "--index-base",
        type=int,
        choices=(0, 1),
        help="number of the first word in the gold links (default: 0 in the formats pharaoh and tsv, 1 in the others)",
    )
    group.add_argument("--gold-reverse", action="store_true", help="read the gold links as target-source")


def add_word_pair_arguments(parser: Parser) -> None:
    """Add the options that name tokenised text, for `read_bitext`."""
    parser.add_argument("--source", metavar="FILE", help="source sentences, one per line, words separated by spaces")
    parser.add_argument("--target", metavar="FILE", help="their translations, in the same format")
    parser.add_argument("--bitext", metavar="FILE", help="both in one file, as SOURCE ||| TARGET lines")
    parser.add_argument("--reverse", action="store_true", help="use the second side as the source")


def add_links_arguments(parser: Parser) -> None:
    """Add what becomes of links: `--symmetrize`, `--gold` and how it is written, `--output` and its format."""
    parser.add_argument(
        "--symmetrize",
        choices=SYMMETRIZATIONS,
        metavar="METHOD",
        help=f"how to make one alignment from those of both directions: {', '.join(SYMMETRIZATIONS)}",
    )
    parser.add_argument("--gold", metavar="FILE", help="gold links to score against")
    add_gold_arguments(parser)
    parser.add_argument("--output", type=Path, metavar="FILE", help="file for the links, source first")
    parser.add_argument(
        "--format", choices=FORMATS, default="pharaoh", help="format of what is written (default: pharaoh)"
    )
    parser.add_argument(
        "--output-base",
        type=int,
        choices=(0, 1),
        help="number of the first word in what is written (default: 0 in the formats pharaoh and tsv, 1 in the others)",
    )


def add_batch_argument(parser: Parser, what: str, default: int | None = 32, text: str = "32") -> None:
    """Add `--batch-size`; `what` says what happens to a batch, `text` what the default is."""
    parser.add_argument(
        "--batch-size",
        type=typed(SETTINGS["Search"]["batch_size"]),
        default=default,
        help=f"sentences {what} at once (default: {text})",
    )


def add_name_argument(parser: Parser) -> None:
    """Add `--name`, of a test set."""
    parser.add_argument(
        "--name",
        type=checked(check_name),
        default="test",
        help="name of the test set in the run folder (default: test)",
    )


def add_over_seeds(parser: Parser, how: str) -> None:
    """Add `--over-seeds` to a picture of runs; `how` they are drawn."""
    parser.add_argument(
        "--over-seeds", action="store_true", help=f"draw runs that differ in nothing but the seed as one: {how}"
    )


def picture_command(
    name: str,
    summary: str,
    examples: Sequence[str],
    add_arguments: Callable[[Parser], None],
    draw: Callable[[argparse.Namespace], None],
) -> Command:
    """Return a command of `attn-zoo plot`, which takes `--output`, draws there, and says so."""

    def add(parser):
        add_arguments(parser)
        parser.add_argument(
            "--output", type=checked(_picture), required=True, metavar="FILE", help=f"file for the picture: {_SUFFIXES}"
        )

    def run(options):
        draw(options)
        _LOG.info("wrote %s", options.output)

    return Command(name, summary, examples, add, run)


def _picture(text):
    checked_suffix(text)
    return Path(text)


def add_attention_arguments(parser: Parser, more: tuple[str, ...] = (), text: str = "") -> None:
    """Add `--layer` and `--heads`; `more` are other names of layers, explained by `text`."""
    parser.add_argument(
        "--layer",
        type=typed(Whole(least=1, most=MOST_LAYERS, words=("all", "posterior", *more))),
        metavar="N",
        help="layer to read attention from, counted from 1; all for the mean of all layers; posterior for a "
        f"latent alignment given the target token{text} (default: the model's alignment layer, or the mean of all "
        "layers of self-attention)",
    )
    add_heads_argument(parser)


def add_heads_argument(parser: Parser) -> None:
    """Add `--heads`."""
    parser.add_argument(
        "--heads",
        type=typed(Whole(least=0, most=MOST_HEADS - 1)),
        nargs="+",
        metavar="N",
        help="attention heads to average, counted from 0 (default: all)",
    )


def layers_of(translator: Any, layer: int | str | None) -> Any:
    """Return the layers of `--layer`, counted from 0, or "posterior"; None for the model's alignment layer."""
    count = len(translator.backbone.cross_attention_heads)
    if not isinstance(layer, int):
        return range(count) if layer == "all" else layer
    if layer > count:
        raise UserError(f"there is no layer {layer}: give --layer from 1 to {count}, the number of decoder layers.")
    return [layer - 1]


def settings_from_options(options: argparse.Namespace, given: Iterable[str] = ()) -> dict[str, Any]:
    """Return the settings of `--settings`, `--set`, `--precision` and `--budget`.

    Args:
        options: the parsed command line.
        given: names of settings that other options give, and that the file therefore does not.
    """
    of_file = read_settings(options.settings) if options.settings is not None else {}
    settings = parse_settings(options.set)
    for name in ("precision", "budget"):
        value = getattr(options, name, None)
        if value is not None:
            if name in settings:
                raise UserError(f"the {name} was given twice: leave out --{name}, or the setting.")
            settings[name] = value
    for one in (of_file, settings):
        if (task := one.get("task", task_of(options))) != task_of(options):
            raise UserError(f"the task is {task_of(options)}, not {task}: leave out the setting; --task names it.")
        if one.get("budget") is not None and "epochs" in one:
            raise UserError("training ends after a budget or after epochs: give one of them.")
    given = {*given, *settings}
    # A length of the training from the command line takes the place of one from the file, whichever it is.
    given |= {"budget", "epochs"} if {"budget", "epochs"} & given else set()
    return {**{name: value for name, value in of_file.items() if name not in given}, **settings}


def resumed(system: System, folder: PathLike) -> System:
    """Return a system with the precision of the run in a folder, if there is one."""
    return system.override(precision="auto") if RunFolder(folder).holds_run else system


def if_installed(backend: str) -> str | None:
    """Return a backend that alone can do something, or None if it is not installed."""
    return backend if importlib.util.find_spec(backend) else None


def backend_of_run(folders: Iterable[PathLike]) -> str | None:
    """Return the backend of the first run among the folders; None if there is no run."""
    return next((run.backend() for run in map(RunFolder, folders) if run.holds_run), None)


def corpus_from_options(options: argparse.Namespace) -> Corpus:
    """Read the corpus that the options of `add_corpus_arguments` name; raise as `check_corpus_options` does."""
    from keras_attn_zoo.corpora.corpus import corpus_from_files, corpus_from_name, embedded_corpus

    check_corpus_options(options)
    sizes = _sizes_of_scale(options)
    if options.embedded or sizes:
        return embedded_corpus(**(sizes or {}), task=task_of(options))
    if options.corpus is not None:
        if (task := task_of(options)) != TRANSLATION:
            _LOG.info("the corpus %s is for %s: --task %s", options.corpus, task, task)
        return corpus_from_name(options.corpus)
    valid, test = (
        files and files_of_text(name, files) for name, files in (("valid", options.valid), ("test", options.test))
    )
    train = files_of_text("train", options.train)
    return corpus_from_files(train, valid, test, options.split_seed, options.reverse, options.max_held_out)


def check_corpus_options(options: argparse.Namespace) -> None:
    """Raise if the options of `add_corpus_arguments` name no text, or exclude each other; no text is read."""
    of_split: dict[str, object] = {"split_seed": 0, "max_held_out": MAX_HELD_OUT}
    own: dict[str, object] = {"train": None, "valid": None, "test": None, "reverse": False, **of_split}
    if _sizes_of_scale(options):
        refuse(options, f"--scale {options.scale} provides the text", corpus=None, **own)
    elif options.embedded:
        refuse(options, "--embedded provides the text", corpus=None, **own)
    elif options.corpus is not None:
        refuse(options, "--corpus provides the text", **own)
    elif not options.train:
        raise UserError("no training text: give --train SOURCE TARGET, --train FILE.tsv, --corpus NAME, or --embedded.")
    elif options.valid and options.test:
        refuse(options, "with --valid and --test, nothing is split", **of_split)


def _sizes_of_scale(options):
    """The sizes of the built-in text of `--scale`, if it has one."""
    return SCALES[options.scale].corpus if getattr(options, "scale", None) else None


def missing_corpus(options: argparse.Namespace) -> "NamedCorpus | None":
    """Return the corpus that `--corpus` names, if it is not on this machine."""
    from keras_attn_zoo.corpora.corpus_folder import is_here
    from keras_attn_zoo.corpora.named_corpora import find_corpus

    corpus = None if options.corpus is None else find_corpus(options.corpus)[0]
    return None if corpus is None or is_here(corpus) else corpus


def refuse(options: argparse.Namespace, why: str, **without: object) -> None:
    """Raise if any of the named options differs from its default, with the reason and the options to leave out."""
    given = [f"--{name.replace('_', '-')}" for name, value in without.items() if getattr(options, name) != value]
    if given:
        raise UserError(f"{why}: leave out {' and '.join(given)}.")


def files_of_text(name: str, files: list[str]) -> TextFiles:
    """Return the files of an option: source and target, or one TSV file; those of a test text as they are."""
    if len(files) > 2 and name != "test":
        raise UserError(f"--{name} takes SOURCE TARGET or one TSV file; received {len(files)} files.")
    return tuple(files) if len(files) > 1 else files[0]


def ask(question: str) -> bool:
    """Ask at the terminal; without one, the answer is no. Of several processes, the leading one asks."""
    from keras_attn_zoo.devices import agreed, leads

    return agreed(leads() and _answer(question))


def _answer(question):
    if sys.stdin is None or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def add_task_argument(parser: Parser, others: Iterable[str], sets: str, corpus: bool = True) -> None:
    """Add `--task`, with these tasks beside translation; it `sets` something, and `--corpus`, if any, may name it."""
    parser.add_argument(
        "--task",
        choices=(TRANSLATION, *others),
        help="what is learned: "
        + "; ".join(f"{name}, {TASKS[name].about}" for name in (TRANSLATION, *others))
        + f"; it sets {sets} (default: {'that of --corpus, or ' * corpus}{TRANSLATION})",
    )


def task_of(options: argparse.Namespace) -> str:
    """Return the task of `--task` or of `--corpus`; translation where there is neither; raise if they disagree."""
    given, corpus = getattr(options, "task", None), getattr(options, "corpus", None)
    if corpus is None:
        return given or TRANSLATION
    from keras_attn_zoo.corpora.named_corpora import find_corpus

    own = find_corpus(corpus)[0].task
    if given not in (None, own):
        raise UserError(f"the corpus {corpus} is for {own}: leave out --task {given}, or choose another corpus.")
    known = (TRANSLATION, *getattr(options, "of_tasks", OTHER_TASKS))
    if own not in known:
        raise UserError(f"the corpus {corpus} is for {own}, but these systems are for {' and '.join(known)}.")
    return own


def add_test_arguments(parser: Parser) -> None:
    """Add `--test` and `--reverse`."""
    parser.add_argument(
        "--test",
        nargs="+",
        metavar="FILE",
        help=f"test text: SOURCE TARGET, or one TSV file{FURTHER} (default: the run's own)",
    )
    parser.add_argument("--reverse", action="store_true", help="use the second file or column as the source")


def add_more_tests_argument(group: argparse._ArgumentGroup) -> None:
    """Add `--more-test`, for `more_tests`."""
    group.add_argument(
        "--more-test",
        nargs="+",
        action="append",
        default=[],
        metavar=("NAME", "FILE"),
        help=f"a further test text and the name of its scores: NAME SOURCE TARGET, or NAME and one TSV file{FURTHER}; "
        "may be repeated",
    )


def more_tests(options: argparse.Namespace) -> dict[str, ParallelText]:
    """Return the texts of `--more-test` by name; raise for a name without files, given twice or of other scores."""
    texts: dict[str, ParallelText] = {}
    for name, *files in options.more_test:
        # With two files, it may be a name all the same.
        if kind_of(name) == "file" and len(files) == 1 and not is_tsv(files[0]):
            raise UserError(f"--more-test takes a name before the files; received the file {name!r} first.")
        check_name(name)
        if not files:
            raise UserError(f"--more-test takes a name and files; received {name!r} alone.")
        if name in texts or not is_further(name):
            why = "given twice" if name in texts else "one that a run has for other scores"
            raise UserError(f"--more-test: the name {name!r} is {why}: choose another, such as newstest2018.")
        texts[name] = _read(files, options)
    return texts


def given_text(options: argparse.Namespace) -> ParallelText | None:
    """Return the text of `--test`; None without."""
    return _read(options.test, options) if options.test else None


def _read(files, options):
    pairs, more = read_test(files_of_text("test", files), options.reverse)
    return ParallelText(pairs, more_references=more, origin=origin_of(files, options.reverse))


def origin_of(files: Sequence[str], reverse: bool) -> dict[str, Any]:
    """Return where a text was read, as `ParallelText` takes it."""
    return {"files": [str(Path(file).resolve()) for file in files], "reverse": reverse}


def given_gold(options: argparse.Namespace, lengths: Sequence[tuple[int, int]] | None) -> list[Alignment]:
    """Return the links of `--gold`; raise for a file without any link.

    Args:
        options: the parsed command line.
        lengths: see `read_alignments`.
    """
    gold = links_in(
        options.gold, options.gold_format, options.index_base, options.gold_reverse, lengths, "--index-base"
    )
    if not any(one.possible for one in gold):
        raise UserError(f"{shown(options.gold)} has no links to score against: check the file.")
    return gold


def links_in(
    path: PathLike,
    format: str,
    index_base: int | None,
    reverse: bool,
    lengths: Sequence[tuple[int, int]] | None,
    option: str,
) -> list[Alignment]:
    """Return the links of a file; if neither `option`, the format nor a link tells the base, say which was assumed."""
    links = read_alignments(path, index_base, reverse, lengths, format)
    if index_base is None and FORMATS[format] is None:
        tell_base(path, lowest_position(links), option)
    return links


def lengths_of(pairs: Iterable[WordPair]) -> list[tuple[int, int]]:
    """Return the numbers of source and target words of each pair."""
    return [(len(source), len(target)) for source, target in pairs]


def write_links(
    options: argparse.Namespace,
    links: Sequence[Alignment | Collection[Link]],
    pairs: Sequence[WordPair] | None,
    scores: AlignmentScores | None,
) -> None:
    """Write links to `--output`, or print them where there are no scores; print the scores."""
    text = format_alignments(links, options.output_base, format=options.format, pairs=pairs)
    if options.output:
        write_text(options.output, text)
        _LOG.info("wrote %s", options.output)
    elif scores is None:
        sys.stdout.write(text)
    if scores is not None:
        print(scores)


def add_scoring_arguments(parser: Parser) -> None:
    """Add `--tokenize` and `--lowercase`, for `scoring_options`."""
    parser.add_argument(
        "--tokenize",
        metavar="NAME",
        help="tokeniser of sacrebleu for BLEU: 13a, intl, zh, ja-mecab, char and so on, or Moses' for a language, such "
        "as moses-de, for Multi-BLEU (default: 13a)",
    )
    parser.add_argument("--lowercase", action="store_true", help="ignore case in BLEU, chrF and TER")


def scoring_options(options: argparse.Namespace, otherwise: str = "") -> dict[str, Any]:
    """Return tokeniser and case as `score_text` takes them.

    Args:
        options: the parsed command line.
        otherwise: the tokeniser without `--tokenize`; empty for the usual one.
    """
    from keras_attn_zoo.evaluation.text_scores import TOKENIZE, check_tokenizer

    tokenize = (otherwise or TOKENIZE) if options.tokenize is None else options.tokenize
    check_tokenizer(tokenize)
    return {"tokenize": tokenize, "lowercase": options.lowercase}


def own_text(model: PathLike) -> ParallelText:
    """Return the test text of a run; raise if the model is none, or see `own_test_text`."""
    from keras_attn_zoo.runs.described_corpora import own_test_text

    run = RunFolder(model)
    if not run.holds_run:
        raise UserError(f"{model} is not a run folder, and so has no test text: give --test SOURCE TARGET.")
    return own_test_text(run, ask)
