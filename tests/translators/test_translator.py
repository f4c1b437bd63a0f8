"""The translator: its hypotheses against the NumPy reference, and what batching and compiling may not change."""

import itertools

import keras
import keras_hub
import numpy as np
import pytest

from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.translators import Translator
from tests import tiny
from tests.bodies.reference import ReferenceTranslator, log_softmax
from tests.weights import fill_weights

START, END = 2, 3
TEXTS = tiny.sentences("source")[:6]
# Scores are sums of up to fifteen float32 log-probabilities.
TOLERANCE = {"rtol": 0, "atol": 1e-4}


@pytest.fixture(scope="module")
def task():
    return tiny.translator()


@pytest.fixture(scope="module")
def found(task):
    return task.translate(TEXTS, n_best=3, attention=True)


def reference_of(task, **arguments):
    weights = {v.path: keras.ops.convert_to_numpy(v.value) for v in task.backbone.trainable_variables}
    return ReferenceTranslator(weights, **tiny.BACKBONE, **arguments)


def source_ids(task, text):
    return [*task.preprocessor.source_tokenizer.tokenize([text])[0], END]


def target_ids(task, hypothesis):
    return [task.preprocessor.tokenizer.token_to_id(piece) for piece in hypothesis.tokens]


def scores(translations):
    return [h.score for best in translations for h in best]


# What a hypothesis says.


def test_attention_keeps_none_of_other_sentences(task, found):
    forced = task.force(TEXTS[:2], ["bado", "kalo bado"])
    assert all(one.attention.base is None for one in (*forced, *itertools.chain(*found)))


def test_an_empty_sentence_has_an_empty_translation(task):
    """Not what the model would make up, and as in the command line; the sentences beside it are as they would be."""
    alone = task.translate(TEXTS[:2], n_best=2)
    found = task.translate(["", TEXTS[0], "  ", TEXTS[1]], n_best=2, attention=True)
    assert tiny.plain([found[1], found[3]]) == tiny.plain(alone)
    for [empty] in (found[0], found[2]):
        assert (empty.text, empty.score, empty.log_prob) == ("", 0.0, 0.0)
        assert empty.source_tokens == empty.tokens == ["</s>"]
        np.testing.assert_allclose(empty.attention, np.ones((1, 1, 1)), rtol=0, atol=1e-6)
    assert task.translate("")[0].text == task.generate("") == ""
    assert task.generate(["", TEXTS[0], " "]) == ["", task.generate(TEXTS[0]), ""]
    assert task.translate([]) == task.generate([]) == task.generate(np.array([], "U1")) == []
    # A beginning that is given stays.
    begun = task.generate({"encoder_text": [""], "decoder_text": ["bado"]})
    assert begun[0].startswith("bado")


def test_hypotheses_equal_numpy(task, found):
    reference = reference_of(task)
    assert len({len(best[0].tokens) for best in found}) > 2
    for text, best in zip(TEXTS, found, strict=True):
        source = source_ids(task, text)
        for hypothesis in best:
            ids = target_ids(task, hypothesis)
            _, logits, weights, _ = reference.decode(source, [START, *ids[:-1]])
            log_prob = log_softmax(logits)[np.arange(len(ids)), ids].sum()
            np.testing.assert_allclose(hypothesis.log_prob, log_prob, **TOLERANCE)
            np.testing.assert_allclose(hypothesis.score, log_prob / ((5 + len(ids)) / 6) ** 0.6, **TOLERANCE)
            assert hypothesis.attention.shape == (1, len(ids), len(source))
            np.testing.assert_allclose(hypothesis.attention[0], weights, **TOLERANCE)


