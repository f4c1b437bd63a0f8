"""From sentences to a translator's padded ids and back, in plain Python and NumPy."""

import dataclasses
import numbers
import reprlib
from collections.abc import Sequence
from typing import Any

import keras
import keras_hub
import numpy as np

from keras_attn_zoo.bodies.rnn_backbone import RNNBackbone
from keras_attn_zoo.data.checked_text import check_lengths, check_texts
from keras_attn_zoo.data.encoded_text import EncodedText, encode_sentences, encode_text
from keras_attn_zoo.data.shapes import grid_length
from keras_attn_zoo.data.subwords import Subwords
from keras_attn_zoo.data.truncation import UNCUT, Truncation
from keras_attn_zoo.presets.preset_checks import check_file_name
from keras_attn_zoo.presets.saving import PresetFiles
from keras_attn_zoo.support.choices import MOST_TOKENS
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.types import Config, Shape, Tensor
from keras_attn_zoo.translators.texts import TEXTS, is_in_graph, run_in_graph, strings, texts_in_graph
from keras_attn_zoo.translators.tokenizer import TranslationTokenizer


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class TranslationPreprocessor(PresetFiles, keras_hub.models.Seq2SeqLMPreprocessor):
    """Tokenize and pad sentence pairs, without TensorFlow.

    Use it as the `preprocessor` of a `Translator`, which then takes strings.

    Args:
        source_tokenizer: tokenizer of the source side.
        tokenizer: tokenizer of the target side; may be the same.
        encoder_sequence_length: maximum source tokens, including the end token.
        decoder_sequence_length: maximum target tokens, including start and end token.
        truncation: what longer sentences are cut to before these limits apply: a `Truncation`, or a dict of its
            arguments; None cuts nothing. Targets are cut for training, not where they are scored or forced.

    Call it with a dict of "encoder_text" and "decoder_text", lists, arrays or TensorFlow's tensors of equally many
    strings, also in `tf.data.Dataset.map`. It returns `(x, y, sample_weight)`: x the inputs of `RNNBackbone`, y the
    next tokens, sample_weight 1 on real tokens. A source sentence is its tokens and the end token; a target begins with
    the start token and ends with the end token.

    Raises:
        UserError: a sentence has more tokens than the limit; anything other than lists of equally many strings.

    Example:
        >>> x, y, weight = preprocessor({"encoder_text": ["Guten Tag"], "decoder_text": ["Hello"]})
    """

    backbone_cls: Any = RNNBackbone
    tokenizer_cls: Any = TranslationTokenizer

    def __init__(
        self,
        source_tokenizer: TranslationTokenizer,
        tokenizer: TranslationTokenizer,
        encoder_sequence_length: int = 128,
        decoder_sequence_length: int = 128,
        truncation: Truncation | dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            tokenizer,
            encoder_sequence_length=encoder_sequence_length,
            decoder_sequence_length=decoder_sequence_length,
            **kwargs,
        )
        check_file_name(self.config_file, "a preprocessor")
        self.source_tokenizer = source_tokenizer
        self.truncation = Truncation(**truncation) if isinstance(truncation, dict) else truncation or UNCUT

    def build(self, input_shape: Shape) -> None:
        """Build nothing: packing is done in NumPy."""
        self.built = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Bypass Keras' wrapper, which would turn a one-line error into several lines."""
        return self.call(*args, **kwargs)

    def call(
        self,
        x: dict[str, Any],
        y: None = None,
        sample_weight: None = None,
        *,
        encoder_sequence_length: int | None = None,
        decoder_sequence_length: int | None = None,
        sequence_length: int | None = None,
    ) -> tuple[dict[str, Tensor], Tensor, Tensor]:
        """Return inputs, labels and weights of sentence pairs; in `tf.data.Dataset.map`, tensors for arrays.

        A dict of two strings gives one row of each. The lengths are by default those of the constructor;
        `sequence_length` is another name of `decoder_sequence_length`.
        """
        lengths = (
            _first_length(encoder_sequence_length, self.encoder_sequence_length),
            _first_length(decoder_sequence_length, sequence_length, self.decoder_sequence_length),
        )

        def pack(x):
            text = self.truncation.cut(encode_text(*self.subwords, *_pairs(x)))
            check_lengths(text.sources, lengths[0])
            check_lengths(text.targets or (), lengths[1], "translation")
            return self.pack_pairs(text.sources, text.targets or [], *lengths)

        return _by_rows(pack, x, lambda batch: self.outputs(batch, *lengths))

    def outputs(
        self,
        batch: Shape = (None,),
        encoder_sequence_length: int | None = None,
        decoder_sequence_length: int | None = None,
    ) -> tuple[dict[str, Any], Any, Any]:
        """Return shapes and types of what a call returns, as tensors without values."""
        sides = {
            "encoder": encoder_sequence_length or self.encoder_sequence_length,
            "decoder": decoder_sequence_length or self.decoder_sequence_length,
        }
        fields = {"token_ids": "int32", "padding_mask": "bool"}
        x = {
            f"{side}_{field}": keras.KerasTensor((*batch, length), dtype)
            for side, length in sides.items()
            for field, dtype in fields.items()
        }
        return x, *(keras.KerasTensor((*batch, sides["decoder"]), dtype) for dtype in ("int32", "float32"))

    def generate_preprocess(
        self,
        x: str | Sequence[str] | dict[str, Any],
        sequence_length: int | None = None,
        *,
        encoder_sequence_length: int | None = None,
        decoder_sequence_length: int | None = None,
    ) -> dict[str, Tensor]:
        """Return the inputs of a search, from source sentences or a dict with "decoder_text" as forced beginnings.

        See `call` for single strings, `tf.data.Dataset.map` and the lengths. Sources are padded to what they need,
        unless their length is given or, in a graph, must be known.
        """
        source_room = _first_length(encoder_sequence_length, self.encoder_sequence_length)
        length = _first_length(decoder_sequence_length, sequence_length, self.decoder_sequence_length)
        fixed = encoder_sequence_length is not None or is_in_graph(x)

        def pack(x):
            if not isinstance(x, dict):
                x = check_texts(strings(x), "the text to translate")
                x = {"encoder_text": x, "decoder_text": [""] * len(x)}
            sources, prompts = _pairs(x)
            if not sources:
                raise UserError("there is nothing to translate: give at least one sentence; received an empty list.")
            ids = self.truncation.cut_sources(encode_text(*self.subwords, sources)).sources
            check_lengths(ids, source_room)
            beginnings = encode_sentences(self.tokenizer.subwords, prompts) if any(prompts) else []
            check_lengths(beginnings, length, "beginning")
            width = source_room if fixed else grid_length(max(map(len, ids)), source_room)
            return self.pack_search(ids, width, length, [one[:-1] for one in beginnings])

        return _by_rows(pack, x, lambda batch: self.outputs(batch, source_room, length)[0])

    # Text is encoded once; batching the ids is up to the caller.

    @property
    def subwords(self) -> tuple[Subwords, Subwords]:
        """The subword models of source and target."""
        return self.source_tokenizer.subwords, self.tokenizer.subwords

    @property
    def models(self) -> tuple[str, str]:
        """Checksums of the subword models of source and target."""
        source, target = self.subwords
        return source.checksum, target.checksum

    def encode(
        self, sources: Sequence[str] | EncodedText, targets: Sequence[str] | None = None, name: str = "sources"
    ) -> EncodedText:
        """Encode sentences, and their translations if given; see `Translator.encode`.

        Args:
            sources: a list of strings, or text that is already encoded.
            targets: their translations, if any.
            name: what the sources are called in error messages.

        Raises:
            UserError: anything other than strings; lists of unequal length; a sentence longer than the limit; text
                that was encoded with other subword models, or with its translations.
        """
        if not isinstance(sources, EncodedText):
            ids = encode_sentences(self.source_tokenizer.subwords, check_texts(sources, name))
            text = self.truncation.cut_sources(EncodedText(ids, None, self.models))
        else:
            text = sources
        if targets is not None:
            targets = check_texts(targets, "targets")
            if len(text) != len(targets):
                raise UserError(
                    f"received {len(text)} sources but {len(targets)} targets: give the same number of each."
                )
            if text.targets is not None:
                raise UserError("the text is encoded with its translations already: leave targets out.")
            text = dataclasses.replace(text, targets=encode_sentences(self.tokenizer.subwords, targets))
        if text.models != self.models:
            raise UserError("the text was encoded with other subword models: encode it with this translator.")
        check_lengths(text.sources, self.encoder_sequence_length)
        check_lengths(text.targets or (), self.decoder_sequence_length, "translation")
        return text

    def pack_pairs(
        self, sources: list[list[int]], targets: list[list[int]], source_length: int, target_length: int
    ) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
        """Return inputs, labels and weights of encoded sentence pairs, padded to the given lengths."""
        inputs = _pack_sources(sources, source_length)
        start = self.tokenizer.start_token_id
        inputs["decoder_token_ids"] = _pack([[start, *ids[:-1]] for ids in targets], target_length)
        inputs["decoder_padding_mask"] = _padding_mask(targets, target_length)
        return inputs, _pack(targets, target_length), inputs["decoder_padding_mask"].astype("float32")

    def pack_search(
        self,
        sources: list[list[int]],
        source_length: int,
        target_length: int | None = None,
        prompts: list[list[int]] | None = None,
    ) -> dict[str, np.ndarray]:
        """Return the inputs of a search for encoded sentences.

        Args:
            sources: ids of the sentences.
            source_length: length to pad them to.
            target_length: maximum tokens of a translation, including start and end; by default the preprocessor's.
            prompts: ids of forced beginnings.
        """
        target_length = target_length or self.decoder_sequence_length
        prompts = [[self.tokenizer.start_token_id, *ids] for ids in prompts or [[]] * len(sources)]
        return {
            **_pack_sources(sources, source_length),
            "decoder_token_ids": _pack(prompts, target_length),
            "decoder_padding_mask": _padding_mask(prompts, target_length),
        }

    def generate_postprocess(self, x: dict[str, Tensor]) -> str | list[str]:
        """Return strings from the ids of a search, of one row one string; in `tf.data.Dataset.map`, a tensor."""
        if is_in_graph(x):
            needed = {name: x[name] for name in ("decoder_token_ids", "decoder_padding_mask")}
            return texts_in_graph(self.generate_postprocess, needed, tuple(x["decoder_token_ids"].shape[:-1]))
        ids = np.asarray(keras.ops.convert_to_numpy(x["decoder_token_ids"]))
        mask = np.asarray(keras.ops.convert_to_numpy(x["decoder_padding_mask"]))
        if ids.ndim == 1:
            return self.detokenize(ids[mask])
        return [self.detokenize(row[keep]) for row, keep in zip(ids, mask, strict=True)]

    def detokenize(self, ids: Sequence[int]) -> str:
        """Return the text of target ids, without special tokens."""
        return self.tokenizer.detokenize(ids)

    def get_config(self) -> Config:
        """Return the arguments of the constructor."""
        # Presets that cut nothing can be read by versions that could not cut.
        truncation = {} if self.truncation == UNCUT else {"truncation": dataclasses.asdict(self.truncation)}
        return {
            **super().get_config(),
            **truncation,
            "source_tokenizer": keras.layers.serialize(self.source_tokenizer),
            "encoder_sequence_length": self.encoder_sequence_length,
            "decoder_sequence_length": self.decoder_sequence_length,
        }

    @classmethod
    def from_config(cls, config: Config) -> "TranslationPreprocessor":
        """Create a preprocessor from the result of `get_config`."""
        config = dict(config)
        for key in ("source_tokenizer", "tokenizer"):
            if isinstance(config[key], dict):
                config[key] = keras.layers.deserialize(config[key])
        return cls(**config)


