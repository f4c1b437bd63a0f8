"""What `fit` and `evaluate` of Keras see of the batches, which each backend feeds in its own way."""

import keras
import numpy as np
import pytest

from keras_attn_zoo.data.batches import TranslationBatches, as_fit_input, evaluation_batches, fit_arguments
from tests.data.helpers import same

pytestmark = pytest.mark.every_backend


class ReadsEverything(keras.layers.Layer):
    """Makes logits out of every part of x."""

    def __init__(self):
        super().__init__()
        self.embedding = keras.layers.Embedding(1000, 4)

    def build(self, input_shape):
        self.embedding.build((None, None))

    def call(self, x):
        ops = keras.ops
        source_mask = ops.cast(x["encoder_padding_mask"], "float32")[..., None]
        source = ops.sum(self.embedding(x["encoder_token_ids"]) * source_mask, axis=1, keepdims=True)
        forced = ops.logical_and(x["teacher_forcing_mask"], x["decoder_padding_mask"])
        return source + self.embedding(x["decoder_token_ids"]) * ops.cast(forced, "float32")[..., None]


def functional_model(model_class=keras.Model):
    kinds = {
        "encoder_token_ids": "int32",
        "encoder_padding_mask": "bool",
        "decoder_token_ids": "int32",
        "decoder_padding_mask": "bool",
        "teacher_forcing_mask": "bool",
    }
    inputs = {name: keras.Input((None,), name=name, dtype=kind) for name, kind in kinds.items()}
    return model_class(inputs, ReadsEverything()(inputs))


def recording_model(seen):
    """A model whose steps only note their batches, as NumPy arrays."""

    def note(*arguments):
        to_numpy = keras.ops.convert_to_numpy
        seen.append(keras.tree.map_structure(lambda tensor: np.array(to_numpy(tensor)), arguments[-1]))
        # Under JAX a step is handed the state of the model and returns it.
        return ({"loss": 0.0}, arguments[0]) if len(arguments) == 2 else {"loss": 0.0}

    class Recording(keras.Model):
        def train_step(self, *arguments):
            return note(*arguments)

        def test_step(self, *arguments):
            return note(*arguments)

    model = functional_model(Recording)
    model.compile("sgd", loss="sparse_categorical_crossentropy", run_eagerly=True)
    return model


@pytest.fixture(scope="module")
def uneven_corpus(make_corpus):
    """Many short sentences and few long: the first batches share a shape, a later one differs."""
    return make_corpus([(3, 3)] * 40 + [(9, 7)] * 3)


def training_batches(corpus, **options):
    batches = TranslationBatches(
        corpus, sentences_per_batch=8, teacher_forcing=lambda step: 0.5, bucket_count=2, seed=3, **options
    )
    shapes = [batches[index][1].shape for index in range(batches.batches_per_epoch)]
    assert shapes[0] == shapes[1] and len(set(shapes)) == 2
    return batches


@pytest.mark.parametrize("options", [{}, {"rounds_per_epoch": 2}, {"steps_per_round": 1}, {"steps_per_round": 2}])
def test_fit_sees_exactly_the_stream(uneven_corpus, options):
    batches = training_batches(uneven_corpus, **options)
    expected = [batches[index] for index in range(4 * len(batches))]
    seen, epochs = [], []
    model = recording_model(seen)
    note = keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs: epochs.append(epoch))
    model.fit(**fit_arguments(batches), epochs=3, verbose=0, callbacks=[note])
    assert epochs == [0, 1, 2]
    assert len(seen) == 3 * len(batches)
    assert all(same(got, want) for got, want in zip(seen, expected, strict=False))

    seen.clear()
    batches.set_round(2)
    recording_model(seen).fit(**fit_arguments(batches), epochs=4, verbose=0, callbacks=[note])
    assert epochs[3:] == [2, 3]
    assert len(seen) == 2 * len(batches)
    assert all(same(got, want) for got, want in zip(seen, expected[2 * len(batches) :], strict=True))


@pytest.mark.filterwarnings("ignore:.*shuffle=True")
def test_keras_does_not_shuffle_the_stream(uneven_corpus):
    batches, seen = training_batches(uneven_corpus), []
    recording_model(seen).fit(as_fit_input(batches), steps_per_epoch=len(batches), epochs=2, shuffle=True, verbose=0)
    assert len(seen) == 2 * len(batches)
    assert all(same(got, batches[index]) for index, got in enumerate(seen))


def test_validation_sees_every_batch_every_time(uneven_corpus):
    batches = training_batches(uneven_corpus)
    valid = evaluation_batches(uneven_corpus, sentences_per_batch=8, bucket_count=2)
    seen = []
    model = recording_model(seen)
    model.fit(**fit_arguments(batches), epochs=2, validation_data=as_fit_input(valid), verbose=0)
    n, v = len(batches), len(valid)
    assert len(seen) == 2 * (n + v)
    for epoch in range(2):
        part = seen[epoch * (n + v) : (epoch + 1) * (n + v)]
        assert all(same(part[i], batches[epoch * n + i]) for i in range(n))
        assert all(same(part[n + i], valid[i]) for i in range(v))
    seen.clear()
    model.evaluate(as_fit_input(valid), verbose=0)
    assert len(seen) == v
    assert all(same(got, want) for got, want in zip(seen, valid, strict=True))


def test_compiled_fit_takes_all_shapes(uneven_corpus):
    batches = training_batches(uneven_corpus)
    model = functional_model()
    model.compile("sgd", loss=lambda y, logits: keras.ops.mean(logits**2, axis=-1))
    before = model.get_weights()
    history = model.fit(**fit_arguments(batches), epochs=2, verbose=0)
    assert np.isfinite(history.history["loss"]).all()
    assert any((old != new).any() for old, new in zip(before, model.get_weights(), strict=True))
