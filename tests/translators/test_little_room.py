"""A search that first gives translations little room: what it returns is what all the room would have given."""

import keras
import numpy as np
import pytest

from keras_attn_zoo.decoding import BeamSearch
from keras_attn_zoo.translators import Translator, search, text_methods, translator
from keras_attn_zoo.translators.search import retrying_at_full_length
from tests import tiny

LENGTH, BEAMS = 64, 2


def searched(calls, certain):
    """A search that writes the source's first id at all positions; `certain` says for which it has room enough."""

    def run(inputs):
        source, room = inputs["encoder_token_ids"][:, 0], inputs["decoder_token_ids"].shape[1]
        assert inputs["decoder_padding_mask"].shape[1] == room
        calls.append((len(source), room))
        ids = np.broadcast_to(source[:, None, None], (len(source), BEAMS, room)) * (1 if room == LENGTH else 100)
        return {
            "token_ids": ids.copy(),
            "log_probs": -np.stack([source, source * 2], axis=1) - room,
            "attention": np.ones((len(source) * BEAMS, room, 1, 3)) * np.repeat(source, BEAMS)[:, None, None, None],
            "certain": np.isin(source, certain),
        }

    return run


def inputs(ids, width=8, given=1, length=LENGTH):
    return {
        "encoder_padding_mask": np.ones((len(ids), width), "bool"),
        "encoder_token_ids": np.repeat(np.array(ids)[:, None], width, axis=1),
        "decoder_token_ids": np.zeros((len(ids), length), "int32"),
        "decoder_padding_mask": np.arange(length)[None] < np.full((len(ids), 1), given),
    }


def test_a_single_row_that_is_not_certain():
    calls = []
    found = retrying_at_full_length(searched(calls, []))(inputs([3]))
    assert calls == [(1, 16), (1, LENGTH)]
    np.testing.assert_array_equal(found["token_ids"], np.full((1, BEAMS, LENGTH), 3))


@pytest.mark.parametrize("certain", [[3, 4, 5], [3, 5], []])
def test_what_is_not_certain_is_searched_again(certain):
    calls = []
    found = retrying_at_full_length(searched(calls, certain))(inputs([3, 4, 5]))
    assert calls == [(3, 16), *([(3, LENGTH)] if len(certain) < 2 else [(1, LENGTH)] if len(certain) < 3 else [])]
    assert "certain" not in found and found["token_ids"].shape == (3, BEAMS, LENGTH)
    for row, number in enumerate([3, 4, 5]):
        little = number in certain
        np.testing.assert_array_equal(found["token_ids"][row, :, :16], number * (100 if little else 1))
        np.testing.assert_array_equal(found["token_ids"][row, :, 16:], 0 if little else number)
        np.testing.assert_array_equal(found["log_probs"][row], [-number - (r := 16 if little else 64), -2 * number - r])
        attention = found["attention"].reshape(3, BEAMS, LENGTH, 1, 3)[row]
        np.testing.assert_array_equal(attention[:, :16], number)
        np.testing.assert_array_equal(attention[:, 16:], 0 if little else number)


def test_copies_of_a_row_are_searched_once_and_empty_sources_never():
    calls, x = [], inputs([4, 3, 5, 5, 5, 5, 5, 5, 5, 5])
    x["encoder_padding_mask"][1, 1:] = False
    found = retrying_at_full_length(searched(calls, []))(x)
    # Eight rows are the fewest of more than one.
    assert calls == [(10, 16), (8, LENGTH)]
    np.testing.assert_array_equal(found["token_ids"][:, 0, -1], [4, 0, *[5] * 8])
    calls.clear()
    retrying_at_full_length(searched(calls, [4]), known_if_empty=False)(x)
    assert calls == [(10, 16), (8, LENGTH)]


