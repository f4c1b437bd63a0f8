"""What the laws do not say of attentions by position: the encoder's forms, ablations, lengths, arguments."""

import re

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.layers import (
    AverageAttention,
    DenseSynthesizerAttention,
    GaussianAttention,
    InitialAttention,
    RandomSynthesizerAttention,
    RecurrentAttention,
    RecurrentTransition,
)
from keras_attn_zoo.layers.recurrent_attention import CELLS
from tests.layers.calls import BACKEND, compiled, of_unknown_sizes, to_numpy
from tests.layers.cases import numbers, weights_of
from tests.layers.equations import softmax
from tests.layers.references.recurrent_attention import refined
from tests.weights import fill_weights

X = numbers("x", 2, 5, 6)
SIZES = {"num_heads": 2, "key_dim": 3}


def scores_of(layer, x=X, **arguments):
    return to_numpy(layer(x, return_attention_scores=True, **arguments)[1])


def test_gaussian_of_the_encoder():
    """Each row is the normal density at the distances to its centre, scaled to sum to one."""
    scores = scores_of(GaussianAttention(**SIZES, offsets=(-1, 1), sigma=1.5))
    for head, offset in enumerate((-1, 1)):
        for i in range(5):
            density = np.exp(-0.5 * ((np.arange(5) - i - offset) / 1.5) ** 2)
            for sentence in range(2):
                np.testing.assert_allclose(scores[sentence, head, i], density / density.sum(), atol=1e-6)


def test_gaussian_heads_take_offsets_in_turn():
    scores = scores_of(GaussianAttention(num_heads=5, key_dim=3, offsets=(-1, 1)))
    np.testing.assert_array_equal(scores[:, 0], scores[:, 2])
    np.testing.assert_array_equal(scores[:, 1], scores[:, 3])
    assert scores[0, 0, 2].argmax() == 1
    assert scores[0, 1, 2].argmax() == 3


def test_gaussian_steps_far_beyond_the_window():
    """At length 20 the window of a step has left most of the sentence behind."""
    layer = GaussianAttention(**SIZES, offsets=(-2, 0), sigma=0.7)
    x = numbers("long", 2, 20, 6)
    layer.build(x.shape)
    assert layer.window < 10

    def steps(x):
        memory = layer.prepare(max_length=20)
        state, contexts, rows = layer.initial_state(memory, batch_size=2), [], []
        for i in range(20):
            context, scores, state = layer.step(x[:, i], memory, state)
            contexts.append(context)
            rows.append(scores)
        return ops.stack(contexts, axis=1), ops.stack(rows, axis=2)

    found = compiled(steps)(x)
    wanted = compiled(lambda x: layer(x, use_causal_mask=True, return_attention_scores=True))(x)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-6)


def test_gaussian_steps_cannot_look_ahead():
    layer = GaussianAttention(**SIZES, offsets=(-1, 1))
    with pytest.raises(ValueError, match="steps cannot look ahead; use offsets of at most 0"):
        layer.prepare(max_length=5)


@pytest.mark.parametrize("cell", CELLS)
def test_recurrent_through_three_layers_of_an_encoder(cell):
    """The matrices of layer l are the transition applied l times; all rows and columns are in use."""
    initial, transition = InitialAttention(2, 7, name="initial"), RecurrentTransition(cell=cell, name="transition")
    layers = [RecurrentAttention(**SIZES, name=f"layer_{i}") for i in range(3)]
    x = keras.Input((None, 6))
    energies, context, found = initial(x), x, []
    for layer in layers:
        energies = transition(energies)
        context, scores = layer(context, energies=energies, return_attention_scores=True)
        found.append(scores)
    model = keras.Model(x, found)
    assert len(model.trainable_weights) == 1 + (4 if cell == "dense" else 6) + 3 * 4
    fill_weights(model)
    weights = {path.removeprefix("transition/"): weight for path, weight in weights_of(model).items()}
    found = to_numpy(model(X))
    matrices, memory = weights["initial/matrices"], None
    for scores in found:
        matrices = refined(matrices, weights, cell=cell, memory=memory)
        matrices, memory = matrices if cell == "lstm" else (matrices, None)
        for head in range(2):
            for i in range(5):
                wanted = softmax(matrices[head, i, :5], np.ones(5, dtype=bool))
                np.testing.assert_allclose(scores[:, head, i], np.stack([wanted, wanted]), atol=2e-6)


@pytest.mark.filterwarnings("error::UserWarning")
def test_a_mask_does_not_disturb_shared_matrices():
    """They belong to no sentence: the mask of `x` stays with it, and reaches the attention without a warning."""
    x = keras.layers.Masking()(np.where(np.arange(5)[:, None] < 3, X, 0))
    energies = RecurrentTransition()(InitialAttention(2, 7)(x))
    scores = scores_of(RecurrentAttention(**SIZES), x, energies=energies)
    assert not scores[..., 3:].any()
    assert not scores[:, :, 3:].any()


def test_ablations_of_the_transition():
    A = numbers("matrices", 2, 5, 7)
    for normalize, residual in ((False, True), (True, False), (False, False)):
        layer = RecurrentTransition(normalize=normalize, residual=residual, name="transition")
        layer.build(A.shape)
        fill_weights(layer)
        wanted = refined(A.astype("float64"), weights_of(layer), normalize, residual)
        np.testing.assert_allclose(to_numpy(layer(A)), wanted, atol=2e-6)
        again = RecurrentTransition.from_config(layer.get_config())
        assert (again.normalize, again.residual) == (normalize, residual)


