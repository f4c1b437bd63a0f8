"""Training steps against closed-form gradients, finite differences and literal optimizers in NumPy."""

import keras
import numpy as np
import pytest

from keras_attn_zoo.data.batches import as_fit_input
from keras_attn_zoo.layers import MultiHeadAttention
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.translators import Translator
from tests import tiny
from tests.bodies.reference import ReferenceTranslator
from tests.training.toy import fit_once, global_norm, toy, toy_batch, toy_gradients, weights_of

BACKEND = keras.config.backend()


@pytest.mark.parametrize(("smoothing", "parts", "rows"), [(0.0, 1, 6), (0.2, 1, 6), (0.2, 3, 6), (0.2, 4, 3)])
def test_step_equals_the_closed_form_in_any_number_of_parts(smoothing, parts, rows):
    model = toy(keras.optimizers.SGD(1.0), label_smoothing=smoothing, accumulation_steps=parts)
    batch = toy_batch(rows=rows)
    before = weights_of(model)
    logs = fit_once(model, batch)
    loss, gradients, nll = toy_gradients(before, batch, smoothing)
    for now, old, gradient in zip(weights_of(model), before, gradients, strict=True):
        np.testing.assert_allclose(old - now, gradient, rtol=0, atol=2e-7)
    assert logs["loss"][0] == pytest.approx(loss, rel=1e-6)
    assert logs["perplexity"][0] == pytest.approx(np.exp(nll), rel=1e-6)
    assert logs["gradient_norm"][0] == pytest.approx(global_norm(gradients), rel=1e-5)
    assert logs["tokens"][0] == batch[2].sum()
    right = np.argmax(before[0][batch[0]["tokens"]] @ before[1] + before[2], -1) == batch[1]
    assert logs["accuracy"][0] == pytest.approx((right * batch[2]).sum() / batch[2].sum())


@pytest.mark.parametrize("parts", [1, 3])
def test_losses_of_layers_count_once_a_batch(parts):
    """A penalty on a kernel, and one on activations by `add_loss`: of parts, the mean weighted by tokens."""
    penalty, activity = 0.3, 0.05
    model = toy(keras.optimizers.SGD(1.0), penalty=penalty, activity=activity, accumulation_steps=parts)
    x, y, w = batch = toy_batch()
    before = weights_of(model)
    scores = model.evaluate(x, y, sample_weight=w, batch_size=len(y), verbose=0, return_dict=True)
    logs = fit_once(model, batch)
    loss, (d_table, d_kernel, d_bias), nll = toy_gradients(before, batch)
    d_kernel = d_kernel + 2 * penalty * before[1]
    d_table, of_activity = d_table.copy(), 0.0
    for part in range(parts):
        tokens = x["tokens"][part::parts]
        # Keras divides by the rows.
        share = w[part::parts].sum() / w.sum() / len(tokens)
        of_activity += share * activity * (before[0][tokens] ** 2).sum()
        np.add.at(d_table, tokens, share * activity * 2 * before[0][tokens])
    for now, old, gradient in zip(weights_of(model), before, [d_table, d_kernel, d_bias], strict=True):
        np.testing.assert_allclose(old - now, gradient, rtol=0, atol=1e-6)
    of_kernel = penalty * (before[1] ** 2).sum()
    assert logs["loss"][0] == pytest.approx(loss + of_kernel + of_activity, rel=1e-5)
    whole = activity * (before[0][x["tokens"]] ** 2).sum() / len(y)
    assert scores["loss"] == pytest.approx(loss + of_kernel + whole, rel=1e-5)
    assert scores["perplexity"] == pytest.approx(np.exp(nll), rel=1e-5)
    assert logs["perplexity"][0] == pytest.approx(np.exp(nll), rel=1e-5)


def test_a_weight_without_a_gradient_is_left_alone():
    model, batch = toy(keras.optimizers.SGD(1.0), unused=True, accumulation_steps=2), toy_batch()
    before = weights_of(model)
    fit_once(model, batch)
    _, gradients, _ = toy_gradients(before[:3], batch)
    for now, old, gradient in zip(weights_of(model), before, [*gradients, 0, 0], strict=True):
        np.testing.assert_allclose(old - now, gradient, rtol=0, atol=2e-7)


