"""The page that translates in the browser, in Chromium: what Python finds, and nothing that leaves the browser."""

import collections
import contextlib
import json
import os
import re
import resource
import runpy
import shutil
import time
from pathlib import Path

import keras
import pytest

from keras_attn_zoo.bodies import RNNBackbone
from keras_attn_zoo.cli import main
from keras_attn_zoo.data.subwords import train_subwords
from keras_attn_zoo.decoding import BeamSearch, PooledBeamSearch
from keras_attn_zoo.presets.preset_registry import find_preset, published
from keras_attn_zoo.support.checksums import sha256
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.fetching import DownloadError
from keras_attn_zoo.translators import TranslationPreprocessor, TranslationTokenizer, Translator, live_folder
from keras_attn_zoo.translators.live_folder import LiveModel, stored_in_int8, write_live_folder
from keras_attn_zoo.viewing import browser_libraries
from keras_attn_zoo.viewing.page import Page
from tests import tiny
from tests.everyday_sentences import GERMAN, for_preset
from tests.translators import marian_checkpoint
from tests.viewing import nginx
from tests.viewing.live_records import MESSAGE, check, choose, translate
from tests.viewing.static_site import site
from tests.weights import fill_weights

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(keras.config.backend() != "torch", reason="PyTorch writes it"),
    pytest.mark.xdist_group("browser"),
]
SEARCH = BeamSearch(3, length_penalty=0.8, coverage_penalty=0.3, min_length=2, no_repeat_ngram=2)
BODIES = {
    "rnn": {"cross_attention": "bahdanau_feedback", "sampler": SEARCH},
    "rnn-latent": {"output": "latent", "cell": "lstm"},
    "latent": {"body": tiny.transformer, "output": "latent", "encoder_attention": "gaussian", "encoder_layers": 1},
    # A loop over positions, which is followed token by token.
    "subtraction": {"body": tiny.transformer, "cross_attention": "weight_subtraction", "decoder_attention": "average"},
}
KINDS = ("word", "char")
SENTENCES = [*[*dict.fromkeys(tiny.sentences("source"))][:18], "kalo 日本 mi, 😀!", "  ka   lo\tre\u0301  "]
TRANSLATIONS = [None, *tiny.sentences("target")[:9], None, "badofi 日本 nu."]
# In a page, as a page of another site would be.
SAYS = "fetch('http://127.0.0.2:9/').then(() => 'sent', () => 'refused')"
COLOUR = "getComputedStyle(document.querySelector('.message')).color"
OFF = "[...document.querySelectorAll('.models input, .live [type=submit]')].every(one => one.matches(':disabled'))"
ISOLATING = {"Cross_Origin_Opener_Policy": "same-origin", "Cross_Origin_Embedder_Policy": "require-corp"}
REASON = "document.querySelector('.models .hint [title]').title"
LABEL = "document.querySelector('.models label')"


@pytest.fixture(scope="session")
def libraries(tmp_path_factory):
    folder = tmp_path_factory.mktemp("npm") / "libraries"
    try:
        browser_libraries.write_libraries(folder)
    except DownloadError as error:
        pytest.skip(f"the npm registry does not answer: {error}")
    return folder


def of_kind(kind, folder):
    """A translator of another kind of subwords."""
    sides = ("source", "target")
    models = [
        train_subwords(tiny.sentences(side), folder / f"{kind}.{side}", None, model_type=kind).read_bytes()
        for side in sides
    ]
    source = TranslationTokenizer(models[0], config_file="source_tokenizer.json")
    target = TranslationTokenizer(models[1])
    body = RNNBackbone(source.vocabulary_size(), target.vocabulary_size(), **tiny.BACKBONE)
    fill_weights(body, seed=3, scale=1.0)
    lengths = {"encoder_sequence_length": 40, "decoder_sequence_length": 40}
    translator = Translator(body, TranslationPreprocessor(source, target, **lengths))
    translator.compile(sampler=BeamSearch(2))
    return translator


def opened_from_marian(folder):
    """A translator of the format of OPUS-MT, whose search keeps its finished hypotheses among the beams."""
    marian_checkpoint.write(folder)
    translator = Translator.from_preset(str(folder))
    translator.compile(sampler=BeamSearch(3, length_penalty=1.0))
    return translator


