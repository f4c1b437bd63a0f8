"""What mechanisms do with a toy sentence: the thumbnails and the playgrounds of the gallery."""

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_attn_zoo.site.page_frame import data_block
from keras_attn_zoo.support.escapes import in_html
from keras_attn_zoo.support.files import read_json

# Written by docs/draw_layers.py: by name, settings with "place", "arguments" and "weights", a matrix for each strength
# by which words ask, or one if all are the same. The first setting is that of the pictures.
TOY_WEIGHTS = Path(__file__).with_name("assets") / "toy_weights.json"
# Levels of shade of a cell.
LEVELS = 10


@functools.cache
def toy_weights() -> Mapping[str, Any]:
    """Return the toy sentence, "source" and "target"; the "strengths"; and the settings of "mechanisms" by name.

    Example:
        >>> toy_weights()["mechanisms"]["uniform"][0]["weights"][0][0]
        [0.2, 0.2, 0.2, 0.2, 0.2]
    """
    return read_json(TOY_WEIGHTS)


def thumbnail(name: str) -> str:
    """Return the weights of a mechanism as a small picture in SVG.

    Example:
        >>> thumbnail("uniform").count("<rect")
        25
    """
    matrix = _as_drawn(toy_weights()["mechanisms"][name][0])
    cells = "".join(
        f'<rect x="{j}" y="{i}" width="1" height="1" fill-opacity="{weight:.2g}"/>'
        for i, row in enumerate(matrix)
        for j, weight in enumerate(row)
        if weight >= 0.005
    )
    return f'<svg viewBox="0 0 {len(matrix[0])} {len(matrix)}" aria-hidden="true">{cells}</svg>'


def playground(names: Mapping[str, str]) -> str:
    """Return a matrix to play with: the weights of some mechanisms, in every place and setting.

    Args:
        names: what each is called, by its name in the registry.
    """
    toy = toy_weights()
    settings = {name: toy["mechanisms"][name] for name in names}
    data = {**toy, "mechanisms": settings, "titles": names, "levels": LEVELS}
    first = next(iter(settings.values()))[0]
    columns = toy["source"]
    rows = toy["target"] if first["place"] == "cross" else columns
    cells = [
        f'<tr><th scope="row">{in_html(word)}</th>{"".join(map(_cell, row))}</tr>'
        for word, row in zip(rows, _as_drawn(first), strict=True)
    ]
    head = "".join(f'<th scope="col">{in_html(word)}</th>' for word in columns)
    return (
        '<div class="playground" id="playground">\n<form class="controls"></form>\n'
        f'<div class="scroller" tabindex="0" role="region" aria-label="Weights"><table><thead><tr><td></td>{head}</tr>'
        f"</thead><tbody>{''.join(cells)}</tbody></table></div>\n"
        '<p class="says" role="status" aria-live="polite"></p>\n'
        f"{data_block('toy', data)}\n</div>"
    )


def _as_drawn(setting):
    """The matrix of the strength that the pictures have."""
    weights = setting["weights"]
    return weights[toy_weights()["strengths"].index(1.0) if len(weights) > 1 else 0]


def _cell(weight):
    return f'<td data-level="{round(LEVELS * weight)}">{weight:.2f}</td>'
