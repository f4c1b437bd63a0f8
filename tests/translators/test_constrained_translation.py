"""Translations by sampling, under constraints and by minimum Bayes risk: of text, and in any batch."""

import dataclasses

import keras_hub
import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF

from keras_attn_zoo.bodies import RNNBackbone
from keras_attn_zoo.data.subwords import train_subwords
from keras_attn_zoo.decoding import BeamSearch, DiverseBeamSearch, PooledBeamSearch, Sampling
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.translators import Constraints, TranslationPreprocessor, TranslationTokenizer, Translator
from tests import tiny
from tests.weights import fill_weights

TEXTS = tiny.sentences("source")[:6]


@pytest.fixture(scope="module")
def task():
    return tiny.translator()


def texts_of(found):
    return [best[0].text for best in found]


@pytest.mark.long
def test_translations_go_on_from_their_prefixes(task):
    prefixes = ["ba", "", "do fi", "nu", "", "zeba"]
    found = task.translate(TEXTS, constraints=Constraints(prefixes=prefixes), batch_size=4)
    assert all(text.startswith(prefix) for text, prefix in zip(texts_of(found), prefixes, strict=True))
    assert texts_of(found) == task.generate({"encoder_text": TEXTS, "decoder_text": prefixes})
    assert texts_of(found) != texts_of(task.translate(TEXTS))
    [alone] = task.translate(TEXTS[2], constraints=Constraints(prefixes=[prefixes[2]]))
    assert alone.text == found[2][0].text
    # Its score is that of the whole translation.
    [scored] = task.score(task.encode([TEXTS[2]]), [alone.text]) if alone.tokens[-1] == "</s>" else [None]
    assert scored is None or scored.tokens != alone.tokens or abs(scored.log_prob - alone.log_prob) < 1e-4


@pytest.mark.long
def test_forbidden_and_required_words(task):
    plain = task.translate(TEXTS)
    words = sorted({word for text in texts_of(plain) for word in text.split() if word.isalnum()}, key=len)[-2:]
    found = task.translate(TEXTS, constraints=Constraints(forbidden=words))
    changed = 0
    for before, after in zip(texts_of(plain), texts_of(found), strict=True):
        assert not set(words) & set(after.split())
        changed += before != after
        assert before == after or set(words) & set(before.split())
    assert changed
    required = [["bado"], [], ["zefi nu"], ["do", "ba"], [], ["bado"]]
    found = task.translate(TEXTS, n_best=3, constraints=Constraints(required=required), attention=True)
    for best, phrases, before in zip(found, required, plain, strict=True):
        for one in best:
            assert all(f" {phrase} " in f" {one.text} " for phrase in phrases), (one.text, phrases)
            assert one.attention.shape[1:] == (len(one.tokens), len(one.source_tokens))
            np.testing.assert_allclose(one.attention.sum(axis=-1), 1.0, atol=1e-4)
        assert best[0].text == before[0].text or phrases
    # The same words for all, and a search that can do both.
    both = Constraints(required=["bado"], forbidden=words)
    for text in texts_of(task.translate(TEXTS, constraints=both)):
        assert "bado" in text.split() and not set(words) & set(text.split())


@pytest.mark.parametrize("body", [tiny.backbone, tiny.transformer])
def test_samples_belong_to_a_sentence_and_have_their_log_probabilities(body):
    task = tiny.translator(body=body, sampler=Sampling(4, temperature=1.3, seed=7))
    found = task.translate(TEXTS, n_best=4)
    again = [*task.translate(TEXTS[3:], n_best=4, batch_size=2), *task.translate(TEXTS[:3], n_best=4)]
    assert tiny.plain(found) == tiny.plain([*again[3:], *again[:3]])
    assert len({one.text for one in found[0]}) > 1
    assert task.generate(TEXTS) == texts_of(found)
    other = task.translate(TEXTS, n_best=4, sampler=Sampling(4, temperature=1.3, seed=8))
    assert tiny.plain(other) != tiny.plain(found)
    text = task.encode(TEXTS)
    for i in range(4):
        ended = [k for k, best in enumerate(found) if best[i].token_ids[-1] == 3]
        given = dataclasses.replace(text.select(ended), targets=[found[k][i].token_ids for k in ended])
        for k, scored in zip(ended, task.score(given), strict=True):
            np.testing.assert_allclose(found[k][i].log_prob, scored.log_prob, rtol=1e-4)