def written(folder):
    """A live folder of a tiny translator of each form, and these by name."""
    translators = {name: tiny.translator(**body) for name, body in BODIES.items()}
    translators |= {kind: of_kind(kind, folder) for kind in KINDS} | {
        "marian": opened_from_marian(folder / "checkpoint")
    }
    models = {name: stored_in_int8(one, folder / "none", folder / name) for name, one in translators.items()}
    write_live_folder(models, folder / "live")
    return folder / "live", {name: model.translator for name, model in models.items()}


@pytest.fixture(scope="session")
def tiny_site(libraries, tmp_path_factory):
    """The folder of a page with a tiny RNN, written as the command does."""
    folder = tmp_path_factory.mktemp("live")
    tiny.translator(**BODIES["rnn"]).save_to_preset(str(folder / "rnn"))
    assert main(["explore", str(folder / "rnn"), "--live", "--output", str(folder / "live")]) == 0
    copy = stored_in_int8(Translator.from_preset(folder / "rnn"), folder / "rnn", folder / "copy")
    return folder / "live", {"rnn": copy.translator}


@contextlib.contextmanager
def opened(browser, folder, headers=None, **screen):
    with site(folder, **(headers or {})) as address:
        browser.open(address, **screen)
        yield address


@contextlib.contextmanager
def begun_by(browser, script):
    """While the context lasts, every page begins with a script."""
    number = browser.send("Page.addScriptToEvaluateOnNewDocument", source=script)["identifier"]
    try:
        yield
    finally:
        browser.send("Page.removeScriptToEvaluateOnNewDocument", identifier=number)


def renderers(browser):
    """What Linux tells of the processes of pages."""
    session, browser._session = browser._session, None
    try:
        processes = browser.send("SystemInfo.getProcessInfo")["processInfo"]
    finally:
        browser._session = session
    return [Path("/proc", str(one["id"])) for one in processes if one["type"] == "renderer"]


def workers(browser):
    """How many threads of each process of pages are workers."""
    found = collections.Counter()
    for process in renderers(browser):
        for thread in process.glob("task/*/comm"):
            # It may have ended.
            with contextlib.suppress(OSError):
                found[process] += thread.read_text() == "DedicatedWorker\n"
    return found


@pytest.fixture
def page(browser, tiny_site):
    with opened(browser, tiny_site[0]):
        yield browser
        assert browser.complaints == []


def check_sentences(browser, translators):
    for number, sentence in enumerate(SENTENCES):
        target = TRANSLATIONS[number % len(TRANSLATIONS)]
        assert translate(browser, sentence, target or "") == ""
        check(browser, translators, sentence, target)


def test_it_finds_what_python_finds(page, tiny_site):
    assert choose(page, "rnn") == "Ready: rnn."
    check_sentences(page, tiny_site[1])


def test_little_is_loaded_before_a_model_is_chosen_and_nothing_from_elsewhere(browser, tiny_site):
    loaded = "performance.getEntriesByType('resource').map(one => one.name)"
    assert (tiny_site[0] / "index.html").stat().st_size < 400_000
    with site(tiny_site[0], asked := []) as address:
        browser.open(address)
        assert browser.run(loaded) == []
        assert browser.run("document.title") == "Attention"
        said = browser.run("document.querySelector('.models').textContent")
        assert "stays in this browser" in said
        assert "on one thread. " in said and "Cross-Origin" not in said
        assert browser.run(REASON).startswith("the server does not send Cross-Origin-Opener-Policy: same-origin and")
        assert choose(browser, "rnn") == "Ready: rnn."
        until_ready = [*asked]
        assert "GET /live.js HTTP/1.1" in until_ready
        assert translate(browser, SENTENCES[0]) == ""
        assert all(one.startswith((address, "blob:")) for one in browser.run(loaded))
        assert browser.complaints == []
        assert browser.run(SAYS) == "refused"
        # The worker has the policy of the page.
        in_worker = (
            f"new Promise(r => {{ const w = new Worker(URL.createObjectURL(new Blob([`{SAYS}"
            ".then(x => postMessage(x))`]))); w.onmessage = e => r(e.data); })"
        )
        assert browser.run(in_worker) == "refused"
        assert any("Content Security Policy" in one for one in browser.complaints)
        # Nor does the page's own server hear of a sentence, from page or worker.
        assert asked == until_ready


