"""Subword vocabularies: SentencePiece models trained on a corpus, and their use."""

import functools
import hashlib
import io
import math
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from keras_attn_zoo.data import END, PAD, START, UNKNOWN
from keras_attn_zoo.data.truecasing import Truecaser
from keras_attn_zoo.data.words import normalise
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.extras import require
from keras_attn_zoo.support.files import PathLike, atomic_path, read_bytes, shown

MODEL_TYPES = ("bpe", "unigram", "word", "char")
SPECIAL_PIECES = ("<pad>", "<unk>", "<s>", "</s>")

_SPACE = "\u2581"
# SentencePiece reserves this character and drops training sentences that contain it.
_RESERVED = "\u2585"
# The maximum that SentencePiece allows, in bytes; it drops longer sentences, by default those above 4192.
_LONGEST_SENTENCE = 2**30
# That of a unigram model: a megabyte that repeats a word would take minutes, and no sentence is longer than this.
_LONGEST_OF_UNIGRAM = 2**17
# A model with a million pieces has about 20 million bytes.
LARGEST_MODEL = 2**27
# Unigram training adds up floats by thread: a fixed number makes the model the same on every machine.
_THREADS = 4


class _TextStream:
    """Feeds sentences to the trainer, and keeps any exception raised while reading them."""

    def __init__(self, sentences: Iterable[str]) -> None:
        self.sentences = sentences
        self.error: Exception | None = None

    def __iter__(self) -> Iterator[str]:
        try:
            for sentence in self.sentences:
                # The mark is a space to SentencePiece; as a word, it would be a piece that no word model has otherwise.
                yield normalise(sentence).replace(_RESERVED, " ").replace(_SPACE, " ")
        except Exception as error:
            self.error = error
            raise


def _check_options(vocabulary_size, model_type, byte_fallback):
    if model_type not in MODEL_TYPES:
        raise UserError(f"unknown model_type {model_type!r}: choose one of {', '.join(MODEL_TYPES)}.")
    if vocabulary_size is None:
        if model_type not in ("word", "char"):
            raise UserError(f"a {model_type} model needs a vocabulary_size: give one; received None.")
    elif vocabulary_size <= len(SPECIAL_PIECES):
        raise UserError(
            f"vocabulary_size={vocabulary_size} leaves no room besides the "
            f"{len(SPECIAL_PIECES)} special pieces: give a larger one."
        )
    if byte_fallback and model_type == "word":
        raise UserError("word models do not support byte_fallback: leave it out.")


def _too_large(vocabulary_size, model_type, largest):
    return UserError(
        f"vocabulary_size={vocabulary_size} is too large for a {model_type} model of this text: give at most {largest}."
    )


def _explain(error, vocabulary_size, model_type):
    """Turn the trainer's message into one that names the possible sizes."""
    message = str(error)
    if found := re.search(r"too high.*<= (\d+)", message):
        return _too_large(vocabulary_size, model_type, found[1])
    if found := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        too_small = f"vocabulary_size={vocabulary_size} is too small for the characters of this text: give at least"
        return UserError(f"{too_small} {found[1]}, or lower character_coverage.", f"{too_small} {found[1]}.")
    if "!sentences_.empty()" in message:
        return UserError("there is no text to train subwords on, as every sentence is empty: give other text.")
    return UserError(f"subword training failed: {' '.join(message.split())}. Check the text and the options.")


def _train(sentences, vocabulary_size, model_type="bpe", byte_fallback=False, character_coverage=1.0):
    """Train a model and return its bytes."""
    require("sentencepiece", user="training a subword model")
    import sentencepiece

    _check_options(vocabulary_size, model_type, byte_fallback)
    text = _TextStream(sentences)
    model = io.BytesIO()
    size = {"use_all_vocab": True} if vocabulary_size is None else {"vocab_size": vocabulary_size}
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(text),
            model_writer=model,
            model_type=model_type,
            byte_fallback=byte_fallback,
            character_coverage=character_coverage,
            # Text is normalised when it is read; any rule here would create words that are not in the text.
            normalization_rule_name="identity",
            max_sentence_length=_LONGEST_OF_UNIGRAM if model_type == "unigram" else _LONGEST_SENTENCE,
            num_threads=_THREADS,
            pad_id=PAD,
            unk_id=UNKNOWN,
            bos_id=START,
            eos_id=END,
            pad_piece=SPECIAL_PIECES[PAD],
            unk_piece=SPECIAL_PIECES[UNKNOWN],
            bos_piece=SPECIAL_PIECES[START],
            eos_piece=SPECIAL_PIECES[END],
            minloglevel=2,
            **size,
        )
    except RuntimeError as error:
        raise text.error or _explain(error, vocabulary_size, model_type) from None
    # A character model may silently be smaller than requested.
    largest = Subwords(model.getvalue()).vocabulary_size
    if vocabulary_size is not None and largest < vocabulary_size:
        raise _too_large(vocabulary_size, model_type, largest)
    return model.getvalue()


