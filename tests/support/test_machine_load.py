"""What others use of a machine, worked out by hand from its clocks."""

import os
import time
import types

import pytest

from keras_attn_zoo.support import machine_load
from keras_attn_zoo.support.machine_load import MachineLoad, load_of_others


def test_others_have_what_the_machine_worked_and_this_process_did_not(monkeypatch):
    """In 10 seconds of 4 processors, 40 in all: 14 busy, of which 6 are ours, so 8 of others, or a fifth.

    Waiting for a disk is no work, and the time of guests is that of a user already.
    """
    psutil = pytest.importorskip("psutil")
    began = dict(user=100.0, nice=5.0, system=50.0, idle=900.0, iowait=7.0, irq=1.0, softirq=2.0, steal=3.0, guest=4.0)
    worked = dict(user=6.0, nice=2.0, system=3.0, idle=20.0, iowait=6.0, irq=0.5, softirq=0.5, steal=2.0, guest=5.0)
    ended = {name: began[name] + worked[name] for name in began}
    machine = iter([began, ended, ended])
    own = iter([(1.0, 1.0, 0.0, 0.0), (4.0, 2.0, 1.5, 0.5), (4.0, 2.0, 1.5, 0.5)])
    monkeypatch.setattr(psutil, "cpu_times", lambda: types.SimpleNamespace(**next(machine)))
    clocks = iter([0.0, 10.0, 10.0])
    monkeypatch.setattr(machine_load, "time", types.SimpleNamespace(perf_counter=lambda: next(clocks)))
    monkeypatch.setattr(machine_load, "cores", lambda: 4)
    monkeypatch.setattr(machine_load, "os", types.SimpleNamespace(times=lambda: os.times_result((*next(own), 0.0))))
    load = MachineLoad()
    assert load.of_others() == pytest.approx(8 / 40)
    assert load.own_cores() == pytest.approx(0.6)


def test_clocks_that_tick_at_different_moments_leave_nothing_to_others(monkeypatch):
    times = iter([(0.0, 0.0, 0.0), (1.0, 0.99, 1.0)])
    monkeypatch.setattr(machine_load, "_seconds", lambda: next(times))
    assert MachineLoad().of_others() == 0.0


def test_a_machine_is_watched_for_as_long_as_asked(monkeypatch):
    waited = []
    clock = types.SimpleNamespace(perf_counter=time.perf_counter, sleep=waited.append)
    monkeypatch.setattr(machine_load, "time", clock)
    assert load_of_others(3.0) >= 0 and waited == [3.0]
    assert machine_load.cores() == os.cpu_count()
