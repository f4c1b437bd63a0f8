"""Alignments from the layers and heads of a Transformer."""

import types

import numpy as np
import pytest

from keras_attn_zoo.corpora.parallel_text import ParallelText
from keras_attn_zoo.data.truncation import UNCUT
from keras_attn_zoo.evaluation.alignments import Alignment
from keras_attn_zoo.runs.scoring import score_alignment
from keras_attn_zoo.runs.word_alignment import (
    align_by_layer,
    align_words,
    score_links,
    sentence_picture,
)
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.translators import ForcedDecoding, Translator
from tests import tiny

PAIRS = [(a.split(), b.split()) for a, b in zip(tiny.sentences("source"), tiny.sentences("target"), strict=True)][:5]


@pytest.fixture(scope="module")
def task():
    body = tiny.transformer(seed=3, scale=1.0, num_heads=2, cross_attention=["multi_head", "previous_weight"])
    task = Translator(body, tiny.preprocessor())
    task.compile()
    return task


def test_heads_of_chosen_layers(task):
    """Layers stand one after the other, and so do the heads that are taken of each."""
    sources, targets = ([" ".join(pair[side]) for pair in PAIRS] for side in (0, 1))
    every = task.force(sources, targets, layers=[0, 1])
    last = task.force(sources, targets)
    first = task.force(sources, targets, layers=[0])
    second_heads, of_one = (
        task.force(sources, targets, layers=[0, 1], heads=[1]),
        task.force(sources, targets, heads=[0]),
    )
    for all_heads, of_last, of_first, second, one in zip(every, last, first, second_heads, of_one, strict=True):
        np.testing.assert_allclose(all_heads.attention[:2], of_first.attention, atol=1e-6)
        np.testing.assert_allclose(all_heads.attention[2:], of_last.attention, atol=1e-6)
        assert np.abs(of_last.attention - of_first.attention).max() > 0.01
        np.testing.assert_array_equal(second.attention, all_heads.attention[[1, 3]])
        np.testing.assert_array_equal(one.attention, of_last.attention[:1])


def test_every_layer_is_scored_as_by_itself(task):
    gold = [Alignment(sure={(0, 0)}) for _ in PAIRS]
    by_layer = align_by_layer(task, PAIRS, gold)
    assert list(by_layer) == [0, 1, "all"]
    for layer, (links, scores) in by_layer.items():
        chosen = [0, 1] if layer == "all" else [layer]
        assert links == align_words(task, PAIRS, layers=chosen)[0]
        assert scores.sentences == len(PAIRS)
    assert by_layer[1][0] == align_words(task, PAIRS)[0]


def test_pictures_of_a_layer(task):
    source, target = (" ".join(words) for words in PAIRS[0])
    pictures = [sentence_picture(task, source, target, layers=layers)[0] for layers in (None, [1], [0])]
    np.testing.assert_allclose(pictures[0], pictures[1], atol=1e-5)
    assert np.abs(pictures[0] - pictures[2]).max() > 0.01


def test_a_picture_of_another_layer_is_of_the_tokens_that_were_found(task):
    """Whose text may be cut into other subwords."""
    text = task.encode(tiny.sentences("source"))
    found = [best for [best] in task.translate(text)]
    encoded = task.encode(text, [best.text for best in found]).targets
    number = next(i for i, best in enumerate(found) if best.token_ids != encoded[i])
    sentence, best = tiny.sentences("source")[number], found[number]
    matrix, _, tokens = sentence_picture(task, sentence, subwords=True, layers=[1])
    assert tokens == best.tokens
    np.testing.assert_allclose(
        matrix, task.translate(sentence, attention=True)[0].attention.mean(axis=0), rtol=0, atol=1e-5
    )


