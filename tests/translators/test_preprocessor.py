"""Tokenizer and preprocessor on sentences whose ids can be counted."""

import keras
import numpy as np
import pytest

from keras_attn_zoo.data.subwords import Subwords
from keras_attn_zoo.data.truncation import Truncation
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.translators import TranslationPreprocessor, TranslationTokenizer
from keras_attn_zoo.translators.transformer_translator import TransformerPreprocessor
from tests import tiny

pytestmark = pytest.mark.one_backend

PAD, START, END = 0, 2, 3


def test_tokenizer_gives_the_ids_of_training_and_takes_them_back():
    tokenizer, subwords = tiny.tokenizer("source"), Subwords(tiny.subword_model("source"))
    texts = tiny.sentences("source")[:5]
    ids = tokenizer.tokenize(texts)
    assert ids == subwords.encode(texts)
    assert [tokenizer.detokenize(row) for row in ids] == texts == tokenizer.detokenize(ids)
    # One string is a sentence, not a list of characters.
    assert tokenizer.tokenize(texts[0]) == tokenizer(texts[0]) == ids[0]
    with pytest.raises(UserError, match="put it into a list"):
        subwords.encode(texts[0])
    assert tokenizer.detokenize(np.array([START, *ids[0], END, PAD, PAD])) == texts[0]
    assert tokenizer.vocabulary_size() == tiny.PIECES
    assert (tokenizer.pad_token_id, tokenizer.start_token_id, tokenizer.end_token_id) == (PAD, START, END)
    assert tokenizer.id_to_token(END) == "</s>"


def test_call_packs_sources_targets_and_labels():
    preprocessor = tiny.preprocessor()
    texts = {"encoder_text": tiny.sentences("source")[:3], "decoder_text": tiny.sentences("target")[:3]}
    x, y, weight = preprocessor(texts)
    sources = Subwords(tiny.subword_model("source")).encode(texts["encoder_text"])
    targets = Subwords(tiny.subword_model("target")).encode(texts["decoder_text"])
    for row in range(3):
        n, m = len(sources[row]) + 1, len(targets[row]) + 1
        rest = [PAD] * (tiny.LENGTH - n)
        assert np.asarray(x["encoder_token_ids"])[row].tolist() == [*sources[row], END, *rest]
        assert np.asarray(x["encoder_padding_mask"])[row].tolist() == [True] * n + [False] * len(rest)
        rest = [PAD] * (tiny.LENGTH - m)
        assert np.asarray(x["decoder_token_ids"])[row].tolist() == [START, *targets[row], *rest]
        assert np.asarray(x["decoder_padding_mask"])[row].tolist() == [True] * m + [False] * len(rest)
        assert np.asarray(y)[row].tolist() == [*targets[row], END, *rest]
        assert np.asarray(weight)[row].tolist() == [1.0] * m + [0.0] * len(rest)


def test_a_search_is_padded_to_multiples_of_eight():
    preprocessor = tiny.preprocessor(length=12)
    tokenize = preprocessor.source_tokenizer.tokenize
    by_length = {len(tokenize([text])[0]): text for text in tiny.sentences("source", 600)}
    for length, width in ((3, 8), (7, 8), (8, 12)):
        inputs = preprocessor.generate_preprocess([by_length[3], by_length[length]])
        assert inputs["encoder_token_ids"].shape == (2, width)
        assert inputs["encoder_padding_mask"].sum(-1).tolist() == [4, length + 1]
        assert inputs["decoder_token_ids"].shape == (2, 12)
        assert inputs["decoder_token_ids"][:, 0].tolist() == [START, START]
        assert inputs["decoder_padding_mask"].sum() == 2
    inputs = preprocessor.generate_preprocess([by_length[3]], sequence_length=5)
    assert inputs["decoder_token_ids"].shape == (1, 5)


