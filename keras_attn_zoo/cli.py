"""The command `attn-zoo`: list systems, train, translate, evaluate, align, plot, and a demonstration."""

import argparse
import collections
import contextlib
import dataclasses
import itertools
import signal
import sys
import textwrap
from pathlib import Path

import keras_attn_zoo
from keras_attn_zoo.backends import BACKENDS, choose_backend
from keras_attn_zoo.errors import UserError
from keras_attn_zoo.experiments.run_folder import check_name
from keras_attn_zoo.experiments.setting import Whole
from keras_attn_zoo.experiments.settings import SETTINGS, parse_settings
from keras_attn_zoo.extras import require
from keras_attn_zoo.process import Stoppable, check_arguments, drop_output, one_line, prepare_streams, reason

# Batches that are sorted by length before they are translated.
WINDOW_BATCHES = 100


# Pieces that the recipes use too.


class _Help(argparse.HelpFormatter):
    """Help that fits the terminal: paragraphs and list items are filled, commands are left as they can be copied."""

    def _fill_text(self, text, width, indent):
        blocks = [""]
        for line in text.strip("\n").splitlines():
            goes_on = blocks[-1].startswith("- ") if line.startswith(" ") else blocks[-1][:1].strip() != ""
            if goes_on and line and not line.startswith("- "):
                blocks[-1] += f" {line.strip()}"
            else:
                blocks.append(line)
        filled = (self._filled(block, width - len(indent)) for block in blocks[1:])
        return "".join(f"{textwrap.indent(block, indent)}\n" for block in filled)

    def _filled(self, block, width):
        margin = " " * (len(block) - len(block.lstrip(" -")))
        is_command = margin and block.lstrip().startswith(("attn-zoo", "python", "--"))
        return block if is_command else textwrap.fill(block, width, subsequent_indent=margin)


class Parser(argparse.ArgumentParser):
    """A parser of options that are written out and given once; its errors are one line."""

    def __init__(self, **kwargs):
        super().__init__(formatter_class=_Help, allow_abbrev=False, **kwargs)

    def parse_known_args(self, args=None, namespace=None):
        """See the base class."""
        args = sys.argv[1:] if args is None else list(args)
        given = collections.Counter(
            argument.partition("=")[0] for argument in itertools.takewhile(lambda argument: argument != "--", args)
        )
        for option, action in self._option_string_actions.items():
            if given[option] > 1 and action.nargs != 0 and not isinstance(action, argparse._AppendAction):
                self.error(f"{option} was given {given[option]} times: give it once")
        return super().parse_known_args(args, namespace)

    def error(self, message):
        """Say what is wrong and end with status 2."""
        self.exit(2, f"{self.prog}: error: {one_line(message)} (see {self.prog} --help)\n")


def guarded(parser, action, arguments=None):
    """Parse a command line, choose the backend, run; turn bad input into one line and a status.

    Args:
        parser: a `Parser` with the options of `add_backend_argument`.
        action: function of the parsed options, or None for the one that a subcommand has set.
        arguments: the command line; by default that of the process, which then ends with the status.

    Returns:
        the exit status: 0; 2 for bad input, and for failures of the disk, of memory, of a library; 130, 143 or 129
        after Ctrl-C, SIGTERM or SIGHUP.
    """
    farewell = f"{parser.prog}: stopped. A training run resumes at its last round."
    with Stoppable(farewell, last=arguments is None) as stoppable:
        try:
            prepare_streams()
            status = _run(parser, action, sys.argv[1:] if arguments is None else arguments)
        except BrokenPipeError:
            drop_output()
            status = 0
        except BaseException as error:
            if stoppable.signal is None and isinstance(error, KeyboardInterrupt):
                stoppable.signal = signal.SIGINT
            text = None if stoppable.signal else reason(error)
            if text is None and stoppable.signal is None:
                raise
            if isinstance(error, OSError):
                drop_output()
            if text is not None:
                print(f"{parser.prog}: error: {text}", file=sys.stderr)
            status = 2
        if stoppable.signal is not None:
            # Whatever a library has made of the interrupt.
            status = stoppable.finish()
        return status