@pytest.mark.one_backend
def test_hypotheses_are_ordered_and_readable(task, found):
    for text, best in zip(TEXTS, found, strict=True):
        assert len(best) == 3
        assert [h.score for h in best] == sorted((h.score for h in best), reverse=True)
        assert len({tuple(h.tokens) for h in best}) == 3
        for hypothesis in best:
            assert "".join(hypothesis.source_tokens[:-1]).replace("▁", " ").strip() == text
            assert hypothesis.source_tokens[-1] == "</s>"
            assert "</s>" not in hypothesis.tokens[:-1]
            assert hypothesis.tokens[-1] == "</s>" or len(hypothesis.tokens) == tiny.LENGTH - 1
            pieces = [piece for piece in hypothesis.tokens if piece != "</s>"]
            assert "".join(pieces).replace("▁", " ").strip() == hypothesis.text


@pytest.mark.parametrize("sampler", ["greedy", keras_hub.samplers.GreedySampler()])
def test_greedy_search_equals_numpy(sampler):
    task = tiny.translator(seed=4, sampler=sampler)
    reference, lengths = reference_of(task), set()
    # KerasHub's sampler goes on after the end of the shorter sentences.
    for text, translation in zip(TEXTS, task.generate(TEXTS), strict=True):
        tokens = [START]
        while len(tokens) < tiny.LENGTH and tokens[-1] != END:
            logits = reference.decode(source_ids(task, text), tokens)[1]
            tokens.append(int(np.argmax(logits[-1])))
        assert translation == task.preprocessor.detokenize(tokens)
        lengths.add(len(tokens))
    assert len(lengths) > 1


@pytest.fixture
def changing(task):
    """The task, whose weights are put back afterwards."""
    values = [keras.ops.convert_to_numpy(v.value).copy() for v in task.backbone.weights]
    yield task
    for variable, value in zip(task.backbone.weights, values, strict=True):
        variable.assign(value)


@pytest.mark.one_backend
def test_an_emitted_padding_token_ends_nothing(changing):
    bias = np.zeros(tiny.PIECES, "float32")
    bias[[0, END]] = 40.0, 41.5
    changing.backbone.output_projection.bias.assign(bias)
    [best] = changing.translate(TEXTS[:1], n_best=3)
    ended = [h.tokens for h in best if "</s>" in h.tokens]
    assert any("<pad>" in tokens for tokens in ended)
    assert all(tokens.index("</s>") == len(tokens) - 1 for tokens in ended)
    assert {h.text for h in best} == {""}


# What changes nothing.


def test_attention_is_only_given_when_asked_for(task, found):
    without = task.translate(TEXTS, n_best=3)
    assert tiny.plain(without) == tiny.plain(found)
    np.testing.assert_allclose(scores(without), scores(found), **TOLERANCE)
    assert all(h.attention is None for best in without for h in best)


def test_a_sentence_gets_the_same_translation_alone_and_among_others(task, found):
    calls = []
    small = task.translate(TEXTS, n_best=3, batch_size=1, progress=calls.append)
    assert tiny.plain(small) == tiny.plain(found)
    np.testing.assert_allclose(scores(small), scores(found), **TOLERANCE)
    assert calls == [1, 2, 3, 4, 5, 6]


def test_generate_gives_the_best_translations(task, found):
    texts = [best[0].text for best in found]
    assert task.generate(TEXTS) == texts and task.generate(TEXTS[0]) == texts[0]


def test_new_weights_are_used_at_once(changing, found):
    fill_weights(changing.backbone, seed=1, scale=1.0)
    reference = reference_of(changing)
    translations = changing.translate(TEXTS, attention=True)
    assert tiny.plain(translations) != tiny.plain([best[:1] for best in found])
    for text, [hypothesis] in zip(TEXTS, translations, strict=True):
        ids = target_ids(changing, hypothesis)
        logits = reference.decode(source_ids(changing, text), [START, *ids[:-1]])[1]
        log_prob = log_softmax(logits)[np.arange(len(ids)), ids].sum()
        np.testing.assert_allclose(hypothesis.log_prob, log_prob, **TOLERANCE)


