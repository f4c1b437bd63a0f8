"""Tiny translators for tests: generated words, subwords trained on them, weights that every backend agrees on."""

import collections
import functools
import json
import tempfile
from pathlib import Path

import keras
import numpy as np

from keras_attn_zoo.bodies import RNNBackbone, TransformerBackbone
from keras_attn_zoo.data.subwords import train_subwords
from keras_attn_zoo.decoding import BeamSearch
from keras_attn_zoo.layers import ATTENTIONS
from keras_attn_zoo.translators import TranslationPreprocessor, TranslationTokenizer, Translator
from tests.layers.cases import CASES, Case
from tests.layers.references import REFERENCES
from tests.weights import fill_weights

PIECES = 28
LENGTH = 16
BACKBONE = {"embedding_dim": 6, "hidden_dim": 5}
TRANSFORMER = {
    "width": 8,
    "num_heads": 2,
    "ffn_dim": 11,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "max_length": 16,
}


@functools.cache
def sentences(side, count=60):
    """Sentences of one to five generated words."""
    rng = np.random.default_rng([7, ["source", "target"].index(side)])
    syllables = ["ka", "lo", "mi", "tu", "re"] if side == "source" else ["ba", "do", "fi", "nu", "ze"]
    words = ["".join(rng.choice(syllables, size=size)) for size in (1, 2, 2, 2, 3, 3, 3, 3, 3, 3)]
    return [" ".join(rng.choice(words, size=rng.integers(1, 6))) for _ in range(count)]


@functools.cache
def subword_model(side):
    """A SentencePiece model, in bytes, of one side or of both ("joint")."""
    text = sentences("source") + sentences("target") if side == "joint" else sentences(side)
    with tempfile.TemporaryDirectory() as folder:
        return Path(train_subwords(text, Path(folder) / "model.spm", PIECES)).read_bytes()


def tokenizer(side="target", **kwargs):
    return TranslationTokenizer(subword_model(side), **kwargs)


def preprocessor(joint=False, length=LENGTH):
    if joint:
        source = target = tokenizer("joint")
    else:
        source, target = tokenizer("source", config_file="source_tokenizer.json"), tokenizer("target")
    return TranslationPreprocessor(source, target, encoder_sequence_length=length, decoder_sequence_length=length)


def backbone(seed=0, scale=0.5, **kwargs):
    """A backbone with filled weights."""
    model = RNNBackbone(PIECES, PIECES, **{**BACKBONE, **kwargs})
    fill_weights(model, seed=seed, scale=scale)
    return model


def transformer(seed=0, scale=0.5, **kwargs):
    """A Transformer's body with filled weights."""
    model = TransformerBackbone(PIECES, PIECES, **{**TRANSFORMER, **kwargs})
    fill_weights(model, seed=seed, scale=scale)
    return model


def compiled(model, function):
    """A function of inputs to NumPy outputs. JAX compiles it, which takes less time than to run it once without."""
    if keras.config.backend() != "jax":
        return lambda *inputs: as_numpy(function(*inputs))
    import jax

    @jax.jit
    def stateless(state, *inputs):
        with keras.StatelessScope(state_mapping=zip(model.non_trainable_variables, state, strict=True)) as scope:
            outputs = function(*inputs)
        return outputs, [scope.get_current_value(variable) for variable in model.non_trainable_variables]

    def call(*inputs):
        outputs, state = stateless([variable.value for variable in model.non_trainable_variables], *inputs)
        for variable, value in zip(model.non_trainable_variables, state, strict=True):
            variable.assign(value)
        return as_numpy(outputs)

    return call


def as_numpy(outputs):
    """A tree of tensors as NumPy arrays, bfloat16 as float32."""

    def convert(x):
        if keras.backend.standardize_dtype(x.dtype) == "bfloat16":
            x = keras.ops.cast(x, "float32")
        return keras.ops.convert_to_numpy(x)

    return keras.tree.map_structure(convert, outputs)


def translator(seed=3, joint=False, sampler=None, body=backbone, length=LENGTH, **kwargs):
    """A translator whose translations differ in text and in length; `body` is `backbone` or `transformer`."""
    body = body(seed=seed, scale=1.0, **kwargs)
    if body.latent_head is None and body.tie_embeddings == "none":
        # Make the end a little likelier, and padding and start all but impossible.
        bias = body.output_projection.bias
        bias.assign(np.array([-20, -20, -20, 2] + [0] * (PIECES - 4), "float32"))
    task = Translator(body, preprocessor(joint, length))
    task.compile(sampler=sampler or BeamSearch(3, length_penalty=0.6))
    return task


