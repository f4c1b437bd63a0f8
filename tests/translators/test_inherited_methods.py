"""Every public method that a translator inherits, on every form of input, compared with KerasHub's own Bart task.

Bart's preprocessing needs TensorFlow, so what it takes is asked under TensorFlow alone; `TAKEN` says it for the others.
"""

import inspect

import keras
import keras_hub
import numpy as np
import pytest

from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.translators import Translator
from tests import tiny

ON_TENSORFLOW = keras.config.backend() == "tensorflow"
SOURCES, TARGETS = tiny.sentences("source")[:3], tiny.sentences("target")[:3]
PAIRS = {"encoder_text": SOURCES, "decoder_text": TARGETS}

# What there is to call, by what of it is tested where. A method of a new Keras or KerasHub must be put somewhere.
RUN = {"fit", "evaluate", "predict", "generate", "train_on_batch", "test_on_batch", "predict_on_batch"}
# Tests of presets, `.keras` files, weights, quantization, training and search.
TESTED_ELSEWHERE = {
    *("call", "compile", "compile_from_config", "compute_output_spec", "count_params", "export", "from_config"),
    *("from_preset", "generate_step", "get_compile_config", "get_config", "get_metrics_result", "load_weights"),
    *("make_generate_function", "make_train_function", "quantize", "save", "save_to_preset", "save_weights"),
    *("test_step", "train_step"),
}
# Keras' or KerasHub's own, on which the translator changes nothing: they take no data, or tensors alone.
UNCHANGED = {
    *("add_loss", "add_metric", "add_variable", "add_weight", "build", "build_from_config", "compute_mask"),
    *("compute_output_shape", "export_to_transformers", "get_build_config", "get_layer", "get_state_tree"),
    *("get_quantization_layer_structure", "get_weights", "has_task_weights", "load_own_variables"),
    *("load_task_weights", "make_predict_function", "make_test_function", "predict_step", "quantized_build"),
    *("quantized_call", "rematerialized_call", "reset_metrics", "save_own_variables", "save_task_weights"),
    *("set_state_tree", "set_weights", "stateless_call", "summary", "symbolic_call", "to_json"),
}
# Parts of Keras' own training and KerasHub's own pipeline, which a translator does not run.
NOT_RUN = {"compute_loss", "compute_metrics", "preprocess_samples", "stateless_compute_loss"}
# Of the trainer or the layer of one backend.
OF_A_BACKEND = {"compiled_loss", "compute_loss_and_updates", "forward", "jax_state_sync", "loss", "named_parameters"}


def public_methods(kind):
    """Names of the methods of Keras and KerasHub."""
    classes = [one for one in kind.__mro__ if one.__module__.split(".")[0] in ("keras", "keras_hub")]
    names = {name for one in classes for name, value in vars(one).items() if inspect.isroutine(value)}
    names |= {name for one in classes for name, value in vars(one).items() if isinstance(value, classmethod)}
    return {name for name in names if not name.startswith("_")}


def test_every_inherited_method_is_classified():
    found = public_methods(keras_hub.models.Seq2SeqLM)
    known = RUN | TESTED_ELSEWHERE | UNCHANGED | NOT_RUN
    assert found - known - OF_A_BACKEND == set()
    assert known - found == set()


def test_positional_arguments_are_those_of_kerashub():
    for name in RUN:
        ours = list(inspect.signature(getattr(Translator, name)).parameters)
        theirs = list(inspect.signature(getattr(keras_hub.models.Seq2SeqLM, name)).parameters)
        assert ours[: len(theirs)] == theirs, name


class Batches(keras.utils.PyDataset):
    """Batches that are the same."""

    def __init__(self, batch, count=2):
        super().__init__()
        self.batch, self.count = batch, count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.batch


def mapped(change, texts):
    return {name: change(of_side) for name, of_side in texts.items()}


