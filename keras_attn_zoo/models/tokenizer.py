"""Subword tokenizer of one side of a translator."""

from collections.abc import Sequence
from typing import Any

import keras
import keras_hub
import sentencepiece

from keras_attn_zoo.data.subwords import Subwords
from keras_attn_zoo.models.presets import PresetFiles
from keras_attn_zoo.models.rnn_backbone import RNNBackbone


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class TranslationTokenizer(PresetFiles, keras_hub.tokenizers.SentencePieceTokenizer):
    """A SentencePiece tokenizer with the four special tokens that a translator needs.

    Use one per side of a `TranslationPreprocessor`, or one for both.

    Args:
        proto: path or bytes of a SentencePiece model with the pieces `<pad>`,
            `<unk>`, `<s>` and `</s>`, as `keras_attn_zoo.data.subwords` trains them.
        **kwargs: see `keras_hub.tokenizers.SentencePieceTokenizer`; `config_file`
            tells the two sides of a preset apart.

    Example:
        >>> TranslationTokenizer("source.spm").tokenize(["Guten Tag"])
    """

    backbone_cls: Any = RNNBackbone
    # The piece that begins every translation.
    start_piece = "<s>"

    def __init__(self, proto: str | bytes | None = None, **kwargs: Any) -> None:
        self._add_special_token(self.start_piece, "start_token")
        self._add_special_token("</s>", "end_token")
        self._add_special_token("<pad>", "pad_token")
        super().__init__(proto=proto, **kwargs)

    def set_proto(self, proto: str | bytes | None) -> None:
        """Set the SentencePiece model, a path or bytes."""
        # Otherwise loading reports on the terminal that the text is normalised elsewhere.
        sentencepiece.set_min_log_level(2)
        super().set_proto(proto)
        # None as long as there is no model.
        self.subwords: Any = None if proto is None else self._read_model()

    def _read_model(self) -> Subwords:
        """Return what encodes and decodes text by `self.proto`."""
        return Subwords(self.proto)

    def tokenize(self, inputs: Sequence[str]) -> list[list[int]]:
        """Turn a list of sentences into lists of ids, in the same way as training text."""
        return self.subwords.encode(inputs)

    def detokenize(self, inputs: Sequence[int]) -> str:
        """Turn the ids of one sentence into text; special tokens are left out."""
        return self.subwords.decode(inputs)
