"""Schedules against their formulas, alone and inside an optimizer."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.training.schedules import CosineSchedule, HalvingSchedule, InverseSquareRoot, TeacherForcing


def inverse_square_root(step, peak=3e-3, warmup=5):
    t = step + 1
    return peak * t / warmup if t <= warmup else peak * (warmup / t) ** 0.5


def halving(step, initial=2e-3, start=4, every=3, rate=0.5):
    rate_now = initial
    for cut in range(start, step + 1):
        if (cut - start) % every == 0:
            rate_now *= rate
    return rate_now


def cosine(step, peak=3e-3, warmup=5, steps=17):
    if step < warmup:
        return peak / warmup + (peak - peak / warmup) * step / warmup
    return peak * np.cos(np.pi / 2 * min(step - warmup, steps - warmup) / (steps - warmup)) ** 2


CASES = [
    (InverseSquareRoot(3e-3, 5), inverse_square_root),
    (CosineSchedule(3e-3, 5, 17), cosine),
    (CosineSchedule(3e-3, 1, 17), lambda step: cosine(step, warmup=1)),
    (HalvingSchedule(2e-3, start=4, every=3), halving),
    (HalvingSchedule(2e-3, 4, 3, rate=0.3), lambda step: halving(step, rate=0.3)),
]
every_schedule = pytest.mark.parametrize("schedule, formula", CASES)


@every_schedule
def test_schedule_follows_its_formula(schedule, formula):
    steps = [*range(20), 60]
    values = [float(schedule(step)) for step in steps]
    # A cosine near its end is a small difference of large numbers.
    np.testing.assert_allclose(values, [formula(step) for step in steps], rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(float(schedule(ops.convert_to_tensor(7, "int32"))), formula(7), rtol=1e-6)


def test_the_cosine_is_that_of_keras():
    of_keras = keras.optimizers.schedules.CosineDecay(3e-3 / 5, 12, warmup_target=3e-3, warmup_steps=5)
    values = [[float(schedule(step)) for step in range(20)] for schedule in (CosineSchedule(3e-3, 5, 17), of_keras)]
    np.testing.assert_allclose(*values, rtol=1e-5, atol=1e-9)


@every_schedule
def test_schedule_inside_an_optimizer(schedule, formula):
    optimizer = keras.optimizers.SGD(schedule)
    weight = keras.Variable(np.zeros(2, "float32"))
    optimizer.build([weight])
    for step in range(9):
        before = ops.convert_to_numpy(weight.value).copy()
        optimizer.apply([ops.ones((2,))])
        moved = before - ops.convert_to_numpy(weight.value)
        np.testing.assert_allclose(moved, formula(step), rtol=0, atol=1e-8, err_msg=str(step))


@every_schedule
def test_schedule_round_trip(schedule, formula):
    optimizer = keras.optimizers.deserialize(keras.optimizers.serialize(keras.optimizers.Adam(schedule)))
    restored = optimizer._learning_rate
    assert type(restored) is type(schedule)
    assert restored.get_config() == schedule.get_config()


def test_teacher_forcing_decays_linearly_and_stays():
    decay = TeacherForcing(1.0, 0.25, steps=8)
    assert [decay(step) for step in (0, 2, 4, 8, 9, 10**6)] == [1.0, 0.8125, 0.625, 0.25, 0.25, 0.25]
    assert [TeacherForcing(0.5)(step) for step in (0, 7)] == [0.5, 0.5]
    assert TeacherForcing(0.0, 1.0, steps=4)(1) == 0.25


@pytest.mark.parametrize(
    ("schedule", "cases", "message"),
    [
        (InverseSquareRoot, [(0, 5), (-1e-3, 5), (1e-3, 0)], "must be positive"),
        (
            CosineSchedule,
            [(0, 5, 9), (1e-3, 0, 9), (1e-3, 9, 9)],
            r"peak=.* must be positive, and warmup_steps=.* from 1 to steps=9 - 1",
        ),
        (
            HalvingSchedule,
            [(0, 4, 3), (1e-3, 4, 0), (1e-3, 4, 3, 1.0), (1e-3, 4, 3, 0.0)],
            r"must be positive, rate=.* between 0 and 1",
        ),
        (TeacherForcing, [(1.1,), (0.5, -0.1, 3)], "probabilities between 0 and 1"),
        (TeacherForcing, [(1.0, 0.5), (1.0, 0.5, 0)], "over how many steps is not set"),
    ],
)
def test_errors(schedule, cases, message):
    for arguments in cases:
        with pytest.raises(UserError, match=message):
            schedule(*arguments)
