"""The gallery of mechanisms: a page for every layer of the registry, and one on which they are sought."""

import dataclasses
import inspect
import itertools
import math
import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from keras_attn_zoo.layers import ATTENTIONS
from keras_attn_zoo.layers.base.attention_layer import AttentionLayer
from keras_attn_zoo.layers.base.headed_attention import HeadedAttention
from keras_attn_zoo.layers.base.matrix_state import MatrixStateAttention
from keras_attn_zoo.layers.registry import PLACES, AttentionEntry, Cost
from keras_attn_zoo.site.citations import Paper, named_paper
from keras_attn_zoo.site.equations import equation_lines, with_symbols
from keras_attn_zoo.site.page_frame import page, table
from keras_attn_zoo.site.toy_weights import playground, thumbnail
from keras_attn_zoo.support.escapes import in_html

FAMILIES = (
    "one energy for each pair of words",
    "dot products in heads",
    "remembers where it looked",
    "a matrix as memory",
    "compares no words",
)
# Sizes at which costs are compared, in the symbols of a `Cost`: words, width, heads, window.
SIZES = {"I": 25, "J": 25, "d": 512, "N": 8, "k": 10, "σ": 1}
# Where the sections of a docstring begin that the reference of the API has.
_SECTIONS = re.compile(
    r"(Args|Call|Inputs|Outputs|Shapes|Masking|State|Training|Raises|Example|Source|Differences)\b[\w ,]*:"
)
_CODE = re.compile(r"`([^`]*)`")


@dataclasses.dataclass(frozen=True)
class Exhibit:
    """A layer of the gallery.

    Attributes:
        layer: the class.
        entries: its mechanisms by name.
        presets: the presets that contain it, with their facts, by name.
    """

    layer: type[AttentionLayer]
    entries: Mapping[str, AttentionEntry]
    presets: Mapping[str, Mapping[str, Any]]

    @property
    def title(self) -> str:
        """What it is called."""
        return self.layer.__name__

    @property
    def file(self) -> str:
        """The name of its page."""
        return f"{re.sub(r'(?<!^)(?=[A-Z])', '_', self.title).lower()}.html"

    @property
    def year(self) -> int:
        """When its first mechanism was published."""
        return min(entry.year for entry in self.entries.values())

    @cached_property
    def family(self) -> str:
        """The one of `FAMILIES` that it belongs to, from what its class and its cost say."""
        first = next(iter(self.entries.values()))
        if issubclass(self.layer, MatrixStateAttention):
            return FAMILIES[3]
        if self.layer.by_position or (self.layer.softmax_alone and not issubclass(self.layer, HeadedAttention)):
            return FAMILIES[4]
        if "no queries" in (getattr(self.layer, "plain_heads", None) or ""):
            return FAMILIES[4]
        if first.places == ("cross",) and first.cost is not None and first.cost.state != "none":
            return FAMILIES[2]
        return FAMILIES[1] if issubclass(self.layer, HeadedAttention) else FAMILIES[0]

    @property
    def paragraphs(self) -> list[str]:
        """What its docstring says of it, up to the arguments: the summary first."""
        paragraphs = inspect.cleandoc(self.layer.__doc__ or self.title).split("\n\n")
        return list(itertools.takewhile(lambda one: not _SECTIONS.match(one), paragraphs))


def exhibits(presets: Mapping[str, Mapping[str, Any]]) -> list[Exhibit]:
    """Return the layers of the registry, in its order.

    Args:
        presets: facts by name; "mechanisms" has the names of those that a preset contains.
    """
    found = []
    for layer, names in itertools.groupby(ATTENTIONS, lambda name: ATTENTIONS[name].layer):
        entries = {name: ATTENTIONS[name] for name in names}
        having = {name: facts for name, facts in presets.items() if entries.keys() & facts["mechanisms"]}
        found.append(Exhibit(layer, entries, having))
    return found


def operations(cost: str) -> float:
    """Return how many operations a cost of the registry is at `SIZES`.

    Example:
        >>> operations("I·J·d + I·d²/N")
        1139200.0
    """
    expression = re.sub(r"[^\W\d]{2,}(?: [^\W\d]{2,})+$", "", cost.replace("log I", "L"))
    for symbol, operator in {"·": "*", "²": "**2", "³": "**3"}.items():
        expression = expression.replace(symbol, operator)
    return float(eval(expression, {"__builtins__": {}}, {**SIZES, "L": math.log2(SIZES["I"])}))