# Forms of sentence pairs in one piece, and how often the three pairs stand in them.
WHOLE = {
    "lists": lambda texts: texts,
    "arrays": lambda texts: mapped(np.array, texts),
    "arrays of objects": lambda texts: mapped(lambda x: np.array(x, object), texts),
    "arrays of bytes": lambda texts: mapped(lambda x: np.array([one.encode() for one in x]), texts),
    "bytes": lambda texts: mapped(lambda x: [one.encode() for one in x], texts),
}
BATCHED = {
    "generator": lambda texts: (batch for batch in [texts, texts]),
    "generator of tuples": lambda texts: (batch for batch in [(texts,)] * 2),
    "generator of sides": lambda texts: (batch for batch in [tuple(texts.values())] * 2),
    "PyDataset": lambda texts: Batches((texts,)),
    "PyDataset of dicts": Batches,
}
if keras.config.backend() == "torch":
    import torch

    BATCHED["DataLoader"] = lambda texts: torch.utils.data.DataLoader(
        [dict(zip(texts, pair, strict=True)) for pair in zip(*texts.values(), strict=True)] * 2, batch_size=3
    )
if ON_TENSORFLOW:
    import tensorflow as tf

    from tests.translators import bart

    def dataset(texts):
        return tf.data.Dataset.from_tensor_slices(texts).repeat(2).batch(3)

    WHOLE["tensors"] = lambda texts: mapped(tf.constant, texts)
    BATCHED |= {
        "tf.data": dataset,
        "tf.data of tuples": lambda texts: dataset(texts).map(lambda x: (x,)),
        "tf.data of sides": lambda texts: dataset(tuple(texts.values())),
    }
FORMS = {**WHOLE, **BATCHED}
# What the methods of Bart take of these; a translator takes more. At once, that is in a call without batches, Bart's
# tokenizer sees what it is given.
TAKEN = {*WHOLE, "tf.data", "tf.data of tuples"}
TAKEN_AT_ONCE = {"lists", "bytes", "tensors"}


@pytest.fixture(scope="module")
def task():
    task = tiny.translator()
    task.compile(optimizer=keras.optimizers.SGD(0.0), sampler="greedy")
    return task


@pytest.fixture(scope="module")
def ids(task):
    """The way that is tested against NumPy: the preprocessor, then the model."""
    return task.preprocessor(PAIRS)


@pytest.fixture(scope="module")
def expected(task, ids):
    x, _, weights = ids
    outputs = tiny.as_numpy(task(mapped(keras.ops.convert_to_tensor, x), training=False))
    pairs = [task.score(SOURCES, TARGETS)[i].log_probs for i in range(3)]
    return outputs, -sum(sum(one) for one in pairs) / weights.sum()


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
def test_text_in_any_form_gives_what_its_ids_give(task, ids, expected, form):
    outputs, loss = expected
    times, verbose = 1 + (form in BATCHED), {"verbose": 0}
    found = task.predict(FORMS[form](PAIRS), **verbose)
    for name, value in outputs.items():
        np.testing.assert_allclose(found[name], np.concatenate([value] * times), rtol=0, atol=1e-5)
    scores = task.evaluate(FORMS[form](PAIRS), return_dict=True, **verbose)
    history = task.fit(FORMS[form](PAIRS), validation_data=FORMS[form](PAIRS), **verbose).history
    for one in (scores["loss"], history["loss"][0], history["val_loss"][0]):
        np.testing.assert_allclose(one, loss, rtol=1e-4)
    assert scores["tokens"] == times * ids[2].sum()
    if "sides" not in form:
        assert task.generate(FORMS[form](PAIRS)) == task.generate(PAIRS) * times
    if form in WHOLE:
        for method in (task.train_on_batch, task.test_on_batch):
            np.testing.assert_allclose(method(FORMS[form](PAIRS))[0], loss, rtol=1e-4)
        found = task.predict_on_batch(FORMS[form](PAIRS))
        np.testing.assert_allclose(found["logits"], outputs["logits"], rtol=0, atol=1e-5)
    else:
        for method in (task.train_on_batch, task.test_on_batch, task.predict_on_batch):
            with pytest.raises(UserError, match="takes one batch"):
                method(FORMS[form](PAIRS))


