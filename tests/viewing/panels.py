"""What is read off the panels of a page, and chosen in them."""

import json

import numpy as np

from keras_attn_zoo.viewing.page import Page
from tests.viewing import samples

PANEL = "document.querySelectorAll('.panel')[{}]"
TOKEN = PANEL + ".querySelectorAll('.tokens.{}s li')[{}]"
# Steps of a byte's root and of the largest weight.
TOLERANCE = 5e-3


def opened(browser, folder, systems, results, sentences=None, **screen):
    """Open a page of systems and their results for each sentence, by default the usual one."""
    Page(systems, sentences or [samples.sentence()] * len(results), results).save(folder / "page.html")
    browser.open(folder / "page.html", **screen)


def text(browser, selector):
    return browser.run(f"document.querySelector({json.dumps(selector)}).textContent")


def details(browser, panel=0):
    return browser.run(f"{PANEL.format(panel)}.querySelector('.details').textContent")


def choose(browser, name, value, panel=0):
    """Choose of a select as a reader does who moves in it."""
    browser.run(
        f"(() => {{ const s = {PANEL.format(panel)}.querySelector('[data-control={name}]'); s.value = '{value}'; "
        "s.dispatchEvent(new Event('change')); })()"
    )


def shown(browser, panel=0):
    """The matrix that a panel shows."""
    view = browser.run(
        f"(() => {{ const v = explorer.panels[{panel}].view; "
        "return [v.rows, v.columns, [...v.values], v.entropies, v.rowLabels, v.columnLabels]; })()"
    )
    return np.reshape(view[2], view[:2]), *view[3:]
