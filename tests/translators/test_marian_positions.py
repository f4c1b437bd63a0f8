"""Stored positions of Marian models, in any type and in any order, against Transformers' own model."""

import shutil

import numpy as np
import pytest

from keras_attn_zoo.bodies.position_encodings import sine_table
from keras_attn_zoo.translators import Translator

torch = pytest.importorskip("torch")
marian_checkpoint = pytest.importorskip("tests.translators.marian_checkpoint")
test_marian = pytest.importorskip("tests.translators.test_marian")

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")]


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """Folder and Transformers' model."""
    folder = tmp_path_factory.mktemp("marian") / "opus-mt-xx-yy"
    return folder, marian_checkpoint.write(folder)[0]


STORED = {
    "sines of Marian": lambda table: table,
    "sines in another order": lambda table: table.reshape(-1, 2, 8).transpose(0, 2, 1).reshape(-1, 16),
    "others": lambda table: np.random.default_rng(0).normal(size=table.shape),
}


@pytest.mark.one_backend
@pytest.mark.parametrize(
    ("dtype", "suffix"),
    # NumPy has no bfloat16, in which files of either kind are read in a way of their own.
    [("float32", "bin"), ("float16", "safetensors"), ("bfloat16", "bin"), ("bfloat16", "safetensors")],
)
@pytest.mark.parametrize("change", STORED.values(), ids=STORED.keys())
def test_stored_positions_are_read_in_the_precision_of_the_file(original, tmp_path, dtype, suffix, change):
    """Older checkpoints hold them, and Transformers reads them, whatever they are."""
    from transformers import MarianMTModel

    folder, model = original
    shutil.copytree(folder, tmp_path / "copy", ignore=lambda *_: ["model.safetensors"])
    weights = model.state_dict()
    for name in ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight"):
        weights[name] = torch.tensor(change(sine_table(16, 40)))
    weights = {name: weight.to(getattr(torch, dtype)).contiguous() for name, weight in weights.items()}
    if suffix == "bin":
        torch.save(weights, tmp_path / "copy" / "pytorch_model.bin")
    else:
        tied = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")
        of_torch = pytest.importorskip("safetensors.torch")
        weights = {name: weight for name, weight in weights.items() if name not in tied}
        of_torch.save_file(weights, tmp_path / "copy" / "model.safetensors", {"format": "pt"})
    theirs = MarianMTModel.from_pretrained(tmp_path / "copy", dtype="float32").eval()
    if change is not STORED["others"]:
        # Here, sines are exact again, rather than as they are stored.
        for side in (theirs.model.encoder, theirs.model.decoder):
            assert np.abs(side.embed_positions.weight.detach().numpy() - change(sine_table(16, 40))).max() < 0.002
            side.embed_positions.weight.data = torch.tensor(change(sine_table(16, 40)))
    assert test_marian.logits_differ(Translator.from_preset(tmp_path / "copy"), theirs) < 1e-4