@pytest.mark.long
def test_samplers_of_kerashub_draw_for_translate_too():
    task = tiny.translator(sampler=keras_hub.samplers.TopKSampler(k=3, seed=2))
    found = task.translate(TEXTS, n_best=2)
    assert tiny.plain(found) == tiny.plain(task.translate(TEXTS, n_best=2, sampler=Sampling(2, top_k=3, seed=2)))
    with pytest.raises(UserError, match="a GreedySampler returns no scores"):
        task.translate(TEXTS, sampler=keras_hub.samplers.GreedySampler())


@pytest.mark.parametrize("body", [tiny.backbone, tiny.transformer])
def test_coverage_is_that_of_the_attention_returned(body):
    beta, alpha = 0.3, 0.6
    task = tiny.translator(body=body, sampler=BeamSearch(3, alpha, coverage_penalty=beta))
    for best in task.translate(TEXTS, n_best=3, attention=True):
        for one in best:
            coverage = one.attention.astype("float64").mean(axis=0).sum(axis=0)
            expected = one.log_prob / ((5 + len(one.tokens)) / 6) ** alpha
            expected += beta * np.log(np.minimum(coverage, 1.0)).sum()
            np.testing.assert_allclose(one.score, expected, atol=1e-4)


def naive_risk(texts, weights, score):
    """Expected utilities, pair by pair."""
    return [sum(w * score(one, other) for other, w in zip(texts, weights, strict=True)) / sum(weights) for one in texts]


@pytest.mark.parametrize(
    ("mbr", "sampler"), [("chrf", Sampling(6, seed=1)), ("bleu", Sampling(6, seed=1)), ("chrf", BeamSearch(6, 0.6))]
)
def test_minimum_bayes_risk_is_that_of_all_pairs(task, mbr, sampler):
    candidates = task.translate(TEXTS, n_best=6, sampler=sampler)
    chosen = task.translate(TEXTS, n_best=2, sampler=sampler, mbr=mbr)
    metric = CHRF() if mbr == "chrf" else BLEU(effective_order=True)

    def score(one, other):
        return metric.sentence_score(one, [other]).score if other else 0.0

    for every, best in zip(candidates, chosen, strict=True):
        weights = np.exp([one.log_prob for one in every]) if type(sampler) is BeamSearch else np.ones(6)
        risks = naive_risk([one.text for one in every], weights, score)
        np.testing.assert_allclose([one.score for one in best], sorted(risks, reverse=True)[:2], rtol=1e-5)
        assert best[0].text in [one.text for one, risk in zip(every, risks, strict=True) if risk > max(risks) - 1e-6]


@pytest.fixture(scope="module")
def word_translator(tmp_path_factory):
    """A translator of whole words, most of which are unknown to it."""
    folder = tmp_path_factory.mktemp("words")
    models = [
        train_subwords(tiny.sentences(side), folder / side, 9, model_type="word") for side in ("source", "target")
    ]
    source = TranslationTokenizer(models[0].read_bytes(), config_file="source_tokenizer.json")
    tokenizer = TranslationTokenizer(models[1].read_bytes())
    body = RNNBackbone(9, 9, **tiny.BACKBONE)
    fill_weights(body, seed=1, scale=1.0)
    body.output_projection.bias.assign(np.array([-20, 3, -20, 1, *[0] * 5], "float32"))
    task = Translator(body, TranslationPreprocessor(source, tokenizer, tiny.LENGTH, tiny.LENGTH))
    task.compile(sampler=BeamSearch(2))
    return task


def test_unknown_words_are_those_they_attend_to(word_translator):
    task, seen = word_translator, set()
    # A word that the model does not know either, with letters that subwords would not have.
    texts = ["Zürich kalo", *TEXTS]
    plain = task.translate(texts, attention=True)
    found = task.translate(texts, replace_unknown=True)
    for text, [before], [after] in zip(texts, plain, found, strict=True):
        words = text.split()
        # Without the end, to which no word belongs.
        aligned = before.attention.mean(axis=0)[:, : len(words)].argmax(axis=1)
        expected = [
            words[j] if piece == "<unk>" else piece.removeprefix("▁")
            for piece, j in zip(before.tokens, aligned, strict=True)
            if piece != "</s>"
        ]
        assert after.text.split() == expected and after.attention is None
        assert (after.token_ids, after.score) == (before.token_ids, before.score)
        seen |= set(expected) & set(words)
    assert len(seen) > 1
    with pytest.raises(UserError, match="replace_unknown writes source words, which encoded text has not"):
        task.translate(task.encode(texts), replace_unknown=True)