@pytest.mark.skipif(nginx.executable() is None, reason="there is no nginx: apt-get install nginx-light")
def test_nginx_serves_it_compressed(browser, tiny_site):
    with nginx.proxying(nginx.locations_of(tiny_site[0])) as port:
        browser.open(f"http://127.0.0.1:{port}/")
        assert choose(browser, "rnn") == "Ready: rnn."
        assert translate(browser, SENTENCES[5]) == ""
        check(browser, tiny_site[1], SENTENCES[5])
        assert browser.run("fetch('live.js').then(one => one.headers.get('content-encoding'))") == "gzip"
        assert browser.complaints == []


def test_libraries_lie_beside_their_licences(tiny_site):
    texts = {path.name: path.read_text("utf-8") for path in (tiny_site[0] / "libraries").glob("*.txt")}
    expected = {
        "onnxruntime.LICENSE.txt": "MIT License\n\nCopyright (c) Microsoft Corporation",
        "onnxruntime.NOTICES.txt": "THIRD PARTY SOFTWARE NOTICES",
        "sentencepiece.LICENSE.txt": "Apache License\n",
    }
    assert texts.keys() == expected.keys() and all(expected[name] in text for name, text in texts.items())


def damaged(folder, site_folder, name, change):
    shutil.copytree(site_folder, folder)
    path = folder / name
    if change is None:
        path.unlink()
    else:
        path.write_bytes(change(path.read_bytes()))
    return folder