def gallery_pages(presets: Mapping[str, Mapping[str, Any]], papers: Mapping[str, Paper]) -> dict[str, str]:
    """Return the pages of the gallery by path.

    Args:
        presets: see `exhibits`.
        papers: by the family name of the first author.
    """
    shown = exhibits(presets)
    pages = {"gallery/index.html": _index(shown)}
    for i, one in enumerate(shown):
        before, after = shown[i - 1] if i else None, shown[i + 1] if i + 1 < len(shown) else None
        pages[f"gallery/{one.file}"] = _page(one, papers, before, after)
    return pages


def _index(shown):
    options = {
        "family": [("", "all"), *((str(i), name) for i, name in enumerate(FAMILIES))],
        "place": [("", "anywhere"), *((place, _PLACES[place]) for place in PLACES)],
        "sort": [
            ("year", "year"),
            ("family", "family"),
            ("training", "cost of a call"),
            ("step", "cost of a step of a search"),
            ("name", "name"),
        ],
    }
    labels = {"family": "Family", "place": "Used as", "sort": "Sort by"}
    selects = "\n".join(
        f'<label><span>{labels[name]}</span><select name="{name}">'
        + "".join(f'<option value="{value}">{in_html(text)}</option>' for value, text in choices)
        + "</select></label>"
        for name, choices in options.items()
    )
    body = f"""<h1>Gallery of attention mechanisms</h1>
<p class="prose">Every attention layer of the package, with its equation, its cost, its paper and a matrix to play with.
The pictures show what it does with five words, untrained: each asks for the word that it translates.</p>
<form class="filters" id="filters" hidden>
<label><span>Search</span><input type="search" name="search" placeholder="a name, an author, a word"></label>
{selects}
</form>
<p class="note" id="count" role="status" aria-live="polite">{len(shown)} layers</p>
<ul class="cards" id="cards">
{"".join(map(_card, shown))}</ul>"""
    description = "Attention mechanisms for machine translation: equations, costs, papers and matrices to play with."
    return page("gallery/index.html", "Gallery · keras-attn-zoo", description, body, ["gallery.js"])


_PLACES = {
    "cross": "cross-attention",
    "encoder": "self-attention of an encoder",
    "decoder": "self-attention of a decoder",
}


def _card(one):
    costs = [entry.cost for entry in one.entries.values() if entry.cost is not None]
    data = {
        "year": one.year,
        "family": FAMILIES.index(one.family),
        "places": " ".join(_places(one)),
        "name": one.title,
        "training": min(map(operations, (cost.training for cost in costs)), default=math.inf),
        "step": min(map(operations, (cost.step for cost in costs)), default=math.inf),
        "words": " ".join([*one.entries, *(entry.source for entry in one.entries.values())]),
    }
    attributes = " ".join(f'data-{name}="{in_html(str(value))}"' for name, value in data.items())
    cost = f" · {costs[0].training} a call" if costs else ""
    return (
        f"<li {attributes}>{thumbnail(next(iter(one.entries)))}\n"
        f'<h2><a href="{one.file}">{re.sub("(?<=[a-z])(?=[A-Z])", "<wbr>", one.title)}</a></h2>\n'
        f"<p>{_inline(one.paragraphs[0])}</p>\n"
        f'<p class="note">{one.year} · {one.family}{in_html(cost)}{_counted(one.presets)}</p></li>\n'
    )


def _counted(presets):
    return f" · {len(presets)} preset{'s' * (len(presets) > 1)}" if presets else ""


def _places(one):
    used = {place for entry in one.entries.values() for place in entry.places}
    return [place for place in _PLACES if place in used]


