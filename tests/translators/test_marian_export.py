"""Our Transformers in the format of Transformers, which opens them, and CTranslate2, which converts them."""

import collections
import json

import keras
import numpy as np
import pytest

from keras_attn_zoo.cli import main
from keras_attn_zoo.decoding import BeamSearch, PooledBeamSearch
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.translators import Translator
from keras_attn_zoo.translators.marian import export_to_transformers
from tests import tiny

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

pytestmark = [
    pytest.mark.one_backend,
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses"),
]

TEXTS = [*tiny.sentences("source")[:10], "ka xyz lo"]
TARGETS = [*tiny.sentences("target")[:10], "ba xyz do"]
# Padding and start, which neither side may choose.
NEVER = {"suppressed_tokens": (0, 2)}
STANDARD = {
    "post, two vocabularies": (False, NEVER),
    "post, target tied, learned positions": (
        False,
        {**NEVER, "tie_embeddings": "target", "encoder_positions": "learned", "decoder_positions": "none"},
    ),
    "post, all tied": (True, {**NEVER, "tie_embeddings": "all", "activation": "silu", "output_bias": True}),
    "pre, all tied": (True, {**NEVER, "tie_embeddings": "all", "normalization": "pre"}),
}
LENGTH = 14


@pytest.fixture(scope="module", params=STANDARD.values(), ids=STANDARD.keys())
def exported(request, tmp_path_factory):
    """A translator, the folder it was written to, and Transformers' model and tokenizer from there."""
    joint, options = request.param
    translator = tiny.translator(joint=joint, body=tiny.transformer, length=40, max_length=40, **options)
    folder = tmp_path_factory.mktemp("exported") / "model"
    export_to_transformers(translator, folder)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    return translator, folder, model, transformers.AutoTokenizer.from_pretrained(folder)


def test_transformers_cuts_text_into_the_same_pieces(exported):
    translator, _, _, tokenizer = exported
    encoded = translator.encode(TEXTS, TARGETS)
    for ours, texts, side in ((encoded.sources, TEXTS, "source_tokenizer"), (encoded.targets, TARGETS, "tokenizer")):
        theirs = tokenizer(texts) if side == "source_tokenizer" else tokenizer(text_target=texts)
        subwords = getattr(translator.preprocessor, side).subwords
        assert [tokenizer.convert_ids_to_tokens(ids) for ids in theirs["input_ids"]] == list(map(subwords.pieces, ours))


def test_transformers_computes_the_same_log_probabilities(exported):
    translator, _, model, tokenizer = exported
    ours = translator.score(TEXTS, TARGETS)
    batch = tokenizer(TEXTS, text_target=TARGETS, return_tensors="pt", padding=True)
    labels = batch.pop("labels")
    with torch.no_grad():
        found = model(**batch, decoder_input_ids=model.prepare_decoder_input_ids_from_labels(labels)).logits
    # Padding and start have no probability there.
    specials = np.asarray(NEVER["suppressed_tokens"])
    x, y, _ = translator.preprocessor({"encoder_text": TEXTS, "decoder_text": TARGETS})
    logits = keras.ops.convert_to_numpy(translator(x)["logits"]).astype("float64")
    logits[..., specials] = -np.inf
    expected = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    theirs = torch.log_softmax(found.double(), -1).numpy()
    for row, one in enumerate(ours):
        for i in range(len(one.tokens)):
            np.testing.assert_allclose(theirs[row, i, labels[row, i]], expected[row, i, y[row, i]], atol=1e-4)


def test_transformers_finds_the_same_translations(exported):
    translator, _, model, tokenizer = exported
    # As many beams, and the same penalty, as went with the model.
    translator.compile(sampler=PooledBeamSearch(3, 0.6))
    ours = [one for [one] in translator.translate(TEXTS, max_length=LENGTH)]
    batch = tokenizer(TEXTS, return_tensors="pt", padding=True)
    found = model.generate(**batch, max_length=LENGTH, output_scores=True, return_dict_in_generate=True)
    theirs = [[i for i in ids[1:] if i != tokenizer.pad_token_id] for ids in found.sequences]
    assert [one.tokens for one in ours] == list(map(tokenizer.convert_ids_to_tokens, theirs))
    np.testing.assert_allclose([one.score for one in ours], found.sequences_scores, atol=1e-4)
    assert len({round(one.score, 3) for one in ours}) > 5