@pytest.mark.skipif(keras.config.backend() == "torch", reason="nothing is traced under torch")
@pytest.mark.parametrize("body", [tiny.backbone, tiny.transformer])
def test_one_trace_serves_all_sentences_of_a_bucket(body):
    task = tiny.translator(seed=4, body=body)
    traces, start_search = [], task.backbone.start_search

    def counting(token_ids, *others):
        traces.append(tuple(token_ids.shape))
        return start_search(token_ids, *others)

    task.backbone.start_search = counting
    tokenize = task.preprocessor.source_tokenizer.tokenize
    short = [text for text in tiny.sentences("source") if len(tokenize([text])[0]) < 8]
    for texts in (short[:5], short[3:9], short[5:13]):
        found = task.translate(texts)
    assert traces == [(8, 8)]
    # Nor do calls of `generate` need more.
    for count in (2, 3, 4):
        assert task.generate(texts[:count]) == [best[0].text for best in found[:count]]
    assert traces == [(8, 8)] * 2


# Samplers, lengths, beginnings.


def test_a_shorter_limit_cuts(task):
    for [hypothesis] in task.translate(TEXTS, max_length=4):
        assert len(hypothesis.tokens) <= 3


@pytest.mark.one_backend
def test_room_for_longer_sentences_is_that_of_a_model_made_for_them():
    texts = [TEXTS[0], " ".join(["kalomi"] * 8)]
    task, made = tiny.translator(sampler="greedy"), tiny.translator(sampler="greedy", length=30)
    task.set_max_tokens(30)
    assert tiny.plain(task.translate(texts)) == tiny.plain(made.translate(texts))
    found, expected = (one.force(texts, ["bado " * 20] * 2)[1].attention for one in (task, made))
    np.testing.assert_array_equal(found, expected)
    assert min(found.shape[1:]) > tiny.LENGTH


@pytest.mark.one_backend
@pytest.mark.parametrize("arguments", [{"encoder_positions": "learned"}, {"decoder_attention": "recurrent"}])
def test_no_room_beyond_the_weights(arguments):
    with pytest.raises(UserError, match="at most 16 tokens, not for 24"):
        tiny.translator(body=tiny.transformer, length=24, **arguments)
    task = tiny.translator(body=tiny.transformer, **arguments)
    calls = (
        task.set_max_tokens,
        lambda length: task.translate(TEXTS[:1], max_length=length),
        lambda length: task.generate(TEXTS[:1], max_length=length),
    )
    for call in calls:
        with pytest.raises(UserError, match="at most 16 tokens, not for 17"):
            call(17)
    for received in (1, 2.5, "60", None):
        with pytest.raises(UserError, match=f"at least 2, for start and end; received {received!r}"):
            task.set_max_tokens(received)
    task.set_max_tokens(np.int64(12))
    assert type(task.preprocessor.encoder_sequence_length) is int
    with pytest.raises(
        UserError, match=r"sentence 1 has 13 tokens with its end, more than the 12 .*set_max_tokens\(13\)"
    ) as caught:
        task.force(["kalo" * 11], ["bado"])
    assert "--max-tokens 13" in caught.value.for_shell
    # What is advised is enough.
    task.set_max_tokens(13)
    task.force(["kalo" * 11], ["bado"])


def test_generate_continues_a_given_beginning(task):
    [text, free] = task.generate({"encoder_text": TEXTS[:2], "decoder_text": ["bado", ""]})
    assert text.startswith("bado") and free == task.generate(TEXTS[1])


# Forced decoding, and training on text.


