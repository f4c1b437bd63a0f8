"""Ensembles: their search against all translations there are, and what they share with their members."""

import itertools

import keras
import numpy as np
import pytest

from keras_attn_zoo.bodies.ensemble_backbone import EnsembleBackbone
from keras_attn_zoo.data.truncation import Truncation
from keras_attn_zoo.decoding import BeamSearch, PooledBeamSearch
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.translators import Translator
from tests import tiny

START, END = 2, 3
TEXTS = tiny.sentences("source")[:4]
# Scores are sums of a few float32 log-probabilities.
TOLERANCE = {"rtol": 0, "atol": 1e-4}


@pytest.fixture(scope="module")
def members():
    """An RNN, a Transformer, and a latent alignment."""
    bodies = {"body": tiny.transformer}, {"output": "latent", "attention_layer": "all", "body": tiny.transformer}
    return [tiny.translator(seed=3), *(tiny.translator(seed=4 + i, **one) for i, one in enumerate(bodies))]


@pytest.fixture(scope="module")
def ensemble(members):
    return Translator.ensemble(members)


def distributions(member, text):
    """float64 p(y_i | y_<i, x) `(prefix, position, vocabulary)` after all prefixes of two tokens, by one member."""
    prefixes = np.array([(START, *two) for two in itertools.product(range(tiny.PIECES), repeat=2)], "int32")
    ids = [*member.preprocessor.source_tokenizer.tokenize([text])[0], END]
    sources = np.tile(np.array(ids, "int32"), (len(prefixes), 1))
    inputs = {
        "encoder_token_ids": sources,
        "encoder_padding_mask": np.ones_like(sources, "bool"),
        "decoder_token_ids": prefixes,
    }
    logits = keras.ops.convert_to_numpy(member.backbone.logits(member.backbone(inputs))).astype("float64")
    odds = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return odds / odds.sum(axis=-1, keepdims=True)


def every_translation(each, mean):
    """All translations of up to three tokens with their log-probabilities, by the formula of the ensemble."""
    size = tiny.PIECES
    if mean == "arithmetic":
        p = np.mean(each, axis=0)
    else:
        p = np.exp(np.log(each).mean(axis=0))
        p /= p.sum(axis=-1, keepdims=True)
    log_p = np.log(p).reshape(size, size, 3, size)
    yield [END], log_p[0, 0, 0, END]
    for a in (one for one in range(size) if one != END):
        first = log_p[a, 0, 0, a]
        yield [a, END], first + log_p[a, 0, 1, END]
        for b in (one for one in range(size) if one != END):
            for c in range(size):
                yield [a, b, c], first + log_p[a, b, 1, b] + log_p[a, b, 2, c]


def best_translations(each, mean):
    """The 20 best with their scores, the best first, from the distributions of each member."""
    scored = [(ids, log_p / ((5 + len(ids)) / 6) ** 0.6) for ids, log_p in every_translation(each, mean)]
    return sorted(scored, key=lambda one: -one[1])[:20]


@pytest.mark.every_backend
@pytest.mark.slow_compiled
@pytest.mark.parametrize("mean", ["arithmetic", "geometric"])
def test_the_search_finds_the_best_of_all_translations(members, mean):
    """With a beam for every beginning of two tokens, none of three is missed."""
    ensemble = Translator.ensemble(members, mean)
    ensemble.sampler = BeamSearch(1 + (tiny.PIECES - 1) * tiny.PIECES, length_penalty=0.6)
    [found] = ensemble.translate(TEXTS[:1], n_best=20, max_length=4)
    each = [distributions(member, TEXTS[0]) for member in members]
    best = best_translations(each, mean)
    np.testing.assert_allclose([one.score for one in found], [score for _, score in best], **TOLERANCE)
    # Two whose scores are as near as rounding may change places.
    gaps = np.diff([score for _, score in best])
    apart = [i for i in range(1, 19) if max(gaps[i - 1], gaps[i]) < -1e-4]
    assert len(apart) > 10 and [found[i].token_ids for i in apart] == [best[i][0] for i in apart]
    # Each member alone prefers others.
    ids = [one for one, _ in best]
    assert all([one for one, _ in best_translations([member], mean)] != ids for member in each)


def test_hypotheses_have_the_attention_of_each_member(ensemble, members):
    found = ensemble.translate(TEXTS, n_best=2, attention=True)
    for text, best in zip(TEXTS, found, strict=True):
        for one in best:
            parts = ensemble.backbone.split_heads(one.attention)
            assert len(parts) == len(members)
            for member, part in zip(members, parts, strict=True):
                # Of text, since its subwords may be cut otherwise.
                if ensemble.encode([text], [one.text]).targets == [one.token_ids]:
                    np.testing.assert_allclose(part, member.force(text, one.text).attention, **TOLERANCE)


def test_given_translations_get_the_mean_of_the_members_probabilities(members):
    int8 = tiny.translator(seed=4, body=tiny.transformer)
    int8.quantize("int8")
    members = [*members, int8]
    ensemble, targets = Translator.ensemble(members), tiny.sentences("target")[:4]
    each = [member.score(TEXTS, targets) for member in members]
    for number, one in enumerate(ensemble.score(TEXTS, targets)):
        p = np.mean([np.exp(scored[number].log_probs.astype("float64")) for scored in each], axis=0)
        np.testing.assert_allclose(one.log_probs, np.log(p), **TOLERANCE)


def test_generate_and_score_agree_with_the_search(ensemble):
    found = [best[0] for best in ensemble.translate(TEXTS)]
    assert ensemble.generate(TEXTS) == [one.text for one in found]
    scored = ensemble.score(TEXTS, [one.text for one in found])
    for one, other in zip(found, scored, strict=True):
        if one.tokens == other.tokens:
            np.testing.assert_allclose(one.log_prob, other.log_prob, **TOLERANCE)