def test_beginnings_are_forced():
    preprocessor = tiny.preprocessor()
    given = preprocessor.tokenizer.tokenize(["bado"])[0]
    inputs = preprocessor.generate_preprocess(
        {"encoder_text": tiny.sentences("source")[:2], "decoder_text": ["bado", ""]}
    )
    assert inputs["decoder_token_ids"][0, : len(given) + 1].tolist() == [START, *given]
    assert inputs["decoder_padding_mask"].sum(-1).tolist() == [len(given) + 1, 1]


@pytest.mark.parametrize("side, number, what", [("encoder_text", 2, "sentence"), ("decoder_text", 1, "translation")])
def test_a_sentence_takes_all_tokens_but_one_and_no_more(side, number, what):
    preprocessor = tiny.preprocessor(joint=True)
    tokenize = preprocessor.tokenizer.tokenize
    some = tiny.sentences("source")
    by_length = {len(tokenize([text])[0]): text for a in some for b in some for text in [f"{a} {b}"]}
    texts = {"encoder_text": ["kalo", "kalo"], "decoder_text": ["bado", "bado"]}
    texts[side][number - 1] = by_length[tiny.LENGTH - 1]
    preprocessor(texts)
    texts[side][number - 1] = by_length[tiny.LENGTH]
    with pytest.raises(UserError, match=rf"^{what} {number} has 17 tokens with its end, more than the 16"):
        preprocessor(texts)


@pytest.mark.parametrize("keep", ["start", "end"])
def test_long_sentences_are_cut_and_targets_in_training_alone(keep):
    """Whatever the length of a source; a target that is scored stays whole, or is refused."""
    first = tiny.preprocessor()
    first.truncation = Truncation(source=8, target=5, keep=keep)
    sources, targets = ["kalo " * 30, "kalo"], ["bado " * 4, "bado"]
    whole, short = first.source_tokenizer.tokenize(sources)
    assert len(short) < 6
    assert TranslationPreprocessor.from_config(first.get_config()).truncation == first.truncation
    for preprocessor in (first, TransformerPreprocessor.of(first)):
        cut = whole[:6] if keep == "start" else whole[-6:]
        text = preprocessor.encode(sources, targets)
        assert text.sources == [[*cut, END], [*short, END]]
        assert text.targets == [[*ids, END] for ids in preprocessor.tokenizer.tokenize(targets)]
        x, y, _ = preprocessor({"encoder_text": sources, "decoder_text": targets})
        assert x["encoder_token_ids"][0].tolist() == [*cut, END] + [PAD] * (tiny.LENGTH - 7)
        assert y[0].tolist() == [*text.targets[0][:3], END] + [PAD] * (tiny.LENGTH - 4)
        assert (
            x["encoder_token_ids"].tolist()
            == preprocessor.pack_search(text.sources, tiny.LENGTH)["encoder_token_ids"].tolist()
        )
    with pytest.raises(UserError, match=r"^translation 1 has .* more than the 16"):
        first.encode(sources, ["bado " * 40, "bado"])


@pytest.mark.parametrize("joint", [False, True])
def test_config_round_trip(joint):
    first = tiny.preprocessor(joint, length=24)
    second = TranslationPreprocessor.from_config(first.get_config())
    assert (second.encoder_sequence_length, second.decoder_sequence_length) == (24, 24)
    assert second.source_tokenizer.config_file == first.source_tokenizer.config_file
    assert keras.layers.serialize(second) == keras.layers.serialize(first)


def test_special_tokens_are_those_of_the_model():
    tokenizer = tiny.tokenizer("source")
    assert tokenizer.special_tokens == [tokenizer.start_token, tokenizer.end_token, tokenizer.pad_token]
    assert [tokenizer.get_vocabulary()[one] for one in tokenizer.special_token_ids] == ["<s>", "</s>", "<pad>"]
    tokenizer = TranslationTokenizer()
    assert tokenizer.start_token_id is None
    with pytest.raises(ValueError, match="no model"):
        tokenizer.special_token_ids  # noqa: B018
