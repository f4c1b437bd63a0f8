"""The page in Chromium: what a reader sees and does."""

import dataclasses
import math

import numpy as np

from keras_attn_zoo.viewing.attention_statistics import attention_entropy
from keras_attn_zoo.viewing.word_attention import word_attention
from tests.viewing import samples
from tests.viewing.panels import PANEL, TOKEN, TOLERANCE, choose, details, opened, shown, text


def test_it_loads_from_disk_without_a_complaint(page):
    assert text(page, ".source") == "Er ruft den überglücklichen Freund an."
    assert page.run("document.querySelectorAll('.panel').length") == 2
    assert page.run("[...document.querySelectorAll('.panel h3')].map(one => one.textContent)") == ["first", "second"]
    assert page.run("performance.getEntriesByType('resource').length") == 0


def test_words_are_merged_as_everywhere(page):
    result = samples.page().results[0][0]
    given = result.paths[1]
    for layer, head in (("0", "1"), ("mean", "mean"), ("1", "mean")):
        choose(page, "layer", layer)
        choose(page, "head", head)
        chosen = [given.weights["cross"][int(layer)]] if layer != "mean" else given.weights["cross"]
        attention = np.mean([one[int(head)] if head != "mean" else one.mean(axis=0) for one in chosen], axis=0)
        page.run("explorer.setLevel('words')")
        values, _, rows, columns = shown(page)
        assert rows == [*samples.GIVEN, "</s>"] and columns == [*samples.SOURCE, "</s>"]
        expected = word_attention(
            attention, result.source_tokens, given.tokens, samples.SOURCE, samples.GIVEN, source_reduction="sum"
        )
        np.testing.assert_allclose(values[:-1, :-1], expected, rtol=0, atol=TOLERANCE)
        np.testing.assert_allclose(values.sum(axis=1), 1, rtol=0, atol=2 * TOLERANCE)
        page.run("explorer.setLevel('subwords')")
        values, entropies, rows, columns = shown(page)
        assert rows == samples.GIVEN_TOKENS and columns == samples.SOURCE_TOKENS
        np.testing.assert_allclose(values, attention, rtol=0, atol=TOLERANCE)
        np.testing.assert_allclose(entropies, attention_entropy(attention), rtol=0, atol=0.02)


def test_hover_says_what_attends_to_what(page):
    choose(page, "layer", "0")
    values, entropies, rows, columns = shown(page)
    page.hover(TOKEN.format(0, "row", 1))
    best = int(values[1].argmax())
    assert details(page).startswith(f"phones attends to {columns[best]} {round(100 * values[1, best])} %")
    assert f"Entropy {entropies[1]:.2f} nats" in details(page)
    shades = page.run(
        f"[...{PANEL.format(0)}.querySelectorAll('.tokens.columns li')].map(one => one.style.background !== '')"
    )
    assert shades == [weight > 0.003 for weight in values[1]]
    page.hover(TOKEN.format(0, "column", 4))
    best = int(values[:, 4].argmax())
    assert details(page).startswith(f"Freund is attended to by {rows[best]} {round(100 * values[best, 4])} %")
    # The other system points at the same source word.
    assert details(page, 1).startswith("Freund is attended to by")
    page.hover("document.querySelector('h1')")
    assert details(page).startswith("Point at a word")


def test_the_names_of_a_matrix_say_so_too(page):
    page.run("explorer.setView('matrix')")
    # The middle of seven or eight source words, and of six target words.
    page.hover(f"{PANEL.format(0)}.querySelector('.row-names')")
    assert details(page).split(" attends to ")[0] in samples.GIVEN[2:4]
    page.hover(f"{PANEL.format(0)}.querySelector('.column-names')")
    assert " is attended to by " in details(page)
    page.click(f"{PANEL.format(0)}.querySelector('.row-names')")
    page.hover("document.querySelector('h1')")
    assert " attends to " in details(page)
    page.key("Escape")
    assert details(page).startswith("Point at a word")


def test_a_click_keeps_a_word_and_escape_lets_it_go(page):
    page.click(TOKEN.format(0, "row", 2))
    page.hover("document.querySelector('h1')")
    assert details(page).startswith("his attends to")
    page.key("Escape")
    assert details(page).startswith("Point at a word")


def test_a_tap_does_on_a_phone(page, saved):
    page.open(saved, 360, 740, touch=True)
    page.tap(TOKEN.format(0, "row", 1))
    page.wait(f"{PANEL.format(0)}.querySelector('.details').textContent.startsWith('phones attends to')")
    page.run("explorer.setView('matrix')")
    page.tap(f"{PANEL.format(0)}.querySelector('.cells')")
    page.wait(f"/^.* attends to .*: /.test({PANEL.format(0)}.querySelector('.details').textContent)")


