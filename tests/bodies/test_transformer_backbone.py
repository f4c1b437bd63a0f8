"""The Transformer translator's body against a float64 NumPy loop of its equations, and its search against its call."""

import functools

import keras
import numpy as np
import pytest

from keras_attn_zoo.bodies import TransformerBackbone
from keras_attn_zoo.bodies.backbone import OPTIONAL_INPUTS
from keras_attn_zoo.kernels import scan
from keras_attn_zoo.layers import (
    AverageAttention,
    BahdanauAttention,
    GaussianAttention,
    MultiHeadAttention,
    RecurrentAttention,
)
from keras_attn_zoo.support.errors import UserError
from tests import tiny
from tests.bodies.transformer_reference import ReferenceTransformer

SIZES = {**tiny.TRANSFORMER, "max_length": 13}
RAN = {"attention": "recurrent"}
GROUPED = {"attention": "multi_head", "num_key_value_heads": 1}
# Two or three layers of float32 sums, normalised in between.
TOLERANCE = {"rtol": 0, "atol": 2e-5}

CONFIGS = {
    "plain": {},
    "pre_norm_learned_tied": {
        "normalization": "pre",
        "encoder_positions": "learned",
        "decoder_positions": "none",
        "tie_embeddings": "all",
    },
    "recurrent": {
        "encoder_layers": 3,
        "encoder_attention": "recurrent",
        "decoder_attention": ["recurrent", "multi_head"],
        "tie_embeddings": "target",
    },
    "recurrent_ablated": {
        "encoder_attention": {"attention": "recurrent", "normalize": False, "trainable": False, "cell": "gru"},
        "decoder_attention": {"attention": "recurrent", "residual": False, "cell": "lstm"},
    },
    "of_2026": {
        "normalization": "pre",
        "norm": "rms",
        "activation": "swiglu",
        "encoder_positions": "rotary",
        "decoder_positions": "rotary",
        "encoder_attention": {**GROUPED, "normalizer": "sigmoid"},
        "decoder_attention": {**GROUPED, "query_key_norm": True},
        "cross_attention": {**GROUPED, "positions": "alibi"},
    },
    "of_distances": {
        "activation": "geglu",
        "norm": "rms",
        "encoder_positions": "t5",
        "decoder_positions": "shaw",
        "decoder_attention": ["multi_head", {"attention": "multi_head", "normalizer": "softmax1"}],
    },
    "latent": {"output": "latent", "encoder_attention": "gaussian"},
    "latent_top_k_tied": {
        "output": "latent",
        "marginalization": "top_k",
        "top_k": 3,
        "tie_embeddings": "all",
        "attention_layer": 0,
        "normalization": "pre",
    },
    "latent_of_first_order": {"output": "latent", "max_jump": 2, "attention_layer": -1},
    "latent_of_one_head": {"output": "latent", "attention_layer": "0:1"},
    **{name: {**arguments, "decoder_layers": 3} for name, arguments in tiny.MIXED.items()},
}
# Between them these have every path through the body; each mechanism under every backend has the laws.
ON_EVERY_BACKEND = ("plain", "recurrent", tiny.EVERY_STATE[0], "latent", "of_2026")
every_config = pytest.mark.parametrize(
    "name",
    [name if name in ON_EVERY_BACKEND else pytest.param(name, marks=pytest.mark.one_backend) for name in CONFIGS],
)

build = functools.partial(tiny.transformer, max_length=SIZES["max_length"])


def forward(backbone, x):
    outputs = backbone(x)
    return {**outputs, "logits": backbone.logits(outputs)}


def steps_of(backbone, x, count):
    """Logits and scores of a search along the given target, as a loop whose body is compiled once."""
    constants, memory, state = backbone.start_search(x["encoder_token_ids"], x["encoder_padding_mask"], 10)

    def step(state, token_ids):
        logits, scores, state = backbone.search_step(token_ids, memory, state, constants)
        return state, (logits, scores)

    token_ids = keras.ops.transpose(x["decoder_token_ids"][:, :count])
    _, (logits, scores) = scan(step, state, token_ids)
    return [{"logits": logits[i], "scores": scores[i]} for i in range(count)]


@functools.cache
def computed(name):
    """Inputs, reference, and what the body gives: called, of all layers, and step by step."""
    arguments = {"attention_layer": "all", **CONFIGS[name]}
    backbone = build(**arguments)
    weights = {v.path: keras.ops.convert_to_numpy(v.value) for v in backbone.variables}
    x, _, _ = tiny.batch()
    everything = backbone.attention_model()

    def run(x):
        scores = everything({"teacher_forcing_mask": None, **x})
        return {"call": forward(backbone, x), "scores": scores, "steps": steps_of(backbone, x, 6)}

    reference = ReferenceTransformer(
        weights, **{k: v for k, v in {**SIZES, **arguments}.items() if k not in ("ffn_dim", "max_length")}
    )
    return x, reference, tiny.compiled(backbone, run)(x)