def test_the_alignment_may_be_one_head():
    """The second one of the first layer: along given translations, in a search, and as a latent alignment's prior."""

    def build(**arguments):
        task = Translator(tiny.transformer(seed=3, scale=1.0, **arguments), tiny.preprocessor())
        task.compile()
        return task

    one, every = build(attention_layer="0:1"), build(attention_layer="all")
    sources, targets = ([" ".join(pair[side]) for pair in PAIRS[:2]] for side in (0, 1))
    forced = zip(one.force(sources, targets), every.force(sources, targets), strict=True)
    searched = zip(*(task.translate(sources, attention=True) for task in (one, every)), strict=True)
    for found, wanted in (*forced, *((found, wanted) for [found], [wanted] in searched)):
        assert found.tokens == wanted.tokens
        np.testing.assert_allclose(found.attention, wanted.attention[[1]], atol=1e-6)
    with pytest.raises(UserError, match="alignment is one head, attention_layer='0:1': leave the heads out"):
        align_words(one, PAIRS, heads=[0])
    latent = build(attention_layer="0:1", output="latent")
    by_layer = align_by_layer(latent, PAIRS, [Alignment(sure={(0, 0)}) for _ in PAIRS])
    wanted = align_words(latent, PAIRS, layers=[0], heads=[1])[0]
    assert by_layer["prior"][0] == align_words(latent, PAIRS)[0] == wanted != by_layer[0][0]


def test_layers_and_heads_that_are_not_there(task):
    with pytest.raises(UserError, match="there is no cross-attention layer 2: choose from 0 to 1"):
        align_words(task, PAIRS, layers=[2])
    with pytest.raises(UserError, match="there is no head 2: choose from 0 to 1"):
        align_words(task, PAIRS, heads=[0, 2])


class Forced:
    """A translator whose attention is given: a word looks at the end, and so does its full stop a little."""

    preprocessor = types.SimpleNamespace(truncation=UNCUT)

    def encode(self, sources, targets):
        """The sentences as they are."""
        return sources

    def force(self, text, **arguments):
        """The same for every sentence."""
        attention = np.array([[[0.3, 0.1, 0.6], [0.2, 0.7, 0.1], [0.0, 0.0, 1.0]]])
        return [ForcedDecoding(["▁rot", ".", "</s>"], ["▁red", ".", "</s>"], attention)] * len(text)


@pytest.mark.parametrize("pairs", [[("rot.", "blue.")], []])
def test_gold_alignments_are_those_of_the_sentences(pairs):
    gold = [(["rot", "."], ["red", "."], Alignment(sure={(0, 0)}))]
    assert ParallelText([("rot .", "red.")], gold).gold == gold
    with pytest.raises(UserError, match=r"pair 1 does not match the words of its|1 gold alignments for 0 sentence"):
        ParallelText(pairs, gold)


@pytest.mark.parametrize(
    ("leave_out", "links"),
    [
        (("end",), {(0, 0), (1, 1)}),
        ((), {(1, 1)}),
        (("end", "full_stop"), {(0, 0)}),
        (("full_stop",), set()),
    ],
)
def test_what_is_left_out(leave_out, links):
    pairs = [(["rot", "."], ["red", "."])]
    found, _ = align_words(Forced(), pairs, leave_out=leave_out)
    assert found == [links]
    gold = [Alignment(sure={(0, 0), (1, 1)})]
    scores = score_links(found, pairs, gold, leave_out)
    assert scores.sure == (1 if "full_stop" in leave_out else 2)
    assert scores.aer == pytest.approx(1 - 2 * len(links) / (len(links) + scores.sure))
    with pytest.raises(UserError, match="leave_out must be among end, full_stop; received comma"):
        align_words(Forced(), pairs, leave_out=("comma",))


def test_prior_and_posterior_of_a_latent_alignment(tmp_path, encodings):
    task = Translator(tiny.transformer(seed=3, scale=1.0, output="latent"), tiny.preprocessor())
    found = align_by_layer(task, PAIRS, [Alignment(sure={(0, 0)}) for _ in PAIRS])
    assert set(encodings.values()) == {1}, "once for all layers"
    assert list(found) == [0, 1, "all", "prior", "posterior"]
    assert found["prior"][0] == found[1][0]
    assert found["posterior"][0] == align_words(task, PAIRS, layers="posterior")[0]
    gold = [(*pair, Alignment(sure={(0, 0)})) for pair in PAIRS]
    text = ParallelText([tuple(map(" ".join, pair)) for pair in PAIRS], gold)
    scores = score_alignment(task, text, tmp_path / "links")
    assert (scores["aer"], scores["posterior_aer"]) == (found["prior"][1].aer, found["posterior"][1].aer)
    with pytest.raises(UserError, match="the posterior of an alignment has no heads"):
        align_words(task, PAIRS, layers="posterior", heads=[0])
