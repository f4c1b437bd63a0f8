"""The RNN translator's body against a float64 NumPy loop of its equations."""

import functools

import keras
import numpy as np
import pytest

from keras_attn_zoo.bodies import RNNBackbone
from keras_attn_zoo.layers import ATTENTIONS, AverageAttention, BahdanauAttention, LuongAttention
from keras_attn_zoo.support.errors import UserError
from tests import tiny
from tests.bodies.reference import ReferenceTranslator
from tests.layers.references import REFERENCES

# Recurrent float32 sums at weights of size 0.5; every backend stays below a tenth of this.
TOLERANCE = {"rtol": 0, "atol": 1e-5}

CONFIGS = {
    "bahdanau": {},
    "bahdanau_maxout_feeding_tied": {
        "encoder_layers": 2,
        "decoder_layers": 2,
        "readout": "maxout",
        "input_feeding": True,
        "initial_state": "tanh",
        "tie_embeddings": "all",
    },
    "feedback_lstm_tanh": {"cell": "lstm", "cross_attention": "bahdanau_feedback", "readout": "tanh"},
    "luong_general_lstm_feeding": {
        "cell": "lstm",
        "encoder_layers": 2,
        "decoder_layers": 2,
        "cross_attention": "luong_general",
        "attention_query": "current_state",
        "input_feeding": True,
        "readout": "tanh",
        "readout_embedding": False,
    },
    "luong_dot_one_way": {
        "bidirectional": False,
        "decoder_layers": 2,
        "cross_attention": "luong_dot",
        "attention_query": "current_state",
        "readout_dim": 7,
    },
}
USED = {arguments.get("cross_attention", "bahdanau") for arguments in CONFIGS.values()}
SPARSE = {"coverage": {"normalizer": "entmax15"}}
# Every other mechanism with one head, in turn before and after the cells; some want query and key of one width.
OTHERS = {
    name: {
        "cross_attention": {"attention": name, **REFERENCES[name].arguments, **SPARSE.get(name, {})},
        "bidirectional": False,
        "attention_query": ("previous_state", "current_state")[number % 2],
        "input_feeding": number % 3 == 0,
        "readout": "tanh",
    }
    for number, name in enumerate(name for name in ATTENTIONS if "cross" in ATTENTIONS[name].places)
    if name not in USED and REFERENCES[name].num_heads == 1
}
CONFIGS |= OTHERS
LATENT = {
    "latent_exact": {
        "cell": "lstm",
        "encoder_layers": 2,
        "cross_attention": "bahdanau_feedback",
        "readout": "state",
        "output": "latent",
    },
    "latent_posterior": {
        "cell": "lstm",
        "decoder_layers": 2,
        "cross_attention": "luong_general",
        "attention_query": "current_state",
        "readout": "tanh",
        "output": "latent",
        "posterior_feeding": True,
    },
    "latent_of_first_order": {"readout": "state", "output": "latent", "max_jump": 1},
    "latent_top_k_tied": {
        "readout": "tanh",
        "tie_embeddings": "target",
        "output": "latent",
        "marginalization": "top_k",
        "top_k": 3,
    },
}
# The same sums in another order or shape.
EXACT = {"rtol": 0, "atol": 2e-6}
# Between them the others have every path through the body.
ON_ONE_BACKEND = ("bahdanau", "luong_dot_one_way", *OTHERS)


def each(names):
    marked = [pytest.param(name, marks=pytest.mark.one_backend) for name in names if name in ON_ONE_BACKEND]
    return pytest.mark.parametrize("name", [*(name for name in names if name not in ON_ONE_BACKEND), *marked])


every_config = each([*CONFIGS, *LATENT])
every_config_that_guesses = each(CONFIGS)


def forward(backbone, x, **kwargs):
    outputs = backbone(x, **kwargs)
    return {**outputs, "logits": backbone.logits(outputs)}


def forced_positions():
    forced = np.random.default_rng(3).random((3, 6)) < 0.4
    forced[0, 0] = False
    return forced


