"""What the pages of docs/results found, as plain data, and as one table with a row for each claim of a paper.

A page's findings are kept because its runs are not: `write_results.py` fills the table from those of all pages.
"""

import collections
import itertools
import re

# The figure of "+0.8 M (3.0 M – 2.2 M)" and the like.
FIGURE = re.compile(r"[-+][\d.]+")


def findings_of(runs):
    """The claims of a recipe and what its runs say to each; none at the scale smoke, which says nothing."""
    from keras_attn_zoo.studies.paper_findings import compare

    recipe = runs.recipe
    comparisons = [] if recipe.scale == "smoke" else compare(runs)
    return [
        {
            "claim": finding.claim,
            "comparisons": [record(runs, one) for one in comparisons if one.finding is finding],
        }
        for finding in (recipe.findings if comparisons else ())
    ]


def record(runs, one):
    """A comparison as plain data, with how many seeds each side has, and the texts that they were scored on."""
    from keras_attn_zoo.studies.paper_findings import label

    cells = one.contrast.cells(one.pair)
    return {
        "what": label(runs, one),
        "measure": one.contrast.measure,
        "paper": one.paper,
        "here": one.here,
        "interval": one.interval,
        "verdict": one.verdict,
        "lacks": one.lacks,
        "seeds": [len(runs.folders(one.pair, cell.entry)) for cell in cells],
        "texts": list(dict.fromkeys(name for cell in cells for name in runs.texts_in(cell))) if one.here else [],
    }


def table(pages):
    """The table of all claims, in Markdown; `pages` are the findings of each page by its name.

    A claim with a verdict has a row. Those of a page without one share a row for each reason, by their numbers.
    """
    from keras_attn_zoo.support.escapes import in_markdown

    rows = []
    for page, claims in sorted(pages.items()):
        decided = {number for number, one in enumerate(claims, start=1) if is_decided(one["comparisons"])}
        own = [row(number, claims[number - 1]) for number in sorted(decided)]
        others = collections.defaultdict(list)
        for number, one in enumerate(claims, start=1):
            if number not in decided:
                others[verdict_of(one["comparisons"])].append(str(number))
        own += [[f"claim{'s' * (len(of) > 1)} {', '.join(of)}", why, "", "", ""] for why, of in others.items()]
        rows += [[f"[{title_of(page)}]({page}.md)", *(in_markdown(cell, cell=True) for cell in one)] for one in own]
    headings = ["paper", "claim", "verdict", "here [the paper]", "seeds", "scored on"]
    return "\n".join(f"| {' | '.join(line)} |" for line in (headings, ["---"] * len(headings), *rows))


def is_decided(comparisons):
    """Whether any comparison of a claim has a verdict."""
    from keras_attn_zoo.studies.paper_findings import AGREES, DIFFERS, IN_DIRECTION

    return any(one["verdict"] in (AGREES, IN_DIRECTION, DIFFERS) for one in comparisons)


def title_of(page):
    """The author of a page's paper, and the task if it is not translation.

    Example:
        >>> title_of("zeng2021_dialogue")
        'Zeng, dialogue'
    """
    name, _, task = page.partition("_")
    return ", ".join(filter(None, (name.rstrip("0123456789").capitalize(), task)))


def row(number, claim):
    """The cells of a claim: itself, its verdict, the differences, seeds and texts."""
    comparisons = claim["comparisons"]
    run = [one for one in comparisons if one["here"]]
    seeds = {count for one in run for count in one["seeds"]}
    texts = dict.fromkeys(text for one in run for text in one["texts"])
    return [
        f"{number}. {claim['claim']}",
        verdict_of(comparisons),
        "; ".join(differences(comparisons)),
        "–".join(map(str, sorted({min(seeds), max(seeds)}))) if seeds else "",
        "; ".join(joined(texts)),
    ]


def verdict_of(comparisons):
    """The verdicts on a claim, each with how many of its comparisons have it, and why if there is too little to say."""
    from keras_attn_zoo.studies.paper_findings import UNDECIDED

    counts = collections.Counter(one["verdict"] for one in comparisons)
    reasons = collections.defaultdict(dict)
    for one in comparisons:
        if one["verdict"] == UNDECIDED:
            # Less the system that it is said of.
            reasons[UNDECIDED][one["lacks"].rpartition(": ")[2] or "the interval is too wide"] = None
    shown = []
    for verdict, count in counts.items():
        of = f", {count} of {len(comparisons)}" if len(counts) > 1 else ""
        why = f" ({', '.join(reasons[verdict])})" if reasons[verdict] else ""
        shown.append(f"{verdict}{of}{why}")
    return "; ".join(shown)


def differences(comparisons):
    """For each measure the range of its differences, and in brackets that of the paper's."""
    for measure in dict.fromkeys(one["measure"] for one in comparisons):
        of_measure = [one for one in comparisons if one["measure"] == measure]
        here, paper = (span(one[side] for one in of_measure) for side in ("here", "paper"))
        if here or paper:
            yield " ".join(filter(None, (measure, here, f"[{paper}]" if paper else "")))


def span(figures):
    """The lowest and the highest of differences, as they are printed.

    Example:
        >>> span(["+1.3x (2.3x – 1.0x)", "", "-0.1x (0.9x – 1.0x)"])
        '-0.1x to +1.3x'
    """
    shown = [one.partition(" (")[0] for one in figures if one]
    ends = [pick(shown, key=lambda one: float(FIGURE.match(one)[0])) for pick in (min, max)] if shown else []
    return " to ".join(dict.fromkeys(ends))


def joined(texts):
    """Names of texts; what several begin with stands once.

    Example:
        >>> list(joined(["multi30k/test de→en", "multi30k/test en→de"]))
        ['multi30k/test de→en, en→de']
    """
    for stem, names in itertools.groupby(sorted(texts), lambda name: name.rpartition(" ")[0]):
        yield " ".join(filter(None, (stem, ", ".join(name.rpartition(" ")[2] for name in names))))
