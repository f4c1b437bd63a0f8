"""Write what is derived from mechanisms and CITATION.cff: tables and lists of README and docs, the stub of `layers`.

python docs/write_tables.py
"""

import inspect
import itertools
import re
import textwrap
from pathlib import Path

from keras_attn_zoo import layers
from keras_attn_zoo.layers import ATTENTIONS, AttentionLayer, get_attention
from keras_attn_zoo.layers.base.headed_attention import HeadedAttention
from keras_attn_zoo.layers.base.positions import POSITIONS
from keras_attn_zoo.site.citations import cited_papers, named_paper
from keras_attn_zoo.site.gallery import Exhibit
from keras_attn_zoo.support.files import write_text

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "docs" / "reference" / "layers.md"]
CITATION = ROOT / "CITATION.cff"
STUB = ROOT / "keras_attn_zoo" / "layers" / "__init__.pyi"


def joined(sources):
    """Sources as one, none of them twice, a paper that follows itself named once."""
    papers = itertools.groupby(dict.fromkeys(", ".join(sources).split(", ")), named_paper)
    return ", ".join(
        ", ".join([first, *(source.removeprefix(f"{paper} ") for source in more)]) for paper, (first, *more) in papers
    )


def mechanisms():
    """Every layer of the registry with its entries by name, in the order of the registry."""
    for layer, names in itertools.groupby(ATTENTIONS, lambda name: ATTENTIONS[name].layer):
        yield layer, {name: ATTENTIONS[name] for name in names}


def papers():
    """The table of all layers."""
    yield ["layer", "mechanism", "paper"]
    for layer, entries in mechanisms():
        summary = inspect.getdoc(layer).splitlines()[0].removesuffix(".")
        yield [f"`{layer.__name__}`", summary, joined(entry.source for entry in entries.values())]


def names():
    """The layers of README.md, in one line."""
    yield ", ".join(f"`{layer.__name__}`" for layer, _ in mechanisms())


def cost():
    """The table of families and costs: a row for the names of a layer that cost the same."""
    yield ["layer", "name", "year", "family", "sequential", "training", "step", "state"]
    for layer, entries in mechanisms():
        family = Exhibit(layer, entries, presets={}).family
        alike = itertools.groupby(entries, lambda name, entries=entries: (entries[name].year, entries[name].cost))
        for (year, spent), names in alike:
            shown = ", ".join(f"`{name}`" for name in names)
            yield [f"`{layer.__name__}`", shown, str(year), family, *(spent or ["–"] * 4)]


def arguments():
    """The table of arguments: constructors, less what every layer takes."""
    yield ["layer", "arguments"]
    for layer, _ in mechanisms():
        headed = issubclass(layer, HeadedAttention)
        base = HeadedAttention if headed else AttentionLayer
        inherited = parameters(HeadedAttention) if headed else {}
        # What is not by name alone is Keras'.
        first = layer is layers.MultiHeadAttention
        own = {name: x if first and x.kind is x.KEYWORD_ONLY else None for name, x in inherited.items()}
        for one in layer.__mro__[: layer.__mro__.index(base)]:
            own |= {name: x for name, x in parameters(one).items() if name not in own}
        shown = [
            f"`{name}`" if x.default is x.empty else f"`{name}={x.default!r}`".replace("'", '"')
            for name, x in own.items()
            if x is not None
        ]
        of = "Keras' layer" if first or getattr(layer, "plain_heads", None) else "`MultiHeadAttention`"
        yield [f"`{layer.__name__}`", ", ".join([*[f"those of {of}"] * headed, *shown]) or "none"]


def choice():
    """When to use a layer, which its docstring says below the first line."""
    for layer, _ in mechanisms():
        use = re.search(r"\n\nUse it (.+?)(?:\n\n|$)", inspect.getdoc(layer), re.DOTALL)
        if use is None:
            raise ValueError(f"{layer.__name__}: below its first line the docstring says when to `Use it ...`.")
        yield f"- `{layer.__name__}`: {' '.join(use[1].split())}"


