"""Word vectors from a file: what is found is set, what is not finite is refused."""

import keras
import numpy as np
import pytest

from keras_attn_zoo.bodies.token_embedding import TokenEmbedding
from keras_attn_zoo.bodies.word_vectors import load_word_vectors
from keras_attn_zoo.support.errors import UserError

pytestmark = pytest.mark.one_backend

WORDS = ["<pad>", "▁rot", "▁haus", "es"]


@pytest.fixture
def embedding():
    layer = TokenEmbedding(len(WORDS), 2)
    layer.build((None, None))
    return layer


def test_rows_of_the_same_words_are_set(embedding, tmp_path):
    (tmp_path / "v").write_text("3 2\nhaus 1.5 -2\nkatze 9 9\nes 7 7\n")
    before = keras.ops.convert_to_numpy(embedding.embeddings)
    assert load_word_vectors(embedding, WORDS, tmp_path / "v") == 1
    after = keras.ops.convert_to_numpy(embedding.embeddings)
    assert after[2].tolist() == [1.5, -2.0]
    np.testing.assert_array_equal(after[[0, 1, 3]], before[[0, 1, 3]])


def test_words_may_hold_spaces(embedding, tmp_path):
    """As in glove.840B and those of fastText: several words, no-break spaces and other white space, numbers."""
    words = [
        ". . .",
        ".\u00a0.\u00a0.",
        "\u00a0",
        "rot haus",
        "haus rot",
        "1 2 3",
        "\u3000x",
        "haus",
        "\u00a0haus",
        "\ufeffhaus",
        "to\u2028y",
        "\x85",
    ]
    lines = "".join(f"{word} {number}.5 -{number}\n" for number, word in enumerate(words))
    before = keras.ops.convert_to_numpy(embedding.embeddings)
    for header in ("", "12 2\n", "\ufeff"):
        (tmp_path / "v").write_text(header + lines, encoding="utf-8")
        embedding.embeddings.assign(before)
        assert load_word_vectors(embedding, WORDS, tmp_path / "v") == 1
        after = keras.ops.convert_to_numpy(embedding.embeddings)
        assert after[2].tolist() == [7.5, -7.0]
        np.testing.assert_array_equal(after[[0, 1, 3]], before[[0, 1, 3]])


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("haus 1 2 3\nrot 4 5 6\n", "v line 1 has 3 numbers, but the embedding has a width of 2"),
        ("9 3\n. . . 1 2 3\nrot 4 5 6\n", "v line 3 has 3 numbers"),
        ("haus 1\nrot 1\n", "v has no vector|v line 2 has 1 numbers"),
        ("haus 1 2\n" * 1500 + "rot 3\n", "v line 1501 has 1 numbers"),
        ("haus 1 2\n\nrot 1 2\n", "v line 2 has 0 numbers"),
        ("2 5\nhaus 1 2\nrot 1 2\n", "v line 1 says that there are 5 numbers after every word, but there are 2"),
    ],
)
def test_vectors_of_another_width_are_refused(embedding, tmp_path, lines, message):
    (tmp_path / "v").write_text(lines)
    before = keras.ops.convert_to_numpy(embedding.embeddings)
    with pytest.raises(UserError, match=message):
        load_word_vectors(embedding, WORDS, tmp_path / "v")
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(embedding.embeddings), before)


def test_a_header_of_more_words_warns(embedding, tmp_path, caplog):
    for count in (2, 400):
        (tmp_path / "v").write_text(f"{count} 2\nhaus 1 2\nrot 1 2\n")
        assert load_word_vectors(embedding, WORDS, tmp_path / "v") == 2
    assert [record.message for record in caplog.records] == [
        f"{tmp_path / 'v'} says that it has 400 vectors, but has 2: it may be cut."
    ]


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "1e39", "x", "1_0", "٣"])
def test_what_is_not_finite_is_refused(embedding, tmp_path, number):
    (tmp_path / "v").write_text(f"haus 1 2\nrot 1 {number}\n")
    before = keras.ops.convert_to_numpy(embedding.embeddings)
    with pytest.raises(UserError, match=r"v line 2 is not a vector of finite numbers"):
        load_word_vectors(embedding, WORDS, tmp_path / "v")
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(embedding.embeddings), before)
