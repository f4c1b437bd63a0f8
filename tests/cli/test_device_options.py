"""`--devices`, `--distribution`, and processes that a launcher has started."""

import argparse

import pytest

from keras_attn_zoo import devices
from keras_attn_zoo.cli.device_options import on_devices
from keras_attn_zoo.support.errors import UserError

pytestmark = pytest.mark.one_backend
VARIABLES = {
    "torch": ("WORLD_SIZE", "RANK"),
    "jax": ("KERAS_DISTRIBUTION_NUM_PROCESSES", "KERAS_DISTRIBUTION_PROCESS_ID"),
}


@pytest.fixture(autouse=True)
def asked(monkeypatch):
    """No variables of a launcher; what is asked of `devices_of`."""
    for names in VARIABLES.values():
        for name in names:
            monkeypatch.delenv(name, raising=False)
    calls = []

    def devices_of(*arguments):
        calls.append(arguments)

    monkeypatch.setattr(devices, "devices_of", devices_of)
    return calls


def leads(backend, **options):
    with on_devices(argparse.Namespace(**options), backend) as found:
        return found


def started(monkeypatch, backend, number, count=2):
    for name, value in zip(VARIABLES[backend], (count, number), strict=True):
        monkeypatch.setenv(name, str(value))


@pytest.mark.parametrize("backend", ["jax", "tensorflow", "torch"])
@pytest.mark.parametrize("count", [None, 1])
def test_one_device_needs_none(backend, count, asked):
    assert leads(backend, devices=count, distribution="data")
    assert leads(backend)
    assert not asked


@pytest.mark.parametrize("backend", VARIABLES)
@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("count", [None, 1, 2])
def test_processes_of_the_backend_are_joined_whatever_number_is_given(backend, number, count, asked, monkeypatch):
    started(monkeypatch, backend, number)
    leads(backend, devices=count, distribution="data")
    assert asked == [(count, "data")]


@pytest.mark.parametrize("launched, backend", [("torch", "jax"), ("torch", "tensorflow"), ("jax", "torch")])
def test_a_process_that_its_backend_does_not_join_would_write_what_the_first_one_writes(
    launched, backend, asked, monkeypatch
):
    started(monkeypatch, launched, 1)
    with pytest.raises(UserError, match=rf"process 2 .* {backend} does not join them: give --backend {launched}"):
        leads(backend, devices=None, distribution="data")
    started(monkeypatch, launched, 0)
    assert leads(backend, devices=None, distribution="data")
    assert not asked


@pytest.mark.parametrize("launched", VARIABLES)
def test_a_command_of_one_process_runs_in_the_first_alone(launched, asked, monkeypatch):
    started(monkeypatch, launched, 3, count=4)
    with pytest.raises(UserError, match=r"process 4 .* runs in one process: start it without the others"):
        leads(launched)
    started(monkeypatch, launched, 0, count=4)
    assert leads(launched)
    assert not asked


@pytest.mark.parametrize("launched", VARIABLES)
def test_a_variable_without_a_number_is_named(launched, monkeypatch):
    name = VARIABLES[launched][0]
    monkeypatch.setenv(name, "two")
    with pytest.raises(UserError, match=f"^the environment variable {name} is 'two': give it a number, or unset it"):
        leads("torch")


@pytest.mark.parametrize("count", [None, 1])
def test_divided_weights_are_never_forgotten(count, asked):
    leads("jax", devices=count, distribution="model")
    assert asked == [(count, "model")]
