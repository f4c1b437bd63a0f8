"""Several threads with one translator get what each would get alone."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests import tiny

TEXTS, TARGETS = tiny.sentences("source")[:3], tiny.sentences("target")[:3]
CALLS = {
    "translate": lambda task: task.translate(TEXTS, n_best=2),
    "with attention": lambda task: task.translate(TEXTS, n_best=2, attention=True),
    "generate": lambda task: task.generate(TEXTS),
    "force": lambda task: task.force(TEXTS, TARGETS),
    "score": lambda task: task.score(TEXTS, TARGETS),
}


@pytest.fixture
def often():
    """Let threads take turns as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


def assert_same(found, wanted):
    """Results alike to the last bit, tokens and attention included."""
    if isinstance(wanted, list):
        assert isinstance(found, list) and len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            assert_same(one, other)
    elif isinstance(wanted, str):
        assert found == wanted
    else:
        assert vars(found).keys() == vars(wanted).keys()
        for name, value in vars(wanted).items():
            np.testing.assert_array_equal(getattr(found, name), value)


@pytest.mark.long
@pytest.mark.slow_compiled
def test_threads_translate_force_and_score_at_once(often):
    """None has compiled anything before: they trace at once too."""
    alone, shared = tiny.translator(), tiny.translator()
    wanted = {name: call(alone) for name, call in CALLS.items()}
    assert all(best[0].attention is None for best in wanted["translate"])
    assert all(best[0].attention is not None for best in wanted["with attention"])
    start = threading.Barrier(len(CALLS))

    def repeatedly(call):
        start.wait()
        return [call(shared) for _ in range(3)]

    with ThreadPoolExecutor(len(CALLS)) as threads:
        running = {name: threads.submit(repeatedly, call) for name, call in CALLS.items()}
    for name, thread in running.items():
        for found in thread.result():
            assert_same(found, wanted[name])