def test_forced_decoding_equals_numpy(task):
    reference, targets = reference_of(task), tiny.sentences("target")[:3]
    calls = []
    forced = task.force(TEXTS[:3], targets, batch_size=2, progress=calls.append)
    assert calls == [2, 3]
    for text, target, result in zip(TEXTS[:3], targets, forced, strict=True):
        source, ids = source_ids(task, text), task.preprocessor.tokenizer.tokenize([target])[0]
        _, _, weights, _ = reference.decode(source, [START, *ids])
        assert result.attention.shape == (1, len(ids) + 1, len(source))
        np.testing.assert_allclose(result.attention[0], weights, **TOLERANCE)
        assert result.tokens == [*task.preprocessor.tokenizer.subwords.pieces(ids), "</s>"]
        assert len(result.source_tokens) == len(source)
    with pytest.raises(UserError, match="3 sources but 2 targets"):
        task.force(TEXTS[:3], targets[:2])


def test_fit_and_evaluate_take_text():
    task = tiny.translator()
    reference = reference_of(task)
    task.compile(optimizer=keras.optimizers.SGD(0.0))
    texts = {"encoder_text": TEXTS[:4], "decoder_text": tiny.sentences("target")[:4]}
    total = []
    for source, target in zip(*texts.values(), strict=True):
        ids = task.preprocessor.tokenizer.tokenize([target])[0]
        total.extend(reference.nll(source_ids(task, source), [START, *ids], [*ids, END]))
    logs = task.fit(texts, validation_data=texts, batch_size=4, verbose=0).history
    assert logs["loss"] + logs["val_loss"] == pytest.approx([np.mean(total)] * 2, rel=1e-5)
    assert logs["val_tokens"] == [len(total)]
    assert "val_gradient_norm" not in logs
    scores = task.evaluate(texts, batch_size=4, verbose=0, return_dict=True)
    assert scores["loss"] == pytest.approx(np.mean(total), rel=1e-5)
    assert "gradient_norm" not in scores


@pytest.mark.one_backend
def test_one_string_gives_one_result(task, found):
    [best] = task.translate(TEXTS[:1], n_best=3)
    assert tiny.plain([task.translate(TEXTS[0], n_best=3)]) == tiny.plain([best]) == tiny.plain(found[:1])
    target = tiny.sentences("target")[0]
    one, [other] = task.force(TEXTS[0], target), task.force(TEXTS[:1], [target])
    assert (one.tokens, one.source_tokens) == (other.tokens, other.source_tokens)
    np.testing.assert_array_equal(one.attention, other.attention)
    # Whatever holds strings holds sentences.
    assert tiny.plain(task.translate(np.array(TEXTS[:2]))) == tiny.plain(task.translate(tuple(TEXTS[:2])))
    assert task.force([], []) == []


# Errors.

TOO_LONG = r"sentence 2 has \d+ tokens with its end, more than the 16 that"
NO_SENTENCES = {
    "none": (None, "received None"),
    "number": (7, "received 7"),
    "bytes": (b"Guten Tag", "received b'Guten Tag'"),
    "entry": (["kalo", 7], "received 7 as entry 2"),
    "nested": ([["kalo"]], r"received \['kalo'\] as entry 1"),
    "bytes_in_a_list": ([b"kalo"], "received b'kalo' as entry 1"),
    "dict": ({"kalo": 1}, "received {'kalo': 1}"),
}


