"""The league: every mechanism is in it, its systems are of one size, and its page is made of run folders."""

import dataclasses
import importlib.util
import json
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from keras_attn_zoo.bodies.schema import BODIES
from keras_attn_zoo.layers import ATTENTIONS
from keras_attn_zoo.layers.registry import Sizes
from keras_attn_zoo.runs.outline import body_arguments
from keras_attn_zoo.runs.registered_mechanisms import registered_mechanisms
from keras_attn_zoo.runs.system import System
from keras_attn_zoo.studies import paper_cells
from keras_attn_zoo.studies.comparison import Entry, Recipe, expand
from keras_attn_zoo.studies.equal_parameters import WIDTHS, equal_runs, equally_large
from keras_attn_zoo.studies.paper_cells import Runs
from keras_attn_zoo.studies.paper_files import write_tables
from keras_attn_zoo.studies.paper_page import write_page
from keras_attn_zoo.studies.paper_tables import Line, Ranking
from keras_attn_zoo.support.errors import UserError
from tests.made_runs import REFERENCES, WRONG, make_run, make_seeds, table_rows

PATH = Path(__file__).parents[1] / "recipes" / "league.py"
SPEC = importlib.util.spec_from_file_location("league", PATH)
LEAGUE = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(LEAGUE)
# Both bodies; networks of their own, matrices of positions, fewer and more weights, gates, states that are wider.
BY_DAY = ("average", "random-synthesizer", "gaussian", "transformer-2026", "luong-dot", "coverage")


def test_the_registry_is_read_as_it_is():
    """Without Keras, by what the files say; a test of the registry adds no file."""
    sizes = {place: Sizes(8, 2, 16, place) for place in ("encoder", "decoder", "cross")}
    of_package = {n: one for n, one in ATTENTIONS.items() if one.layer.__module__.startswith("keras_attn_zoo.layers")}
    assert {one.name: (one.places, one.year, one.has_heads) for one in registered_mechanisms()} == {
        name: (one.places, one.year, "num_heads" in one.arguments(sizes[one.places[0]]))
        for name, one in of_package.items()
    }


def test_every_mechanism_is_in_every_place_that_it_has():
    used = {
        (value, setting.removesuffix("_attention"))
        for one in LEAGUE.SYSTEMS.values()
        for setting, value in one.sizes.items()
        if setting.endswith("_attention") and isinstance(value, str)
    }
    assert used >= {(one.name, place) for one in registered_mechanisms() for place in one.places}
    assert {*LEAGUE.SMOKE, *LEAGUE.LENGTHS} <= LEAGUE.SYSTEMS.keys()
    assert {one.body for one in LEAGUE.SYSTEMS.values()} == LEAGUE.BASELINES.keys()


def test_the_state_that_asks_is_that_of_the_docstring():
    found = {name: one.sizes for name, one in LEAGUE.SYSTEMS.items() if one.body == "rnn"}
    layers = {name: ATTENTIONS[sizes["cross_attention"]].layer for name, sizes in found.items()}
    said = {name: re.search(r"queried by the (\w+) state", layer.__doc__) for name, layer in layers.items()}
    wanted = {name: f"{state[1]}_state" if state else "previous_state" for name, state in said.items()}
    assert {name: sizes["attention_query"] for name, sizes in found.items()} == wanted
    assert set(wanted.values()) == {"previous_state", "current_state"}
    assert all(sizes["input_feeding"] == (wanted[name] == "current_state") for name, sizes in found.items())


def of_equal_size(*names):
    """Systems of the league by name, as they are trained."""
    runs = expand({name: LEAGUE.RECIPE.entries[name] for name in names}, {})
    return {run.name: run.system for run in equal_runs(runs, LEAGUE.RECIPE, {})}


def built(system):
    """The number of the weights of a system's body, with all weights there."""
    size = system.data.vocabulary_size
    body = BODIES[system.body].body_class(size, size, **body_arguments(system))
    return sum(int(np.prod(weight.shape)) for weight in body.weights)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.long if name in BY_DAY else pytest.mark.slow)
        for name in LEAGUE.SYSTEMS
        if name != "transformer"
    ],
)
def test_all_systems_have_equally_many_parameters(name):
    systems = of_equal_size("transformer", name)
    assert built(systems[name]) == pytest.approx(built(systems["transformer"]), rel=0.01)
    assert systems["transformer"] == LEAGUE.SYSTEMS["transformer"]


def test_widths_follow_the_settings_of_a_call():
    """The reference has the width that is given; all others follow it, unless a grid gives theirs."""
    entries = {name: LEAGUE.RECIPE.entries[name] for name in ("transformer", "gaussian", "swiglu", "bahdanau")}

    def widths(settings, grid=None):
        runs = equal_runs(expand(entries, settings, grid), LEAGUE.RECIPE, settings)
        return {run.name: run.system.sizes[WIDTHS[run.system.body]] for run in runs}

    usual, wide = widths({"width": 64}), widths({"width": 64, "ffn_dim": 2000})
    assert usual["swiglu"] < usual["transformer"] == 512 < usual["gaussian"]
    assert wide["swiglu"] < wide["transformer"] == 2000 < wide["gaussian"] and wide["bahdanau"] > usual["bahdanau"]
    assert widths({"hidden_dim": 77})["bahdanau"] == 77
    assert widths({}, {"ffn_dim": [2000]})["swiglu-ffn_dim=2000"] == 2000