def test_a_narrow_screen_needs_no_sideways_scrolling(page, saved):
    for view in ("ribbons", "matrix", "overview"):
        for width in (320, 360):
            page.open(saved, width, 740, touch=True)
            page.run(f"explorer.setView('{view}')")
            assert page.run("document.documentElement.scrollWidth") <= width


def test_a_long_name_fits_a_narrow_screen(browser, tmp_path):
    names = ["transformer_average_tatoeba_de_en_with_more_of_everything", "first"]
    systems, screen = [samples.system(name) for name in names], {"width": 320, "height": 740, "touch": True}
    opened(browser, tmp_path, systems, [[samples.result()] * 2], **screen)
    assert browser.run("document.documentElement.scrollWidth") <= 320


def test_every_layer_and_head_can_be_chosen(page):
    found = []
    for place, layers in (("cross", 2), ("encoder", 2), ("decoder", 2)):
        choose(page, "place", place, 1)
        for layer in range(layers):
            for head in range(3):
                choose(page, "layer", layer, 1)
                choose(page, "head", head, 1)
                found.append(shown(page, 1)[0].tobytes())
                assert f"layer {layer + 1} of 2 · head {head + 1}" in text(page, ".panel:nth-child(2) .caption")
    assert len(set(found)) == 18
    choose(page, "place", "encoder", 1)
    assert "the same in every sentence" in text(page, ".panel:nth-child(2) .caption")
    choose(page, "place", "decoder", 1)
    page.run("explorer.setLevel('subwords')")
    values, _, rows, columns = shown(page, 1)
    # A subword has read the ones before it.
    assert columns == ["<s>", *rows[:-1]] and (np.triu(values, 1) == 0).all()


def test_keys_go_through_all_layers_and_back(browser, tmp_path):
    for best, order in (("all", [0, 1, 2, "best"]), (1, [2, "mean", 0, "best"])):
        system = dataclasses.replace(samples.system(layers=3), shown=best)
        opened(browser, tmp_path, [system], [[samples.result(layers=3)]], [samples.sentence(None)])
        for key, expected in (("]", order), ("[", [*order[2::-1], "best"])):
            found = []
            for _ in expected:
                browser.key(key)
                found.append(browser.run("explorer.panels[0].choice.layer"))
            assert found == expected
    choose(browser, "layer", 1)
    browser.key("]")
    assert browser.run("explorer.panels[0].choice.layer") == 2


def test_prior_and_posterior_stand_side_by_side(browser, tmp_path):
    one = samples.page()
    opened(browser, tmp_path, one.systems[1:], [of[1:] for of in one.results[:1]])
    captions = browser.run("[...document.querySelectorAll('.caption')].map(one => one.textContent)")
    assert [one.split(" ·")[0] for one in captions] == ["prior of the alignment", "posterior of the alignment"]
    given = one.results[0][1].paths[1]
    browser.run("explorer.setLevel('subwords')")
    for panel, place in enumerate(("prior", "posterior")):
        np.testing.assert_allclose(shown(browser, panel)[0], given.weights[place][0][0], rtol=0, atol=TOLERANCE)
    assert browser.complaints == []


def test_gold_links_and_the_best_layer(page):
    links = page.run("explorer.panels[0].view.gold")
    assert sorted(map(tuple, links)) == sorted(
        (i, j, int((j, i) in samples.GOLD.sure)) for j, i in samples.GOLD.possible
    )
    assert "best: 1, lowest AER" in text(page, ".panel [data-control=layer]")
    assert "AER" in text(page, ".caption")
    page.run("explorer.setLevel('subwords')")
    # Words 4, 5 and 6 of the source are tokens 6, 7 and 8; word 1 of the translation is tokens 1 and 2.
    assert sorted(map(tuple, page.run("explorer.panels[0].view.gold"))) == [
        (0, 0, 1), (1, 1, 1), (1, 7, 0), (2, 1, 1), (2, 7, 0), (3, 2, 0), (4, 6, 1), (5, 8, 1),
    ]  # fmt: skip
    choose(page, "path", 0)
    assert page.run("explorer.panels[0].view.gold") == []


def test_a_given_translation_comes_first_until_another_is_chosen(browser, tmp_path):
    results = [[samples.result(i, given=i != 1)] for i in range(3)]
    opened(browser, tmp_path, [samples.system()], results, [samples.sentence(gold=None)] * 3)
    shows = []
    for choice in (None, 0):
        if choice is not None:
            choose(browser, "path", choice)
        for sentence in range(3):
            browser.run(f"explorer.showSentence({sentence})")
            shows.append(browser.run("explorer.panels[0].result.paths[explorer.panels[0].choice.path].kind"))
        browser.run("explorer.showSentence(0)")
    assert shows == ["given", "own", "given", "own", "own", "own"]


