"""Mechanisms against what others wrote in PyTorch: same weights, same outputs."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.layers import get_attention
from tests.layers.cases import numbers
from tests.weights import fill_weights

pytestmark = [
    pytest.mark.one_backend,
    pytest.mark.skipif(keras.config.backend() != "torch", reason="what others wrote is in PyTorch"),
]
BATCH, HEADS, LENGTH, WIDTH = 2, 2, 70, 8


def layer_and_input(name, **arguments):
    layer = get_attention(name, WIDTH, HEADS, place="decoder", **arguments)
    layer.build((None, None, WIDTH))
    fill_weights(layer)
    return layer, ops.convert_to_tensor(numbers("others", BATCH, LENGTH, WIDTH))


@pytest.mark.parametrize("rule", ["torch_recurrent_gated_delta_rule", "torch_chunk_gated_delta_rule"])
def test_gated_delta_rule_of_qwen3_next(rule):
    """Its rule between our projections and gates; its norm of queries and keys, and scale."""
    import torch

    module = pytest.importorskip("transformers.models.qwen3_next.modeling_qwen3_next")
    layer, x = layer_and_input("gated_delta")
    query, key, value = (ops.silu(getattr(layer, f"{part}_dense")(x)) for part in ("query", "key", "value"))
    gate = torch.nn.functional.softplus(layer.decay_dense(x)[..., 0] + layer.step_bias.value[:, None])
    decay = -torch.exp(layer.log_speed.value)[:, None] * gate
    rate = torch.sigmoid(layer.rate_dense(x)[..., 0])
    parts = [one.transpose(1, 2) for one in (query, key, value, decay, rate)]
    found, _ = getattr(module, rule)(*parts, use_qk_l2norm_in_kernel=True)
    wanted = layer.finish(found.transpose(1, 2), x, None)
    np.testing.assert_allclose(*map(ops.convert_to_numpy, (layer(x), wanted)), atol=1e-5)


def attention_of_torch(layer, x, bias):
    """`scaled_dot_product_attention` between our projections, with a bias of energies."""
    import torch

    parts = [getattr(layer, f"{part}_dense")(x) for part in ("query", "key", "value")]
    found = torch.nn.functional.scaled_dot_product_attention(*parts, attn_mask=bias)
    return ops.convert_to_numpy(layer.output_dense(found))


@pytest.mark.parametrize("causal", [True, False])
def test_forgetting_attention_is_a_bias_of_torch(causal):
    import torch

    layer, x = layer_and_input("forgetting")
    sums = torch.nn.functional.logsigmoid(layer.gate_dense(x)[..., 0]).cumsum(-1)
    bias = -(sums[..., :, None] - sums[..., None, :]).abs()
    if causal:
        bias = bias.masked_fill(torch.ones(LENGTH, LENGTH).triu(1).bool(), -np.inf)
    found = ops.convert_to_numpy(layer(x, use_causal_mask=causal))
    np.testing.assert_allclose(found, attention_of_torch(layer, x, bias), atol=1e-5)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("window", "sinks"), [(1, 0), (16, 4), (33, 1), (100, 2), (4, 100)])
def test_sliding_window_is_a_mask_of_torch(window, sinks, causal):
    import torch

    layer, x = layer_and_input("sliding_window", window=window, sinks=sinks)
    i, j = torch.arange(LENGTH)[:, None], torch.arange(LENGTH)
    mask = ((i - j).abs() < window) | (j < sinks)
    if causal:
        mask &= j <= i
    found = ops.convert_to_numpy(layer(x, use_causal_mask=causal))
    np.testing.assert_allclose(found, attention_of_torch(layer, x, mask), atol=1e-5)
