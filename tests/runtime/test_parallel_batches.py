"""Batches that run at once: results, their order, errors, and what is compiled."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
import pytest

from keras_attn_zoo.runtime import compiled_functions, parallel_batches
from keras_attn_zoo.runtime.parallel_batches import FirstCall, in_order, in_parts
from tests import tiny

TEXTS = tiny.sentences("source")[:9]


def test_results_come_in_order_and_so_many_at_a_time():
    running, most, lock = [], [], threading.Lock()

    def slow(item):
        with lock:
            running.append(item)
            most.append(len(running))
        time.sleep(0.02 if item % 2 else 0.0)
        with lock:
            running.remove(item)
        return item * item

    assert list(in_order(slow, range(9), 3)) == [i * i for i in range(9)]
    assert 2 <= max(most) <= 3
    assert list(in_order(slow, [], 3)) == []


@pytest.mark.parametrize("count", [1, 2])
def test_an_error_ends_it(count):
    begun = []

    def failing(item):
        begun.append(item)
        if item == 1:
            raise ValueError("the second")
        return item

    with pytest.raises(ValueError, match="the second"):
        list(in_order(failing, range(50), count))
    assert len(begun) < 5


@pytest.mark.parametrize("rows", [1, 31, 32, 33, 50])
def test_rows_are_divided_and_joined(rows):
    calls = []

    def double(x):
        calls.append(len(x["a"]))
        return {"sums": x["a"].sum(axis=1), "twice": np.repeat(x["b"], 2, axis=0)}

    x = {"a": np.arange(rows * 3).reshape(rows, 3), "b": np.arange(rows)}
    found = in_parts(double, lambda: 3)(x)
    wanted = double(x)
    for name, value in wanted.items():
        np.testing.assert_array_equal(found[name], value)
    parts = min(3, max(1, rows // 16))
    # One shape for all parts.
    assert calls[:-1] == [-(-rows // parts)] * parts


def test_one_thread_makes_the_first_call():
    first_call, made, lock = FirstCall(), [], threading.Lock()
    start = threading.Barrier(4)

    def call():
        start.wait()
        with first_call.one_at_a_time():
            with lock:
                made.append(1)
                alone = len(made) == 1
            time.sleep(0.05 if alone else 0.0)
            if alone:
                assert len(made) == 1

    with ThreadPoolExecutor(4) as threads:
        for one in [threads.submit(call) for _ in range(4)]:
            one.result()
    assert len(made) == 4
    failed = FirstCall()
    with pytest.raises(ValueError, match="3"), failed.one_at_a_time():
        raise ValueError("3")
    # A call that failed was none: the next one is the first.
    with failed.one_at_a_time():
        pass


def test_the_policy_of_keras_holds_in_threads():
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        names = list(in_order(lambda _: keras.config.dtype_policy().name, range(2), 2))
    finally:
        keras.config.set_dtype_policy(before)
    assert names == ["mixed_bfloat16"] * 2


@pytest.mark.long
@pytest.mark.slow_compiled
def test_a_text_is_translated_and_scored_alike(monkeypatch):
    task, targets = tiny.translator(), tiny.sentences("target")[:9]
    wanted, given = task.translate(TEXTS, n_best=2, batch_size=2), []
    scores = task.score(TEXTS, targets, batch_size=2)
    monkeypatch.setattr(compiled_functions, "parallel_batches", lambda: 3)
    assert tiny.plain(task.translate(TEXTS, n_best=2, batch_size=2, progress=given.append)) == tiny.plain(wanted)
    # In another order, as threads begin with one batch of each shape.
    assert np.diff([0, *given]).tolist().count(2) == 4 and given[-1] == 9 and len(given) == 5
    np.testing.assert_array_equal(task.score(TEXTS, targets, batch_size=2)[0].log_probs, scores[0].log_probs)
    # The rows of a single batch are divided.
    monkeypatch.setattr(parallel_batches, "_FEWEST_ROWS", 2)
    assert tiny.plain(task.translate(TEXTS, n_best=2)) == tiny.plain(wanted)
    assert task.generate(TEXTS) == [best[0].text for best in wanted]