def test_a_page_without_gold_links_on_a_phone(browser, tmp_path):
    """The layer that the model aligns by is not called the best; the position that is described is in sight."""
    opened(browser, tmp_path, [samples.system()], [[samples.result()]], [samples.sentence(None)], width=360, height=800)
    assert text(browser, ".panel [data-control=layer] option") == "alignment layer: 2"
    last, strip = (
        browser.run(f"(({{left, right}}) => [left, right])({one}.getBoundingClientRect())")
        for one in ("document.querySelector('.tree button.now')", "document.querySelector('.tree-scroller')")
    )
    assert strip[0] <= last[0] < last[1] <= strip[1]


def test_panels_of_different_systems_line_up(browser, tmp_path):
    """Also where one has more to choose from than the other."""
    few = samples.system("few", layers=1, heads=1)
    results = [samples.result(), samples.result(layers=1, heads=1)]
    opened(browser, tmp_path, [samples.system("many"), few], [results], width=900)
    tops = "[...document.querySelectorAll('.panel {}')].map(one => Math.round(one.getBoundingClientRect().top))"
    for part in (".caption", ".translation", ".drawing", ".details"):
        first, second = browser.run(tops.format(part))
        assert first == second
    choices = browser.run("[...document.querySelectorAll('.panel .controls')].map(one => one.children.length)")
    assert choices[0] > choices[1]
    assert browser.run("document.querySelector('[data-control=system]').closest('header') !== null")


def test_the_search_is_stepped_through_in_one_row(browser, tmp_path):
    names = ["a system with a long name", "another system with a long name"]
    opened(browser, tmp_path, [samples.system(name) for name in names], [[samples.result()] * 2], width=500)
    boxes = browser.run(
        "[...document.querySelector('.stepper').children].map(one => one.getBoundingClientRect())"
        ".map(box => [box.top, box.bottom])"
    )
    assert len(boxes) == 3 and max(top for top, _ in boxes) < min(bottom for _, bottom in boxes)


def test_searches_that_recorded_no_steps_are_not_offered(browser, tmp_path):
    full, bare = samples.result(), dataclasses.replace(samples.result(), steps=[])
    systems = [samples.system(name) for name in ("first", "second", "third")]
    cases = {
        "first": ([bare, full, full], ["second", "third"]),
        "second": ([full, bare, full], ["first", "third"]),
        "one": ([bare, full, bare], ["second"]),
        "none": ([bare, bare, bare], None),
    }
    opened(browser, tmp_path, systems, [results for results, _ in cases.values()])
    for number, (_, offered) in enumerate(cases.values()):
        browser.run(f"explorer.showSentence({number})")
        assert browser.run("document.querySelector('.search').hidden") == (offered is None)
        for name in offered or ():
            options = "document.querySelector('.search select').options"
            assert browser.run(f"[...{options}].map(one => one.text)") == offered
            browser.run(
                f"[...{options}].find(one => one.text === '{name}').selected = true; "
                "document.querySelector('.search select').dispatchEvent(new Event('change'))"
            )
            assert browser.run("explorer.store.systems[explorer.search.system].name") == name
            assert browser.run("document.querySelectorAll('.tree button').length") == 20
        browser.key("j")
    assert browser.complaints == []


def test_stepping_through_the_search(page):
    assert text(page, ".where") == "Position 5 of 5: 2 kept, 2 dropped"
    for _ in range(3):
        page.click("document.querySelector('[aria-label=\"Previous position\"]')")
    assert text(page, ".where") == "Position 2 of 5: 2 kept, 2 dropped"
    rows = page.run("[...document.querySelectorAll('tbody tr')].map(r => [...r.cells].map(c => c.textContent))")
    assert [row[1] for row in rows] == ["He calls", "He phones", "Her calls", "Her friend"]
    # The part of a candidate's probability that is its last word's.
    assert [row[2] for row in rows] == [f"{100 * math.exp(x):.0f} %" for x in (-0.5, -1.0, -1.0, -2.0)]
    assert rows[0][3:] == ["−0.90", "−0.90", "kept"] and rows[2][5] == "dropped"
    assert page.run("document.querySelectorAll('.tree button.future').length") == 12