def shared_preprocessor(preprocessors: Sequence[TranslationPreprocessor | None]) -> TranslationPreprocessor:
    """Return the preprocessor of an ensemble, from those of its members: it takes what all of them take.

    Raises:
        UserError: a member without a preprocessor; other subwords, or another cut of long text, than the first has.
    """
    known = [one for one in preprocessors if one is not None]
    if len(known) < len(preprocessors):
        raise UserError("a member of the ensemble has no preprocessor, whose subwords are compared: give it one.")
    first, *others = known
    for number, one in enumerate(others, start=2):
        for side, own, theirs in zip(("source", "target"), first.models, one.models, strict=True):
            if own != theirs:
                raise UserError(
                    f"member {number} of the ensemble has other {side} subwords than the first: train both on the same "
                    "text, with the same vocabulary_size, model_type, joint and truecase."
                )
        if one.truncation != first.truncation:
            raise UserError(
                f"member {number} of the ensemble cuts long text otherwise than the first: combine such as cut alike."
            )
    return TranslationPreprocessor(
        first.source_tokenizer,
        first.tokenizer,
        encoder_sequence_length=min(one.encoder_sequence_length for one in known),
        decoder_sequence_length=min(one.decoder_sequence_length for one in known),
        truncation=first.truncation,
    )


