"""What a paper found, held against the runs in a folder."""

import dataclasses
from collections.abc import Sequence

from keras_attn_zoo.runs.run_folder import WITH_TOP_K
from keras_attn_zoo.studies.measures import measure
from keras_attn_zoo.studies.paper_cells import Runs, Value
from keras_attn_zoo.studies.paper_files import DECIMALS, MOST_DIGITS, about_texts
from keras_attn_zoo.studies.paper_tables import BETTER, LEVEL, WORSE, Cell, Contrast, Finding, cells_of
from keras_attn_zoo.studies.table import about_test
from keras_attn_zoo.studies.tabular import Table

AGREES, DIFFERS, UNDECIDED, NOT_RUN = "agrees", "differs", "undecided", "not run"
# Both systems were run, and one of them has no such number, or not with the same seeds.
NOT_MEASURED, INCOMPARABLE = "not measured", "scored on different texts"
# Of texts in which nothing is right.
BOTH_ZERO = "both are 0"
_LEVEL_OF_SIGNIFICANCE = 0.05
# Of a larger difference, in points, a test that finds nothing does not show that there is none.
_NONE = 1.0


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One comparison of a finding, in the paper and here.

    Attributes:
        finding, contrast: what is compared.
        pair: the language pair, or None.
        paper: the paper's difference and the figures that it is of; empty if it has none.
        here: the same of the runs; empty without them.
        verdict: whether both agree: one of the constants of this module.
        tested: whether that says a test of significance.
    """

    finding: Finding
    contrast: Contrast
    pair: str | None
    paper: str
    here: str
    verdict: str
    tested: bool = False


def compare(runs: Runs) -> list[Comparison]:
    """Return the comparisons of all findings of a recipe.

    A finding is held against the runs of every language pair that has them; without runs, it stands there once.
    """
    return [
        _compared(runs, finding, contrast, pair)
        for finding in runs.recipe.findings
        for contrast in finding.contrasts
        for pair in _pairs(runs, contrast)
    ]


def _pairs(runs, contrast):
    """The language pairs in which both numbers are known; if there are none, one in which both systems were run."""
    every = [*runs.recipe.pairs] or [None]
    cells = {pair: contrast.cells(pair) for pair in every}
    known = [pair for pair in every if all(map(runs.value, cells[pair]))]
    run = [pair for pair in every if all(runs.folders(pair, cell.entry) for cell in cells[pair])]
    return known or run[:1] or every[:1]


def _compared(runs, finding, contrast, pair):
    one, other = contrast.cells(pair)
    value, against = runs.value(one, other), runs.value(other)
    paper = _of_paper(runs, contrast, pair)
    if value is None or against is None or value.difference is None:
        run = all(runs.folders(pair, cell.entry) for cell in (one, other))
        without = INCOMPARABLE if value is not None and value.of_other_text else NOT_MEASURED
        return Comparison(finding, contrast, pair, paper, "", without if run else NOT_RUN)
    wanted = measure(one.measure)
    # The other system may have more seeds.
    here = _difference(value.mean, value.mean - value.difference, value.difference, wanted.digits, wanted.unit)
    found = verdict(finding, one.measure, value)
    return Comparison(finding, contrast, pair, paper, f"{here}{_star(value)}", found, bool(value.p_values))


def verdict(finding: Finding, name: str, value: Value) -> str:
    """Return whether a difference is what a finding says.

    Args:
        finding: the finding.
        name: the measure. If there is a test of significance, that decides, for every seed; if not, the margin.
        value: the number of the system, compared with the other's.
    """
    wanted = measure(name)
    if wanted.test is not None and value.mean == value.difference == 0:
        return BOTH_ZERO
    if wanted.test is None and not value.p_values:
        found = value.difference or 0.0
        least = max(finding.margin, finding.share * abs(value.mean - found))
        outcome = LEVEL if abs(found) <= least else BETTER if wanted.sign * found > 0 else WORSE
    elif not value.p_values:
        return INCOMPARABLE
    elif value.differs(_LEVEL_OF_SIGNIFICANCE):
        outcome = BETTER if value.better[0] else WORSE
    else:
        outcome = LEVEL
    possible, undecided = {outcome}, outcome == LEVEL and bool(value.p_values)
    if undecided:
        seeds = zip(value.p_values, value.better, strict=True)
        possible |= {BETTER if better else WORSE for p, better in seeds if p < _LEVEL_OF_SIGNIFICANCE}
    if undecided and not finding.significant and abs(value.difference or 0.0) > _NONE:
        possible.add(BETTER if wanted.sign * (value.difference or 0.0) > 0 else WORSE)
    if possible <= set(finding.expected):
        return AGREES
    return UNDECIDED if undecided else DIFFERS


def _star(value):
    return "**" if value.differs(0.01) else "*" if value.differs(_LEVEL_OF_SIGNIFICANCE) else ""


def _of_paper(runs, contrast, pair):
    """The paper's difference, of the figures that are printed."""
    # Those that no table has are of the first pair.
    figures = contrast.figures.split() if pair in (None, runs.recipe.first_pair) else []
    figures = figures or [_figure(runs, cell) for cell in contrast.cells(pair)]
    found = [DECIMALS.match(figure) for figure in figures]
    if not all(found):
        return ""
    numbers = [float(one[0]) for one in found]
    digits = min(MOST_DIGITS, max(len(one[1] or "") for one in found))
    return _difference(*numbers, numbers[0] - numbers[1], digits, measure(contrast.measure).unit)


