import random
import subprocess
import sys
from itertools import chain

import pytest

from keras_attn_zoo.data.subwords import MODEL_TYPES, Subwords, train_subword_pair, train_subwords
from keras_attn_zoo.data.text_files import read_lines
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import write_text


def made_text(seed=0, alphabet="abcdefgh", count=300):
    rng = random.Random(seed)
    words = ["".join(rng.choices(alphabet, k=rng.randint(1, 7))) for _ in range(80)]
    return [" ".join(rng.choices(words, k=rng.randint(1, 9))) for _ in range(count)]


TEXT = made_text()
SIZES = {"bpe": 60, "unigram": 60, "word": 40, "char": 13}
LITTLE = ["the cat sat on the mat", "a dog ate the cat", "ein Haus und ein Hund"] * 3


def trained(tmp_path, model_type, sentences=TEXT, size=None, **options):
    path = tmp_path / f"{model_type}.spm"
    return Subwords(train_subwords(sentences, path, size or SIZES[model_type], model_type, **options))


@pytest.mark.parametrize("model_type", MODEL_TYPES)
def test_special_ids_round_trip_and_determinism(tmp_path, model_type):
    subwords = trained(tmp_path, model_type)
    assert subwords.vocabulary_size == SIZES[model_type]
    assert subwords.pieces([0, 1, 2, 3]) == ["<pad>", "<unk>", "<s>", "</s>"]
    path = train_subwords(iter(TEXT), tmp_path / "again.spm", SIZES[model_type], model_type)
    assert path.read_bytes() == subwords.model_bytes
    assert Subwords(subwords.model_bytes).encode(TEXT) == subwords.encode(TEXT)
    encoded = subwords.encode(TEXT)
    assert {0, 2, 3}.isdisjoint(chain(*encoded))
    if model_type != "word":
        assert [subwords.decode(ids) for ids in encoded] == TEXT
    assert {path.name for path in tmp_path.iterdir()} == {"again.spm", f"{model_type}.spm"}


def test_word_model_keeps_the_most_frequent_words(tmp_path):
    text = ["a a a a b b b c c d"]
    subwords = trained(tmp_path, "word", text, 7)
    assert subwords.pieces(range(4, 7)) == ["▁a", "▁b", "▁c"]
    assert subwords.encode(["a d c", "x y a"]) == [[4, 1, 6], [1, 1, 4]], "unknown words stay apart"


def test_all_words_or_characters(tmp_path):
    words = {word for sentence in TEXT for word in sentence.split()}
    assert Subwords(train_subwords(TEXT, tmp_path / "w", None, "word")).vocabulary_size == 4 + len(words)
    characters = {character for sentence in TEXT for character in sentence}
    assert Subwords(train_subwords(TEXT, tmp_path / "c", None, "char")).vocabulary_size == 4 + len(characters)
    with pytest.raises(UserError, match="a bpe model needs a vocabulary_size"):
        train_subwords(TEXT, tmp_path / "b", None, "bpe")


def test_decode_leaves_out_special_ids(tmp_path):
    subwords = trained(tmp_path, "bpe")
    [ids] = subwords.encode(TEXT[:1])
    assert subwords.decode([2, *ids, 3, 0, 0]) == TEXT[0]
    assert subwords.decode([]) == ""
    assert subwords.encode([]) == []
    assert subwords.encode(["", " "]) == [[], []]


# Characters


def test_bytes_of_unknown_characters_come_back(tmp_path):
    subwords = trained(tmp_path, "bpe", size=330, byte_fallback=True)
    [ids] = subwords.encode(["abc ☃ a☃ \U0001f600\U0001f600 hg"])
    assert "<0xE2>" in subwords.pieces(ids)
    assert subwords.decode(ids) == "abc ☃ a☃ \U0001f600\U0001f600 hg"


