"""What a gradient needs of memory, as XLA counts it: never an array of target, source and width."""

import keras
import pytest
from keras import ops

from keras_attn_zoo.layers import ATTENTIONS, get_attention

BATCH, WIDTH = 4, 256

pytestmark = pytest.mark.skipif(keras.config.backend() != "jax", reason="the other backends do not tell it beforehand")


def bytes_of_gradient(layer, length):
    import jax

    shape = jax.ShapeDtypeStruct((BATCH, length, WIDTH), "float32")

    def loss(weights, *inputs):
        with keras.StatelessScope(state_mapping=list(zip(layer.trainable_variables, weights, strict=True))):
            return ops.sum(layer(*inputs))

    weights = [v.value for v in layer.trainable_variables]
    compiled = jax.jit(jax.grad(loss, argnums=(0, 1, 2))).lower(weights, shape, shape).compile()
    return compiled.memory_analysis().temp_size_in_bytes


@pytest.mark.parametrize("name", [name for name in ATTENTIONS if "cross" in ATTENTIONS[name].places])
def test_memory_does_not_grow_as_target_by_source_by_width(name):
    layer = get_attention(name, place="cross", width=WIDTH, num_heads=2)
    layer.build((BATCH, 64, WIDTH), (BATCH, 64, WIDTH))
    # What grows with the length falls out of the difference, and so do the weights.
    grown = bytes_of_gradient(layer, 64) - 2 * bytes_of_gradient(layer, 32)
    of_all_pairs = 4 * BATCH * WIDTH * (64**2 - 2 * 32**2)
    assert grown < of_all_pairs / 2