def _write(model, path):
    path = Path(path)
    with atomic_path(path) as aside:
        aside.write_bytes(model)
    return path


def train_subwords(
    sentences: Iterable[str],
    model_path: PathLike,
    vocabulary_size: int | None,
    model_type: str = "bpe",
    byte_fallback: bool = False,
    character_coverage: float = 1.0,
) -> Path:
    """Train a SentencePiece model on a stream of sentences.

    The same text and options give the same file on every machine. Ids 0 to 3 are `<pad>`, `<unk>`, `<s>` and `</s>`.

    Args:
        sentences: iterable of sentences, read once.
        model_path: file to write the model to.
        vocabulary_size: number of pieces, including the four special ones. A
            word or character model takes the most frequent; with `None`, all.
        model_type: `"bpe"`, `"unigram"`, `"word"` or `"char"`.
        byte_fallback: whether to encode unknown characters as bytes, which takes 256 pieces.
        character_coverage: share of the text's characters that must be known.

    Returns:
        The path of the model.

    Raises:
        UserError: the model type is unknown, there is no text, or the text does
            not allow a vocabulary of this size; the message names one it allows.

    Example:
        >>> text = ["the cat sat", "the dog sat"] * 5
        >>> path = train_subwords(text, "/tmp/words.spm", 8, model_type="word")
        >>> Subwords(path).encode(["the dog"])
        [[5, 7]]
    """
    model = _train(sentences, vocabulary_size, model_type, byte_fallback, character_coverage)
    return _write(model, model_path)


def train_subword_pair(
    pairs: Iterable[tuple[str, str]],
    folder: PathLike,
    vocabulary_size: int | None,
    joint: bool = False,
    **options: str | bool | float,
) -> tuple[Path, Path]:
    """Train the models of both sides of a parallel text.

    Args:
        pairs: (source, target) sentences that can be iterated twice.
        folder: where `source.spm` and `target.spm`, or `joint.spm`, are written.
        vocabulary_size: number of pieces of each model.
        joint: whether to train one model on both sides together.
        **options: `model_type`, `byte_fallback` and `character_coverage` of `train_subwords`.

    Returns:
        The paths of the source model and the target model; the same path twice for a joint model.

    Raises:
        UserError: as in `train_subwords`; nothing has been written then.

    Example:
        >>> pairs = [("ein Haus", "a house"), ("ein Hund", "a dog")]
        >>> source, target = train_subword_pair(pairs, "/tmp/subwords", None, model_type="word")
        >>> source.name, target.name
        ('source.spm', 'target.spm')
    """
    folder = Path(folder)
    if joint:
        both = (sentence for pair in pairs for sentence in pair)
        path = _write(_train(both, vocabulary_size, **options), folder / "joint.spm")
        return path, path
    models = [_train((pair[side] for pair in pairs), vocabulary_size, **options) for side in range(2)]
    source, target = (
        _write(model, folder / name) for model, name in zip(models, ("source.spm", "target.spm"), strict=True)
    )
    return source, target