def _run(parser, action, arguments):
    check_arguments(arguments)
    try:
        options, rest = parser.parse_known_args(arguments)
        # argparse ends a list of positional arguments at the first option; what comes after options belongs to it too.
        more = getattr(options, "list_argument", None)
        end = rest.index("--") if "--" in rest else len(rest)
        if rest and (more is None or any(item.startswith("-") for item in rest[:end])):
            dashed = "" if more is None else "; -- goes before what begins with a dash and is not an option"
            parser.error(f"unrecognized arguments: {' '.join(rest)}{dashed}")
        if rest:
            setattr(options, more, [*getattr(options, more), *rest[:end], *rest[end + 1 :]])
        require(user=parser.prog)
        choose_backend(options.backend)
        return (action or options.action)(options) or 0
    finally:
        # While an error can still be told.
        sys.stdout.flush()


def say(text):
    """Tell what is being done, beside the output proper."""
    print(text, file=sys.stderr, flush=True)


def ask(question):
    """Ask who sits at the terminal; where nobody does, the answer is no."""
    if sys.stdin is None or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def show_progress(total=None):
    """Return a function that shows how many of `total` sentences are done; without a total one has to say the last."""
    moves = sys.stderr.isatty()

    def show(what, done, last=False):
        last = last or done == total
        if moves or last:
            of = "" if total is None else f"/{total}"
            print(f"{what} {done}{of} sentences", end="\n" if last else "\r", file=sys.stderr, flush=True)

    return show


def add_backend_argument(parser):
    """Add `--backend`."""
    parser.add_argument(
        "--backend",
        metavar="NAME",
        help=f"{', '.join(BACKENDS)}; by default the configured one (KERAS_BACKEND), else the fastest installed",
    )


def add_corpus_arguments(parser):
    """Add the options that name training, validation and test text."""
    group = parser.add_argument_group("text: two files, one sentence a line, or one TSV file; plain or gzip")
    for name, text in (("train", "training"), ("valid", "validation"), ("test", "test")):
        group.add_argument(f"--{name}", nargs="+", metavar="FILE", help=f"{text} text: SOURCE TARGET, or one TSV file")
    group.add_argument("--reverse", action="store_true", help="the second file or column is the source")
    group.add_argument(
        "--split-seed",
        type=_typed(SETTINGS["System"]["seed"]),
        default=0,
        help="of the random split, without --valid and --test",
    )
    group.add_argument("--embedded", action="store_true", help="use the corpus that the package makes itself")
    group.add_argument(
        "--max-tokens",
        type=_typed(SETTINGS["Data"]["max_tokens"]),
        metavar="N",
        help="most subwords of a test sentence, where the model's weights know no limit (default: 1.25 times the "
        "setting max_tokens)",
    )


def add_override_argument(parser):
    """Add `--set`, which `parse_settings` reads, and a list of all settings."""
    parser.add_argument(
        "--set",
        nargs="+",
        default=[],
        action="extend",
        metavar="NAME=VALUE",
        help="change settings of a system, such as epochs=3 hidden_dim=256 seed=2; see below",
    )
    lines = []
    for part, settings in SETTINGS.items():
        lines.append(f"{part}:")
        for name, setting in settings.items():
            lines.append(f"  {name}={setting.default}")
            lines.append(f"      {setting.help}: {setting.values}")
    parser.add_argument_group("settings and their defaults, from which the named systems differ", "\n".join(lines))


def corpus_from_options(options):
    """Read the corpus that the options of `add_corpus_arguments` name."""
    from keras_attn_zoo.experiments.corpora import corpus_from_files, embedded_corpus

    if options.embedded:
        _refuse(
            options, "--embedded is a text of its own", train=None, valid=None, test=None, reverse=False, split_seed=0
        )
        return embedded_corpus()
    if not options.train:
        raise UserError("no training text: give --train SOURCE TARGET, --train FILE.tsv, or --embedded.")
    if options.valid and options.test:
        _refuse(options, "--valid and --test are given, so nothing is split", split_seed=0)
    return corpus_from_files(
        *(_files(name, getattr(options, name)) for name in ("train", "valid", "test")),
        seed=options.split_seed,
        reverse=options.reverse,
    )


def _refuse(options, why, **without):
    """Raise where one of some options has another value than it has without being given."""
    given = [f"--{name.replace('_', '-')}" for name, value in without.items() if getattr(options, name) != value]
    if given:
        raise UserError(f"{why}: leave out {' and '.join(given)}.")


