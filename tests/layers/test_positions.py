"""Positions and groups of heads in attention beside other libraries' layers, whose weights ours take; far positions."""

import itertools
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.layers import MultiHeadAttention, get_attention
from keras_attn_zoo.layers.base.positions import POSITIONS
from keras_attn_zoo.layers.base.positions.alibi import slopes
from keras_attn_zoo.layers.base.positions.t5 import buckets
from tests.layers.calls import BACKEND, compiled, to_numpy
from tests.layers.cases import numbers
from tests.layers.equations import bucket
from tests.layers.test_beams_that_share import assert_beams_share
from tests.weights import fill_weights

GROUPS = {"num_heads": 4, "key_dim": 6, "num_key_value_heads": 2}
of_pytorch = pytest.mark.skipif(BACKEND != "torch", reason="gives weights to layers of PyTorch")
every_kind = pytest.mark.parametrize("positions", [None, *POSITIONS])
X = numbers("x", 2, 7, 8)
SHORT = X[:, :5]


def layer_of(width=8, **arguments):
    layer = MultiHeadAttention(**{**GROUPS, **arguments}, name="attention")
    layer.build((None, None, width))
    fill_weights(layer)
    return layer


def steps_of(layer, x, memory, state):
    contexts = []
    for i in range(x.shape[1]):
        context, _, state = layer.step(x[:, i], memory, state, position=i)
        contexts.append(context)
    return ops.stack(contexts, axis=1)


@pytest.mark.slow_compiled
def test_steps_equal_the_call_and_keep_the_smaller_cache():
    """Of all kinds of positions with groups, norms and a window, as self-attention and as cross-attention."""
    layers = [layer_of(positions=one, query_key_norm=True, sliding_window=3) for one in (None, *POSITIONS)]
    cross = [layer_of(positions=one, normalizer="sigmoid") for one in (None, *POSITIONS)]

    def run(x):
        pairs = []
        for layer in layers:
            memory = layer.prepare(max_length=9)
            pairs.append((steps_of(layer, x, memory, layer.initial_state(memory, 2)), layer(x, use_causal_mask=True)))
        for layer in cross:
            memory = layer.prepare(x[:, :4])
            pairs.append((steps_of(layer, x, memory, layer.initial_state(memory)), layer(x, x[:, :4])))
        return pairs

    pairs = compiled(run)(SHORT)
    for found, wanted in pairs:
        np.testing.assert_allclose(found, wanted, atol=4e-6)
    contexts = [wanted for _, wanted in pairs]
    for one, other in itertools.combinations(contexts, 2):
        assert np.abs(one - other).max() > 1e-3
    state = layers[0].initial_state(layers[0].prepare(max_length=9), 2)
    for part in ("key", "value"):
        assert {tuple(one.shape[:2]) for one in state[part]} == {(2, 2)}


@every_kind
def test_beams_that_share_their_keys(positions):
    assert_beams_share(layer_of(6, positions=positions, query_key_norm=True), numbers("beams", 2, 3, 5, 6))


@pytest.mark.one_backend
@every_kind
def test_far_positions_know_distances_alone(positions):
    """A sentence of 150 words, of which the first 7 are hidden, is one of 143: no distance has an end."""
    layer, x = layer_of(positions=positions), numbers("far", 1, 150, 8)
    wanted = layer(x[:, 7:], use_causal_mask=True)
    found = layer(x, use_causal_mask=True, value_mask=np.arange(150)[None] >= 7)
    np.testing.assert_allclose(to_numpy(found)[:, 7:], to_numpy(wanted), atol=1e-4)


@pytest.mark.one_backend
@pytest.mark.parametrize("name", ["weight_subtraction", "energy_accumulation"])
@every_kind
def test_recurrent_mechanisms_take_them(name, positions):
    """Without what is theirs, they are multi-head attention; a call of theirs equals their steps."""
    plain = {"weight_subtraction": {"subtraction": 0.0}, "energy_accumulation": {"mixing": 1.0}}[name]
    given = {"num_key_value_heads": 2, "positions": positions, "query_key_norm": True, "name": "attention"}
    base, alone, layer = (
        get_attention(one, 16, num_heads=4, **given, **more)
        for one, more in (("multi_head", {}), (name, plain), (name, {}))
    )
    query, value = numbers("query", 2, 4, 16), numbers("value", 2, 5, 16)
    for one in (base, alone, layer):
        one.build(query.shape, value.shape)
        fill_weights(one)
    np.testing.assert_allclose(to_numpy(alone(query, value)), to_numpy(base(query, value)), atol=2e-6)
    memory = layer.prepare(value)
    found = steps_of(layer, query, memory, layer.initial_state(memory))
    np.testing.assert_allclose(to_numpy(found), to_numpy(layer(query, value)), atol=4e-6)


