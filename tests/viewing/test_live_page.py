"""The page that translates in the browser, in Chromium: what Python finds, and nothing that leaves the browser."""

import contextlib
import json
import random
import resource
import shutil
from pathlib import Path

import keras
import pytest

from keras_attn_zoo.cli import main
from keras_attn_zoo.data.truecasing import Truecaser, train_truecaser
from keras_attn_zoo.data.words import normalise, split_words
from keras_attn_zoo.decoding import BeamSearch
from keras_attn_zoo.presets.preset_registry import find_preset, published
from keras_attn_zoo.support.fetching import DownloadError
from keras_attn_zoo.translators import Translator
from keras_attn_zoo.translators.live_folder import LiveModel, stored_in_int8, write_live_folder
from keras_attn_zoo.viewing import browser_libraries
from keras_attn_zoo.viewing.page import asset
from tests import hard_text, tiny
from tests.viewing.live_records import MESSAGE, check, choose, translate
from tests.viewing.static_site import site

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
SENTENCES = [*[*dict.fromkeys(tiny.sentences("source"))][:18], "kalo 日本 mi, 😀!", "  ka   lo\tmi  "]
TRANSLATIONS = [None, *tiny.sentences("target")[:9], None, "badofi 日本 nu."]
# In a page, as a page of another site would be.
SAYS = "fetch('http://127.0.0.2:9/').then(() => 'sent', () => 'refused')"
LABEL = "document.querySelector('.models label')"


@pytest.fixture(scope="session")
def libraries(tmp_path_factory):
    folder = tmp_path_factory.mktemp("npm") / "libraries"
    try:
        browser_libraries.write_libraries(folder)
    except DownloadError as error:
        pytest.skip(f"the npm registry does not answer: {error}")
    return folder


def written(folder, names):
    """A live folder of some tiny translators, and these by name."""
    models = {}
    for name in names:
        translator = tiny.translator(**BODIES[name])
        models[name] = stored_in_int8(translator, folder / "none", folder / name)
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
    with opened(browser, tiny_site[0]) as address:
        assert browser.run(loaded) == []
        assert browser.run("document.title") == "Attention"
        assert "stays in this browser" in browser.run("document.querySelector('.models').textContent")
        choose(browser, "rnn")
        translate(browser, SENTENCES[0])
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
        assert message in choose(browser, "rnn")
        assert browser.run("document.querySelector('.models input').checked") is False
        assert translate(browser, "kalo") == "Choose a model first."


def test_without_a_network_it_says_so(browser, tiny_site):
    with opened(browser, tiny_site[0]):
        pass
    assert choose(browser, "rnn").endswith(" cannot be loaded: is there a network?")


@pytest.mark.parametrize(
    "script, lack",
    [
        ("delete globalThis.WebAssembly", "This browser has no WebAssembly,"),
        ("WebAssembly.validate = () => false", "This browser has no SIMD in WebAssembly,"),
    ],
)
def test_what_a_browser_lacks_is_said(browser, tiny_site, script, lack):
    number = browser.send("Page.addScriptToEvaluateOnNewDocument", source=script)["identifier"]
    try:
        with opened(browser, tiny_site[0]):
            assert browser.run("document.querySelector('[role=alert]').textContent").startswith(lack)
            assert browser.run("[...document.querySelectorAll('.models input')].every(one => one.disabled)")
    finally:
        browser.send("Page.removeScriptToEvaluateOnNewDocument", identifier=number)


def test_a_page_from_disk_says_that_it_needs_a_server(browser, tiny_site):
    browser.open(tiny_site[0] / "index.html")
    assert "python -m http.server" in browser.run("document.querySelector('[role=alert]').textContent")


def test_threads_are_used_where_a_host_permits_them(browser, tiny_site):
    headers = {"Cross_Origin_Opener_Policy": "same-origin", "Cross_Origin_Embedder_Policy": "require-corp"}
    with opened(browser, tiny_site[0], headers):
        cores = browser.run("navigator.hardwareConcurrency")
        said = "one thread" if cores == 1 else f"{min(4, cores)} threads"
        assert said in browser.run("document.querySelector('.models').textContent")
        assert choose(browser, "rnn") == "Ready: rnn."
        translate(browser, SENTENCES[1])
        check(browser, tiny_site[1], SENTENCES[1])


