"""Marian models, opened as translators, against Transformers' own model, tokenizer and search."""

import re
import shutil

import keras
import numpy as np
import pytest

from keras_attn_zoo.bodies import RNNBackbone, TransformerBackbone
from keras_attn_zoo.cli import main
from keras_attn_zoo.data.encoded_text import encode_sentences
from keras_attn_zoo.decoding import BeamSearch, PooledBeamSearch
from keras_attn_zoo.runs.loading import load_translator
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import read_json, write_json
from keras_attn_zoo.translators import Translator

torch = pytest.importorskip("torch")
safetensors = pytest.importorskip("safetensors.numpy")
marian_checkpoint = pytest.importorskip("tests.translators.marian_checkpoint")

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses"),
]

TEXTS = marian_checkpoint.text("source", 12)
TARGETS = marian_checkpoint.text("target", 12)


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """Folder, Transformers' model and its tokenizer."""
    folder = tmp_path_factory.mktemp("marian") / "opus-mt-xx-yy"
    return folder, *marian_checkpoint.write(folder)


@pytest.fixture(scope="module")
def opened(original):
    return Translator.from_preset(original[0])


@pytest.fixture
def copied(original, tmp_path):
    return shutil.copytree(original[0], tmp_path / "copy")


def their_logits(model, x):
    names = {
        "input_ids": "encoder_token_ids",
        "attention_mask": "encoder_padding_mask",
        "decoder_input_ids": "decoder_token_ids",
    }
    with torch.no_grad():
        return model(**{theirs: torch.tensor(x[ours]).long() for theirs, ours in names.items()}).logits.numpy()


def logits_differ(translator, model):
    """The largest difference at a real position."""
    x, _, weights = translator.preprocessor({"encoder_text": TEXTS, "decoder_text": TARGETS})
    ours = keras.ops.convert_to_numpy(translator(x)["logits"])
    return np.abs(ours - their_logits(model, x))[weights > 0].max()


@pytest.mark.one_backend
def test_ids_of_a_thousand_sentences_are_those_of_marian_tokenizer(original, opened):
    _, _, tokenizer = original
    strange = ["", " ", ">>fra<< ka lo", ">>deu<<ka", "x\u4e00y \u4e00", "  ka  lo ", "ka\tlo", "\u00bdka"]
    strange += ["e\u0301\u0323 \ufeffka\x1clo"]
    texts = [*marian_checkpoint.text("source", 1000), *strange]
    ours = encode_sentences(opened.preprocessor.source_tokenizer.subwords, texts)
    assert ours == tokenizer(texts)["input_ids"]
    assert {1, 2} <= {i for ids in ours for i in ids}
    texts = [*marian_checkpoint.text("target", 1000), *strange]
    ours = encode_sentences(opened.preprocessor.tokenizer.subwords, texts)
    assert ours == tokenizer(text_target=texts)["input_ids"]
    theirs = tokenizer.batch_decode(ours, skip_special_tokens=True)
    assert [opened.preprocessor.detokenize(ids) for ids in ours] == [" ".join(text.split()) for text in theirs]


def test_logits_are_those_of_marian_mt_model(original, opened):
    assert logits_differ(opened, original[1]) < 1e-4


@pytest.mark.one_backend
@pytest.mark.parametrize(
    "changes",
    [
        {"share_encoder_decoder_embeddings": False, "activation_function": "gelu"},
        {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False, "activation_function": "relu"},
    ],
    ids=["two vocabularies", "nothing tied"],
)
def test_models_whose_vocabularies_differ(tmp_path, changes):
    model, tokenizer = marian_checkpoint.write(tmp_path / "model", **changes)
    translator = Translator.from_preset(tmp_path / "model")
    encoded = translator.encode(TEXTS, TARGETS)
    assert encoded.sources == tokenizer(TEXTS)["input_ids"]
    assert encoded.targets == tokenizer(text_target=TARGETS)["input_ids"]
    assert logits_differ(translator, model) < 1e-4


def their_translations(model, tokenizer, texts, max_length, **options):
    """Ids without start and padding, and the scores, of the n best of every text."""
    pad = tokenizer.pad_token_id
    found = model.generate(
        **tokenizer(texts, return_tensors="pt", padding=True),
        max_length=max_length,
        forced_eos_token_id=None,
        bad_words_ids=[[pad]],
        renormalize_logits=True,
        do_sample=False,
        output_scores=True,
        return_dict_in_generate=True,
        **options,
    )
    ids = [[int(i) for i in row[1:] if i != pad] for row in found.sequences]
    return ids, found.sequences_scores.numpy() if "sequences_scores" in found else None