def rows(x):
    """Source and target ids of every row, without padding."""
    for i in range(len(x["encoder_token_ids"])):
        source = x["encoder_token_ids"][i][x["encoder_padding_mask"][i]]
        yield i, source, x["decoder_token_ids"][i][x["decoder_padding_mask"][i]]


@every_config
def test_call_and_scores_equal_numpy_one_sentence_at_a_time(name):
    x, reference, outputs = computed(name)
    outputs, scores = outputs["call"], outputs["scores"]
    for i, source, target in rows(x):
        s, t = len(source), len(target)
        encoded, encoder_scores = reference.encode(source)
        decoded, logits, self_scores, cross_scores = reference.decode(source, target)
        np.testing.assert_allclose(outputs["encoder_sequence_output"][i, :s], encoded, **TOLERANCE)
        np.testing.assert_allclose(outputs["decoder_sequence_output"][i, :t], decoded, **TOLERANCE)
        np.testing.assert_allclose(outputs["logits"][i, :t], logits, **TOLERANCE)
        np.testing.assert_allclose(
            outputs["attention_scores"][i, :, :t, :s], reference.of_layer(cross_scores), **TOLERANCE
        )
        wanted = {"encoder": encoder_scores, "decoder": self_scores, "cross": cross_scores}
        for place, (queries, keys) in {"encoder": (s, s), "decoder": (t, t), "cross": (t, s)}.items():
            assert len(scores[place]) == len(wanted[place])
            for found, one in zip(scores[place], wanted[place], strict=True):
                np.testing.assert_allclose(found[i, :, :queries, :keys], one, **TOLERANCE)
                assert not found[i, :, queries:].any()
                assert place == "decoder" or not found[i, :, :, keys:].any()


@every_config
def test_steps_equal_numpy(name):
    x, reference, outputs = computed(name)
    for i, source, target in rows(x):
        _, logits, _, cross_scores = reference.decode(source, target)
        for position in range(len(target)):
            step = outputs["steps"][position]
            np.testing.assert_allclose(step["logits"][i], logits[position], **TOLERANCE)
            found, wanted = step["scores"][i], reference.of_layer(cross_scores)[:, position]
            np.testing.assert_allclose(found[:, : len(source)], wanted, **TOLERANCE)
            assert not found[:, len(source) :].any()


@pytest.mark.one_backend
def test_shared_matrices_count_once():
    """The layers of a side share one set of matrices and one transition, frozen or not."""
    n, d = SIZES["max_length"], SIZES["width"]
    plain, recurrent = build(encoder_layers=3), build(encoder_layers=3, encoder_attention="recurrent")
    shared = 2 * n * n + n * n + n + 2 * n
    assert recurrent.count_params() - plain.count_params() == shared - 3 * 2 * (d * d + d)
    frozen = build(encoder_layers=3, encoder_attention={"attention": "recurrent", "trainable": False})
    assert sum(np.prod(w.shape) for w in frozen.non_trainable_weights if w.dtype == "float32") == 2 * n * n


@pytest.mark.one_backend
def test_instances_and_lists_of_attentions():
    """An instance stands for the weights of its own that each layer gets; in a list each layer has its mechanism."""
    attention = MultiHeadAttention(num_heads=4, key_dim=3, name="mine")
    backbone = build(
        encoder_attention=RecurrentAttention(num_heads=2, key_dim=4),
        decoder_attention=[GaussianAttention(2, 4, offsets=(-2, 0)), {"attention": "gaussian", "sigma": 2.0}],
        cross_attention=attention,
    )
    assert not attention.built
    assert [scores.shape[1] for scores in backbone.attention_outputs["cross"]] == [4, 4]
    paths = [w.path for w in backbone.weights]
    assert len(paths) == len(set(paths))
    again = TransformerBackbone.from_config(backbone.get_config())
    assert again.get_config() == backbone.get_config()
    assert [w.path for w in again.weights] == paths


@pytest.mark.one_backend
@pytest.mark.parametrize("name", ["plain", "pre_norm_learned_tied", "recurrent_ablated"])
def test_config_round_trip(name):
    first = build(**CONFIGS[name], dropout=0.2, attention_dropout=0.3, activation_dropout=0.1, attention_layer=0)
    second = TransformerBackbone.from_config(first.get_config())
    assert second.get_config() == first.get_config()
    assert [(w.path, w.shape) for w in second.weights] == [(w.path, w.shape) for w in first.weights]


