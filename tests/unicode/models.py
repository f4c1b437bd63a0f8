"""Tiny translators with every kind of tokenizer, whose subwords know some of the characters."""

import functools
import io
import tempfile
from pathlib import Path

import numpy as np
import sentencepiece

from keras_attn_zoo.bodies import TransformerBackbone
from keras_attn_zoo.data.subwords import train_subwords
from keras_attn_zoo.data.truecasing import Truecaser, train_truecaser
from keras_attn_zoo.decoding import BeamSearch
from keras_attn_zoo.translators import TransformerPreprocessor, TransformerTokenizer, Translator
from keras_attn_zoo.translators.marian.marian_tokenizer import MarianTokenizer
from tests import tiny
from tests.unicode.sentences import pair
from tests.weights import fill_weights

# Tokens of a sentence: its characters may be four bytes each.
LENGTH = 1200
# Numbers of the cases that subwords are trained on.
TRAINING = range(-150, 0)
KINDS = ("bpe", "bpe bytes", "unigram", "unigram bytes", "word", "char", "char bytes", "truecased", "NFKC", "marian")


def kind_of(number):
    """The kind of tokenizer that a case is tried with."""
    return KINDS[number % len(KINDS)]


@functools.cache
def text():
    return [*tiny.sentences("source"), *(" ".join(side) for number in TRAINING for side in pair(number))]


def _trained(kind):
    """The bytes of a model that `train_subwords` makes."""
    model_type, *bytes_too = kind.split()
    with tempfile.TemporaryDirectory() as folder:
        options = {"byte_fallback": bool(bytes_too), "character_coverage": 0.98}
        size = None if model_type in ("word", "char") else 1000 + 256 * len(bytes_too)
        return train_subwords(text(), Path(folder) / "model", size, model_type, **options).read_bytes()


def _normalising():
    """The bytes of a model that normalises text itself, as those of OPUS-MT do."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text()),
        model_writer=model,
        vocab_size=1000,
        model_type="unigram",
        character_coverage=0.98,
        normalization_rule_name="nmt_nfkc",
        minloglevel=2,
        num_threads=1,
        pad_id=0,
        unk_id=1,
        bos_id=2,
        eos_id=3,
    )
    return model.getvalue()


def _truecaser():
    with tempfile.TemporaryDirectory() as folder:
        return Truecaser(train_truecaser(text(), Path(folder) / "truecaser").read_bytes())


def _tokenizer(kind, **options):
    if kind == "marian":
        model = _normalising()
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        # It has pieces that the vocabulary has not.
        known = [processor.id_to_piece(i) for i in range(4, processor.vocab_size()) if i % 20]
        return MarianTokenizer(model, vocabulary=["</s>", "<unk>", *known, "<pad>"], **options)
    truecaser = _truecaser() if kind == "truecased" else None
    model = _normalising() if kind == "NFKC" else _trained("bpe" if kind == "truecased" else kind)
    return TransformerTokenizer(model, truecaser, **options)


@functools.cache
def translator(kind):
    """An untrained translator; its translations are short."""
    source, target = _tokenizer(kind, config_file="source_tokenizer.json"), _tokenizer(kind)
    size = target.vocabulary_size()
    sizes = {**tiny.TRANSFORMER, "encoder_layers": 1, "decoder_layers": 1, "max_length": LENGTH}
    body = TransformerBackbone(size, size, **sizes)
    fill_weights(body, scale=1.0)
    bias = np.zeros(size, "float32")
    bias[target.end_token_id] = 6
    body.output_projection.bias.assign(bias)
    task = Translator(body, TransformerPreprocessor(source, target, LENGTH, LENGTH))
    task.compile(sampler=BeamSearch(2))
    return task