def test_all_the_room_where_little_would_be_nearly_as_much():
    for size, room in (({"width": 24}, 48), ({"width": 25}, LENGTH), ({"given": 40}, LENGTH), ({"given": 20}, 40)):
        calls = []
        retrying_at_full_length(searched(calls, [3]))(inputs([3], **size))
        assert calls == [(1, room)], size


@pytest.fixture
def rooms(monkeypatch):
    """The rooms of all searches; set its `all` to give all the room to those that follow."""

    class Rooms(list):
        all = False

    found = Rooms()

    def around(run, *options):
        def noted(x):
            found.append(x["decoder_token_ids"].shape[1])
            return run(x)

        return (lambda x: search._without_certainty(run(x))) if found.all else retrying_at_full_length(noted, *options)

    for module in (text_methods, translator):
        monkeypatch.setattr(module, "retrying_at_full_length", around)
    return found


def assert_alike(found, wanted):
    assert tiny.plain(found) == tiny.plain(wanted)
    for one, other in zip(found, wanted, strict=True):
        for h, g in zip(one, other, strict=True):
            np.testing.assert_allclose(h.log_prob, g.log_prob, rtol=1e-4)
            np.testing.assert_allclose(h.attention, g.attention, atol=1e-5)


@pytest.mark.long
@pytest.mark.slow_compiled
@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_translations_are_those_of_all_the_room(penalty, rooms):
    task = tiny.translator(length=LENGTH, sampler=BeamSearch(3, length_penalty=penalty))
    bias = np.array([-20, -20, -20, 1] + [0] * (tiny.PIECES - 4), "float32")
    task.backbone.output_projection.bias.assign(bias)
    texts = tiny.sentences("source")[:6]
    found, generated = task.translate(texts, n_best=2, attention=True), task.generate(texts)
    assert {LENGTH} < set(rooms)
    rooms.all = True
    wanted = task.translate(texts, n_best=2, attention=True)
    # Some end in little room, and some never.
    lengths = [len(best[0].tokens) for best in wanted]
    assert min(lengths) < 16 and max(lengths) == LENGTH - 1
    assert_alike(found, wanted)
    assert generated == task.generate(texts)


class Noisy(BeamSearch):
    """A search with random numbers of its own."""

    def __init__(self):
        super().__init__(2)
        self.generator = keras.random.SeedGenerator(1)


@pytest.mark.long
@pytest.mark.slow_compiled
def test_a_sampler_with_random_numbers_searches_once(rooms):
    tiny.translator(length=LENGTH, sampler=Noisy()).generate(tiny.sentences("source")[:3])
    assert rooms == []


@pytest.mark.long
@pytest.mark.slow_compiled
def test_generate_takes_ids_as_tensors_and_keeps_what_follows_the_end(rooms):
    task = tiny.translator(length=LENGTH, sampler=BeamSearch(2))
    x = task.preprocessor.generate_preprocess(tiny.sentences("source")[:3])
    x = {name: np.asarray(keras.ops.convert_to_numpy(value)) for name, value in x.items()}
    x["decoder_token_ids"][:, 50:] = 9
    task.preprocessor = None
    found = task.generate({name: keras.ops.convert_to_tensor(value) for name, value in x.items()}, stop_token_ids=[3])
    assert rooms[0] < LENGTH
    rooms.all = True
    wanted = task.generate(x, stop_token_ids=[3])
    for name, value in wanted.items():
        np.testing.assert_array_equal(found[name], value)


@pytest.mark.long
@pytest.mark.slow_compiled
def test_translations_of_a_trained_transformer_too(rooms):
    """Its beams are positions of one call, of which there are more with more room."""
    task = Translator.from_preset("transformer_tatoeba_de_en")
    texts = ["Ich habe Hunger.", "Gestern habe ich im Park einen alten Freund getroffen.", "Warum?"]
    found = task.translate(texts, n_best=4, attention=True)
    assert set(rooms) == {rooms[0]} and rooms[0] < task.preprocessor.decoder_sequence_length
    rooms.all = True
    assert_alike(found, task.translate(texts, n_best=4, attention=True))