def batch(seed=0, rows=3, source=7, target=6, size=PIECES):
    """Inputs, labels and weights of random ids, of unequal lengths, the first row the longest."""
    rng = np.random.default_rng([11, seed])
    source_lengths = np.array([source, *rng.integers(2, source, size=rows - 1)])[:, None]
    target_lengths = np.array([target, *rng.integers(1, target, size=rows - 1)])[:, None]
    source_mask, target_mask = np.arange(source) < source_lengths, np.arange(target) < target_lengths
    x = {
        "encoder_token_ids": np.where(source_mask, rng.integers(4, size, size=source_mask.shape), 0),
        "encoder_padding_mask": source_mask,
        "decoder_token_ids": np.where(target_mask, rng.integers(4, size, size=target_mask.shape), 0),
        "decoder_padding_mask": target_mask,
    }
    x = {key: value.astype("int32") if value.dtype != bool else value for key, value in x.items()}
    labels = np.where(target_mask, rng.integers(4, size, size=target_mask.shape), 0).astype("int32")
    return x, labels, target_mask.astype("float32")


def hypotheses(task, texts):
    """Translations as plain data."""
    return [[[found.text, found.score, found.log_prob] for found in best] for best in task.translate(texts, n_best=2)]


def in_order(place):
    """Mechanisms of a place: what has a state first, and the first name of each class before further ones."""
    numbers, keys = collections.Counter(), {}
    for name, entry in ATTENTIONS.items():
        if place in entry.places:
            keys[name] = (place == "cross" and Case(name, place).has_no_state, numbers[entry.layer])
            numbers[entry.layer] += 1
    return sorted(keys, key=keys.get)


def described(name):
    """A mechanism with the arguments under which its reference knows it."""
    return {"attention": name, **REFERENCES[name].arguments} if REFERENCES[name].arguments else name


def in_threes(place):
    """Mechanisms of a place, one per layer; the last three are completed with sparse weights."""
    names = [described(name) for name in in_order(place)]
    sparse = [
        {"attention": case.name, **case.reference.arguments, "normalizer": case.normalizer}
        for case in CASES
        if case.place == place and case.normalizer != "softmax"
    ]
    names += sparse[: -len(names) % 3 or 3]
    return [(3 * names[at : at + 3])[:3] for at in range(0, len(names), 3)]


# Translators with three layers of different mechanisms each; between them they have every mechanism.
CROSS, DECODER, ENCODER = in_threes("cross"), in_threes("decoder"), [*map(described, in_order("encoder"))]
MIXED = {
    f"mixed_{i}": {
        "encoder_attention": ENCODER[i % len(ENCODER)],
        "decoder_attention": DECODER[i % len(DECODER)],
        "cross_attention": CROSS[i % len(CROSS)],
        "normalization": "pre" if i % 4 == 3 else "post",
        "tie_embeddings": "target" if i % 4 == 3 else "none",
    }
    for i in range(max(len(CROSS), len(DECODER), len(ENCODER)))
}
EVERY_MECHANISM = {**MIXED, "latent": {"output": "latent", "attention_layer": "all"}}
# Between them the first few have every class that has a state.
WITH_STATE = {ATTENTIONS[name].layer for name in in_order("cross") if not Case(name, "cross").has_no_state}
EVERY_STATE = list(MIXED)[: -(-len(WITH_STATE) // 3)]


def mixed_transformer(name, seed=5):
    """A translator of one of these."""
    return translator(seed=seed, body=transformer, **{"decoder_layers": 3, **EVERY_MECHANISM[name]})


# Translators whose presets one backend writes for another one's test.
SHARED = {
    "rnn": lambda: translator(seed=5, cell="lstm", decoder_layers=2),
    **{name: functools.partial(mixed_transformer, name) for name in (EVERY_STATE[1], "latent")},
}


def save_with_translations(folder):
    """Save presets together with what they translate; another backend's test reads them."""
    for name, make in SHARED.items():
        task = make()
        task.save_to_preset(Path(folder) / name)
        found = hypotheses(task, sentences("source")[:3])
        (Path(folder) / f"{name}.json").write_text(json.dumps(found), encoding="utf-8")


def plain(translations):
    """Texts and subwords of the n best translations of every sentence, which can be compared."""
    return [[(one.text, one.tokens) for one in best] for best in translations]
