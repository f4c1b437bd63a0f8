"""What is read off the panels of a page, and chosen in them."""

import json

import numpy as np

PANEL = "document.querySelectorAll('.panel')[{}]"
TOKEN = PANEL + ".querySelectorAll('.tokens.{}s li')[{}]"
# Steps of a byte's root and of the largest weight.
TOLERANCE = 5e-3


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
