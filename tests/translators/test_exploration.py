"""What a page is made of, against `translate`, `force` and `score`."""

import itertools

import numpy as np
import pytest

from keras_attn_zoo.decoding import BeamSearch, PooledBeamSearch
from keras_attn_zoo.evaluation.alignments import Alignment
from keras_attn_zoo.support.errors import UserError
from tests import tiny

SOURCES, TARGETS = tiny.sentences("source")[:3], [tiny.sentences("target")[0], None, tiny.sentences("target")[2]]
KINDS = {
    "rnn": lambda: tiny.translator(),
    "transformer": lambda: tiny.translator(body=tiny.transformer, encoder_attention="recurrent"),
    "latent": lambda: tiny.mixed_transformer("latent"),
}


# The last has every kind of attention.
@pytest.fixture(
    scope="module",
    params=[pytest.param(kind, marks=pytest.mark.one_backend if kind != "latent" else ()) for kind in KINDS],
)
def explored(request):
    task = KINDS[request.param]()
    return task, task.examine(SOURCES, TARGETS)


@pytest.fixture(scope="module")
def rnn():
    return KINDS["rnn"]()


@pytest.mark.slow_compiled
def test_its_own_translation_is_the_one_that_is_found(explored):
    task, results = explored
    for result, [best] in zip(results, task.translate(SOURCES), strict=True):
        own = result.paths[0]
        assert (own.kind, own.text, list(own.tokens)) == ("own", best.text, best.tokens)
        assert own.log_probs.sum() == pytest.approx(best.log_prob, abs=1e-4)
        assert list(result.source_tokens) == best.source_tokens


def test_given_translations_are_forced(explored):
    task, results = explored
    assert [[path.kind for path in result.paths] for result in results] == [["own", "given"], ["own"], ["own", "given"]]
    for i in (0, 2):
        given = results[i].paths[1]
        scored = task.score(SOURCES[i], TARGETS[i])
        np.testing.assert_allclose(given.log_probs, scored.log_probs, rtol=0, atol=2e-5)
        for layer, found in enumerate(given.weights["cross"]):
            forced = task.force(SOURCES[i], TARGETS[i], layers=[layer])
            np.testing.assert_allclose(found, forced.attention, rtol=0, atol=2e-5)
            assert list(given.tokens) == forced.tokens


@pytest.mark.one_backend
def test_every_sentence_is_encoded_once(encodings):
    next(iter(KINDS.values()))().examine(SOURCES, TARGETS)
    assert len(encodings) == len(SOURCES) + 2
    assert set(encodings.values()) == {1}


@pytest.mark.slow_compiled
def test_prior_and_posterior(explored):
    task, results = explored
    given = results[0].paths[1]
    if task.backbone.latent_head is None:
        assert "posterior" not in given.weights
        return
    prior, posterior = (task.force(SOURCES[0], TARGETS[0], layers=layers) for layers in (None, "posterior"))
    np.testing.assert_allclose(given.weights["prior"][0][0], prior.attention.mean(axis=0), rtol=0, atol=2e-5)
    np.testing.assert_allclose(given.weights["posterior"][0], posterior.attention, rtol=0, atol=2e-5)


@pytest.mark.slow_compiled
def test_self_attention_has_a_row_for_each_token(explored):
    task, results = explored
    for result in results:
        for place in ("encoder", "decoder"):
            expected = len(task.backbone.attention_outputs.get(place, ()))
            for path in result.paths:
                layers = result.encoder if place == "encoder" else path.weights.get(place, ())
                size = len(result.source_tokens if place == "encoder" else path.tokens)
                assert len(layers) == expected
                for layer in layers:
                    assert layer.shape[1:] == (size, size)
                    np.testing.assert_allclose(layer.sum(axis=-1), 1, rtol=0, atol=1e-5)