def _page(one, papers, before, after):
    summary, *rest = one.paragraphs
    facts = {
        "family": one.family,
        "published": str(one.year),
        "used as": ", ".join(_PLACES[place] for place in _places(one)),
        "by name": ", ".join(f"<code>{name}</code>" for name in one.entries),
        "reference": f'<a href="../guide/api/layers.html#keras_attn_zoo.layers.{one.title}">arguments, shapes, masks, '
        "state, example</a>",
    }
    listed = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in facts.items())
    neighbours = [
        f'<a href="{other.file}" rel="{rel}">{text.format(other.title)}</a>' if other else "<span></span>"
        for other, rel, text in ((before, "prev", "← {}"), (after, "next", "{} →"))
    ]
    body = f"""<h1>{one.title}</h1>
<p class="prose">{_inline(summary)}</p>
<dl class="facts">{listed}</dl>
<div class="prose">
{_prose(rest)}
</div>
<h2>Play with its matrix</h2>
<p class="prose">Nothing here is trained. Every word is a unit vector, and so is every position; a word asks for the one
that it translates, or in self-attention for itself, and less strongly for its own position. What the mechanism adds is
set by hand and exaggerated.</p>
{playground({name: name for name in one.entries})}
<h2>Cost</h2>
{_costs(one.entries)}
<h2>Papers</h2>
{_papers(one.entries.values(), papers)}
{_presets(one.presets)}
<nav class="around" aria-label="Neighbours">{"".join(neighbours)}</nav>"""
    title = f"{one.title} · keras-attn-zoo"
    return page(f"gallery/{one.file}", title, summary.replace("`", ""), body, ["playground.js"])


def _inline(text):
    """A paragraph of a docstring as HTML."""
    parts = _CODE.split(" ".join(text.split()))
    # Odd parts are code.
    return "".join(f"<code>{in_html(part)}</code>" if i % 2 else with_symbols(part) for i, part in enumerate(parts))


def _prose(paragraphs: Iterable[str]) -> str:
    parts, literal = [], False
    for paragraph in paragraphs:
        if not paragraph.startswith("    "):
            # Two colons, of which one is shown, announce code.
            shown = paragraph.removesuffix(":") if paragraph.endswith("::") else paragraph
            parts.append(f"<p>{_inline(shown)}</p>")
        elif literal:
            parts.append(f"<pre>{in_html(inspect.cleandoc(paragraph))}</pre>")
        else:
            lines = (
                f"<span>{' '.join(equations)}</span><small>{_inline(remark)}</small>"
                for equations, remark in equation_lines(paragraph)
            )
            parts.append(
                f'<div class="equations" tabindex="0" role="region" aria-label="Equations">{"".join(lines)}</div>'
            )
        literal = paragraph.endswith("::")
    return "\n".join(parts)


def _costs(entries: Mapping[str, AttentionEntry]) -> str:
    rows = (
        [f"<code>{name}</code>", *map(in_html, entry.cost or ["–"] * len(Cost._fields))]
        for name, entry in entries.items()
    )
    return f"""{table("Costs", ["name", "sequential", "a call", "a step", "state"], rows)}
<p class="note">Beyond the projections; I and J are the lengths of target and source, d is the width, N the number of
heads, k the window. <a href="../guide/reference/layers.html#cost">More on costs</a></p>"""


def _papers(entries: Iterable[AttentionEntry], papers: Mapping[str, Paper]) -> str:
    sources = dict.fromkeys(", ".join(entry.source for entry in entries).split(", "))
    by_paper: dict[str, list[str]] = {}
    name = ""
    for source in sources:
        # Numbers alone belong to the paper before them.
        if source[0].isalpha():
            name = named_paper(source)
        by_paper.setdefault(name, []).append(source.removeprefix(f"{name} "))
    items = []
    for name, where in by_paper.items():
        paper = papers[name]
        title = (
            f'<a href="{in_html(paper.url)}">{in_html(paper.title)}</a>'
            if paper.url
            else f"<i>{in_html(paper.title)}</i>"
        )
        places = ", ".join(one if one.startswith("§") or not one[0].isdigit() else f"eq. {one}" for one in where)
        author = name.split(" ")[0]
        items.append(f"<li>{author}{' and others' * paper.several} ({paper.year}): {title}, {in_html(places)}</li>")
    return f"<ul>{''.join(items)}</ul>"


def _presets(presets: Mapping[str, Mapping[str, Any]]) -> str:
    if not presets:
        return ""
    items = "".join(
        f'<li><a href="../presets/index.html#{name}">{name}</a>: {in_html(facts["description"])} '
        f'BLEU {facts["scores"]["bleu"]:.1f}. <a href="../index.html?preset={name}">Translate with it</a></li>'
        for name, facts in presets.items()
    )
    return f"<h2>Presets with it</h2>\n<ul>{items}</ul>"