@functools.cache
def computed(name):
    """Inputs, reference, and what the backbone gives: called, along its own guesses, and step by step."""
    arguments = {**CONFIGS, **LATENT}[name]
    backbone = tiny.backbone(**arguments)
    weights = {v.path: keras.ops.convert_to_numpy(v.value) for v in backbone.trainable_variables}
    x, _, _ = tiny.batch()

    def everything(x, forced):
        constants, memory, state = backbone.start_search(x["encoder_token_ids"], x["encoder_padding_mask"], 10)
        steps = []
        for position in range(4):
            logits, scores, state = backbone.search_step(x["decoder_token_ids"][:, position], memory, state, constants)
            steps.append({"logits": logits, "scores": scores})
        return {
            "call": forward(backbone, x),
            "guesses": forward(backbone, {**x, "teacher_forcing_mask": forced}) if name in CONFIGS else {},
            "steps": steps,
        }

    outputs = tiny.compiled(backbone, everything)(x, forced_positions())
    return x, ReferenceTranslator(weights, **tiny.BACKBONE, **arguments), outputs


def rows(x):
    """Source and target ids of every row, without padding."""
    for i in range(len(x["encoder_token_ids"])):
        source = x["encoder_token_ids"][i][x["encoder_padding_mask"][i]]
        yield i, source, x["decoder_token_ids"][i][x["decoder_padding_mask"][i]]


@every_config
def test_call_equals_numpy_one_sentence_at_a_time(name):
    x, reference, outputs = computed(name)
    outputs = outputs["call"]
    assert outputs["attention_scores"].shape == (3, 1, 6, 7)
    for i, source, target in rows(x):
        s, t = len(source), len(target)
        readouts, logits, weights, _ = reference.decode(source, target)
        np.testing.assert_allclose(outputs["encoder_sequence_output"][i, :s], reference.encode(source)[0], **TOLERANCE)
        np.testing.assert_allclose(outputs["decoder_sequence_output"][i, :t], readouts, **TOLERANCE)
        np.testing.assert_allclose(outputs["logits"][i, :t], logits, **TOLERANCE)
        np.testing.assert_allclose(outputs["attention_scores"][i, 0, :t, :s], weights, **TOLERANCE)
        assert not outputs["attention_scores"][i, 0, t:].any()
        assert not outputs["attention_scores"][i, 0, :, s:].any()


@every_config
def test_steps_equal_numpy(name):
    x, reference, outputs = computed(name)
    for i, source, target in rows(x):
        _, logits, weights, _ = reference.decode(source, target)
        for position in range(min(4, len(target))):
            step = outputs["steps"][position]
            np.testing.assert_allclose(step["logits"][i], logits[position], **TOLERANCE)
            np.testing.assert_allclose(step["scores"][i, 0, : len(source)], weights[position], **TOLERANCE)
            assert not step["scores"][i, 0, len(source) :].any()


@every_config_that_guesses
def test_guesses_equal_numpy_feeding_its_own_argmax(name):
    x, reference, outputs = computed(name)
    outputs = outputs["guesses"]
    own = 0
    for i, source, target in rows(x):
        s, t = len(source), len(target)
        readouts, logits, weights, read = reference.decode(source, target, forced_positions()[i])
        own += sum(read[k] != target[k] for k in range(t))
        np.testing.assert_allclose(outputs["decoder_sequence_output"][i, :t], readouts, **TOLERANCE)
        np.testing.assert_allclose(outputs["logits"][i, :t], logits, **TOLERANCE)
        np.testing.assert_allclose(outputs["attention_scores"][i, 0, :t, :s], weights, **TOLERANCE)
    assert own > 3


def test_what_changes_nothing():
    name = "feedback_lstm_tanh"
    x, _, outputs = computed(name)
    plain = outputs["call"]
    arguments = {**CONFIGS, **LATENT}[name]
    backbone = tiny.backbone(**arguments)
    padded = {
        "encoder_token_ids": np.pad(x["encoder_token_ids"], ((0, 0), (0, 4)), constant_values=9),
        "encoder_padding_mask": np.pad(x["encoder_padding_mask"], ((0, 0), (0, 4))),
        "decoder_token_ids": np.pad(x["decoder_token_ids"], ((0, 0), (0, 3)), constant_values=9),
        "decoder_padding_mask": np.pad(x["decoder_padding_mask"], ((0, 0), (0, 3))),
    }
    padded["decoder_token_ids"][:, 4:] = 11
    bare = {key: value for key, value in x.items() if key != "decoder_padding_mask"}
    padded, forced, bare = tiny.compiled(backbone, lambda *inputs: [forward(backbone, x) for x in inputs])(
        padded, {**x, "teacher_forcing_mask": np.ones((3, 6), "bool")}, bare
    )
    # More padding, and other tokens at later positions.
    np.testing.assert_allclose(padded["logits"][:, :4], plain["logits"][:, :4], **EXACT)
    np.testing.assert_allclose(padded["attention_scores"][:, :, :4, :7], plain["attention_scores"][:, :, :4], **EXACT)
    assert not padded["attention_scores"][..., 7:].any()
    assert not padded["attention_scores"][:, :, 6:].any()
    # A teacher who always forces.
    for key in plain:
        np.testing.assert_allclose(forced[key], plain[key], **EXACT)
    # Without a mask of the target every position has its weights.
    np.testing.assert_allclose(bare["logits"], plain["logits"], **EXACT)
    np.testing.assert_allclose(bare["attention_scores"].sum(-1), 1, rtol=0, atol=1e-5)


