"""Inputs, layers, small models and expected numbers for the laws: one case per mechanism and place."""

import dataclasses
import functools
import inspect
import zlib
from pathlib import Path

import keras
import numpy as np

from keras_attn_zoo.layers import ATTENTIONS, AttentionLayer, get_attention
from keras_attn_zoo.presets.loading_without_drawing import without_drawing
from tests.layers.equations import normalizing_by
from tests.layers.references import REFERENCES
from tests.shared_files import made_once
from tests.weights import fill_weights

BATCH = 2


def numbers(seed, *shape):
    """Numbers in [-1.5, 1.5] that bfloat16 holds exactly."""
    rng = np.random.default_rng([3, zlib.crc32(seed.encode())])
    return (rng.integers(-96, 97, size=shape) / 64).astype("float32")


def masks_of(target, source):
    """Masks of a query, a value and both, with holes; the second row of the first sentence attends to nothing."""
    value_mask = np.ones((BATCH, source), dtype=bool)
    value_mask[0, 1] = False
    value_mask[1, 3:] = False
    query_mask = np.ones((BATCH, target), dtype=bool)
    query_mask[1, -1] = False
    attention_mask = np.random.default_rng(5).random((BATCH, target, source)) < 0.7
    # What is masked in pairs must not stand for what the other masks hide.
    attention_mask[:, :, 0] = attention_mask[:, -1] = True
    attention_mask[0, 1] = False
    return {"query_mask": query_mask, "value_mask": value_mask, "attention_mask": attention_mask}