def test_transformers_suppresses_the_same_tokens(tmp_path):
    """Those that translations would have most, with ids of their own on either side."""
    options = {"body": tiny.transformer, "length": 40, "max_length": 40}
    free = tiny.translator(**options, **NEVER)
    pieces = [piece for [one] in free.translate(TEXTS, max_length=LENGTH) for piece in one.tokens if piece != "</s>"]
    common = [piece for piece, _ in collections.Counter(pieces).most_common(4)]
    ids = [free.preprocessor.tokenizer.token_to_id(piece) for piece in common]
    translator = tiny.translator(**options, suppressed_tokens=(*NEVER["suppressed_tokens"], *ids))
    export_to_transformers(translator, tmp_path / "model")
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "model").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    translator.compile(sampler=PooledBeamSearch(3, 1.0))
    ours = [one.tokens for [one] in translator.translate(TEXTS, max_length=LENGTH)]
    batch = tokenizer(TEXTS, return_tensors="pt", padding=True)
    found = model.generate(**batch, max_length=LENGTH, num_beams=3)
    theirs = [[i for i in ids[1:] if i != tokenizer.pad_token_id] for ids in found]
    assert ours == list(map(tokenizer.convert_ids_to_tokens, theirs))
    assert not {piece for tokens in ours for piece in tokens} & set(common)


def test_ctranslate2_finds_the_same_translations(exported, tmp_path):
    ctranslate2 = pytest.importorskip("ctranslate2")
    translator, folder, _, tokenizer = exported
    converter = ctranslate2.converters.TransformersConverter(str(folder))
    converter.convert(str(tmp_path / "converted"))
    converted = ctranslate2.Translator(str(tmp_path / "converted"), intra_threads=1)
    sources = [tokenizer.convert_ids_to_tokens(ids) for ids in tokenizer(TEXTS)["input_ids"]]
    for beams in (1, 3):
        translator.compile(sampler=BeamSearch(beams))
        ours = [one for [one] in translator.translate(TEXTS, max_length=LENGTH)]
        found = converted.translate_batch(sources, beam_size=beams, length_penalty=0, max_decoding_length=LENGTH - 1)
        theirs = [one.hypotheses[0] for one in found]
        assert [[token for token in one.tokens if token != "</s>"] for one in ours] == theirs
        scores = converted.score_batch(sources, theirs)
        # It scores the end even where a translation was cut.
        sums = [sum(score.log_probs[: len(one.tokens)]) for one, score in zip(ours, scores, strict=True)]
        np.testing.assert_allclose([one.log_prob for one in ours], sums, atol=1e-4)


def int8_transformer(**options):
    body = tiny.transformer(**options)
    body.quantize("int8", filters="ffn")
    return body


REFUSED = {
    "rms": (tiny.transformer, {"norm": "rms"}, "no translator with norm='rms'"),
    "gated": (tiny.transformer, {"activation": "geglu"}, "no translator with activation='geglu'"),
    "rotary": (
        tiny.transformer,
        {"encoder_positions": "rotary"},
        r"MultiHeadAttention \(encoder layer 1\) as configured",
    ),
    "grouped": (
        tiny.transformer,
        {"cross_attention": {"attention": "multi_head", "num_key_value_heads": 1}},
        r"MultiHeadAttention \(decoder layer 1\) as configured here",
    ),
    "rnn": (tiny.backbone, {}, "a body such as RNNBackbone"),
    "latent": (tiny.transformer, {"output": "latent"}, "a latent alignment"),
    "average": (tiny.transformer, {"decoder_attention": "average"}, "AverageAttention"),
    "sparse": (tiny.transformer, {"cross_attention": {"attention": "multi_head", "use_bias": False}}, "MultiHead"),
    "pre, not tied": (tiny.transformer, {"normalization": "pre"}, "normalisation before the sublayers"),
    "int8": (int8_transformer, {}, "int8 layers: export it as it was before `quantize`"),
}


@pytest.mark.parametrize("body, options, message", REFUSED.values(), ids=REFUSED.keys())
def test_what_has_no_equivalent_says_so_in_one_line(tmp_path, body, options, message):
    translator = tiny.translator(body=body, **options)
    with pytest.raises(UserError, match=message) as error:
        export_to_transformers(translator, tmp_path / "exported")
    assert "\n" not in str(error.value) and not (tmp_path / "exported").exists()


def test_a_translator_without_a_preprocessor_is_not_exported(tmp_path):
    with pytest.raises(UserError, match="the translator has no preprocessor"):
        export_to_transformers(Translator(tiny.transformer()), tmp_path / "exported")
    assert not (tmp_path / "exported").exists()


