"""The notebook runs as it stands, in a kernel of its own."""

import json
import os
import re
from pathlib import Path

import pytest

from tests import tiny

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOK = ROOT / "docs" / "tutorials" / "quickstart.ipynb"
# What the notebook asks for by name.
PRESETS = {"transformer_tatoeba_de_en": tiny.transformer, "bahdanau_tatoeba_de_en": tiny.backbone}
LONGEST = 60


def cells():
    return json.loads(NOTEBOOK.read_text("utf-8"))["cells"]


def test_it_is_stored_without_outputs():
    code = [cell for cell in cells() if cell["cell_type"] == "code"]
    assert code and all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)


def test_it_asks_for_presets_that_there_are_to_be():
    text = "".join("".join(cell["source"]) for cell in cells())
    assert set(re.findall(r'from_preset\("(\w+)"\)', text)) == PRESETS.keys()
    recipes = (ROOT / "presets" / "presets.toml").read_text("utf-8")
    assert all(f"[presets.{name}]" in recipes for name in PRESETS)


def test_its_links_lead_somewhere():
    text = "".join("".join(cell["source"]) for cell in cells() if cell["cell_type"] == "markdown")
    # Colab knows no folder beside the notebook.
    repository = "https://github.com/OWNER/keras-attn-zoo/blob/main/"
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if "colab" not in link]
    assert links and all(link.startswith(repository) for link in links)
    assert all((ROOT / link.removeprefix(repository)).is_file() for link in links)
    assert f"/github/OWNER/keras-attn-zoo/blob/main/{NOTEBOOK.relative_to(ROOT).as_posix()}" in text


@pytest.mark.slow
@pytest.mark.parametrize("backend", [None, "torch"])
def test_it_runs(tmp_path, backend):
    nbformat = pytest.importorskip("nbformat")
    client = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    for name, body in PRESETS.items():
        # Whatever it translates to: the same whether presets are published or not.
        tiny.translator(body=body, length=LONGEST).save_to_preset(tmp_path / "presets" / name)
    environment = {**os.environ, "ATTN_ZOO_PRESETS": str(tmp_path / "presets"), "PYTHONPATH": str(ROOT)}
    # The notebook chooses a backend if none is; the tests' own flags make compilation quick and training slow.
    for name in ("KERAS_BACKEND", "XLA_FLAGS"):
        environment.pop(name, None)
    if backend is not None:
        pytest.importorskip(backend)
        environment["KERAS_BACKEND"] = backend
    notebook = nbformat.read(NOTEBOOK, 4)
    run = client.NotebookClient(
        notebook, timeout=900, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    run.execute(env=environment)
    outputs = [[shown(output) for output in cell.outputs] for cell in notebook.cells if cell.cell_type == "code"]
    pages = [text for texts in outputs for text in texts if text.startswith("<iframe")]
    assert len(pages) == 3 and (tmp_path / "page.html").stat().st_size > 50_000
    printed = "".join(text for texts in outputs for text in texts if not text.startswith("<iframe"))
    accuracies = {
        name: float(value) for name, value in re.findall(r"^(\w+Attention) +([\d.]+)$", printed, re.MULTILINE)
    }
    uniform = accuracies.pop("UniformAttention")
    assert len(accuracies) == 2 and min(accuracies.values()) > 0.9 and uniform < 0.5
    # BLEU and AER of the two systems that it trains.
    rows = re.findall(r"^\| (bahdanau|uniform) +\| +([\d.]+) \|.*?% \| +([\d.]+) \|", printed, re.MULTILINE)
    scores = {name: (float(bleu), float(aer)) for name, bleu, aer in rows}
    # Each backend draws other weights, which decide much in so short a training.
    bleu, aer = (5, 20) if backend is None else (0, 0)
    assert scores["bahdanau"][0] > scores["uniform"][0] + bleu and scores["bahdanau"][1] < scores["uniform"][1] - aer


def shown(output):
    """What a notebook shows of an output: a page, or text."""
    if output.output_type == "stream":
        return output.text
    return output.data.get("text/html") or output.data.get("text/plain", "")
