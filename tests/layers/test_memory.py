"""What a gradient needs of memory, as XLA counts it: never an array of target, source and width, or vocabulary."""

import keras
import pytest
from keras import ops

from keras_attn_zoo.layers import LatentAlignmentHead, get_attention
from tests.layers.cases import ONE_OF_EACH_BASE
from tests.layers.references import ATTENTIONS

# So long that what grows with the length alone, and the weights, are little beside an array of all pairs.
BATCH, LENGTH, WIDTH = 4, 128, 256

pytestmark = pytest.mark.skipif(keras.config.backend() != "jax", reason="the other backends do not tell it beforehand")


def bytes_of_gradient(layer, *shapes, loss=ops.sum):
    """Of weights and inputs, of a loss of the layer's result."""
    import jax

    def function(weights, inputs):
        with keras.StatelessScope(state_mapping=list(zip(layer.trainable_variables, weights, strict=True))):
            return loss(layer(*inputs))

    weights = [v.value for v in layer.trainable_variables]
    return bytes_of(jax.grad(function, argnums=(0, 1)), weights, floats(*shapes))


def floats(*shapes):
    import jax

    return [jax.ShapeDtypeStruct(shape, "float32") for shape in shapes]


def bytes_of(function, *inputs):
    import jax

    return jax.jit(function).lower(*inputs).compile().memory_analysis().temp_size_in_bytes


OF_BASES = {case.name for case in ONE_OF_EACH_BASE if case.cross}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in OF_BASES else pytest.mark.slow)
        for name in ATTENTIONS
        if "cross" in ATTENTIONS[name].places
    ],
)
def test_memory_does_not_grow_as_target_by_source_by_width(name):
    layer = get_attention(name, place="cross", width=WIDTH, num_heads=2)
    shapes = 2 * [(BATCH, LENGTH, WIDTH)]
    layer.build(*shapes)
    of_all_pairs = 4 * BATCH * LENGTH**2 * WIDTH
    assert bytes_of_gradient(layer, *shapes) < of_all_pairs / 2


@pytest.mark.parametrize("marginalization", ["exact", "top_k"])
def test_a_latent_alignment_holds_nothing_of_pairs_times_vocabulary(marginalization):
    vocabulary, length = 4000, 40
    # Of K positions in 40 too: arrays of these would be half as large.
    head = LatentAlignmentHead(vocabulary, width=8, marginalization=marginalization, top_k=20)
    rows, states = (BATCH, length, length), (BATCH, length, 8)
    head.build(rows, states, states, states)
    of_all_pairs = 4 * BATCH * length**2 * vocabulary

    def loss(found):
        return ops.sum(found["log_probs"]) + ops.sum(found["smoothing"])

    inputs = (rows, states, states, states)
    assert bytes_of_gradient(head, *inputs, (BATCH, length), loss=loss) < of_all_pairs / 4
    assert bytes_of(lambda *inputs: head(*inputs), *floats(*inputs)) < of_all_pairs / 4

    def search(encoded, *row):
        return head.step(*row, memory=head.prepare(encoded))

    # As many hypotheses as there were target positions.
    rows = ((BATCH * length, length), (BATCH * length, 8), (BATCH * length, 8))
    assert bytes_of(search, *floats(states, *rows)) < of_all_pairs / 4
