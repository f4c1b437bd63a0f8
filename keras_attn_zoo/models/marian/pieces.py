"""The vocabulary of a Marian model: SentencePiece cuts the text, a list of pieces gives the ids."""

import functools
import hashlib
from collections.abc import Iterable, Sequence

import sentencepiece

from keras_attn_zoo.data.subwords import Subwords
from keras_attn_zoo.errors import UserError

UNKNOWN, END, PAD = "<unk>", "</s>", "<pad>"


class MarianPieces(Subwords):
    """A SentencePiece model whose pieces have the ids of a vocabulary that both sides of a translator may share.

    Args:
        model: the bytes of a SentencePiece model.
        vocabulary: the piece of every id; `<unk>`, `</s>` and `<pad>` are among them.

    Raises:
        UserError: a damaged model; a vocabulary without the special pieces.

    Example:
        >>> MarianPieces(model, ["</s>", "<unk>", "▁a", "<pad>"]).encode(["a b"])  # doctest: +SKIP
        [[2, 1]]
    """

    def __init__(self, model: bytes, vocabulary: Sequence[str]) -> None:
        if missing := [piece for piece in (UNKNOWN, END, PAD) if piece not in vocabulary]:
            raise UserError(f"the vocabulary has no {' and no '.join(missing)}: restore it, or download it again.")
        try:
            # SentencePiece takes no bytes for no model.
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model or b"damaged")
        except RuntimeError:
            raise UserError("not a SentencePiece model, or a damaged one: restore it, or download it again.") from None
        self.model_bytes = model
        self.vocabulary = list(vocabulary)
        self.vocabulary_size = len(vocabulary)
        self._ids = {piece: number for number, piece in enumerate(vocabulary)}
        self._special = {self._ids[piece] for piece in (UNKNOWN, END, PAD)}
        self.end = self._ids[END]
        self.whole_words = False

    @functools.cached_property
    def checksum(self) -> str:
        """SHA-256 of model and vocabulary, in hexadecimal digits."""
        return hashlib.sha256(self.model_bytes + "\n".join(self.vocabulary).encode()).hexdigest()

    def encode(self, sentences: Iterable[str]) -> list[list[int]]:
        """Turn sentences into lists of ids, without the end.

        A sentence may begin with the code of its target language, as in `>>fra<< Guten Tag`.
        """
        return [[self._ids.get(piece, self._ids[UNKNOWN]) for piece in self._cut(text)] for text in sentences]

    def _cut(self, text):
        code = []
        if text.startswith(">>") and "<<" in text:
            end = text.index("<<") + 2
            code, text = [text[:end]], text[end:]
        return code + self._processor.encode(text, out_type=str)

    def decode(self, ids: Iterable[int]) -> str:
        """Turn the ids of one sentence into a line of text; special pieces are left out."""
        text = self._processor.decode_pieces([self.vocabulary[int(i)] for i in ids if int(i) not in self._special])
        return " ".join(text.replace("\u2581", " ").split())

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Turn ids into pieces."""
        return [self.vocabulary[int(i)] for i in ids]
