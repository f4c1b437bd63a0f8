"""What `--plan` says where the text is yet to be downloaded: all but times, and nothing is fetched."""

import pytest

from keras_attn_zoo.corpora import corpus_folder
from keras_attn_zoo.runs.named_systems import SYSTEMS
from keras_attn_zoo.runs.outline import outline
from keras_attn_zoo.training.progress import parameter_count


@pytest.fixture
def without_corpora(monkeypatch, tmp_path):
    monkeypatch.setenv("ATTN_ZOO_CORPORA", str(tmp_path / "corpora"))
    monkeypatch.setattr(corpus_folder, "_download", lambda *_: pytest.fail("it was fetched"))


SIZES = ("--set", "width=16", "num_heads=2", "ffn_dim=16", "encoder_layers=1", "decoder_layers=1")


def test_runs_and_what_they_need_are_known_without_the_text(attn_zoo, without_corpora, tmp_path):
    line = ("compare", "--systems", "transformer", "gaussian", "--corpus", "multi30k-en-de", "--out", tmp_path / "out")
    status, output, error = attn_zoo(*line, "--budget", "4000steps", "--plan", *SIZES, "vocabulary_size=100")
    assert status == 0, error
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in output.splitlines() if row[:1] == "|"]
    small = {"width": 16, "num_heads": 2, "ffn_dim": 16, "encoder_layers": 1, "decoder_layers": 1}
    counts = [outline(SYSTEMS[name].override(**small), 100, 100).parameters for name in ("transformer", "gaussian")]
    shown = [
        [name, "4000steps", parameter_count(count)]
        for name, count in zip(("transformer", "gaussian"), counts, strict=True)
    ]
    assert [row[:3] for row in rows[2:]] == shown
    assert "time left: unknown, as multi30k-de-en, 29,000 training pairs, is not on this machine" in output
    # Four bytes for each weight of the best round, and of the last with both moments of Adam.
    assert f"on disk: {16 * sum(counts) / 1e6:,.1f} MB" in output
    assert not (tmp_path / "out").exists() and not (tmp_path / "corpora").exists()


def test_what_would_be_refused_is_refused_without_the_text_too(refused, without_corpora, tmp_path):
    line = ("compare", "--systems", "transformer", "--corpus", "multi30k-de-en", "--out", tmp_path / "out", "--plan")
    for more, said in (
        (("--embedded",), "--embedded provides the text: leave out --corpus"),
        (("--train", "a", "b"), "--corpus provides the text: leave out --train"),
        (("--more-test", "news", "a", "b"), "there is no file a: check the path"),
    ):
        refused(said, *line, *more)


def test_without_a_vocabulary_size_parameters_are_unknown(attn_zoo, without_corpora, tmp_path):
    line = ("compare", "--systems", "transformer", "--corpus", "multi30k-de-en", "--out", tmp_path / "out", "--plan")
    status, output, error = attn_zoo(*line, *SIZES, "epochs=7", "model_type=char", "vocabulary_size=None")
    assert status == 0, error
    (row,) = [line for line in output.splitlines() if line.startswith("| transformer ")]
    assert [cell.strip() for cell in row.strip("|").split("|")] == ["transformer", "7 epochs", "–", "–"]
    assert "beside the encoded text, less those whose vocabulary the text decides" in output