class Corpus(keras.utils.PyDataset):
    """Batches of different shapes and of very different numbers of real tokens."""

    repeat = False

    def __init__(self, seed):
        super().__init__()
        shapes = [(2, 9), (6, 5), (6, 5), (2, 9)]
        self.batches = [toy_batch(seed + i, *shape) for i, shape in enumerate(shapes)]

    def __len__(self):
        return len(self.batches)

    def __getitem__(self, index):
        return self.batches[index]

    def expected(self, weights, smoothing=0.0):
        """Loss and perplexity over all tokens of the corpus."""
        tokens = [w.sum() for _, _, w in self.batches]
        loss, _, nll = zip(*(toy_gradients(weights, batch, smoothing) for batch in self.batches), strict=True)
        return np.dot(loss, tokens) / sum(tokens), np.exp(np.dot(nll, tokens) / sum(tokens)), sum(tokens)


def test_logs_are_per_token_over_the_whole_corpus():
    # A learning rate of 0 keeps the weights, and so the loss of every batch, as they are.
    model = toy(keras.optimizers.SGD(0.0), label_smoothing=0.1)
    training, validation = Corpus(0), Corpus(50)
    weights = weights_of(model)
    seen = []
    watch = keras.callbacks.LambdaCallback(on_train_batch_end=lambda step, logs: seen.append(dict(logs)))
    logs = model.fit(
        as_fit_input(training),
        validation_data=as_fit_input(validation),
        epochs=2,
        verbose=0,
        shuffle=False,
        callbacks=[watch],
    ).history
    loss, perplexity, tokens = training.expected(weights, 0.1)
    assert logs["loss"] == pytest.approx([loss] * 2, rel=1e-6)
    assert logs["perplexity"] == pytest.approx([perplexity] * 2, rel=1e-6)
    assert logs["tokens"] == [tokens] * 2
    # Means of means would be another number.
    means = np.mean([toy_gradients(weights, batch, 0.1)[0] for batch in training.batches])
    assert abs(means - loss) > 1e-3
    # A validation counts plain likelihood alone, and has no gradient.
    loss, perplexity, tokens = validation.expected(weights)
    assert logs["val_loss"] == pytest.approx([loss] * 2, rel=1e-6)
    assert logs["val_perplexity"] == pytest.approx([perplexity] * 2, rel=1e-6)
    assert logs["val_tokens"] == [tokens] * 2
    assert set(logs) == {
        "loss", "perplexity", "accuracy", "gradient_norm", "tokens",
        "val_loss", "val_perplexity", "val_accuracy", "val_tokens",
    }  # fmt: skip
    scores = model.evaluate(as_fit_input(validation), verbose=0, return_dict=True)
    assert set(scores) == {"loss", "perplexity", "accuracy", "tokens"}
    assert scores["loss"] == pytest.approx(loss, rel=1e-6)
    assert scores["perplexity"] == pytest.approx(perplexity, rel=1e-6)
    # A step tells the numbers of its own batch.
    for log, batch in zip(seen, training.batches * 2, strict=True):
        loss, gradients, nll = toy_gradients(weights, batch, 0.1)
        assert float(log["loss"]) == pytest.approx(loss, rel=1e-5)
        assert float(log["perplexity"]) == pytest.approx(np.exp(nll), rel=1e-5)
        assert float(log["gradient_norm"]) == pytest.approx(global_norm(gradients), rel=1e-5)
        assert float(log["tokens"]) == batch[2].sum()


def test_without_sample_weights_every_token_counts():
    model = toy(keras.optimizers.SGD(0.0))
    x, y, _ = toy_batch()
    logs = model.evaluate(x, y, batch_size=6, verbose=0, return_dict=True)
    expected, _, _ = toy_gradients(weights_of(model), (x, y, np.ones(y.shape)))
    assert logs["loss"] == pytest.approx(expected, rel=1e-6)
    assert logs["tokens"] == y.size


@pytest.mark.one_backend
@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"label_smoothing": 1.0}, "label_smoothing.*Received: 1.0"),
        ({"label_smoothing": -0.1}, "label_smoothing.*Received: -0.1"),
        ({"accumulation_steps": 0}, "accumulation_steps.*Received: 0"),
        ({"accumulation_steps": 2.0}, "accumulation_steps.*Received: 2.0"),
    ],
)
def test_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        toy("sgd", **arguments)