@pytest.mark.slow_compiled
def test_the_search_leads_to_what_it_finds(explored):
    """Following the parents of the last candidates gives the n-best list, with the attention that it was found by."""
    task, results = explored
    beams = task.sampler.num_beams
    found = task.translate(SOURCES, n_best=beams, attention=True)
    for result, best in zip(results, found, strict=True):
        steps = result.steps
        assert all(len(step.tokens) == 2 * beams for step in steps[1:])
        for place, hypothesis in enumerate(best):
            tokens, attention, at = [], [], place
            for step in reversed(steps):
                if step.tokens[at]:
                    tokens.insert(0, step.tokens[at])
                    attention.insert(0, step.attention[step.parents[at]])
                at = step.parents[at]
            assert tokens == hypothesis.tokens
            assert steps[-1].log_probs[place] == pytest.approx(hypothesis.log_prob, abs=1e-5)
            np.testing.assert_allclose(np.stack(attention, axis=1), hypothesis.attention, rtol=0, atol=1e-5)
        for before, step in itertools.pairwise(steps):
            assert max(step.parents) < min(beams, len(before.tokens))
            assert sorted(step.scores, reverse=True) == list(step.scores)


@pytest.mark.slow_compiled
def test_a_page_of_two_systems():
    task, other = KINDS["rnn"](), tiny.translator(seed=8)
    page = task.explore(
        [SOURCES[0].split(), SOURCES[1]], [TARGETS[0].split(), None], {"other": other}, [Alignment({(0, 0)}), None]
    )
    assert [system.name for system in page.systems] == ["RNN, bahdanau", "other"]
    assert page.sentences[0].gold.sure == {(0, 0)} and list(page.sentences[0].words) == SOURCES[0].split()
    assert [[len(result.paths) for result in of] for of in page.results] == [[2, 2], [1, 1]]
    pairs = task.explore([SOURCES[0]], [TARGETS[0]], gold=[[(0, 0), [1, 0]]])
    assert pairs.sentences[0].gold == Alignment(sure={(0, 0), (1, 0)})
    one = task.explore(SOURCES[0], TARGETS[0], name="mine")
    assert one.systems[0].name == "mine" and [path.kind for path in one.results[0][0].paths] == ["own", "given"]
    assert "<!doctype html>" in one.html()


def test_descriptions():
    latent = KINDS["latent"]().description("latent")
    assert latent.shown == "all" and {*latent.places} == {"cross", "encoder", "decoder", "prior", "posterior"}
    assert {one.name for one in latent.places["cross"]} == {"multi_head"}
    plain = KINDS["transformer"]().description("plain")
    assert [one.by_position for one in plain.places["encoder"]] == [True, True]
    assert not any(one.by_position for one in plain.places["cross"])
    assert tiny.translator(body=tiny.transformer, attention_layer="-1:0").description("one head").shown == 1


