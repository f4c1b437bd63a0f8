"""Inputs, layers, small models and expected numbers for the laws, one set a registry entry."""

import functools
import zlib
from pathlib import Path

import keras
import numpy as np

from keras_attn_zoo.layers import ATTENTIONS, get_attention
from tests.layers.references import REFERENCES
from tests.weights import fill_weights

CROSS = [name for name, entry in ATTENTIONS.items() if "cross" in entry.places]
BATCH, TARGET, SOURCE = 2, 3, 5

VALUE_MASK = np.array([[1, 0, 1, 1, 1], [1, 1, 1, 0, 0]], dtype=bool)
QUERY_MASK = np.array([[1, 1, 1], [1, 1, 0]], dtype=bool)
# The middle row of the first sentence attends to nothing.
ATTENTION_MASK = np.array(
    [
        [[1, 1, 1, 0, 1], [0, 0, 0, 0, 0], [0, 1, 1, 1, 1]],
        [[0, 1, 1, 1, 1], [1, 1, 0, 1, 1], [1, 0, 1, 1, 1]],
    ],
    dtype=bool,
)
MASKS = {"query_mask": QUERY_MASK, "value_mask": VALUE_MASK, "attention_mask": ATTENTION_MASK}


def numbers(seed, *shape):
    """Numbers in [-1.5, 1.5] that bfloat16 holds exactly."""
    rng = np.random.default_rng([3, zlib.crc32(seed.encode())])
    return (rng.integers(-96, 97, size=shape) / 64).astype("float32")


def inputs_of(name, target=TARGET, source=SOURCE, with_key=False):
    """Query and value of one entry; with a key of its own, the value gets a width of its own."""
    sizes = REFERENCES[name]
    inputs = {
        "query": numbers("query", BATCH, target, sizes.query_dim),
        "value": numbers("value", BATCH, source, sizes.value_dim if with_key else sizes.key_dim),
    }
    if with_key:
        inputs["key"] = numbers("key", BATCH, source, sizes.key_dim)
    return inputs


def layer_of(name, policy="float32", with_key=False):
    """A built layer with filled weights."""
    layer = get_attention(name, width=REFERENCES[name].width, name=name, dtype=policy)
    shapes = {f"{part}_shape": x.shape for part, x in inputs_of(name, with_key=with_key).items()}
    layer.build(**shapes)
    fill_weights(layer)
    return layer


def weights_of(layer):
    """Weights of a layer by their name inside it, those of a model by their path, in float64."""
    start = "" if isinstance(layer, keras.Model) else f"{layer.name}/"
    return {w.path.removeprefix(start): keras.ops.convert_to_numpy(w.value).astype("float64") for w in layer.weights}


def combined_mask(target, source, query_mask=None, value_mask=None, attention_mask=None):
    """The masks of one call as one, `(batch, target, source)`."""
    mask = np.ones((BATCH, target, source), dtype=bool)
    if query_mask is not None:
        mask &= query_mask[:, :, None]
    if value_mask is not None:
        mask &= value_mask[:, None, :]
    return mask if attention_mask is None else mask & attention_mask


def expected(name, weights, inputs, heads, **masks):
    """Context and scores of the reference, sentence by sentence."""
    query, value = inputs["query"], inputs["value"]
    mask = combined_mask(query.shape[1], value.shape[1], **masks)
    sentences = [
        REFERENCES[name].attend(weights, q, k, v, np.repeat(m[None], heads, axis=0))
        for q, k, v, m in zip(query, inputs.get("key", value), value, mask, strict=True)
    ]
    context, scores = zip(*sentences, strict=True)
    return np.stack(context), np.stack(scores)


def coefficients(name):
    """What the loss of the laws multiplies context and scores with, so that every element counts on its own."""
    heads = layer_of(name).num_heads
    return (
        numbers("context", BATCH, TARGET, REFERENCES[name].value_dim),
        numbers("scores", BATCH, heads, TARGET, SOURCE),
    )


@functools.cache
def expected_loss_and_gradients(name, difference=1e-5):
    """The loss by the reference, and its central differences, element by element: by weight and by input."""
    layer = layer_of(name, with_key=True)
    of_context, of_scores = coefficients(name)
    weights = weights_of(layer)
    inputs = {part: x.astype("float64") for part, x in inputs_of(name, with_key=True).items()}

    def loss():
        context, scores = expected(name, weights, inputs, layer.num_heads, **MASKS)
        return np.sum(of_context * context) + np.sum(of_scores * scores)

    def differentiate(x):
        gradient = np.zeros_like(x)
        for index in np.ndindex(x.shape):
            at = x[index]
            x[index] = at + difference
            above = loss()
            x[index] = at - difference
            gradient[index] = (above - loss()) / (2 * difference)
            x[index] = at
        return gradient

    by_weight = {name: differentiate(x) for name, x in weights.items()}
    return loss(), by_weight, {part: differentiate(x) for part, x in inputs.items()}


@keras.saving.register_keras_serializable(package="keras_attn_zoo_tests")
class Offset(keras.layers.Layer):
    """Adds a trainable zero to every element of one batch, whose gradient is that of the input."""

    def __init__(self, batch_shape, **kwargs):
        super().__init__(**kwargs)
        self.batch_shape = tuple(batch_shape)

    def build(self, shape):
        self.offset = self.add_weight(name="offset", shape=self.batch_shape, initializer="zeros")

    def call(self, x):
        return x + self.offset

    def compute_output_spec(self, x):
        return keras.KerasTensor(x.shape, self.compute_dtype)

    def get_config(self):
        return {**super().get_config(), "batch_shape": self.batch_shape}


def model_of(name, policy="float32"):
    """A functional model of unknown lengths: an offset on each input, then the layer, with all its masks."""
    inputs = inputs_of(name, with_key=True)
    tensors = {part: keras.Input((None, x.shape[-1]), name=part) for part, x in inputs.items()}
    masks = {part: keras.Input((None,) * (x.ndim - 1), dtype="bool", name=part) for part, x in MASKS.items()}
    shifted = {part: Offset(x.shape, name=f"{part}_offset", dtype=policy)(tensors[part]) for part, x in inputs.items()}
    outputs = layer_of(name, policy, with_key=True)(**shifted, return_attention_scores=True, **masks)
    return keras.Model({**tensors, **masks}, list(outputs), name=f"model_of_{name}")


def save_weights(folder):
    """Save the weights of every entry's model; a test under another backend loads them."""
    for name in CROSS:
        model_of(name).save_weights(Path(folder) / f"{name}.weights.h5")
