"""Every entry of every recipe is a system that can be built, with figures under columns that the table has.

The figures of the paper's tables are consistent with one another, as far as the paper's are.
"""

import functools
import importlib.util
import json
import re
import shlex
import statistics
from argparse import Namespace
from pathlib import Path

import pytest

from keras_attn_zoo.bodies.schema import BODIES
from keras_attn_zoo.cli.options import scoring_options
from keras_attn_zoo.cli.parser import Parser
from keras_attn_zoo.cli.plot import PICTURES
from keras_attn_zoo.corpora.named_corpora import find_corpus
from keras_attn_zoo.runs.named_systems import SYSTEMS
from keras_attn_zoo.studies.measures import measure
from keras_attn_zoo.studies.paper_cells import Runs
from keras_attn_zoo.studies.paper_findings import compare
from keras_attn_zoo.studies.paper_tables import BETTER, LEVEL, WORSE, PaperTable
from keras_attn_zoo.studies.table import COLUMNS

RECIPES = sorted((Path(__file__).parents[1] / "recipes").glob("*.py"))
# Less that of no paper: see `test_league.py`.
PAPERS = [path for path in RECIPES if path.stem != "league"]
SMALL = {
    "rnn": {"embedding_dim": 8, "hidden_dim": 8},
    "transformer": {"width": 16, "num_heads": 2, "ffn_dim": 8, "max_length": 9},
}


def build(system):
    """Build the body of a system, smaller; systems that differ in training or in layers alone have one body."""
    settings = dict(system.override(**SMALL[system.body]).backbone)
    if "attention_layer" not in settings and not any(isinstance(value, list) for value in settings.values()):
        settings |= {"encoder_layers": 1, "decoder_layers": 1}
    build_body(system.body, json.dumps(settings))


@functools.cache
def build_body(body, settings):
    BODIES[body].body_class(20, 20, **json.loads(settings))