# The translator itself.

MODEL = {
    "cell": "lstm",
    "decoder_layers": 2,
    "cross_attention": "bahdanau_feedback",
    "input_feeding": True,
    "readout": "maxout",
    "tie_embeddings": "target",
}
LATENT = {"cell": "lstm", "cross_attention": "bahdanau_feedback", "readout": "state", "output": "latent"}


def translator(optimizer, smoothing=0.0, jit_compile="auto", body=tiny.backbone, **arguments):
    task = Translator(body(**arguments))
    task.compile(optimizer=optimizer, label_smoothing=smoothing, jit_compile=jit_compile)
    return task


POSTERIOR = {
    **LATENT,
    "cross_attention": "luong_general",
    "attention_query": "current_state",
    "posterior_feeding": True,
}
FIRST_ORDER = {**LATENT, "max_jump": 2}


@pytest.mark.parametrize(
    "arguments",
    [MODEL, LATENT, POSTERIOR, pytest.param(FIRST_ORDER, marks=pytest.mark.slow_compiled)],
    ids=["softmax", "latent", "posterior", "first_order"],
)
def test_translator_gradient_equals_finite_differences(arguments):
    task = translator(keras.optimizers.SGD(1.0), smoothing=0.1, **arguments)
    batch = tiny.batch(rows=4)
    paths = [v.path for v in task.backbone.trainable_variables]
    before = dict(zip(paths, weights_of(task.backbone), strict=True))
    logs = fit_once(task, batch)
    after = dict(zip(paths, weights_of(task.backbone), strict=True))
    gradients = {path: before[path] - after[path] for path in paths}

    def loss(weights):
        reference = ReferenceTranslator(weights, **tiny.BACKBONE, **arguments)
        total = 0.0
        for i, n in enumerate(batch[2].sum(-1).astype(int)):
            source = batch[0]["encoder_token_ids"][i][batch[0]["encoder_padding_mask"][i]]
            target = batch[0]["decoder_token_ids"][i, :n]
            total += reference.nll(source, target, batch[1][i, :n], 0.1).sum()
        return total / batch[2].sum()

    assert logs["loss"][0] == pytest.approx(loss(before), rel=1e-5)
    assert logs["gradient_norm"][0] == pytest.approx(global_norm(gradients.values()), rel=1e-4)
    rng, step = np.random.default_rng(4), 1e-5
    for path in paths:
        assert np.abs(gradients[path]).max() > 1e-6, path
        direction = rng.standard_normal(before[path].shape)
        there, back = (loss({**before, path: before[path] + sign * step * direction}) for sign in (1, -1))
        np.testing.assert_allclose(
            (gradients[path] * direction).sum(), (there - back) / (2 * step), rtol=1e-3, atol=2e-6, err_msg=path
        )


