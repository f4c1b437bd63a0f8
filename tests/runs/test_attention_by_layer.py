"""Attention of all layers: statistics over a text, matrices by position, self-attention to draw."""

import numpy as np
import pytest

from keras_attn_zoo.corpora.parallel_text import ParallelText
from keras_attn_zoo.runs.attention_by_layer import matrices_by_position, self_attention, statistics_by_layer
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.viewing.attention_statistics import attention_entropy
from tests import tiny

TEXT = ParallelText(list(zip(tiny.sentences("source")[:3], tiny.sentences("target")[:3], strict=True)))


@pytest.fixture(scope="module")
def transformer():
    return tiny.translator(body=tiny.transformer, encoder_attention="recurrent")


def test_statistics_are_those_of_forced_translations(transformer):
    """Of the cross-attention, which `force` returns too; a pair with an empty side does not count."""
    text = ParallelText([*TEXT.pairs, ("", "house"), ("haus", " ")])
    done = []
    found = statistics_by_layer(transformer, text, ["encoder", "cross"], done.append)
    assert list(found) == ["encoder", "cross"] and done[-1] == 3
    layers = len(found["cross"].entropy)
    for layer in range(layers):
        forced = transformer.force(TEXT.sources, TEXT.targets, layers=[layer])
        rows = np.concatenate([attention_entropy(one.attention).mean(axis=0) for one in forced])
        assert found["cross"].entropy[layer] == pytest.approx(rows.mean(), rel=1e-5)
    assert found["encoder"].divergence.shape == (len(found["encoder"].entropy),) * 2
    with pytest.raises(UserError, match="every pair of the text has an empty side"):
        statistics_by_layer(transformer, ParallelText([("", "a")]), ["cross"])


def test_an_rnn_has_cross_attention_alone():
    assert list(statistics_by_layer(tiny.translator(), TEXT, ["encoder", "decoder", "cross"])) == ["cross"]


def test_matrices_are_those_of_any_sentence(transformer):
    found = matrices_by_position(transformer, 4)
    assert list(found) == ["encoder"]
    source, target = TEXT.pairs[0]
    weights = transformer.attention_along(source, target)["encoder"]
    assert list(found["encoder"]) == list(range(len(weights)))
    length = weights[0].shape[1]
    for layer, matrix in matrices_by_position(transformer, length)["encoder"].items():
        np.testing.assert_allclose(matrix, weights[layer].mean(axis=0), atol=1e-6)
        assert found["encoder"][layer].shape == (4, 4)
    one = matrices_by_position(transformer, 4, heads=[1])["encoder"][0]
    both = [matrices_by_position(transformer, 4, heads=[head])["encoder"][0] for head in (0, 1)]
    np.testing.assert_array_equal(one, both[1])
    np.testing.assert_allclose(np.mean(both, axis=0), found["encoder"][0], atol=1e-6)
    with pytest.raises(UserError, match="there is no head 7: a layer has 2"):
        matrices_by_position(transformer, 4, heads=[7])
    with pytest.raises(UserError, match=r"99 positions are more than the \d+ that the model accepts: ask for fewer"):
        matrices_by_position(transformer, 99)
    with pytest.raises(UserError, match="depends on the tokens"):
        matrices_by_position(tiny.translator(), 4)


@pytest.mark.parametrize("place", ["encoder", "decoder"])
def test_self_attention_of_a_sentence(transformer, place):
    text = transformer.encode(TEXT.sources[:1], TEXT.targets[:1])
    weights = transformer.attention_along(TEXT.sources[0], TEXT.targets[0])[place]
    matrix, columns, rows = self_attention(transformer, text, place)
    np.testing.assert_allclose(matrix, np.mean(weights, axis=(0, 1)), atol=1e-6)
    [forced] = transformer.force(TEXT.sources[:1], TEXT.targets[:1])
    if place == "encoder":
        assert columns == rows == forced.source_tokens
    else:
        assert (columns, rows) == (["<s>", *forced.tokens[:-1]], forced.tokens)
    second, *_ = self_attention(transformer, text, place, layer=1, heads=[0])
    np.testing.assert_allclose(second, weights[1][0], atol=1e-6)
    with pytest.raises(UserError, match=f"there is no layer 9: the {place} has {len(weights)}"):
        self_attention(transformer, text, place, layer=8)
    rnn = tiny.translator()
    with pytest.raises(UserError, match=f"its {place} has no self-attention"):
        self_attention(rnn, rnn.encode(TEXT.sources[:1], TEXT.targets[:1]), place)
