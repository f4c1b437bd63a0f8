"""Every public method of KerasHub's preprocessors and tokenizers, on single strings, batches and in `tf.data`.

Bart's preprocessing needs TensorFlow, so it is compared with under TensorFlow alone.
"""

import inspect

import keras
import keras_hub
import numpy as np
import pytest

from keras_attn_zoo.support.errors import UserError
from tests import tiny

ON_TENSORFLOW = keras.config.backend() == "tensorflow"
SOURCES, TARGETS = tiny.sentences("source")[:3], tiny.sentences("target")[:3]
PAIRS = {"encoder_text": SOURCES, "decoder_text": TARGETS}
# As beginnings: shorter than the room.
BEGUN = {"encoder_text": SOURCES, "decoder_text": ["bado", "", TARGETS[1]]}

# What there is to call, by what of it is tested where. A method of a new KerasHub must be put somewhere.
OF_TEXT = {"call", "generate_preprocess", "generate_postprocess", "tokenize", "detokenize"}
# Tests of presets, subwords and `.keras` files.
TESTED_ELSEWHERE = {
    *("build", "from_config", "from_preset", "get_build_config", "get_config", "load_assets", "load_preset_assets"),
    *("save_assets", "save_to_preset", "set_proto", "compute_output_spec"),
}
# KerasHub's own, of a vocabulary; they take single ids or pieces, in Python.
UNCHANGED = {"export_to_transformers", "get_vocabulary", "id_to_token", "token_to_id", "vocabulary_size"}


def test_every_method_is_classified():
    kinds = keras_hub.models.Seq2SeqLMPreprocessor, keras_hub.tokenizers.SentencePieceTokenizer
    classes = [one for kind in kinds for one in kind.__mro__ if one.__module__.startswith("keras_hub")]
    members = {name: value for one in classes for name, value in vars(one).items()}
    found = {name for name, x in members.items() if inspect.isroutine(x) or isinstance(x, classmethod)}
    found = {name for name in found if not name.startswith("_")}
    assert found == OF_TEXT | TESTED_ELSEWHERE | UNCHANGED


@pytest.mark.parametrize("name", ["call", "generate_preprocess", "generate_postprocess"])
def test_arguments_are_those_of_kerashub(name):
    ours, theirs = (
        inspect.signature(getattr(kind, name)).parameters
        for kind in (tiny.TranslationPreprocessor, keras_hub.models.Seq2SeqLMPreprocessor)
    )
    assert theirs.keys() <= ours.keys()


@pytest.fixture(scope="module")
def preprocessor():
    return tiny.preprocessor()


def assert_same(found, wanted):
    for one, other in zip(keras.tree.flatten(found), keras.tree.flatten(wanted), strict=True):
        np.testing.assert_array_equal(one, other)
        assert np.asarray(one).dtype == np.asarray(other).dtype


def row(batch, number):
    return keras.tree.map_structure(lambda x: x[number], batch)


def test_lengths_of_a_call(preprocessor):
    whole = preprocessor(PAIRS)
    for lengths in ({"decoder_sequence_length": 14}, {"sequence_length": 14}):
        x, y, weights = preprocessor(PAIRS, encoder_sequence_length=15, **lengths)
        assert [one.shape for one in x.values()] == [(3, 15), (3, 15), (3, 14), (3, 14)]
        for side, length in (("encoder", 15), ("decoder", 14)):
            for field in ("token_ids", "padding_mask"):
                np.testing.assert_array_equal(x[f"{side}_{field}"], whole[0][f"{side}_{field}"][:, :length])
        np.testing.assert_array_equal(y, whole[1][:, :14])
        np.testing.assert_array_equal(weights, whole[2][:, :14])
        search = preprocessor.generate_preprocess(SOURCES, encoder_sequence_length=15, **lengths)
        assert [one.shape for one in search.values()] == [(3, 15), (3, 15), (3, 14), (3, 14)]
        np.testing.assert_array_equal(search["encoder_token_ids"], x["encoder_token_ids"])
    # More than the constructor's too.
    assert preprocessor(PAIRS, encoder_sequence_length=99)[0]["encoder_token_ids"].shape == (3, 99)
    for method in (preprocessor, preprocessor.generate_preprocess):
        with pytest.raises(UserError, match=r"sentence 1 has \d+ tokens with its end, more than the 3"):
            method(PAIRS, encoder_sequence_length=3)
        with pytest.raises(UserError, match="maximum length must be an integer of at least 2"):
            method(PAIRS, decoder_sequence_length=0)
    with pytest.raises(UserError, match=r"translation \d has \d+ tokens with its end, more than the 3"):
        preprocessor(PAIRS, sequence_length=3)


