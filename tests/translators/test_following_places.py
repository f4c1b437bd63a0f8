"""What follows a translation token by token has every place of a body, whatever its mechanisms; a lost one is said."""

import logging

import keras
import pytest

from keras_attn_zoo.layers import ATTENTIONS
from keras_attn_zoo.translators import live_folder
from keras_attn_zoo.translators.onnx_following import scored_places
from keras_attn_zoo.translators.onnx_graphs import SearchPrograms
from tests import tiny
from tests.site.small_site import write_no_libraries

pytestmark = pytest.mark.skipif(keras.config.backend() != "torch", reason="PyTorch writes it")
PLACES = [
    (f"{place}_attention", name)
    for name, entry in ATTENTIONS.items()
    for place in ("decoder", "cross")
    if place in entry.places
]
# A state that keeps no positions, a loop, a mean, a mechanism of cross-attention; at night all.
BY_DAY = {"gated_delta", "recurrent", "average", "energy_accumulation"}


@pytest.mark.parametrize(
    ("place", "name"), [pytest.param(*one, marks=() if one[1] in BY_DAY else pytest.mark.slow) for one in PLACES]
)
def test_a_step_has_the_scores_of_every_place(place, name):
    body = tiny.transformer(**{place: name})
    expected = {place: len(layers) for place, layers in body.attention_outputs.items() if place != "encoder"}
    assert expected.keys() == {"decoder", "cross"}
    assert scored_places(SearchPrograms(body, (16, 16), None, renormalize=True)) == expected


@pytest.mark.slow
def test_a_place_without_scores_is_said(tmp_path, monkeypatch, caplog):
    translator = tiny.translator(body=tiny.transformer, cross_attention="weight_subtraction")

    def without_scores(step):
        def silent(*args, **kwargs):
            context, _, state = step(*args, **kwargs)
            return context, None, state

        return silent

    for layer in translator.backbone._decoders:
        monkeypatch.setattr(layer.self_attention, "step", without_scores(layer.self_attention.step))
    monkeypatch.setattr(live_folder, "write_libraries", write_no_libraries)
    translator.save_to_preset(str(tmp_path / "preset"), storage="int8")
    with caplog.at_level(logging.WARNING):
        live_folder.write_live_folder(
            {"half": live_folder.LiveModel(translator, tmp_path / "preset")}, tmp_path / "live"
        )
    assert [record.message for record in caplog.records if record.levelno == logging.WARNING] == [
        "half: the page will not show its decoder self-attention, of which a step has no scores"
    ]