def our_translations(translator, texts, n_best, max_length):
    hypotheses = [one for of_text in translator.translate(texts, n_best, max_length=max_length) for one in of_text]
    tokenizer = translator.preprocessor.tokenizer
    return [list(map(tokenizer.token_to_id, one.tokens)) for one in hypotheses], [one.score for one in hypotheses]


@pytest.mark.parametrize("beams, penalty", [(4, 1.0), (3, 0.0)])
@pytest.mark.slow_compiled
def test_pooled_beam_search_finds_what_transformers_finds(original, opened, beams, penalty):
    _, model, tokenizer = original
    opened.compile(sampler=PooledBeamSearch(beams, penalty))
    ours, scores = our_translations(opened, TEXTS, beams, 20)
    theirs, their_scores = their_translations(
        model, tokenizer, TEXTS, 20, num_beams=beams, num_return_sequences=beams, length_penalty=penalty
    )
    assert ours == theirs
    np.testing.assert_allclose(scores, their_scores, atol=1e-4)
    # Some end and some are cut.
    assert {True, False} <= {ids[-1] == 0 for ids in ours}


def test_greedy_search_is_that_of_transformers(original, opened):
    _, model, tokenizer = original
    theirs, _ = their_translations(model, tokenizer, TEXTS, 20, num_beams=1)
    for sampler in ("greedy", BeamSearch(1, length_penalty=2.0)):
        opened.compile(sampler=sampler)
        assert our_translations(opened, TEXTS, 1, 20)[0] == theirs


@pytest.mark.slow_compiled
def test_attention_of_a_pooled_search_is_that_of_its_hypotheses(opened):
    opened.compile(sampler=PooledBeamSearch(3))
    for text, [one, *_] in zip(TEXTS[:4], opened.translate(TEXTS[:4], 3, attention=True, max_length=12), strict=True):
        ended = one.tokens[-1] == "</s>"
        [forced] = opened.force([text], [one.text])
        if ended and forced.tokens == one.tokens:
            np.testing.assert_allclose(one.attention, forced.attention, atol=1e-4)
            break
    else:
        pytest.fail("no hypothesis to compare")


@pytest.mark.slow_compiled
def test_a_saved_preset_stands_alone_and_translates_alike(opened, tmp_path):
    opened.compile(sampler=BeamSearch(3, 1.0))
    expected = opened.translate(TEXTS[:4], 3, max_length=16)
    opened.save_to_preset(tmp_path / "preset")
    assert not list(tmp_path.rglob("vocab.json"))
    again = load_translator(tmp_path / "preset", beams=3, length_penalty=1.0)
    found = again.translate(TEXTS[:4], 3, max_length=16)
    for ours, theirs in zip(found, expected, strict=True):
        assert [one.text for one in ours] == [one.text for one in theirs]
    assert again.encode(TEXTS, TARGETS) == opened.encode(TEXTS, TARGETS)
    assert again.backbone.suppressed_tokens == (len(marian_checkpoint.vocabulary("source", "target")) - 1,)


@pytest.mark.slow_compiled
def test_what_works_on_a_translator_works_on_it(original):
    translator = Translator.from_preset(original[0])
    before = translator.score(TEXTS, TARGETS)
    x, y, _ = translator.preprocessor({"encoder_text": TEXTS[:1], "decoder_text": TARGETS[:1]})
    logits = their_logits(original[1], x)[0].astype("float64")
    logits -= np.log(np.exp(logits).sum(-1, keepdims=True))
    expected = [logits[i, y[0, i]] for i in range(len(before[0].tokens))]
    np.testing.assert_allclose(before[0].log_probs, expected, atol=1e-4)
    [forced] = translator.force(TEXTS[:1], TARGETS[:1], layers=[0, 1])
    assert forced.attention.shape == (4, len(forced.tokens), len(forced.source_tokens))
    np.testing.assert_allclose(forced.attention.sum(-1), 1.0, atol=1e-5)
    translator.compile(optimizer=keras.optimizers.Adam(0.01))
    translator.fit({"encoder_text": TEXTS, "decoder_text": TARGETS}, epochs=4, batch_size=12, verbose=0)
    after = translator.score(TEXTS, TARGETS)
    assert sum(one.log_prob for one in after) > sum(one.log_prob for one in before) + 10


