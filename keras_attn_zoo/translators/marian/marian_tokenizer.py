"""Tokenizer of one side of a Marian model: SentencePiece cuts the text, a list of pieces gives the ids."""

import dataclasses
import functools
import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import keras
import sentencepiece

from keras_attn_zoo.data.subwords import Subwords
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import PathLike, read_json, write_json
from keras_attn_zoo.support.types import Config
from keras_attn_zoo.translators.marian.added_tokens import END, PAD, UNKNOWN, AddedToken, AddedTokens
from keras_attn_zoo.translators.transformer_translator import TransformerTokenizer

_VOCABULARY = "vocabulary.json"
# What Transformers does to decoded text if a tokenizer asks for it.
_CLEANED = {
    " .": ".",
    " ?": "?",
    " !": "!",
    " ,": ",",
    " ' ": "'",
    " n't": "n't",
    " 'm": "'m",
    " 's": "'s",
    " 've": "'ve",
    " 're": "'re",
}


class MarianPieces(Subwords):
    """A SentencePiece model whose pieces have the ids of a vocabulary that both sides of a translator may share.

    Args:
        model: the bytes of a SentencePiece model.
        vocabulary: the piece of every id; `<unk>`, `</s>` and `<pad>` are among them.
        added_tokens: pieces of the vocabulary that are found in text before it is cut.
        clean_up_spaces: whether decoded text has no spaces before punctuation, and none in English contractions.

    Raises:
        UserError: a damaged model; a vocabulary without the special pieces, or without an added token.

    Example:
        >>> MarianPieces(model, ["</s>", "<unk>", "▁a", "<pad>"]).encode(["a b"])  # doctest: +SKIP
        [[2, 1]]
    """

    def __init__(
        self,
        model: bytes,
        vocabulary: Sequence[str],
        added_tokens: Sequence[AddedToken] = (),
        clean_up_spaces: bool = False,
    ) -> None:
        self._ids = {piece: number for number, piece in enumerate(vocabulary)}
        needed = (UNKNOWN, END, PAD, *(token.content for token in added_tokens))
        if missing := [piece for piece in needed if piece not in self._ids]:
            raise UserError(f"the vocabulary has no {' and no '.join(missing)}: restore it, or download it again.")
        try:
            # SentencePiece takes no bytes for no model.
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model or b"damaged")
        except RuntimeError:
            raise UserError("not a SentencePiece model, or a damaged one: restore it, or download it again.") from None
        # SentencePiece returns characters that it does not know as they stand: those of `</s>` are no end.
        self._ids_of_text = {piece: number for piece, number in self._ids.items() if piece not in (END, PAD)}
        self.model_bytes = model
        self.vocabulary = list(vocabulary)
        self.vocabulary_size = len(vocabulary)
        self._added = AddedTokens(added_tokens)
        self._clean_up_spaces = clean_up_spaces
        skipped = (token.content for token in added_tokens if token.skipped)
        self._special = {self._ids[piece] for piece in (UNKNOWN, END, PAD, *skipped)}
        self.end = self._ids[END]
        self.whole_words = False

    @functools.cached_property
    def checksum(self) -> str:
        """SHA-256 of model, vocabulary and added tokens, in hexadecimal digits."""
        added = "".join(f"\n{token}" for token in self._added.tokens.values())
        return hashlib.sha256(self.model_bytes + ("\n".join(self.vocabulary) + added).encode()).hexdigest()

    def encode(self, sentences: Iterable[str]) -> list[list[int]]:
        """Turn sentences into lists of ids, without the end.

        A sentence may begin with the code of its target language, as in `>>fra<< Guten Tag`.
        """
        return [[self._ids_of_text.get(piece, self._ids[UNKNOWN]) for piece in self._cut(text)] for text in sentences]

    def _cut(self, text):
        return [piece for part in self._added.split(text) for piece in self._cut_part(part)]

    def _cut_part(self, text):
        """Cut text that is one added token, or has none."""
        if text in self._added.tokens:
            return [text]
        code = []
        if text.startswith(">>") and "<<" in text:
            end = text.index("<<") + 2
            code, text = [text[:end]], text[end:]
        return code + self._processor.encode(text, out_type=str)

    def decode(self, ids: Iterable[int]) -> str:
        """Turn the ids of one sentence into a line of text; special pieces are left out."""
        text = self._processor.decode_pieces([self.vocabulary[int(i)] for i in ids if int(i) not in self._special])
        text = text.replace("\u2581", " ")
        for spaced, cleaned in _CLEANED.items() if self._clean_up_spaces else ():
            text = text.replace(spaced, cleaned)
        return " ".join(text.split())

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Turn ids into pieces."""
        return [self.vocabulary[int(i)] for i in ids]


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class MarianTokenizer(TransformerTokenizer):
    """A tokenizer whose ids come from a vocabulary beside the SentencePiece model, as those of OPUS-MT do.

    `Translator.from_preset` creates it for the presets of Marian models. Both sides
    of such a model have a SentencePiece model of their own and, as a rule, one
    vocabulary in common. A translation begins with `<pad>`.

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