def test_the_command_exports_a_preset(tmp_path, capsys):
    tiny.translator(joint=True, body=tiny.transformer, tie_embeddings="all").save_to_preset(tmp_path / "preset")
    assert main(["export", str(tmp_path / "preset"), "--to", "transformers", str(tmp_path / "exported")]) == 0
    assert json.loads((tmp_path / "exported" / "config.json").read_text())["model_type"] == "marian"
    kept = sorted((tmp_path / "exported").iterdir())
    assert main(["export", str(tmp_path / "preset"), "--to", "transformers", str(tmp_path / "exported")]) == 2
    assert "exists" in capsys.readouterr().err and sorted((tmp_path / "exported").iterdir()) == kept
    with pytest.raises(SystemExit, match="2"):
        main(["export", str(tmp_path / "preset"), "--to", "something", str(tmp_path / "exported")])


@pytest.mark.parametrize(
    "sampler, beams, penalty",
    [(BeamSearch(3, 0.6), 3, 0.6), (PooledBeamSearch(num_beams=2, length_penalty=1.5), 2, 1.5), ("greedy", 1, 0.0)],
    ids=["beams", "pooled", "greedy"],
)
def test_the_settings_of_the_search_go_with_the_model(tmp_path, sampler, beams, penalty):
    translator = tiny.translator(joint=True, body=tiny.transformer, sampler=sampler, **STANDARD["post, all tied"][1])
    export_to_transformers(translator, tmp_path / "exported")
    settings = json.loads((tmp_path / "exported" / "generation_config.json").read_text())
    assert (settings["num_beams"], settings["length_penalty"]) == (beams, penalty)


def test_an_opened_model_that_was_trained_goes_out_and_comes_in_again(tmp_path):
    marian_checkpoint = pytest.importorskip("tests.translators.marian_checkpoint")
    marian_checkpoint.write(tmp_path / "original")
    trained = Translator.from_preset(tmp_path / "original")
    # Training changes every row of the embeddings, that of the padding, with which a translation begins, too.
    table = trained.backbone.target_embedding.embeddings
    table.assign(table + np.random.default_rng(0).normal(size=table.shape).astype("float32"))
    # The padding can no longer be predicted there.
    bias = keras.ops.convert_to_numpy(trained.backbone.output_projection.bias).copy()
    bias[list(trained.backbone.suppressed_tokens)] = -1e9
    trained.backbone.output_projection.bias.assign(bias)
    export_to_transformers(trained, tmp_path / "exported")
    again = Translator.from_preset(tmp_path / "exported")
    texts = marian_checkpoint.text("source", 5)
    found = [one.score(texts, marian_checkpoint.text("target", 5)) for one in (trained, again)]
    for first, second in zip(*found, strict=True):
        np.testing.assert_allclose(second.log_probs, first.log_probs, atol=1e-4)
    assert again.generate(texts) == trained.generate(texts)


def test_an_opened_model_goes_out_as_it_came_in(tmp_path):
    marian_checkpoint = pytest.importorskip("tests.translators.marian_checkpoint")
    model, tokenizer = marian_checkpoint.write(tmp_path / "original")
    export_to_transformers(Translator.from_preset(tmp_path / "original"), tmp_path / "exported")
    again = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "exported").eval()
    batch = tokenizer(marian_checkpoint.text("source", 5), return_tensors="pt", padding=True)
    pieces = json.loads((tmp_path / "exported" / "vocab.json").read_text())
    places = [pieces[piece] for piece in tokenizer.get_vocab()]
    renamed = {**batch, "input_ids": torch.tensor(places)[batch["input_ids"]]}
    start = torch.full((5, 1), tokenizer.pad_token_id)
    with torch.no_grad():
        before = model(**batch, decoder_input_ids=start).logits[..., :-1]
        after = again(**renamed, decoder_input_ids=start).logits[..., places[:-1]]
    np.testing.assert_allclose(after, before, atol=1e-4)


def test_the_search_of_an_opened_model_goes_out_as_it_came_in(tmp_path):
    """`generate` without any option finds the same, before and after."""
    marian_checkpoint = pytest.importorskip("tests.translators.marian_checkpoint")
    search = {"num_beams": 3, "length_penalty": 0.3, "early_stopping": True, "max_length": 12}
    model, tokenizer = marian_checkpoint.write(tmp_path / "original", {**search, "bad_words_ids": [[5], [9]]})
    opened = Translator.from_preset(tmp_path / "original")
    export_to_transformers(opened, tmp_path / "exported")
    written = json.loads((tmp_path / "exported" / "generation_config.json").read_text())
    assert {name: written[name] for name in search} == search and len(written["bad_words_ids"]) == 3
    texts, found = marian_checkpoint.text("source", 8), []
    again = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "exported").eval()
    both = (model, tokenizer), (again, transformers.AutoTokenizer.from_pretrained(tmp_path / "exported"))
    for one, pieces in both:
        ids = one.generate(**pieces(texts, return_tensors="pt", padding=True))
        found.append(pieces.batch_decode(ids, skip_special_tokens=True))
    assert found == [opened.generate(texts)] * 2