@pytest.mark.one_backend
def test_the_matrices_that_a_synthesizer_has_learned():
    both = {"encoder_attention": "random_synthesizer", "decoder_attention": "random_synthesizer"}
    task = tiny.translator(body=tiny.transformer, **both)
    assert all(one.by_position for place in ("encoder", "decoder") for one in task.description("a").places[place])
    result = task.examine(SOURCES, TARGETS)[0]
    learned = {variable.path: variable.numpy() for variable in task.weights}
    for layer in range(2):
        for found, energies, causal in (
            (result.encoder[layer], learned[f"encoder_{layer}/attention/energies"], False),
            (result.paths[1].weights["decoder"][layer], learned[f"decoder_{layer}/self_attention/energies"], True),
        ):
            size = found.shape[-1]
            powers = np.exp(energies[:, :size, :size])
            powers = np.tril(powers) if causal else powers
            np.testing.assert_allclose(found, powers / powers.sum(-1, keepdims=True), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([[]], "nothing to explore"),
        ([[" "]], "sentence 1 is empty"),
        ([["ka"], ["ba", "do"]], "1 sentence but 2 translations: give the same number of each"),
        ([["ka"], ["ba"], None, [[(0, 0), (0, -1)]]], "gold links of sentence 1 must be pairs .* or an Alignment"),
        ([["ka"], ["ba"], None, ["0-0"]], "gold links of sentence 1 must be pairs .*; received '0-0'"),
        ([["ka"], None, None, [Alignment({(0, 0)})]], "no given translation"),
        ([["ka"], ["ba"], None, [Alignment({(1, 0)})]], "gold link 1-0 of sentence 1 points past"),
        ([["ka " * 40]], "more than the"),
        ([[3]], "sentence 1 is neither text nor a list of words; received 3"),
        ([5], "sentences must be a list, .*; received 5"),
        ([["ka"], [["a", 5]]], r"translation 1 is neither .*; received \['a', 5\]"),
        ([["ka"], 5], "translations must be a list, .*; received 5"),
        ([["ka", "ka"], "ba"], "translations must be a list, .*; received 'ba'"),
        ([["ka"], ["ba"], None, 5], "gold must be a list, .*; received 5"),
        ([["ka"], ["ba"], None, [5]], "gold links of sentence 1 must be pairs .*; received 5"),
        ([["ka"], ["ba"], None, [Alignment({(0.5, 0)})]], "gold links of sentence 1 must be pairs"),
        ([["ka"], ["ba"], None, [Alignment(possible={(0, -1)})]], "gold links of sentence 1 must be pairs"),
        ([["ka"], ["ba"], None, [[(np.True_, 0)]]], "gold links of sentence 1 must be pairs"),
        ([[["", ""]]], r"sentence 1 has an empty word: leave it out; received \['', ''\]"),
        ([["ka", ["ka", " ", "ka"]]], "sentence 2 has an empty word"),
        ([["ka"], [["ba", ""]]], "translation 1 has an empty word"),
        ([["ka"] * 3, [None, None, "ba " * 40]], r"translation 3 has \d+ tokens with its end, more than the"),
        ([["ka"] * 3, [None, None, "ba\ud800"]], "translation 3 contains an unpaired surrogate"),
        ([["ka"], None, None, None, 5], "name must be text; received 5"),
        ([["ka"], None, 5], "beside is a dict of translators by name; received 5"),
        ([["ka"], None, {"b": None}], "beside is a dict of translators by name; received {'b': None}"),
    ],
)
def test_bad_input(rnn, arguments, message):
    with pytest.raises(UserError, match=message):
        rnn.explore(*arguments)


def test_a_translation_of_one_sentence_may_stand_in_a_list(rnn):
    for given in ("ba do.", ["ba do."]):
        assert rnn.explore("ka", given).results[0][0].paths[1].words == ["ba", "do", "."]
    assert rnn.explore("ka", ["ba", "do"]).results[0][0].paths[1].words == ["ba", "do"]
    assert len(rnn.explore("ka", [None]).results[0][0].paths) == 1


def test_links_of_numpy_are_written(rnn):
    links = {(np.int64(0), np.int64(0))}
    page = rnn.explore(["ka"], ["ba"], gold=[Alignment(sure=links)])
    assert page.html() and page.sentences[0].gold == Alignment(sure={(0, 0)})


def test_two_translators_of_one_name(rnn):
    for beside, name in (({"a": rnn}, "a"), ({"RNN, bahdanau": rnn}, None)):
        with pytest.raises(UserError, match=r"both called '.*': give another name"):
            rnn.explore(["ka"], beside=beside, name=name)
    with pytest.raises(UserError, match="beside is a dict of translators by name"):
        rnn.explore(["ka"], beside={5: rnn})


@pytest.mark.slow_compiled
def test_a_sampler_without_beams():
    task = KINDS["rnn"]()
    task.compile(sampler="top_k")
    with pytest.raises(UserError, match="needs a BeamSearch"):
        task.explore(["ka"])
    task.compile(sampler=BeamSearch(1))
    result = task.examine(["ka"], [None])[0]
    assert all(len(step.tokens) == 2 for step in result.steps)


@pytest.mark.slow_compiled
def test_a_search_that_records_nothing():
    task = tiny.translator(sampler=PooledBeamSearch(3, 1.0))
    [result], [best] = task.examine(SOURCES[:1], [None]), task.translate(SOURCES[0])
    assert result.steps == [] and result.paths[0].text == best.text
