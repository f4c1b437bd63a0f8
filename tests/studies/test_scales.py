"""Every system of every recipe at every scale."""

import functools
import importlib.util
from pathlib import Path

import pytest

from keras_attn_zoo.cli.recipe import run_recipe
from keras_attn_zoo.corpora.corpus import embedded_corpus
from keras_attn_zoo.runs import finished_run
from keras_attn_zoo.runs.outline import outline
from keras_attn_zoo.runs.preparation import check_system, prepare_data
from keras_attn_zoo.runs.system import System
from keras_attn_zoo.studies.scales import SCALES, scaled

RECIPES = sorted((Path(__file__).parents[2] / "recipes").glob("*.py"))


def recipe(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.RECIPE


@pytest.mark.parametrize(
    ("path", "pair", "name", "model_type"),
    [("bahar2020", "zh-en", "transformer", "unigram"), ("hiemsch2023", None, "words", "word")],
)
def test_the_built_in_text_has_enough_pieces_for_each_side(path, pair, name, model_type, tmp_path):
    known = recipe(RECIPES[0].with_name(f"{path}.py"))
    system = (known.for_pair(pair) if pair else known).at_scale("smoke").entries[name].system
    assert system.data.model_type == model_type and not system.data.joint
    subwords = prepare_data(embedded_corpus(**SCALES["smoke"].corpus), system.data, tmp_path).subwords
    assert [one.vocabulary_size for one in subwords] == [system.data.vocabulary_size] * 2


# One with few systems before every commit, all at night.
OFTEN = "dang2023"


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=path.stem, marks=() if path.stem == OFTEN else pytest.mark.slow) for path in RECIPES],
)
@pytest.mark.long
def test_systems_stay_what_they_are_at_every_scale(path):
    """They differ in size, text and length of training: not in body, mechanisms, output, or what a paper is about."""
    known, sizes = recipe(path), {}
    for scale in SCALES:
        for name, entry in known.at_scale(scale).entries.items():
            own, system = known.entries[name], entry.system
            check_system(system)
            assert (entry.paper, entry.baseline) == (own.paper, own.baseline)
            assert (system.body, system.data.joint) == (own.system.body, own.system.data.joint)
            of_paper = known.published if scale == "paper" else {}
            for setting in ("model_type", "truecase"):
                assert getattr(system.data, setting) == of_paper.get(setting, getattr(own.system.data, setting))
            kept = {"cell", "cross_attention", "encoder_attention", "decoder_attention", "output", "top_k", "readout"}
            kept |= {"tie_embeddings", "encoder_positions", "decoder_positions", "dropout"}
            kept |= {"attention_layer", "top_k_gradient"}
            kept &= system.sizes.keys()
            assert {key: system.sizes[key] for key in kept} == {key: own.system.sizes[key] for key in kept}
            sizes[scale, name] = outline(system, 100, 100).parameters
    for name in known.entries:
        assert sizes["smoke", name] < sizes["small", name] <= sizes["paper", name]
        assert known.at_scale("paper").entries[name].system.backbone == known.entries[name].system.backbone
    assert {entry.system.training.budget for entry in known.at_scale("small").entries.values()} == {"10000steps"}


def test_a_decoder_has_the_layers_that_attention_is_read_from():
    system = System("a", {"attention_layer": 4, "width": 64, "num_heads": 2, "ffn_dim": 8}, body="transformer")
    for one in (system, system.override(attention_layer="4:1")):
        assert [scaled(one, SCALES[name]).sizes["decoder_layers"] for name in SCALES] == [5, 5, 6]
    lower = system.override(attention_layer=-1)
    assert [scaled(lower, SCALES[name]).sizes["decoder_layers"] for name in SCALES] == [2, 3, 6]


@pytest.mark.parametrize("scale", SCALES)
def test_systems_whose_attention_is_read_from_different_layers_are_equally_deep(scale):
    """Otherwise Bahar's Table 2 would compare depths."""
    known = recipe(RECIPES[0].with_stem("bahar2020")).at_scale(scale)
    depths = {name: entry.system.sizes.get("decoder_layers") for name, entry in known.entries.items()}
    assert [depths[f"layer-{layer}"] for layer in range(1, 7)] == [6] * 6
    assert depths["transformer"] == {"smoke": 2, "small": 3, "paper": 6}[scale]


def test_experiments_differ_at_every_scale_as_in_the_paper():
    """Hiemsch's: rates of 1e-4 and 5e-4 beside 1e-3, batches of 128 and 256, teacher forcing of 0.8 and 0.5; sizes."""
    for scale in SCALES:
        systems = [
            recipe(RECIPES[0].with_stem("hiemsch2023")).at_scale(scale).entries[f"experiment-{i}"].system
            for i in range(1, 5)
        ]
        rates = [one.training.learning_rate for one in systems]
        assert [rate / rates[0] for rate in rates] == pytest.approx([1, 5, 5, 1])
        batches = [one.data.sentences_per_batch for one in systems]
        assert [batch / batches[0] for batch in batches] == [1, 2, 1, 1]
        assert [one.training.teacher_forcing for one in systems] == [0.8, 0.8, 0.5, 0.5]
        varied = [
            recipe(RECIPES[0].with_stem("hiemsch2023")).at_scale(scale).entries[name].system.sizes
            for name in ("experiment-4", "smaller-states", "larger-states", "larger-embeddings")
        ]
        base = varied[0]
        assert [one["hidden_dim"] / base["hidden_dim"] for one in varied] == [1, 0.5, 2, 1]
        wider = round(base["embedding_dim"] * 620 / 256)
        assert [one["embedding_dim"] for one in varied] == [base["embedding_dim"]] * 3 + [wider]
    smoke = recipe(RECIPES[0].with_stem("hiemsch2023")).at_scale("smoke").entries
    assert smoke["bahdanau-plain"].system.training.learning_rate == SCALES["smoke"].settings["learning_rate"]


# Of one paper, two systems before every commit; at night all of all.
@pytest.mark.parametrize(
    ("path", "count"),
    [
        pytest.param(RECIPES[0].with_stem("dang2023"), 2, id="two of dang2023"),
        *(
            pytest.param(path, None, id=path.stem, marks=[pytest.mark.xdist_group(path.stem), pytest.mark.slow])
            for path in RECIPES
        ),
    ],
)
@pytest.mark.long
def test_every_system_of_every_paper_runs_at_the_scale_smoke(path, count, tmp_path, capsys, monkeypatch):
    # One sentence's attention of each run in place of three.
    monkeypatch.setattr(finished_run, "draw_run", functools.partial(finished_run.draw_run, count=1))
    known = recipe(path)
    names = list(known.smoke or known.entries)[:count]
    line = ["--scale", "smoke", "--out", str(tmp_path), *(["--systems", *names] if count else [])]
    assert run_recipe(known, "A recipe.", line) == 0
    table = capsys.readouterr().out
    assert all(f"\n| {name} " in table for name in names)
    assert "Scale smoke: tiny systems" in table
    # Some are of systems that are not among the two.
    pictures = {"curves.png": ""} if count else known.at_scale("smoke").pictures
    # Of the comparison, not of one of its runs.
    of_pair = known.folder_of(tmp_path, known.first_pair)
    assert pictures and {path.name for path in of_pair.glob("*.png")} >= pictures.keys()
    assert {path.name for path in tmp_path.iterdir()} >= {f"tables.{kind}" for kind in ("md", "tex", "csv", "json")}
    assert (tmp_path / "page.md").exists()
