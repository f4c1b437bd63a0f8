"""The ways in which strangers call a layer, on tensors that carry Keras' masks, eagerly and not: all say the same."""

import keras
import numpy as np
import pytest

from tests.layers.calls import to_numpy
from tests.strangers.models import STRANGERS, WIDTH, sentences
from tests.weights import fill_weights

pytestmark = [pytest.mark.one_backend, pytest.mark.long]

SELF = {
    "layer(x)": lambda layer, x, **kwargs: layer(x, **kwargs),
    "layer(query=x)": lambda layer, x, **kwargs: layer(query=x, **kwargs),
    "layer(x, x)": lambda layer, x, **kwargs: layer(x, x, **kwargs),
    "layer(x, value=x)": lambda layer, x, **kwargs: layer(x, value=x, **kwargs),
    "layer(x, x, x)": lambda layer, x, **kwargs: layer(x, x, x, **kwargs),
}
CROSS = {
    "layer(q, v)": lambda layer, q, v, **kwargs: layer(q, v, **kwargs),
    "layer(query=q, value=v)": lambda layer, q, v, **kwargs: layer(query=q, value=v, **kwargs),
    "layer(q, v, v)": lambda layer, q, v, **kwargs: layer(q, v, v, **kwargs),
    "layer(q, value=v, key=v)": lambda layer, q, v, **kwargs: layer(q, value=v, key=v, **kwargs),
}
every_stranger = pytest.mark.parametrize("stranger", STRANGERS, ids=str)
# Relative to the largest number: the same sums in the same order, but for those that a compiler joins.
TOLERANCE = 2e-6


class Source:
    """Embedded sentences with the masks that Keras carries, and the same as plain arrays."""

    def __init__(self):
        self.carried, self.plain = {}, {}
        for name, ids in sentences().items():
            embedding = keras.layers.Embedding(20, WIDTH, mask_zero=True, name=f"{name}_embedding")
            embedding.build()
            fill_weights(embedding, scale=2.0)
            self.carried[name] = embedding(ids)
            self.plain[name] = to_numpy(self.carried[name])

    def of(self, stranger, kind):
        kind = getattr(self, kind)
        return (kind["target"], kind["source"]) if stranger.cross else (kind["source"],)


@pytest.fixture(scope="module")
def source():
    return Source()


def assert_equal(found, wanted, what):
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(to_numpy(x), y, rtol=0, atol=TOLERANCE * max(1.0, np.abs(y).max()), err_msg=what)


@every_stranger
def test_forms_of_a_call(stranger, source):
    """Masks carried by Keras do what the same masks do that are given; NumPy arrays are taken, eagerly."""
    layer, options = stranger.layer(), {"return_attention_scores": True, **stranger.causal}
    inputs, plain = source.of(stranger, "carried"), source.of(stranger, "plain")
    real = {name: ids > 0 for name, ids in sentences().items()}
    masks = {"query_mask": real["target"], "value_mask": real["source"]}
    layer(*plain)
    fill_weights(layer)
    masks = masks if stranger.cross else {"query_mask": real["source"]}
    wanted = to_numpy(layer(*plain, **masks, **options))
    without = to_numpy(layer(*plain, **options))
    assert np.abs(wanted[1] - without[1]).max() > 1e-3, "the masks of this test mask nothing"
    for what, form in (CROSS if stranger.cross else SELF).items():
        context, scores = form(layer, *inputs, **options)
        assert_equal((context, scores), wanted, what)
        np.testing.assert_array_equal(context._keras_mask, masks["query_mask"], "the mask that goes on")


@every_stranger
def test_given_masks_win_over_carried_ones(stranger, source):
    """Keras fills in only what is not given."""
    layer, options = stranger.layer(), {"return_attention_scores": True, **stranger.causal}
    inputs, plain = source.of(stranger, "carried"), source.of(stranger, "plain")
    layer(*plain)
    fill_weights(layer)
    real = {name: ids > 0 for name, ids in sentences().items()}
    other = np.ones_like(real["source"])
    other[:, 2] = False
    if stranger.cross:
        given, whole = {"value_mask": other}, {"query_mask": real["target"], "value_mask": other}
    else:
        given, whole = {"query_mask": other}, {"query_mask": other}
    wanted = to_numpy(layer(*plain, **whole, **options))
    assert_equal(layer(*inputs, **given, **options), wanted, "given masks")
