"""The gallery: every layer of the registry, sorted and costed as by hand."""

import html
import itertools
import json
import re
import runpy
from pathlib import Path

import pytest

from keras_attn_zoo.layers import ATTENTIONS
from keras_attn_zoo.site.gallery import FAMILIES, exhibits, operations
from keras_attn_zoo.site.toy_weights import toy_weights

pytestmark = pytest.mark.one_backend
ROOT = Path(__file__).resolve().parents[2]
ONE, HEADS, PAST, MATRIX, NONE = FAMILIES
FAMILY = {
    **dict.fromkeys(["BahdanauAttention", "LuongAttention", "LocalAttention"], ONE),
    **dict.fromkeys(
        ["MultiHeadAttention", "TalkingHeadsAttention", "DifferentialAttention", "ForgettingAttention"], HEADS
    ),
    **dict.fromkeys(["CoverageAttention", "PreviousContextAttention", "WeightSubtractionAttention"], PAST),
    **dict.fromkeys(["LinearAttention", "RetentionAttention", "GatedDeltaAttention"], MATRIX),
    **dict.fromkeys(["UniformAttention", "AverageAttention", "GaussianAttention", "DenseSynthesizerAttention"], NONE),
}


def test_a_layer_belongs_to_the_family_of_its_kind():
    shown = {one.title: one.family for one in exhibits({})}
    assert {name: shown[name] for name in FAMILY} == FAMILY
    assert {*shown.values()} == {*FAMILIES}


@pytest.mark.parametrize(
    ("cost", "expected"),
    [
        ("I·J·d", 25 * 25 * 512),
        ("J·d + d²", 25 * 512 + 512**2),
        ("d²/N", 512**2 / 8),
        ("I·J·(d + N²)", 25 * 25 * (512 + 64)),
        ("I²·d + I³·N once per batch", 25**2 * 512 + 25**3 * 8),
        ("σ·d", 512),
    ],
)
def test_costs_are_compared_as_numbers(cost, expected):
    assert operations(cost) == expected


def test_every_cost_of_the_registry_is_a_number():
    for entry in ATTENTIONS.values():
        assert operations(entry.cost.training) >= operations(entry.cost.step) > 0


def test_sums_of_all_values_are_in_the_cost():
    """Of every cross-attention that reads all positions."""
    least = ATTENTIONS["uniform"].cost
    for name in (name for name, entry in ATTENTIONS.items() if "cross" in entry.places):
        for kind in ("training", "step"):
            assert operations(getattr(ATTENTIONS[name].cost, kind)) >= operations(getattr(least, kind)), name


def text_of(path):
    return " ".join(
        html.unescape(re.sub(r"<script.*?</script>|<[^>]+>", " ", path.read_text("utf-8"), flags=re.S)).split()
    )


def test_every_mechanism_is_on_the_page_of_its_layer(built):
    pages = {one.title: text_of(built / "gallery" / one.file) for one in exhibits({})}
    for name, entry in ATTENTIONS.items():
        text = pages[entry.layer.__name__]
        assert f" {name} " in text or f" {name}," in text
        assert all(cost in text for cost in entry.cost), name
    assert "Multiplicative attention: the energy is a product of query and key." in pages["LuongAttention"]
    assert "Luong and others (2015): Effective Approaches" in pages["LocalAttention"]
    assert "eq. 1-2" in pages["MultiHeadAttention"] and "§2.7" in pages["MultiHeadAttention"]
    # Of several papers of one author, the one of the year.
    assert "Shazeer (2019): Fast Transformer Decoding" in pages["MultiHeadAttention"]
    assert "Shazeer and others (2020): Talking-Heads Attention" in pages["TalkingHeadsAttention"]
    assert "Presets with it transformer_average_tatoeba_de_en : A Transformer whose" in pages["AverageAttention"]
    assert "Presets with it" not in pages["BahdanauAttention"]


@pytest.mark.parametrize("settings", [1, pytest.param(None, marks=pytest.mark.slow)], ids=["first", "all"])
def test_the_weights_of_the_playgrounds_are_those_of_the_layers(settings):
    drawn = runpy.run_path(str(ROOT / "docs" / "draw_layers.py"))
    shown = toy_weights()
    assert (shown["source"], shown["target"]) == (drawn["SOURCE"], drawn["TARGET"])
    assert shown["mechanisms"].keys() == ATTENTIONS.keys(), "stale: run `python -m docs.draw_layers`"
    for name, kept in shown["mechanisms"].items():
        found = json.loads(json.dumps(list(itertools.islice(drawn["playground"](name), settings))))
        for one, other in zip(found, kept[:settings], strict=True):
            # Backends round differently.
            assert {**one, "weights": None} == {**other, "weights": None}
            for rows, others in zip(one["weights"], other["weights"], strict=True):
                assert all(row == pytest.approx(its, abs=0.0021) for row, its in zip(rows, others, strict=True)), name
