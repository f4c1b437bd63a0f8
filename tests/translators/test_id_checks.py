"""Ids that a model cannot take are named before it runs: JAX makes NaN of an id that the vocabulary does not have."""

import keras
import numpy as np
import pytest

from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.translators import Translator
from tests import tiny

LAST = tiny.PIECES - 1
X, Y, WEIGHTS = tiny.batch()


def with_id(value):
    """The inputs with another id of the source."""
    ids = X["encoder_token_ids"].astype("float64" if isinstance(value, float) else "int64")
    ids[1, 1] = value
    return {**X, "encoder_token_ids": ids}


CASES = {
    "beyond the vocabulary": (
        with_id(LAST + 1),
        Y,
        None,
        f"encoder_token_ids must be ids from 0 to {LAST}; .* 28",
    ),
    "below 0": (with_id(-1), Y, None, "encoder_token_ids must be ids .*; received -1"),
    "beyond 32 bits": (with_id(2**32 + 5), Y, None, "encoder_token_ids must be ids"),
    "a fraction": (with_id(0.5), Y, None, "encoder_token_ids must be ids .*; received 0.5"),
    "NaN": (with_id(float("nan")), Y, None, "encoder_token_ids must be ids .*; received nan"),
    "booleans": ({**X, "decoder_token_ids": X["decoder_padding_mask"]}, Y, None, "decoder_token_ids must be ids"),
    "one sentence": ({**X, "decoder_token_ids": Y[0]}, Y, None, r"decoder_token_ids must have the shape \(sentences"),
    "no tokens": ({**X, "encoder_token_ids": Y[:, :0]}, Y, None, "with a token at least"),
    "a mask of another shape": ({**X, "encoder_padding_mask": Y[:, :1] > 0}, Y, None, "the shape of encoder_token_ids"),
    "other rows": ({"encoder_token_ids": Y, "decoder_token_ids": Y[:2]}, Y[:2], None, "3 rows but decoder_token_ids 2"),
    "no inputs": ({}, Y, None, "ids must be a dict with encoder_token_ids"),
    "no target": ({"encoder_token_ids": Y}, Y, None, "ids must be a dict with decoder_token_ids"),
    "short labels": (X, Y[:, :1], None, "the labels must have the shape of decoder_token_ids"),
    "labels beyond the vocabulary": (X, Y + 100, None, "the labels must be ids from 0"),
    "negative weights": (X, Y, -WEIGHTS, "weights must be finite numbers of at least 0"),
    "infinite weights": (X, Y, np.full_like(WEIGHTS, np.inf), "weights must be finite numbers of at least 0"),
}


@pytest.fixture(scope="module")
def task():
    made = tiny.translator(sampler="greedy")
    made.compile("sgd")
    return made


@pytest.mark.parametrize("case", CASES)
def test_what_no_model_takes_is_named_and_weights_stay(task, case):
    x, y, weights, message = CASES[case]
    of_labels = "label" in case or "weights" in case
    before = task.get_weights()
    calls = [
        lambda: task.train_on_batch(x, y, weights),
        lambda: task.evaluate(x, y, sample_weight=weights, verbose=0),
        lambda: task.fit((batch for batch in [(x, y, weights)]), verbose=0),
        *([] if of_labels else [lambda: task.predict(x, verbose=0), lambda: task.predict_on_batch(x)]),
        *([] if of_labels else [lambda: Translator(task.backbone).generate(x, None, [3])]),
    ]
    for call in calls:
        with pytest.raises(UserError, match=message) as error:
            call()
        assert "\n" not in str(error.value)
    for now, old in zip(task.get_weights(), before, strict=True):
        np.testing.assert_array_equal(now, old)


def test_what_models_take(task):
    """Ids of any integers, whole numbers of floats, lists, tensors; weights of several shapes."""
    wanted = task.predict(X, verbose=0)["logits"]
    for kind in ("int64", "uint8", "float32"):
        ids = {name: one.astype(kind) if "ids" in name else one for name, one in X.items()}
        np.testing.assert_allclose(task.predict(ids, verbose=0)["logits"], wanted, rtol=0, atol=1e-6)
    tensors = {name: keras.ops.convert_to_tensor(one) for name, one in X.items()}
    np.testing.assert_allclose(tiny.as_numpy(task.predict_on_batch(tensors)["logits"]), wanted, rtol=0, atol=1e-6)
    losses = [task.evaluate(X, Y, sample_weight=w, verbose=0)[0] for w in (WEIGHTS, np.ones(3), np.ones((3, 1)))]
    np.testing.assert_allclose(losses, losses[0], rtol=1e-5)
