"""What a paper found, held against the runs in a folder.

A verdict is read off a confidence interval that counts seeds and sentences, see `compare_trainings`:

- a claim that one system is better agrees if the interval of 95 % lies above 0; it differs if it lies below, or below
  half the paper's difference and more than the margin below all of it;
- a claim of no difference agrees if the interval of 90 % lies within the margin (two one-sided tests of 5 %), differs
  if that of 95 % lies outside;
- the size has to be the paper's, within a factor of two or the margin: it is if the difference that was found is, and
  is not if the interval lies outside; where the paper has no figures, a claimed difference has to be larger than the
  margin;
- anything else is too little to say.

What another training would not change, such as the number of parameters, is compared as it is; a time that was
measured beside other work is not.
"""

import collections
import dataclasses
import math
import re
from collections.abc import Iterable, Iterator, Sequence

from keras_attn_zoo.evaluation.training_comparison import TrainingComparison
from keras_attn_zoo.runs.run_folder import WITH_TOP_K
from keras_attn_zoo.studies.measures import measure
from keras_attn_zoo.studies.paper_cells import NOT_MEASURED, NOT_RUN, Runs, Value, interval_text
from keras_attn_zoo.studies.paper_files import MOST_DIGITS, about_texts
from keras_attn_zoo.studies.paper_tables import BETTER, DECIMALS, LEVEL, WORSE, Cell, Contrast, Finding, cells_of
from keras_attn_zoo.studies.tabular import Table
from keras_attn_zoo.support.escapes import in_markdown