def _files(name, files):
    if files is None:
        return None
    if len(files) > 2:
        raise UserError(f"--{name} takes SOURCE TARGET or one TSV file; received {len(files)} files.")
    return tuple(files) if len(files) == 2 else files[0]


# The subcommands.


def _demo(options):
    from keras_attn_zoo.experiments.demo import run_demo

    run_demo(options.out, say, show_progress)


def _systems(options):
    from keras_attn_zoo.experiments.bodies import outline
    from keras_attn_zoo.experiments.systems import SYSTEMS
    from keras_attn_zoo.experiments.table import markdown_table

    size, rows = options.vocabulary_size, []
    for name, system in SYSTEMS.items():
        count = outline(system, size, size, longest=256).parameters
        rows.append([name, "RNN" if system.body == "rnn" else "Transformer", f"{count:,}", system.source])
    print(markdown_table(["system", "body", "parameters", "paper"], rows))


def _train(options):
    from keras_attn_zoo.experiments.drawing import draw_run
    from keras_attn_zoo.experiments.loading import load_translator
    from keras_attn_zoo.experiments.scoring import score_run
    from keras_attn_zoo.experiments.systems import SYSTEMS, small
    from keras_attn_zoo.experiments.table import results_table
    from keras_attn_zoo.experiments.training import train_system

    if options.system not in SYSTEMS:
        raise UserError(f"unknown system {options.system!r}: choose one of {', '.join(SYSTEMS)}.")
    system = SYSTEMS[options.system]
    system = (small(system) if options.small else system).override(**parse_settings(options.set))
    corpus = corpus_from_options(options)
    room = {"max_tokens": options.max_tokens}
    run = train_system(system, corpus, options.run, resume=options.resume, say=say, **room)
    translator, test = load_translator(run.path, **room), corpus.splits.test
    score_run(run.path, translator, test, corpus.gold, progress=show_progress(len(test)))
    draw_run(run.path, translator, test, corpus.gold)
    print(results_table([run.path]))


def _translate(options):
    from keras_attn_zoo.data.corpus import read_windows

    if options.sentences and options.input is not None:
        raise UserError("sentences and --input: give one of them.")
    if options.n_best > 1 and options.scores:
        raise UserError("--n-best writes the scores by itself: leave --scores out.")
    if options.sentences:
        windows = [options.sentences]
    else:
        windows = read_windows("-" if options.input is None else options.input, WINDOW_BATCHES * options.batch_size)

    from keras_attn_zoo.experiments.loading import load_translator

    translator = load_translator(
        options.model, options.beams, options.length_penalty, options.top_k, options.max_tokens
    )
    show = show_progress() if options.output else None
    done = 0
    with _writer(options.output) as write:
        for window in windows:
            _translate_window(translator, window, done, options, write, show)
            done += len(window)
    if show:
        show("translated", done, last=True)


def _translate_window(translator, window, before, options, write, show):
    """Translate the lines that follow the first `before` ones, and write their translations."""
    from keras_attn_zoo.models.preprocessor import SentenceTooLong

    # An empty line stays an empty line, so that lines of input and output correspond.
    numbers = [i for i, sentence in enumerate(window) if sentence.strip()]
    try:
        found = translator.translate(
            [window[i] for i in numbers],
            n_best=options.n_best,
            batch_size=options.batch_size,
            progress=show and (lambda done: show("translated", before + done)),
        )
    except SentenceTooLong as error:
        i = numbers[error.number - 1]
        what = "sentence" if options.sentences else "line"
        if i and not (options.sentences or options.output):
            # Of a stream, what came before is good.
            _translate_window(translator, window[:i], before, options, write, show)
        raise SentenceTooLong(before + i + 1, error.tokens, error.limit, what) from None
    lines = [[""] for _ in window]
    for i, hypotheses in zip(numbers, found, strict=True):
        if options.n_best > 1:
            lines[i] = [f"{before + i} ||| {one.text} ||| {one.score:.4f}" for one in hypotheses]
        else:
            lines[i] = [f"{hypotheses[0].text}\t{hypotheses[0].score:.4f}" if options.scores else hypotheses[0].text]
    write("".join(f"{line}\n" for group in lines for line in group))


