"""The site in Chromium: sought, sorted, played with, by keyboard, on a phone, in the dark."""

import pytest

from keras_attn_zoo.site import site_builder
from keras_attn_zoo.site.site_checks import loaded_with
from keras_attn_zoo.site.toy_weights import toy_weights
from keras_attn_zoo.support.fetching import DownloadError
from keras_attn_zoo.translators import Translator
from tests.site.small_site import NAMES, few_presets
from tests.viewing.static_site import site

pytestmark = pytest.mark.one_backend
SHOWN = "[...document.querySelectorAll('#cards li')].filter(one => !one.hidden).map(one => one.dataset.name)"
ROWS = "[...document.querySelectorAll('.playground tbody tr')]"
CELLS = f"{ROWS}.map(row => [...row.querySelectorAll('td')].map(one => Number(one.textContent)))"


@pytest.fixture
def open_page(browser, address):
    def open_page(path, **size):
        browser.open(f"{address}/{path}", **size)
        return browser

    yield open_page
    assert browser.complaints == []


def set_field(browser, form, name, value):
    browser.run(
        f"(() => {{ const one = document.querySelector('{form}').elements['{name}']; one.value = {value!r};"
        "for (const kind of ['input', 'change']) one.dispatchEvent(new Event(kind, {bubbles: true})); })()"
    )


def test_the_gallery_is_sought_and_sorted(open_page):
    browser = open_page("gallery/index.html")
    everything = browser.run(SHOWN)
    assert everything[0] == "GaussianMixtureAttention" and len(everything) > 20
    browser.run("document.querySelector('input[name=search]').focus()")
    for letter in "rosendahl":
        browser.key(letter)
    assert len(browser.run(SHOWN)) == 6 and browser.run("document.getElementById('count').textContent") == "6 layers"
    set_field(browser, "#filters", "search", "nobody")
    assert browser.run("document.getElementById('count').textContent").startswith("No layer fits")
    set_field(browser, "#filters", "search", "")
    set_field(browser, "#filters", "family", "3")
    assert browser.run(SHOWN) == ["LinearAttention", "RetentionAttention", "GatedDeltaAttention"]
    set_field(browser, "#filters", "family", "")
    set_field(browser, "#filters", "sort", "name")
    assert browser.run(SHOWN) == sorted(everything)
    set_field(browser, "#filters", "sort", "training")
    assert browser.run(SHOWN)[0] == "AverageAttention" and browser.run(SHOWN)[-1] == "CoverageAttention"


def test_a_playground_shows_the_weights_that_were_chosen(open_page):
    browser = open_page("gallery/local_attention.html")
    settings = toy_weights()["mechanisms"]["local_p"]
    assert browser.run(CELLS) == [
        [round(w, 2) for w in row] for row in toy_weights()["mechanisms"]["local_m"][0]["weights"][2]
    ]
    set_field(browser, ".controls", "name", "local_p")
    set_field(browser, ".controls", "setting", "2")
    set_field(browser, ".controls", "strength", "4")
    shown = browser.run(CELLS)
    assert settings[2]["arguments"] == {"window": 4}
    for row, expected in zip(shown, settings[2]["weights"][4], strict=True):
        assert row == pytest.approx(expected, abs=0.0051)
    # By keyboard, the word of a row says what it attends to.
    browser.run("document.querySelector('.scroller').focus()")
    browser.key("Tab")
    assert browser.run("document.activeElement.textContent") == "the"
    assert browser.run("document.querySelector('.says').textContent").startswith("“the” attends to “die” ")


@pytest.mark.parametrize(
    "path", ["index.html", "gallery/index.html", "gallery/average_attention.html", "presets/index.html"]
)
def test_a_page_fits_a_phone_in_the_dark(open_page, path):
    browser = open_page(path, width=320, height=740, dark=True, touch=True)
    assert browser.run("document.documentElement.scrollWidth") <= 320
    assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(20, 22, 28)"
    browser.click("document.getElementById('theme')")
    assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    browser.run("localStorage.clear()")
    # Every control has a name, and the first thing that Tab reaches skips the navigation.
    assert (
        browser.run(
            "[...document.querySelectorAll('input, select, button')]"
            ".filter(one => !one.ariaLabel && !one.labels?.length).length"
        )
        == 0
    )
    assert browser.run("document.body.querySelector('a, button, input').className") == "skip"


def test_a_theme_holds_on_the_next_page(open_page):
    browser = open_page("index.html")
    browser.click("document.getElementById('theme')")
    browser = open_page("gallery/index.html")
    assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(20, 22, 28)"
    browser.run("localStorage.clear()")


def test_the_first_view_is_small_and_of_the_site_alone(open_page, address, built):
    browser = open_page("index.html")
    browser.wait("document.getElementById('live').contentDocument?.documentElement?.dataset.ready === 'yes'")
    loaded = browser.run(
        "[window, document.getElementById('live').contentWindow].flatMap(one => "
        "[...one.performance.getEntriesByType('resource'), ...one.performance.getEntriesByType('navigation')])"
        ".map(one => [one.name, one.encodedBodySize])"
    )
    assert all(name.startswith((address, "data:")) for name, _ in loaded)
    # The page has its frame as a resource, too.
    size = sum(dict(loaded).values())
    assert 10_000 < size <= 400_000
    # What a site is refused for; an image that is not seen yet is not loaded.
    counted = loaded_with(built, "index.html")
    names = {name.removeprefix(f"{address}/").partition("?")[0] for name, _ in loaded if not name.startswith("data:")}
    assert names <= counted and size <= sum((built / name).stat().st_size for name in counted)


def test_the_guide_leads_back_to_the_site(browser, address):
    browser.size(1200, 900)
    browser.send("Page.navigate", url=f"{address}/guide/reference/layers.html")
    browser.wait("document.querySelector('.announcement-content a')?.textContent === 'Live demonstration'")
    links = browser.run("[...document.querySelectorAll('.announcement-content a')].map(one => one.href)")
    assert links == [f"{address}/{one}.html" for one in ("index", "gallery/index", "presets/index")]


@pytest.mark.slow
def test_a_preset_that_a_link_names_translates_on_the_landing_page(browser, docs, tmp_path, monkeypatch):
    """Its weights are those that the site has for download."""
    monkeypatch.setattr(site_builder, "DOCS", docs)
    name, sentence = NAMES[1], "Ich habe keine Zeit."
    with few_presets(tmp_path):
        try:
            site_builder.build_site(tmp_path / "site")
        except DownloadError as error:
            pytest.skip(f"the npm registry does not answer: {error}")
        expected = Translator.from_preset(name, dtype="float32").generate(sentence)
    with site(tmp_path) as server:
        browser.open(f"{server}site/index.html?preset={name}")
        frame = "document.getElementById('live').contentDocument"
        browser.wait(f"{frame}?.querySelector('.message')?.textContent === 'Ready: {name}.'")
        browser.run(f"{frame}.querySelector('[name=sentence]').value = {sentence!r}")
        browser.run(f"{frame}.querySelector('form.live').requestSubmit()")
        browser.wait(f"{frame}.querySelector('.translation')?.textContent.startsWith({expected!r})")
        loaded = browser.run(
            "document.getElementById('live').contentWindow.performance.getEntriesByType('resource')"
            ".map(one => one.name)"
        )
        assert all(one.startswith((server, "blob:", "data:")) for one in loaded)
        # Nothing of it is behind the edge of its frame.
        browser.wait(f"{frame}.body.scrollHeight <= document.getElementById('live').clientHeight")
    assert browser.complaints == []