def cited():
    """The papers of CITATION.cff by what sources begin with."""
    return cited_papers(CITATION)


def named_papers():
    """The papers that the sources of mechanisms name."""
    sources = [source for entry in ATTENTIONS.values() for source in entry.source.split(", ")]
    return {named_paper(source) for source in sources if source[0].isalpha()}


def references():
    """The papers."""
    for name, paper in cited().items():
        if name in named_papers():
            yield f"- **{name.split(' ')[0]}**{' and others' * paper.several}: {paper.title} ({paper.year})"


def by_reason(refusal):
    """The layers whose attribute of this name says why they refuse something, below each reason."""
    found = {}
    for layer, _ in mechanisms():
        if reason := getattr(layer, refusal, None):
            found.setdefault(reason, []).append(f"`{layer.__name__}`")
    for reason, refusing in found.items():
        yield f"- {reason[0].upper()}{reason[1:]}: {', '.join(refusing)}"


def softmax_alone():
    """The layers that refuse a `normalizer`."""
    yield from by_reason("softmax_alone")


def positions():
    """What energies may know of positions."""
    for name, kind in POSITIONS.items():
        first, use = inspect.getdoc(kind).split("\n\n")[:2]
        yield f"- `{name}`: {first} {' '.join(use.split())}"


def plain_heads():
    """The layers with heads that refuse groups, positions and norms."""
    yield from by_reason("plain_heads")


def by_position():
    """The mechanisms that look at positions alone."""
    for layer, entries in mechanisms():
        if layer.by_position:
            yield f"- {', '.join(f'`{name}`' for name in entries)}"


def may_attend_nothing():
    """The cross-attentions that a latent alignment does not accept."""
    for name, entry in ATTENTIONS.items():
        if "cross" in entry.places and get_attention(name, width=8, num_heads=2).may_attend_nothing:
            yield f"- `{name}`"


def parameters(layer):
    """What the constructor of a class itself takes by name, apart from what it passes on."""
    found = inspect.signature(vars(layer)["__init__"]).parameters if "__init__" in vars(layer) else {}
    return {
        name: x for name, x in found.items() if name != "self" and x.kind in (x.POSITIONAL_OR_KEYWORD, x.KEYWORD_ONLY)
    }


TABLES = {"papers": papers, "cost": cost, "arguments": arguments}
LISTS = {
    one.__name__: one
    for one in (*(names, choice, references, softmax_alone, positions, plain_heads, by_position, may_attend_nothing),)
}


def with_tables(text):
    """Return a page with a table, or a list, after each `<!-- mechanisms: NAME -->`, up to the `<!-- end -->`."""

    def table(found):
        name = found["table"]
        if name in LISTS:
            indent = {item: "  " * item.startswith("- ") for item in LISTS[name]()}
            rows = [line for item in indent for line in textwrap.wrap(item, 120, subsequent_indent=indent[item])]
        else:
            rows = [f"| {' | '.join(row)} |" for row in TABLES[name]()]
            rows.insert(1, re.sub(r"[^|]+", "---", rows[0]))
        return "\n".join([found["head"], "", *rows, "", "<!-- end -->"])

    return re.sub(r"(?P<head><!-- mechanisms: (?P<table>\w+) -->).*?<!-- end -->", table, text, flags=re.DOTALL)


def stub():
    """Return what `keras_attn_zoo.layers` exports, for editors and type checkers, which run no code."""
    of_module = {}
    for name in layers.__all__:
        module = getattr(getattr(layers, name), "__module__", "keras_attn_zoo.layers.registry")
        of_module.setdefault(module, []).append(name)
    imports = [f"from {module} import {', '.join(names)}" for module, names in sorted(of_module.items())]
    exported = [f'    "{name}",' for name in layers.__all__]
    return "\n".join(["# Written by docs/write_tables.py.", "", *imports, "", "__all__ = [", *exported, "]", ""])


if __name__ == "__main__":
    for page in PAGES:
        write_text(page, with_tables(page.read_text(encoding="utf-8")))
    write_text(STUB, stub())