@pytest.mark.parametrize(
    "name, change, message",
    [
        ("models/rnn/model.weights.h5", lambda x: x[:-100], "model.weights.h5 is damaged: it has "),
        ("models/rnn/model.weights.h5", lambda x: x + b"more", "model.weights.h5 is damaged: it has more than "),
        ("models/rnn/step.onnx.deflated", lambda x: x[:-1] + b"?", "step.onnx.deflated is damaged: its checksum"),
        ("models/rnn/source.spm", None, "models/rnn/source.spm cannot be loaded: the server says 404."),
        ("libraries/onnxruntime.js", lambda x: x[: len(x) // 2], "libraries/onnxruntime.js is damaged: it has "),
        ("live.js", None, "live.js cannot be loaded: the server says 404."),
    ],
)
def test_a_file_that_is_cut_altered_or_missing_is_named(browser, tiny_site, tmp_path, name, change, message):
    folder = damaged(tmp_path / "live", tiny_site[0], name, change)
    with opened(browser, folder):
        said = choose(browser, "rnn")
        assert message in said and browser.run(COLOUR) == "rgb(179, 38, 30)"
        assert browser.run("document.querySelector('.models input').checked") is False
        # The cause stays.
        assert translate(browser, "kalo") == f"{said} Choose a model first."
        assert browser.run(COLOUR) == "rgb(179, 38, 30)"


def tell(folder, change):
    """Change what the page of a folder is told of its models; return that."""
    page = folder / "index.html"
    live = json.loads(re.search('id="data">(.*?)</script>', page.read_text("utf-8"))[1])["live"]
    change(live)
    page.write_text(Page([], [], []).html(live), "utf-8")
    return live


def with_four(folder, site_folder, change=lambda live: None):
    """A page that has the tiny RNN under four names, one of them for the other direction; return what it is told."""
    shutil.copytree(site_folder, folder)
    directions = {"a": ["de", "en"], "b": ["de", "en"], "x": ["en", "de"], "c": ["de", "en"]}

    def multiply(live):
        (known,) = live["models"]
        live["models"] = [
            {**known, "name": name, "languages": languages, "system": {**known["system"], "name": name}}
            for name, languages in directions.items()
        ]
        change(live)

    return tell(folder, multiply)


CAPTIONS = "[...document.querySelectorAll('.panel .caption')].map(one => one.textContent)"


def test_all_of_a_direction_translate_in_turn_each_in_its_panel(browser, tiny_site, tmp_path):
    live = with_four(tmp_path / "live", tiny_site[0])
    written = "document.querySelector('[name=sentence]').value"
    with opened(browser, tmp_path / "live", width=320, height=740, dark=True, touch=True):
        assert browser.run(written).startswith("Ich rufe dich")
        (said,) = browser.run("[...document.querySelectorAll('.models .all')].map(one => one.textContent.trim())")
        size = sum(file["size"] for file in live["models"][0]["files"].values())
        assert said == f"all 3, German → English {3 * size / 1e6:.1f} MB, up to 0.3 GB of memory"
        assert browser.run("explorer.live.chosen.length + document.querySelectorAll('.panel').length") == 0
        choose(browser, "x")
        assert browser.run(written).startswith("I will call you")
        browser.run(
            "(() => { globalThis.seen = []; for (const name of ['take', 'renew']) { const own = explorer[name]; "
            "explorer[name] = (...all) => { const found = own.apply(explorer, all); "
            f"seen.push({CAPTIONS}); return found; }}; }} }})()"
        )
        # At once, while the first one is loaded.
        browser.run("document.querySelector('.models .all input').focus()")
        browser.key(" ")
        assert translate(browser, SENTENCES[0]) == ""
        seen = browser.run("seen")
        assert seen[0][0].endswith("bahdanau_feedback") and seen[0][2] == "Not loaded yet."
        assert all("bahdanau_feedback" in one for one in seen[-1]) and len(seen[-1]) == 3
        assert "Translating …" in {one for captions in seen for one in captions}
        check(browser, dict.fromkeys("abc", tiny_site[1]["rnn"]), SENTENCES[0])
        browser.wait(f"{MESSAGE} === 'Ready: a, b, c.' || {MESSAGE} === ''")
        assert browser.run("[...explorer.search.select.options].map(one => one.disabled)") == [False] * 3
        assert browser.run("document.documentElement.scrollWidth") <= 320
        # Another direction left, and one of them.
        assert browser.run("explorer.live.chosen.map(one => one.name)") == ["a", "b", "c"]
        browser.tap("document.querySelector('.models input[value=b]')")
        every = "(({checked, indeterminate}) => [checked, indeterminate])(document.querySelector('.models .all input'))"
        assert browser.run(every) == [False, True]
        assert translate(browser, SENTENCES[1]) == ""
        check(browser, dict.fromkeys("ac", tiny_site[1]["rnn"]), SENTENCES[1])
        assert browser.complaints == []


def test_a_model_that_cannot_be_loaded_leaves_the_others(browser, tiny_site, tmp_path):
    def lose(live):
        files = live["models"][1]["files"]
        live["models"][1]["files"] = {**files, "step": {**files["step"], "path": "none"}}

    with_four(tmp_path / "live", tiny_site[0], lose)
    with opened(browser, tmp_path / "live"):
        browser.click("document.querySelector('.models .all input')")
        assert translate(browser, SENTENCES[0]) == "none cannot be loaded: the server says 404."
        captions = browser.run(CAPTIONS)
        assert captions[1] == "none cannot be loaded: the server says 404."
        assert all("bahdanau_feedback" in one for one in captions[::2])
        assert browser.run("[...explorer.search.select.options].map(one => one.disabled)") == [False, True, False]
        # A panel without a result can have another system, and be left again.
        for key in ("v", "v", "v", "]", "w", "w"):
            browser.key(key)
        browser.run("explorer.panels[1].choose({system: 0})")
        assert browser.run(CAPTIONS) == [captions[0], captions[0], captions[2]]


def test_sentences_stay_when_other_models_are_chosen(browser, tiny_site, tmp_path):
    with_four(tmp_path / "live", tiny_site[0])
    texts = "explorer.store.sentences.map(({text}) => text)"
    typed = "explorer.areas.map(({value}) => value)"
    own = "explorer.search.own.hidden"
    titles = "[...document.querySelectorAll('.panel h3')].map(one => one.textContent)"
    with opened(browser, tmp_path / "live"):
        choose(browser, "a")
        translate(browser, SENTENCES[0], TRANSLATIONS[1])
        translate(browser, SENTENCES[1])
        said = "Ready: a, b. What is shown is by a: press Translate to renew it."
        assert choose(browser, "b") == said
        # None can be left while it translates.
        browser.run(
            "(() => { globalThis.seen = []; const post = Worker.prototype.postMessage; "
            "Worker.prototype.postMessage = function (message) { post.call(this, message); "
            f"document.querySelector('.models input[value=b]').click(); seen.push({MESSAGE}); }}; }})()"
        )
        translate(browser, SENTENCES[2])
        assert browser.run("seen") == ["Translating: a, 1 of 2 …", "Translating: b, 2 of 2 …"]
        assert browser.run(texts) == SENTENCES[:3] and browser.run(titles) == ["a", "b"]
        # As it was translated.
        browser.run("explorer.showSentence(0)")
        assert browser.run(titles) == ["a"] and browser.run(MESSAGE) == said
        assert browser.run(typed) == [SENTENCES[0], TRANSLATIONS[1]] and browser.run(own) is False
        browser.run("explorer.showSentence(1)")
        assert browser.run(typed) == [SENTENCES[1], ""] and browser.run(own) is True
        # What is typed since then stays.
        browser.run("document.querySelector('[name=target]').value = 'badofi'")
        browser.run("explorer.showSentence(0)")
        assert browser.run(typed) == [SENTENCES[1], "badofi"]
        check(browser, {"a": tiny_site[1]["rnn"]}, SENTENCES[0], TRANSLATIONS[1])
        # And again, by those that are chosen now.
        translate(browser, SENTENCES[0], TRANSLATIONS[1])
        assert browser.run(texts) == SENTENCES[:3] and browser.run(titles) == ["a", "b"]
        check(browser, dict.fromkeys("ab", tiny_site[1]["rnn"]), SENTENCES[0], TRANSLATIONS[1])
        translate(browser, SENTENCES[0])
        assert browser.run(texts) == [*SENTENCES[:3], SENTENCES[0]]
        assert browser.complaints == []


def test_languages_are_named_by_whatever_code_they_have(browser, tiny_site, tmp_path):
    def rename(live):
        for model, languages in zip(live["models"], (["zh_CN", "pt-BR"], ["Old Norse", "x"]), strict=False):
            model["languages"] = languages

    with_four(tmp_path / "live", tiny_site[0], rename)
    with opened(browser, tmp_path / "live"):
        names = browser.run("[...document.querySelectorAll('.models .group')].map(one => one.ariaLabel)")
        directions = ["Chinese (China) → Brazilian Portuguese", "Old Norse → x", "English → German", "German → English"]
        assert names == directions and browser.complaints == []


def test_a_site_that_is_published_anew_is_never_mixed_with_the_earlier_one(browser, tiny_site, tmp_path):
    """Although its host lets a browser keep files."""
    folder = shutil.copytree(tiny_site[0], tmp_path / "live")
    weights, script = folder / "models" / "rnn" / "model.weights.h5", folder / "live.js"
    with opened(browser, folder, {"Cache_Control": "max-age=600"}) as address:
        assert choose(browser, "rnn") == "Ready: rnn."
        # Of another size and checksum, which the page compares.
        weights.write_bytes(weights.read_bytes() + b"anew")
        record = {"size": weights.stat().st_size, "sha256": sha256(weights)}
        tell(folder, lambda live: live["models"][0]["files"]["weights"].update(record))
        script.write_text(script.read_text("utf-8").replace("split it.", "cut it."), "utf-8")
        for path in (weights, script, folder / "index.html"):
            os.utime(path, times=(time.time() + 60,) * 2)
        # As once the browser has let the page itself go.
        browser.open(f"{address}?")
        assert choose(browser, "rnn") == "Ready: rnn."
        assert translate(browser, "kalomi " * 20).endswith(": cut it.")
        assert browser.complaints == []


def test_without_a_network_it_says_so(browser, tiny_site):
    with opened(browser, tiny_site[0]):
        pass
    assert choose(browser, "rnn").endswith(" cannot be loaded: is there a network?")


def test_what_is_loaded_translates_without_a_network(browser, tiny_site):
    with opened(browser, tiny_site[0]):
        choose(browser, "rnn")
    browser.click(LABEL)
    assert browser.run(MESSAGE) == ""
    assert choose(browser, "rnn") == "Ready: rnn."
    assert translate(browser, SENTENCES[4]) == ""
    check(browser, tiny_site[1], SENTENCES[4])


def test_it_keeps_the_last_sentences(page):
    choose(page, "rnn")
    sentences = "explorer.store.sentences.map(({text}) => text)"
    for sentence in SENTENCES[:2]:
        translate(page, sentence)
    page.run(
        "for (let i = 0; i < 30; i++) explorer.take({data: {systems: explorer.store.systems, sentences: "
        "[{...explorer.sentence, text: `text ${i}`}]}, weights: explorer.sentence.weights}, null)"
    )
    assert page.run(sentences) == [f"text {i}" for i in range(10, 30)]
    assert page.run("document.querySelector('.source').textContent") == "text 29"


@pytest.mark.parametrize(
    "script, lack",
    [
        ("delete globalThis.WebAssembly", "This browser has no WebAssembly,"),
        ("WebAssembly.validate = () => false", "This browser has no SIMD in WebAssembly,"),
    ],
)
def test_what_a_browser_lacks_is_said(browser, tiny_site, script, lack):
    with begun_by(browser, script), opened(browser, tiny_site[0]):
        assert browser.run("document.querySelector('[role=alert]').textContent").startswith(lack)
        assert browser.run(OFF)


@pytest.mark.parametrize(
    "script, why",
    [
        ("delete globalThis.crossOriginIsolated", "this browser has no memory that threads share"),
        ("delete globalThis.SharedArrayBuffer", "this browser has no memory that threads share"),
        (
            "for (const name of ['isSecureContext', 'crossOriginIsolated']) "
            "Object.defineProperty(globalThis, name, {value: false})",
            "the page comes neither over https nor from this machine",
        ),
    ],
)
def test_why_there_is_one_thread_is_said(browser, tiny_site, script, why):
    with begun_by(browser, script), opened(browser, tiny_site[0], ISOLATING):
        assert browser.run(REASON) == why


def test_a_page_from_disk_says_that_it_needs_a_server(browser, tiny_site):
    browser.open(tiny_site[0] / "index.html")
    assert "python -m http.server" in browser.run("document.querySelector('[role=alert]').textContent")
    assert browser.run("document.querySelectorAll('.models p').length") == 1 and browser.run(OFF)


def test_threads_are_used_where_a_host_permits_them(browser, tiny_site):
    cores = "Object.defineProperty(Navigator.prototype, 'hardwareConcurrency', {get: () => 3})"
    with begun_by(browser, cores), opened(browser, tiny_site[0], ISOLATING):
        assert "on 3 threads. " in browser.run("document.querySelector('.models').textContent")
        assert browser.run("document.querySelector('.models .hint [title]')") is None
        before = workers(browser)
        assert choose(browser, "rnn") == "Ready: rnn."
        translate(browser, SENTENCES[1])
        check(browser, tiny_site[1], SENTENCES[1])
        # That of the page, and those of onnxruntime.
        if Path("/proc/self/task").exists():
            assert max(count - before[process] for process, count in workers(browser).items()) == 3


def stop_in(browser, number):
    """Have the next translation stopped in its first, second ... model."""
    # Behind the request, so that the search has begun.
    browser.run(
        f"(() => {{ let left = {number}; const post = Worker.prototype.postMessage; "
        "Worker.prototype.postMessage = function (message) { post.call(this, message); "
        "if (message.kind === 'examine' && !--left) { Worker.prototype.postMessage = post; explorer.live.stop(); } }; "
        "})()"
    )


def test_it_stops_in_the_middle_and_goes_on(page, tiny_site):
    choose(page, "rnn")
    stop_in(page, 1)
    assert translate(page, SENTENCES[0]) == "Stopped."
    assert page.run(COLOUR) == "rgb(91, 97, 112)"
    assert page.run("explorer.store.sentences.length") == 0
    assert translate(page, SENTENCES[2]) == ""
    check(page, tiny_site[1], SENTENCES[2])


def test_an_earlier_result_outlasts_one_that_is_stopped(browser, tiny_site, tmp_path):
    with_four(tmp_path / "live", tiny_site[0])
    with opened(browser, tmp_path / "live"):
        choose(browser, "a")
        for sentence in SENTENCES[:2]:
            translate(browser, sentence)
        choose(browser, "b", "c")
        for looking in (0, 1):
            # One may look at another sentence meanwhile.
            browser.run(
                "explorer.renew = (...all) => { delete explorer.renew; explorer.renew(...all); "
                f"explorer.showSentence({looking}); }}"
            )
            stop_in(browser, 2)
            assert translate(browser, SENTENCES[0]) == "Stopped."
            check(browser, {"a": tiny_site[1]["rnn"]}, SENTENCES[looking])
        browser.run("explorer.showSentence(0)")
        check(browser, {"a": tiny_site[1]["rnn"]}, SENTENCES[0])
        stop_in(browser, 2)
        translate(browser, SENTENCES[2])
        assert browser.run(CAPTIONS)[1:] == ["Stopped."] * 2
        translate(browser, SENTENCES[0])
        check(browser, dict.fromkeys("abc", tiny_site[1]["rnn"]), SENTENCES[0])
        assert browser.run("explorer.store.sentences.length") == 3 and browser.complaints == []


def test_what_cannot_be_translated_is_said(page):
    assert translate(page, "kalo") == "Choose a model first."
    assert page.run(COLOUR) == "rgb(179, 38, 30)"
    choose(page, "rnn")
    assert page.run(COLOUR) == "rgb(91, 97, 112)"
    assert translate(page, " \t ") == "The sentence is empty: there is nothing to translate."
    long = "kalomi " * 20
    assert "more than the 16 that the model accepts: split it." in translate(page, long)
    assert "the translation has" in translate(page, "kalo", "badofi " * 20)


def test_it_goes_by_keyboard_and_fits_a_phone_in_the_dark(browser, tiny_site):
    with opened(browser, tiny_site[0], width=320, height=740, dark=True, touch=True):
        browser.run("document.querySelector('.models input').focus()")
        browser.key(" ")
        browser.wait(f"/^Ready/.test({MESSAGE})")
        browser.key("Tab")
        assert browser.run("document.activeElement.name") == "sentence"
        browser.send("Input.insertText", text=SENTENCES[3])
        browser.key("Enter")
        browser.wait("document.querySelectorAll('.panel').length === 1 && !explorer.panels[0].element.hidden")
        assert browser.run("document.documentElement.scrollWidth") <= 320
        assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(20, 22, 28)"
        check(browser, tiny_site[1], SENTENCES[3])
        assert browser.complaints == []


def test_a_command_that_could_not_be_carried_out_writes_nothing(tmp_path, capsys, monkeypatch):
    tiny.translator().save_to_preset(str(tmp_path / "model"))
    model, there = str(tmp_path / "model"), tmp_path / "there"
    there.mkdir()
    for arguments, message in (
        ([model, "--live"], "--live writes a folder for a web server"),
        ([model, "--live", "--serve", "--output", "x"], "--live writes a folder for a web server"),
        ([model, "ka lo", "--live", "--output", "x"], "--live writes a page that takes sentences later"),
        ([model, "--live", "--text", "a", "--output", "x"], "--live takes sentences later"),
        ([model, "--live", "--output", str(there)], "already exists"),
    ):
        monkeypatch.chdir(tmp_path)
        assert main(["explore", *arguments]) == 2
        assert message in capsys.readouterr().err.splitlines()[-1]
    pooled = tiny.translator(sampler=PooledBeamSearch(2))
    with pytest.raises(UserError, match="pooled is searched with a pool of finished hypotheses"):
        write_live_folder({"pooled": LiveModel(pooled, tmp_path / "model")}, tmp_path / "x")
    monkeypatch.setenv(browser_libraries.VARIABLE, str(there))
    assert main(["explore", model, "--live", "--output", str(tmp_path / "x")]) == 2
    assert "ATTN_ZOO_NPM names " in capsys.readouterr().err
    # Of another version, or altered.
    for package in browser_libraries._PACKAGES:
        (there / package).write_bytes(b"?")
    assert main(["explore", model, "--live", "--output", str(tmp_path / "x")]) == 2
    assert "onnxruntime-web-1.30.0.tgz is damaged or was changed: its SHA-256 is" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "there"]


def test_every_model_has_a_folder_of_its_own():
    places = list(live_folder._places(dict.fromkeys(["a b", "a-b-2", "a?b", "A b", "c"])))
    assert len({place.lower() for place in places}) == 5 and places[-1] == "c"


def test_the_benchmark_times_each_model(browser, tiny_site, monkeypatch, capsys):
    program = Path(__file__).parents[2] / "benchmarks" / "live_page.py"
    monkeypatch.setattr("sys.argv", ["live_page", str(tiny_site[0]), "--repeats", "1", "--sentence", "ka lo"])
    runpy.run_path(str(program), run_name="__main__")
    assert re.search(r"^\| rnn +\| +\d+\.\d\d \| +\d+\.\d\d \|$", capsys.readouterr().out, re.MULTILINE)


# At night.


@pytest.mark.slow
def test_every_form_finds_what_python_finds_beside_each_other(browser, libraries, tmp_path):
    folder, translators = written(tmp_path)
    with opened(browser, folder):
        assert choose(browser, *translators) == f"Ready: {', '.join(translators)}."
        check_sentences(browser, translators)
        # Of fewer models, among those of more.
        browser.click("document.querySelector('.models input[value=rnn]')")
        some = {name: one for name, one in translators.items() if name != "rnn"}
        translate(browser, SENTENCES[0])
        check(browser, some, SENTENCES[0])
        browser.run("explorer.showSentence(1)")
        check(browser, translators, SENTENCES[1], TRANSLATIONS[1])
        assert browser.run("explorer.store.sentences.length") == len(SENTENCES)
        assert browser.complaints == []


@pytest.fixture(scope="session")
def preset_site(libraries, tmp_path_factory):
    """The folder of a page with every preset, and these by name."""
    folders = {name: Path(find_preset(name)) for name in published()}
    translators = {name: Translator.from_preset(folder) for name, folder in folders.items()}
    live = tmp_path_factory.mktemp("presets") / "live"
    write_live_folder({name: LiveModel(one, folders[name]) for name, one in translators.items()}, live)
    return live, translators


@pytest.mark.slow
@pytest.mark.parametrize("name", published())
def test_every_preset_finds_what_python_finds(browser, preset_site, name):
    folder, translators = preset_site
    assert sum(path.stat().st_size for path in (folder / "models" / name).rglob("*.*")) <= 6_000_000
    with opened(browser, folder):
        assert choose(browser, name) == f"Ready: {name}."
        for number, sentence in enumerate(for_preset(name)):
            target = "I will call you." if number % 4 == 0 else None
            assert translate(browser, sentence, target or "") == ""
            check(browser, {name: translators[name]}, sentence, target)
        assert browser.complaints == []


@pytest.mark.slow
def test_all_presets_find_what_python_finds_beside_each_other(browser, preset_site):
    folder, translators = preset_site
    with opened(browser, folder):
        assert choose(browser, *translators) == f"Ready: {', '.join(translators)}."
        for sentence, target in ((GERMAN[0], "I will call you."), (GERMAN[2], None)):
            assert translate(browser, sentence, target or "") == ""
            check(browser, translators, sentence, target)
        assert browser.complaints == []


def renderer_memory(browser):
    """Megabytes of the processes of pages."""
    pages = [int((one / "statm").read_text().split()[1]) for one in renderers(browser)]
    return sum(pages) * resource.getpagesize() / 1e6


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read as Linux tells it")
def test_memory_stays_level(browser, libraries, tmp_path):
    name = "transformer_tatoeba_de_en"
    preset = Path(find_preset(name))
    write_live_folder({name: LiveModel(Translator.from_preset(preset), preset)}, tmp_path / "live")
    found = []
    with opened(browser, tmp_path / "live"):
        choose(browser, name)
        for number in range(160):
            assert translate(browser, f"{GERMAN[number % 20]} {number}") == ""
            if number in (59, 159):
                found.append(renderer_memory(browser))
    # If each sentence left what the page shows of it, that would be 50 MB.
    assert found[1] < found[0] + 30