@functools.cache
def load(path):
    """A recipe as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_what_is_translated_into_chinese_is_split_by_its_tokeniser(path):
    recipe = load(path).RECIPE
    for pair in recipe.pairs:
        given = {
            name: scoring_options(Namespace(tokenize=name, lowercase=False), recipe.tokenizer_of(pair))["tokenize"]
            for name in (None, "char")
        }
        assert given == {None: "zh" if pair.endswith("-zh") else "13a", "char": "char"}
    assert recipe.tokenizer_of(None) == ""


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
@pytest.mark.long
def test_entries_of_a_recipe(path):
    module = load(path)
    assert set(module.RECIPE.default) <= set(module.RECIPE.entries)
    for name, entry in module.RECIPE.entries.items():
        assert entry.system.name == name
        assert set(entry.paper) <= set(COLUMNS)
        assert entry.baseline != name
        assert entry.baseline is None or entry.baseline in module.RECIPE.entries
        assert entry.system.from_dict(entry.system.to_dict()) == entry.system
        build(entry.system)
    commands = {command.name: command for command in PICTURES}
    for file, line in module.RECIPE.pictures.items():
        name, *words = shlex.split(line)
        parser = Parser()
        commands[name].add_arguments(parser)
        options = parser.parse_args([*words, "--output", file])
        for word in getattr(options, "models", getattr(options, "runs", [])):
            assert str(word) in module.RECIPE.entries


@pytest.mark.parametrize(
    ("pair", "truecase", "nbest", "cleaned"),
    [
        ("de-en", "both", None, False),
        ("en-de", "both", None, False),
        ("zh-en", None, 30, True),
        ("en-zh", None, 30, True),
    ],
)
def test_text_is_prepared_as_bahar_does_for_each_language(pair, truecase, nbest, cleaned):
    recipe = load(next(path for path in RECIPES if path.stem == "bahar2020")).RECIPE
    for entry in recipe.for_pair(pair).at_scale("paper").entries.values():
        data = entry.system.data
        assert (data.truecase, data.subword_sampling_nbest) == (truecase, nbest)
        assert (data.drop_duplicates, data.drop_illegal_characters) == (cleaned, cleaned)
    # Elsewhere, none of it.
    for entry in recipe.for_pair(pair).entries.values():
        assert (entry.system.data.truecase, entry.system.data.subword_sampling_nbest) == (None, None)


@pytest.mark.long
def test_systems_of_the_command_line():
    for name, system in SYSTEMS.items():
        assert system.name == name
        assert system.source
        build(system)


@pytest.mark.parametrize("path", PAPERS, ids=lambda path: path.stem)
def test_tables_of_a_recipe(path):
    recipe = load(path).RECIPE
    assert len({table.name for table in recipe.tables}) == len(recipe.tables) > 1
    for table in recipe.tables:
        if not isinstance(table, PaperTable):
            assert table.entry in recipe.entries
            continue
        assert table.baseline in (None, *recipe.entries)
        for lines in (table.rows, table.columns):
            assert len({(line.title, line.text, line.setup) for line in lines}) == len(lines)
        for cell in (cell for row in table.cells() for cell in row):
            assert cell.entry in ("", *recipe.entries)
            assert measure(cell.measure)
            assert set(cell.pairs) <= set(recipe.pairs)
            # A figure of the paper is of its text, which nothing else names; times are of no text in particular.
            assert cell.text or not cell.figure or "time" in cell.measure
            assert re.fullmatch(r"(|\d+(\.\d+)?[xMk]?( \([-+]\d\.\d\d\))?†?)", cell.figure), cell
            # What the recipe scores by itself; anything else comes with the corpus.
            if not re.fullmatch(r"test|gold|valid(-k\d+)?", cell.split):
                assert all(cell.split in find_corpus(recipe.pairs[pair].corpus)[0].more_tests for pair in cell.pairs)
    for name in filter(
        None, [recipe.corpus, *(one.corpus for one in (*recipe.pairs.values(), *recipe.tasks.values()))]
    ):
        assert path.stem in find_corpus(name)[0].papers
    for pair, own in recipe.pairs.items():
        corpus, reverse = find_corpus(own.corpus) if own.corpus else (None, False)
        assert corpus is None or "-".join(reversed(corpus.sides) if reverse else corpus.sides) == pair
    for task, own in recipe.tasks.items():
        assert find_corpus(own.corpus)[0].task == task
    assert recipe.corpus or recipe.pairs
    # The figures of the entries are those of the first pair.
    for pair in recipe.pairs:
        for entry in recipe.for_pair(pair).entries.values():
            assert entry.paper == {} or pair == recipe.first_pair


@pytest.mark.parametrize("path", PAPERS, ids=lambda path: path.stem)
def test_findings_of_a_recipe(path, tmp_path):
    """What is compared is scored, and the paper's own figures say what it claims."""
    recipe = load(path).RECIPE
    assert recipe.about and 3 <= len(recipe.findings) <= 13
    for finding in recipe.findings:
        assert finding.claim and finding.place and finding.contrasts
        assert set(finding.expected) < {BETTER, WORSE, LEVEL}
        for one in (cell for contrast in finding.contrasts for cell in contrast.cells()):
            assert one.entry in recipe.entries and measure(one.measure)
            scored = [recipe.splits(one.entry, pair) for pair in recipe.pairs or (None,)]
            assert one.split == "test" or any(one.split in splits for splits in scored)
    known = 0
    for one in compare(Runs(recipe, tmp_path)):
        assert (one.here, one.verdict) == ("", "not run")
        if one.paper and len(one.finding.expected) == 1 and one.finding.expected != (LEVEL,):
            better = measure(one.contrast.measure).sign * float(re.match(r"[-+][\d.]+", one.paper)[0]) > 0
            assert better == (one.finding.expected == (BETTER,)), one
            known += 1
    assert known


def figures_of(table, system):
    """The numbers that a table has of a system, by row; what they differ by from the first column's; daggers."""
    found = {}
    for line, row in zip(table.rows, table.cells(), strict=True):
        (base, *_), (own,) = row, (cell for cell in row if cell.entry == system)
        value, difference = re.fullmatch(r"([\d.]+)(?: \(([-+][\d.]+)\))?†?", own.figure).groups()
        title = ", ".join(filter(None, (line.text, line.title)))
        found[title] = float(value), float(value) - float(base.figure), float(difference or 0), "†" in own.figure
    return found


@pytest.mark.parametrize("system", ["transformer", "gaussian", "synthesizer", "ran-e", "ran-d", "ran-all"])
def test_differences_averages_and_daggers_of_zeng(system):
    """As printed: but for two differences, and for the averages' own, they are right."""
    figures = figures_of(load(next(path for path in RECIPES if path.stem == "zeng2021")).TABLES[0], system)
    misprinted = {"ran-e": "Fi⇒En", "ran-all": "En⇒Fr"}
    for row, (_, computed, printed, dagger) in figures.items():
        if row == f"{misprinted.get(system)}, BLEU":
            assert abs(computed - printed) > 0.05
        else:
            assert abs(computed - printed) < 0.011, row
        assert not dagger or printed > 0.4
    for name, count in (("BLEU", 10), ("SacreBLEU", 9)):
        values = [one[0] for row, one in figures.items() if row.endswith(f", {name}") and "Average" not in row]
        assert len(values) == count
        assert abs(statistics.fmean(values) - figures[f"Average, {name}"][0]) < 0.011
