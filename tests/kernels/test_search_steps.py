"""The steps of a search: the best tokens against a stable sort, chunks of a cache, batches in parallel."""

import os

import keras
import numpy as np
import pytest

from keras_attn_zoo.kernels import chunk_sizes, jax_cpu, parallel_batches, top_k
from keras_attn_zoo.kernels.jax_cpu import BLOCK


@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("size", [5, 4 * 5 * BLOCK - 1, 4 * 5 * BLOCK, 1003])
def test_they_are_those_of_a_stable_sort(k, size):
    """Few different numbers, so that many are equal; blocks without a finite number; numbers that fill no block."""
    rng = np.random.default_rng([k, size])
    x = rng.integers(-4, 5, (7, size)).astype("float32")
    x[0] = -1e9
    x[1, : size // 2] = -np.inf
    # Of equal numbers, the first is in a block with a smaller maximum.
    x[2] = -9
    x[2, [1, -2, -1]] = 3, 3, 5
    values, indices = top_k(keras.ops.convert_to_tensor(x), k)
    expected = np.argsort(-x, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(values), np.take_along_axis(x, expected, axis=1))
    found = keras.ops.convert_to_numpy(indices)
    if keras.config.backend() != "torch":
        # PyTorch promises no order among equal numbers.
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.take_along_axis(x, found, axis=1), np.take_along_axis(x, expected, axis=1))


@pytest.mark.parametrize("length", [1, 8, 9, 30, 33, 100])
def test_chunks_hold_all_positions(length):
    assert chunk_sizes(length) == (jax_cpu.chunk_sizes(length) if keras.config.backend() == "jax" else [length])
    sizes = jax_cpu.chunk_sizes(length)
    assert sum(sizes) == length and 1 <= len(sizes) <= 4 and min(sizes) > 0
    assert len(sizes) == 1 or sizes[0] >= 8


def test_parallel_batches_under_jax_alone(monkeypatch):
    is_jax = keras.config.backend() == "jax"
    for cores, wanted in ((64, 4), (2, 2), (1, 1)):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, cores=cores: range(cores), raising=False)
        assert parallel_batches() == (wanted if is_jax else 1)
    if not is_jax:
        return
    import jax

    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(2), raising=False)
    with jax.debug_nans(True):
        assert parallel_batches() == 1
    with jax.default_matmul_precision("highest"):
        assert parallel_batches() == 1
