import numpy as np
import pytest

from keras_attn_zoo.layers import LocalAttention, LuongAttention, TemporalAttention


def test_dot_needs_equal_widths():
    query, value = np.ones((2, 3, 4), dtype="float32"), np.ones((2, 5, 6), dtype="float32")
    with pytest.raises(ValueError, match=r"use score='general'\. Received: query width 4, key width 6"):
        LuongAttention(score="dot")(query, value)
    # The key alone matters: values may have any width.
    key = np.ones((2, 5, 4), dtype="float32")
    layer = LuongAttention(score="dot")
    assert layer(query, value, key=key).shape == (2, 3, 6)
    with pytest.raises(ValueError, match=r"^LuongAttention: score='dot' needs .* query width 4, key width 6"):
        layer(query, value)


def test_units_of_concat_default_to_the_width_of_the_query():
    layer = LuongAttention(score="concat")
    layer.build((None, None, 4), (None, None, 6))
    assert [tuple(weight.shape) for weight in layer.weights] == [(4, 4), (6, 4), (4, 1)]


@pytest.mark.parametrize("layer", [LuongAttention, LocalAttention, TemporalAttention])
def test_only_products_are_scaled(layer):
    with pytest.raises(ValueError, match=rf"^{layer.__name__}: `scaled` needs a product, score='dot' or 'general'"):
        layer(score="concat", scaled=True)
    assert layer.from_config(layer(scaled=True).get_config()).scaled
