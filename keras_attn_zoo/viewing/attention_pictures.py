"""Pictures of attention weights and of training curves, as PNG, PDF or SVG.

Everything is drawn on `matplotlib.figure.Figure` objects; pyplot's state,
including its backend, is neither read nor changed.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from keras_attn_zoo.support.extras import require

require("matplotlib", user=__name__)

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import LogFormatter, MaxNLocator

from keras_attn_zoo.evaluation.alignments import Alignment
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import PathLike
from keras_attn_zoo.viewing.canvas import (
    DPI,
    FONT_SIZE,
    LINE_STYLES,
    MARKERS,
    PLAIN_STYLES,
    TITLE_SIZE,
    add_grid,
    add_legend,
    label,
    save,
    style,
    wrapped,
)
from keras_attn_zoo.viewing.picture_types import checked_suffix

# All lengths are in inches.
_CELL = 0.24, 0.4  # of a long and of a short sentence
_MAX_SIDE = 40.0  # of one matrix; beyond it the cells shrink
_MAX_ROW = 24.0  # of the matrices side by side; beyond it a new row begins
_GAP = 0.3
_COLOUR_BAR = 0.15
# So many marks fit on a curve beside those of others.
_FEW_STEPS = 10

_GOLD_COLOUR = "#d95f02"


def _checked_weights(weights, source_tokens, target_tokens):
    weights = np.asarray(weights, "float64")
    expected = (len(target_tokens), len(source_tokens))
    if weights.shape != expected:
        raise UserError(
            f"attention weights of shape {weights.shape} do not fit {expected[0]} target and {expected[1]} "
            f"source words: give weights of shape {expected}."
        )
    if 0 in expected:
        raise UserError(f"attention weights of shape {weights.shape} are empty: give at least one word on each side.")
    if not np.isfinite(weights).all():
        raise UserError(f"attention weights of shape {weights.shape} hold NaN or infinite values: check the model.")
    low, high = weights.min(), weights.max()
    if low < -0.01 or high > 1.01:
        raise UserError(f"attention weights range from {low:.3g} to {high:.3g}: give weights after the softmax.")
    return weights


def _checked_gold(gold, shape):
    gold = gold if isinstance(gold, Alignment) else Alignment(sure=set(gold or ()))
    targets, sources = shape
    for j, i in gold.possible:
        if not (0 <= j < sources and 0 <= i < targets):
            raise UserError(
                f"gold link {(j, i)} is outside {sources} source and {targets} target words: "
                "give pairs (source, target), counted from 0."
            )
    return gold


def _cell_side(sources, targets):
    longest = max(sources, targets)
    shortest_cell, largest_cell = _CELL
    return min(np.clip(6.0 / longest, shortest_cell, largest_cell), _MAX_SIDE / longest)


def _draw_matrix(axes, weights, title, source_tokens, target_tokens, gold, font_size):
    """Draw one panel, with source words on top and target words on the left."""
    targets, sources = weights.shape
    image = axes.imshow(weights, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto", interpolation="nearest")
    # Words are drawn as they are: without parse_math, "$" would start a formula.
    axes.set_xticks(range(sources), source_tokens, rotation=90, fontsize=font_size, parse_math=False)
    axes.set_yticks(range(targets), target_tokens, fontsize=font_size, parse_math=False)
    axes.xaxis.tick_top()
    axes.tick_params(which="both", length=0)
    axes.set_xticks(np.arange(1, sources) - 0.5, minor=True)
    axes.set_yticks(np.arange(1, targets) - 0.5, minor=True)
    axes.grid(which="minor", color="0.88", linewidth=0.5)
    if title:
        axes.set_title(title, fontsize=TITLE_SIZE, parse_math=False)
    for j, i in sorted(gold.possible):
        look = {"edgecolor": _GOLD_COLOUR, "linestyle": "solid" if (j, i) in gold.sure else (0, (2, 1.5))}
        axes.add_patch(Rectangle((j - 0.45, i - 0.45), 0.9, 0.9, fill=False, linewidth=1.5, **look))
    return image


def _height_above(axes, renderer):
    return (axes.get_tightbbox(renderer).y1 - axes.get_window_extent(renderer).y1) / axes.figure.dpi


def _attention_figure(matrices, source_tokens, target_tokens, gold=None):
    source_tokens, target_tokens = [str(t) for t in source_tokens], [str(t) for t in target_tokens]
    if not matrices:
        raise UserError("there are no attention weights to draw: give at least one (title, weights).")
    panels = [(name, _checked_weights(w, source_tokens, target_tokens)) for name, w in matrices]
    sources, targets = len(source_tokens), len(target_tokens)
    gold = _checked_gold(gold, (targets, sources))

    cell = _cell_side(sources, targets)
    font_size = min(FONT_SIZE, 72 * cell * 0.8)
    width, height = cell * sources, cell * targets
    columns = min(len(panels), max(1, int((_MAX_ROW + _GAP) // (width + _GAP))))
    rows = -(-len(panels) // columns)

    figure = Figure(dpi=DPI)
    every_axes = []
    for k, (name, weights) in enumerate(panels):
        axes = figure.add_axes((0, 0, 1, 1), label=str(k))
        words = target_tokens if k % columns == 0 else [""] * targets
        image = _draw_matrix(axes, weights, wrapped(name or "", width), source_tokens, words, gold, font_size)
        every_axes.append(axes)

    # Labels and titles do not depend on the positions of the panels, so they are measured first.
    renderer = FigureCanvasAgg(figure).get_renderer()
    above = max(_height_above(axes, renderer) for axes in every_axes)
    page_width = columns * (width + _GAP) + _COLOUR_BAR
    page_height = rows * (above + height + _GAP) - _GAP
    figure.set_size_inches(page_width, page_height)

    def place(left, row, width):
        bottom = page_height - row * (above + height + _GAP) - above - height
        return left / page_width, bottom / page_height, width / page_width, height / page_height

    for k, axes in enumerate(every_axes):
        row, column = divmod(k, columns)
        axes.set_position(place(column * (width + _GAP), row, width))
    bar = figure.add_axes(place(page_width - _COLOUR_BAR, 0, _COLOUR_BAR))
    figure.colorbar(image, cax=bar, ticks=[0, 0.25, 0.5, 0.75, 1] if height > 1 else [0, 1], label="weight")
    return figure


def plot_attentions(
    matrices: Sequence[tuple[str | None, ArrayLike]],
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    path: PathLike,
    gold: Alignment | Iterable[tuple[int, int]] | None = None,
) -> None:
    """Draw several attention matrices of one sentence pair side by side.

    Use it to compare heads, layers or systems. The panels share words, colours and gold links; many panels are drawn in
    several rows. Words are shown unchanged ("$", "_", "▁", "</s>"); characters that no installed font has become boxes.

    Args:
        matrices: list of `(title, weights)`, weights `(target, source)` from 0 to 1.
        source_tokens: the words on top, one per column.
        target_tokens: the words on the left, one per row.
        path: file for the picture; its suffix, .png, .pdf or .svg, sets the file type.
        gold: `Alignment`, with sure links outlined and merely possible ones dashed; or a set
            of links (j, i), source position first, counted from 0, all outlined.

    Raises:
        UserError: weights that do not match the words in shape, are NaN or outside 0 to 1; a gold
            link outside the sentence; an unknown suffix; the picture cannot be written.

    Example:
        >>> heads = [("head 1", [[0.9, 0.1], [0.2, 0.8]]), ("head 2", [[0.5, 0.5], [0.5, 0.5]])]
        >>> plot_attentions(heads, ["Guten", "Tag"], ["good", "day"], "heads.png")
    """
    file_type = checked_suffix(path)
    with style():
        save(_attention_figure(matrices, source_tokens, target_tokens, gold), path, file_type)


def plot_attention(
    weights: ArrayLike,
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    path: PathLike,
    title: str | None = None,
    gold: Alignment | Iterable[tuple[int, int]] | None = None,
) -> None:
    """Draw the attention matrix of one sentence pair, source words on top.

    Args:
        weights: `(target, source)`, from 0 to 1.
        title: text above the source words.
        source_tokens, target_tokens, path, gold: as for `plot_attentions`, which also says what is refused.

    Example:
        >>> weights = [[0.9, 0.1], [0.2, 0.8]]
        >>> plot_attention(weights, ["Guten", "Tag"], ["good", "day"], "pair.png", gold={(0, 0), (1, 1)})
    """
    plot_attentions([(title, weights)], source_tokens, target_tokens, path, gold)


def _checked_curve(name, steps, values, log_scale):
    steps, values = np.asarray(steps, "float64"), np.asarray(values, "float64")
    if steps.ndim != 1 or steps.shape != values.shape or not len(steps):
        raise UserError(
            f"curve {name!r} has steps of shape {steps.shape} and values of shape {values.shape}: "
            "give two non-empty lists of equal length."
        )
    if log_scale and (values <= 0).any():
        raise UserError(
            f"curve {name!r} has values down to {np.nanmin(values):.3g}, which a logarithmic axis cannot show: "
            "use log_scale=False."
        )
    return steps, values


def _curves_figure(curves, ylabel, title=None, xlabel="step", log_scale=False, ticks=None, deviations=None):
    if not curves:
        raise UserError("there are no curves to draw: give at least one run.")
    checked = {name: _checked_curve(name, *curve, log_scale) for name, curve in curves.items()}
    # The axes fill the figure: the page grows for labels and legend when it is saved.
    figure = Figure(figsize=(7, 4.2), dpi=DPI)
    axes = figure.add_axes((0, 0, 1, 1))
    colours = matplotlib.colormaps["tab10"].colors
    crowded = len(checked) > PLAIN_STYLES
    lines = [
        axes.plot(
            steps,
            values,
            color=colours[k % len(colours)],
            linestyle=LINE_STYLES[k % len(LINE_STYLES)],
            linewidth=1.5,
            marker=MARKERS[k % len(MARKERS)] if len(steps) == 1 or ticks or crowded else None,
            # Of many, beside each other, not on top of each other.
            markevery=(0.2 * k / len(checked), 0.2) if crowded and not ticks and len(steps) > _FEW_STEPS else None,
        )[0]
        for k, (steps, values) in enumerate(checked.values())
    ]
    draw_deviations = _draw_bars if ticks else _draw_band
    for line, (name, (_, values)) in zip(lines, checked.items(), strict=True):
        if name in (deviations or {}):
            draw_deviations(axes, line, _checked_deviations(name, values, deviations[name]))
    if log_scale:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(LogFormatter())
        axes.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(2, 0.5)))
    if ticks:
        axes.set_xticks(list(ticks), [str(text) for text in ticks.values()])
    elif all((steps == steps.round()).all() for steps, _ in checked.values()):
        # There is no step between two steps, however few there are.
        axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1))
    label(axes, xlabel, ylabel, title)
    add_grid(axes)
    add_legend(axes, lines, checked)
    return figure


def _checked_deviations(name, values, deviation):
    deviation = np.asarray(deviation, "float64")
    if deviation.shape != values.shape or np.any(deviation < 0):
        raise UserError(
            f"curve {name!r} has {len(values)} values and deviations of shape {deviation.shape}: give one for each, "
            "none below 0."
        )
    return deviation


def _draw_bars(axes, line, deviation):
    """Draw a bar through each point of a curve."""
    axes.errorbar(*line.get_data(), deviation, fmt="none", ecolor=line.get_color(), elinewidth=1, capsize=3)


def _draw_band(axes, line, deviation):
    """Draw a light band around a curve, with edges in the curve's style, which tell bands apart in grey."""
    steps, values = line.get_data()
    look = {"color": line.get_color(), "linestyle": line.get_linestyle()}
    axes.fill_between(steps, values - deviation, values + deviation, alpha=0.15, linewidth=0, color=line.get_color())
    for edge in (values - deviation, values + deviation):
        axes.plot(steps, edge, linewidth=0.5, **look)