@pytest.mark.parametrize(
    ("between", "decoded"),
    [
        ("\n", "abc abc"),
        ("\t\x85\u2028", "abc abc"),
        ("\0", "abc\ufffd abc"),
        ("\u0327", "ab\u00e7 abc"),
        ("\ufeff", "abc\ufeff abc"),
    ],
)
def test_bytes_become_a_line_that_a_file_gives_back(tmp_path, between, decoded):
    subwords = trained(tmp_path, "bpe", size=330, byte_fallback=True)
    [ids] = subwords.encode(["abc"])
    of_bytes = [subwords._processor.piece_to_id(f"<0x{byte:02X}>") for byte in between.encode()]
    assert subwords.decode([*ids, *of_bytes, *ids]) == decoded
    write_text(tmp_path / "lines", f"{decoded}\n{decoded}\n")
    assert list(read_lines(tmp_path / "lines")) == [decoded, decoded]


def test_what_is_decoded_begins_with_no_byte_order_mark(tmp_path):
    subwords = trained(tmp_path, "bpe", size=330, byte_fallback=True)
    [ids] = subwords.encode(["x\ufeffabc"])
    assert subwords.decode(ids) == "x\ufeffabc" and subwords.decode(ids[2:]) == "abc"


def test_a_space_mark_in_the_text_is_no_piece_of_a_word_model(tmp_path):
    """It would be the piece by which other models are known, and neighbouring unknown words would be one piece."""
    path = train_subwords(["a \u2581 b", "a\u2581b"], tmp_path / "model", None, model_type="word")
    [ids] = Subwords(path).encode(["a x y \u2581 b"])
    assert Subwords(path).pieces(ids) == ["\u2581a", "<unk>", "<unk>", "<unk>", "\u2581b"]


def test_spelling_is_normalised(tmp_path):
    subwords = trained(tmp_path, "char", ["é a"], 7)
    assert subwords.encode(["e\u0301\ta"]) == subwords.encode(["é a"])
    assert 1 not in subwords.encode(["e\u0301\ta"])[0]


# Training errors


@pytest.mark.parametrize("model_type", MODEL_TYPES)
def test_too_large_a_vocabulary_names_the_largest(tmp_path, model_type):
    with pytest.raises(UserError, match=r"vocabulary_size=5000 .* at most") as caught:
        train_subwords(LITTLE, tmp_path / "model", 5000, model_type)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())
    largest = int(str(caught.value).rstrip(".").split()[-1])
    path = train_subwords(LITTLE, tmp_path / "model", largest, model_type)
    assert Subwords(path).vocabulary_size == largest
    with pytest.raises(UserError, match=f"at most {largest}"):
        train_subwords(LITTLE, tmp_path / "model", largest + 1, model_type)


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_too_small_a_vocabulary_names_the_smallest(tmp_path, model_type):
    # 14 letters and the space mark beside the four special pieces.
    smallest = 4 + len(set("".join(LITTLE)))
    with pytest.raises(UserError, match=f"vocabulary_size=10 .* at least {smallest},"):
        train_subwords(LITTLE, tmp_path / "model", 10, model_type)
    with pytest.raises(UserError, match=f"at least {smallest + 256},"):
        train_subwords(LITTLE, tmp_path / "model", 10, model_type, byte_fallback=True)


@pytest.mark.parametrize(
    ("sentences", "size", "options", "match"),
    [
        (LITTLE, 30, {"model_type": "wordpiece"}, "'wordpiece': choose one of bpe, unigram, word, char"),
        (LITTLE, 4, {}, "vocabulary_size=4 leaves no room"),
        ([], 30, {}, "no text"),
        (["", " "], 30, {}, "no text"),
        (LITTLE, 12, {"model_type": "word", "byte_fallback": True}, "byte_fallback"),
    ],
)
def test_bad_options(tmp_path, sentences, size, options, match):
    with pytest.raises(UserError, match=match) as caught:
        train_subwords(sentences, tmp_path / "model", size, **options)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_an_error_of_the_text_comes_through(tmp_path):
    def damaged():
        yield "the cat"
        raise UserError("corpus.de line 2 is not UTF-8: convert it.")

    with pytest.raises(UserError, match=r"^corpus\.de line 2 is not UTF-8"):
        train_subwords(damaged(), tmp_path / "model", 20)
    assert not list(tmp_path.iterdir())


