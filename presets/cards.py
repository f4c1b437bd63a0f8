"""What is written about the presets: the card of each, and the table and the pictures of docs/reference/presets.md."""

import re
import shlex
import textwrap
from pathlib import Path

from keras_attn_zoo.support.errors import counted

LANGUAGES = {"de": "German", "en": "English"}
METRICS = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER"}
COLUMNS = ("preset", "mechanism", "BLEU", "chrF", "TER", "AER", "sentences/s", "parameters", "size")
NONE = "This version has no presets yet. `python presets/make.py` trains and builds them."
# Pictures side by side.
ABREAST = 2


def card(name, facts, command, text):
    """Return the README.md of a preset.

    Args:
        name: of the preset.
        facts: its entry in the registry.
        command: the command line that trained it, as a list.
        text: what `presets.toml` says of the corpus and the training.
    """
    from keras_attn_zoo.presets.preset_registry import size_of

    source, target = LANGUAGES[facts["source"]], LANGUAGES[facts["target"]]
    scores, search, training = facts["scores"], facts["search"], facts["training"]
    corpus, hardware = text["corpus"], text["training"]["hardware"]
    lines = [f"- {METRICS[key]} {scores[key]:.1f} (`{sign}`)" for key, sign in facts["signatures"].items()]
    before = ", ".join(f"{METRICS[key]} {value:.1f}" for key, value in facts["unquantized"].items())
    stopped = "The best epoch by validation loss is kept."
    paragraphs = {
        "about": f"{facts['description']} It translates short everyday sentences from {source} to {target}. It is the "
        f"system `{facts['system']}` of keras-attn-zoo, after {facts['papers']}; `CITATION.cff` there has the papers.",
        "picture": f"The attention of “{facts['sentence']}”{_seen_by(facts)}.",
        "test": f"On the {training['test']:,} sentences of the test set, with {search['beams']} beams and a length "
        f"penalty of {search['length_penalty']:g}:",
        "stored": f"These are the scores of the weights in this folder, which are stored in int8. Unquantized, they "
        f"had {before}.",
        "aer": _aligned(facts),
        "speed": f"{facts['parameters'] / 1e6:.1f} million parameters in {size_of(facts) / 1e6:.1f} MB; "
        f"{facts['sentences_per_second']:.0f} sentences per second on {counted(facts['cores'], 'CPU core')} "
        f"({facts['processor']}), with the {facts['backend']} backend.",
        "training": f"[{corpus['title']}]({corpus['source']}): {corpus['sentences']}. {training['steps']:,} steps in "
        f"{counted(training['epochs'], 'epoch')}, {training['hours']:.1f} hours on {hardware}. "
        f"{stopped}",
        "limits": "The training text is small and simple, so the model knows a few thousand everyday words. It "
        "translates long or formal sentences badly, and repeats what its corpus says about people. It is made for "
        "looking at attention, not for translating documents.",
        "license": f"The weights are derived from sentences of [Tatoeba]({corpus['source']}), which are under "
        f"{facts['license']}, and are shared under the same license. Credit Tatoeba and its contributors, and "
        "keras-attn-zoo.",
    }
    filled = {key: textwrap.fill(one, 100, break_on_hyphens=False) for key, one in paragraphs.items()}
    return f"""---
library_name: keras-hub
pipeline_tag: translation
language: [{facts["source"]}, {facts["target"]}]
license: {corpus["license_id"]}
metrics: [bleu, chrf, ter]
tags: [keras, translation, attention]
---

# {name}

{filled["about"]}

```
pip install "keras-attn-zoo[translate,jax]"    # or tensorflow, or torch
```

```python
import keras_attn_zoo as kaz

translator = kaz.Translator.from_preset("{name}")
translator.generate(["{facts["sentence"]}"])

# Attention and search, as a page for a browser.
translator.explore(["{facts["sentence"]}"]).save("page.html")
```

![attention](attention.png)

{filled["picture"]}

## Scores

{filled["test"]}

{chr(10).join(lines)}
- perplexity {scores["perplexity"]:.2f} per subword

{filled["stored"]}

{filled["aer"]}

## Size and speed

{filled["speed"]}

## Training

{filled["training"]}

```
{_wrapped(command)}
```

![perplexity](curve.png)

## Limits

{filled["limits"]}

## License and attribution

{filled["license"]}
"""


def _seen_by(facts):
    by = facts["alignment"] and facts["alignment"]["by"]
    return f", by {by}, which aligns best" if by else ""


def _aligned(facts):
    alignment = facts["alignment"]
    if alignment is None:
        return "Its word alignments were not scored."
    by = f"by {alignment['by']}, which was chosen on the same links, " if alignment["by"] else ""
    return (
        f"Its word alignments have an error rate (AER) of {facts['scores']['aer']:.1f}, {by}on those "
        f"{alignment['sentences']} of {alignment['of']} sentences of Europarl with gold links that have at most "
        f"{alignment['longest']} subwords. They are longer than the training text and of a different kind."
    )


def _wrapped(command):
    """A command line on several lines, each of which begins with an option."""
    groups = [[]]
    for word in command:
        if word.startswith("--"):
            groups.append([])
        groups[-1].append(word)
    lines = []
    for group in groups:
        indent = "  " if lines else ""
        lines += textwrap.wrap(
            shlex.join(group), 98, initial_indent=indent, subsequent_indent="    ", break_on_hyphens=False
        )
    return " \\\n".join(lines)


def table(presets):
    """The lines of the table of all presets."""
    from keras_attn_zoo.presets.preset_registry import size_of

    rows = [[*COLUMNS], ["---", "---", *["---:"] * (len(COLUMNS) - 2)]]
    for name, facts in presets.items():
        scores = ["" if facts["scores"][key] is None else f"{facts['scores'][key]:.1f}" for key in (*METRICS, "aer")]
        speed, parameters = f"{facts['sentences_per_second']:.0f}", f"{facts['parameters'] / 1e6:.1f} M"
        rows.append([f"`{name}`", f"`{facts['system']}`", *scores, speed, parameters, f"{size_of(facts) / 1e6:.1f} MB"])
    return [f"| {' | '.join(row)} |" for row in rows]


def pictures(presets):
    """The lines of the pictures of all presets, a few abreast."""
    lines, names = [], list(presets)
    for at in range(0, len(names), ABREAST):
        row = names[at : at + ABREAST]
        shown = [f"![attention of {name}](../../presets/{name}/attention.png)" for name in row]
        about = [presets[name]["description"] for name in row]
        lines += [*(f"| {' | '.join(cells)} |" for cells in (row, ["---"] * len(row), shown, about)), ""]
    return lines[:-1]


PARTS = {"table": table, "pictures": pictures}


def with_presets(page, presets):
    """Return a page with a part after each `<!-- presets: PART -->`, up to the `<!-- end -->`."""

    def part(found):
        lines = PARTS[found["part"]](presets) if presets else [NONE]
        return "\n".join([found["head"], "", *lines, "", "<!-- end -->"])

    return re.sub(r"(?P<head><!-- presets: (?P<part>\w+) -->).*?<!-- end -->", part, page, flags=re.DOTALL)


PAGE = Path(__file__).parents[1] / "docs" / "reference" / "presets.md"
