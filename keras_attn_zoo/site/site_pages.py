"""The pages of the site that are its own: landing page, gallery, presets."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_attn_zoo.layers import ATTENTIONS
from keras_attn_zoo.presets.preset_registry import PICTURES, published, published_folder, size_of
from keras_attn_zoo.presets.preset_site import SUMS
from keras_attn_zoo.site.citations import cited_papers
from keras_attn_zoo.site.gallery import gallery_pages
from keras_attn_zoo.site.page_frame import ASSETS, asset, page, table
from keras_attn_zoo.support.escapes import in_html
from keras_attn_zoo.support.files import read_json, write_text
from keras_attn_zoo.viewing.page import asset as asset_of_viewing

_PICTURE = PICTURES[0]
_PLACES = ("encoder_attention", "decoder_attention", "cross_attention")


def write_pages(folder: Path, citation: Path) -> None:
    """Write the pages and what they load to the folder of a site.

    Args:
        folder: of the site.
        citation: the file with the papers of the mechanisms.
    """
    presets = {name: {**facts, "mechanisms": _mechanisms(name)} for name, facts in published().items()}
    pages = gallery_pages(presets, cited_papers(citation))
    pages["index.html"] = _landing(presets)
    pages["presets/index.html"] = _presets(presets)
    for path, text in pages.items():
        write_text(folder / path, text)
    for name in ASSETS:
        theme = asset_of_viewing("theme.css") if name == "site.css" else ""
        write_text(folder / "assets" / name, theme + asset(name))


def _mechanisms(preset):
    """The names of the mechanisms of a preset, as its configuration has them."""
    config = read_json(published_folder(preset) / "config.json")["config"]
    found = set()
    for choice in (config.get(place) for place in _PLACES):
        for one in choice if isinstance(choice, list) else [choice]:
            name = one.get("attention") if isinstance(one, dict) else one
            found |= {name} & ATTENTIONS.keys()
    return found


def _landing(presets):
    layers = len({entry.layer for entry in ATTENTIONS.values()})
    doors = {
        "gallery/index.html": ("Gallery", f"{layers} layers: equation, cost, paper, and a matrix to play with"),
        "guide/index.html": ("Guide", "install, translate, look inside, train, compare, reproduce a paper"),
        "guide/api/layers.html": ("API", "every class and function, with its equation and an example"),
        "presets/index.html": ("Presets", f"{len(presets)} trained translators to download, with checksums"),
    }
    listed = "\n".join(f'<li><a href="{place}"><b>{name}</b></a>{text}</li>' for place, (name, text) in doors.items())
    body = f"""<h1>See where a translator looks</h1>
<p class="prose">Attention mechanisms of machine translation, as Keras 3 layers that run unchanged on JAX, TensorFlow
and PyTorch, and translators built from them. Choose some of these below and type a German sentence: they translate in
your browser, and nothing that you type leaves it.</p>
<iframe class="live-page" id="live" src="live/index.html" title="Live demonstration"></iframe>
<p class="note"><a href="live/index.html">The demonstration on a page of its own</a></p>
<ul class="doors">
{listed}
</ul>"""
    description = "Attention mechanisms for machine translation as Keras 3 layers, live in the browser."
    return page("index.html", "keras-attn-zoo: attention, live", description, body, ["landing.js"])


def _presets(presets):
    parts = [
        f"""<h1>Presets</h1>
<p class="prose">Trained translators, downloaded by name on first use and compared with their checksums.
<a href="{SUMS}"><code>{SUMS}</code></a> has those of all files, as <code>sha256sum --check</code> reads them.
<a href="../guide/reference/presets.html">How they were trained and measured</a></p>
<pre>attn-zoo presets --download {next(iter(presets), "NAME")}</pre>"""
    ]
    parts += [_preset(name, facts) for name, facts in presets.items()]
    description = "Trained translators of keras-attn-zoo, with their checksums."
    return page("presets/index.html", "Presets · keras-attn-zoo", description, "\n".join(parts))


def _preset(name: str, facts: Mapping[str, Any]) -> str:
    scores = ", ".join(
        f"{label} {facts['scores'][score]:.1f}"
        for score, label in {"bleu": "BLEU", "chrf": "chrF", "ter": "TER", "aer": "AER"}.items()
        if facts["scores"].get(score) is not None
    )
    files = (
        [f'<a href="{name}/{file}" download>{file}</a>', f"{one['size']:,}", f"<code>{one['sha256']}</code>"]
        for file, one in facts["files"].items()
    )
    size = 'width="428" height="368" loading="lazy"'
    picture = f'<p><img src="{name}/{_PICTURE}" {size} alt="Its attention on a sentence"></p>\n'
    picture *= _PICTURE in facts["files"]
    return f"""<section id="{name}"><h2>{name}</h2>
<p class="prose">{in_html(facts["description"])}</p>
<p class="note">{facts["source"]} → {facts["target"]} · {scores} · {facts["parameters"] / 1e6:.1f} M parameters ·
{size_of(facts) / 1e6:.1f} MB · {in_html(facts["license"])}</p>
<p><a href="../index.html?preset={name}">Translate with it</a></p>
{picture}<details class="files"><summary>{len(facts["files"])} files</summary>
{table(f"Files of {name}", ["file", "bytes", "SHA-256"], files)}</details></section>"""
