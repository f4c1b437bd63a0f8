"""Text as a live page reads and writes it, in Chromium, held against Python."""

import dataclasses
import json
import random

import pytest

from keras_attn_zoo.data.marian_pieces import AddedToken, MarianPieces
from keras_attn_zoo.data.subwords import Subwords, train_subwords
from keras_attn_zoo.data.truecasing import Truecaser, train_truecaser
from keras_attn_zoo.data.words import normalise, split_words
from keras_attn_zoo.support.fetching import DownloadError
from keras_attn_zoo.viewing import browser_libraries
from keras_attn_zoo.viewing.page import asset
from keras_attn_zoo.viewing.word_attention import group_pieces
from tests import hard_text
from tests.translators import marian_checkpoint

pytestmark = [pytest.mark.long, pytest.mark.one_backend, pytest.mark.xdist_group("browser")]
TEXTS = [*hard_text.HYPOTHESES, *hard_text.REFERENCES, *(one for pair in hard_text.drawn(60) for one in pair)]
BLOCKS = [
    *((0x1, 0x7E), (0xA0, 0x24F), (0x300, 0x36F), (0x370, 0x6FF), (0x900, 0xE7F), (0x1100, 0x11FF)),
    *((0x2000, 0x2BFF), (0x3000, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xE000, 0xE0FF)),
    *((0xFE00, 0xFFFF), (0x1F1E6, 0x1FAFF), (0x20000, 0x2A6DF), (0xE0000, 0xE007F)),
]
WORDS = [
    "Straße",
    "übermäßig",
    "don't",
    "</s>",
    "<unk>",
    "▁",
    "👨‍👩‍👧",
    "e\u0301",
    "\ufeff",
    "ﬁn",
    "Ⅷ",
    "kalo",
    "mi",
    ">>fra<<",
]
ADDED = [
    AddedToken(">>fra<<", skipped=True),
    AddedToken("kalo"),
    AddedToken("mi", rstrip=True, single_word=True),
    AddedToken("don't", lstrip=True),
    AddedToken("do"),
]
ENDINGS = ["'", "▁'", "▁n't", "'s", "▁'s", ".", "▁.", "▁!", "<s>"]


def drawn(count):
    """Texts of all kinds of characters."""
    rng = random.Random(0)
    return [
        "".join(
            rng.choice(WORDS) + rng.choice(["", " ", "\t", "\u3000"])
            if rng.random() < 0.5
            else chr(rng.randint(*rng.choice(BLOCKS)))
            for _ in range(rng.randint(1, 30))
        )
        for _ in range(count)
    ]


def mapped(browser, function, values):
    """A function of the page over values, in messages of a size that Chromium takes."""
    values = list(values)
    parts = (values[at : at + 500] for at in range(0, len(values), 500))
    return [one for part in parts for one in browser.run(f"{json.dumps(part)}.map({function})")]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("npm") / "libraries"
    try:
        browser_libraries.write_libraries(folder)
    except DownloadError as error:
        pytest.skip(f"the npm registry does not answer: {error}")
    return (folder / browser_libraries.SENTENCEPIECE).read_text()


@pytest.fixture
def page(browser):
    browser.send("Page.navigate", url="about:blank")
    code = "\n".join(map(asset, ("shared.js", "live_words.js", "live_text.js")))
    names = "Truecaser, LiveSubwords, LiveMarianPieces, readPieces, groupPieces, normalise, splitWords"
    browser.run(f"(() => {{ {code}; Object.assign(globalThis, {{ {names} }}); }})()")
    return browser


def load(page, library, model, made):
    """Make subwords, `ours`, by an expression of the library's `processor` and of the model's `bytes`."""
    page.run(
        "Object.defineProperty(document, 'currentScript', {configurable: true, value: {src: 'http://localhost/'}}); "
        f"(async () => {{ globalThis.exports = {{}}; globalThis.require = () => ({{ readFileSync: () => bytes }});"
        f" {library}; const bytes = Uint8Array.from({list(model)});"
        f" const processor = new exports.SentencePieceProcessor(); await processor.load('');"
        f" globalThis.ours = {made}; }})()"
    )


def test_text_is_read_as_in_python(page, tmp_path):
    model = train_truecaser(["Der Hund sah das Haus", "Gut, Haus Und HUND"], tmp_path / "model")
    truecaser = Truecaser(model)
    texts = [*TEXTS, "Das HAUS. Und DER hund", "'Gut' - gesagt", "ﬁn", "ß ist gut: Haus", "HAUS HAUS", "- gut"]
    page.run(f"globalThis.truecaser = new Truecaser({json.dumps(model.read_text())}); 0")
    function = "x => [normalise(x), splitWords(normalise(x)), truecaser.truecase(x), truecaser.detruecase(x)]"
    for text, ours in zip(texts, mapped(page, function, texts), strict=True):
        expected = [normalise(text), split_words(text), truecaser.truecase(text), truecaser.detruecase(text)]
        assert ours == expected


