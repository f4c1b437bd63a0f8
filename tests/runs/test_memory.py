"""The outline of a body, which has no weights, and the memory that is said and refused before there are any."""

import logging
import time

import keras
import pytest

from keras_attn_zoo.bodies.schema import BODIES
from keras_attn_zoo.runs import memory
from keras_attn_zoo.runs.memory import check_memory, weight_bytes
from keras_attn_zoo.runs.outline import body_arguments, outline
from keras_attn_zoo.runs.preparation import check_system
from keras_attn_zoo.runs.system import System
from keras_attn_zoo.support.errors import UserError
from tests import tiny
from tests.tiny_run import TINY

PLAIN = System("plain", {"width": 8, "num_heads": 2, "ffn_dim": 8}, TINY.data, body="transformer")
MIXED = {**tiny.MIXED["mixed_1"], "encoder_layers": 2, "decoder_layers": 3, "encoder_positions": "learned"}


@pytest.mark.parametrize(
    "system",
    [
        TINY,
        TINY.override(cell="lstm", encoder_layers=2),
        PLAIN.override(**MIXED),
        PLAIN.override(output="latent", max_jump=2),
    ],
)
def test_an_outline_has_the_parameters_of_the_body(system):
    body = BODIES[system.body].body_class(11, 13, **body_arguments(system))
    found = outline(system, 11, 13)
    assert found.parameters == body.count_params()
    assert found.longest_sentence == body.longest_sentence


def test_an_outline_makes_no_weights_now_or_later():
    """Those of this one would take 1.4 TB."""
    began = time.monotonic()
    found = outline(PLAIN.override(width=65_536, ffn_dim=65_536, encoder_layers=5, decoder_layers=5), 8000, 8000)
    with keras.StatelessScope():
        pass
    assert found.parameters > 3e11
    assert time.monotonic() - began < 20


def test_memory_is_said(caplog):
    caplog.set_level(logging.INFO, "keras_attn_zoo")
    check_system(PLAIN.override(width=512, num_heads=8, ffn_dim=2048, vocabulary_size=8000, model_type="bpe"))
    (line,) = caplog.messages
    assert line.startswith(
        "plain: 56.4 M parameters; training needs about 0.9 GB for weights, gradients and Adam, and up to "
    )
    assert line.endswith(" for activations")


def test_more_than_the_machine_has_is_refused_where_it_counts(monkeypatch, caplog):
    monkeypatch.setattr(memory, "machine_bytes", lambda: weight_bytes(1000))
    caplog.set_level(logging.INFO, "keras_attn_zoo")
    check_memory(PLAIN, 1000, 10)
    with pytest.raises(UserError, match=r"plain: 1,001 parameters need 16 kB to train .*, but this machine has 16 kB"):
        check_memory(PLAIN, 1001, 10)
    # Of an accelerator's memory nothing is known.
    monkeypatch.setattr(memory, "on_cpu", lambda: False)
    check_memory(PLAIN, 1001, 10)
    assert len(caplog.messages) == 2


def test_this_machine_has_memory_and_the_tests_run_on_its_cpu():
    assert 1e8 < memory.machine_bytes() < 1e15
    assert memory.on_cpu()


def test_a_length_that_follows_from_the_text_is_a_length():
    """`--set max_length=none`: it is 1.25 times 12 tokens."""
    without, given = (memory.activation_bytes(PLAIN.override(max_length=length), 11) for length in (None, 15))
    assert without == given > 0
