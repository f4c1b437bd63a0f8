"""Two virtual devices of JAX give the numbers of one."""

import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest

from tests import tiny
from tests.devices.law import OTHERS, ROUNDING, check, numbers
from tests.devices.runs import check_averaged, check_resumed, two_of_jax
from tests.tiny_run import TINY

if keras.config.backend() != "jax":
    pytest.skip("of JAX", allow_module_level=True)

import jax

from keras_attn_zoo.devices import devices_of, using
from keras_attn_zoo.kernels import jax_cpu
from keras_attn_zoo.support.errors import UserError


def test_two_devices_give_the_numbers_of_one():
    devices = devices_of(2)
    assert devices.parts == 2
    check(numbers(devices, parts=2, dropout=0.1), numbers(None, parts=2, dropout=0.1))


@pytest.mark.slow
@pytest.mark.parametrize("slow", [True, False], ids=["in_float32", "by_integers"])
def test_so_they_do_in_int8(slow, monkeypatch):
    """Whether products are of integers or not."""
    monkeypatch.setattr(jax_cpu, "integers_are_slow", lambda: slow)
    sources, targets = tiny.sentences("source", 5), tiny.sentences("target", 5)
    found = []
    for devices in (None, devices_of(2)):
        with using(devices):
            translator = tiny.translator(body=tiny.transformer)
            translator.quantize("int8")
            found.append([one.log_prob for one in translator.score(sources, targets)])
    np.testing.assert_allclose(found[1], found[0], rtol=ROUNDING)


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_so_they_do_with_rnns_with_a_marginal_likelihood_and_in_bfloat16(name):
    options = {**OTHERS[name], "dropout": 0.1}
    check(numbers(devices_of(2), **options), numbers(None, **options), name)


@pytest.mark.slow
def test_averages_of_weights_are_those_of_one_device(corpus, tmp_path):
    check_averaged(corpus, tmp_path)


def test_a_processor_is_not_divided_into_thousands(monkeypatch):
    asked, most = {}, max(8, os.cpu_count())
    # JAX starts with its two devices: without them it would have one from here on.
    assert len(jax.devices()) == 2
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    monkeypatch.setattr(jax.config, "update", asked.__setitem__)
    with pytest.raises(UserError, match=r"^there are \d+ devices, not 1000: give --devices \d+, or all\.$"):
        devices_of(1000)
    assert asked["jax_num_cpu_devices"] == most


@pytest.mark.slow
def test_divided_weights_give_the_numbers_of_one_device():
    """Vocabularies are divided, feed-forward networks of 11 units are not."""
    devices = devices_of(2, "model")
    with using(devices):
        body = tiny.transformer(ffn_dim=12, encoder_layers=1, decoder_layers=1)
        shapes = {v.path: v.value.addressable_shards[0].data.shape for v in body.trainable_variables}
    assert shapes["target_embedding/embeddings"] == (tiny.PIECES // 2, 8)
    assert shapes["encoder_0/ffn_hidden/kernel"] == (8, 6) and shapes["encoder_0/ffn_hidden/bias"] == (6,)
    assert shapes["decoder_0/ffn_output/kernel"] == (6, 8) and shapes["decoder_0/ffn_output/bias"] == (8,)
    check(numbers(devices, parts=2), numbers(None, parts=2))


@pytest.mark.slow
def test_a_run_stopped_on_two_devices_resumes_on_one_and_on_four_to_the_numbers_of_one(corpus, tmp_path):
    """With dropout and the decoder's own guesses: random numbers are those of the whole batch."""
    check_resumed(TINY, corpus, tmp_path, "noise")


# Of each of two processes: the numbers of the first go to standard output.
PROGRAM = """
import json
from keras_attn_zoo.devices import devices_of, using
from tests.devices.law import numbers

devices = devices_of("all")
assert (devices.parts, devices.processes) == (2, 2)
with using(devices):
    # What the leading process reads reaches all.
    assert list(devices.from_leader(["ein", "Haus"] if devices.leads else [])) == ["ein", "Haus"]
found = numbers(devices, parts=2)
if devices.leads:
    print(json.dumps(found))
"""


@pytest.mark.slow
def test_two_processes_give_the_numbers_of_one():
    found = []
    for environment in two_of_jax():
        command = [sys.executable, "-c", PROGRAM]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        found.append(subprocess.Popen(command, env=environment, **pipes))
    outputs = [process.communicate(timeout=900) for process in found]
    assert [process.returncode for process in found] == [0, 0], outputs
    # The line before it is gloo's own.
    check(json.loads(outputs[0][0].splitlines()[-1]), numbers(None, parts=2))
