"""Systems: their settings as a file has them, and which fit together."""

import json

import pytest

from keras_attn_zoo.runs.system import System
from keras_attn_zoo.support.errors import UserError
from tests.tiny_run import TINY


def test_settings_round_trip_and_unknown_ones_are_listed():
    assert System.from_dict(json.loads(json.dumps(TINY.to_dict()))) == TINY
    with pytest.raises(UserError, match=r"no setting 'epoch': did you mean epochs\?"):
        TINY.override(epoch=1)
    for wrong in ({"epochs": "three"}, {"epochs": 0}, {"joint": 1}, {"accumulation_steps": 0}, {"schedule": "linear"}):
        with pytest.raises(UserError, match=f"the setting {next(iter(wrong))} "):
            TINY.override(**wrong)
    with pytest.raises(UserError, match="do not fit this version"):
        System.from_dict({**TINY.to_dict(), "colour": "red"})


def test_settings_that_do_not_fit_together_are_refused():
    plain = System("plain", {"width": 8, "num_heads": 2}, body="transformer")
    for system, settings, text in (
        (TINY, {"output": "latent"}, "received body='rnn', output='latent'"),
        (
            plain,
            {"teacher_forcing": 0.5},
            "needs body='rnn' without a latent alignment: .* received body='transformer'",
        ),
        (
            plain,
            {"pretraining_rounds": 1},
            "pretraining_rounds needs body='rnn': leave it out; received body='transformer'",
        ),
        (TINY, {"search_top_k": 0}, "search_top_k=0"),
        (plain, {"tie_embeddings": "all"}, "received joint=False: set joint=True"),
        (plain, {"num_heads": 0}, "num_heads must be an integer from 1 to 1,024; received 0"),
        (TINY, {"dropout": 1.5}, "dropout must be a number of at least 0 and below 1; received 1.5"),
    ):
        with pytest.raises(UserError, match=text):
            system.override(**settings)
