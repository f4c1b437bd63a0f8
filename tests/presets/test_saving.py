"""Saving and loading: presets, `.keras` files, and presets of another backend."""

import json

import keras
import keras_hub
import numpy as np
import pytest

from keras_attn_zoo.bodies import RNNBackbone
from keras_attn_zoo.decoding import BeamSearch
from keras_attn_zoo.layers import LuongAttention
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.translators import TranslationPreprocessor, TranslationTokenizer, Translator
from tests import tiny
from tests.shared_files import of_another_backend

TEXTS = tiny.sentences("source")[:3]


def assert_same_weights(first, second):
    assert [v.path for v in first.weights] == [v.path for v in second.weights]
    for a, b in zip(first.weights, second.weights, strict=True):
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(a.value), keras.ops.convert_to_numpy(b.value))


EVERY_POLICY = [
    (body, policy)
    for body in (tiny.backbone, tiny.transformer)
    for policy in ("mixed_float16", "float16", "mixed_bfloat16", "bfloat16")
]
BY_DAY = [(tiny.backbone, "mixed_bfloat16"), (tiny.transformer, "float16")]


@pytest.mark.long
@pytest.mark.parametrize(
    ("body", "policy"),
    [pytest.param(*which, marks=() if which in BY_DAY else pytest.mark.slow) for which in EVERY_POLICY],
)
def test_a_preset_translates_in_every_dtype_policy(tmp_path, body, policy):
    tiny.translator(body=body).save_to_preset(tmp_path / "preset")
    first = Translator.from_preset(tmp_path / "preset")
    second = Translator.from_preset(tmp_path / "preset", dtype=policy)
    assert {layer.compute_dtype for layer in second.backbone.layers} >= {policy.removeprefix("mixed_")}
    assert len(second.generate(TEXTS)) == len(TEXTS)
    targets = tiny.sentences("target")[:3]
    expected, found = (task.score(TEXTS, targets) for task in (first, second))
    for one, other in zip(expected, found, strict=True):
        # bfloat16 has 8 bits.
        np.testing.assert_allclose(other.log_probs, one.log_probs, atol=0.1, rtol=0.05)


@pytest.mark.one_backend
@pytest.mark.parametrize("policy", ["complex64", "int32", "bool"])
def test_a_model_computes_in_floating_point(tmp_path, policy):
    tiny.translator().save_to_preset(tmp_path / "preset")
    message = f"cannot be created with the dtype policy '{policy}': give a floating-point one"
    with pytest.raises(UserError, match=message):
        Translator.from_preset(tmp_path / "preset", dtype=policy)
    for body in (tiny.backbone, tiny.transformer):
        with pytest.raises(UserError, match=message):
            body(dtype=policy)


@pytest.mark.long
@pytest.mark.one_backend
@pytest.mark.parametrize("cls", [Translator, keras_hub.models.Seq2SeqLM], ids=["ours", "hub"])
def test_a_preset_is_searched_as_it_was(tmp_path, cls, caplog):
    first = tiny.translator(body=tiny.transformer, output="latent")
    settings = {"beams": 3, "length_penalty": 0.6, "search_top_k": 2}
    first.compile(sampler=BeamSearch(3, 0.6), search_top_k=2)
    first.save_to_preset(tmp_path / "preset")
    second = cls.from_preset(str(tmp_path / "preset"))
    assert second.search_settings == settings
    expected = first.translate(TEXTS, n_best=3)
    assert [[one.score for one in many] for many in second.translate(TEXTS, n_best=3)] == [
        [one.score for one in many] for many in expected
    ]
    # Compiling to train on leaves the beams as they are.
    second.compile("sgd")
    assert second.search_settings == {**settings, "search_top_k": None}
    second.compile(sampler="top_p")
    assert second.search_settings is None and not caplog.messages
    second.save_to_preset(tmp_path / "again")
    assert caplog.messages[-1].startswith("presets keep no TopPSampler: loaded from ")


