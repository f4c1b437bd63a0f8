"""What a page holds: weights that keep their digits, text that stays text."""

import base64
import json
import math
import re
import zlib

import numpy as np
import pytest

from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.viewing import page, page_packing
from keras_attn_zoo.viewing.page import Page
from keras_attn_zoo.viewing.page_packing import SCALES, Matrices, pack, safe_json
from keras_attn_zoo.viewing.page_records import Result, SearchStep, Sentence
from tests.viewing import samples

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "<!-- <script>",
    "\u2028\u2029 \x00 \ud800 & ]]> '\" `${1}`",
]


def unpack(text):
    """JSON and weights of what `pack` returns."""
    packed = json.loads(text)["packed"]
    for harmless, digit in zip(",.:", "<>&", strict=True):
        packed = packed.replace(harmless, digit)
    data = zlib.decompress(base64.b85decode(packed), -zlib.MAX_WBITS)
    end = 4 + int.from_bytes(data[:4], "little")
    return json.loads(data[4:end]), data[end:]


def weights_at(data, place, scale):
    """Weights, read as the page reads them."""
    step, knee = scale
    shares = step * np.frombuffer(data, "u1", math.prod(place["shape"]), place["at"]).reshape(place["shape"])
    return np.where(shares < 2 * knee, shares**2 / (4 * knee), shares - knee)


# For each scale, by how much a weight may be off, and the entropy of a row in nats.
ERRORS = list(
    zip(SCALES, (0.004, 0.002, 0.004, 1 / 120, 1 / 60, 1 / 30), (0.03, 0.08, 0.15, 0.2, 0.35, 0.5), strict=True)
)


@pytest.mark.parametrize("columns, sharp", [(7, 3.0), (30, 1.0), (30, 2.0), (100, 8.0)])
@pytest.mark.parametrize("scale, most, of_entropy", ERRORS)
def test_weights_keep_their_digits(columns, sharp, scale, most, of_entropy):
    weights = samples.rows(np.random.default_rng(1), 3, 11, columns, sharp=sharp)
    matrices = Matrices()
    matrices.add(np.ones((1, 1, 3)))
    place = matrices.add(weights)
    found = weights_at(matrices.quantized(*scale), place, scale)
    assert np.abs(found - weights).max() <= most + 1e-6
    exact, shown = (-(one * np.log(np.maximum(one, 1e-30))).sum(axis=-1) for one in (weights.astype("float64"), found))
    np.testing.assert_allclose(shown, exact, rtol=0, atol=of_entropy)


@pytest.mark.parametrize("scale", SCALES)
def test_rows_without_weight_and_values_that_are_none_stay_zero(scale):
    matrices = Matrices()
    place = matrices.add(np.array([[[0.0, 0.0], [np.nan, 1.0]]]))
    found = weights_at(matrices.quantized(*scale), place, scale)
    assert found[0, 0].tolist() == [0, 0] and found[0, 1, 0] == 0 and abs(found[0, 1, 1] - 1) < 1e-6


def test_equal_matrices_are_kept_once():
    """As a mechanism that looks at positions has them in every sentence."""
    matrices = Matrices()
    one, other = (samples.rows(np.random.default_rng(seed), 2, 3, 4) for seed in (0, 1))
    places = [matrices.add(weights)["at"] for weights in (one, other, one)]
    assert places == [0, 24, 0] and len(matrices.quantized(*SCALES[0])) == 48


def test_what_would_be_large_gets_coarser_weights(monkeypatch):
    """The first scale with which the data are small enough, and the last if none is."""
    sizes = {}
    for most in (10**9, 0):
        monkeypatch.setattr(page_packing, "MOST", most)
        text = samples.large_page().html()
        data, _ = unpack(text.split('id="data">')[1].split("</script>")[0])
        sizes[tuple(data["scale"])] = len(text)
    assert list(sizes) == [SCALES[0], SCALES[-1]] and sizes[SCALES[-1]] < 0.5 * sizes[SCALES[0]]
    monkeypatch.setattr(page_packing, "MOST", sizes[SCALES[-1]])
    text = samples.large_page().html().split('id="data">')[1].split("</script>")[0]
    assert len(text) <= sizes[SCALES[-1]] and tuple(unpack(text)[0]["scale"]) != SCALES[0]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_sentence_ends_no_script_and_changes_nothing_of_the_page(text):
    shown = safe_json({text: [text]})
    assert not re.search("[<>&\u2028\u2029\ud800-\udfff]", shown)
    assert json.loads(shown) == {text: [text]}
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


@pytest.mark.parametrize(
    "layers, heads, size, most",
    [(3, 4, 20, 1.4), *(pytest.param(*one, marks=pytest.mark.long) for one in ((3, 4, 30, 2.0), (6, 8, 20, 2.0)))],
)
def test_twenty_sentences_of_three_systems_fit_into_two_megabytes(layers, heads, size, most):
    """Three Transformers with `size` subwords a side and their searches of four beams.

    Random weights: those of trained models take less.
    """
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(size - 1)]
    tokens = [*(f"▁{word}" for word in words), "</s>"]

    def step():
        numbers = rng.random((2, 8))
        return SearchStep(tokens[:8], [0] * 8, *numbers, [False] * 8, samples.rows(rng, 4, heads, size))

    def result():
        encoder = [samples.rows(rng, heads, size, size) for _ in range(layers)]
        path = samples.path(rng, "own", words, tokens, size, layers, heads)
        return Result(tokens, encoder, [path], [step() for _ in range(size)])

    sentences = [Sentence(" ".join(words), words)] * 20
    results = [[result() for _ in range(3)] for _ in sentences]
    html = Page([samples.system(str(i), layers, heads) for i in range(3)], sentences, results).html()
    print(f"\n{len(html.encode()):,} bytes")
    assert len(html.encode()) < most * 1e6


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