@pytest.mark.one_backend
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_groups_of_keras(groups):
    theirs = keras.layers.GroupQueryAttention(6, 4, groups, name="attention")
    ours = layer_of(num_key_value_heads=groups)
    query, value = numbers("query", 2, 3, 8), numbers("value", 2, 5, 8)
    theirs.build(query.shape, value.shape)
    fill_weights(theirs, seed=1)
    ours.set_weights(theirs.get_weights())
    found, wanted = (one(query, value, return_attention_scores=True) for one in (ours, theirs))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(to_numpy(one), to_numpy(other), atol=2e-6)


@pytest.mark.one_backend
@of_pytorch
def test_groups_of_pytorch():
    """The kernel that takes fewer heads of keys and values."""
    import torch

    layer = layer_of()
    parts = [layer.project(part, ops.convert_to_tensor(X)) for part in ("query", "key", "value")]
    contexts = torch.nn.functional.scaled_dot_product_attention(*parts, is_causal=True, enable_gqa=True)
    wanted = to_numpy(layer.merge(contexts.detach(), None))
    np.testing.assert_allclose(to_numpy(layer(X, use_causal_mask=True)), wanted, atol=2e-6)


def assign(theirs, ours, names):
    """Give linear maps of PyTorch the kernels of ours, by name."""
    import torch

    for name, part in names.items():
        kernel = to_numpy(getattr(ours, part).matrix().detach())
        getattr(theirs, name).weight = torch.nn.Parameter(torch.tensor(kernel.T))


@pytest.mark.one_backend
@of_pytorch
@pytest.mark.parametrize("model", ["llama", "qwen3"])
def test_rotary_layers_of_transformers(model):
    """Rotary positions in groups of heads; those of Qwen have norms of queries and keys besides."""
    pytest.importorskip("transformers")
    import torch
    from transformers import LlamaConfig, Qwen3Config
    from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRotaryEmbedding
    from transformers.models.qwen3.modeling_qwen3 import Qwen3Attention

    norm = model == "qwen3"
    sizes = {"hidden_size": 8, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6}
    kind, of_model = (Qwen3Attention, Qwen3Config) if norm else (LlamaAttention, LlamaConfig)
    config = of_model(**sizes, num_hidden_layers=1, attn_implementation="eager")
    theirs = kind(config, layer_idx=0)
    ours = layer_of(positions="rotary", use_bias=False, query_key_norm=norm)
    assign(theirs, ours, {f"{part[0]}_proj": f"{part}_dense" for part in ("query", "key", "value", "output")})
    for part in ("query", "key") if norm else ():
        getattr(theirs, f"{part[0]}_norm").weight.data = getattr(ours, f"{part}_norm").scale.value.detach()
    x, after = torch.tensor(X), torch.triu(torch.full((7, 7), -torch.inf), 1)
    turns = LlamaRotaryEmbedding(config)(x, torch.arange(7)[None])
    wanted, scores = theirs(x, turns, after[None, None])
    found = ours(X, use_causal_mask=True, return_attention_scores=True)
    for one, other in zip(found, (wanted, scores), strict=True):
        np.testing.assert_allclose(to_numpy(one), other.detach().numpy(), atol=2e-6)


@pytest.mark.one_backend
@of_pytorch
def test_encoder_layer_of_t5():
    pytest.importorskip("transformers")
    import torch
    from transformers import T5Config
    from transformers.models.t5.modeling_t5 import T5Attention

    config = T5Config(d_model=8, d_kv=6, num_heads=4, attn_implementation="eager")
    theirs, x = T5Attention(config, has_relative_attention_bias=True).eval(), numbers("far", 1, 150, 8)
    ours = layer_of(positions="t5", use_bias=False, num_key_value_heads=4)
    assign(theirs, ours, {part[0]: f"{part}_dense" for part in ("query", "key", "value", "output")})
    theirs.q.weight.data /= 6**0.5
    theirs.relative_attention_bias.weight.data = ours.relative_positions.biases.value.detach()
    wanted = theirs(torch.tensor(x))[0].detach().numpy()
    np.testing.assert_allclose(to_numpy(ours(x)), wanted, atol=1e-5)
    distances = np.arange(-300, 301)
    wanted = T5Attention._relative_position_bucket(torch.tensor(distances)).numpy()
    np.testing.assert_array_equal(to_numpy(buckets(ops.convert_to_tensor(distances, "int32"))), wanted)
    assert [bucket(distance) for distance in range(-5, 6)] == wanted[295:306].tolist()


@pytest.mark.one_backend
@of_pytorch
def test_slopes_of_bloom():
    pytest.importorskip("transformers")
    import torch
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    for heads in range(1, 21):
        # The bias of the second position.
        wanted = build_alibi_tensor(torch.ones(1, 2), heads, torch.float32)[:, 0, 1]
        np.testing.assert_allclose(slopes(heads), wanted, rtol=1e-6)


@pytest.mark.one_backend
@of_pytorch
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("causal", [True, False])
def test_alibi_is_a_score_of_flex_attention(causal):
    """The slopes of four heads are 1/4, 1/16, 1/64, 1/256."""
    import torch
    from torch.nn.attention.flex_attention import flex_attention

    layer = layer_of(positions="alibi")
    parts = [layer.project(part, ops.convert_to_tensor(X)).detach() for part in ("query", "key", "value")]

    def score(energy, _, head, target, source):
        fallen = energy - 0.25 ** (head + 1) * (target - source).abs()
        return torch.where(source > target, -torch.inf, fallen) if causal else fallen

    wanted = layer.merge(flex_attention(*parts, score_mod=score, enable_gqa=True), None)
    np.testing.assert_allclose(to_numpy(layer(X, use_causal_mask=causal)), to_numpy(wanted), atol=2e-6)