AGREES, DIFFERS, UNDECIDED = "agrees", "differs", "too little to say"
# It is as the paper claims, and far from the paper's figures.
IN_DIRECTION = "agrees, but not in size"
# Why there is too little to say if nothing is missing.
_WIDE = "the interval is too wide"
# There is a difference as claimed, perhaps far from the paper's.
_OPEN = "its size is open"
# The figure of "+0.8 M (3.0 M – 2.2 M)" and the like.
_FIGURE = re.compile(r"[-+][\d.]+")
# How many times as large as the paper's a difference may be, or the other way round.
_FACTOR = 2.0
# By how much shares of change may differ, of what is compared as it is.
_OF_SHARES = 0.1


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One comparison of a finding, in the paper and here.

    Attributes:
        finding, contrast: what is compared.
        pair: the language pair, or None.
        systems: names of the systems, and the pair if it is not the first.
        measured: the measure, and the text if it is not that of the test.
        paper: the paper's difference and the figures that it is of; empty if it has none.
        here: the same of the runs; empty without them.
        verdict: whether both agree: one of the constants of this module and of `paper_cells`.
        lacks: what is missing for a comparison.
        interval: the confidence interval of 95 %; empty without a comparison.
        detectable: the smallest difference that so many seeds and sentences would have shown.
    """

    finding: Finding
    contrast: Contrast
    pair: str | None
    systems: str
    measured: str
    paper: str
    here: str
    verdict: str
    lacks: str = ""
    interval: str = ""
    detectable: str = ""

    @property
    def measure(self) -> str:
        """The measure of the first system."""
        return self.contrast.measure


def by_claim(runs: Runs) -> list[list[Comparison]]:
    """Return the comparisons of each finding of a recipe.

    A finding is held against the runs of every language pair that has them; without runs, it stands there once.
    """
    return [
        [_compared(runs, finding, contrast, pair) for contrast in finding.contrasts for pair in _pairs(runs, contrast)]
        for finding in runs.recipe.findings
    ]


def compare(runs: Runs) -> list[Comparison]:
    """Return the comparisons of all findings of a recipe; see `by_claim`."""
    return [one for comparisons in by_claim(runs) for one in comparisons]


def _pairs(runs, contrast):
    """The language pairs in which both numbers are known; if there are none, one in which both systems were run."""
    every = [*runs.recipe.pairs] or [None]
    cells = {pair: contrast.cells(pair) for pair in every}
    known = [pair for pair in every if all(map(runs.value, cells[pair]))]
    run = [pair for pair in every if all(runs.folders(pair, cell.entry) for cell in cells[pair])]
    return known or run[:1] or every[:1]


def _compared(runs, finding, contrast, pair):
    one, other = contrast.cells(pair)
    what = finding, contrast, pair, *_named(runs, contrast, pair)
    value, against = runs.value(one, other), runs.value(other)
    figures = _of_paper(runs, contrast, pair)
    wanted = measure(one.measure)
    digits = min(MOST_DIGITS, max((len(figure.partition(".")[2]) for figure in figures or ()), default=0))
    paper = _difference(*figures, digits, wanted.unit) if figures else ""
    if value is None or against is None or value.difference is None:
        run = all(runs.folders(pair, cell.entry) for cell in (one, other))
        lacks = "" if value is None or against is None else value.lacks
        return Comparison(*what, paper, "", (lacks or NOT_MEASURED) if run else NOT_RUN)
    here = _difference(value.mean, against.mean, wanted.digits, wanted.unit)
    theirs = (float(figures[0]), float(figures[1])) if figures else None
    found, interval, detectable = verdict(finding, one.measure, value, theirs), "", ""
    lacks = value.lacks or value.remark
    if value.comparison is not None:
        low, high = value.comparison.interval()
        interval = interval_text(value.comparison, wanted.digits)
        detectable = f"{value.comparison.detectable:.{wanted.digits}f}{wanted.unit}"
        better = wanted.sign * value.comparison.difference > 0
        if found == UNDECIDED and not low <= 0 <= high and (BETTER if better else WORSE) in finding.expected:
            lacks = _OPEN
    return Comparison(*what, paper, here, found, lacks, interval, detectable)


def verdict(finding: Finding, name: str, value: Value, paper: tuple[float, float] | None = None) -> str:
    """Return whether a difference is what a finding says; see this module.

    Args:
        finding: the finding.
        name: the measure.
        value: the number of the system, compared with the other's.
        paper: the paper's figures of both systems; None if it gives none.
    """
    wanted, difference = measure(name), value.difference or 0.0
    other = value.mean - difference
    margin = finding.margin or (finding.share or wanted.share) * abs(other) or wanted.margin
    if not wanted.seeded:
        if value.remark:
            return UNDECIDED
        outcome = LEVEL if abs(difference) <= margin else BETTER if wanted.sign * difference > 0 else WORSE
        if outcome not in finding.expected:
            return DIFFERS
        return AGREES if outcome == LEVEL or _have_size(difference, other, paper) else IN_DIRECTION
    if value.comparison is None:
        return UNDECIDED
    sign = -wanted.sign if finding.expected == (WORSE,) else wanted.sign
    found = _Claimed(value.comparison, sign, margin, None if paper is None else sign * (paper[0] - paper[1]))
    return _of_no_difference(finding, found) if LEVEL in finding.expected else _of_direction(found)


def _have_size(difference, other, paper):
    """Whether a difference is the same share of the other number as in the paper, about."""
    if paper is None or not other or not paper[1]:
        return True
    own, its = difference / other, (paper[0] - paper[1]) / paper[1]
    return abs(own - its) <= _OF_SHARES or 1 / _FACTOR <= (own / its if its else 0) <= _FACTOR


@dataclasses.dataclass(frozen=True)
class _Claimed:
    """A difference, turned so that better, or worse if that is claimed, is positive."""

    comparison: TrainingComparison
    sign: int
    margin: float
    paper: float | None

    def interval(self, confidence=0.95):
        return sorted(self.sign * end for end in self.comparison.interval(confidence))

    def in_size(self, verdict):
        """A verdict, if the difference is of the size of the paper's; another if it is not, or not for certain."""
        if self.paper is None:
            return verdict
        sizes = self.paper / _FACTOR, self.paper * _FACTOR, self.paper - self.margin, self.paper + self.margin
        least, most = min(sizes), max(sizes)
        if least <= self.sign * self.comparison.difference <= most:
            return verdict
        low, high = self.interval()
        return IN_DIRECTION if low > most or high < least else UNDECIDED


def _of_direction(found):
    """Hold a claim that one system is better against an interval."""
    low, high = found.interval()
    if low <= 0:
        absent = found.paper is not None and high < min(found.paper / _FACTOR, found.paper - found.margin)
        return DIFFERS if high < 0 or absent else UNDECIDED
    if found.paper is None:
        return AGREES if low > found.margin else IN_DIRECTION if high < found.margin else UNDECIDED
    return found.in_size(AGREES)


