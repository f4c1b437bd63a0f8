"""In which settings runs differ from the systems of their comparison."""

import dataclasses

from keras_attn_zoo.studies.changed_settings import changes, changes_line, changes_of
from keras_attn_zoo.studies.comparison import Entry, Recipe
from keras_attn_zoo.studies.paper_cells import Runs
from keras_attn_zoo.studies.paper_tables import Pair
from tests.tiny_run import TINY


def recipe_of(tmp_path, trained, **systems):
    for name in systems:
        (tmp_path / name).symlink_to(trained, target_is_directory=True)
    return Recipe("A paper", {name: Entry(system) for name, system in systems.items()}, tuple(systems))


def changed(recipe, folder):
    return changes_of(Runs(recipe, folder))


def line(recipe, folder, scale=""):
    """What the page has of it."""
    return changes_line(changed(recipe, folder), [f"`{name}`" for name in recipe.entries], scale)


def test_each_difference_is_shown_once(trained, tmp_path):
    """Of two systems with the same difference once, with two differences twice."""
    one, two = TINY.override(seed=1, epochs=5, beams=3), TINY.override(seed=1, epochs=5, beams=4)
    recipe = recipe_of(tmp_path, trained, one=one, two=two)
    found = changed(recipe, tmp_path)
    of = "beams=2 (3; `one`) or 2 (4; `two`), epochs=2.0 (5.0)"
    assert line(recipe, tmp_path) == f"Settings changed, the recipe's in parentheses: {of}."
    assert changes_line(found) == "Settings changed: beams=2 (3) or 2 (4), epochs=2.0 (5.0)."


def test_a_precision_is_a_difference():
    found = changes([("one", TINY, TINY), ("two", TINY, TINY.override(precision="bfloat16"))])
    assert changes_line(found) == "Settings changed: precision=bfloat16 (float32)."


def test_systems_are_named_where_others_do_not_differ(trained, tmp_path):
    """Two of three have one change in common, and two of them another."""
    systems = {"one": TINY.override(beams=3, epochs=5), "two": TINY.override(beams=3), "three": TINY.override(epochs=5)}
    text = line(recipe_of(tmp_path, trained, **systems), tmp_path)
    assert text.endswith("beams=2 (3; `one`, `two`), epochs=2.0 (5.0; `one`, `three`).")


def test_nothing_is_said_where_nothing_differs(trained, tmp_path):
    recipe = recipe_of(tmp_path, trained, one=TINY)
    found = changed(recipe, tmp_path)
    assert (found, line(recipe, tmp_path), changes_line(found)) == ({}, "", "")


def test_runs_are_compared_with_the_systems_at_their_scale_and_of_their_pair(trained, tmp_path):
    """A scale has settings of its own, and a language pair too: neither was changed by hand."""
    recipe = recipe_of(tmp_path, trained, one=TINY)
    smoke = recipe.at_scale("smoke")
    found = changed(smoke, tmp_path)
    own, theirs = TINY.sizes["hidden_dim"], smoke.entries["one"].system.sizes["hidden_dim"]
    assert found["hidden_dim"] == {(str(theirs), str(own)): ["`one`"]}
    assert "the recipe's at the scale smoke in parentheses: " in line(smoke, tmp_path, "smoke")
    pairs = {"de-en": Pair(), "tr-en": Pair({"dropout": 0.3})}
    recipe = dataclasses.replace(recipe, pairs=pairs)
    (tmp_path / "tr-en").mkdir()
    (tmp_path / "tr-en" / "one").symlink_to(trained, target_is_directory=True)
    for used in (recipe, recipe.for_pair("tr-en")):
        assert changed(used, tmp_path) == {"dropout": {("0.3", "0.2"): ["`one`"]}}
