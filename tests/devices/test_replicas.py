"""Two virtual devices of TensorFlow give the numbers of one."""

import os

import keras
import numpy as np
import pytest

from keras_attn_zoo.runs.loading import load_translator
from keras_attn_zoo.runs.training import train_system
from tests.devices.law import OTHERS, check, numbers
from tests.devices.runs import (
    WITHOUT_NOISE,
    check_averaged,
    check_log,
    check_resumed,
    command,
    compare_logs,
    train_arguments,
)

if keras.config.backend() != "tensorflow":
    pytest.skip("of TensorFlow", allow_module_level=True)

import tensorflow as tf

from keras_attn_zoo.devices import devices_of, using
from keras_attn_zoo.layers.base.dropout import Dropout
from keras_attn_zoo.support.errors import UserError


def test_two_replicas_give_the_numbers_of_one():
    devices = devices_of(2)
    assert devices.parts == 2
    check(numbers(devices, parts=2), numbers(None, parts=2))


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_so_they_do_with_rnns_with_a_marginal_likelihood_and_in_bfloat16(name):
    options = OTHERS[name]
    check(numbers(devices_of(2), **options), numbers(None, **options), name)


@pytest.mark.slow
def test_averages_of_weights_are_those_of_one_device(corpus, tmp_path):
    check_averaged(corpus, tmp_path)


def test_a_processor_is_not_divided_into_thousands(monkeypatch):
    asked, most = [], max(8, os.cpu_count())
    # TensorFlow starts with two devices: without them it would have one from here on.
    assert devices_of(2).parts == 2
    monkeypatch.setattr(tf.config, "set_logical_device_configuration", lambda cpu, parts: asked.append(len(parts)))
    with pytest.raises(UserError, match=r"^there are \d+ devices, not 1000: give --devices \d+, or all\.$"):
        devices_of(1000)
    assert asked == [most]


def test_replicas_draw_their_own_dropout():
    devices = devices_of(2)
    ones = np.ones((3, 50), "float32")
    with using(devices):
        inputs = keras.Input((50,))
        model = keras.Model(inputs, Dropout(0.5, seed=1)(inputs))
        replicas = devices.strategy.experimental_local_results
        alike = replicas(devices.strategy.run(lambda: model(ones, training=True)))
        np.testing.assert_array_equal(*alike)
        devices.separate_noise(model)
        first, second = replicas(devices.strategy.run(lambda: model(ones, training=True)))
    assert 0.3 < np.mean(np.array(first) == np.array(second)) < 0.7


@pytest.mark.slow
def test_a_run_of_two_replicas_has_state_and_translations_of_one_device(corpus, tmp_path):
    system = WITHOUT_NOISE.override(budget="6steps")
    with using(devices_of(2)):
        train_system(system, corpus, tmp_path / "run")
        translator = load_translator(tmp_path / "run")
        found = translator.translate(["rot haus", "blau hund geht"])
    alone = load_translator(tmp_path / "run").translate(["rot haus", "blau hund geht"])
    assert [best[0].text for best in found] == [best[0].text for best in alone]
    train_system(system, corpus, tmp_path / "whole")
    compare_logs(tmp_path / "run", tmp_path / "whole")
    with np.load(tmp_path / "run" / "state.npz") as ours, np.load(tmp_path / "whole" / "state.npz") as wanted:
        assert ours.files == wanted.files
        for name in set(ours.files) - {"settings"}:
            np.testing.assert_allclose(ours[name], wanted[name], rtol=1e-2, atol=1e-4)


@pytest.mark.slow
def test_a_run_stopped_on_two_replicas_resumes_on_one_and_on_four_to_the_numbers_of_one(corpus, tmp_path):
    check_resumed(WITHOUT_NOISE, corpus, tmp_path)


@pytest.mark.slow
def test_the_command_makes_virtual_devices(tmp_path):
    """Before TensorFlow has started, which it has in this process."""
    arguments = [*train_arguments("tensorflow", tmp_path, "run"), "--devices", "3"]
    status, _, error = command(["-m", "keras_attn_zoo", *arguments])
    assert status == 0, error
    check_log(tmp_path / "run")
