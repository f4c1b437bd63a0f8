"""The subwords of Marian models: SentencePiece cuts the text around added tokens, a list of pieces gives the ids."""

import dataclasses
import functools
import hashlib
import re
from collections.abc import Iterable, Sequence

import sentencepiece

from keras_attn_zoo.data.subwords import Subwords
from keras_attn_zoo.support.errors import UserError

UNKNOWN, END, PAD = "<unk>", "</s>", "<pad>"
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


@dataclasses.dataclass(frozen=True)
class AddedToken:
    """A token that is found in text before SentencePiece cuts the rest.

    Args:
        content: what stands in the text.
        skipped: whether decoding leaves it out.
        lstrip, rstrip: whether white space on its left, or right, belongs to it.
        single_word: whether it is a token only between spaces.

    Raises:
        ValueError: an argument of another type, or a token without a character.
    """

    content: str
    skipped: bool = False
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False

    def __post_init__(self) -> None:
        """Check the content."""
        if not isinstance(self.content, str) or not self.content:
            raise ValueError(f"an added token must be text. Received: {self.content!r}.")


class AddedTokens:
    """Splits text at added tokens, as Transformers does.

    Args:
        tokens: the tokens.

    Example:
        >>> AddedTokens([AddedToken("<a>"), AddedToken("<a>b")]).split("x<a>b <a>")
        ['x', '<a>b', ' ', '<a>']
    """

    def __init__(self, tokens: Sequence[AddedToken]) -> None:
        self.tokens = {token.content: token for token in tokens}
        # Of those that begin at a place, the longest.
        longest_first = sorted(self.tokens, key=len, reverse=True)
        self._pattern = re.compile(f"({'|'.join(map(re.escape, longest_first))})")

    def split(self, text: str) -> list[str]:
        """Return the parts of a text: added tokens, and what is between them."""
        if not self.tokens:
            return [text]
        parts = [part for part in self._pattern.split(text) if part]
        for i, part in enumerate(parts):
            if (token := self.tokens.get(part)) is None:
                continue
            left, right = parts[i - 1] if i else "", parts[i + 1] if i + 1 < len(parts) else ""
            if token.rstrip and right:
                parts[i + 1] = right.lstrip()
            if token.lstrip and left:
                parts[i - 1] = left.rstrip()
            if token.single_word and left and left[-1] != " ":
                parts[i - 1], parts[i] = parts[i - 1] + part, ""
            elif token.single_word and right and right[0] != " ":
                parts[i], parts[i + 1] = "", part + parts[i + 1]
        return [part for part in parts if part]


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