def test_what_is_too_large_by_itself_is_refused():
    with pytest.raises(UserError, match=r"even with ffn_dim=1, transformer has .* parameters, and the systems that"):
        equally_large(LEAGUE.SYSTEMS["transformer"], 1000)
    # But at the scale "smoke", whose widths are those of no system.
    entries = {"base": Entry(System("base", {"hidden_dim": 1, "embedding_dim": 1})), "new": LEAGUE.RECIPE.entries["t5"]}
    recipe = Recipe("Two sizes", entries, ("new",), equal_to="base")
    runs = expand({"new": entries["new"]}, {})
    with pytest.raises(UserError, match="even with ffn_dim=1, t5 has"):
        equal_runs(runs, recipe, {})
    assert equal_runs(runs, dataclasses.replace(recipe, scale="smoke"), {}) == runs


ENTRIES = {
    "base": Entry(System("base", {}, body="transformer")),
    "new": Entry(System("new", {}, body="transformer"), baseline="base"),
    "old": Entry(System("old", {}, body="transformer"), baseline="base"),
}
RANKING = Ranking(
    "Ranking",
    "by BLEU",
    [
        Line("BLEU", measure="BLEU"),
        Line("joined", measure="BLEU", split="joined"),
        Line("TER", measure="TER"),
        Line("AER", measure="AER", split="gold"),
    ],
    compared=("BLEU", "joined"),
    entries=tuple(ENTRIES),
)
RECIPE = Recipe("The league", ENTRIES, tuple(ENTRIES), about="Who is best?", tables=(RANKING,), joined=(20, 60))


@pytest.fixture
def few_samples(monkeypatch):
    monkeypatch.setattr(paper_cells, "SAMPLES", 100)


def test_a_ranking_is_sorted_and_corrects_for_all_its_comparisons(tmp_path, few_samples):
    """Four comparisons: of one system, both are far off; of the other, p is 0.03 twice, so that each may be chance."""
    for name, score, lines in (("base", 30.0, WRONG), ("new", 60.0, REFERENCES), ("old", 29.73, WRONG)):
        make_seeds(tmp_path / name, score, translations=lines, names=("test", "joined"))
    assert write_tables(Runs(RECIPE, tmp_path))
    text = (tmp_path / "tables.md").read_text("utf-8")
    heading, *rows = table_rows(text.partition("\n- ")[0])
    # Nothing was aligned.
    assert heading == ["system", "BLEU", "difference", "joined", "TER", "seeds", "state"]
    assert [[*row[:2], row[3]] for row in rows] == [
        ["`new`", "60.0 ± 0.1**", "60.0 ± 0.1**"],
        ["`base`", "30.0 ± 0.1", "30.0 ± 0.1"],
        ["`old`", "29.7 ± 0.1", "29.7 ± 0.1"],
    ]
    of_old = stats.ttest_ind([29.63, 29.73, 29.83], [29.9, 30.0, 30.1], equal_var=False)
    low, high = of_old.confidence_interval(0.95)
    # Systems with the same translations differ in their seeds alone; of others, the text counts too.
    assert [row[2] for row in rows[1:]] == ["–", f"-0.3 ({low:+.1f} to {high:+.2f})"] and -0.05 < high < 0
    assert re.fullmatch(r"\+30\.0 \(\+2\d\.\d to \+3\d\.\d\)", rows[0][2])
    cells = json.loads((tmp_path / "tables.json").read_text())["tables"][0]["cells"]
    raw, corrected = (
        {(one["system"], one["split"]): one[name] for one in cells if one["p_value"] is not None}
        for name in ("p_value", "corrected_p_value")
    )
    wanted = of_old.pvalue
    assert raw["old", "test"] == pytest.approx(wanted) and 0.025 < wanted < 0.05
    assert corrected["old", "test"] == corrected["old", "joined"] == pytest.approx(2 * wanted)
    assert corrected["new", "test"] == pytest.approx(4 * raw["new", "test"])
    assert "corrected by Holm's method for the 4 comparisons of the table" in text
    assert "difference: from the baseline of the same body, base" in text


def test_a_ranking_says_why_nothing_can_be_said_and_which_values_were_chosen(tmp_path, few_samples):
    chosen = {"learning_rate": 0.002}
    record = {"run": "new-learning_rate=0.002", "values": chosen, "validation_loss": {"new-learning_rate=0.002": 1.0}}
    (tmp_path / "tuned.json").write_text(json.dumps({"new": record}))
    make_seeds(tmp_path / "base", 30.0)
    make_run(tmp_path / "new-learning_rate=0.002", 31.0)
    make_run(tmp_path / "new", 99.0)
    (tmp_path / "comments.md").write_text("What it says.")
    runs = Runs(RECIPE, tmp_path)
    page = write_page(runs, write_tables(runs)).read_text("utf-8")
    heading, *rows = table_rows(page.partition("\n- ")[0])
    assert heading[-3:] == ["learning rate", "seeds", "state"]
    assert [(row[0], row[1], *row[-3:-1]) for row in rows] == [
        ("`new`", "31.0", "0.002", "1"),
        ("`base`", "30.0 ± 0.1", "–", "3"),
    ]
    assert "without a mark, there is too little to say of new (1 of 3 seeds)" in page
    assert "learning rate: the best of several for each system" in page
    assert "What it says." in page and "## Findings" not in page and "## Runs" not in page
    assert page.startswith("# The league\n\nWho is best?\n\n## Ranking: by BLEU\n")


def test_without_runs_there_is_no_page(tmp_path):
    runs = Runs(RECIPE, tmp_path)
    assert write_page(runs, write_tables(runs)) is None and [*tmp_path.iterdir()] == []