def test_mixed_precision_is_close_and_keeps_scores_in_float32():
    name = "luong_general_lstm_feeding"
    x, _, exact = computed(name)
    mixed = tiny.backbone(dtype="mixed_bfloat16", **CONFIGS[name])
    types = {}

    def run(x):
        outputs = mixed(x)
        types.update({key: keras.backend.standardize_dtype(value.dtype) for key, value in outputs.items()})
        return outputs

    outputs = tiny.compiled(mixed, run)(x)
    assert types["attention_scores"] == "float32"
    assert types["encoder_sequence_output"] == types["decoder_sequence_output"] == "bfloat16"
    assert {v.dtype for v in mixed.trainable_variables} == {"float32"}
    np.testing.assert_allclose(
        outputs["decoder_sequence_output"], exact["call"]["decoder_sequence_output"], rtol=0, atol=0.06
    )
    np.testing.assert_allclose(outputs["attention_scores"].sum(-1)[:, 0], x["decoder_padding_mask"], rtol=0, atol=1e-5)


# Dropout.


def test_dropout_is_active_in_training_alone_and_never_the_same_twice():
    backbone = tiny.backbone(dropout=0.5, readout="tanh")
    x, _, _ = tiny.batch(rows=8)
    run = tiny.compiled(backbone, lambda x: [backbone(x, training=training) for training in (True, False)])
    (first, still), (second, again) = run(x), run(x)
    real = {
        "encoder_sequence_output": x["encoder_padding_mask"],
        "decoder_sequence_output": x["decoder_padding_mask"],
    }
    for key, mask in real.items():
        assert np.abs(first[key] - second[key])[mask].max() > 0.1
        np.testing.assert_array_equal(still[key], again[key])
        assert not (still[key][mask] == 0).any()
    dropped = first["decoder_sequence_output"][x["decoder_padding_mask"]] == 0
    assert 0.35 < dropped.mean() < 0.65


def test_every_dropout_of_the_decoder_matters_alone():
    decoder = tiny.backbone(dropout=0.5, decoder_layers=2).decoder
    sites = [decoder.embedding_dropout, decoder.layer_dropout, decoder.readout_dropout]
    encoder_outputs, initial = np.ones((2, 3, 10), "float32"), [np.ones((2, 5), "float32")] * 2

    def run(ids):
        readouts = [decoder(ids, encoder_outputs, initial)[0]]
        for chosen in sites:
            for site in sites:
                site.rate = 0.5 if site is chosen else 0
            readouts.append(decoder(ids, encoder_outputs, initial, training=True)[0])
        return readouts

    inference, *training = tiny.compiled(decoder, run)(np.full((2, 6), 5, "int32"))
    for readouts in training:
        assert np.abs(readouts - inference).max() > 1e-2


@pytest.mark.parametrize(
    "attention", ["multi_head", pytest.param("expanded_key_value_3", marks=pytest.mark.one_backend)]
)
def test_dropout_of_the_attention_reaches_every_loop(attention):
    """Drawn before the loop, where JAX would leak it, anew for every position; and there is none outside training."""
    arguments = {"attention": attention, "dropout": 0.5}
    orders = {"previous_state": "in turn", "current_state": "attention last"}
    backbones = [tiny.backbone(hidden_dim=8, cross_attention=arguments, attention_query=order) for order in orders]
    x, _, _ = tiny.batch(rows=2)
    inputs = [x, {**x, "teacher_forcing_mask": np.ones((2, 6), bool)}, x]

    def run(*inputs):
        bodies = [backbones[0], backbones[0], backbones[1]]
        return [[body(x, training=t) for t in (True, False)] for body, x in zip(bodies, inputs, strict=True)]

    both = keras.layers.Layer()
    both.backbones = backbones
    run = tiny.compiled(both, run)
    for first, second in zip(run(*inputs), run(*inputs), strict=True):
        (dropped, plain), (again, same) = ([out["decoder_sequence_output"] for out in x] for x in (first, second))
        np.testing.assert_array_equal(plain, same)
        changed = np.abs(dropped - again).max(-1)
        assert (changed[0] > 1e-4).sum() > 3
        assert np.abs(dropped - plain).max() > 1e-2


