"""Points with an area, numbered and named beside the axes: PNG, PDF or SVG, readable in grey."""

import math
from collections.abc import Mapping
from typing import Any

from keras_attn_zoo.support.extras import require

require("matplotlib", user=__name__)

from matplotlib.figure import Figure

from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import PathLike
from keras_attn_zoo.viewing.canvas import DPI, add_grid, add_legend, label, save, style
from keras_attn_zoo.viewing.picture_types import checked_suffix

# In inches; so many names stand in a column beside the axes.
_WIDTH, _HEIGHT, _NAMES = 7, 5, 28
# In points of print: the largest area, the smallest, that in which a number has room, and the size of the numbers.
_LARGEST, _SMALLEST, _ROOMY, _NUMBER = 900, 12, 150, 6


def plot_bubbles(points: Mapping[str, tuple[float, float, float]], path: PathLike, xlabel: str, ylabel: str) -> None:
    """Draw points whose area is a third number, the highest first.

    Args:
        points: `{name: (x, y, size)}`; the area is proportional to the size.
        path: file for the picture; its suffix, .png, .pdf or .svg, sets the file type.
        xlabel, ylabel: labels of the axes.

    Raises:
        UserError: no points; numbers that are not finite, or a negative size; an unknown suffix, or an unwritable path.

    Example:
        >>> plot_bubbles({"linear": (1.5, 30.1, 12_676), "full": (2.0, 31.0, 38_404)}, "p.png", "seconds", "BLEU")
    """
    file_type = checked_suffix(path)
    if not points:
        raise UserError("there are no points to draw: give at least one.")
    for name, numbers in points.items():
        if not (all(map(math.isfinite, numbers)) and numbers[2] >= 0):
            raise UserError(f"{name!r} has numbers that cannot be drawn: {', '.join(f'{one:g}' for one in numbers)}.")
    names = sorted(points, key=lambda name: -points[name][1])
    largest = max(size for *_, size in points.values()) or 1
    with style():
        figure = Figure(figsize=(_WIDTH, _HEIGHT), dpi=DPI)
        axes, drawn = figure.add_subplot(), []
        for number, name in enumerate(names, start=1):
            x, y, size = points[name]
            area = max(_SMALLEST, _LARGEST * size / largest)
            axes.scatter([x], [y], s=area, facecolor="0.75", edgecolor="0.2", linewidth=0.6, alpha=0.6)
            above = 0 if area >= _ROOMY else (area**0.5 + _NUMBER) / 2
            place: Any = {"xytext": (0, above), "textcoords": "offset points", "ha": "center", "va": "center"}
            axes.annotate(str(number), (x, y), fontsize=_NUMBER, **place)
            drawn.append(axes.scatter([], [], s=0))
        label(axes, xlabel, ylabel)
        add_grid(axes)
        axes.margins(0.08)
        titles = [f"{number}  {name}" for number, name in enumerate(names, start=1)]
        add_legend(axes, drawn, titles, handlelength=0, ncols=-(-len(names) // _NAMES))
        save(figure, path, file_type)
