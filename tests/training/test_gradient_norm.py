"""The norm of a gradient, and clipping by it, against closed-form gradients in NumPy."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.training.adam import Adam
from keras_attn_zoo.training.adam import global_norm as norm_of_tensors
from tests.training.toy import fit_once, global_norm, toy, toy_batch, toy_gradients, weights_of


def test_the_global_norm_reads_every_gradient():
    rng = np.random.default_rng(2)
    arrays = [rng.standard_normal(shape).astype("float32") for shape in ((3, 4), (5,), ())]
    wanted = np.sqrt(sum(np.sum(x.astype("float64") ** 2) for x in arrays))
    given = [None, *map(ops.convert_to_tensor, arrays)]
    assert float(norm_of_tensors(given)) == pytest.approx(wanted, rel=1e-6)
    # Squares of bfloat16 numbers would be rounded to three digits.
    halves = [None if x is None else ops.cast(x, "bfloat16") for x in given]
    wanted = np.sqrt(sum(np.sum(ops.convert_to_numpy(ops.cast(x, "float32")) ** 2) for x in halves[1:]))
    assert float(norm_of_tensors(halves)) == pytest.approx(wanted, rel=1e-6)
    assert float(norm_of_tensors([None])) == 0
    # The norm is a float32 whatever the gradients are: it joins the other figures of a step.
    wide = norm_of_tensors([ops.cast(x, "float64") for x in given[1:]])
    assert keras.backend.standardize_dtype(wide.dtype) == "float32"


@pytest.mark.parametrize(("limit", "parts"), [(0.05, 1), (50.0, 1), (0.05, 2)])
def test_adam_clips_by_the_norm_of_the_whole_batch(limit, parts):
    """By the norm that the step has computed, or by Keras' own optimizer: a limit that is reached, one that is not.

    The norm of the logs is that before clipping; tokens that come up again are one row.
    """
    batch, found = toy_batch(), []
    for optimizer in (Adam, keras.optimizers.Adam):
        model = toy(optimizer(0.1, epsilon=1e-3, global_clipnorm=limit), accumulation_steps=parts)
        before = weights_of(model)
        logs = fit_once(model, batch)
        _, gradients, _ = toy_gradients(before, batch)
        assert logs["gradient_norm"][0] == pytest.approx(global_norm(gradients), rel=1e-5)
        assert limit < global_norm(gradients) / 2 or limit > 2 * global_norm(gradients)
        found.append(weights_of(model))
        for now, old, g in zip(found[-1], before, gradients, strict=True):
            g = g * min(1.0, limit / global_norm(gradients))
            np.testing.assert_allclose(old - now, 0.1 * g / (np.abs(g) + 1e-3 / np.sqrt(0.001)), rtol=0, atol=2e-5)
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-6)