def test_it_stops_in_the_middle_and_goes_on(page, tiny_site):
    choose(page, "rnn")
    # Behind the request, so that the search has begun.
    page.run(
        "(() => { const post = Worker.prototype.postMessage; Worker.prototype.postMessage = function (message) { "
        "post.call(this, message); if (message.kind === 'examine') { Worker.prototype.postMessage = post; "
        "explorer.live.stop(); } }; })()"
    )
    assert translate(page, SENTENCES[0]) == "Stopped."
    assert page.run("explorer.store.sentences.length") == 0
    assert translate(page, SENTENCES[2]) == ""
    check(page, tiny_site[1], SENTENCES[2])


def test_what_cannot_be_translated_is_said(page):
    assert translate(page, "kalo") == "Choose a model first."
    choose(page, "rnn")
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


def scripts(*names):
    return "\n".join(map(asset, names))


def test_text_is_read_as_in_python(browser, tmp_path):
    texts = [*hard_text.HYPOTHESES, *hard_text.REFERENCES, *(one for pair in hard_text.drawn(60) for one in pair)]
    model = train_truecaser(["Der Hund sah das Haus", "Gut, Haus Und HUND"], tmp_path / "model")
    truecaser = Truecaser(model)
    texts += ["Das HAUS. Und DER hund", "'Gut' - gesagt", "ﬁn", "ß ist gut: Haus", "HAUS HAUS", "- gut"]
    browser.send("Page.navigate", url="about:blank")
    found = browser.run(
        f"(() => {{ {scripts('shared.js', 'live_text.js')}; const t = new Truecaser({json.dumps(model.read_text())});"
        f" return {json.dumps(texts)}.map(x => [normalise(x), splitWords(normalise(x)), t.truecase(x),"
        " t.detruecase(x)]); })()"
    )
    for text, ours in zip(texts, found, strict=True):
        expected = [normalise(text), split_words(text), truecaser.truecase(text), truecaser.detruecase(text)]
        assert ours == expected


def test_a_command_that_could_not_be_carried_out_writes_nothing(tmp_path, capsys, monkeypatch):
    tiny.translator().save_to_preset(str(tmp_path / "model"))
    model, there = str(tmp_path / "model"), tmp_path / "there"
    there.mkdir()
    for arguments, message in (
        ([model, "--live"], "say where the page goes"),
        ([model, "--live", "--serve", "--output", "x"], "--live writes a folder for a web server"),
        ([model, "ka lo", "--live", "--output", "x"], "--live writes a page that takes sentences later"),
        ([model, "--live", "--text", "a", "--output", "x"], "--live takes sentences later"),
        ([model, "--live", "--output", str(there)], "already exists"),
    ):
        monkeypatch.chdir(tmp_path)
        assert main(["explore", *arguments]) == 2
        assert message in capsys.readouterr().err.splitlines()[-1]
    monkeypatch.setenv(browser_libraries.VARIABLE, str(there))
    assert main(["explore", model, "--live", "--output", str(tmp_path / "x")]) == 2
    assert "ATTN_ZOO_NPM names " in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "there"]


# At night.


@pytest.mark.slow
def test_every_form_finds_what_python_finds_beside_each_other(browser, libraries, tmp_path):
    folder, translators = written(tmp_path, BODIES)
    with opened(browser, folder):
        assert choose(browser, *translators) == f"Ready: {', '.join(translators)}."
        check_sentences(browser, translators)
        # Fewer models begin anew.
        browser.click(LABEL)
        del translators["rnn"]
        translate(browser, SENTENCES[0])
        assert browser.run("explorer.store.sentences.length") == 1
        check(browser, translators, SENTENCES[0])
        assert browser.complaints == []