LONG = "bado " * 15


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_best": 4}, "n_best=4 is more than 3 beams: search with more beams"),
        ({"n_best": 3, "sampler": Sampling(2)}, "n_best=3 is more than 2 samples: draw more"),
        ({"mbr": "chrf", "sampler": BeamSearch(1)}, "mbr chooses among several hypotheses, and the search has one"),
        ({"mbr": "chfr"}, r"there is no utility 'chfr': did you mean chrf\?"),
        (
            {"sampler": BeamSearch(2, min_length=15)},
            "min_length=15 is more than the 14 tokens that a translation may have",
        ),
        ({"replace_unknown": True}, "replace_unknown is for word models, and this translator has subwords"),
        ({"constraints": Constraints(["ba"])}, "received 2 sentences but 1 prefixes: give one for each"),
        (
            {"constraints": Constraints(["", LONG])},
            "of sentence 2, the prefix has .* tokens, but a translation has at most 14",
        ),
        ({"constraints": Constraints(["", "ba do"], ["ba"])}, "prefix 2 has a forbidden word"),
        (
            {"constraints": Constraints(forbidden=["do ba"])},
            "a forbidden word has letters and digits alone; received 'do ba'",
        ),
        ({"constraints": Constraints(forbidden="ba")}, "forbidden must be a list of strings; received 'ba'"),
        (
            {"constraints": Constraints(forbidden=["ba"], required=["do ba"])},
            "'do ba' is required and has a forbidden word",
        ),
        ({"constraints": Constraints(required=[["ba"]])}, "received 2 sentences but 1 required"),
        ({"constraints": Constraints(required=[" "])}, "a required word is empty"),
        ({"constraints": Constraints(prefixes=["Ω", ""])}, "prefix 1 has what the vocabulary does not know"),
        ({"constraints": Constraints(required=["Ω"])}, "has what the vocabulary does not know: leave out 'Ω'"),
        (
            {"constraints": Constraints(required=[[], [LONG]])},
            "of sentence 2, prefix and required words have .* tokens",
        ),
        (
            {"constraints": Constraints(required=5)},
            "required must be a list of words, or of lists of these; received 5",
        ),
        (
            {"constraints": Constraints(required=["ba"]), "sampler": Sampling(2)},
            "required words need a BeamSearch, not a Sampling",
        ),
        (
            {"constraints": Constraints(required=["ba"]), "sampler": PooledBeamSearch(2)},
            "required words need a BeamSearch, not a PooledBeamSearch",
        ),
    ],
)
def test_what_contradicts_itself_is_one_line(task, arguments, message):
    with pytest.raises(UserError, match=message) as error:
        task.translate(TEXTS[:2], **arguments)
    assert "\n" not in str(error.value)


def test_presets_keep_further_settings_of_a_search(task, tmp_path):
    again = tiny.translator(sampler=BeamSearch(4, 0.5, coverage_penalty=0.2, min_length=2, no_repeat_ngram=3))
    settings = again.search_settings
    further = {"coverage_penalty": 0.2, "min_length": 2, "no_repeat_ngram": 3}
    assert settings == {"beams": 4, "length_penalty": 0.5, "search_top_k": None, **further}
    again.search_settings = settings
    assert again.sampler.get_config()["no_repeat_ngram"] == 3 and again.search_settings == settings
    # A preset without them can be read by versions that have none.
    assert set(task.search_settings) == {"beams", "length_penalty", "search_top_k"}
    assert tiny.translator(sampler=DiverseBeamSearch(6)).search_settings is None
    for name, value in (("min_length", -1), ("no_repeat_ngram", 1.5), ("coverage_penalty", "much")):
        with pytest.raises(UserError, match="search_settings must have beams"):
            task.search_settings = {**task.search_settings, name: value}
