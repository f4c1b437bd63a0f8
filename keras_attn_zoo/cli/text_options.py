"""The options of a test text, which commands about trained models share."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from keras_attn_zoo.cli.options import FURTHER, ask, files_of_text
from keras_attn_zoo.cli.parser import Parser
from keras_attn_zoo.runs.run_folder import check_name, is_further
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import PathLike, kind_of

if TYPE_CHECKING:
    from keras_attn_zoo.corpora.parallel_text import ParallelText
    from keras_attn_zoo.evaluation.alignments import Alignment


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


def more_tests(options: argparse.Namespace) -> "dict[str, ParallelText]":
    """Return the texts of `--more-test` by name.

    Raises:
        UserError: a name without files, one that a run has for other scores, or one that is given twice; see
            `check_name` and `read_test`.
    """
    from keras_attn_zoo.corpora.given_files import is_tsv

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


def given_text(options: argparse.Namespace) -> "ParallelText | None":
    """Return the text of `--test`; None without."""
    return _read(options.test, options) if options.test else None


def _read(files, options):
    from keras_attn_zoo.corpora.given_files import read_test
    from keras_attn_zoo.corpora.parallel_text import ParallelText

    pairs, more = read_test(files_of_text("test", files), options.reverse)
    return ParallelText(pairs, more_references=more)


def given_gold(
    options: argparse.Namespace, pairs: "Sequence[tuple[Sequence[str], Sequence[str]]]"
) -> "list[Alignment]":
    """Return the links of `--gold` for pairs of source and target words.

    Raises:
        UserError: see `read_alignments`; a file without any link.
    """
    from keras_attn_zoo.evaluation.alignments import read_alignments
    from keras_attn_zoo.support.files import shown

    lengths = [(len(source), len(target)) for source, target in pairs]
    gold = read_alignments(options.gold, options.index_base, options.gold_reverse, lengths=lengths)
    if not any(one.possible for one in gold):
        raise UserError(f"{shown(options.gold)} has no links to score against: check the file.")
    return gold


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

    Raises:
        UserError: see `check_tokenizer`.
    """
    from keras_attn_zoo.evaluation.text_scores import TOKENIZE, check_tokenizer

    tokenize = (otherwise or TOKENIZE) if options.tokenize is None else options.tokenize
    check_tokenizer(tokenize)
    return {"tokenize": tokenize, "lowercase": options.lowercase}


def own_text(model: PathLike) -> "ParallelText":
    """Return the test text of a run.

    Raises:
        UserError: the model is no run, or see `own_test_text`.
    """
    from keras_attn_zoo.runs.described_corpora import own_test_text
    from keras_attn_zoo.runs.run_folder import RunFolder

    run = RunFolder(model)
    if not run.holds_run:
        raise UserError(f"{model} is not a run folder, and so has no test text: give --test SOURCE TARGET.")
    return own_test_text(run, ask)
