"""Histograms and grids of numbers as pictures: PNG, PDF or SVG, readable in grey."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from keras_attn_zoo.support.extras import require

require("matplotlib", user=__name__)

import matplotlib
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import PathLike
from keras_attn_zoo.viewing.canvas import (
    DPI,
    LINE_STYLES,
    TITLE_SIZE,
    add_grid,
    add_legend,
    label,
    save,
    style,
    wrapped,
)
from keras_attn_zoo.viewing.picture_types import checked_suffix

# In inches: one panel, and the space for the labels between two.
_PANEL, _BETWEEN = 2.6, 0.75
# In a line.
_MOST_PANELS, _MOST_HISTOGRAMS = 6, 3
# Beside the first and the last edge of a histogram, as a part of what is between them.
_MARGIN = 0.01
# Of a panel of histograms, in inches.
_WIDTH, _HEIGHT = 4.2, 3.2
# Up to which size the numbers of a grid are written into its cells.
_MOST_NUMBERS = 12
# From which range on only whole numbers are labelled.
_WHOLE_NUMBERS = 5


def plot_histograms(
    histograms: Mapping[str, ArrayLike],
    edges: ArrayLike,
    path: PathLike,
    xlabel: str,
    ylabel: str,
    log_scale: bool = False,
) -> None:
    """Draw several histograms over the same intervals, as outlines.

    Args:
        histograms: `{name: a number for each interval}`, in the order of the legend.
        edges: where the intervals begin and end: one number more than there are intervals.
        path: file for the picture; its suffix, .png, .pdf or .svg, sets the file type.
        xlabel, ylabel: labels of the axes.
        log_scale: whether the vertical axis is logarithmic.

    Raises:
        UserError: no histograms, not as many numbers as intervals, numbers that are not finite, an unknown
            suffix, or an unwritable path.

    Example:
        >>> plot_histograms({"German": [3, 5], "English": [4, 4]}, [0, 10, 20], "lengths.png", "words", "sentences")
    """
    _plot_panels({"": histograms}, edges, path, xlabel, ylabel, log_scale, (7, 4.2))


def plot_histogram_panels(
    panels: Mapping[str, Mapping[str, ArrayLike]],
    edges: ArrayLike,
    path: PathLike,
    xlabel: str,
    ylabel: str,
    log_scale: bool = False,
) -> None:
    """Draw several panels of histograms, all with the same axes, for more of them than one panel shows clearly.

    Args:
        panels: `{title: histograms}`; those of one name look the same in all panels, and have one line of the legend.
        edges, path, xlabel, ylabel, log_scale: see `plot_histograms`.

    Example:
        >>> panels = {"layer 1": {"RAN": [3, 5]}, "layer 2": {"RAN": [4, 4]}}
        >>> plot_histogram_panels(panels, [0, 0.5, 1], "weights.png", "attention weight", "how many")
    """
    _plot_panels(panels, edges, path, xlabel, ylabel, log_scale, (_WIDTH, _HEIGHT))


def _plot_panels(panels, edges, path, xlabel, ylabel, log_scale, size):
    """Check and draw panels of histograms, each of such a size in inches."""
    file_type = checked_suffix(path)
    edges = np.asarray(edges, "float64")
    if not any(panels.values()):
        raise UserError("there are no histograms to draw: give at least one.")
    for title, histograms in panels.items():
        for name, counts in histograms.items():
            _check_histogram(f"{name!r} of {title!r}" if title else repr(name), counts, edges, log_scale)
    names = list(dict.fromkeys(name for histograms in panels.values() for name in histograms))
    columns = min(len(panels), _MOST_HISTOGRAMS)
    rows = -(-len(panels) // columns)
    width, height = columns * (size[0] + _BETWEEN) - _BETWEEN, rows * (size[1] + _BETWEEN) - _BETWEEN
    colours: Any = matplotlib.colormaps["tab10"]
    drawn: dict[str, Any] = {}
    with style():
        figure = Figure(figsize=(width, height), dpi=DPI)
        for i, (title, histograms) in enumerate(panels.items()):
            left, bottom = i % columns * (size[0] + _BETWEEN), (rows - 1 - i // columns) * (size[1] + _BETWEEN)
            place = (left / width, bottom / height, size[0] / width, size[1] / height)
            axes = figure.add_axes(place, sharey=figure.axes[0] if i else None)
            for name, counts in histograms.items():
                k = names.index(name)
                looks = {"color": colours(k % colours.N), "linestyle": LINE_STYLES[k % len(LINE_STYLES)]}
                drawn[name] = axes.stairs(np.asarray(counts, "float64"), edges, linewidth=1.5, **looks)
            if log_scale:
                axes.set_yscale("log")
            label(axes, xlabel, None if i % columns else ylabel, title)
            # The first and the last edge are whole lines.
            axes.set_xlim(edges[0] - (margin := _MARGIN * (edges[-1] - edges[0])), edges[-1] + margin)
            if edges[-1] - edges[0] >= _WHOLE_NUMBERS:
                axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            add_grid(axes)
        add_legend(figure.axes[columns - 1], [drawn[name] for name in names], names)
        save(figure, path, file_type)


def _check_histogram(name, counts, edges, log_scale):
    if np.shape(counts) != (len(edges) - 1,):
        raise UserError(
            f"histogram {name} has numbers of shape {np.shape(counts)} for {len(edges) - 1} intervals: give one for "
            "each."
        )
    if not np.isfinite(counts).all() or (log_scale and not np.any(np.asarray(counts) > 0)):
        positive = ", some above 0, as the axis is logarithmic" if log_scale else ""
        raise UserError(f"histogram {name} cannot be drawn: give finite numbers{positive}.")


def plot_grids(
    rows: Sequence[Sequence[tuple[str, ArrayLike]]],
    path: PathLike,
    xlabel: str,
    ylabel: str,
    quantity: str,
    low_is_dark: bool = False,
    gamma: float = 1.0,
) -> None:
    """Draw square matrices of numbers in shades of grey, with one scale for all.

    Numbers are written into the cells of small matrices.

    Args:
        rows: rows of panels, each a title and a matrix; a long row is continued in the next line.
        path: file for the picture; its suffix, .png, .pdf or .svg, sets the file type.
        xlabel, ylabel: labels of the axes.
        quantity: what the numbers are.
        low_is_dark: whether low numbers are dark; by default, high ones are.
        gamma: exponent of the shades; below 1, small numbers are told apart beside a few large ones.

    Raises:
        UserError: nothing to draw, a matrix that is not square or has values that are not finite, an unknown suffix,
            or an unwritable path.

    Example:
        >>> panel = ("encoder", [[0.0, 0.2], [0.2, 0.0]])
        >>> plot_grids([[panel]], "grid.png", "layer", "layer", "divergence", low_is_dark=True)
    """
    file_type = checked_suffix(path)
    panels = [
        [
            (wrapped(title, _PANEL + 0.5), np.asarray(matrix, "float64"))
            for title, matrix in row[start : start + _MOST_PANELS]
        ]
        for row in rows
        for start in range(0, len(row), _MOST_PANELS)
    ]
    every = [matrix for row in panels for _, matrix in row]
    if not every:
        raise UserError("there are no matrices to draw: give at least one.")
    for matrix in every:
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size or not np.isfinite(matrix).all():
            raise UserError(f"a matrix of shape {matrix.shape} cannot be drawn: give square ones of finite numbers.")
    shade = PowerNorm(gamma, min(map(np.min, every)), max(map(np.max, every)))
    side, columns = _PANEL, max(map(len, panels))
    lines = max(title.count("\n") for row in panels for title, _ in row)
    pitch = side + _BETWEEN + lines * 1.2 * TITLE_SIZE / 72
    colours = "Greys_r" if low_is_dark else "Greys"
    with style():
        width, height = columns * (side + _BETWEEN), len(panels) * pitch
        figure = Figure(figsize=(width, height), dpi=DPI)
        for i, row in enumerate(panels):
            for j, (title, matrix) in enumerate(row):
                left, bottom = j * (side + _BETWEEN), height - i * pitch - side
                axes = figure.add_axes((left / width, bottom / height, side / width, side / height))
                end = len(matrix) + 0.5
                image = axes.imshow(matrix, colours, norm=shade, extent=(0.5, end, end, 0.5), interpolation="nearest")
                label(axes, xlabel, ylabel if j == 0 else None, title)
                axes.locator_params(integer=True, nbins=min(len(matrix), 8))
                if len(matrix) <= _MOST_NUMBERS:
                    _write_numbers(axes, matrix, shade, low_is_dark, side)
        place = ((width - _BETWEEN + 0.25) / width, (height - side) / height, 0.15 / width, side / height)
        bar = figure.add_axes(place)
        figure.colorbar(image, cax=bar).set_label(quantity, parse_math=False)
        save(figure, path, file_type)


def _write_numbers(axes, matrix, shade, low_is_dark, side):
    size = min(8.0, 72 * side / len(matrix) / 2.6)
    for (i, j), value in np.ndenumerate(matrix):
        share = shade(value)
        is_dark = (share < 0.45) if low_is_dark else (share > 0.55)
        colour = "white" if is_dark else "black"
        axes.text(1 + j, 1 + i, f"{value:.2f}", ha="center", va="center", fontsize=size, color=colour)
