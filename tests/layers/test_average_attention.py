"""Average attention, beside the laws that hold for all."""

import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.layers import AverageAttention


@pytest.mark.parametrize("masked", [False, True])
def test_a_mean_of_many_positions_keeps_its_digits_in_half_precision(masked):
    x = np.random.default_rng(0).uniform(0.5, 1.5, (1, 600, 4)).astype("float32")
    layer = AverageAttention(use_ffn=False, use_gate=False, dtype="bfloat16")
    mask = {"query_mask": np.ones((1, 600), bool)} if masked else {}
    found = ops.convert_to_numpy(ops.cast(layer(x, **mask), "float32"))
    wanted = np.cumsum(x.astype("float64"), axis=1) / np.arange(1, 601)[:, None]
    # Inputs and outputs are rounded, to 2⁻⁹; a sum in half precision would stop growing at 256.
    np.testing.assert_allclose(found, wanted, rtol=2.0**-7)