def test_no_sentence_is_dropped(tmp_path):
    """Long sentences, and those with the trainer's own character, count too."""
    text = [*LITTLE, "x" * 6000, "q\u2585y", "a\nw"]
    subwords = Subwords(train_subwords(text, tmp_path / "model", None, "char"))
    assert 1 not in chain(*subwords.encode(["x q y w"]))


def test_training_is_quiet(tmp_path):
    code = (
        "from keras_attn_zoo.data.subwords import *\n"
        f"train_subwords({LITTLE!r}, {str(tmp_path / 'model')!r}, 30)\n"
        "try:\n"
        f"    train_subwords({LITTLE!r}, {str(tmp_path / 'model')!r}, 3000)\n"
        "except ValueError:\n"
        "    pass\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == result.stderr == ""


# Both sides


def test_pair_of_models(tmp_path):
    pairs = list(zip(TEXT, made_text(1, "stuvwxyz"), strict=True))
    source, target = train_subword_pair(pairs, tmp_path / "subwords", 50, model_type="unigram")
    assert (source, target) == (tmp_path / "subwords" / "source.spm", tmp_path / "subwords" / "target.spm")
    assert source.read_bytes() == train_subwords(TEXT, tmp_path / "m", 50, "unigram").read_bytes()
    assert 1 not in chain(*Subwords(target).encode([pair[1] for pair in pairs]))
    assert 1 in chain(*Subwords(source).encode([pair[1] for pair in pairs]))


def test_joint_model_knows_both_sides(tmp_path):
    pairs = list(zip(TEXT, made_text(1, "stuvwxyz"), strict=True))
    source, target = train_subword_pair(pairs, tmp_path / "subwords", 60, joint=True)
    assert source == target == tmp_path / "subwords" / "joint.spm"
    assert 1 not in chain(*Subwords(source).encode([sentence for pair in pairs for sentence in pair]))


def test_pair_writes_nothing_where_one_side_fails(tmp_path):
    pairs = [(sentence, "a") for sentence in TEXT]
    with pytest.raises(UserError, match="at most"):
        train_subword_pair(pairs, tmp_path / "subwords", 50)
    assert not list(tmp_path.iterdir())


# Model files


def test_damaged_and_missing_models(tmp_path):
    whole = trained(tmp_path, "bpe").model_bytes
    for name, data in (("empty", b""), ("text", b"no model"), ("cut", whole[: len(whole) // 2])):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(UserError, match=f"{name} is not a SentencePiece model, or is damaged"):
            Subwords(tmp_path / name)
    with pytest.raises(UserError, match=r"there is no file .*nowhere"):
        Subwords(tmp_path / "nowhere")


def test_model_of_other_special_ids(tmp_path):
    import io

    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LITTLE), model_writer=model, vocab_size=30, model_type="bpe", minloglevel=2
    )
    with pytest.raises(UserError, match=r"has the ids \(-1, 0, 1, 2\)"):
        Subwords(model.getvalue())


def test_a_unigram_model_is_not_held_up_by_a_line_without_end(tmp_path):
    """SentencePiece would need many seconds for this one, and minutes for a megabyte."""
    text = [f"{one} {other}" for one in ("rot", "rund", "klein") for other in ("haus", "hund", "kind")]
    models = [
        train_subwords(lines, tmp_path / name, 20, model_type="unigram").read_bytes()
        for name, lines in (("short", text), ("long", [*text, "rot " * 50_000]))
    ]
    assert models[0] == models[1]