@pytest.mark.parametrize("sampler", [BeamSearch(3, 0.6), PooledBeamSearch(3, 1.0), BeamSearch(1)])
@pytest.mark.parametrize("mean", ["arithmetic", "geometric"])
def test_a_model_and_itself_translate_as_it_does(sampler, mean):
    member = tiny.translator(seed=4, body=tiny.transformer, sampler=sampler)
    ensemble = Translator.ensemble([member, member], mean)
    found, own = ensemble.translate(TEXTS, n_best=sampler.num_beams), member.translate(TEXTS, n_best=sampler.num_beams)
    assert tiny.plain(found) == tiny.plain(own)
    scores = [[[one.score for one in best] for best in both] for both in (found, own)]
    np.testing.assert_allclose(*scores, **TOLERANCE)


def test_an_ensemble_has_the_weights_of_its_members(ensemble, members):
    before = ensemble.score(TEXTS[0], "bado").log_prob
    bias = members[0].backbone.output_projection.bias
    value = keras.ops.convert_to_numpy(bias.value).copy()
    bias.assign(value + np.eye(tiny.PIECES)[END] * 5)
    assert abs(ensemble.score(TEXTS[0], "bado").log_prob - before) > 1e-2
    bias.assign(value)
    np.testing.assert_allclose(ensemble.score(TEXTS[0], "bado").log_prob, before, **TOLERANCE)


@pytest.mark.one_backend
def test_an_ensemble_takes_what_all_members_take(members):
    short = tiny.translator(seed=7, length=9)
    ensemble = Translator.ensemble([members[0], short])
    assert ensemble.preprocessor.decoder_sequence_length == 9
    ensemble.set_max_tokens(12)
    assert (members[0].preprocessor.decoder_sequence_length, short.preprocessor.decoder_sequence_length) == (16, 9)
    with pytest.raises(UserError, match="at most 16 tokens, not for 17"):
        Translator.ensemble(
            [short, tiny.translator(body=tiny.transformer, encoder_positions="learned")]
        ).set_max_tokens(17)
    members[2].search_top_k = 2
    assert Translator.ensemble(members).search_top_k == 2
    members[2].search_top_k = None
    latent = Translator.ensemble(members, "geometric")
    one, every = ([best[0].log_prob for best in latent.translate(TEXTS, top_k=k)] for k in (1, 0))
    assert np.abs(np.subtract(one, every)).max() > 1e-3
    ensemble.translate(TEXTS[0])
    with pytest.raises(UserError, match="top_k applies only to latent alignments"):
        ensemble.translate(TEXTS[0], top_k=2)


@pytest.mark.one_backend
def test_layers_are_counted_through_all_members(ensemble, members):
    forced = ensemble.force(TEXTS[0], "bado", layers=[0, 2]).attention
    expected = members[0].force(TEXTS[0], "bado", layers=[0]), members[1].force(TEXTS[0], "bado", layers=[1])
    np.testing.assert_allclose(forced, np.concatenate([one.attention for one in expected]), **TOLERANCE)
    with pytest.raises(UserError, match="heads of their own: leave the heads out, or choose a layer"):
        ensemble.force(TEXTS[0], "bado", heads=[0])
    places = ensemble.description("all").places
    assert {place: len(layers) for place, layers in places.items()} == {"cross": 5, "encoder": 4, "decoder": 4}
    assert [one.name for one in places["cross"]][:2] == ["bahdanau", "multi_head"]
    assert "multi_head" in ensemble.explore(TEXTS[0]).html()


@pytest.mark.one_backend
def test_what_cannot_be_combined_is_refused(members, tmp_path):
    first = members[0]
    other = Translator(tiny.backbone(), tiny.preprocessor(joint=True))
    alone = Translator(tiny.backbone())
    cutting = Translator(tiny.backbone(), tiny.preprocessor())
    cutting.preprocessor.truncation = Truncation(source=5)
    for given, said in (
        ([first], "needs a list of two translators or more"),
        (first, "needs a list of two translators or more"),
        ([first, "runs/a"], "needs a list of two translators or more"),
        ([first, first, other], "member 3 of the ensemble has other source subwords than the first"),
        ([first, alone], "has no preprocessor"),
        ([first, cutting], "member 2 of the ensemble cuts long text otherwise than the first"),
    ):
        with pytest.raises(UserError, match=said):
            Translator.ensemble(given)
    with pytest.raises(UserError, match="no mean 'geometrical': did you mean geometric"):
        Translator.ensemble([first, first], mean="geometrical")
    larger = tiny.RNNBackbone(tiny.PIECES, 29, embedding_dim=2, hidden_dim=2)
    with pytest.raises(
        UserError, match="member 2 of the ensemble has vocabularies of other sizes, 28 and 29, than the"
    ):
        EnsembleBackbone([first.backbone, larger])
    with pytest.raises(UserError, match="two members or more; received 1"):
        EnsembleBackbone([larger])
    ensemble = Translator.ensemble([first, first])
    with pytest.raises(UserError, match="an ensemble is not saved"):
        ensemble.save_to_preset(tmp_path / "preset")
    assert not (tmp_path / "preset").exists()
    pairs = {"encoder_text": TEXTS, "decoder_text": tiny.sentences("target")[:4]}
    for method in (ensemble.fit, ensemble.train_on_batch):
        with pytest.raises(UserError, match="an ensemble is not trained: train its members"):
            method(pairs)
    assert ensemble.evaluate(pairs, verbose=0)[0] > 0
    with pytest.raises(UserError, match="cannot be fed its own predictions"):
        ensemble.backbone({**tiny.batch()[0], "teacher_forcing_mask": np.ones((3, 6), "bool")})
