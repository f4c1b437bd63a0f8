"""What is left of a translator after an exception in the middle of `fit`, `evaluate` or `predict`: all of it."""

import keras
import numpy as np
import pytest

from tests import tiny
from tests.translators.test_inherited_methods import PAIRS, SOURCES, Batches


@pytest.fixture(scope="module")
def ids():
    return tiny.preprocessor()(PAIRS)


class Stop(keras.callbacks.Callback):
    """Raises at the end of a batch."""

    def __init__(self, error):
        super().__init__()
        self.error = error

    def on_train_batch_end(self, batch, logs=None):
        raise self.error

    on_test_batch_end = on_predict_batch_end = on_train_batch_end


def broken(ids, first):
    """Batches of ids of which one is refused by the model."""
    x, y, weights = ids
    yield from [ids] * first
    yield {**x, "encoder_token_ids": x["encoder_token_ids"][:, :, None, None]}, y, weights


def failing(ids, error, first):
    yield from [ids] * first
    raise error


@pytest.mark.long
@pytest.mark.parametrize(
    ("method", "error"),
    [
        ("fit", KeyboardInterrupt),
        ("predict", ZeroDivisionError),
        *(
            pytest.param(*which, marks=pytest.mark.slow)
            for which in (("fit", ZeroDivisionError), ("predict", KeyboardInterrupt))
        ),
        *(pytest.param("evaluate", error, marks=pytest.mark.slow) for error in (ZeroDivisionError, KeyboardInterrupt)),
    ],
)
def test_variables_are_whole_after_an_exception(ids, method, error):
    task = tiny.translator()
    task.compile(optimizer=keras.optimizers.SGD(0.1), sampler="greedy")
    before = [keras.ops.convert_to_numpy(v.value).copy() for v in task.trainable_variables]
    run = getattr(task, method)
    runs = [
        lambda: run(Batches(ids), callbacks=[Stop(error())], verbose=0),
        lambda: run(failing(ids, error(), 12), verbose=0),
        lambda: run(broken(ids, 12), verbose=0),
    ]
    for fail in runs:
        with pytest.raises(BaseException) as caught:
            fail()
        assert "deleted" not in str(caught.value)
        after = [keras.ops.convert_to_numpy(v.value) for v in task.trainable_variables]
        assert all(np.isfinite(one).all() for one in after)
        # Steps that were taken count.
        assert any((a != b).any() for a, b in zip(after, before, strict=True)) == (method == "fit")
        assert np.isfinite(task.evaluate(PAIRS, verbose=0)[0])
        assert task.generate(SOURCES[0]) == task.translate(SOURCES[0])[0].text
