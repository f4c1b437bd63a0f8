"""What all pictures share: fonts, sizes, and how they are written. pyplot's state is neither read nor changed."""

import contextlib
import functools
import logging
import re
import textwrap
import unicodedata
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from keras_attn_zoo.support.escapes import printable
from keras_attn_zoo.support.extras import require

require("matplotlib", user=__name__)

import matplotlib
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from keras_attn_zoo.support.files import PathLike, atomic_path, shown

_LOG = logging.getLogger(__name__)
# Fonts for scripts that DejaVu Sans does not cover; the installed ones are used.
_FALLBACK_FONTS = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "WenQuanYi Zen Hei", "Source Han Sans SC", "Microsoft YaHei"),
    *("PingFang SC", "Arial Unicode MS"),
)
_OF_ONE_SCRIPT = ("Noto Sans ", "Noto Emoji")

FONT_SIZE = 9
TITLE_SIZE = 11
DPI = 150
_TITLE_CHARACTERS = 11  # that fit into an inch
# Curves differ in these as well as in colour, so that they can be told apart in grey.
LINE_STYLES: Any = ("-", "--", "-.", ":", (0, (9, 2)), (0, (6, 2, 1, 2, 1, 2)), (0, (1, 3)), (0, (3, 4)))
MARKERS = "osv^DxP"
# Of these, some are too alike where curves are close: more of them have marks too.
PLAIN_STYLES = 4
# What formats call the time at which a picture was drawn.
_TIMES = {"pdf": "CreationDate", "svg": "Date"}
_MISSING = re.compile(r"Glyph (\d+) .*missing from")
# Control characters and noncharacters.
_NOT_IN_XML = re.compile("[^\\t\\n\\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Set what the user's matplotlibrc must not change, so that words are shown unchanged."""
    installed = _installed_fonts()
    settings: Any = {
        "font.family": ["DejaVu Sans", *(name for name in _FALLBACK_FONTS if name in installed)],
        "font.size": FONT_SIZE,
        "text.usetex": False,
        "axes.formatter.use_mathtext": False,
        "svg.fonttype": "path",
        "svg.hashsalt": "keras-attn-zoo",
    }
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        # `save` says so, once.
        warnings.filterwarnings("ignore", message=_MISSING.pattern)
        yield


def _installed_fonts() -> set[str]:
    return {font.name for font in font_manager.fontManager.ttflist}


def wrapped(title: str, width: float) -> str:
    """Return a title in lines that fit into a width in inches."""
    return "\n".join(textwrap.wrap(printable(title), max(12, int(width * _TITLE_CHARACTERS))))


def label(axes: Axes, xlabel: str, ylabel: str | None, title: str | None = None) -> None:
    """Write the labels of the axes and the title as they are, whatever characters they have."""
    axes.set_xlabel(printable(xlabel), parse_math=False)
    if ylabel:
        axes.set_ylabel(printable(ylabel), parse_math=False)
    if title:
        axes.set_title(title, fontsize=TITLE_SIZE, parse_math=False)


def add_grid(axes: Axes) -> None:
    """Draw a grid behind, and no frame."""
    axes.set_axisbelow(True)
    axes.grid(which="both", color="0.9", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def add_legend(axes: Axes, drawn: Sequence[Any], names: Iterable[object], **options: Any) -> None:
    """Write the names of what was drawn beside the axes, as they are; options are those of Matplotlib's legend."""
    # Long enough for the longest dashes, and a mark on them.
    beside = {"bbox_to_anchor": (1.02, 1.0), "borderaxespad": 0, "frameon": False, "handlelength": 4, **options}
    legend = axes.legend(drawn, [printable(str(name)) for name in names], loc="upper left", **beside)
    for text in legend.get_texts():
        text.set_parse_math(False)


def save(figure: Figure, path: PathLike, file_type: str) -> None:
    """Write a figure, whole or not at all; a warning names characters that no installed font has."""
    # Without the time of day, the same picture is the same file.
    about: Any = {_TIMES[file_type]: None} if file_type in _TIMES else None
    with atomic_path(path) as aside:
        # With a tight bounding box, the page grows as the labels need.
        how: Any = {"format": file_type, "dpi": DPI, "bbox_inches": "tight", "pad_inches": 0.1, "metadata": about}
        write = functools.partial(_write, figure, path, aside, **how)
        try:
            write()
        except IndexError:
            if file_type != "pdf":
                raise
            # Matplotlib 3.11 writes no text to a PDF in which a character takes several glyphs: it becomes an image.
            for text in figure.findobj(Text):
                text.set_rasterized(True)
            write()
        if file_type == "svg":
            # Beside its paths, every text is a comment, as it is.
            aside.write_text(_NOT_IN_XML.sub("\ufffd", aside.read_text(encoding="utf-8")), encoding="utf-8")


def _missing(figure: Figure, aside: PathLike, **how: Any) -> list[str]:
    """Write a figure; return the characters that its fonts do not have."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("always", message=_MISSING.pattern)
        figure.savefig(aside, **how)
    found = [_MISSING.match(str(one.message)) for one in caught]
    for warning in (one.message for one, missing in zip(caught, found, strict=True) if missing is None):
        warnings.warn(warning, stacklevel=2)
    return sorted({chr(int(one[1])) for one in found if one is not None})


def _write(figure, path, aside, **how):
    missing = _missing(figure, aside, **how)
    of_scripts = sorted(name for name in _installed_fonts() if name.startswith(_OF_ONE_SCRIPT))
    if missing and of_scripts:
        # Matplotlib tries every font at every word, so with the hundreds there may be, drawing takes ten times as long.
        for text in figure.findobj(Text):
            text.set_fontfamily([*text.get_fontfamily(), *of_scripts])
        missing = _missing(figure, aside, **how)
    if missing:
        names = ", ".join(unicodedata.name(one, f"U+{ord(one):04X}").lower() for one in missing[:3])
        _LOG.warning(
            "%s has boxes in place of %d characters that no installed font has (%s): install one, such as Noto Sans",
            shown(path),
            len(missing),
            names if len(missing) < 4 else f"{names}, ...",
        )
