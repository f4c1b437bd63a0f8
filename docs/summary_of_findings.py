"""What the pages of docs/results found, as plain data, and as one table with a row for each claim of a paper.

A page's findings are kept because its runs are not: `write_results.py` fills the table from those of all pages.
"""

import collections
import itertools
import types

# What is kept of a comparison.
KEPT = ("systems", "measured", "measure", "paper", "here", "interval", "detectable", "verdict", "lacks")


def findings_of(runs):
    """The claims of a recipe and what its runs say to each; none at the scale smoke, which says nothing."""
    from keras_attn_zoo.studies.paper_findings import by_claim

    recipe = runs.recipe
    found = [] if recipe.scale == "smoke" else by_claim(runs)
    return [
        {"claim": finding.claim, "comparisons": [record(runs, one) for one in comparisons]}
        for finding, comparisons in zip(recipe.findings if found else (), found, strict=True)
    ]


def record(runs, one):
    """A comparison as plain data, with how many seeds each side has, and the texts that they were scored on."""
    cells = one.contrast.cells(one.pair)
    return {
        **{name: getattr(one, name) for name in KEPT},
        "seeds": [len(runs.folders(one.pair, cell.entry)) for cell in cells],
        "texts": list(dict.fromkeys(name for cell in cells for name in runs.texts_in(cell))) if one.here else [],
    }


def comparisons_of(claim):
    """The comparisons of a claim that was kept, as the package has them."""
    return [types.SimpleNamespace(**one) for one in claim["comparisons"]]


def table(pages):
    """The table of all claims, in Markdown; `pages` are the findings of each page by its name.

    A claim with a verdict has a row. Those of a page without one share a row, by their numbers.
    """
    from keras_attn_zoo.studies.paper_cells import NOT_MEASURED, NOT_RUN
    from keras_attn_zoo.studies.paper_findings import UNDECIDED, is_decided
    from keras_attn_zoo.support.escapes import in_markdown

    rows = []
    for page, claims in sorted(pages.items()):
        own, others = [], collections.defaultdict(list)
        for number, claim in enumerate(claims, start=1):
            comparisons = comparisons_of(claim)
            if is_decided(comparisons):
                own.append(row(f"{number}. {claim['claim']}", comparisons))
            else:
                # Whatever else it lacks, what was run of it stands for the claim.
                verdicts = {one.verdict for one in comparisons}
                others[next(one for one in (UNDECIDED, NOT_MEASURED, NOT_RUN) if one in verdicts)].append(str(number))
        if others:
            open_ones = "; ".join(f"{why}: {', '.join(numbers)}" for why, numbers in others.items())
            own.append(["claims without a verdict", open_ones, "", "", ""])
        rows += [[f"[{title_of(page)}]({page}.md)", *(in_markdown(cell, cell=True) for cell in one)] for one in own]
    headings = ["paper", "claim", "verdict", "here [the paper]", "seeds", "scored on"]
    return "\n".join(f"| {' | '.join(line)} |" for line in (headings, ["---"] * len(headings), *rows))


def title_of(page):
    """The author of a page's paper, and the task if it is not translation.

    Example:
        >>> title_of("zeng2021_dialogue")
        'Zeng, dialogue'
    """
    name, _, task = page.partition("_")
    return ", ".join(filter(None, (name.rstrip("0123456789").capitalize(), task)))


def row(claim, comparisons):
    """The cells of a claim: itself, its verdict, the differences, seeds and texts."""
    from keras_attn_zoo.studies.paper_findings import differences

    run = [one for one in comparisons if one.here]
    seeds = {count for one in run for count in one.seeds}
    texts = dict.fromkeys(text for one in run for text in one.texts)
    return [
        claim,
        verdicts_of(comparisons),
        "; ".join(differences(comparisons)),
        "–".join(map(str, sorted({min(seeds), max(seeds)}))) if seeds else "",
        "; ".join(joined(texts)),
    ]


def verdicts_of(comparisons):
    """The verdicts on a claim, decided ones first, each with how many comparisons have it, and why there is none."""
    from keras_attn_zoo.studies.paper_findings import is_decided, verdict_of

    ordered = sorted(comparisons, key=lambda one: not is_decided([one]))
    counts = collections.Counter(map(verdict_of, ordered))
    return "; ".join(f"{one}{f', {count} of {len(comparisons)}' * (len(counts) > 1)}" for one, count in counts.items())


def joined(texts):
    """Names of texts; what several begin with stands once.

    Example:
        >>> list(joined(["multi30k/test de→en", "multi30k/test en→de"]))
        ['multi30k/test de→en, en→de']
    """
    for stem, names in itertools.groupby(sorted(texts), lambda name: name.rpartition(" ")[0]):
        yield " ".join(filter(None, (stem, ", ".join(name.rpartition(" ")[2] for name in names))))