def _of_no_difference(finding, found):
    """Hold a claim of no difference, or of none in one direction, against the margin."""
    lowest = -math.inf if WORSE in finding.expected else -found.margin
    highest = math.inf if BETTER in finding.expected else found.margin
    low, high = found.interval()
    if finding.significant and ((low > 0 and highest < math.inf) or (high < 0 and lowest > -math.inf)):
        return DIFFERS
    if low > highest or high < lowest:
        return DIFFERS
    low, high = found.interval(0.9)
    if not (lowest < low and high < highest):
        return UNDECIDED
    return AGREES if finding.expected == (LEVEL,) else found.in_size(AGREES)


def _of_paper(runs, contrast, pair):
    """The paper's figures, as they are printed; none if it has none of both."""
    # Those that no table has are of the first pair.
    figures = contrast.figures.split() if pair in (None, runs.recipe.first_pair) else []
    figures = figures or [_figure(runs, cell) for cell in contrast.cells(pair)]
    found = [DECIMALS.match(figure) for figure in figures]
    return [one[0] for one in found] if all(found) else []


def _figure(runs: Runs, wanted: Cell) -> str:
    """What the paper's tables have for a cell."""
    for cell in cells_of(runs.recipe.tables):
        alike = all(getattr(cell, name) == getattr(wanted, name) for name in ("entry", "measure", "split"))
        if alike and cell.figure and runs.pairs_of(cell) == runs.pairs_of(wanted):
            return cell.figure
    return ""


def _difference(one, other, digits, unit):
    one, other = float(one), float(other)
    return f"{one - other:+z.{digits}f}{unit} ({one:.{digits}f}{unit} – {other:.{digits}f}{unit})"


def findings_table(findings: Sequence[Finding], found: Sequence[Sequence[Comparison]], notes: Sequence[str]) -> Table:
    """Return claims and what was found on each as a table: those with a verdict first.

    A comparison with an interval has a row. Others of a claim share one if they have the same verdict for the same
    reason; it has the range of their differences. See `without_numbers` for the rest.
    """
    # Without a test there is neither.
    tested = any(one.interval for comparisons in found for one in comparisons)
    rows: list[list[str]] = []
    for i in sorted(range(len(found)), key=lambda i: not is_decided(found[i])):
        groups: dict[tuple[str, str, str], list[Comparison]] = collections.defaultdict(list)
        for one in sorted((one for one in found[i] if one.here), key=lambda one: not one.interval):
            interval = f"{one.interval} ({one.detectable})" if one.interval else ""
            groups[interval and one.systems + one.measured, interval, verdict_of(one)].append(one)
        title = numbered(findings)[i]
        for (_, interval, shown), group in groups.items():
            rows.append([title, _together(group), "; ".join(differences(group)), *[interval] * tested, shown])
            title = str(i + 1)
    headings = ["claim", "systems", "here [the paper]", *["95 % interval (could show)"] * tested, "verdict"]
    return Table(headings, rows, notes, text=("systems", "verdict"))


def without_numbers(findings: Sequence[Finding], found: Sequence[Sequence[Comparison]]) -> Iterator[str]:
    """Yield lists of the claims, and of the systems of others, without a number of ours, each below its reason."""
    for why in dict.fromkeys(one.verdict for comparisons in found for one in comparisons if not one.here):
        lines, parts, rest = [], [], []
        for i, (claim, comparisons) in enumerate(zip(numbered(findings), found, strict=True), start=1):
            those = [one for one in comparisons if not one.here and one.verdict == why]
            if len(those) == len(comparisons):
                # A number that begins a line would begin another list.
                lines.append(claim.replace(f"{i}.", f"**{i}.**", 1))
            elif those:
                parts.append(str(i))
                rest += those
        lines += [f"of {', '.join(parts)}: {_together(rest)}"] if rest else []
        yield f"{why.capitalize()}:\n\n" + "\n".join(f"- {in_markdown(line)}" for line in lines)


def numbered(findings: Sequence[Finding]) -> list[str]:
    """Return claims with their numbers and their places in the paper."""
    return [f"{number}. {one.claim} ({one.place})" for number, one in enumerate(findings, start=1)]