def test_dropouts_act_in_training_alone():
    x, _, _ = tiny.batch()
    for rate in ("dropout", "attention_dropout", "activation_dropout"):
        model = build(**{"dropout": 0.0, "encoder_layers": 1, "decoder_layers": 1, rate: 0.5})
        run = tiny.compiled(
            model, lambda x, model=model: [model(x, training=training) for training in (False, False, True)]
        )
        first, second, trained = (found["decoder_sequence_output"] for found in run(x))
        np.testing.assert_array_equal(first, second)
        assert np.abs(trained - first).max() > 0.01, rate


def test_mixed_precision_stays_close():
    x, _, _ = tiny.batch()
    plain, mixed = build(), build(dtype="mixed_bfloat16")
    wanted, found = (tiny.compiled(model, model)(x) for model in (plain, mixed))
    assert mixed.output["attention_scores"].dtype == "float32"
    assert mixed.output["decoder_sequence_output"].dtype == "bfloat16"
    for key, value in wanted.items():
        np.testing.assert_allclose(found[key], value, rtol=0, atol=0.1 * np.abs(value).max())


@pytest.mark.one_backend
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"normalization": "between"}, "normalization must be one of post, pre; received 'between'"),
        (
            {"encoder_positions": "rotation"},
            "encoder_positions must be one of sine, halved_sine, learned, none, rotary",
        ),
        ({"decoder_positions": None}, "rotary, alibi, shaw, t5; received None"),
        ({"activation": "reglu"}, "activation must be one of relu, silu, gelu, tanh, swiglu, geglu; received 'reglu'"),
        ({"norm": "batch"}, "norm must be one of layer, rms; received 'batch'"),
        (
            {"decoder_attention": ["multi_head", "average"], "decoder_positions": "rotary"},
            "decoder_positions='rotary' needs a self-attention that takes `positions`, which 'average' does not",
        ),
        (
            {"encoder_attention": MultiHeadAttention(2, 4), "encoder_positions": "t5"},
            "encoder_positions='t5' needs a self-attention that takes `positions`, which 'MultiHeadAttention' does not",
        ),
        (
            {"encoder_positions": "rotary", "num_heads": 8},
            "rotary positions need an even `key_dim`. Received: key_dim=1",
        ),
        ({"encoder_attention": {**GROUPED, "num_key_value_heads": 3}}, "must divide num_heads=2. Received: .*=3"),
        (
            {"output": "latent", "cross_attention": {"attention": "multi_head", "normalizer": "sigmoid"}},
            "weights are probabilities: choose another normalizer; received 'sigmoid'",
        ),
        ({"tie_embeddings": "all", "target_vocabulary_size": 29}, "28 source and 29 target tokens"),
        (
            {"encoder_attention": "average"},
            "'average' is not an encoder attention but a decoder attention .*: choose one of .*gaussian, .*multi_head",
        ),
        ({"cross_attention": "recurrent"}, "'recurrent' is not a cross attention"),
        ({"cross_attention": ["multi_head"] * 3}, "cross attention: 3 mechanisms for 2 layers"),
        ({"cross_attention": {"attention": "multi_head", "window": 3}}, "'multi_head' has no argument 'window'"),
        ({"num_heads": 3}, "a width of 8 is not divisible by 3 heads"),
        ({"attention_layer": 2}, "attention_layer must name one of the 2 layers, or .all.; received 2"),
        ({"attention_layer": "2:0"}, "attention_layer must name one of the 2 layers, or .all.; received '2:0'"),
        ({"attention_layer": "-1:2"}, "'-1:2' names a head that its layer does not have: choose one from 0 to 1"),
        ({"attention_layer": 1.0}, "attention_layer must be an integer .* or one head of a layer such as -1:0; .* 1.0"),
        ({"attention_layer": "1:-1"}, "attention_layer must be an integer .* such as -1:0; received '1:-1'"),
        ({"num_heads": 0}, "num_heads must be a positive integer; received 0"),
        ({"width": "abc"}, "width must be a positive integer; received 'abc'"),
        ({"ffn_dim": True}, "ffn_dim must be a positive integer; received True"),
        ({"decoder_layers": 2.5}, "decoder_layers must be a positive integer; received 2.5"),
        ({"attention_dropout": 1.5}, "attention_dropout must be at least 0 and below 1; received 1.5"),
        ({"dropout": "a"}, "dropout must be at least 0 and below 1; received 'a'"),
        ({"marginalization": "viterbi"}, "marginalization must be one of exact, top_k, max, hard; received 'viterbi'"),
        ({"max_jump": 3}, "max_jump needs output='latent' and marginalization='exact'; .* output='softmax'"),
        ({"output": "latent", "max_jump": 0}, "max_jump must be a positive integer; received 0"),
        (
            {"output": "latent", "marginalization": "hard", "max_jump": 3},
            "max_jump needs .*; received max_jump=3 with output='latent' and marginalization='hard'",
        ),
        ({"output": "latent", "top_k": 0}, "top_k must be a positive integer; received 0"),
        ({"decoder_attention": {"name": "average"}}, "must have a name as 'attention', or be a serialised layer"),
        (
            {"decoder_attention": {"attention": MultiHeadAttention(2, 4), "dropout": 0.3}},
            ".attention. in a dict must be a name",
        ),
        (
            {"encoder_attention": AverageAttention()},
            "AverageAttention is not an encoder attention: use it as",
        ),
        ({"encoder_attention": BahdanauAttention(4)}, "BahdanauAttention is not an encoder attention"),
        ({"cross_attention": GaussianAttention(2, 4)}, "GaussianAttention is not a cross attention"),
        ({"decoder_attention": GaussianAttention(2, 4)}, "looks ahead, which a decoder cannot"),
        ({"decoder_attention": MultiHeadAttention(2, 4, output_shape=6)}, "as wide as the model, 8; .* output_shape=6"),
        ({"encoder_attention": ["recurrent", {**RAN, "normalize": False}]}, "share their matrices: describe it alike"),
        ({"encoder_attention": [RAN, {**RAN, "num_heads": 4}]}, "share their matrices: describe it alike"),
        ({"encoder_attention": {**RAN, "causal": True}}, "the place determines whether it is causal: leave causal out"),
    ],
)
def test_errors_say_what_is_valid(arguments, message):
    sizes = {"source_vocabulary_size": 28, "target_vocabulary_size": 28, **SIZES}
    with pytest.raises(UserError, match=message):
        TransformerBackbone(**{**sizes, **arguments})