@contextlib.contextmanager
def _writer(path):
    """Give a function that writes text at once: to the standard output, or to a file that is whole or absent."""
    from keras_attn_zoo.files import open_output

    with contextlib.nullcontext(sys.stdout) if path is None else open_output(path) as file:

        def write(text):
            file.write(text if path is None else text.encode())
            file.flush()

        yield write


def _evaluate(options):
    from keras_attn_zoo.data.corpus import read_lines
    from keras_attn_zoo.evaluation.text_scores import score_text
    from keras_attn_zoo.experiments.corpora import own_test_text, read_pairs
    from keras_attn_zoo.experiments.loading import load_translator
    from keras_attn_zoo.experiments.run_folder import RunFolder
    from keras_attn_zoo.experiments.scoring import score_run
    from keras_attn_zoo.experiments.table import results_table

    search = {"beams": None, "length_penalty": None, "max_tokens": None}
    if options.hypotheses is not None or options.references is not None:
        if None in (options.hypotheses, options.references) or options.runs:
            raise UserError("to score text, give --hypotheses and --references and no run.")
        of_runs = {"test": None, "reverse": False, "name": "test", "stored": False, "baseline": None, "top_k": [None]}
        _refuse(options, "text is scored, and nothing is translated", **search, **of_runs)
        hypotheses, references = list(read_lines(options.hypotheses)), list(read_lines(options.references))
        scores = score_text(hypotheses, references)
        if not any(line.strip() for line in hypotheses):
            say(f"{options.hypotheses} has only empty lines: is it the right file?")
        print(scores)
        return
    if not options.runs:
        raise UserError("give a run folder, or --hypotheses and --references.")
    if options.stored:
        _refuse(options, "--stored translates nothing", **search, test=None, reverse=False)
    elif not options.test:
        _refuse(options, "the text of the run is read as the run read it", reverse=False)
    if options.baseline not in (None, *options.runs):
        raise UserError(f"the baseline {options.baseline} is not among the runs: name one of them.")
    counts = list(dict.fromkeys(options.top_k))
    names = [f"{options.name}-k{k}" if len(counts) > 1 else options.name for k in counts]
    if counts != [None] and not options.stored:
        for folder in options.runs:
            if RunFolder(folder).system().backbone.get("output") != "latent":
                raise UserError(f"{folder} has no latent alignment: leave it out, or leave --top-k out.")
    for folder in [] if options.stored else options.runs:
        if options.test:
            pairs, gold = read_pairs(_files("test", options.test), options.reverse), None
        else:
            pairs, gold = own_test_text(RunFolder(folder), ask)
        translator = load_translator(
            folder, options.beams, options.length_penalty, counts[0], max_tokens=options.max_tokens
        )
        known = None
        for name, k in zip(names, counts, strict=True):
            if known:
                translator.compile(sampler=translator.sampler, search_top_k=k)
            known = score_run(folder, translator, pairs, gold, name, known, show_progress(len(pairs)))
    print(results_table(options.runs, names, baseline=options.baseline))


def _align(options):
    from keras_attn_zoo.evaluation.alignments import Alignment, format_alignment, read_alignments
    from keras_attn_zoo.experiments.corpora import read_bitext
    from keras_attn_zoo.experiments.loading import load_translator
    from keras_attn_zoo.experiments.table import markdown_table
    from keras_attn_zoo.experiments.word_alignment import align_by_layer, align_words, score_links
    from keras_attn_zoo.files import shown, write_text

    given = any(file is not None for file in (options.bitext, options.source, options.target, options.gold))
    pairs, gold = (None, None) if given else _own_gold(options.model)
    if pairs is not None:
        why = "the text and its gold links are those of the run"
        _refuse(options, why, reverse=False, gold_reverse=False, index_base=0)
    elif options.gold is None:
        _refuse(options, "there is no --gold", gold_reverse=False, index_base=0)
    if pairs is None:
        pairs = read_bitext(options.bitext, options.source, options.target, options.reverse)
    if options.layer == "best" and gold is None and options.gold is None:
        raise UserError("--layer best needs --gold: alignment error rates decide.")
    if options.gold is not None:
        lengths = [(len(source), len(target)) for source, target in pairs]
        gold = read_alignments(options.gold, options.index_base, options.gold_reverse, lengths=lengths)
        if not any(one.possible for one in gold):
            raise UserError(f"{shown(options.gold)} holds no link: there is nothing to score against.")
    translator = load_translator(options.model, max_tokens=options.max_tokens)
    show = show_progress(len(pairs))
    arguments = {
        "heads": options.heads,
        "leave_out": options.leave_out,
        "batch_size": options.batch_size,
        "progress": lambda done: show("aligned", done),
    }
    if options.layer == "best":
        found = align_by_layer(translator, pairs, gold, **arguments)
        best = min((layer for layer in found if not isinstance(layer, str)), key=lambda layer: found[layer][1].aer)
        rows = [
            [f"{layer if isinstance(layer, str) else layer + 1}{' (best)' if layer == best else ''}"]
            + [f"{100 * value:.1f}" for value in (scores.aer, scores.precision, scores.recall)]
            for layer, (_, scores) in found.items()
        ]
        print(markdown_table(["layer", "AER", "precision", "recall"], rows))
        links = found[best][0]
    else:
        links, _ = align_words(translator, pairs, _layers(translator, options.layer), **arguments)
    text = "".join(format_alignment(Alignment(sure=frozenset(one))) + "\n" for one in links)
    if options.output:
        write_text(options.output, text)
    elif gold is None:
        sys.stdout.write(text)
    if gold is not None:
        print(score_links(links, pairs, gold, options.leave_out))


