"""Arguments that do not fit a layer are refused, in a line that names the layer, the argument and what was received."""

import pytest

from keras_attn_zoo.layers import (
    AverageAttention,
    BahdanauAttention,
    DifferentialAttention,
    EnergyAccumulationAttention,
    ExpandedKeyValueAttention,
    GatedDeltaAttention,
    GaussianAttention,
    GaussianMixtureAttention,
    InitialAttention,
    LatentAlignmentHead,
    LinearAttention,
    LuongAttention,
    MultiHeadAttention,
    MultiHeadLatentAttention,
    RandomSynthesizerAttention,
    RecurrentAttention,
    RetentionAttention,
    SlidingWindowAttention,
    StructuralBiasAttention,
    WeightSubtractionAttention,
)

pytestmark = pytest.mark.one_backend

HEADS = {"num_heads": 2, "key_dim": 3}
# What is given besides.
GIVEN = {
    **{layer: {} for layer in (AverageAttention, BahdanauAttention, GaussianMixtureAttention, LuongAttention)},
    InitialAttention: {"num_heads": 2, "max_length": 3},
    LatentAlignmentHead: {"vocabulary_size": 9, "width": 4},
    StructuralBiasAttention: {"units": 3},
}
REFUSED = {
    AverageAttention: [
        ({"ffn_dim": 0}, "`ffn_dim` must be a positive integer. Received: ffn_dim=0"),
        ({"use_ffn": False, "ffn_dim": 3}, "`ffn_dim` needs use_ffn=True"),
        ({"dropout": 1}, r"`dropout` must lie in \[0, 1\). Received: dropout=1"),
    ],
    BahdanauAttention: [
        ({"units": units}, f"`units` must be a positive integer. Received: units={units!r}")
        for units in (0, -3, 2.5, "8", None)
    ],
    DifferentialAttention: [
        ({"num_heads": 0}, "`num_heads` must be a positive integer. Received: num_heads=0"),
        ({"num_heads": "2"}, "`num_heads` must be a positive integer. Received: num_heads='2'"),
        ({"lambda_init": 1}, r"`lambda_init` must lie in \[0, 1\). Received: lambda_init=1"),
        ({"lambda_init": True}, r"`lambda_init` must lie in \[0, 1\). Received: lambda_init=True"),
    ],
    EnergyAccumulationAttention: [
        ({"mixing": 0}, r"`mixing` must lie in \(0, 1\]. Received: mixing=0"),
        ({"mixing": 1.1}, r"`mixing` must lie in \(0, 1\]. Received: mixing=1.1"),
        ({"mixing": "half"}, r"`mixing` must lie in \(0, 1\]"),
        ({"mixing": True}, r"`mixing` must lie in \(0, 1\]. Received: mixing=True"),
        ({"window": -1}, "`window` must be .* 0 to 1000. Received: window=-1"),
        ({"window": 2.5}, "`window` must be an integer from 0 to 1000"),
        ({"window": 10**6}, "`window` must be an integer from 0 to 1000"),
    ],
    ExpandedKeyValueAttention: [
        ({"variant": 5}, "`variant` must be one of 1, 2, 3, 4. Received: variant=5"),
        ({"variant": "1"}, "`variant` must be one of 1, 2, 3, 4. Received: variant='1'"),
        ({"variant": True}, "`variant` must be one of"),
    ],
    **{
        layer: [({"dropout": 0.1}, "`dropout` drops weights, of which its state has none.* Received: dropout=0.1")]
        for layer in (LinearAttention, GatedDeltaAttention)
    },
    RetentionAttention: [({"key_dim": 5}, "`key_dim` must be even, .* Received: key_dim=5")],
    SlidingWindowAttention: [
        ({"window": 0}, "`window` must be a positive integer. Received: window=0"),
        ({"sinks": -1}, "`sinks` must be an integer of at least 0. Received: sinks=-1"),
        ({"sinks": 1.5}, "`sinks` must be an integer of at least 0. Received: sinks=1.5"),
        ({"sliding_window": 2}, "`sliding_window` .* give the window as `window`. Received: sliding_window=2"),
    ],
    GaussianAttention: [
        ({"sigma": -1.0}, "`sigma` must be a positive number. Received: sigma=-1.0"),
        ({"sigma": 0}, "`sigma` must be a positive number. Received: sigma=0"),
        ({"sigma": True}, "`sigma` must be a positive number. Received: sigma=True"),
        ({"sigma": "1"}, "`sigma` must be a positive number. Received: sigma='?1"),
        ({"offsets": ()}, "`offsets` must be one or more integers"),
        ({"offsets": (0.5,)}, "`offsets` must be one or more integers"),
        ({"offsets": 1}, "`offsets` must be one or more integers. Received: offsets=1"),
    ],
    GaussianMixtureAttention: [({"components": 0}, "`components` must be a positive integer. Received: components=0")],
    InitialAttention: [
        ({"max_length": -1}, "`max_length` must be a positive integer. Received: max_length=-1"),
        ({"num_heads": 0}, "`num_heads` must be a positive integer. Received: num_heads=0"),
    ],
    LatentAlignmentHead: [
        (
            {"marginalization": "viterbi"},
            "`marginalization` must be one of exact, top_k, max, hard. Received: .*'viterbi'",
        ),
        ({"top_k_gradient": "none"}, "`top_k_gradient` must be one of selected, straight_through. Received: .*'none'"),
        ({"top_k": 0}, "`top_k` must be a positive integer. Received: top_k=0"),
        ({"width": 0}, "`width` must be a positive integer. Received: width=0"),
        ({"vocabulary_size": -1}, "`vocabulary_size` must be a positive integer"),
    ],
    LuongAttention: [
        ({"score": "cosine"}, "`score` must be one of dot, general, concat. Received: score='cosine'"),
        ({"score": None}, "`score` must be one of dot, general, concat. Received: score=None"),
        ({"score": "dot", "units": 3}, "`units` needs score='concat'. Received: score='dot'"),
        ({"score": "concat", "units": 0}, "`units` must be a positive integer. Received: units=0"),
        ({"score": "concat", "units": 1.5}, "`units` must be a positive integer. Received: units=1.5"),
    ],
    MultiHeadAttention: [
        ({"num_heads": 0}, "`num_heads` must be a positive integer. Received: num_heads=0"),
        ({"key_dim": -4}, "`key_dim` must be a positive integer. Received: key_dim=-4"),
        ({"key_dim": 4.0}, "`key_dim` must be a positive integer. Received: key_dim=4.0"),
        ({"value_dim": 0}, "`value_dim` must be a positive integer"),
        ({"output_shape": (3, 0)}, "`output_shape` must be a positive integer"),
        ({"dropout": 1.0}, r"`dropout` must lie in \[0, 1\). Received: dropout=1.0"),
        ({"dropout": -0.1}, r"`dropout` must lie in \[0, 1\)"),
        ({"dropout": None}, r"`dropout` must lie in \[0, 1\). Received: dropout=None"),
        ({"use_gate": True}, "`use_gate` of keras.layers.MultiHeadAttention is not"),
        ({"attention_axes": (1, 2.0)}, "`attention_axes` must be integers. Received: 2.0"),
        ({"sliding_window": 0}, "`sliding_window` must be a positive integer"),
        ({"num_key_value_heads": 0}, "`num_key_value_heads` must be a positive integer. Received: .*=0"),
        ({"num_heads": 4, "num_key_value_heads": 3}, "`num_key_value_heads` must divide num_heads=4. Received: .*=3"),
        ({"num_key_value_heads": 4}, "`num_key_value_heads` must divide num_heads=2. Received: .*=4"),
        ({"positions": "rotation"}, "`positions` must be one of rotary, alibi, shaw, t5. Received: .*'rotation'"),
        ({"positions": ["rotary"]}, "`positions` must be one of rotary, alibi, shaw, t5. Received: "),
        ({"positions": "rotary"}, "rotary positions need an even `key_dim`. Received: key_dim=3"),
        ({"positions": "t5", "flash_attention": True}, "`flash_attention` adds nothing to energies: .*positions='t5'"),
    ],
    MultiHeadLatentAttention: [
        ({"rotary_dim": 3}, "`rotary_dim` must be an even number of at least 0. Received: rotary_dim=3"),
        ({"rotary_dim": -2}, "`rotary_dim` must be an even number of at least 0. Received: rotary_dim=-2"),
        ({"latent_dim": 0}, "`latent_dim` must be a positive integer. Received: latent_dim=0"),
    ],
    RandomSynthesizerAttention: [({"max_length": 0}, "`max_length` must be a positive integer")],
    RecurrentAttention: [({"causal": True}, "`causal` needs `max_length`")],
    StructuralBiasAttention: [
        (dict.fromkeys(("position_bias", "markov_condition", "local_fertility"), False), "choose one or more of"),
        ({"reach": -1}, "`reach` must be an integer from 0 to 1000. Received: -1"),
        ({"reach": 1001}, "`reach` must be an integer from 0 to 1000. Received: 1001"),
    ],
    WeightSubtractionAttention: [
        ({"subtraction": True}, "`subtraction` must be a number .*subtraction=True"),
        ({"subtraction": -0.5}, "`subtraction` must be .* Received: subtraction=-0.5"),
        ({"subtraction": float("nan")}, "`subtraction` must be a number of at least 0"),
    ],
}


@pytest.mark.parametrize("layer", REFUSED)
def test_arguments_that_do_not_fit(layer):
    for arguments, message in REFUSED[layer]:
        with pytest.raises(ValueError, match=f"^{layer.__name__}: {message}"):
            layer(**{**GIVEN.get(layer, HEADS), **arguments})


def test_a_latent_is_read_from_key_and_value_of_one_width():
    with pytest.raises(ValueError, match=r"^MultiHeadLatentAttention: key and value need one width. Received: 4, 5."):
        MultiHeadLatentAttention(**HEADS).build((2, 3, 6), (2, 3, 5), (2, 3, 4))