@pytest.mark.one_backend
@pytest.mark.parametrize("wrong, message", NO_SENTENCES.values(), ids=NO_SENTENCES)
def test_what_is_no_sentence_is_said(task, wrong, message):
    calls = {"sentences": lambda: task.translate(wrong), "sources": lambda: task.force(wrong, ["bado"])}
    calls["targets"] = lambda: task.force(["kalo"], wrong)
    inherited = {
        "encoder_text": lambda: task.fit({"encoder_text": wrong, "decoder_text": ["bado"]}),
        "decoder_text": lambda: task.generate({"encoder_text": ["kalo"], "decoder_text": wrong}),
    }
    if not isinstance(wrong, dict):
        inherited["the text to translate"] = lambda: task.generate(wrong)
    # Bytes in a list are text to Keras and KerasHub.
    calls |= {} if wrong == [b"kalo"] else inherited
    for name, call in calls.items():
        with pytest.raises(UserError, match=f"^{name} must be a list of strings; {message}") as caught:
            call()
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda task: task.force("kalo", ["bado"]), "sources must be a list of strings; received 'kalo'"),
        (lambda task: task.translate(["kalo", "\ud800"]), "entry 2 of sentences contains an unpaired surrogate"),
        (lambda task: task.generate({"encoder_text": [], "decoder_text": []}), "nothing to translate.*an empty list"),
        (lambda task: task.generate({"encoder_text": ["kalo"]}), "encoder_text and decoder_text; received"),
        (lambda task: task.generate({"encoder_text": ["ka"], "decoder_text": []}), "1 sentences but decoder_text 0"),
        (lambda task: task.translate(TEXTS, n_best=0), "n_best must be .*; received 0"),
        (lambda task: task.translate(TEXTS, batch_size=0), "batch_size must be .*; received 0"),
        (lambda task: task.translate(TEXTS, max_length=1), "at least 2, for start and end; received 1"),
        (lambda task: task.translate(TEXTS, max_length=10_001), "at most 10,000 tokens; received 10,001: ask for"),
        (lambda task: task.set_max_tokens(10**9), "at most 10,000 tokens; received 1,000,000,000: ask for fewer"),
        (lambda task: task.generate(TEXTS, max_length=0), "at least 2, for start and end; received 0"),
        (lambda task: task.generate(TEXTS, max_length=10**9), "at most 10,000 tokens; received 1,000,000,000"),
        (lambda task: task.preprocessor.generate_preprocess(TEXTS, 0), "at least 2, for start and end; received 0"),
        (lambda task: task.generate(TEXTS, stop_token_ids=3), "list of ids below .*, 'auto' or None; received 3"),
        (lambda task: task.generate(TEXTS, stop_token_ids=["</s>"]), r"list of ids below .*; received \['</s>'\]"),
        (lambda task: task.generate(TEXTS, strip_prompt=True), "leave strip_prompt out"),
        (lambda task: task.force(TEXTS, TEXTS, batch_size=-1), "batch_size must be .*; received -1"),
        (lambda task: task.force(TEXTS, TEXTS, layers=0), "layers must be a list of layers or 'posterior'; received 0"),
        (lambda task: task.force(TEXTS, TEXTS, layers="prior"), "or 'posterior'; received 'prior'"),
        (lambda task: task.force(TEXTS, TEXTS, layers=["0"]), "there is no cross-attention layer '0'"),
        (lambda task: task.compile("adam", "mse"), "leave `loss` out, .*`label_smoothing`.*received loss='mse'"),
        (lambda task: task.compile(loss=keras.losses.MeanSquaredError()), "leave `loss` out.*received loss=<"),
        (lambda task: task.compile(metrics=["accuracy"]), "leave metrics out"),
        (lambda task: task.compile(weighted_metrics=["accuracy"]), "leave weighted_metrics out"),
        (lambda task: task.translate(TEXTS[:1], n_best=4), "n_best=4 is more than 3 beams"),
        (lambda task: task.translate([TEXTS[0], "kalomi " * 20]), TOO_LONG),
        (lambda task: task.generate([TEXTS[0], "kalomi " * 20]), TOO_LONG),
    ],
)
def test_wrong_arguments_are_said_in_one_line(task, call, message):
    with pytest.raises(UserError, match=message) as caught:
        call(task)
    assert "\n" not in str(caught.value)


def test_a_translator_without_a_preprocessor_takes_ids():
    task = Translator(tiny.backbone())
    texts = {"encoder_text": TEXTS, "decoder_text": TEXTS}
    calls = (
        lambda: task.translate(TEXTS),
        lambda: task.force(TEXTS, TEXTS),
        lambda: task.set_max_tokens(30),
        lambda: task.fit(texts),
        lambda: task.evaluate(texts),
    )
    for call in calls:
        with pytest.raises(UserError, match="has no preprocessor and takes only ids"):
            call()