def test_a_beam_is_followed(page):
    # The third candidate of position 3: "He calls us", dropped.
    page.click("document.querySelectorAll('.tree button')[10]")
    assert text(page, ".translation").startswith("He calls us")
    assert "as the search saw it" in text(page, ".caption")
    steps = samples.page().results[0][0].steps
    page.run("explorer.setLevel('subwords')")
    values, _, rows, _ = shown(page)
    assert rows == ["▁He", "▁calls", "▁us"]
    expected = [steps[0].attention[0], steps[1].attention[0], steps[2].attention[0]]
    np.testing.assert_allclose(values, np.mean(expected, axis=1), rtol=0, atol=TOLERANCE)
    choose(page, "head", 2)
    np.testing.assert_allclose(shown(page)[0], np.stack(expected)[:, 2], rtol=0, atol=TOLERANCE)
    # The second of position 4 goes back to the second beam: "He calls him."
    page.click("document.querySelectorAll('.tree button')[13]")
    values, _, rows, _ = shown(page)
    assert rows == ["▁He", "▁calls", "▁him", "."]
    expected = [steps[0].attention[0], steps[1].attention[0], steps[2].attention[0], steps[3].attention[1]]
    np.testing.assert_allclose(values, np.stack(expected)[:, 2], rtol=0, atol=TOLERANCE)
    assert page.run("document.querySelectorAll('.tree button.followed').length") == 4
    page.run("explorer.setLevel('words')")
    assert shown(page)[2] == ["He", "calls", "him", "."]
    page.run("explorer.setLevel('subwords')")
    # A finished one is as long as it was when it ended.
    page.click("document.querySelectorAll('.tree button')[16]")
    assert shown(page)[2] == ["▁He", "▁phones", "</s>"]


def test_all_by_keyboard(page):
    page.run("document.querySelector('.tokens.rows li').focus()")
    assert details(page).startswith("He attends to")
    page.key("ArrowDown")
    assert details(page).startswith("phones attends to")
    assert page.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    values, _, _, columns = shown(page)
    page.key("ArrowLeft")
    assert details(page).startswith(f"{columns[values[1].argmax()]} is attended to by")
    page.key("End")
    assert details(page).startswith("</s> is attended to by")
    before = text(page, ".caption")
    page.key("]")
    assert text(page, ".caption") != before
    page.key(".")
    assert "head 1" in text(page, ".caption")
    page.key("v")
    page.run("document.querySelector('.cells').focus()")
    page.key("ArrowRight")
    page.key("ArrowDown")
    assert details(page).startswith("phones attends to ruft: ")
    page.key("k")
    assert text(page, ".where").startswith("Position 4 of 5")
    page.run("document.querySelector('.tree button[tabindex=\"0\"]').focus()")
    page.key("ArrowDown")
    page.key("ArrowLeft")
    page.key("Enter")
    assert text(page, ".translation").startswith("He calls him")
    page.key("n")
    assert page.run("explorer.index") == 1
    page.key("w")
    assert page.run("explorer.level") == "subwords"
    # Whatever can be pressed has a name.
    assert (
        page.run(
            "[...document.querySelectorAll('button, select, input, textarea, canvas[tabindex]')]"
            ".filter(one => !(one.getAttribute('aria-label') || one.textContent.trim() || one.closest('label'))).length"
        )
        == 0
    )


def test_panels_come_and_go(page):
    page.click("[...document.querySelectorAll('.toolbar button')].at(-1)")
    assert page.run("document.querySelectorAll('.panel').length") == 3
    choose(page, "place", "decoder", 2)
    choose(page, "system", 0, 2)
    page.click(f"{PANEL.format(0)}.querySelector('.close')")
    assert page.run("explorer.panels.map(one => one.choice.place)") == ["cross", "decoder"]


def test_the_small_matrices_lead_to_a_large_one(page):
    page.run("explorer.setView('overview')")
    assert page.run("document.querySelectorAll('.panel:first-child .thumbnail').length") == 6
    page.click("document.querySelectorAll('.panel:first-child .thumbnail')[4]")
    assert "layer 2 of 2 · head 2" in text(page, ".caption")
    assert page.run("explorer.view") == "matrix"


def test_dark_and_light(page, saved):
    light = page.run("getComputedStyle(document.body).backgroundColor")
    page.open(saved, dark=True)
    dark = page.run("getComputedStyle(document.body).backgroundColor")
    assert (light, dark) == ("rgb(255, 255, 255)", "rgb(20, 22, 28)")
    assert page.run("explorer.colours.paper") == "20, 22, 28"
    page.click("document.querySelector('[aria-label=\"Light or dark\"]')")
    assert page.run("getComputedStyle(document.body).backgroundColor") == light
    assert page.run("explorer.colours.paper") == "255, 255, 255"


def test_it_prints(page):
    assert page.pdf().startswith(b"%PDF")
    page.run("dispatchEvent(new Event('beforeprint'))")
    assert page.run("getComputedStyle(document.querySelector('.toolbar')).display") == "none"
    page.run("dispatchEvent(new Event('afterprint'))")
    assert page.run("getComputedStyle(document.querySelector('.toolbar')).display") == "flex"