@pytest.mark.one_backend
@of_pytorch
def test_relative_keys_of_transformers():
    """Shaw's vectors, clipped where ours are."""
    pytest.importorskip("transformers")
    import torch
    from transformers import Wav2Vec2BertConfig
    from transformers.models.wav2vec2_bert.modeling_wav2vec2_bert import Wav2Vec2BertSelfAttention

    config = Wav2Vec2BertConfig(
        hidden_size=8,
        num_attention_heads=4,
        position_embeddings_type="relative_key",
        left_max_position_embeddings=16,
        right_max_position_embeddings=16,
        attn_implementation="eager",
    )
    theirs, x = Wav2Vec2BertSelfAttention(config).eval(), numbers("far", 1, 40, 8)
    ours = layer_of(positions="shaw", key_dim=2, num_key_value_heads=4)
    parts = {"q": "query", "k": "key", "v": "value", "out": "output"}
    assign(theirs, ours, {f"linear_{name}": f"{part}_dense" for name, part in parts.items()})
    for name, part in parts.items():
        getattr(theirs, f"linear_{name}").bias.data = getattr(ours, f"{part}_dense").bias.value.detach().flatten()
    theirs.distance_embedding.weight.data = ours.relative_positions.vectors.value.detach()
    found = ours(x, return_attention_scores=True)
    for one, other in zip(found, theirs(torch.tensor(x)), strict=True):
        np.testing.assert_allclose(to_numpy(one), other.detach().numpy(), atol=2e-6)


@pytest.mark.one_backend
@of_pytorch
def test_softmax1_is_a_sink_of_gpt_oss():
    """Each head of it has a trained sink; here they are 0."""
    import torch

    module = pytest.importorskip("transformers.models.gpt_oss.modeling_gpt_oss")
    layer = layer_of(normalizer="softmax1")
    parts = [layer.project(part, ops.convert_to_tensor(X)).detach() for part in ("query", "key", "value")]
    theirs = SimpleNamespace(num_key_value_groups=2, sinks=torch.zeros(4), training=False)
    after = torch.full((7, 7), -torch.inf).triu(1)
    contexts, scores = module.eager_attention_forward(theirs, *parts, after, scaling=6**-0.5)
    found = layer(X, use_causal_mask=True, return_attention_scores=True)
    for one, other in zip(found, (layer.merge(contexts.transpose(1, 2), None), scores), strict=True):
        np.testing.assert_allclose(to_numpy(one), to_numpy(other), atol=2e-6)


@pytest.mark.one_backend
def test_vectors_of_far_distances():
    """Beyond 16 positions they are those of 16: with zeros for all others, the scores say which."""
    layer = layer_of(positions="shaw")
    vectors = layer.relative_positions.vectors
    vectors.assign(np.where(np.arange(33)[:, None] == 0, 1.0, 0.0) * np.ones(6))
    layer.key_dense.kernel.assign(0 * layer.key_dense.kernel)
    scores = to_numpy(layer(numbers("far", 1, 40, 8), return_attention_scores=True)[1])
    alike = np.isclose(scores, scores[..., :1], atol=1e-7).all(axis=(0, 1))
    np.testing.assert_array_equal(alike[17:39], np.tri(40, k=-16, dtype=bool)[17:39])


@pytest.mark.one_backend
def test_what_does_not_fit():
    layer = layer_of(positions="rotary")
    memory = layer.prepare(X)
    with pytest.raises(ValueError, match="a step with positions='rotary' needs its `position`, from 0"):
        layer.step(X[:, 0], memory, layer.initial_state(memory))
    with pytest.raises(
        ValueError, match=r"`positions` needs one axis to attend along. Received: attention_axes=\(1, 2"
    ):
        layer(numbers("axes", 2, 3, 4, 8))
    with pytest.raises(ValueError, match="takes no `num_key_value_heads`: each softmax has keys of its own"):
        get_attention("differential", 8, num_heads=2, num_key_value_heads=2)
    with pytest.raises(ValueError, match="takes no `positions`: a matrix for each head replaces its keys"):
        get_attention("retention", 8, num_heads=2, place="decoder", positions="rotary")
    for name in ("previous_weight", "accumulated_weight", "previous_context", "expanded_key_value_3", "gaussian"):
        place = "encoder" if name == "gaussian" else "cross"
        assert "positions" not in get_attention(name, 8, num_heads=2, place=place).get_config()
        for arguments in ({"num_key_value_heads": 1}, {"positions": "alibi"}, {"query_key_norm": True}):
            with pytest.raises(ValueError, match=f"takes no `{next(iter(arguments))}`: "):
                get_attention(name, 8, num_heads=2, place=place, **arguments)