def test_a_context_may_be_of_another_width_than_the_encoder():
    backbone = tiny.backbone(hidden_dim=8, cross_attention="multi_head")
    x, _, _ = tiny.batch(rows=2)
    outputs = tiny.compiled(backbone, backbone)(x)
    assert outputs["encoder_sequence_output"].shape[-1] == 16
    assert outputs["decoder_sequence_output"].shape[-1] == 8 + 8 + 6


# Tied embeddings, configuration, errors.


@pytest.mark.one_backend
@pytest.mark.parametrize("tie, tables", [("none", 3), ("target", 2), ("all", 1)])
def test_tied_embeddings_share_their_weights(tie, tables):
    backbone = RNNBackbone(40, 40, embedding_dim=6, hidden_dim=5, readout="tanh", readout_dim=6, tie_embeddings=tie)
    wide = [v for v in backbone.trainable_variables if 40 in v.shape and len(v.shape) == 2]
    assert len(wide) == tables
    gru = 3 * 5
    encoder, decoder = 2 * (6 + 5 + 2) * gru, (6 + 10 + 5 + 2) * gru
    attention, bridge, readout = 5 * 5 + 10 * 5 + 5 + 5, 10 * 5 + 5, (5 + 10 + 6) * 6 + 6
    bias = 40 if tie == "none" else 0
    assert backbone.count_params() == (tables * 40 * 6 + bias + encoder + decoder + attention + bridge + readout)


@pytest.mark.one_backend
def test_tied_readout_is_as_wide_as_an_embedding():
    assert tiny.backbone(tie_embeddings="target").readout_dim == 6
    assert tiny.backbone(readout="tanh").readout_dim == 5
    assert tiny.backbone().readout_dim is None


@pytest.mark.one_backend
@pytest.mark.parametrize("attention", ["luong_general", BahdanauAttention(3), LuongAttention("concat", 4)])
def test_config_round_trip_keeps_arguments_and_function(attention):
    arguments = {
        "cell": "lstm",
        "decoder_layers": 2,
        "cross_attention": attention,
        "input_feeding": True,
        "readout": "maxout",
        "readout_dim": 4,
        "readout_embedding": False,
        "initial_state": "tanh",
        "dropout": 0.25,
        "dtype": "float32",
    }
    first = tiny.backbone(**arguments)
    config = first.get_config()
    second = RNNBackbone.from_config(config)
    assert second.get_config() == config
    assert [v.path for v in second.weights] == [v.path for v in first.weights]
    assert [tuple(v.shape) for v in second.weights] == [tuple(v.shape) for v in first.weights]


@pytest.mark.one_backend
def test_every_attention_of_the_registry_builds():
    for name, entry in ATTENTIONS.items():
        if "cross" in entry.places:
            tiny.backbone(cross_attention=name, bidirectional=False, hidden_dim=8)


@pytest.mark.one_backend
@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"cell": "rnn"}, "gru, lstm"),
        ({"attention_query": "state"}, "previous_state, current_state"),
        ({"readout": "relu"}, "linear, tanh, maxout"),
        ({"initial_state": "zero"}, "linear, tanh"),
        ({"tie_embeddings": "source"}, "none, target, all"),
        ({"cross_attention": "bahdanov"}, "'bahdanov' is not a cross attention: did you mean bahdanau"),
        ({"cross_attention": keras.layers.Dense(3)}, "received Dense"),
        ({"tie_embeddings": "all", "target_vocabulary_size": 33}, "32 source and 33 target"),
        ({"tie_embeddings": "target", "readout_dim": 9}, "embedding_dim = 6; received 9"),
        ({"hidden_dim": 0}, "hidden_dim must be a positive integer; received 0"),
        ({"dropout": 1}, "dropout must be at least 0 and below 1; received 1"),
        (
            {"cross_attention": AverageAttention()},
            "AverageAttention is not a cross attention: use it as decoder",
        ),
    ],
)
def test_errors_say_what_is_valid(arguments, message):
    sizes = {"source_vocabulary_size": 32, "target_vocabulary_size": 32, **tiny.BACKBONE}
    with pytest.raises(UserError, match=message):
        RNNBackbone(**{**sizes, **arguments})