@pytest.mark.one_backend
def test_bfloat16_is_close(original, opened):
    expected = np.array([one.log_prob for one in opened.score(TEXTS, TARGETS)])
    brief = Translator.from_preset(original[0], dtype="bfloat16")
    assert brief.backbone.get_layer("encoder_0").ffn_hidden.kernel.dtype == "bfloat16"
    found = np.array([one.log_prob for one in brief.score(TEXTS, TARGETS)])
    assert 0 < np.abs(found / expected - 1).max() < 0.05


@pytest.mark.one_backend
def test_explored_attention_is_that_of_transformers(original, tmp_path):
    """Every layer and head of all three places, along a given translation; a page of both searches."""
    folder, model, _ = original
    translator = Translator.from_preset(folder)
    sources, targets = TEXTS[:3], TARGETS[:3]
    [*results] = translator.examine(sources, targets)
    model.set_attn_implementation("eager")
    x, _, weights = translator.preprocessor({"encoder_text": sources, "decoder_text": targets})
    with torch.no_grad():
        theirs = model(
            input_ids=torch.tensor(x["encoder_token_ids"]).long(),
            attention_mask=torch.tensor(x["encoder_padding_mask"]).long(),
            decoder_input_ids=torch.tensor(x["decoder_token_ids"]).long(),
            output_attentions=True,
        )
    for row, result in enumerate(results):
        given, source, target = result.paths[1], len(result.source_tokens), int(weights[row].sum())
        for ours, of_places, shape in (
            (result.encoder, theirs.encoder_attentions, (source, source)),
            (given.weights["decoder"], theirs.decoder_attentions, (target, target)),
            (given.weights["cross"], theirs.cross_attentions, (target, source)),
        ):
            assert len(ours) == len(of_places) == 2
            for found, wanted in zip(ours, of_places, strict=True):
                np.testing.assert_allclose(found, wanted[row, :, : shape[0], : shape[1]].numpy(), atol=1e-5)
    for sampler in (BeamSearch(3), PooledBeamSearch(3)):
        translator.compile(sampler=sampler)
        translator.explore(sources, targets).save(tmp_path / "page.html")
        assert (tmp_path / "page.html").stat().st_size > 10_000


@pytest.mark.one_backend
def test_words_are_aligned(original, opened, tmp_path, capsys):
    """On gold links that are the positions of the largest weights, the error rate is 0; on others it is not."""
    pairs = [(source.split()[:2], target.split()[:3]) for source, target in zip(TEXTS[:4], TARGETS, strict=False)]
    bitext = "".join(f"{' '.join(source)} ||| {' '.join(target)}\n" for source, target in pairs)
    (tmp_path / "bitext").write_text(bitext, encoding="utf-8")
    files = ["--bitext", str(tmp_path / "bitext")]
    assert main(["align", str(original[0]), *files]) == 0
    links = capsys.readouterr().out
    assert [len(line.split()) for line in links.splitlines()] == [len(target) for _, target in pairs]
    for gold, rate in ((links, "0.0"), ("0-0\n" * len(pairs), None)):
        (tmp_path / "gold").write_text(gold)
        assert main(["align", str(original[0]), *files, "--gold", str(tmp_path / "gold")]) == 0
        table = capsys.readouterr().out
        found = re.search(r"AER\D*([\d.]+)", table)[1]
        assert found == rate if rate else float(found) > 10, table


@pytest.mark.one_backend
def test_weights_in_pytorch_format_are_read_without_running_anything(original, copied, opened, tmp_path):
    _, model, _ = original
    (copied / "model.safetensors").unlink()
    torch.save(model.state_dict(), copied / "pytorch_model.bin")
    body = TransformerBackbone.from_preset(copied)
    for ours, theirs in zip(body.weights, opened.backbone.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    torch.save({"weights": Harm(tmp_path / "ran")}, copied / "pytorch_model.bin")
    with pytest.raises(UserError, match=r"pytorch_model\.bin is truncated or damaged") as error:
        Translator.from_preset(copied)
    assert "\n" not in str(error.value) and not (tmp_path / "ran").exists()
    whole = (copied / "pytorch_model.bin").read_bytes()
    (copied / "pytorch_model.bin").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match=r"pytorch_model\.bin is truncated or damaged"):
        Translator.from_preset(copied)


