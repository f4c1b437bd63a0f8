import pytest

from keras_attn_zoo.layers import BahdanauAttention


@pytest.mark.parametrize("units", [0, -3, 2.5, "8", None])
def test_units_that_are_no_width(units):
    with pytest.raises(ValueError, match=rf"`units` must be a positive integer. Received: units={units!r}"):
        BahdanauAttention(units)