@pytest.mark.parametrize("count", [100, pytest.param(3000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["bpe", "unigram", "word", "char", "bytes"])
def test_subwords_of_every_kind_are_those_of_python(page, library, tmp_path, kind, count):
    """Ids, text, and the word of each piece, also where a text is cut."""
    options = {"bytes": {"model_type": "bpe", "byte_fallback": True}}.get(kind, {"model_type": kind})
    size = {"bpe": 40, "unigram": 40, "bytes": 300}.get(kind)
    subwords = Subwords(train_subwords(marian_checkpoint.text("source", 300), tmp_path / "model", size, **options))
    load(page, library, subwords.model_bytes, "new LiveSubwords(processor, readPieces(bytes), null)")
    assert page.run("ours.all") == subwords.pieces(range(subwords.vocabulary_size))
    texts = [*TEXTS, *marian_checkpoint.text("source", 60), *drawn(count)]
    ids = subwords.encode(texts)
    assert mapped(page, "x => ours.encode(x)", texts) == ids
    rng = random.Random(1)
    some = [[*rng.choices(range(4, subwords.vocabulary_size), k=rng.randint(0, 9)), 1, 3] for _ in range(count)]
    assert mapped(page, "x => ours.decode(x)", some) == [subwords.decode(one) for one in some]
    check_groups(page, subwords, [(text, cut(rng, one)) for text, one in zip(texts, ids, strict=True)])


def cut(rng, ids):
    """All ids, or the first or the last of them."""
    at = rng.randint(0, len(ids))
    return rng.choice([ids, ids, ids[:at], ids[at:]])


def check_groups(page, subwords, pairs):
    pairs = [(split_words(text), [*subwords.pieces(ids), "</s>"]) for text, ids in pairs]
    found = mapped(page, "([words, pieces]) => groupPieces(pieces, words)", pairs)
    for (words, pieces), groups in zip(pairs, found, strict=True):
        *expected, _ = group_pieces(pieces, words)
        assert groups == [*expected, len(words)], (words, pieces)


@pytest.mark.parametrize("count", [100, pytest.param(10_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("added", [[], ADDED], ids=["plain", "added tokens"])
def test_subwords_of_marian_are_those_of_python(page, library, added, count):
    vocabulary = [*marian_checkpoint.vocabulary("source", "target"), *ENDINGS, *(one.content for one in added)]
    vocabulary = [*dict.fromkeys(vocabulary)]
    model = marian_checkpoint.subword_model("source")
    subwords = MarianPieces(model, vocabulary, added, clean_up_spaces=bool(added))
    known = {"added_tokens": [dataclasses.asdict(one) for one in added], "clean_up_spaces": bool(added)}
    made = f"new LiveMarianPieces(processor, readPieces(bytes), {json.dumps(vocabulary)}, {json.dumps(known)})"
    load(page, library, model, made)
    texts = [*TEXTS, *marian_checkpoint.text("source", 60), *drawn(count), *joined(count)]
    ids = subwords.encode(texts)
    assert mapped(page, "x => ours.encode(x)", texts) == ids
    rng = random.Random(1)
    some = [rng.choices(range(len(vocabulary)), k=rng.randint(0, 9)) for _ in range(count)]
    some += [[vocabulary.index(rng.choice(ENDINGS)) for _ in range(rng.randint(1, 4))] for _ in range(count)]
    assert mapped(page, "x => ours.decode(x)", some) == [subwords.decode(one) for one in some]
    assert mapped(page, "x => ours.pieces(x)", some) == [subwords.pieces(one) for one in some]
    check_groups(page, subwords, list(zip(texts, ids, strict=True))[: 10 * len(TEXTS)])


def joined(count):
    """Texts in which added tokens meet."""
    rng = random.Random(2)
    words = [*(one.content for one in ADDED), *("ka", ">>", "<<", "</s>", "<pad>", "n't")]
    return ["".join(rng.choice(words) + rng.choice(["", " "]) for _ in range(rng.randint(1, 9))) for _ in range(count)]


@pytest.mark.slow
def test_sentencepiece_gives_the_same_ids_to_text_of_all_kinds(page, library):
    from keras_attn_zoo.presets.preset_registry import find_preset
    from keras_attn_zoo.translators import Translator

    translator = Translator.from_preset(find_preset("transformer_tatoeba_de_en"))
    subwords = translator.preprocessor.source_tokenizer.subwords
    load(page, library, subwords.model_bytes, "new LiveSubwords(processor, readPieces(bytes), null)")
    texts = drawn(10_000)
    assert mapped(page, "x => ours.encode(x)", texts) == subwords.encode(texts)