@pytest.mark.one_backend
def test_weights_in_several_files_are_joined(original, copied, opened):
    (copied / "model.safetensors").unlink()
    original[1].save_pretrained(copied, max_shard_size="8KB")
    index = copied / "model.safetensors.index.json"
    body, first, tree = TransformerBackbone.from_preset(copied), min(copied.glob("*-of-*")), read_json(index)
    for ours, theirs in zip(body.weights, opened.backbone.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    first.rename(copied.parent / first.name)
    for name, message in ((first.name, "is missing"), (f"../{first.name}", "no file of weights in it")):
        write_json(index, {"weight_map": {**tree["weight_map"], "one": name}})
        with pytest.raises(UserError, match=f"{first.name}.* {message}"):
            TransformerBackbone.from_preset(copied)


class Harm:
    """An object whose unpickling creates a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def change_config(folder, **changes):
    write_json(folder / "config.json", read_json(folder / "config.json") | changes)


def change_weights(folder, **changes):
    weights = safetensors.load_file(folder / "model.safetensors") | changes
    safetensors.save_file(
        {name: weight for name, weight in weights.items() if weight is not None}, folder / "model.safetensors"
    )


def cut(folder, name):
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(whole[: len(whole) // 2])


FC1 = "model.encoder.layers.0.fc1.weight"
DEFECTS = {
    "cut": (lambda folder: cut(folder, "model.safetensors"), "model.safetensors is truncated or damaged"),
    "no weights": (lambda folder: (folder / "model.safetensors").unlink(), "there are no weights"),
    "weight missing": (lambda folder: change_weights(folder, **{FC1: None}), f"{FC1} is missing"),
    "weight of another shape": (lambda folder: change_weights(folder, **{FC1: np.ones((2, 3), "f4")}), "has the shape"),
    "weight too many": (lambda folder: change_weights(folder, extra=np.ones(3, "f4")), r"has no place for \(extra\)"),
    "NaN": (lambda folder: change_weights(folder, **{FC1: np.full((24, 16), np.nan, "f4")}), "is not finite"),
    "positions": (
        lambda folder: change_weights(folder, **{"model.encoder.embed_positions.weight": np.ones((41, 16), "f4")}),
        "has the shape",
    ),
    "another kind": (lambda folder: change_config(folder, model_type="bart"), "is a bart model"),
    "unknown activation": (lambda folder: change_config(folder, activation_function="gelu_new"), "gelu_new"),
    "more layers": (lambda folder: change_config(folder, decoder_layers=3), "decoder.layers.2.*is missing"),
    "another padding": (lambda folder: change_config(folder, pad_token_id=3), "pad_token_id=3"),
    "vocabulary missing": (lambda folder: (folder / "vocab.json").unlink(), "vocab.json is missing"),
    "vocabulary too large": (
        lambda folder: write_json(folder / "vocab.json", {str(i): i for i in range(500)}),
        "has 500 pieces",
    ),
    "ids twice": (lambda folder: write_json(folder / "vocab.json", {"</s>": 0, "<unk>": 0, "<pad>": 1}), "its own"),
    "a list of kinds": (lambda folder: change_config(folder, model_type=["marian"]), r"is a \['marian'\] model"),
    "a list for a configuration": (lambda folder: write_json(folder / "config.json", [1]), "describes no object"),
    "a name of two lines": (lambda folder: change_weights(folder, **{"a\nb": np.ones(3, "f4")}), "has no place for"),
    "a wide body": (
        lambda folder: change_config(folder, d_model=98, encoder_ffn_dim=98, decoder_ffn_dim=98),
        "weights",
    ),
    "subwords empty": (lambda folder: (folder / "source.spm").write_bytes(b""), "source.spm.*is not a SentencePiece"),
    "subwords cut": (lambda folder: cut(folder, "source.spm"), "source.spm.*is not a SentencePiece model"),
}


@pytest.mark.one_backend
@pytest.mark.parametrize("damage, message", DEFECTS.values(), ids=DEFECTS.keys())
def test_bad_checkpoints_say_so_in_one_line(copied, damage, message):
    damage(copied)
    with pytest.raises(UserError, match=message) as error:
        Translator.from_preset(copied)
    assert "\n" not in str(error.value)


@pytest.mark.one_backend
def test_a_checkpoint_is_no_rnn(original):
    with pytest.raises(UserError, match="is a Transformer"):
        RNNBackbone.from_preset(original[0])
