"""Embeddings initialised with word vectors from a text file."""

import itertools
import logging
from collections.abc import Sequence

import numpy as np
from keras import ops

from keras_attn_zoo.bodies.token_embedding import TokenEmbedding
from keras_attn_zoo.data.text_files import read_lines
from keras_attn_zoo.data.words import normalise
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import PathLike

_LOG = logging.getLogger(__name__)
# Of so many first words, at least one holds no spaces: its line has no more fields than the file is wide.
_FIRST = 1000


def load_word_vectors(embedding: TokenEmbedding, vocabulary: Sequence[str], path: PathLike) -> int:
    """Set the rows of an embedding to the vectors of the same words; leave the other rows unchanged.

    Use it before training. Pieces are compared with words after removing `▁`, the
    mark of a word's beginning; pieces that do not begin a word stay unchanged.

    Args:
        embedding: a built `TokenEmbedding`.
        vocabulary: its pieces, in the order of their ids.
        path: text file, see `read_lines`, with a word and its numbers per line, with or without word2vec's header line.
            Words may hold spaces.

    Returns:
        the number of pieces found.

    Raises:
        UserError: vectors of another width; a line that is not a vector; no piece found.

    Example:
        >>> load_word_vectors(
        ...     backbone.source_embedding, tokenizer.get_vocabulary(), "vectors.de.txt"
        ... )  # doctest: +SKIP

    Source: Hiemsch, section 6 (pretrained embeddings, which it names as an extension).
    """
    rows = {piece[1:]: i for i, piece in enumerate(vocabulary) if piece.startswith("▁") and len(piece) > 1}
    width = embedding.output_dim
    table = np.array(ops.convert_to_numpy(embedding.embeddings))
    # As written: to a sentence, a no-break space is a space like others, and a word of nothing else is none.
    lines = enumerate(read_lines(path, as_written=True), start=1)
    first = list(itertools.islice(lines, _FIRST))
    said = []
    if len(first[0][1].split()) == 2:
        said = first.pop(0)[1].split()
    if first:
        _check_width(path, *min((len(_fields(line)) - 1, number) for number, line in first), width)
    if said and first and said[1] != str(width):
        raise UserError(
            f"{path} line 1 says that there are {said[1][:20]} numbers after every word, but there are {width}: fix or "
            "remove the line."
        )
    found = number = 0
    for number, line in itertools.chain(first, lines):
        word, *numbers = _fields(line, width)
        _check_width(path, len(numbers), number, width)
        # The first: files begin with frequent words, and further on have them with spaces and marks around them.
        row = rows.pop(normalise(word), None)
        if row is not None:
            table[row] = _vector(numbers, line, f"{path} line {number}")
            found += 1
    count = number - bool(said)
    if said and said[0] != str(count):
        _LOG.warning("%s says that it has %s vectors, but has %d: it may be cut.", path, said[0][:20], count)
    if not found:
        raise UserError(
            f"{path} has no vector for any of the {len(rows)} words of the vocabulary: is it the right language?"
        )
    embedding.embeddings.assign(table)
    return found


def _fields(line, width=-1):
    """Split a line from the right into a word and so many numbers, or wherever there is white space."""
    # With a letter in front, a word of white space alone is a field too.
    word, *numbers = f"a{line}".rsplit(None, width)
    return [word[1:], *numbers]


def _check_width(path, count, number, width):
    if count != width:
        raise UserError(
            f"{path} line {number} has {count} numbers, but the embedding has a width of {width}: use other vectors, "
            "or set embedding_dim."
        )


def _vector(numbers, line, place):
    """Return the numbers of a line; raise unless all are finite in single precision."""
    try:
        # Python would also read `1_0` and digits of other scripts.
        vector = np.array([float(x) if x.isascii() and "_" not in x else np.nan for x in numbers])
    except ValueError:
        vector = np.array([np.nan])
    # A comparison with NaN is false.
    if not (np.abs(vector) <= np.finfo("float32").max).all():
        raise UserError(f"{place} is not a vector of finite numbers: {line[:40]!r}. Fix or remove the line.")
    return vector