def test_single_strings_give_a_row(preprocessor):
    for one in (SOURCES[1], np.array(SOURCES[1]), np.array(SOURCES[1].encode())):
        wanted = preprocessor.generate_preprocess([SOURCES[1]])
        assert_same(preprocessor.generate_preprocess(one), row(wanted, 0))
    first = {name: texts[0] for name, texts in BEGUN.items()}
    wanted = preprocessor.generate_preprocess({name: [text] for name, text in first.items()})
    assert_same(preprocessor.generate_preprocess(first), row(wanted, 0))
    found = preprocessor.generate_postprocess(row(wanted, 0))
    assert [found] == preprocessor.generate_postprocess(wanted) == ["bado"]


def test_ids_in_arrays_and_tensors_become_text(preprocessor):
    tokenizer = preprocessor.tokenizer
    ids = np.array([tokenizer.tokenize(text) + [0] * 9 for text in TARGETS[:1]])
    for x in (ids, keras.ops.convert_to_tensor(ids)):
        assert tokenizer.detokenize(x) == TARGETS[:1]
        assert tokenizer.detokenize(x[0]) == TARGETS[0]


needs_tensorflow = pytest.mark.skipif(not ON_TENSORFLOW, reason="tf.data is TensorFlow's")


@needs_tensorflow
@pytest.mark.parametrize("texts", [SOURCES, BEGUN], ids=["strings", "dicts"])
def test_searches_in_graphs(preprocessor, texts):
    import tensorflow as tf

    room = preprocessor.encoder_sequence_length
    wanted = preprocessor.generate_preprocess(texts, encoder_sequence_length=room)
    data = tf.data.Dataset.from_tensor_slices(texts)
    batches = data.batch(3).map(preprocessor.generate_preprocess)
    rows = data.map(preprocessor.generate_preprocess)
    shapes = {name: (None, one.shape[1]) for name, one in wanted.items()}
    for mapped in (batches, rows.batch(3)):
        assert {name: tuple(one.shape) for name, one in mapped.element_spec.items()} == shapes
        (found,) = mapped.as_numpy_iterator()
        assert_same(found, wanted)
    short = data.batch(3).map(lambda x: preprocessor.generate_preprocess(x, 9, encoder_sequence_length=10))
    assert [tuple(one.shape) for one in short.element_spec.values()] == [(None, 10)] * 2 + [(None, 9)] * 2
    # And back.
    strings = [text.encode() for text in (texts["decoder_text"] if isinstance(texts, dict) else [""] * 3)]
    (found,) = batches.map(preprocessor.generate_postprocess).as_numpy_iterator()
    assert found.tolist() == strings
    assert list(rows.map(preprocessor.generate_postprocess).as_numpy_iterator()) == strings


@needs_tensorflow
def test_ids_in_graphs_become_text(preprocessor):
    import tensorflow as tf

    tokenizer = preprocessor.tokenizer
    texts = ["", *TARGETS, "äö"]
    data = tf.data.Dataset.from_tensor_slices(texts)
    strings = [tokenizer.detokenize(tokenizer.tokenize(text)).encode() for text in texts]
    ragged = data.batch(5).map(tokenizer.tokenize)
    (one,) = ragged
    assert [text.encode() for text in tokenizer.detokenize(one)] == strings
    for mapped in (ragged, ragged.map(lambda x: x.to_tensor())):
        (found,) = mapped.map(tokenizer.detokenize).as_numpy_iterator()
        assert found.tolist() == strings
    assert list(data.map(tokenizer.tokenize).map(tokenizer.detokenize).as_numpy_iterator()) == strings
    spec = ragged.map(tokenizer.detokenize).element_spec
    assert spec.dtype == tf.string and spec.shape.rank == 1


@pytest.mark.long
@needs_tensorflow
def test_bart_takes_no_other_elements_of_a_dataset(preprocessor):
    import tensorflow as tf

    from tests.translators import bart

    theirs = bart.bart().preprocessor
    for one, texts in ((theirs, bart.TEXTS), (preprocessor, PAIRS)):
        data = tf.data.Dataset.from_tensor_slices(texts)
        sources = tf.data.Dataset.from_tensor_slices(texts["encoder_text"])
        for elements, of_dicts in ((sources, data), (sources.batch(3), data.batch(3))):
            search = of_dicts.map(one.generate_preprocess)
            rank = next(iter(search.element_spec.values())).shape.rank
            assert search.element_spec.keys() == elements.map(one.generate_preprocess).element_spec.keys()
            assert search.map(one.generate_postprocess).element_spec.shape.rank == rank - 1
            ids = elements.map(one.tokenizer.tokenize)
            assert ids.element_spec.shape.rank == rank
            assert ids.map(one.tokenizer.detokenize).element_spec.shape.rank == rank - 1