@pytest.mark.parametrize("preprocessed", [True, False])
def test_ids_are_taken_beside_a_preprocessor_and_without(task, ids, expected, preprocessed):
    outputs, loss = expected
    other = task if preprocessed else Translator(task.backbone)
    if not preprocessed:
        other.compile(optimizer=keras.optimizers.SGD(0.0), sampler="greedy")
    x, y, weights = ids
    for form in (x, Batches(ids), (batch for batch in [ids])):
        found = other.predict(form, verbose=0)["logits"][:3]
        np.testing.assert_allclose(found, outputs["logits"], rtol=0, atol=1e-5)
    found = [other.evaluate(*ids[:2], sample_weight=weights, verbose=0), other.evaluate(Batches(ids), verbose=0)]
    found += [other.fit(x, y, 3, weights, ids, verbose=0).history["val_loss"]]
    found += [method(x, y, weights) for method in (other.train_on_batch, other.test_on_batch)]
    np.testing.assert_allclose([one[0] for one in found], loss, rtol=1e-4)
    np.testing.assert_allclose(other.predict_on_batch(x)["logits"], outputs["logits"], rtol=0, atol=1e-5)


def test_part_of_text_is_validated_on(task, ids):
    history = task.fit(PAIRS, validation_split=1 / 3, verbose=0).history
    np.testing.assert_allclose(history["val_tokens"], ids[2][2:].sum())
    np.testing.assert_allclose(history["tokens"], ids[2][:2].sum())


# Weights of whole pairs.


def test_weights_of_pairs(task, ids):
    """As many tokens as three: then a weight for each pair could be taken for one for each position."""
    losses = [-sum(one.log_probs) for one in task.score(SOURCES, TARGETS)]
    weights, lengths = np.array([2.0, 0.0, 0.5]), ids[2].sum(axis=1).astype("int")
    wanted = (weights @ losses) / (weights @ lengths)
    x, y, _ = ids
    found = [
        task.evaluate(PAIRS, sample_weight=weights, verbose=0),
        task.evaluate(x, y, sample_weight=weights, verbose=0),
        task.evaluate(x, y, sample_weight=weights[:, None], verbose=0),
        task.train_on_batch(x, y, weights),
    ]
    np.testing.assert_allclose([one[0] for one in found], wanted, rtol=1e-4)
    # None of them counts padding, nor do ids without weights.
    np.testing.assert_allclose(task.evaluate(x, y, verbose=0)[0], sum(losses) / lengths.sum(), rtol=1e-4)
    square = {name: array[:, : lengths.max()] for name, array in x.items()}
    size = int(lengths.max())
    rows = [i % 3 for i in range(size)]
    many = {name: array[rows] for name, array in square.items()}
    weights = np.linspace(0, 1, size)
    wanted = sum(w * losses[i] for w, i in zip(weights, rows, strict=True)) / (weights @ lengths[rows])
    found = task.evaluate(many, y[rows, :size], batch_size=size, sample_weight=weights, verbose=0)
    np.testing.assert_allclose(found[0], wanted, rtol=1e-4)


# Search.


