"""What a live page shows of a sentence, held against what Python's page does."""

import itertools
import json

import numpy as np

from keras_attn_zoo.translators.exploration import explore
from keras_attn_zoo.viewing.page_packing import SCALES, pack
from tests.viewing.test_page_packing import unpack, weights_at

MESSAGE = "document.querySelector('.message').textContent"
SHOWN = "JSON.stringify({...explorer.sentence, systems: explorer.store.systems, weights: null})"
BYTES = "Array.from(explorer.sentence.weights.bytes)"


def translate(browser, sentence, target=""):
    """Have the page translate a sentence; return its message at the end."""
    for name, text in (("sentence", sentence), ("target", target)):
        browser.run(f"document.querySelector('[name={name}]').value = {json.dumps(text)}")
    browser.run("document.querySelector('form.live').requestSubmit()")
    browser.wait("!document.querySelector('form.live [type=submit]').disabled")
    return browser.run(MESSAGE)


def choose(browser, *names):
    """Choose models, and wait until they are loaded."""
    for name in names:
        browser.click(f"document.querySelector('.models input[value={json.dumps(name)}]')")
    loaded = "explorer.live.chosen.every(({name}) => explorer.live.loaded.has(name))"
    browser.wait(f"/cannot|damaged/.test({MESSAGE}) || (/^Ready/.test({MESSAGE}) && {loaded})")
    return browser.run(MESSAGE)


def check(browser, translators, sentence, target=None):
    """Compare the sentence that a page shows with that of Python's page of the same translators."""
    page = explore(translators, [sentence], [target])
    data, weights = unpack(pack(page.systems, page.sentences, page.results))
    assert data["scale"] == list(SCALES[0])
    shown = json.loads(browser.run(SHOWN))
    of_page = bytes(browser.run(BYTES))
    (expected,) = data["sentences"]
    for key in ("name", "places"):
        assert [one[key] for one in shown["systems"]] == [one[key] for one in data["systems"]]
    assert (shown["text"], shown["words"]) == (expected["text"], expected["words"])
    for system, ours, theirs in zip(shown["systems"], shown["results"], expected["results"], strict=True):
        assert (ours["tokens"], ours["groups"]) == (theirs["tokens"], theirs["groups"])
        close = _comparison(of_page, weights)
        if "encoder" in system["places"]:
            close(ours["encoder"], theirs["encoder"])
        for path, other in zip(ours["paths"], theirs["paths"], strict=True):
            for name in ("kind", "text", "words", "tokens", "groups"):
                assert path[name] == other[name], name
            np.testing.assert_allclose(path["logProbs"], other["logProbs"], rtol=0, atol=1e-3)
            assert path["weights"].keys() == other["weights"].keys() == system["places"].keys() - {"encoder"}
            for place, layers in path["weights"].items():
                close(layers, other["weights"][place])
        for step, other in itertools.zip_longest(ours["steps"], theirs["steps"]):
            kept = system["beams"]
            # What was dropped may be equally likely.
            for name in ("tokens", "parents", "ended"):
                assert step[name][:kept] == other[name][:kept], name
            for name in ("logProbs", "scores"):
                np.testing.assert_allclose(step[name], other[name], rtol=0, atol=2e-3)
            close([step["attention"]], [other["attention"]])


def _comparison(of_page, weights):
    def close(ours, theirs):
        for one, other in zip(ours, theirs, strict=True):
            assert one["shape"] == other["shape"]
            # A step of a byte.
            found, expected = weights_at(of_page, one, SCALES[0]), weights_at(weights, other, SCALES[0])
            np.testing.assert_allclose(found, expected, rtol=0, atol=0.01)

    return close
