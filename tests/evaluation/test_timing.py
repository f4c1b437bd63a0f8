import pytest

from keras_attn_zoo.evaluation.timing import CompilationClock
from keras_attn_zoo.support.errors import UserError


def test_compilation_is_the_first_call_less_the_median_of_the_later_ones():
    clock = CompilationClock()
    for key, calls in {(32, 16): (10.0, 1.0, 9.0, 2.0), (8, 64): (5.0, 3.0)}.items():
        for seconds in calls:
            clock.record(key, seconds)
    assert clock.total == pytest.approx(30.0)
    assert clock.compilation == pytest.approx((10.0 - 2.0) + (5.0 - 3.0))
    assert clock.steady == pytest.approx(20.0)
    assert clock.unresolved == []


def test_a_pause_does_not_change_the_usual_time():
    clock = CompilationClock()
    for seconds in (10.0, 2.0, 2.0, 600.0, 2.5):
        clock.record((8, 64), seconds)
    clock.record((8, 32), 1.5)
    # The median of 2, 2, 2.5 and 600, for each of five calls.
    assert clock.usual == pytest.approx(5 * 2.25 + 1.5)
    assert clock.steady > 600


def test_a_shape_called_once_counts_as_running():
    clock = CompilationClock()
    clock.record("once", 7.0)
    clock.record("faster at first", 1.0)
    clock.record("faster at first", 2.0)
    assert (clock.total, clock.compilation, clock.steady) == (10.0, 0.0, 10.0)
    assert clock.unresolved == ["once"]


def test_nothing_recorded():
    clock = CompilationClock()
    assert (clock.total, clock.compilation, clock.steady, clock.usual) == (0, 0, 0, 0)


@pytest.mark.parametrize("seconds", [-1.0, float("nan")])
def test_impossible_times(seconds):
    with pytest.raises(UserError, match="took"):
        CompilationClock().record("shape", seconds)


def test_each_process_compiles_again():
    """What is usual is of the process itself, or where it made one call, of the others."""
    clock = CompilationClock()
    for calls in ([5.0] + 9 * [1.0], [6.0] + 9 * [2.0], [4.5]):
        clock.begin_process()
        for seconds in calls:
            clock.record("long", seconds)
        clock.record("short", 7.0)
    # Of the last process, the median of nine times 1 and nine times 2.
    assert clock.compilation == pytest.approx((5 - 1) + (6 - 2) + (4.5 - 1.5))
    assert clock.compilation_of_one == pytest.approx((4 + 4 + 3) / 3)
    assert clock.steady == pytest.approx(clock.total - 11) == pytest.approx(10 + 20 + 1.5 + 3 * 7)
    assert clock.usual == pytest.approx(21 * 1.5 + 3 * 7)
    assert clock.unresolved == ["short"]
