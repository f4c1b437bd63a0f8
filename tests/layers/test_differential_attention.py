"""Differential attention beside the layer of DiffLlama, with the same weights."""

import numpy as np
import pytest

from keras_attn_zoo.layers import DifferentialAttention
from tests.layers.calls import BACKEND, to_numpy
from tests.layers.cases import numbers
from tests.weights import fill_weights


@pytest.mark.one_backend
@pytest.mark.skipif(BACKEND != "torch", reason="gives weights to a layer of PyTorch")
def test_layer_of_diffllama():
    """It has the first softmaxes of all heads before the second ones, and γ = 1."""
    pytest.importorskip("transformers")
    import torch
    from transformers import DiffLlamaConfig
    from transformers.models.diffllama.modeling_diffllama import DiffLlamaAttention, DiffLlamaRotaryEmbedding

    sizes = {"hidden_size": 16, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 4}
    config = DiffLlamaConfig(**sizes, num_hidden_layers=1, attn_implementation="eager")
    theirs, x = DiffLlamaAttention(config, layer_idx=0), numbers("x", 2, 7, 16)
    ours = DifferentialAttention(2, 4, positions="rotary", use_bias=False, name="attention")
    ours.build(x.shape)
    fill_weights(ours)
    ours.context_norm.scale.assign(np.ones(8))
    for part in ("query", "key", "value"):
        kernel = to_numpy(getattr(ours, f"{part}_dense").kernel.value.detach())
        moved = kernel[:, [0, 2, 1, 3]].reshape(16, 16)
        getattr(theirs, f"{part[0]}_proj").weight.data = torch.tensor(moved.T)
    theirs.o_proj.weight.data = torch.tensor(to_numpy(ours.output_dense.matrix().detach()).T)
    lambdas = ours.lambdas.value.detach()
    for name, vector in zip(("q1", "k1", "q2", "k2"), lambdas.reshape(4, 4), strict=True):
        getattr(theirs, f"lambda_{name}").data = vector
    theirs.lambda_init = 0.8
    given, after = torch.tensor(x), torch.triu(torch.full((7, 7), -torch.inf), 1)
    turns = DiffLlamaRotaryEmbedding(config)(given, torch.arange(7)[None])
    wanted, _ = theirs(given, turns, after[None, None])
    found = ours(x, use_causal_mask=True)
    np.testing.assert_allclose(to_numpy(found), wanted.detach().numpy(), atol=2e-5)