@pytest.mark.parametrize(
    "arguments",
    [
        {"decoder_layers": 2, "dropout": 0.1, "cross_attention": "luong_general", "bidirectional": False},
        # JAX is as strict in what a loop may carry.
        pytest.param({"dtype": "mixed_bfloat16"}, marks=pytest.mark.slow if BACKEND == "tensorflow" else ()),
        pytest.param(
            {**LATENT, "dropout": 0.1, "marginalization": "top_k", "top_k": 2}, marks=pytest.mark.slow_compiled
        ),
    ],
    ids=["dropout_and_guesses", "mixed_bfloat16", "latent"],
)
@pytest.mark.long
def test_translator_learns(arguments):
    guesses = arguments.get("decoder_layers") == 2
    # TensorFlow compiles with XLA on GPUs: guesses, dropout and their gradient, and the mixture, must pass it.
    xla = True if "dropout" in arguments and BACKEND == "tensorflow" else "auto"
    task = translator(keras.optimizers.Adam(0.03), jit_compile=xla, **arguments)
    x, y, w = tiny.batch(rows=4)
    if guesses:
        x["teacher_forcing_mask"] = np.random.default_rng(0).random(y.shape) < 0.7
    before = weights_of(task)
    logs = task.fit(x, y, sample_weight=w, batch_size=4, epochs=30, shuffle=False, verbose=0).history
    assert np.isfinite(logs["loss"]).all()
    assert logs["loss"][-1] < 0.5 * logs["loss"][0]
    assert {v.dtype for v in task.trainable_variables} == {"float32"}
    for variable, now, old in zip(task.trainable_variables, weights_of(task), before, strict=True):
        assert np.abs(now - old).max() > 1e-3, variable.path


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param({}, marks=pytest.mark.slow_compiled),
        pytest.param(
            {"body": tiny.transformer, "dropout": 0.0},
            marks=[pytest.mark.long, pytest.mark.slow_compiled],
        ),
        pytest.param(LATENT, marks=[pytest.mark.one_backend, pytest.mark.long]),
    ],
    ids=["rnn", "transformer", "latent"],
)
def test_training_in_bfloat16_follows_training_in_float32(arguments):
    """A product rounds its factors by 2⁻⁹, and a few follow each other; SGD does not magnify what they add up to."""
    x, y, w = tiny.batch(rows=4)
    logs, weights = {}, {}
    for dtype in ("float32", "mixed_bfloat16"):
        task = translator(keras.optimizers.SGD(0.3, momentum=0.9), dtype=dtype, **arguments)
        before = weights_of(task)
        logs[dtype] = task.fit(x, y, sample_weight=w, batch_size=4, epochs=8, shuffle=False, verbose=0).history
        weights[dtype] = weights_of(task)
        states = [*task.trainable_variables, *task.optimizer.variables[2:], *task.metrics_variables]
        assert {keras.backend.standardize_dtype(variable.dtype) for variable in states} == {"float32"}
        assert task.backbone.compute_dtype == {"float32": "float32", "mixed_bfloat16": "bfloat16"}[dtype]
    exact, rounded = logs["float32"], logs["mixed_bfloat16"]
    assert rounded["loss"] != exact["loss"] and rounded["tokens"] == exact["tokens"]
    for name, tolerance in (("loss", 2**-8), ("perplexity", 2**-6), ("gradient_norm", 2**-5)):
        np.testing.assert_allclose(rounded[name], exact[name], rtol=tolerance, err_msg=name)
    # How far all weights went, and how far apart that took them.
    went = np.sqrt(sum(np.square(b - a).sum() for a, b in zip(before, weights["float32"], strict=True)))
    apart = np.sqrt(sum(np.square(b - a).sum() for a, b in zip(*weights.values(), strict=True)))
    assert 0 < apart < 2**-5 * went
    assert exact["loss"][-1] < 0.9 * exact["loss"][0]


@pytest.mark.parametrize("output", ["softmax", pytest.param("latent", marks=pytest.mark.one_backend)])
@pytest.mark.slow_compiled
def test_a_regularizer_of_the_attention_enters_the_loss_of_a_translator(output):
    attention = MultiHeadAttention(1, 3, output_shape=10, kernel_regularizer=keras.regularizers.L1(0.5))
    task = translator(keras.optimizers.SGD(0.0), output=output, cross_attention=attention)
    x, y, w = tiny.batch()
    logs = fit_once(task, (x, y, w))
    kernels = [v for v in task.backbone.trainable_variables if "attention" in v.path and "kernel" in v.path]
    penalty = 0.5 * sum(np.abs(keras.ops.convert_to_numpy(v)).sum() for v in kernels)
    assert len(kernels) == 4
    assert logs["loss"][0] - np.log(logs["perplexity"][0]) == pytest.approx(penalty, rel=1e-4)


@pytest.mark.one_backend
def test_float16_is_not_trained():
    with pytest.raises(UserError, match=r"in float16 translates, but cannot be trained, .* use mixed_bfloat16"):
        translator("sgd", dtype="mixed_float16").fit(*tiny.batch()[:2], verbose=0)


def test_a_model_without_trainable_weights_is_run_and_stays():
    model = toy(keras.optimizers.SGD(1.0))
    model.trainable = False
    model.compile(keras.optimizers.SGD(1.0))
    batch, before = toy_batch(), weights_of(model)
    assert np.isfinite(fit_once(model, batch)["loss"][0])
    for now, old in zip(weights_of(model), before, strict=True):
        np.testing.assert_array_equal(now, old)