class Subwords:
    """A SentencePiece model: text to ids, ids to text, ids to words.

    Args:
        model: path of a model file, or its bytes.
        truecaser: a `Truecaser` for all text that is encoded; what is decoded begins with a capital then.

    Attributes:
        model_bytes: the contents of the model file.
        truecaser: the `Truecaser`, or None.
        vocabulary_size: number of pieces.
        end: id of the end token.
        whole_words: whether it is a word model.

    Raises:
        UserError: there is no such file, it is damaged, or its special ids are not those of `train_subwords`.

    Example:
        >>> path = train_subwords(["ab ab", "ab b"], "/tmp/pieces.spm", None, model_type="char")
        >>> subwords = Subwords(path)
        >>> [ids] = subwords.encode(["b ab"])
        >>> subwords.pieces(ids), subwords.decode(ids)
        (['▁', 'b', '▁', 'a', 'b'], 'b ab')
    """

    end = END

    def __init__(self, model: PathLike | bytes, truecaser: Truecaser | None = None) -> None:
        require("sentencepiece", user="a subword model")
        import sentencepiece

        self.truecaser = truecaser
        self._normalise = normalise if truecaser is None else truecaser.truecase
        name = "the subword model" if isinstance(model, bytes) else shown(model)
        self.model_bytes = model if isinstance(model, bytes) else read_bytes(model, LARGEST_MODEL)
        damaged = UserError(f"{name} is not a SentencePiece model, or is damaged: restore it or train it again.")
        if not self.model_bytes:
            raise damaged
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=self.model_bytes)
        except RuntimeError:
            raise damaged from None
        ids = (self._processor.pad_id(), self._processor.unk_id(), self._processor.bos_id(), self._processor.eos_id())
        if ids != (PAD, UNKNOWN, START, END):
            raise UserError(
                f"{name} has the ids {ids} for padding, unknown, start and end, not "
                f"{(PAD, UNKNOWN, START, END)}: train a model with train_subwords."
            )
        self.vocabulary_size = self._processor.vocab_size()
        # Every model except a word model knows the space mark as a piece.
        self.whole_words = self._processor.piece_to_id(_SPACE) == UNKNOWN

    @functools.cached_property
    def checksum(self) -> str:
        """SHA-256 of the model file, and of the truecaser's if there is one, in hexadecimal digits."""
        digest = hashlib.sha256(self.model_bytes)
        if self.truecaser is not None:
            digest.update(hashlib.sha256(self.truecaser.model_bytes).digest())
        return digest.hexdigest()

    def encode(self, sentences: Iterable[str]) -> list[list[int]]:
        """Turn sentences into lists of ids, without start and end.

        Args:
            sentences: strings.

        Returns:
            A list of ids per sentence.

        Raises:
            UserError: one string, whose characters would each be a sentence.
        """
        if isinstance(sentences, str):
            raise UserError(f"encode takes a list of sentences, not {shown(sentences)} alone: put it into a list.")
        sentences = [self._normalise(sentence) for sentence in sentences]
        if self.whole_words:
            # SentencePiece would merge neighbouring unknown words into one piece.
            return [self._processor.piece_to_id([_SPACE + word for word in sentence.split()]) for sentence in sentences]
        return self._processor.encode(sentences)

    def n_best(self, sentence: str, count: int) -> list[tuple[list[int], float]]:
        """Return the likeliest segmentations of a sentence, with the logarithms of their probabilities.

        Use it for subword sampling; all of them decode to the same text.

        Args:
            sentence: a string.
            count: number of segmentations, at most.

        Returns:
            Ids and logarithm of each, the likeliest first; up to a constant of the sentence, if it has unknown
            characters.

        Raises:
            UserError: not a unigram model: others give no probabilities.
        """
        if self._scores is None:
            raise UserError("only a unigram model gives segmentations probabilities: train one.")
        found = self._processor.nbest_encode_as_ids(self._normalise(sentence), nbest_size=count)
        return [(ids, math.fsum(self._scores[i] for i in ids)) for ids in found]

    @functools.cached_property
    def _scores(self):
        """The log-probability of every piece of a unigram model, None for other models."""
        try:
            self._processor.nbest_encode_as_ids("a", nbest_size=2)
        except RuntimeError:
            return None
        return [self._processor.get_score(i) for i in range(self.vocabulary_size)]

    def decode(self, ids: Iterable[int]) -> str:
        """Turn the ids of one sentence into a normalised line of text; padding, start and end are left out."""
        return self._finished(self._processor.decode([int(i) for i in ids]))

    def decode_words(self, ids: Iterable[int], unknown: Iterable[str]) -> str:
        """Do the same for a word model, with a given word in place of each unknown one.

        Example:
            >>> path = train_subwords(["the cat sat"] * 5, "/tmp/words.spm", None, model_type="word")
            >>> subwords = Subwords(path)
            >>> [ids] = subwords.encode(["the dog sat"])
            >>> subwords.decode_words(ids, ["Hund"])
            'the Hund sat'
        """
        replacements = iter(unknown)
        words = [next(replacements) if i == UNKNOWN else self._processor.decode(int(i)) for i in ids]
        # Special pieces are no text.
        return self._finished(" ".join(filter(None, words)))

    def _finished(self, text):
        # Bytes that are no character become U+FFFD, and so does NUL, with which a file is not text.
        text = text.replace("\0", "\ufffd")
        # Pieces may meet that are one character in NFC, and bytes form a line break: what is written is read back.
        return normalise(text if self.truecaser is None else self.truecaser.detruecase(text))

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Turn ids into pieces; a piece that begins a word begins with `▁`."""
        return self._processor.id_to_piece([int(i) for i in ids])
