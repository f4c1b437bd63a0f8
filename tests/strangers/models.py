"""Models as strangers build them: every mechanism among neighbours that know Keras' masks and nothing of this package.

A mechanism joins by standing in the registry; a layer that does not stand there by an entry in `UNREGISTERED`.
"""

import contextlib
import dataclasses

import keras
import numpy as np
from keras import layers, ops

from keras_attn_zoo.layers import (
    InitialAttention,
    LatentAlignmentHead,
    RecurrentAttention,
    RecurrentTransition,
    get_attention,
)
from keras_attn_zoo.layers.registry import argument_names
from tests.layers.calls import BACKEND
from tests.layers.cases import ONE_OF_EACH_BASE
from tests.layers.references import ATTENTIONS

# The source is longer than one side of the window of energy accumulation: else its keys have no bias to learn.
VOCABULARY, WIDTH, HEADS, LONGEST = 13, 8, 2, 10
BATCH, SOURCE, TARGET = 3, 8, 5
PRECISIONS = ("float32", "mixed_bfloat16", "layers_in_bfloat16")


@dataclasses.dataclass(frozen=True)
class Stranger:
    """One registered mechanism in one place."""

    name: str
    place: str

    def __str__(self):
        return f"{self.name}_{self.place}"

    @property
    def cross(self):
        return self.place == "cross"

    @property
    def causal(self):
        return {"use_causal_mask": True} if self.place == "decoder" else {}

    def layer(self, **kwargs):
        # What decides, and what is drawn in training, would tell nothing apart.
        plain = {"hard": False, "noise": 0.0} if "noise" in argument_names(self.name) else {}
        return get_attention(self.name, WIDTH, HEADS, LONGEST, self.place, **{"name": str(self), **plain, **kwargs})


STRANGERS = [Stranger(name, place) for name, entry in ATTENTIONS.items() for place in entry.places]
OF_BASES = [Stranger(case.name, case.place) for case in ONE_OF_EACH_BASE]
UNREGISTERED = ("shared_matrices", "latent_exact", "latent_top_k")


@contextlib.contextmanager
def precision(name):
    """The policy under which neighbours are made; yields what the layers under test get besides."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("float32" if name == "layers_in_bfloat16" else name)
    try:
        yield {"dtype": "mixed_bfloat16"} if name == "layers_in_bfloat16" else {}
    finally:
        keras.config.set_dtype_policy(before)


@keras.saving.register_keras_serializable(package="stranger")
class PadWith(layers.Layer):
    """Puts a number onto padding, which nobody may notice; gradients reach what stands below."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, x, filler, x_mask=None):
        return x + ops.where(x_mask[..., None], 0.0, ops.cast(filler, x.dtype)[:, None])

    def compute_output_spec(self, x, filler, x_mask=None):
        return keras.KerasTensor(x.shape, self.compute_dtype)