def _first_length(*lengths):
    """The first length that is given; the last one is the preprocessor's own, and needs no check."""
    *given, own = lengths
    for one in given:
        if one is not None:
            check_maximum(one)
            return int(one)
    return own


def _by_rows(pack, x, outputs):
    """Rows of arrays that a function packs text into: one row of single strings; in a graph, tensors of them."""
    texts = [x.get(name) for name in TEXTS] if isinstance(x, dict) else [x]
    alone = all(map(_is_one, texts))
    if is_in_graph(x):
        return run_in_graph(lambda arrays: _by_rows(pack, arrays, outputs), x, outputs(() if alone else (None,)))
    if not alone:
        return pack(x)
    batch = pack({name: [strings(x[name])] for name in TEXTS} if isinstance(x, dict) else [strings(x)])
    return keras.tree.map_structure(lambda rows: rows[0], batch)


def _is_one(text):
    """Whether it is one text rather than several."""
    return isinstance(text, str) or getattr(text, "shape", None) == ()


def _pairs(x):
    """Sources and targets of a dict."""
    if not isinstance(x, dict) or not set(TEXTS) <= set(x):
        raise UserError(f"give sentences as a dict of {' and '.join(TEXTS)}; received {reprlib.repr(x)}.")
    sources, targets = (check_texts(strings(x[name]), name) for name in TEXTS)
    if len(sources) != len(targets):
        raise UserError(
            f"encoder_text has {len(sources)} sentences but decoder_text {len(targets)}: give the same number of each."
        )
    return sources, targets


