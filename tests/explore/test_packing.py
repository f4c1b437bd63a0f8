"""What a page holds: weights that keep their digits, text that stays text."""

import base64
import json
import re
import zlib

import numpy as np
import pytest

from keras_attn_zoo.errors import UserError
from keras_attn_zoo.explore import page
from keras_attn_zoo.explore.packing import Bytes, pack, safe_json
from keras_attn_zoo.explore.page import Page
from keras_attn_zoo.explore.records import Result, SearchStep, Sentence
from tests.explore import samples

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "<!-- <script>",
    "\u2028\u2029 \x00 \ud800 & ]]> '\" `${1}`",
]


def unpack(text):
    """JSON and weights of what `pack` returns."""
    data = zlib.decompress(base64.b64decode(json.loads(text)["packed"]))
    end = 4 + int.from_bytes(data[:4], "little")
    return json.loads(data[4:end]), data[end:]


def weights_at(data, place):
    """Weights, read as the page reads them."""
    count, rows, columns = place["shape"]
    largest = np.frombuffer(data, "<u2", count * rows, place["at"]).reshape(count, rows, 1) / 65535
    roots = np.frombuffer(data, "u1", count * rows * columns, place["at"] + 2 * count * rows)
    return largest * (roots.reshape(count, rows, columns) / 255) ** 2


@pytest.mark.parametrize("columns, sharp", [(7, 3.0), (100, 1.0), (100, 8.0)])
def test_weights_keep_their_digits(columns, sharp):
    weights = samples.rows(np.random.default_rng(1), 3, 11, columns, sharp=sharp)
    packed = Bytes()
    packed.add(np.ones((1, 1, 3)))
    place = packed.add(weights)
    found = weights_at(packed.all(), place)
    # Half a step of a byte's root is 1/510, of which twice the root of the share is the error.
    error = weights.max(axis=-1, keepdims=True) * (
        2 * np.sqrt(weights / weights.max(axis=-1, keepdims=True)) / 510 + 1e-5
    )
    assert (np.abs(found - weights) <= error + 2e-5).all()
    logs = np.log(np.maximum(weights, 1e-30))
    exact = -(weights * logs).sum(axis=-1)
    shown = -(found * np.log(np.maximum(found, 1e-30))).sum(axis=-1)
    np.testing.assert_allclose(shown, exact, rtol=0, atol=0.02)


def test_rows_without_weight_and_values_that_are_none_stay_zero():
    packed = Bytes()
    place = packed.add(np.array([[[0.0, 0.0], [np.nan, 1.0]]]))
    assert weights_at(packed.all(), place).tolist() == [[[0.0, 0.0], [0.0, 1.0]]]


@pytest.mark.parametrize("text", HOSTILE)
def test_json_ends_no_script(text):
    shown = safe_json({text: [text]})
    assert not re.search("[<>&\u2028\u2029\ud800-\udfff]", shown)
    assert json.loads(shown) == {text: [text]}


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_sentence_changes_nothing_of_the_page(text):
    plain = samples.page().html()
    page = samples.page()
    page.sentences[0] = Sentence(text, [text], None)
    hostile = page.html()
    tags = re.compile(r"<[a-z!/][^>]*>")
    assert tags.findall(hostile) == tags.findall(plain)
    hostile.encode()


def test_no_address_stands_in_the_page():
    """Nothing is fetched; the one address is a namespace's name."""
    addresses = set(re.findall(r"\w+://[^\s\"']+", samples.page().html()))
    assert addresses <= {"http://www.w3.org/2000/svg"}


def test_the_best_layer_is_that_with_the_lowest_error_rate():
    """Layer 1 attends where the gold links are; layer 2, which the model names, elsewhere."""
    result = samples.result(1)
    given = result.paths[1]
    right = np.full((3, len(given.tokens), len(result.source_tokens)), 1e-3, "float32")
    for i, j in {0: 0, 1: 1, 2: 1, 3: 2, 4: 6, 5: 8, 6: 9}.items():
        right[:, i, j] = 1.0
    given.weights["cross"][0], given.weights["cross"][1] = right, right[:, :, ::-1]
    data, _ = unpack(pack([samples.system()], [samples.sentence()], [[result]]))
    found = data["systems"][0]
    assert (found["best"], found["bestBy"]) == (0, "aer")
    assert found["aer"][0] == 0.0 and found["aer"][1] > 50
    data, _ = unpack(pack([samples.system()], [samples.sentence(gold=None)], [[result]]))
    assert (data["systems"][0]["best"], data["systems"][0]["bestBy"], data["systems"][0]["aer"]) == (1, "model", [])


def test_twenty_sentences_of_three_systems_fit_into_two_megabytes():
    """Transformers of three layers and four heads, 20 subwords a side, with their searches of four beams.

    Random weights: those of trained models take less.
    """
    rng, size = np.random.default_rng(0), 20
    words = [f"w{i}" for i in range(size - 1)]
    tokens = [*(f"▁{word}" for word in words), "</s>"]

    def step():
        numbers = rng.random((2, 8))
        return SearchStep(tokens[:8], [0] * 8, *numbers, [False] * 8, samples.rows(rng, 4, 4, size))

    def result():
        encoder = [samples.rows(rng, 4, size, size) for _ in range(3)]
        path = samples.path(rng, "own", words, tokens, size, 3, 4)
        return Result(tokens, encoder, [path], [step() for _ in range(size)])

    sentences = [Sentence(" ".join(words), words)] * 20
    results = [[result() for _ in range(3)] for _ in sentences]
    html = Page([samples.system(str(i), 3, 4) for i in range(3)], sentences, results).html()
    assert len(html.encode()) < 2_000_000
    print(f"\n{len(html.encode()):,} bytes")


def test_a_notebook_shows_the_page_apart():
    shown = samples.page()._repr_html_()
    assert shown.count("<") == 2 and 'sandbox="allow-scripts"' in shown


def test_a_page_that_cannot_be_written(tmp_path):
    samples.page().save(tmp_path / "page.html")
    with pytest.raises(UserError, match=r"cannot write .*page\.html"):
        samples.page().save(tmp_path / "page.html" / "page.html")
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_a_large_page_is_written_and_says_how_to_make_it_smaller(tmp_path, caplog, monkeypatch):
    whole = samples.page()
    whole.save(tmp_path / "page.html")
    assert not caplog.records
    size = (tmp_path / "page.html").stat().st_size
    monkeypatch.setattr(page, "LARGE", size - 1)
    whole.save(tmp_path / "large.html")
    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage().startswith(f"{tmp_path / 'large.html'} has {size / 1e6:.1f} MB and may open slowly: ")
    assert (tmp_path / "large.html").stat().st_size == size