@dataclasses.dataclass(frozen=True)
class Case:
    """One mechanism in one place: cross-attention, or causal self-attention of a decoder."""

    name: str
    place: str
    normalizer: str = "softmax"
    variant: str = ""

    def __str__(self):
        parts = (self.name, self.variant, self.place, self.normalizer if self.normalizer != "softmax" else "")
        return "_".join(part for part in parts if part)

    @property
    def reference(self):
        reference = REFERENCES[self.name]
        changed = reference.variants.get(self.variant, {}).items()
        return dataclasses.replace(reference, **{k: v for k, v in changed if k not in ("places", "normalizer")})

    @property
    def cross(self):
        return self.place == "cross"

    @property
    def has_no_state(self):
        """Whether its entry says so, or its class if there is no cost in the entry."""
        entry = ATTENTIONS[self.name]
        if entry.cost is None:
            return entry.layer.initial_state is AttentionLayer.initial_state
        return self.cross and entry.cost.state.split(";")[0] == "none"

    @property
    def asking_for_scores(self):
        """What `prepare` of steps is told so that they return scores, if they do not by themselves."""
        name = "return_attention_scores"
        return {name: True} if name in inspect.signature(ATTENTIONS[self.name].layer.prepare).parameters else {}

    @property
    def target(self):
        return 3 if self.cross else 5

    @property
    def source(self):
        return 5

    @property
    def masks(self):
        return masks_of(self.target, self.source)

    @property
    def causal(self):
        """What a call gets besides inputs and masks: self-attention of a decoder is causal."""
        return {} if self.cross else {"use_causal_mask": True}

    def inputs(self, target=None, source=None, with_key=False):
        """The query, and for cross-attention a value; with a key of its own, the value has a width of its own."""
        sizes = self.reference
        inputs = {"query": numbers("query", BATCH, target or self.target, sizes.query_dim)}
        if self.cross:
            source = source or self.source
            inputs["value"] = numbers("value", BATCH, source, sizes.value_dim if with_key else sizes.key_dim)
            if with_key:
                inputs["key"] = numbers("key", BATCH, source, sizes.key_dim)
        return inputs

    def with_nan_in_padding(self, inputs):
        """Inputs with NaN, and infinity, where `masks` say that there is padding."""
        masks = self.masks
        padding = {part: ~masks["query_mask" if part == "query" else "value_mask"] for part in inputs}
        if not self.cross:
            padding["query"] &= ~masks["value_mask"]
        bad = np.where(np.arange(7) % 2, np.nan, np.inf).astype("float32")
        return {part: np.where(padding[part][:, :, None], np.resize(bad, x.shape[-1]), x) for part, x in inputs.items()}

    def context_dim(self, with_key=False):
        """Width of the context."""
        sizes = self.reference
        return sizes.context_dim or (sizes.value_dim if with_key else sizes.key_dim)

    def layer(self, policy="float32", with_key=False):
        """A built layer with filled weights."""
        sizes = self.reference
        layer = get_attention(
            self.name,
            sizes.width,
            sizes.num_heads // sizes.maps,
            sizes.max_length,
            self.place,
            name=str(self),
            dtype=policy,
            **sizes.arguments,
            **({} if self.normalizer == "softmax" else {"normalizer": self.normalizer}),
        )
        shapes = {f"{part}_shape": x.shape for part, x in self.inputs(with_key=with_key).items()}
        # JAX would compile a program for the numbers of each shape.
        with without_drawing():
            layer.build(**shapes)
        fill_weights(layer)
        return layer

    def expected(self, weights, inputs, query_mask=None, value_mask=None, attention_mask=None, use_causal_mask=False):
        """Context and scores of the reference, sentence by sentence."""
        query = inputs["query"]
        value = inputs.get("value", query)
        if not self.cross and value_mask is None:
            value_mask = query_mask
        mask = np.ones((len(query), query.shape[1], value.shape[1]), dtype=bool)
        if query_mask is not None:
            mask &= query_mask[:, :, None]
        if value_mask is not None:
            mask &= value_mask[:, None, :]
        if attention_mask is not None:
            mask &= attention_mask
        if use_causal_mask:
            mask &= np.tril(np.ones(mask.shape[1:], dtype=bool))
        real = np.ones(value.shape[:2], dtype=bool) if value_mask is None else value_mask
        with normalizing_by(self.normalizer):
            sentences = [
                self.reference.attend(weights, q, k, v, np.repeat(m[None], self.reference.num_heads, axis=0), r)
                for q, k, v, m, r in zip(query, inputs.get("key", value), value, mask, real, strict=True)
            ]
        context, scores = zip(*sentences, strict=True)
        return np.stack(context), np.stack(scores)

    @property
    def coefficients(self):
        """What the loss of the laws multiplies context and scores with, so that every element counts on its own."""
        return (
            numbers("context", BATCH, self.target, self.context_dim(with_key=True)),
            numbers("scores", BATCH, self.reference.num_heads, self.target, self.source),
        )

    def model(self, policy="float32"):
        """A functional model of unknown lengths: an offset on each input, then the layer, with all its masks."""
        inputs = self.inputs(with_key=True)
        tensors = {part: keras.Input((None, x.shape[-1]), name=part) for part, x in inputs.items()}
        masks = {part: keras.Input((None,) * (x.ndim - 1), dtype="bool", name=part) for part, x in self.masks.items()}
        shifted = {
            part: Offset(x.shape, name=f"{part}_offset", dtype=policy)(tensors[part]) for part, x in inputs.items()
        }
        layer = self.layer(policy, with_key=True)
        outputs = layer(**shifted, **masks, **self.causal, return_attention_scores=True)
        return keras.Model({**tensors, **masks}, list(outputs), name=f"model_of_{self}")


CASES = [
    Case(name, place) for place in ("cross", "decoder") for name, entry in ATTENTIONS.items() if place in entry.places
]


def first_of_each(key, cases=CASES):
    """The first case of each value of a function of a case and its class."""
    return list({key(case, ATTENTIONS[case.name].layer): case for case in reversed(cases)}.values())[::-1]


def kind(case, layer):
    """The place, the base class that mechanisms share, whether weights follow from weights before, or from contexts."""
    base = next(one for one in layer.__mro__ if ".layers.base." in one.__module__)
    own = [getattr(layer, name) is not getattr(AttentionLayer, name) for name in ("advance", "attend_once")]
    return case.place, base, *own


