"""The commands of `attn-zoo plot`, and the pictures that a recipe draws with them."""

import contextlib
import logging
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from keras_attn_zoo.cli.options import own_text
from keras_attn_zoo.cli.parser import Parser
from keras_attn_zoo.cli.part_failures import format_failure
from keras_attn_zoo.cli.plot_attention import ATTENTION, MATRICES
from keras_attn_zoo.cli.plot_curves import BY_LENGTH, CURVES, TOP_K
from keras_attn_zoo.cli.plot_layers import DIVERGENCE, ENTROPY, WEIGHTS
from keras_attn_zoo.cli.plot_lengths import LENGTHS
from keras_attn_zoo.cli.plot_speed import SPEED
from keras_attn_zoo.cli.plot_trade_off import TRADE_OFF
from keras_attn_zoo.corpora.corpus import Corpus
from keras_attn_zoo.data.words import word_count
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.studies.comparison import Recipe, Run, folders_by_seed
from keras_attn_zoo.studies.paper_tables import Examples
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import kind_of, read_record, write_json
from keras_attn_zoo.support.locks import locked

_LOG = logging.getLogger(__name__)

PICTURES = [ATTENTION, CURVES, ENTROPY, WEIGHTS, DIVERGENCE, MATRICES, LENGTHS, BY_LENGTH, SPEED, TOP_K, TRADE_OFF]
# In the pictures of a recipe, a sentence of the test text and its translation.
PAIR = ("{sentence}", "{translation}")
# How many words the sentence has.
_FEWEST, _MOST = 6, 14
# The source of one of the best translations of the recipe's `Examples`, counted from 1, and that translation.
EXAMPLE = re.compile(r"\{(source|translation)-(\d+)\}")
# Beside the pictures: the names of the runs that each was drawn of, and the command line.
_DRAWN_OF = ".pictures.json"


def draw_pictures(
    recipe: Recipe, runs: Sequence[Run], out: Path, max_tokens: int | None = None, corpus: Corpus | None = None
) -> None:
    """Draw the pictures of a recipe, of the runs of its systems that were scored, whichever call trained them.

    Of several seeds, a picture shows the first, with `--over-seeds` all; of a grid, the first values, and those only of
    a system that has no other run. A picture of systems none of which was scored is left out, one of a sentence's
    attention if any was not, and one of differences without the first system or any other, and one over the positions
    in training, after the first system, of fewer than two. So is one that cannot be drawn: a message says why. What was
    drawn in the same way of the same runs, after they were scored, stays.

    Args:
        recipe: the comparison.
        runs: its runs, of this call and of earlier ones; what they leave out of a grid is not drawn.
        out: the folder of all runs, to which the pictures are written.
        max_tokens: see `load_translator`.
        corpus: the text that the runs were trained on, if it is at hand; otherwise a picture of it asks before it
            reads the files that a run names.
    """
    from keras_attn_zoo.devices import agreed

    every = {entry: found for entry in recipe.entries if (found := _scored(entry, runs, out))}
    folders = {entry: found[0] for entry, found in every.items()}
    commands = {command.name: command for command in PICTURES}
    for file, line in recipe.pictures.items():
        command, *words = shlex.split(line)
        if not any(word in folders for word in words):
            continue
        systems = [word for word in words if word in recipe.entries]
        if command == "attention" and not all(name in folders for name in systems):
            continue
        # The others are held against the first.
        if "--difference" in words and not (systems[0] in folders and any(name in folders for name in systems[1:])):
            continue
        # Of one number of positions, there is no curve.
        if "--trained" in words and len(folders.keys() & {*systems[1:]}) < 2:
            continue
        shown = every if "--over-seeds" in words else {entry: [folder] for entry, folder in folders.items()}
        drawn = [RunFolder(folder) for word in words for folder in shown.get(word, ())]
        # Of several processes, one writes: the others must not see its file and leave it alone with the work.
        if agreed(_is_of(out, file, line, drawn)):
            continue
        words = [
            str(one)
            for word in words
            if word in folders or word not in recipe.entries
            for one in shown.get(word, [word])
        ]
        parser = Parser(prog=f"attn-zoo plot {command}")
        commands[command].add_arguments(parser)
        try:
            options = parser.parse_args([*words, "--output", str(out / file)])
            # Only now: a sentence may begin with a dash.
            for name, sentence in _sentences(words, recipe, folders).items():
                vars(options).update({key: sentence for key, value in vars(options).items() if value == name})
            if "max_tokens" in options:
                options.max_tokens = max_tokens
            if "known_corpus" in options:
                options.known_corpus = corpus
            # If it is killed before the record of it, it is drawn again.
            _record(out, file, None)
            commands[command].run(options)
        except UserError as error:
            _LOG.warning("%s was not drawn: %s", file, error)
            continue
        except Exception as error:
            # Tables and page are whole without it.
            format_failure(file, error)
            continue
        _record(out, file, _origin(line, drawn))


def _scored(entry, runs, out):
    """The folders of a system's runs that are drawn, in the order of their seeds."""

    def scored(folder):
        # What is wrong with a run that this call did not name must not stop it.
        with contextlib.suppress(UserError):
            return "test" in RunFolder(folder).read_scores()
        return False

    points: dict[str, list[Path]] = {}
    for run in runs:
        if run.entry == entry and scored(out / run.name):
            point = {name: value for name, value in run.point.items() if name != "seed"}
            points.setdefault(str(point), []).append(out / run.name)
    return [*filter(scored, folders_by_seed(out, entry).values())] or next(iter(points.values()), [])


def _record(out, file, origin):
    with locked(out, ".results.lock", wait=True):
        write_json(out / _DRAWN_OF, {**read_record(out / _DRAWN_OF), file: origin})


def _origin(line, runs):
    return {"line": line, "runs": [run.path.name for run in runs]}


def _is_of(out, file, line, runs):
    """Whether a picture was drawn so of these runs, after they were scored: a copy of a run may keep its old times."""
    wanted = _origin(line, runs)
    # Of pictures of earlier versions, it is not known.
    if kind_of(out / file) != "file" or read_record(out / _DRAWN_OF).get(file, wanted) != wanted:
        return False
    sources = (one for run in runs for one in (run.scores, run.timing) if kind_of(one) is not None)
    return all((out / file).stat().st_mtime_ns >= one.stat().st_mtime_ns for one in sources)


def _pair(folder):
    """The first pair of a run's test text whose source fits on a picture; if there is none, the first."""
    pairs = [pair for pair in own_text(folder).pairs if all(side.strip() for side in pair)]
    if not pairs:
        raise UserError("every pair of the test text has an empty side.")
    return next((pair for pair in pairs if _FEWEST <= word_count(pair[0]) <= _MOST), pairs[0])


def _sentences(words, recipe, folders):
    """The sentences that words of a command line stand for."""
    from keras_attn_zoo.runs.examples import best_translations

    found = {}
    if PAIR[0] in words:
        found.update(zip(PAIR, _pair(next(iter(folders.values()))), strict=True))
    if wanted := [one for one in map(EXAMPLE.fullmatch, words) if one]:
        entry = next(table.entry for table in recipe.tables if isinstance(table, Examples))
        if entry not in folders:
            raise UserError(f"its sentences are examples of {entry}, which was not run.")
        examples = best_translations(RunFolder(folders[entry]))
        for one in wanted:
            if (number := int(one[2])) > len(examples):
                raise UserError(
                    f"{entry} has {len(examples)} translations that are not empty, and none is number {number}."
                )
            found[one[0]] = getattr(examples[number - 1], one[1])
    return found
