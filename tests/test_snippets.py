"""The Python of README and docs runs as it stands, page by page, in a folder with the runs that it speaks of."""

import re
from pathlib import Path

import numpy as np
import pytest

from keras_attn_zoo.layers import MultiHeadAttention

ROOT = Path(__file__).resolve().parent.parent
GUIDE = [page for part in ("tutorials", "how-to", "reference") for page in sorted((ROOT / "docs" / part).glob("*.md"))]
# What they have are files of a mechanism, which tests/layers/test_added_mechanism.py runs.
OF_MECHANISMS = ("add-a-mechanism", "extend-a-base-class")
# Some train for minutes, set up the process before Keras is imported, or read or write an export: others test these.
LEFT_OUT = ("train_system(", "train_subword_pair(", "choose_backend(", "jax.config.", "ONNXTranslator(", "LiveModel(")


def snippets(page):
    """The Python of a page, block by block, without what is left out."""
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return [code for code in blocks if not any(call in code for call in LEFT_OUT)]


PAGES = [page for page in (ROOT / "README.md", *GUIDE) if page.stem not in OF_MECHANISMS and snippets(page)]
# A smaller model, a folder in place of the network, a translation where a barely trained model has none, and words of
# its lexicon.
REPLACED = {
    "TransformerBackbone(8000, 8000,": "TransformerBackbone(80, 80, width=16, num_heads=2,",
    "hf://Helsinki-NLP/opus-mt-de-en": "runs/bahdanau/best",
    'prefixes=["The"]': 'prefixes=["red"]',
    'sentence_picture(translator, "Er ruft den alten Freund an.")': "sentence_picture(translator, 'rot', 'red')",
}


def given():
    """What the snippets take for granted."""
    numbers = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
    layer = MultiHeadAttention(num_heads=2, key_dim=4)
    layer.build(numbers.shape, numbers.shape)
    return {
        "layer": layer,
        "query": numbers[:, :3],
        "query_i": numbers[:, 0],
        "value": numbers,
        "mask": np.ones((2, 5), dtype="bool"),
        "source_ids": np.ones((2, 5)),
        "target_ids": np.ones((2, 4)),
        "rows": np.array([1, 0]),
        **{name: ["a b c d e", "f g h i j"] for name in ("hypotheses", "references", "others", "ours", "theirs")},
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
@pytest.mark.long
def test_snippets(page, trained, corpus, tmp_path, monkeypatch):
    for side, lines in zip(("de", "en"), zip(*corpus.splits.train, strict=True), strict=True):
        (tmp_path / f"mine.{side}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for name in ("runs/bahdanau", "runs/uniform", "runs/transformer", "demo-run/bahdanau", "demo-run/uniform"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).symlink_to(trained)
    for name in ("transformer_tatoeba_de_en", "bahdanau_tatoeba_de_en"):
        (tmp_path / "presets").mkdir(exist_ok=True)
        (tmp_path / "presets" / name).symlink_to(trained / "best")
    monkeypatch.setenv("ATTN_ZOO_PRESETS", "presets")
    monkeypatch.chdir(tmp_path)
    names = {}
    for code in snippets(page):
        for shown, run in REPLACED.items():
            code = code.replace(shown, run)
        names.update(given())
        exec(compile(code, page, "exec"), names)


def test_most_pages_with_code_have_some_that_runs():
    assert len(PAGES) > 10