def check_exported(preprocessor: TranslationPreprocessor | None) -> None:
    """Raise if a translator that is to be exported has no preprocessor."""
    if preprocessor is None:
        raise UserError("the translator has no preprocessor, whose subwords are exported too: give it one.")


def check_token_count(tokens: int) -> None:
    """Raise unless sentences can be that long, start and end included."""
    if not isinstance(tokens, numbers.Integral) or isinstance(tokens, bool) or tokens < 2:
        raise UserError(f"the maximum length must be an integer of at least 2, for start and end; received {tokens!r}.")


def check_maximum(tokens: int) -> None:
    """Raise unless a caller may ask for that length: a search takes memory for all of it."""
    check_token_count(tokens)
    if tokens > MOST_TOKENS:
        raise UserError(
            f"the maximum length must be at most {MOST_TOKENS:,} tokens; received {tokens:,}: ask for fewer."
        )


def _pack_sources(sources, length):
    return {"encoder_token_ids": _pack(sources, length), "encoder_padding_mask": _padding_mask(sources, length)}


def _pack(rows, length):
    packed = np.zeros((len(rows), length), dtype="int32")
    for i, row in enumerate(rows):
        packed[i, : len(row)] = row
    return packed


def _padding_mask(rows, length):
    return np.arange(length)[None] < np.array([len(row) for row in rows])[:, None]