@pytest.mark.one_backend
def test_weights_of_attention_are_float32_whatever_the_policy_of_all_layers():
    policy = keras.config.dtype_policy()
    x, labels, _ = tiny.batch()
    try:
        keras.config.set_dtype_policy("mixed_bfloat16")
        model = build(output="latent")
        found = (
            model(x)["attention_scores"],
            model.posterior_model()({**OPTIONAL_INPUTS, **x, "decoder_labels": labels}),
        )
    finally:
        keras.config.set_dtype_policy(policy)
    for weights in found:
        assert keras.backend.standardize_dtype(weights.dtype) == "float32"
        sums = keras.ops.convert_to_numpy(weights).sum(-1)[
            x["decoder_padding_mask"][:, None].repeat(weights.shape[1], 1)
        ]
        np.testing.assert_allclose(sums, 1, atol=1e-6)


@pytest.mark.one_backend
def test_sentences_longer_than_the_positions():
    x, _, _ = tiny.batch(source=14)
    with pytest.raises(UserError, match="a sentence of 14 tokens is longer than max_length=13"):
        build(encoder_positions="learned")(x)
    with pytest.raises(ValueError, match="LearnedPositions: a sentence of 14 positions is longer than `max_length`=13"):
        build(decoder_positions="learned").start_search(
            *(x[f"encoder_{name}"] for name in ("token_ids", "padding_mask")), 14
        )
    for name in ("recurrent", "random_synthesizer", "dense_synthesizer"):
        with pytest.raises(ValueError, match="longer than `max_length`=13"):
            build(encoder_attention=name)(x)
    assert build()(x)["attention_scores"].shape == (3, 2, 6, 14)


@pytest.mark.one_backend
def test_no_free_running_training():
    x, _, _ = tiny.batch()
    with pytest.raises(UserError, match="leave teacher_forcing_mask out"):
        build()({**x, "teacher_forcing_mask": np.ones((3, 6), "bool")})


@pytest.mark.parametrize("body", [tiny.backbone, tiny.transformer])
def test_a_model_on_a_body_takes_what_a_preprocessor_makes(body):
    task = tiny.translator(body=body)
    x, *_ = task.preprocessor(
        {"encoder_text": tiny.sentences("source")[:2], "decoder_text": tiny.sentences("target")[:2]}
    )
    found = keras.Model(task.input, task.backbone(task.input)).predict(x, verbose=0)
    for name, wanted in tiny.as_numpy(task.backbone(x)).items():
        np.testing.assert_allclose(found[name], wanted, rtol=0, atol=1e-5)