def _figure(runs: Runs, wanted: Cell) -> str:
    """What the paper's tables have for a cell."""
    for cell in cells_of(runs.recipe.tables):
        alike = all(getattr(cell, name) == getattr(wanted, name) for name in ("entry", "measure", "split"))
        if alike and cell.figure and runs.pairs_of(cell) == runs.pairs_of(wanted):
            return cell.figure
    return ""


def _difference(one, other, difference, digits, unit):
    return f"{difference:+z.{digits}f}{unit} ({one:.{digits}f}{unit} – {other:.{digits}f}{unit})"


def findings_table(runs: Runs, comparisons: Sequence[Comparison]) -> Table:
    """Return what `compare` found as a table; each finding has the number of its place in the recipe."""
    numbers = {id(finding): str(number) for number, finding in enumerate(runs.recipe.findings, start=1)}
    rows = [
        [f"{numbers[id(one.finding)]}: {_label(runs, one)}", one.paper, one.here, one.verdict] for one in comparisons
    ]
    return Table(["finding", "the paper", "here", "verdict"], rows, list(_notes(runs, comparisons)))


def _label(runs, one):
    contrast, pair = one.contrast, "" if one.pair in (None, runs.recipe.first_pair) else f", {one.pair}"
    sides = [cell.measure + _of_split(cell.split) for cell in contrast.cells(one.pair)]
    if contrast.entry == contrast.other:
        return f"`{contrast.entry}`, {' – '.join(sides)}{pair}"
    return f"`{contrast.entry}` – `{contrast.other}`, {sides[0]}{pair}"


def _of_split(name):
    """The name of scores behind that of a measure: that of the test text goes without saying."""
    if found := WITH_TOP_K.fullmatch(name):
        count = "all" if found[2] == "0" else found[2]
        return f" ({found[1]}, K = {count})"
    return "" if name == "test" else f" ({name})"


def _notes(runs, comparisons):
    run = [one for one in comparisons if one.here]
    if run:
        yield "here: differences are rounded after subtracting"
    if any(one.tested for one in run):
        yield f"*, **: p < 0.05, p < 0.01, with every seed; {about_test(runs.test)}"
    if any(one.tested and LEVEL in one.finding.expected and not one.finding.significant for one in run):
        yield f"a claim of no difference agrees if there is none of significance, and of at most {_NONE:g} point"
    cells = ((cell, one.pair) for one in run for cell in one.contrast.cells(one.pair))
    yield from dict.fromkeys(filter(None, (about_texts(cell, runs, pair) for cell, pair in cells)))
    bare = (one.contrast.measure for one in run if not one.tested)
    untested = [name for name in dict.fromkeys(bare) if measure(name).test is None]
    if untested:
        yield f"without a test of significance, so the verdict is on the bare difference: {', '.join(untested)}"
    for share in dict.fromkeys(one.finding.share for one in run if one.finding.share):
        names = dict.fromkeys(one.contrast.measure for one in run if one.finding.share == share)
        yield f"a difference of at most {share:.0%} counts as none: {', '.join(names)}"