def _own_gold(model):
    """Word pairs and gold links of a run on the embedded corpus; None and None of anything else."""
    from keras_attn_zoo.experiments.corpora import corpus_from_description
    from keras_attn_zoo.experiments.run_folder import RunFolder

    run = RunFolder(model)
    if not run.holds_run or "generated" not in run.corpus():
        return None, None
    gold = corpus_from_description(run.corpus()).gold
    return [(source, target) for source, target, _ in gold], [links for *_, links in gold]


def _layers(translator, layer):
    """Layers of `--layer`, counted from 0, or "posterior"; None for the one that the model names."""
    count = len(translator.backbone.cross_attention_heads)
    if layer in (None, "posterior"):
        return layer
    if layer == "all":
        return range(count)
    if layer > count:
        raise UserError(f"--layer {layer}: the decoder has {count} layers of cross-attention, counted from 1.")
    return [layer - 1]


def _plot_attention(options):
    from keras_attn_zoo.analysis.pictures import plot_attentions
    from keras_attn_zoo.experiments.curves import titles
    from keras_attn_zoo.experiments.loading import load_translator
    from keras_attn_zoo.experiments.word_alignment import sentence_picture

    panels, axes, target = [], None, options.target
    if target is not None and any(x is not None for x in (options.beams, options.length_penalty, options.top_k)):
        raise UserError("--target is given, so nothing is searched: leave out --beams, --length-penalty and --top-k.")
    models = [options.model, *options.beside]
    for model, title in zip(models, titles(models), strict=True):
        # Only the first one searches, and that without a given translation.
        search = (options.beams, options.length_penalty, options.top_k) if target is None else ()
        translator = load_translator(model, *search, max_tokens=options.max_tokens)
        if options.beside and target is None:
            # All models decode along the translation of the first.
            target = translator.generate(options.sentence)
        layers = _layers(translator, options.layer)
        matrix, *words = sentence_picture(translator, options.sentence, target, options.subwords, layers, options.heads)
        if axes not in (None, words):
            raise UserError(f"{model} cuts the sentences into other subwords than {options.model}: draw words.")
        axes = words
        panels.append((title if options.beside else None, matrix))
    plot_attentions(panels, *axes, options.output)
    say(f"wrote {options.output}")


def _plot_curves(options):
    from keras_attn_zoo.analysis.pictures import plot_curves
    from keras_attn_zoo.experiments.curves import curves

    plot_curves(curves(options.runs, options.key), options.output, ylabel=options.key.replace("val_", "validation "))
    say(f"wrote {options.output}")


