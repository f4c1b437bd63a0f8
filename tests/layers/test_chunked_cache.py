"""Keys and values in parts against whole ones, at every place."""

import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.decoding import BeamSearch
from keras_attn_zoo.kernels import jax_cpu
from keras_attn_zoo.layers import MultiHeadAttention
from keras_attn_zoo.layers.base import self_attention_steps
from keras_attn_zoo.layers.base.chunked_cache import reached_contexts, reached_energies, write_places
from tests import tiny

BEAMS, SIZES = 2, [4, 4, 2]
PLACES = sum(SIZES)


def draw(*shape):
    return np.random.default_rng(0).normal(size=shape).astype("float32")


def in_parts(array, axis):
    return [ops.convert_to_tensor(part) for part in np.split(array, np.cumsum(SIZES)[:-1], axis=axis)]


def places():
    """Of each step, known and unknown, as inside a compiled loop."""
    known = range(0, PLACES, BEAMS)
    return [*known, *(ops.convert_to_tensor(place, "int32") for place in known)]


@pytest.mark.parametrize("axis", [2, 3])
def test_a_step_is_written_where_it_belongs(axis):
    shape = (2, 3, PLACES, 5) if axis == 2 else (2, 3, 5, PLACES)
    whole, update = draw(*shape), np.take(draw(*shape) + 10, range(BEAMS), axis)
    for place in places():
        written = write_places(in_parts(whole, axis), ops.convert_to_tensor(update), place, axis)
        assert [part.shape[axis] for part in written] == SIZES
        expected = np.moveaxis(whole.copy(), axis, 0)
        expected[int(place) : int(place) + BEAMS] = np.moveaxis(update, axis, 0)
        found = np.concatenate([ops.convert_to_numpy(part) for part in written], axis)
        np.testing.assert_array_equal(np.moveaxis(found, axis, 0), expected)


def test_what_is_reached_is_computed_and_the_rest_left_out():
    query, keys, values = draw(2, 3, BEAMS, 5), draw(2, 3, 5, PLACES), draw(2, 3, PLACES, 5)
    weights = np.abs(draw(2, 3, BEAMS, PLACES))
    for place in places():
        end = int(place) + BEAMS
        reached = np.cumsum([0, *SIZES])[:-1] < end
        unread = np.repeat(~reached, SIZES)
        # What is read by mistake shows.
        k, v = keys.copy(), values.copy()
        k[..., unread], v[:, :, unread] = np.nan, np.nan
        energies = reached_energies(ops.convert_to_tensor(query), in_parts(k, 3), place, axis=3, product=ops.matmul)
        energies = ops.convert_to_numpy(energies)
        np.testing.assert_allclose(energies[..., :end], (query @ keys)[..., :end], rtol=1e-4, atol=1e-5)
        assert not energies[..., unread].any()
        now = np.where(np.arange(PLACES) < end, weights, 0)
        contexts = reached_contexts(ops.convert_to_tensor(now), in_parts(v, 2), place, ops.matmul)
        np.testing.assert_allclose(ops.convert_to_numpy(contexts), now @ values, rtol=1e-4, atol=1e-5)


class PlainProducts(MultiHeadAttention):
    """A form of dot products that reads all keys at once, as a call and as steps had them before there were parts."""

    def energies(self, query, memory):
        return ops.matmul(self.project_query(query), ops.transpose(memory["key"], (0, 1, 3, 2)))


def test_a_subclass_reads_whole_keys_and_values(monkeypatch):
    monkeypatch.setattr(self_attention_steps, "chunk_sizes", jax_cpu.chunk_sizes)
    length, x = 18, ops.convert_to_tensor(draw(2, 18, 4))
    for kind in (PlainProducts, MultiHeadAttention):
        layer = kind(num_heads=2, key_dim=3)
        expected = tiny.as_numpy(layer(x, use_causal_mask=True))
        memory = layer.prepare(max_length=length)
        state, contexts = layer.initial_state(memory, batch_size=2), []
        assert isinstance(state["key"], list) == (kind is MultiHeadAttention)
        for position in range(length):
            context, _, state = layer.step(x[:, position], memory, state)
            contexts.append(tiny.as_numpy(context))
        np.testing.assert_allclose(np.stack(contexts, axis=1), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.long
@pytest.mark.slow_compiled
@pytest.mark.parametrize(
    ("mechanism", "beams"), [("multi_head", 1), ("multi_head", 3), ("recurrent", 3), ("random_synthesizer", 3)]
)
def test_a_search_in_parts_is_that_in_one(mechanism, beams, monkeypatch):
    found = {}
    for parts in (True, False):
        sizes = jax_cpu.chunk_sizes if parts else lambda length: [length]
        monkeypatch.setattr(self_attention_steps, "chunk_sizes", sizes)
        arguments = {"decoder_attention": mechanism, "max_length": 24, "sampler": BeamSearch(beams)}
        model = tiny.translator(body=tiny.transformer, length=24, **arguments)
        best = model.translate(tiny.sentences("source")[:6], n_best=beams)
        found[parts] = [(one.text, one.log_prob) for of_sentence in best for one in of_sentence]
    assert [text for text, _ in found[True]] == [text for text, _ in found[False]]
    np.testing.assert_allclose([x for _, x in found[True]], [x for _, x in found[False]], rtol=1e-4)