def plot_curves(
    curves: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    path: PathLike,
    ylabel: str,
    title: str | None = None,
    xlabel: str = "step",
    log_scale: bool = False,
    ticks: Mapping[float, Any] | None = None,
    deviations: Mapping[str, ArrayLike] | None = None,
) -> None:
    """Draw one figure of several runs over training steps, or over anything else that it depends on.

    Args:
        curves: `{name of the run: (steps, values)}`, in the order of the legend. A run with
            one point shows a marker; NaN leaves a gap.
        path: file for the picture; its suffix, .png, .pdf or .svg, sets the file type.
        ylabel: label of the values.
        title: text above the picture.
        xlabel: label of the steps.
        log_scale: whether the axis of the values is logarithmic.
        ticks: `{step: label}` for the only steps, each drawn with a marker; by default round numbers are labelled,
            whole ones if all steps are whole.
        deviations: `{name: deviations}` of some of the curves, drawn as a band of their values plus and minus these,
            with `ticks` as bars.

    Raises:
        UserError: no curves, an empty one, steps and values of different length, a value
            of 0 or less on a logarithmic axis, deviations that do not fit, an unknown suffix, or an unwritable path.

    Example:
        >>> plot_curves({"Luong": ([1, 2, 3], [5.1, 4.0, 3.2])}, "loss.png", ylabel="loss")
    """
    file_type = checked_suffix(path)
    with style():
        save(_curves_figure(curves, ylabel, title, xlabel, log_scale, ticks, deviations), path, file_type)
