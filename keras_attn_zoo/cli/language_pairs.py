"""`--pair all`: a paper's comparison for each of its language pairs, one after the other."""

import argparse
import copy
import logging
import math
from typing import Any

from keras_attn_zoo.cli.options import NO_GOLD, refuse
from keras_attn_zoo.cli.part_failures import format_failure
from keras_attn_zoo.cli.run_comparison import checked_comparison, run_comparison, system_names
from keras_attn_zoo.cli.table_options import EVERY, pair_of, runs_in
from keras_attn_zoo.data.splits import MAX_HELD_OUT
from keras_attn_zoo.studies.comparison import Recipe
from keras_attn_zoo.studies.paper_tables import systems_of
from keras_attn_zoo.studies.scales import SCALES
from keras_attn_zoo.support.errors import UserError, counted
from keras_attn_zoo.support.files import shown as shown_path
from keras_attn_zoo.support.messages import shown

_LOG = logging.getLogger(__name__)
# The options of a text with gold alignments, left out.
_NO_GOLD = {"bitext": None, "gold": None, "bitext_reverse": False, **NO_GOLD}


def run_pairs(recipe: Recipe, options: argparse.Namespace) -> None:
    """Run a comparison for the language pair of `--pair`, or for all, see `run_comparison`.

    What fails with one pair stops no other.

    Raises:
        UserError: what is wrong with any pair, as far as is known without its text, before the first one is trained;
            the pairs that failed, after all others.
    """
    if pair_of(options) != EVERY:
        run_comparison(recipe, options)
        return
    of_pairs = _of_pairs(recipe, options)
    for pair, own in of_pairs.items():
        try:
            # A copy, in silence: the comparison says what it does when its turn comes.
            with shown(logging.ERROR):
                checked_comparison(recipe, copy.copy(own))
        except UserError as error:
            raise UserError(f"{pair}: {error}") from None
    failed: dict[str, list[str]] = {}
    seconds = 0.0
    for number, (pair, own) in enumerate(of_pairs.items(), start=1):
        _LOG.info("language pair %d of %d: %s", number, len(of_pairs), pair)
        if options.plan:
            print(("\n" if number > 1 else "") + f"## {pair}\n")
        try:
            seconds += run_comparison(recipe, own)
        except Exception as error:
            failed.setdefault(format_failure(pair, error).rstrip("."), []).append(pair)
    if options.plan:
        from keras_attn_zoo.training.progress import clock_time

        left = "unknown, as texts are missing" if math.isnan(seconds) else f"{clock_time(seconds)}, at most"
        planned = len(of_pairs) - sum(map(len, failed.values()))
        print(f"\nTime left for {counted(planned, 'language pair')}: {left}.")
    if failed:
        reasons = "; ".join(f"{', '.join(names)} ({why})" for why, names in failed.items())
        count = sum(map(len, failed.values()))
        raise UserError(f"{count} of {len(of_pairs)} language pairs failed: {reasons}.")


def _of_pairs(recipe: Recipe, options: argparse.Namespace) -> dict[str, argparse.Namespace]:
    """The options of each language pair, with the systems that the paper's tables and pictures have of it."""
    files = dict.fromkeys(("train", "valid", "test", "corpus"))
    of_split = {"split_seed": 0, "max_held_out": MAX_HELD_OUT}
    one_text: dict[str, Any] = {**files, "more_test": [], "reverse": False, **of_split}
    refuse(options, f"--pair {EVERY} takes the paper's text of each pair", **one_text)
    built_in = options.embedded or (options.scale and SCALES[options.scale].corpus)
    pairs = list(recipe.pairs)
    if options.table_only:
        pairs = [pair for pair in pairs if runs_in(recipe.folder_of(options.out, pair))]
        if not pairs:
            raise UserError(f"{shown_path(options.out)} has no runs of any language pair: train one, or check --out.")
    elif not built_in:
        if options.scale != "paper":
            raise UserError(
                f"--pair {EVERY} needs --scale paper, which has a text for each pair, or --embedded; with text of your "
                "own, run the recipe once for each --pair."
            )
        pairs = [pair for pair in pairs if recipe.pairs[pair].corpus]
        if without := [pair for pair in recipe.pairs if pair not in pairs]:
            _LOG.warning(
                "left out, because the catalogue has no text for it: %s; give your own text with --pair %s",
                ", ".join(without),
                without[0],
            )
    found = {}
    for pair in pairs:
        found[pair] = own = copy.copy(options)
        own.pair = pair
        if options.systems is None:
            wanted = systems_of(recipe.tables, pair, recipe.first_pair)
            if pair == recipe.first_pair:
                # The paper's pictures are of this pair.
                wanted |= {word for line in recipe.pictures.values() for word in line.split()}
            own.systems = [name for name in recipe.entries if name in wanted]
    aligned = [pair for pair, own in found.items() if "gold" in own and _has_gold(recipe, own)]
    for pair in found if aligned else ():
        if pair not in aligned:
            # The paper has alignments of some pairs alone; if of none, these options are refused.
            vars(found[pair]).update(_NO_GOLD)
    return found


def _has_gold(recipe, options):
    return any("gold" in recipe.splits(name, options.pair) for name in system_names(options))