# One of each kind, if possible with a state, under a sparse normaliser; `test_normalizers.py` has the others.
TAKING = [case for case in CASES if not ATTENTIONS[case.name].layer.softmax_alone]
OF_KINDS = first_of_each(kind, sorted(TAKING, key=lambda case: case.has_no_state))
CASES += [Case(case.name, case.place, ("entmax15", "sparsemax")[number % 2]) for number, case in enumerate(OF_KINDS)]
CASES += [
    Case(name, place, one.get("normalizer", "softmax"), variant)
    for name, reference in REFERENCES.items()
    for variant, one in reference.variants.items()
    for place in one["places"]
]
ONE_OF_EACH_BASE = first_of_each(lambda case, layer: (case.place, layer.__bases__))


def casts(case):
    """Whether a mechanism has casts of its own; for the others its base class casts."""
    return "ops.cast(" in inspect.getsource(inspect.getmodule(ATTENTIONS[case.name].layer))


WITH_CASTS = first_of_each(
    lambda case, layer: (case.place, layer), [case for case in CASES if case in ONE_OF_EACH_BASE or casts(case)]
)
# What the base classes do for all is looked at once for each of them where programs are compiled.
OF_BASES = CASES if keras.config.backend() == "torch" else ONE_OF_EACH_BASE


def weights_of(layer):
    """Weights of a layer by their name inside it, those of a model by their path, in float64."""
    start = "" if isinstance(layer, keras.Model) else f"{layer.name}/"
    return {w.path.removeprefix(start): keras.ops.convert_to_numpy(w.value).astype("float64") for w in layer.weights}


@functools.cache
def expected_loss_and_gradients(case):
    """The loss by the reference, and its central differences, element by element: by weight and by input."""
    weights = weights_of(case.layer(with_key=True))

    kinds = ("loss", "weight", "of_weight", "of_input")

    def make(folder):
        loss, *gradients = _loss_and_gradients(case, {name: x.copy() for name, x in weights.items()})
        found = zip(kinds, ({"": loss}, weights, *gradients), strict=True)
        np.savez(folder / "found.npz", **{f"{kind}:{name}": x for kind, one in found for name, x in one.items()})

    # The weights are equal under all backends, and so are the gradients, which take the longest of all.
    with np.load(made_once(f"gradients-{case}", make) / "found.npz") as file:
        arrays = dict(file)
    loss, theirs, by_weight, by_input = (
        {key.removeprefix(f"{kind}:"): x for key, x in arrays.items() if key.startswith(f"{kind}:")} for kind in kinds
    )
    assert theirs.keys() == weights.keys() and all(np.array_equal(theirs[name], weights[name]) for name in weights)
    return loss[""], by_weight, by_input


def _loss_and_gradients(case, weights, difference=1e-5):
    of_context, of_scores = case.coefficients
    inputs = {part: x.astype("float64") for part, x in case.inputs(with_key=True).items()}
    masks = case.masks

    def loss(rows=slice(None)):
        of_rows, masks_of_rows = ({part: x[rows] for part, x in xs.items()} for xs in (inputs, masks))
        context, scores = case.expected(weights, of_rows, **masks_of_rows, **case.causal)
        return np.sum(of_context[rows] * context) + np.sum(of_scores[rows] * scores)

    def differentiate(x, by_row=False):
        gradient = np.zeros_like(x)
        for index in np.ndindex(x.shape):
            # No sentence has to do with another one.
            rows = slice(index[0], index[0] + 1) if by_row else slice(None)
            at = x[index]
            x[index] = at + difference
            above = loss(rows)
            x[index] = at - difference
            gradient[index] = (above - loss(rows)) / (2 * difference)
            x[index] = at
        return gradient

    by_weight = {name: differentiate(x) for name, x in weights.items()}
    return loss(), by_weight, {part: differentiate(x, by_row=True) for part, x in inputs.items()}


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


def save_weights(folder):
    """Save the weights of a model of each base class; a test under another backend loads them."""
    for case in ONE_OF_EACH_BASE:
        case.model().save_weights(Path(folder) / f"{case}.weights.h5")
