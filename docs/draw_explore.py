"""Draw the pictures of how-to/explore.md: screenshots of pages, in Chromium (`apt-get install chromium`).

  python -m docs.draw_explore
  python -m docs.draw_explore --models latent=runs/transformer-latent --only explore-latent

Models are the published presets unless others are named. The picture with gold links is made from the runs of
`attn-zoo demo`.
"""

import argparse
import contextlib
import io
import tempfile
from pathlib import Path

IMAGES = Path(__file__).parent / "images"
MODELS = {
    "transformer": "transformer_tatoeba_de_en",
    "bahdanau": "bahdanau_tatoeba_de_en",
    "latent": "transformer_latent_tatoeba_de_en",
    "recurrent": "ran_all_tatoeba_de_en",
    "gold": "demo-run/bahdanau",
    "uniform": "demo-run/uniform",
}
# What the page calls them, where that is something else.
NAMES = {"gold": "bahdanau", "latent": "transformer-latent", "recurrent": "ran-all"}
SENTENCE = "Ich rufe dich morgen an, wenn ich Zeit habe."
SHORT = "Er ruft den alten Freund an."
# Colours of a palette, which takes a third of the bytes.
COLOURS = 256


def overview(browser, page):
    """Two systems side by side, a word held."""
    browser.open(page, 1000, 790)
    browser.click(word(0, "call"))
    browser.run("document.activeElement.blur()")


def heads(browser, page):
    """All heads of the cross-attention."""
    browser.open(page, 1000, 640)
    browser.run("explorer.setView('overview')")


def search(browser, page):
    """The search at its fifth position, in dark mode."""
    browser.open(page, 1000, 620, dark=True)
    browser.run("explorer.search.nodes[4][1].click()")
    browser.run("(s => { s.value = 5; s.dispatchEvent(new Event('input')); })(explorer.search.slider)")
    browser.run("document.querySelector('.search').scrollIntoView()")


def phone(browser, page):
    """On a phone, a word tapped."""
    browser.open(page, 360, 760, touch=True)
    browser.tap(word(0, "call"))
    browser.run("scrollTo(0, 0)")


def gold(browser, page):
    """Matrices with gold links."""
    browser.open(page, 1000, 800)
    browser.run("explorer.setView('matrix')")


def latent(browser, page):
    """Prior and posterior of a latent alignment."""
    browser.open(page, 1000, 700)
    browser.run("explorer.setView('matrix')")


def recurrent(browser, page):
    """Learned matrices of self-attention, of every layer and head."""
    from tests.viewing.panels import choose

    browser.open(page, 1000, 520)
    choose(browser, "place", "encoder")
    browser.run("explorer.setView('overview')")


def live(browser, page):
    """The page that translates in the browser: two of three models are chosen, a word held."""
    from tests.viewing.live_records import choose, translate
    from tests.viewing.static_site import site

    with site(page) as address:
        browser.open(address, 1000, 820)
        choose(browser, "transformer", "bahdanau")
        translate(browser, SENTENCE)
        browser.click(word(0, "call"))
        browser.run("document.activeElement.blur()")
        browser.run("scrollTo(0, 0)")
        browser.screenshot(Path(page).parent / "picture.png", full=False)


# For each picture: the models, the sentence or None for the run's own, and what is done on the page.
PICTURES = {
    "explore": (("transformer", "bahdanau"), SENTENCE, overview),
    "explore-heads": (("transformer",), SENTENCE, heads),
    "explore-search": (("transformer",), SENTENCE, search),
    "explore-phone": (("transformer", "bahdanau"), SENTENCE, phone),
    "explore-gold": (("gold", "uniform"), None, gold),
    "explore-latent": (("latent",), SHORT, latent),
    "explore-recurrent": (("recurrent",), SHORT, recurrent),
    "explore-live": (("transformer", "bahdanau", "latent"), None, live),
}


def word(panel, text):
    """An expression for a word of the translation; the first one, if the model says something else."""
    rows = f"[...document.querySelectorAll('.panel')[{panel}].querySelectorAll('.tokens.rows li')]"
    return f"({rows}.find(one => one.textContent.includes({text!r})) ?? {rows}[0])"


def draw(name, models, browser, other=None):
    """Write one picture, of another sentence if one is given."""
    from PIL import Image

    from keras_attn_zoo.cli import main

    systems, sentence, prepare = PICTURES[name]
    sentence = other or sentence
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        paths = [named(folder, models[one], NAMES.get(one, one)) for one in systems]
        more = ["--live"] if prepare is live else [sentence] if sentence else []
        with contextlib.redirect_stderr(io.StringIO()):
            status = main(["explore", *paths, *more, "--output", str(page)])
        if status:
            raise SystemExit(f"no page of {', '.join(paths)}: run attn-zoo explore on them to see why")
        prepare(browser, page)
        # While the page is served.
        if prepare is not live:
            browser.screenshot(Path(folder) / "picture.png", full=False)
        with Image.open(Path(folder) / "picture.png") as image:
            small = image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    small.save(IMAGES / f"{name}.png", optimize=True)


def named(folder, model, name):
    """A link to the folder of a model; the page calls it by the last part of its path."""
    from keras_attn_zoo.presets.preset_registry import find_preset

    link = Path(folder) / name
    link.symlink_to(Path(find_preset(model)).resolve())
    return str(link)


def main():
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=[], metavar="NAME=MODEL", help=f"any of {', '.join(MODELS)}")
    parser.add_argument("--only", nargs="+", metavar="PICTURE", choices=PICTURES, help=", ".join(PICTURES))
    parser.add_argument("--sentence", help="instead of those that the pictures have")
    options = parser.parse_args()
    models = {**MODELS, **dict(one.split("=", 1) for one in options.models)}
    from keras_attn_zoo.support.backends import choose_backend

    choose_backend(None)
    from tests.viewing.chromium import Browser

    browser = Browser()
    try:
        for name in PICTURES:
            if options.only is None or name in options.only:
                draw(name, models, browser, options.sentence)
    finally:
        browser.close()


if __name__ == "__main__":
    main()
