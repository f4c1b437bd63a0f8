"""The options of a recipe whose paper has tables: the language pair of the text, and text with gold alignments."""

import argparse
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from keras_attn_zoo.cli.options import (
    NO_GOLD,
    TRANSLATION,
    add_gold_arguments,
    given_gold,
    lengths_of,
    origin_of,
    refuse,
    task_of,
)
from keras_attn_zoo.cli.parser import Parser
from keras_attn_zoo.corpora.corpus import Corpus
from keras_attn_zoo.corpora.parallel_text import Gold, ParallelText
from keras_attn_zoo.data.text_files import read_bitext
from keras_attn_zoo.data.words import as_sentence
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.studies.comparison import Recipe
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import shown

_LOG = logging.getLogger(__name__)
# Stands for all systems of a comparison, or for all language pairs of a paper.
EVERY = "all"


def add_table_arguments(parser: Parser, recipe: Recipe) -> None:
    """Add `--pair` if the paper has several language pairs, and `--bitext` and `--gold` if it scores alignments."""
    if recipe.pairs:
        parser.add_argument(
            "--pair",
            choices=[*recipe.pairs, EVERY],
            default=recipe.first_pair,
            metavar="PAIR",
            help=f"language pair of the paper that the text stands for, among {', '.join(recipe.pairs)}: its settings "
            f"are used, and its runs are in a folder of that name in --out; {EVERY}: one after the other, each with "
            "the paper's own text and, by default, the systems of its tables and figures (default: %(default)s, in "
            "--out itself)",
        )
        parser.set_defaults(pairs=tuple(recipe.pairs))
    if any("gold" in recipe.splits(name, pair) for name in recipe.entries for pair in recipe.pairs or (None,)):
        group = parser.add_argument_group("text with gold alignments, for the alignment error rates of the paper")
        group.add_argument(
            "--bitext", metavar="FILE", help="tokenised pairs, as SOURCE ||| TARGET lines, also with --reverse"
        )
        group.add_argument("--bitext-reverse", action="store_true", help="its lines are TARGET ||| SOURCE")
        group.add_argument("--gold", metavar="FILE", help="their links: i-j is sure, ipj possible")
        add_gold_arguments(group)


def pair_of(options: argparse.Namespace) -> str | None:
    """Return the language pair of `--pair`, or None where there is no such option, or another task than translation."""
    return getattr(options, "pair", None) if task_of(options) == TRANSLATION else None


def places_of_runs(options: argparse.Namespace) -> list[Path]:
    """Return the folders in which there may be runs of the language pair, or the pairs, of `--pair`."""
    pair = pair_of(options)
    pairs = [] if pair is None else options.pairs if pair == EVERY else [pair]
    return [*(options.out / one for one in pairs), options.out]


def recipe_of(recipe: Recipe, options: argparse.Namespace) -> Recipe:
    """Return the comparison that `--task`, `--pair` and `--scale` name."""
    task = task_of(options)
    if task != TRANSLATION and recipe.pairs:
        refuse(options, f"--task {task} has no language pairs", pair=recipe.first_pair)
    return recipe.of_task(task).for_pair(pair_of(options)).at_scale(options.scale)


def folder_of_runs(recipe: Recipe, options: argparse.Namespace) -> Path:
    """Return the folder for the runs of `--pair`: `--out`, or one inside."""
    return recipe.folder_of(options.out, pair_of(options))


def runs_in(folder: Path) -> list[RunFolder]:
    """Return the runs that stand in a folder."""
    return [run for path in folder.glob("*") if (run := RunFolder(path)).holds_run]


def take_corpus_of_paper(recipe: Recipe, options: argparse.Namespace, out: Path) -> None:
    """Let `--corpus` name the text of what `recipe_of` returned if the scale is "paper" and no text is given.

    Raises:
        UserError: there are runs of another text: it was forgotten.
    """
    given = options.corpus is not None or options.train or options.valid or options.test or options.embedded
    if options.scale != "paper" or not recipe.corpus or given or options.table_only:
        return
    from keras_attn_zoo.studies.text_names import text_name

    for name in dict.fromkeys(text_name(run.corpus()) for run in runs_in(out)):
        if name != recipe.corpus:
            raise UserError(f"{shown(out)} has runs of another text, {name}: give it again, or another --out.")
    _LOG.info("no text was given; the catalogue's for this paper is taken: --corpus %s", recipe.corpus)
    options.corpus = recipe.corpus


def tell_of_other_languages(options: argparse.Namespace) -> None:
    """Say so if the text of `--corpus` is in other languages than those of the pair that it stands for."""
    pair = pair_of(options)
    if pair is None or options.corpus is None:
        return
    from keras_attn_zoo.corpora.named_corpora import find_corpus

    corpus, reverse = find_corpus(options.corpus)
    own = "-".join(reversed(corpus.sides) if reverse else corpus.sides)
    if own != pair:
        _LOG.warning("the corpus %s is %s, but stands for the paper's %s: see --pair", options.corpus, own, pair)


def check_gold_is_scored(recipe: Recipe, options: argparse.Namespace, names: Iterable[str]) -> None:
    """Raise if gold alignments are given, and no system that is to be trained will be scored on them."""
    if "bitext" not in options:
        return
    given: dict[str, Any] = {"bitext": None, "gold": None}
    if options.table_only:
        refuse(options, "--table-only scores nothing", **given)
    aligned = [name for name in recipe.entries if "gold" in recipe.splits(name, pair_of(options))]
    if not set(names) & set(aligned):
        others = f", only of {', '.join(aligned)}" if aligned else " with this language pair or task"
        refuse(options, f"the paper's tables have no alignments of these systems{others}", **given)


def texts_of_tables(corpus: Corpus, options: argparse.Namespace) -> dict[str, ParallelText]:
    """Return the texts that a paper's tables may have beside the test text, by name."""
    texts = {"valid": ParallelText(corpus.splits.valid)}
    if "bitext" not in options:
        return texts
    if options.gold is None:
        refuse(options, "there is no --gold", bitext=None, bitext_reverse=False, **NO_GOLD)
        return texts
    if options.bitext is None:
        raise UserError("--gold needs --bitext: its links are those of given words.")
    words = read_bitext(options.bitext, reverse=options.bitext_reverse)
    links = given_gold(options, lengths_of(words))
    gold: Gold = [(source, target, one) for (source, target), one in zip(words, links, strict=True)]
    origin = origin_of([options.bitext], options.bitext_reverse)
    return {**texts, "gold": ParallelText([(as_sentence(s), as_sentence(t)) for s, t in words], gold, origin=origin)}
