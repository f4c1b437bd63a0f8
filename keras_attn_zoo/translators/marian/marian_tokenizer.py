"""Tokenizer of one side of a Marian model: SentencePiece cuts the text, a list of pieces gives the ids."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras

from keras_attn_zoo.data.marian_pieces import PAD, UNKNOWN, AddedToken, MarianPieces
from keras_attn_zoo.support.files import PathLike, read_json, write_json
from keras_attn_zoo.support.types import Config
from keras_attn_zoo.translators.transformer_translator import TransformerTokenizer

_VOCABULARY = "vocabulary.json"


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class MarianTokenizer(TransformerTokenizer):
    """A tokenizer whose ids come from a vocabulary beside the SentencePiece model, as those of OPUS-MT do.

    `Translator.from_preset` creates it for the presets of Marian models. Both sides of such a model have a
    SentencePiece model of their own and, as a rule, one vocabulary in common. A translation begins with `<pad>`.

    Args:
        proto: path or bytes of a SentencePiece model.
        vocabulary: the piece of every id; a preset keeps it in `vocabulary.json`.
        added_tokens: `AddedToken`s, or dicts of their arguments: pieces that are found in text before it is cut.
        clean_up_spaces: whether decoded text has no spaces before punctuation, and none in English contractions.
        **kwargs: see `TranslationTokenizer`.

    Differences from Transformers' `MarianTokenizer`: special pieces written out in a
    text, such as `</s>`, are text; a decoded sentence is one line.

    Raises:
        UserError: a damaged model; a vocabulary without `<unk>`, `</s>` or `<pad>`, or without an added token.

    Example:
        >>> MarianTokenizer("source.spm", vocabulary=pieces).tokenize(["Guten Tag"])  # doctest: +SKIP
    """

    start_piece = PAD

    def __init__(
        self,
        proto: str | bytes | None = None,
        vocabulary: Sequence[str] | None = None,
        added_tokens: Sequence[AddedToken | dict[str, Any]] = (),
        clean_up_spaces: bool = False,
        **kwargs: Any,
    ) -> None:
        self.added_tokens = [AddedToken(**one) if isinstance(one, dict) else one for one in added_tokens]
        self.clean_up_spaces = clean_up_spaces
        self._set_vocabulary(vocabulary or ())
        super().__init__(proto, **kwargs)
        self.file_assets: list[str] = [*self.file_assets, _VOCABULARY]

    def _set_vocabulary(self, pieces):
        self._pieces = list(pieces)
        self._ids = {piece: number for number, piece in enumerate(self._pieces)}

    def _read_model(self) -> Any:
        return MarianPieces(self.proto, self._pieces, self.added_tokens, self.clean_up_spaces)

    def vocabulary_size(self) -> int:
        """Return the number of ids."""
        self._check_vocabulary()
        return len(self._pieces)

    def get_vocabulary(self) -> list[str]:
        """Return the piece of every id."""
        return list(self._pieces)

    def id_to_token(self, id: int) -> str:
        """Return the piece of an id."""
        return self._pieces[id]

    def token_to_id(self, token: str) -> int:
        """Return the id of a piece, or that of `<unk>`."""
        return self._ids.get(token, self._ids.get(UNKNOWN))

    def save_assets(self, dir_path: PathLike) -> None:
        """Write model and vocabulary into a folder."""
        super().save_assets(dir_path)
        write_json(Path(dir_path) / _VOCABULARY, self._pieces)

    def load_assets(self, dir_path: PathLike) -> None:
        """Read model and vocabulary from a folder."""
        self._set_vocabulary(read_json(Path(dir_path) / _VOCABULARY))
        super().load_assets(dir_path)

    def get_config(self) -> Config:
        """Return the arguments of the constructor."""
        # Without them, earlier versions can read the preset.
        own = {
            "added_tokens": [dataclasses.asdict(one) for one in self.added_tokens],
            "clean_up_spaces": self.clean_up_spaces,
        }
        return {**super().get_config(), **{name: value for name, value in own.items() if value}}