@pytest.mark.slow
@pytest.mark.parametrize("name", published())
def test_every_preset_finds_what_python_finds(browser, libraries, tmp_path, name):
    preset = Path(find_preset(name))
    translator = Translator.from_preset(preset)
    write_live_folder({name: LiveModel(translator, preset)}, tmp_path / "live")
    assert sum(path.stat().st_size for path in (tmp_path / "live" / "models").rglob("*.*")) <= 6_000_000
    german = [
        *("Ich rufe dich morgen an, wenn ich Zeit habe.", "Guten Morgen.", "Er ruft den alten Freund an."),
        *("Das Haus, in dem ich wohne, ist klein.", "Tom mag keine Äpfel.", "Wie spät ist es?", "Ja."),
        *("Wir haben gestern Abend einen guten Film gesehen.", "Sie fragte mich, ob ich ihr helfen könne."),
        *("Die Kinder spielen im Garten, obwohl es regnet.", "Ich weiß nicht, was ich sagen soll."),
        *("Mein Bruder wohnt in Berlin.", "Kannst du mir das Salz geben?", "Es hat die ganze Nacht geschneit."),
        *("Der Zug kommt um zehn Uhr an.", "Hast du schon gegessen?", "Das ist nicht meine Schuld."),
        *("Ich möchte ein Glas 水, bitte 😀.", "Sie ist so groß wie ihre Mutter.", "Niemand hat mir geholfen."),
    ]
    with opened(browser, tmp_path / "live"):
        assert choose(browser, name) == f"Ready: {name}."
        for number, sentence in enumerate(german):
            target = "I will call you." if number % 4 == 0 else None
            assert translate(browser, sentence, target or "") == ""
            check(browser, {name: translator}, sentence, target)
        assert browser.complaints == []


def renderer_memory(browser):
    """Megabytes of the processes of pages."""
    session, browser._session = browser._session, None
    try:
        processes = browser.send("SystemInfo.getProcessInfo")["processInfo"]
    finally:
        browser._session = session
    pages = [Path("/proc", str(one["id"]), "statm") for one in processes if one["type"] == "renderer"]
    return sum(int(path.read_text().split()[1]) for path in pages) * resource.getpagesize() / 1e6


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read as Linux tells it")
def test_memory_stays_level(page):
    choose(page, "rnn")
    found = []
    for number in range(220):
        page.run(f"explorer.live.examine({json.dumps(SENTENCES[number % 20])}, null).then(() => 0)")
        if number in (119, 219):
            found.append(renderer_memory(page))
    # What 100 sentences would take if each left a state of one step, or its record, would be more.
    assert found[1] < found[0] + 30


@pytest.mark.slow
def test_sentencepiece_gives_the_same_ids_to_text_of_all_kinds(browser, libraries):
    rng = random.Random(0)
    blocks = [(0x1, 0x7E), (0xA0, 0x24F), (0x300, 0x36F), (0x370, 0x6FF), (0x900, 0xE7F), (0x1100, 0x11FF)]
    blocks += [(0x2000, 0x2BFF), (0x3000, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xE000, 0xE0FF)]
    blocks += [(0xFE00, 0xFFFF), (0x1F1E6, 0x1FAFF), (0x20000, 0x2A6DF), (0xE0000, 0xE007F)]
    words = ["Straße", "übermäßig", "don't", "</s>", "<unk>", "▁", "👨‍👩‍👧", "e\u0301", "\ufeff", "ﬁn", "Ⅷ"]
    texts = [
        "".join(
            rng.choice(words) + rng.choice(["", " ", "\t", "\u3000"])
            if rng.random() < 0.5
            else chr(rng.randint(*rng.choice(blocks)))
            for _ in range(rng.randint(1, 30))
        )
        for _ in range(10_000)
    ]
    translator = Translator.from_preset(find_preset("transformer_tatoeba_de_en"))
    subwords = translator.preprocessor.source_tokenizer.subwords
    library = (libraries / browser_libraries.SENTENCEPIECE).read_text()
    browser.send("Page.navigate", url="about:blank")
    browser.run(
        "Object.defineProperty(document, 'currentScript', {value: {src: 'http://localhost/'}}); "
        f"(async () => {{ globalThis.exports = {{}}; globalThis.require = () => ({{ readFileSync: () => model }});"
        f" {library}; {scripts('shared.js', 'live_text.js')};"
        f" const model = Uint8Array.from({list(subwords.model_bytes)}); const p = new exports.SentencePieceProcessor();"
        " await p.load(''); globalThis.ours = new LiveSubwords(p, model, null); })()"
    )
    for first in range(0, len(texts), 500):
        some = texts[first : first + 500]
        assert browser.run(f"{json.dumps(some)}.map(x => ours.encode(x))") == subwords.encode(some)
    assert browser.run("ours.all") == subwords.pieces(range(subwords.vocabulary_size))