def is_decided(comparisons: Iterable[Comparison]) -> bool:
    """Return whether any comparison of a claim has a verdict."""
    return any(one.verdict in (AGREES, IN_DIRECTION, DIFFERS) for one in comparisons)


def verdict_of(one: Comparison) -> str:
    """Return a verdict, and why if there is too little to say, less the systems that lack something."""
    if one.verdict != UNDECIDED:
        return one.verdict
    lacks = dict.fromkeys(part.rpartition(": ")[2] for part in one.lacks.split("; "))
    return f"{UNDECIDED} ({'; '.join(lacks) or _WIDE})"


def differences(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Yield for each measure the range of its differences, and in brackets that of the paper's."""
    for measured in dict.fromkeys(one.measured for one in comparisons):
        of_measure = [one for one in comparisons if one.measured == measured]
        here, paper = (span(getattr(one, side) for one in of_measure) for side in ("here", "paper"))
        yield " ".join(filter(None, (measured, here, f"[{paper}]" if paper else "")))


def span(figures: Iterable[str]) -> str:
    """Return the lowest and the highest of differences, as they are printed.

    Example:
        >>> span(["+1.3x (2.3x – 1.0x)", "", "-0.1x (0.9x – 1.0x)"])
        '-0.1x to +1.3x'
    """
    shown = sorted((one.partition(" (")[0] for one in figures if one), key=lambda one: float(_FIGURE.findall(one)[0]))
    return " to ".join(dict.fromkeys([*shown[:1], *shown[-1:]]))


def _together(comparisons):
    """The systems of comparisons; what several are compared with stands once."""
    firsts: dict[str, dict[str, None]] = collections.defaultdict(dict)
    for one in comparisons:
        first, dash, other = one.systems.partition(" – ")
        firsts[dash + other][first] = None
    return "; ".join(", ".join(names) + others for others, names in firsts.items())


def _named(runs, contrast, pair):
    """What is compared: the systems, with the language pair if it is not the first, and the measure."""
    sides = [cell.measure + _of_split(cell.split) for cell in contrast.cells(pair)]
    of_pair = "" if pair in (None, runs.recipe.first_pair) else f" ({pair})"
    if contrast.entry == contrast.other:
        return f"`{contrast.entry}`{of_pair}", " – ".join(sides)
    return f"`{contrast.entry}` – `{contrast.other}`{of_pair}", sides[0]


def _of_split(name):
    """The name of scores behind that of a measure: that of the test text goes without saying."""
    if found := WITH_TOP_K.fullmatch(name):
        count = "all" if found[2] == "0" else found[2]
        return f" ({found[1]}, K={count})"
    return "" if name == "test" else f" ({name})"


def notes_of(runs: Runs, found: Sequence[Sequence[Comparison]]) -> Iterator[str]:
    """Yield what has to be known to read a `findings_table`."""
    run = [one for comparisons in found for one in comparisons if one.here]
    names = dict.fromkeys(one.measure for one in run if one.interval)
    if names:
        yield (
            "95 % interval: of the difference, over seeds and sentences, not corrected for the number of claims; could "
            "show: the smallest difference that they would show in about four of five cases"
        )
        yield (
            "size: within a factor of two of the paper's, or within what counts as no difference: 1 point, 5 % of a "
            "perplexity, 0.05 of a loss, unless the claim says otherwise; without figures of the paper, more than that"
        )
    if alone := [name for name in names if measure(name).test is None and not measure(name).sums]:
        yield f"over seeds alone, since the log has no scores of sentences: {', '.join(alone)}"
    cells = ((cell, one.pair) for one in run for cell in one.contrast.cells(one.pair))
    yield from dict.fromkeys(filter(None, (about_texts(cell, runs, pair) for cell, pair in cells)))
    if bare := dict.fromkeys(one.measure for one in run if not measure(one.measure).seeded):
        yield f"compared as they are, since another seed changes them little: {', '.join(bare)}"
    for share in dict.fromkeys(one.finding.share for one in run if one.finding.share):
        shared = dict.fromkeys(one.measure for one in run if one.finding.share == share)
        yield f"a difference of at most {share:.0%} counts as none: {', '.join(shared)}"
