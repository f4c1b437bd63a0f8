import time

import pytest

from keras_attn_zoo.errors import UserError
from keras_attn_zoo.evaluation.timing import CompilationClock, Stopwatch


@pytest.fixture
def clock(monkeypatch):
    """A clock that is set by hand."""
    now = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    return now


def test_laps_add_up_by_name(clock):
    watch = Stopwatch()
    for name, seconds in (("training", 5.0), ("translation", 2.0), ("training", 3.0)):
        with watch.lap(name):
            clock[0] += seconds
        clock[0] += 50.0
    assert watch.seconds == {"training": 8.0, "translation": 2.0}


def test_an_interrupted_lap_counts(clock):
    watch = Stopwatch()
    with pytest.raises(KeyboardInterrupt), watch.lap("training"):
        clock[0] += 4.0
        raise KeyboardInterrupt
    assert watch.seconds == {"training": 4.0}


def test_compilation_is_the_first_call_less_the_median_of_the_later_ones():
    clock = CompilationClock()
    for key, calls in {(32, 16): (10.0, 1.0, 9.0, 2.0), (8, 64): (5.0, 3.0)}.items():
        for seconds in calls:
            clock.record(key, seconds)
    assert clock.total == pytest.approx(30.0)
    assert clock.compilation == pytest.approx((10.0 - 2.0) + (5.0 - 3.0))
    assert clock.steady == pytest.approx(20.0)
    assert clock.unresolved == []


def test_a_shape_called_once_counts_as_running():
    clock = CompilationClock()
    clock.record("once", 7.0)
    clock.record("faster at first", 1.0)
    clock.record("faster at first", 2.0)
    assert (clock.total, clock.compilation, clock.steady) == (10.0, 0.0, 10.0)
    assert clock.unresolved == ["once"]


def test_nothing_recorded():
    clock = CompilationClock()
    assert (clock.total, clock.compilation, clock.steady) == (0, 0, 0)


@pytest.mark.parametrize("seconds", [-1.0, float("nan")])
def test_impossible_times(seconds):
    with pytest.raises(UserError, match="took"):
        CompilationClock().record("shape", seconds)
