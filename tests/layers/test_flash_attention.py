"""Multi-head attention by flash attention: the same contexts and gradients, no softmax."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.layers import MultiHeadAttention, get_attention
from tests.layers.calls import TOLERANCE, assert_close, compiled, value_and_gradients
from tests.layers.cases import Case, numbers, weights_of

CROSS, DECODER = Case("multi_head", "cross"), Case("multi_head", "decoder")
# Turned queries and keys, of which several heads share one.
ROTARY = Case("multi_head", "decoder", variant="rotary")
MASKS = {
    "none": [],
    "padding": ["query_mask", "value_mask"],
    "pairs_with_an_empty_row": ["attention_mask"],
    "all": ["query_mask", "value_mask", "attention_mask"],
}
POLICIES = pytest.mark.parametrize("policy", list(TOLERANCE))
PLACES = pytest.mark.parametrize("case", [CROSS, DECODER, ROTARY], ids=str)


@pytest.fixture
def always(monkeypatch):
    """Do without weights where that is asked for, by any kernel of the backend; returns the masks of all calls."""
    operation, masks = ops.dot_product_attention, []

    def observed(*args, flash_attention, **kwargs):
        masks.append(kwargs["mask"])
        # No backend has flash attention on a CPU.
        return operation(*args, **kwargs)

    monkeypatch.setattr(ops, "dot_product_attention", observed)
    return masks


def with_bad_padding(case, inputs, names):
    """Inputs with NaN and infinity in what is padding by the masks of these names."""
    return case.with_nan_in_padding(inputs) if "value_mask" in names else inputs


@POLICIES
@PLACES
@pytest.mark.parametrize("names", MASKS.values(), ids=MASKS)
def test_contexts_equal_the_reference(case, policy, names, always, softmaxes):
    layer, inputs = case.layer(policy), case.inputs()
    layer.flash_attention = True
    masks = {name: case.masks[name] for name in names}
    given = with_bad_padding(case, inputs, names)
    found = compiled(lambda given: layer(**given, **masks, **case.causal))(given)
    wanted, _ = case.expected(weights_of(layer), inputs, **masks, **case.causal)
    assert_close(found, wanted, policy, "context")
    assert len(always) == 1
    assert not softmaxes


@POLICIES
@PLACES
def test_gradients_equal_those_through_weights(case, policy, always, softmaxes):
    """All masks at work, NaN in the padding, and a row with nothing to attend to."""
    inputs = case.with_nan_in_padding(case.inputs())
    factors = ops.convert_to_tensor(numbers("factors", 2, case.target, case.context_dim()))

    def found(flash_attention):
        layer = case.layer(policy)
        layer.flash_attention = flash_attention
        return value_and_gradients(
            layer,
            lambda x: ops.sum(factors * ops.cast(layer(**x, **case.masks, **case.causal), "float32")),
            inputs,
        )

    found, wanted = found(True), found(False)
    assert len(always) == len(softmaxes) == 1
    for actual, desired in zip(keras.tree.flatten(found), keras.tree.flatten(wanted), strict=True):
        assert np.isfinite(actual).all()
        assert_close(actual, desired, policy)


def test_a_causal_mask_alone_is_left_to_the_kernel(always):
    """So that it skips what comes later; padding at the front needs the mask, for a row that attends to nothing."""
    layer, x = MultiHeadAttention(2, 4, flash_attention=True), numbers("x", 2, 3, 8)
    layer(x, use_causal_mask=True)
    assert always == [None]
    context = layer(x, use_causal_mask=True, value_mask=[[False, True, True]] * 2)
    assert always[1] is not None
    assert not np.any(ops.convert_to_numpy(context)[:, 0])


def test_weights_are_computed_unless_that_is_asked_for(always, softmaxes):
    x = numbers("x", 2, 3, 8)

    class Sharper(MultiHeadAttention):
        """Other weights than those of the base class."""

        def energies(self, query, memory):
            return 2 * super().energies(query, memory)

    def computes(layer, **kwargs):
        softmaxes.clear()
        layer(x, **kwargs)
        return len(softmaxes)

    asked = MultiHeadAttention(2, 4, flash_attention=True)
    assert computes(asked) == 0 and computes(asked, training=True) == 0
    assert computes(MultiHeadAttention(2, 4)) == computes(Sharper(2, 4)) == 1
    assert computes(MultiHeadAttention(2, 4, flash_attention=False)) == 1


@pytest.mark.one_backend
def test_flash_attention_by_force():
    layer = MultiHeadAttention(2, 4, flash_attention=True)
    assert MultiHeadAttention.from_config(layer.get_config()).flash_attention is True
    x = numbers("x", 2, 3, 8)
    with pytest.raises(ValueError, match="MultiHeadAttention: flash attention computes no scores: leave out"):
        layer(x, return_attention_scores=True)
    # No backend has it on a CPU.
    with pytest.raises((RuntimeError, ValueError), match=r"Flash attention is not supported|cuDNN is not detected"):
        layer(x)
    with pytest.raises(ValueError, match=r"`flash_attention` of keras.*plain softmax alone"):
        get_attention("accumulated_weight", 8, num_heads=2, flash_attention=True)
    for arguments in ({"dropout": 0.1}, {"normalizer": "sparsemax"}):
        with pytest.raises(ValueError, match="MultiHeadAttention: `flash_attention` takes no dropout and only"):
            MultiHeadAttention(2, 4, flash_attention=True, **arguments)
