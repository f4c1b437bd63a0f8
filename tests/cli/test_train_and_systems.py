"""`attn-zoo train`, `attn-zoo systems`, and `attn-zoo compare` on a grid."""

import csv
import json
import shutil

import keras
import pytest

from keras_attn_zoo.runs import training
from keras_attn_zoo.runs.named_systems import SYSTEMS
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.support.files import write_text
from keras_attn_zoo.translators import Translator


def test_train_loads_the_trained_model_once(attn_zoo, trained, corpus, tmp_path, monkeypatch):
    folder, loaded = shutil.copytree(trained, tmp_path / "run"), []
    before = RunFolder(folder).read_scores()["test"]["text"]
    for name, side in zip(("de", "en"), zip(*corpus.splits.test, strict=True), strict=True):
        write_text(tmp_path / f"test.{name}", "".join(f"{sentence}\n" for sentence in side))
    from_preset = Translator.from_preset
    monkeypatch.setattr(
        Translator, "from_preset", lambda preset, **options: loaded.append(preset) or from_preset(preset, **options)
    )
    monkeypatch.setattr(training, "train_system", lambda *_, **__: RunFolder(folder))
    text = (tmp_path / "test.de", tmp_path / "test.en")
    options = [word for part in ("--train", "--valid", "--test") for word in (part, *text)]
    status, output, _ = attn_zoo("train", "--system", "bahdanau", "--run", folder, *options)
    assert status == 0 and "| run" in output and loaded == [str(folder / "best")]
    assert RunFolder(folder).read_scores()["test"]["text"] == before
    assert len(list((folder / "pictures").iterdir())) == 4


@pytest.mark.parametrize(
    ("source", "target", "text"),
    [
        (b"rot\n\xff\xfe\n", b"red\nblue\n", "line 2"),
        (b"\n\n\n", b"\n\n\n", "no sentence pair"),
        (b"rot haus\nblau hund\nkatze geht\n" * 4, b"red house\nblue dog\ncat goes\n" * 4, "8000"),
    ],
)
def test_bad_text_is_one_line(attn_zoo, tmp_path, source, target, text):
    (tmp_path / "s").write_bytes(source)
    (tmp_path / "t").write_bytes(target)
    files = [tmp_path / "s", tmp_path / "t"]
    status, _, error = attn_zoo(
        "train", "--system", "uniform", "--train", *files, "--valid", *files, "--test", *files, "--run", tmp_path / "r"
    )
    assert status == 2 and text in error.splitlines()[-1] and "Traceback" not in error
    assert not (tmp_path / "r" / "config.json").exists()
    assert not list(tmp_path.rglob("*.partial"))


@pytest.mark.long
def test_systems_with_their_parameters(attn_zoo):
    _, output, _ = attn_zoo("systems", "--vocabulary-size", 1000)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in output.splitlines()[2:]]
    assert [row[0] for row in rows] == list(SYSTEMS)
    counts = {row[0]: int(row[2].replace(",", "")) for row in rows}
    # Vaswani's base model with one matrix of embeddings, summed up by hand; d, f, h, n of its sizes.
    d, f, h, n = 512, 2048, 8, 256
    attention, norm = 4 * (d * d + d), 2 * d
    network = d * f + f + f * d + d
    encoder, decoder = attention + network + 2 * norm, 2 * attention + network + 3 * norm
    assert counts["transformer"] == 1000 * d + 6 * (encoder + decoder)
    # Zeng: no query and no key; for each side h matrices, and a transition with its bias and normalisation.
    side = 6 * attention // 2 - (h * n * n + n * n + n + 2 * n)
    assert counts["transformer"] - counts["ran-all"] == 2 * side == 5_122_560
    assert counts["transformer"] - counts["ran-e"] == counts["transformer"] - counts["ran-d"] == side
    # Rosendahl, equations 2, 6 and 10, in the six layers of the decoder: W_f of every head; two matrices; nothing.
    assert counts["previous-context"] - counts["transformer"] == 6 * h * (d // h) ** 2
    assert counts["expanded-key-value-2"] - counts["transformer"] == 6 * 2 * d * d
    assert counts["weight-subtraction"] == counts["transformer"]
    # Bahar: three maps more, and the matrix shared.
    assert counts["transformer-latent"] - counts["transformer"] == 3 * d * d


@pytest.mark.slow
def test_values_of_a_grid_are_compared_on_the_validation_text(attn_zoo, tmp_path):
    """As training validated them. A system that has no such setting is not of the grid."""
    line = ["--systems", "uniform,transformer", "--out", tmp_path, "--grid", "num_heads=1,2"]
    status, output, error = attn_zoo("compare", *line, "--scale", "smoke", "--backend", keras.config.backend())
    assert status == 0, error
    assert "\n## Comparison of uniform, transformer, validation text\n" in output
    with (tmp_path / "results.csv").open(encoding="utf-8") as file:
        rows = {(row["run"], row["text"]): row for row in csv.DictReader(file)}
    heads = ["transformer-num_heads=1", "transformer-num_heads=2"]
    assert list(rows) == [(name, "test") for name in ("uniform", *heads)] + [(name, "valid") for name in heads]
    for name in heads:
        last = RunFolder(tmp_path / name).log.read_text().splitlines()[-1]
        validated = json.loads(last)["val_perplexity"]
        assert float(rows[name, "valid"]["perplexity"]) == pytest.approx(validated, rel=1e-4)
    assert attn_zoo("compare", *line, "--table-only")[1] == output