def test_generate_takes_what_holds_strings(task):
    alone = task.generate(SOURCES)
    for texts in (np.array(SOURCES), np.array(SOURCES, object), tuple(SOURCES), [one.encode() for one in SOURCES]):
        assert task.generate(texts) == alone
    assert task.generate(np.array(SOURCES[0])) == alone[0]
    assert task.generate(Batches((SOURCES, TARGETS))) == task.generate(one for one in [SOURCES, SOURCES]) == alone * 2
    given = {"encoder_text": SOURCES[0], "decoder_text": ""}
    assert task.generate(given) == alone[0]
    assert given == {"encoder_text": SOURCES[0], "decoder_text": ""}
    if ON_TENSORFLOW:
        texts = tf.data.Dataset.from_tensor_slices(SOURCES)
        assert task.generate(tf.constant(SOURCES)) == alone
        assert task.generate(tf.constant(SOURCES[0])) == alone[0]
        # The last batch has one row.
        assert task.generate(texts.batch(2)) == task.generate(texts) == alone


def test_generate_of_ids_makes_room(task):
    x = task.preprocessor.generate_preprocess(SOURCES, 4)
    other = Translator(task.backbone)
    other.compile(sampler="greedy")
    stop = [task.preprocessor.tokenizer.end_token_id]
    long = task.preprocessor.generate_preprocess(SOURCES, 12)
    wanted = other.generate(long, stop_token_ids=stop)
    for inputs, most in ((x, 12), (task.preprocessor.generate_preprocess(SOURCES, 14), 12), (long, None)):
        found = other.generate(inputs, max_length=most, stop_token_ids=stop)
        for name, value in wanted.items():
            np.testing.assert_array_equal(found[name], value)
    rows = [{name: array[i : i + 1] for name, array in x.items()} for i in range(3)]
    parts = other.generate((row for row in rows), 12, stop)
    np.testing.assert_array_equal(parts["decoder_token_ids"], wanted["decoder_token_ids"])
    begun = task.preprocessor.generate_preprocess({"encoder_text": SOURCES, "decoder_text": TARGETS})
    with pytest.raises(UserError, match="a beginning is longer than max_length=2"):
        other.generate(begun, 2, stop)


# What cannot be.


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda task, ids: task.predict(SOURCES), "sources and their translations.*or call translate"),
        (lambda task, ids: task.predict({"encoder_text": SOURCES}), "as a dict of encoder_text and decoder_text"),
        (lambda task, ids: task.fit({"encoder_text": "kalo", "decoder_text": "bado"}), "put it into a list"),
        (lambda task, ids: task.evaluate({"encoder_text": [], "decoder_text": []}), "there are no sentences"),
        (lambda task, ids: task.fit(Batches((), 0)), "Batches has no batches: give it some sentences"),
        (lambda task, ids: task.fit(PAIRS, ids[1]), "leave y out"),
        (lambda task, ids: task.fit(PAIRS, sample_weight=ids[2]), "one weight for each pair, 3 here; .* shape"),
        (lambda task, ids: task.fit(PAIRS, sample_weight=[1, np.nan, 1]), "weights must be finite numbers"),
        (lambda task, ids: task.fit(PAIRS, sample_weight=["a", "b", "c"]), "weights must be finite numbers"),
        (lambda task, ids: task.fit(*ids[:2], sample_weight=np.array([1, np.nan, 1])), "must be finite numbers"),
        (lambda task, ids: task.train_on_batch(*ids[:2], [1, np.inf, 1]), "weights must be finite numbers"),
        (lambda task, ids: task.predict({"source": SOURCES, "target": TARGETS}), "as a dict of encoder_text"),
        (lambda task, ids: task.fit(Batches(({"source": SOURCES},))), "as a dict of encoder_text"),
        (lambda task, ids: task.generate(SOURCES, stop_token_ids=[10**9]), "must be a list of ids below"),
        (lambda task, ids: task.fit(None), "received None"),
        (lambda task, ids: task.generate({}), "as a dict of encoder_text"),
        (lambda task, ids: task.generate({"source": SOURCES}), "as a dict of encoder_text"),
        (lambda task, ids: task.fit(PAIRS, class_weight={0: 1.0}), "class_weight"),
        (lambda task, ids: task.train_on_batch(PAIRS, class_weight={0: 1.0}), "class_weight"),
        (lambda task, ids: task.fit(ids[0]), "ids need labels"),
        (lambda task, ids: task.test_on_batch(ids[0]), "ids need labels"),
        (lambda task, ids: task.predict({"encoder_text": [b"\xff"], "decoder_text": ["bado"]}), "must be UTF-8"),
        (lambda task, ids: Translator(task.backbone).predict(PAIRS), "takes only ids"),
        (lambda task, ids: Translator(task.backbone).predict(Batches((PAIRS,))), "takes only ids"),
        (lambda task, ids: Translator(task.backbone).generate(SOURCES, stop_token_ids=[3]), "takes only ids"),
        (lambda task, ids: Translator(task.backbone).generate(ids[0]), "give stop_token_ids"),
    ],
)
def test_what_cannot_be_is_said_in_a_line(task, ids, call, message):
    with pytest.raises(UserError, match=message) as caught:
        call(task, ids)
    assert "\n" not in str(caught.value)