@pytest.mark.one_backend
@pytest.mark.parametrize(
    "joint, arguments",
    [
        (False, {"cell": "lstm", "decoder_layers": 2, "dropout": 0.1}),
        (
            True,
            {
                "tie_embeddings": "all",
                "cross_attention": LuongAttention("concat", 4, name="mine"),
                "dtype": "mixed_bfloat16",
            },
        ),
    ],
    ids=["two_tokenizers", "joint_mixed_instance"],
)
def test_preset_round_trip(tmp_path, joint, arguments):
    first = tiny.translator(joint=joint, **arguments)
    first.save_to_preset(tmp_path / "preset")
    # Whatever policy it was saved in, a preset is loaded in the one that Keras is set to.
    second = Translator.from_preset(str(tmp_path / "preset"))
    assert isinstance(second, Translator)
    assert second.backbone.dtype_policy.name == "float32"
    assert_same_weights(second.backbone, first.backbone)
    saved, loaded = first.backbone.get_config(), second.backbone.get_config()
    assert {**saved, "dtype": None} == {**loaded, "dtype": None}
    one, two = first.preprocessor, second.preprocessor
    assert two.encoder_sequence_length == two.decoder_sequence_length == tiny.LENGTH
    assert two.source_tokenizer.tokenize(TEXTS) == one.source_tokenizer.tokenize(TEXTS)
    targets = tiny.sentences("target")[:3]
    assert two.tokenizer.tokenize(targets) == one.tokenizer.tokenize(targets)
    if not joint:
        assert two.tokenizer.tokenize(TEXTS) != two.source_tokenizer.tokenize(TEXTS)


@pytest.mark.one_backend
def test_parts_of_a_preset(tmp_path):
    folder = str(tmp_path / "preset")
    task = tiny.translator(dtype="mixed_bfloat16")
    task.save_to_preset(folder)
    assert_same_weights(RNNBackbone.from_preset(folder), task.backbone)
    mixed = keras_hub.models.Seq2SeqLM.from_preset(folder, dtype="mixed_bfloat16")
    assert isinstance(mixed, Translator) and mixed.backbone.dtype_policy.name == "mixed_bfloat16"
    targets = tiny.sentences("target")[:3]
    tokenizer = TranslationTokenizer.from_preset(folder)
    assert tokenizer.tokenize(targets) == task.preprocessor.tokenizer.tokenize(targets)
    preprocessor = TranslationPreprocessor.from_preset(folder)
    assert preprocessor.encoder_sequence_length == tiny.LENGTH
    assert preprocessor.source_tokenizer.tokenize(TEXTS) == task.preprocessor.source_tokenizer.tokenize(TEXTS)


@pytest.mark.long
def test_keras_file_keeps_weights_optimizer_and_sampler(tmp_path):
    task = tiny.translator(cross_attention=LuongAttention("general", name="mine"))
    task.compile(
        optimizer=keras.optimizers.Adam(0.02, global_clipnorm=1.0),
        label_smoothing=0.1,
        accumulation_steps=2,
        sampler=BeamSearch(2, length_penalty=0.3),
    )
    task.optimizer.build(task.trainable_variables)
    for number, variable in enumerate(task.optimizer.variables):
        variable.assign(keras.ops.full(variable.shape, number, dtype=variable.dtype))
    path = tmp_path / "translator.keras"
    task.save(path)
    loaded = keras.models.load_model(path)
    assert isinstance(loaded, Translator)
    assert_same_weights(loaded.backbone, task.backbone)
    assert loaded.get_compile_config() == task.get_compile_config()
    assert isinstance(loaded.sampler, BeamSearch) and loaded.sampler.num_beams == 2
    assert (loaded.label_smoothing, loaded.accumulation_steps) == (0.1, 2)
    for one, two in zip(task.optimizer.variables, loaded.optimizer.variables, strict=True):
        np.testing.assert_array_equal(
            keras.ops.convert_to_numpy(one.value), keras.ops.convert_to_numpy(two.value), err_msg=one.path
        )
    assert tiny.hypotheses(loaded, TEXTS) == tiny.hypotheses(task, TEXTS)


@pytest.mark.skipif(keras.config.backend() == "tensorflow", reason="TensorFlow is the backend")
def test_tensorflow_is_out_of_reach():
    with pytest.raises(ImportError):
        import tensorflow  # noqa: F401


@pytest.mark.slow
@pytest.mark.parametrize("name", tiny.SHARED)
def test_another_backends_preset_translates_alike(name):
    folder = of_another_backend("tests.tiny", "save_with_translations")
    expected = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    task = Translator.from_preset(str(folder / name))
    task.compile(sampler=BeamSearch(3, length_penalty=0.6))
    found = tiny.hypotheses(task, TEXTS)
    for here, there in zip(found, expected, strict=True):
        assert [h[0] for h in here] == [h[0] for h in there]
        np.testing.assert_allclose([h[1:] for h in here], [h[1:] for h in there], rtol=0, atol=1e-4)