def test_frozen_matrices_stay_as_they_are():
    x = keras.Input((None, 6))
    energies = RecurrentTransition()(InitialAttention(2, 7, trainable=False, name="initial")(x))
    model = keras.Model(x, RecurrentAttention(**SIZES)(x, energies=energies))
    before = ops.convert_to_numpy(model.get_layer("initial").weights[0].value).copy()
    model.compile(keras.optimizers.SGD(1.0), "mse")
    model.fit(X, X, verbose=0)
    np.testing.assert_array_equal(ops.convert_to_numpy(model.get_layer("initial").weights[0].value), before)
    assert len(model.non_trainable_weights) == 1


def test_recurrent_steps_with_energies_of_a_stack():
    """Search gives the rows of a layer once; each step takes its own."""
    layer = RecurrentAttention(**SIZES)
    layer.build(X.shape)
    energies = np.tril(numbers("energies", 2, 7, 7))

    def steps(x, energies):
        memory = layer.prepare(max_length=5, energies=energies)
        state, contexts = layer.initial_state(memory, batch_size=2), []
        for i in range(5):
            context, _, state = layer.step(x[:, i], memory, state)
            contexts.append(context)
        return ops.stack(contexts, axis=1)

    wanted = compiled(lambda x, energies: layer(x, use_causal_mask=True, energies=energies))(X, energies)
    np.testing.assert_allclose(compiled(steps)(X, energies), wanted, atol=2e-6)


def test_initial_attention_of_the_decoder_is_a_lower_triangle():
    layer = InitialAttention(2, 7, causal=True)
    rows = to_numpy(layer(X))
    assert rows.shape == (2, 5, 7)
    np.testing.assert_array_equal(rows, np.tril(rows))
    assert np.all(rows[:, np.tri(5, 7, dtype=bool)] != 0)


@pytest.mark.parametrize(("use_ffn", "use_gate"), [(True, False), (False, True), (False, False)])
def test_average_without_network_or_gate(use_ffn, use_gate):
    layer = AverageAttention(use_ffn=use_ffn, use_gate=use_gate)
    layer.build(X.shape)
    fill_weights(layer)
    weights = {w.path.split("/", 1)[1]: ops.convert_to_numpy(w.value) for w in layer.weights}
    wanted = np.zeros_like(X)
    for i in range(5):
        g = X[:, : i + 1].mean(axis=1)
        if use_ffn:
            g = np.maximum(g @ weights["ffn_hidden/kernel"] + weights["ffn_hidden/bias"], 0)
            g = g @ weights["ffn_output/kernel"] + weights["ffn_output/bias"]
        if use_gate:
            gates = np.concatenate([X[:, i], g], axis=-1) @ weights["gate/kernel"] + weights["gate/bias"]
            keep, forget = np.split(1 / (1 + np.exp(-gates)), 2, axis=-1)
            g = keep * X[:, i] + forget * g
        wanted[:, i] = g
    np.testing.assert_allclose(to_numpy(layer(X)), wanted, atol=2e-6)
    assert AverageAttention.from_config(layer.get_config()).get_config() == layer.get_config()


@pytest.mark.parametrize("layer", [RandomSynthesizerAttention, RecurrentAttention])
def test_a_sentence_longer_than_the_matrices(layer):
    layer = layer(**SIZES, max_length=4)
    message = f"{type(layer).__name__}: a sentence of 5 positions is longer than `max_length`=4"
    for x in (X, keras.KerasTensor(X.shape)):
        with pytest.raises(ValueError, match=message):
            layer(x)
    assert layer(X[:, :4]).shape == (2, 4, 6)
    with pytest.raises(ValueError, match="is longer than `max_length`=4"):
        layer.prepare(max_length=5)


@pytest.mark.parametrize("layer", [RandomSynthesizerAttention, RecurrentAttention])
@pytest.mark.skipif(keras.config.backend() != "tensorflow", reason="lengths are known wherever the others run")
def test_a_length_unknown_when_traced_is_checked_when_it_runs(layer):
    layer = layer(**SIZES, max_length=4)
    layer.build(X.shape)
    call = of_unknown_sizes(lambda inputs: layer(inputs["x"]), {"x": X})
    assert call({"x": X[:, :4]}).shape == (2, 4, 6)
    with pytest.raises(Exception, match=f"{type(layer).__name__}: a sentence .* is longer than `max_length`=4"):
        call({"x": X})


def test_offsets_in_an_array():
    assert GaussianAttention(**SIZES, offsets=np.array([-1, 1])).get_config()["offsets"] == [-1, 1]


@pytest.mark.one_backend
def test_recurrent_attention_takes_matrices_in_one_way_and_of_one_shape():
    alone, matrices = RecurrentAttention(**SIZES), np.ones((3, 5, 7), "float32")
    with pytest.raises(ValueError, match=r"give `max_length`, or `energies` in the call\. Received: neither"):
        alone(X)
    with pytest.raises(ValueError, match=r"give `max_length` or `energies`, not both\. Received: both"):
        RecurrentAttention(**SIZES, max_length=5)(X, energies=matrices[:2, :, :5])
    for wrong in (matrices, matrices[:2, :, :4]):
        shape = re.escape(str(wrong.shape))
        with pytest.raises(ValueError, match=rf"`energies` must .* \(heads, length, max_length\) .*: shape {shape}"):
            alone(X, energies=wrong)


@pytest.mark.one_backend
@pytest.mark.skipif(BACKEND != "torch", reason="PyTorch counts products")
def test_a_dense_synthesizer_computes_no_energies_beyond_the_sentence():
    from torch.utils.flop_counter import FlopCounterMode

    def products(max_length):
        layer = DenseSynthesizerAttention(**SIZES, max_length=max_length)
        layer.build(X.shape)
        with FlopCounterMode(display=False) as counter:
            layer(X)
        return counter.get_total_flops()

    assert products(500) == products(5) > 0