# Keras' tools.


@pytest.mark.skipif(not ON_TENSORFLOW, reason="tf.data is TensorFlow's")
def test_tokenizer_and_preprocessor_in_graphs(task, ids):
    texts = tf.data.Dataset.from_tensor_slices(PAIRS)
    for mapped_texts in (texts.batch(3).map(task.preprocessor), texts.map(task.preprocessor).batch(3)):
        assert [tuple(one.shape) for one in keras.tree.flatten(mapped_texts.element_spec)] == [(None, tiny.LENGTH)] * 6
        (found,) = mapped_texts.as_numpy_iterator()
        for one, wanted in zip(keras.tree.flatten(found), keras.tree.flatten(ids), strict=True):
            np.testing.assert_array_equal(one, wanted)
            assert one.dtype == wanted.dtype
    tokenizer = task.preprocessor.source_tokenizer
    wanted = tokenizer.tokenize(SOURCES)
    assert tokenizer(tf.constant(SOURCES)) == wanted
    sources = tf.data.Dataset.from_tensor_slices(SOURCES)
    (ragged,) = sources.batch(3).map(tokenizer)
    assert ragged.to_list() == wanted
    assert [row.tolist() for row in sources.map(tokenizer).as_numpy_iterator()] == wanted
    with pytest.raises(UserError, match="is not batched"):
        task.fit(texts)


# Bart.


def described(result):
    """Types of a result and of what is in it; of arrays, the number of axes and of rows too."""
    if isinstance(result, (list, tuple)):
        return type(result).__name__, *{described(one) for one in result}
    array = (result.dtype.name, result.ndim, len(result)) if isinstance(result, np.ndarray) else ()
    return type(result).__name__, *array


@pytest.mark.long
@pytest.mark.skipif(not ON_TENSORFLOW, reason="Bart's preprocessing needs TensorFlow")
@pytest.mark.parametrize(
    "methods",
    [
        ("generate", "train_on_batch", "test_on_batch", "predict_on_batch"),
        # KerasHub traces its tokenizer anew in every call of these, 15 seconds each.
        pytest.param(("fit", "evaluate", "predict"), marks=pytest.mark.slow),
    ],
    ids=["at once", "in batches"],
)
def test_whatever_bart_takes_is_taken_and_gives_the_same_kind_of_result(task, methods):
    theirs = bart.bart()
    for form, make in FORMS.items():
        for method in methods:
            quiet = {"verbose": 0} if method in ("fit", "evaluate", "predict") else {}
            try:
                wanted = getattr(theirs, method)(make(bart.TEXTS), **quiet)
            except (TypeError, ValueError):
                wanted = None
            assert (wanted is not None) == (form in (TAKEN if quiet else TAKEN_AT_ONCE)), (method, form)
            if wanted is None:
                continue
            found = getattr(task, method)(make(PAIRS), **quiet)
            if "predict" in method:
                # Beside them stand the scores of attention.
                found = found["logits"]
            assert described(found) == described(wanted), (method, form)