class Parts:
    """Layers and neighbours of one model, and how they are called: on tensors, or symbolically."""

    def __init__(self, strangers=STRANGERS, **kwargs):
        self.strangers = strangers
        self.source_embedding = layers.Embedding(VOCABULARY, WIDTH, mask_zero=True, name="source_embedding")
        self.target_embedding = layers.Embedding(VOCABULARY, WIDTH, mask_zero=True, name="target_embedding")
        self.encoder = layers.Bidirectional(layers.LSTM(WIDTH // 2, return_sequences=True), name="encoder")
        self.decoder = layers.LayerNormalization(name="decoder")
        self.source_padding, self.target_padding = PadWith(name="source_padding"), PadWith(name="target_padding")
        self.attentions = {str(stranger): stranger.layer(**kwargs) for stranger in strangers}
        self.consumers = [_consumer(index, str(stranger)) for index, stranger in enumerate(strangers)]
        self.initial_attention = InitialAttention(HEADS, LONGEST, name="initial_attention")
        self.transition = RecurrentTransition(name="transition")
        self.shared_matrices = RecurrentAttention(HEADS, WIDTH // HEADS, name="shared_matrices", **kwargs)
        self.heads = {
            name: LatentAlignmentHead(VOCABULARY, WIDTH, marginalization=name[7:], top_k=2, name=name, **kwargs)
            for name in UNREGISTERED
            if name.startswith("latent_")
        }
        self.prediction = layers.Dense(1, name="prediction", dtype="float32")

    def __call__(self, source, target, filler):
        """A prediction of `(batch, 1)`, and contexts and scores by name: `bahdanau_cross.scores`."""
        value = self.source_padding(self.encoder(self.source_embedding(source)), filler)
        query = self.target_padding(self.decoder(self.target_embedding(target)), filler)
        shown, pooled = {}, []
        for index, (stranger, consumer) in enumerate(zip(self.strangers, self.consumers, strict=True)):
            x = value if stranger.place == "encoder" else query
            inputs = (query, value) if stranger.cross else (x,) if index % 2 else (x, x)
            layer = self.attentions[str(stranger)]
            context, scores = layer(*inputs, return_attention_scores=True, **stranger.causal)
            shown |= {f"{stranger}.context": context, f"{stranger}.scores": scores}
            for neighbour in consumer:
                context = neighbour(context)
            pooled.append(context)
        energies = self.transition(self.initial_attention(value))
        context, scores = self.shared_matrices(value, energies=energies, return_attention_scores=True)
        shown |= {"shared_matrices.context": context, "shared_matrices.scores": scores}
        pooled.append(ops.sum(context, axis=1))
        prior = ops.mean(shown["multi_head_cross.scores"], axis=1)
        for name, head in self.heads.items():
            outputs = head(prior, query, query, value, target)
            shown |= {f"{name}.{part}": x for part, x in outputs.items()}
            pooled.append(ops.sum(outputs["log_probs"], axis=1, keepdims=True))
        prediction = self.prediction(ops.concatenate([ops.cast(x, "float32") for x in pooled], axis=-1))
        return prediction, {"prediction": prediction, **shown}


def _consumer(index, name):
    """Neighbours behind a layer that leave padding out, as far as its mask still comes with the context."""
    pool = layers.GlobalAveragePooling1D(name=f"{name}_pool")
    dense = layers.Dense(WIDTH, name=f"{name}_dense")
    if BACKEND != "tensorflow":
        # Keras 3.15 takes the batch for the length there, where the length is unknown.
        dense = layers.TimeDistributed(dense, name=f"{name}_distributed")
    return (
        (pool,),
        (layers.LSTM(WIDTH, name=f"{name}_lstm"),),
        (dense, pool),
        (layers.LayerNormalization(name=f"{name}_normalization"), pool),
    )[index % 4]


def functional(**kwargs):
    """A functional model of unknown lengths, and one on the same layers that shows what each mechanism gives."""
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in ("source", "target")}
    inputs["filler"] = keras.Input((1,), name="filler")
    prediction, shown = Parts(**kwargs)(**inputs)
    return keras.Model(inputs, prediction, name="functional"), keras.Model(inputs, shown, name="shown")


@keras.saving.register_keras_serializable(package="stranger")
class Subclassed(keras.Model):
    """The same with the layers as attributes, one for each base class: Keras does the same with all attributes."""

    def __init__(self, layer_options=None, show=False, **kwargs):
        super().__init__(**kwargs)
        self.layer_options, self.show = layer_options or {}, show
        # Loaded where another policy reigns, the neighbours are of the precision that was saved.
        with precision(self.dtype_policy.name):
            parts = Parts(OF_BASES, **self.layer_options)
        # Keras follows attributes of a model, not those of a plain object.
        self.parts_of_model = vars(parts)
        self._parts = parts.__call__

    def call(self, inputs):
        prediction, shown = self._parts(**inputs)
        return shown if self.show else prediction

    def get_config(self):
        return {**super().get_config(), "layer_options": self.layer_options, "show": self.show}


def sequential(**kwargs):
    """All self-attentions in one row, each behind a normalisation."""
    model = keras.Sequential(name="sequential")
    model.add(keras.Input((None,), dtype="int32", name="source"))
    model.add(layers.Embedding(VOCABULARY, WIDTH, mask_zero=True, name="source_embedding"))
    for stranger in STRANGERS:
        if not stranger.cross:
            model.add(stranger.layer(**kwargs))
            model.add(layers.LayerNormalization(name=f"{stranger}_normalization"))
    model.add(layers.LSTM(WIDTH, name="lstm"))
    model.add(layers.Dense(1, name="prediction", dtype="float32"))
    return model, model


def subclassed(**kwargs):
    """A model with the layers as attributes, which shows what each gives once it is told to."""
    model = Subclassed(kwargs, name="subclassed")
    model({name: keras.Input(batch_shape=x.shape, dtype=x.dtype) for name, x in inputs_with().items()})
    return model, model


FAMILIES = {"functional": functional, "sequential": sequential, "subclassed": subclassed}


def sentences():
    """Token ids with padding on either side."""
    rng = np.random.default_rng(7)
    source, target = rng.integers(1, VOCABULARY, (BATCH, SOURCE)), rng.integers(1, VOCABULARY, (BATCH, TARGET))
    source[1, 6:] = source[2, 1:] = target[0, 3:] = target[1, 4:] = 0
    return {"source": source.astype("int32"), "target": target.astype("int32")}


def real_positions(stranger):
    """Which query and which source positions of a mechanism hold tokens."""
    real = {name: ids > 0 for name, ids in sentences().items()}
    rows = real["source" if stranger.place == "encoder" else "target"]
    return rows, real["source"] if stranger.cross else rows


def inputs_with(filler=0.0, more=0, family="functional"):
    """Inputs of a model, with a number on padding, and more of it."""
    ids = {name: np.pad(x, ((0, 0), (0, more))) for name, x in sentences().items()}
    return ids["source"] if family == "sequential" else {**ids, "filler": np.full((BATCH, 1), filler, "float32")}
