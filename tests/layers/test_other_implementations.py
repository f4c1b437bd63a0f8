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


@pytest.mark.parametrize("causal", [True, False])
def test_latent_attention_of_deepseek(causal):
    """Its module with our weights; the call, and the steps, which absorb what it expands."""
    import torch

    module = pytest.importorskip("transformers.models.deepseek_v2.modeling_deepseek_v2")
    config = module.DeepseekV2Config(
        hidden_size=WIDTH,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        q_lora_rank=None,
        kv_lora_rank=6,
        qk_nope_head_dim=2,
        qk_rope_head_dim=4,
        v_head_dim=3,
        head_dim=4,
        attn_implementation="eager",
    )
    sizes = {"key_dim": 2, "value_dim": 3, "latent_dim": 6, "rotary_dim": 4, "use_bias": False}
    layer, x = layer_and_input("multi_head_latent", **sizes)
    theirs = module.DeepseekV2Attention(config, layer_idx=0)
    # Pairs of neighbours are turned there, halves here.
    neighbours = [0, 2, 1, 3]

    def matrix(dense):
        return ops.reshape(dense.kernel.value, (dense.kernel.shape[0], HEADS, -1))

    queries = [matrix(layer.query_dense), matrix(layer.rotary_dense)[..., neighbours]]
    compressed = layer.latent_dense.kernel.value
    weights = {
        "q_proj": torch.cat(queries, -1).flatten(1),
        "kv_a_proj_with_mqa": torch.cat([compressed[:, :6], compressed[:, 6:][:, neighbours]], -1),
        "kv_b_proj": torch.cat([matrix(layer.key_dense), matrix(layer.value_dense)], -1).flatten(1),
        "o_proj": layer.output_dense.kernel.value.reshape(-1, WIDTH),
    }
    theirs.load_state_dict(
        {f"{name}.weight": x.T for name, x in weights.items()}
        | {"kv_a_layernorm.weight": layer.latent_norm.scale.value},
    )
    places = torch.arange(LENGTH)[None].expand(BATCH, -1)
    later = torch.full((LENGTH, LENGTH), -np.inf).triu(1) if causal else torch.zeros(LENGTH, LENGTH)
    with torch.no_grad():
        wanted = ops.convert_to_numpy(
            theirs(x, later[None, None], None, module.DeepseekV2RotaryEmbedding(config)(x, places))[0]
        )
        np.testing.assert_allclose(ops.convert_to_numpy(layer(x, use_causal_mask=causal)), wanted, atol=1e-5)
        memory = layer.prepare(max_length=LENGTH)
        state = layer.initial_state(memory, BATCH)
        assert {part: one.shape[1:] for part, one in state.items() if part != "position"} == {
            "latent": (LENGTH, 6),
            "rotary": (LENGTH, 4),
        }
        for i in range(LENGTH if causal else 0):
            context, _, state = layer.step(x[:, i], memory, state)
            np.testing.assert_allclose(ops.convert_to_numpy(context), wanted[:, i], atol=1e-5)


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


@pytest.mark.parametrize("causal", [True, False])
def test_talking_heads_of_deberta(causal):
    """Its module without its positions, and our projection of contexts."""
    import torch

    module = pytest.importorskip("transformers.models.deberta.modeling_deberta")
    config = module.DebertaConfig(hidden_size=WIDTH, num_attention_heads=HEADS, talking_head=True)
    layer, x = layer_and_input("talking_heads", use_bias=False)
    theirs = module.DisentangledSelfAttention(config).eval()
    kernels = [getattr(layer, f"{part}_dense").matrix().reshape(WIDTH, HEADS, -1) for part in ("query", "key", "value")]
    weights = {
        "in_proj": torch.cat(kernels, -1).flatten(1),
        "head_logits_proj": layer.energy_mixture.value,
        "head_weights_proj": layer.weight_mixture.value,
    }
    theirs.load_state_dict({f"{name}.weight": x.T for name, x in weights.items()}, strict=False)
    mask = torch.ones(1, 1, LENGTH, LENGTH)
    with torch.no_grad():
        contexts, _ = theirs(x, mask.tril() if causal else mask)
        wanted = layer.merge(contexts.unflatten(-1, (HEADS, -1)).transpose(1, 2), None)
        found = layer(x, use_causal_mask=causal)
    np.testing.assert_allclose(*map(ops.convert_to_numpy, (found, wanted)), atol=1e-5)
