"""Points with areas: what is drawn where, and what cannot be."""

import math

import numpy as np
import pytest
from PIL import Image

from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.viewing import bubble_chart
from keras_attn_zoo.viewing.bubble_chart import plot_bubbles

POINTS = {"low": (2.0, 10.0, 100.0), "high": (1.0, 30.0, 50.0), "none": (3.0, 20.0, 0.0)}


def test_points_are_numbered_from_the_highest_and_areas_are_shares_of_the_largest(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(bubble_chart, "save", lambda figure, path, kind: seen.append(figure))
    plot_bubbles(POINTS, tmp_path / "p.png", "seconds", "BLEU")
    (axes,) = seen[0].axes
    drawn = [one for one in axes.collections if len(one.get_offsets())]
    assert [tuple(one.get_offsets()[0]) for one in drawn] == [(1.0, 30.0), (3.0, 20.0), (2.0, 10.0)]
    half, least, largest = (float(one.get_sizes()[0]) for one in drawn)
    assert half == largest / 2 and 0 < least < half
    assert [text.get_text() for text in axes.texts] == ["1", "2", "3"]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["1  high", "2  none", "3  low"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("seconds", "BLEU")


def test_a_picture_is_written(tmp_path):
    plot_bubbles({f"system {i}": (1.0 + i, 30.0 + i, i) for i in range(40)}, tmp_path / "p.png", "s", "BLEU")
    with Image.open(tmp_path / "p.png") as image:
        assert np.asarray(image.convert("L")).min() < 100


@pytest.mark.parametrize(
    ("points", "said"),
    [
        ({}, "there are no points"),
        ({"a": (math.nan, 1.0, 1.0)}, "'a' has numbers that cannot be drawn: nan, 1, 1"),
        ({"a": (1.0, 1.0, -1.0)}, "'a' has numbers that cannot be drawn: 1, 1, -1"),
    ],
)
def test_what_cannot_be_drawn_is_said(points, said, tmp_path):
    with pytest.raises(UserError, match=said):
        plot_bubbles(points, tmp_path / "p.png", "s", "BLEU")
    assert not (tmp_path / "p.png").exists()