def _plot_top_k(options):
    from keras_attn_zoo.analysis.pictures import plot_curves
    from keras_attn_zoo.experiments.curves import curves_over_top_k, curves_over_trained_top_k
    from keras_attn_zoo.experiments.table import METRICS, steady_translation_seconds

    if options.key == "tokens/s" and not options.trained:
        raise UserError("tokens/s are those of training: give --trained too.")

    def value(scores):
        if options.key == "seconds":
            return steady_translation_seconds(scores)
        if options.key == "tokens/s":
            return scores["training"]["tokens_per_second"]
        return scores["text"]["metrics"][METRICS[options.key]]["score"]

    draw = curves_over_trained_top_k if options.trained else curves_over_top_k
    curves, ticks = draw(options.runs, options.name, value)
    labels = {"seconds": "seconds of translation", "tokens/s": "target tokens a second in training"}
    xlabel = f"source positions summed over in {'training' if options.trained else 'search'}"
    plot_curves(curves, options.output, labels.get(options.key, options.key), xlabel=xlabel, ticks=ticks)
    say(f"wrote {options.output}")


def build_parser():
    """Return the parser of `attn-zoo`."""
    parser = Parser(
        prog="attn-zoo",
        description="Use, compare and look inside attention mechanisms for translation.",
        epilog="examples:\n"
        "  attn-zoo demo\n"
        "  attn-zoo train --system bahdanau --train train.de train.en --run runs/bahdanau\n"
        '  attn-zoo translate runs/bahdanau "Guten Morgen."\n'
        "  attn-zoo COMMAND --help",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {keras_attn_zoo.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def command(name, action, summary, examples, group=commands, list_argument=None):
        sub = group.add_parser(
            name,
            help=summary,
            description=summary[0].upper() + summary[1:] + ".",
            epilog="examples:\n" + "\n".join(f"  {line}" for line in examples),
        )
        sub.set_defaults(action=action, list_argument=list_argument)
        add_backend_argument(sub)
        return sub

    def length_argument(sub):
        sub.add_argument(
            "--max-tokens",
            type=_typed(SETTINGS["Data"]["max_tokens"]),
            metavar="N",
            help="most subwords of a sentence, where the model's weights know no limit (default: what it was made for)",
        )

    def search_arguments(sub, several=False):
        search = SETTINGS["Search"]
        for name in ("beams", "length_penalty"):
            setting = search[name]
            sub.add_argument(
                f"--{name.replace('_', '-')}", type=_typed(setting), help=f"{setting.help} (default: the run's)"
            )
        sub.add_argument(
            "--top-k",
            type=_typed(dataclasses.replace(search["search_top_k"], optional=False)),
            metavar="K",
            **({"nargs": "+", "default": [None]} if several else {}),
            help="source positions that a latent alignment sums over; 0 for all (default: the run's)"
            + ("; of several, each is scored, as NAME-kK" if several else ""),
        )

    def name_argument(sub):
        sub.add_argument(
            "--name",
            type=_checked(check_name),
            default="test",
            help="of the test set, in the run folder (default: test)",
        )

    def picture_argument(sub):
        sub.add_argument("--output", type=Path, required=True, metavar="FILE", help="picture: .png, .pdf or .svg")

    def attention_arguments(sub, more=(), text=""):
        sub.add_argument(
            "--layer",
            type=_typed(
                Whole(least=1, most=SETTINGS["Transformer"]["decoder_layers"].most, words=("all", "posterior", *more))
            ),
            metavar="N",
            help="decoder layer to read attention from, counted from 1, or all; posterior: of a latent alignment, once "
            f"the token is known{text} (default: what the model aligns by, the last)",
        )
        sub.add_argument(
            "--heads",
            type=_typed(Whole(least=0, most=SETTINGS["Transformer"]["num_heads"].most - 1)),
            nargs="+",
            metavar="N",
            help="heads to average, counted from 0 (default: all)",
        )

    sub = command(
        "demo",
        _demo,
        "train Bahdanau's attention and its uniform twin on a corpus made here, score, translate and draw",
        ["attn-zoo demo", "attn-zoo demo --out my-demo --backend torch"],
    )
    sub.add_argument("--out", type=Path, default=Path("demo-run"), help="folder (default: %(default)s); resumes there")

    sub = command(
        "systems",
        _systems,
        "list the systems by name, with their number of parameters and where in the papers they stand",
        ["attn-zoo systems", "attn-zoo systems --vocabulary-size 32000"],
    )
    sub.add_argument(
        "--vocabulary-size",
        type=_typed(dataclasses.replace(SETTINGS["Data"]["vocabulary_size"], optional=False)),
        default=8000,
        help="of either side (default: %(default)s)",
        metavar="N",
    )

    sub = command(
        "train",
        _train,
        "train a system on parallel text into a run folder, then score it on the test text",
        [
            "attn-zoo train --system bahdanau --train train.de train.en --run runs/bahdanau",
            "attn-zoo train --system luong-general --train all.tsv --reverse --run runs/luong --set epochs=5",
            "attn-zoo train --system uniform --embedded --small --run runs/uniform --resume",
        ],
    )
    sub.add_argument("--system", required=True, metavar="NAME", help="an unknown name lists the known ones")
    sub.add_argument("--run", type=Path, required=True, metavar="DIR", help="the run folder")
    sub.add_argument("--resume", action="store_true", help="go on with the run that stands there")
    sub.add_argument("--small", action="store_true", help="take the system in the size of the demonstration")
    add_corpus_arguments(sub)
    add_override_argument(sub)

    sub = command(
        "translate",
        _translate,
        "translate sentences, a file, or what comes through a pipe",
        [
            'attn-zoo translate runs/bahdanau "Guten Morgen." "Wie geht es dir?"',
            "attn-zoo translate runs/bahdanau --input news.de --output news.en --beams 5",
            "cat news.de | attn-zoo translate hf://user/preset > news.en",
            'attn-zoo translate runs/bahdanau --n-best 3 "Guten Morgen."',
        ],
        list_argument="sentences",
    )
    sub.add_argument("model", help="a run folder, a preset folder, or hf://user/preset")
    sub.add_argument("sentences", nargs="*", metavar="SENTENCE", help="by default the standard input, a line each")
    sub.add_argument("--input", metavar="FILE", help="file of sentences, plain or gzip")
    sub.add_argument("--output", type=Path, metavar="FILE", help="by default the standard output")
    sub.add_argument(
        "--n-best", type=_typed(SETTINGS["Search"]["beams"]), default=1, help="write NUMBER ||| TEXT ||| SCORE lines"
    )
    sub.add_argument("--scores", action="store_true", help="write the score behind each translation")
    sub.add_argument(
        "--batch-size",
        type=_typed(SETTINGS["Search"]["batch_size"]),
        default=32,
        help="sentences searched at once (default: 32)",
    )
    search_arguments(sub)
    length_argument(sub)

    sub = command(
        "evaluate",
        _evaluate,
        "score runs on a test text (BLEU, chrF, TER, perplexity, AER), or a file of translations",
        [
            "attn-zoo evaluate runs/bahdanau runs/uniform",
            "attn-zoo evaluate runs/bahdanau --test news.de news.en --name news --beams 12",
            "attn-zoo evaluate runs/* --stored --baseline runs/bahdanau > table.md",
            "attn-zoo evaluate runs/latent --top-k 1 2 3 6 10 0",
            "attn-zoo evaluate --hypotheses ours.en --references news.en",
        ],
        list_argument="runs",
    )
    sub.add_argument("runs", nargs="*", type=Path, metavar="RUN", help="run folders")
    sub.add_argument(
        "--test", nargs="+", metavar="FILE", help="SOURCE TARGET or one TSV file; by default the run's own"
    )
    sub.add_argument("--reverse", action="store_true", help="the second file or column is the source")
    name_argument(sub)
    sub.add_argument("--stored", action="store_true", help="translate nothing: the table of the scores in the runs")
    sub.add_argument(
        "--baseline", type=Path, metavar="RUN", help="one of the runs: mark what differs from it significantly"
    )
    sub.add_argument("--hypotheses", metavar="FILE", help="translations, one a line")
    sub.add_argument("--references", metavar="FILE", help="their references")
    search_arguments(sub, several=True)
    length_argument(sub)

    sub = command(
        "align",
        _align,
        "align the words of given translations by forced decoding; write Pharaoh lines, score against gold",
        [
            "attn-zoo align runs/bahdanau --source test.de --target test.en --output test.align",
            "attn-zoo align runs/bahdanau --bitext test.de-en --gold gold.talp --index-base 1",
            "attn-zoo align runs/transformer --bitext test.de-en --gold gold.talp --index-base 1 --layer best",
            "attn-zoo align runs/embedded --layer best",
        ],
    )
    sub.add_argument(
        "model",
        help="a run folder, a preset folder, or hf://user/preset; of a run on the embedded corpus, whose test text has "
        "gold links, no text need be given",
    )
    sub.add_argument("--source", metavar="FILE", help="source sentences, words apart by spaces")
    sub.add_argument("--target", metavar="FILE", help="their translations")
    sub.add_argument("--bitext", metavar="FILE", help="both in one file: SOURCE ||| TARGET")
    sub.add_argument("--reverse", action="store_true", help="the second side is the source of the model")
    sub.add_argument("--gold", metavar="FILE", help="gold links, i-j sure and ipj possible")
    sub.add_argument("--index-base", type=int, choices=(0, 1), default=0, help="what the gold counts from (default: 0)")
    sub.add_argument("--gold-reverse", action="store_true", help="the gold links are target-source")
    sub.add_argument("--output", type=Path, metavar="FILE", help="links, source-target, counted from 0")
    attention_arguments(sub, ("best",), "; best: the one with the lowest error rate against --gold")
    length_argument(sub)
    sub.add_argument(
        "--leave-out",
        nargs="*",
        default=["end"],
        choices=("end", "full_stop"),
        help="what no word is aligned to: the end of the sentence, the full stop (default: end)",
    )
    sub.add_argument(
        "--batch-size",
        type=_typed(SETTINGS["Search"]["batch_size"]),
        default=32,
        help="sentences decoded at once (default: 32)",
    )

    plots = commands.add_parser("plot", help="draw the attention of a sentence, or the curves of runs")
    kinds = plots.add_subparsers(title="pictures", metavar="PICTURE", required=True)
    sub = command(
        "attention",
        _plot_attention,
        "draw the attention matrix of a sentence, with its words on both axes",
        [
            'attn-zoo plot attention runs/bahdanau "Er ruft den Freund an." --output attention.png',
            'attn-zoo plot attention runs/bahdanau "Guten Tag." --target "Hello." --output forced.pdf',
            'attn-zoo plot attention runs/plain "Er kam an." --beside runs/latent --output beside.png',
        ],
        kinds,
    )
    sub.add_argument("model", help="a run folder, a preset folder, or hf://user/preset")
    sub.add_argument("sentence", help="the source sentence")
    sub.add_argument("--target", metavar="TEXT", help="a given translation; by default the model's own")
    sub.add_argument("--beside", nargs="+", default=[], metavar="MODEL", help="draw these models beside the first one")
    sub.add_argument("--subwords", action="store_true", help="draw subwords instead of words")
    attention_arguments(sub)
    picture_argument(sub)
    search_arguments(sub)
    length_argument(sub)
    sub = command(
        "curves",
        _plot_curves,
        "draw the curves of several runs in one picture",
        ["attn-zoo plot curves runs/bahdanau runs/uniform --output curves.png", "... --key val_bleu"],
        kinds,
    )
    sub.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run folders")
    sub.add_argument("--key", default="val_loss", help="a number of the log (default: val_loss)")
    picture_argument(sub)
    sub = command(
        "top-k",
        _plot_top_k,
        "draw a score of latent alignments over the number of source positions in search or training",
        [
            "attn-zoo plot top-k runs/top-6 runs/exact --output bleu.png",
            "attn-zoo plot top-k runs/top-6 runs/exact --key seconds --output seconds.png",
            "attn-zoo plot top-k runs/top-1 runs/top-6 runs/exact runs/plain --trained --output bleu.png",
        ],
        kinds,
    )
    sub.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run folders")
    sub.add_argument(
        "--key",
        default="BLEU",
        choices=("BLEU", "chrF", "TER", "seconds", "tokens/s"),
        help="what is drawn: a score, seconds of translation, tokens/s of training (default: BLEU)",
    )
    sub.add_argument(
        "--trained",
        action="store_true",
        help="over the number in training, a point a run, others as levels (default: over those of `evaluate --top-k`)",
    )
    name_argument(sub)
    picture_argument(sub)
    return parser


def _typed(setting):
    """Return a function that reads an option as it reads a setting."""
    return _checked(setting.parse)


def _checked(function):
    """Return a function for the type of an option, which raises as argparse wants it."""

    def read(text):
        try:
            return function(text)
        except UserError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


def main(arguments=None):
    """Run `attn-zoo`; return its exit status."""
    return guarded(build_parser(), None, arguments)


if __name__ == "__main__":
    sys.exit(main())
