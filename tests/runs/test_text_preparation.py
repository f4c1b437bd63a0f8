"""Truecasing and subword sampling in a run: what is learned, kept, applied and undone, and that it resumes the same."""

import json
import shutil

import numpy as np
import pytest
import sacrebleu

from keras_attn_zoo.bodies import TransformerBackbone
from keras_attn_zoo.corpora.corpus import Corpus
from keras_attn_zoo.corpora.synthetic import generate_splits
from keras_attn_zoo.data.cache import fingerprint
from keras_attn_zoo.data.splits import Splits
from keras_attn_zoo.data.truecasing import Truecaser, train_truecaser
from keras_attn_zoo.runs.loading import load_translator
from keras_attn_zoo.runs.preparation import prepare_data, training_batches
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.runs.scoring import score_run
from keras_attn_zoo.runs.settings import DataSettings
from keras_attn_zoo.runs.training import train_system
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import read_json, write_json
from keras_attn_zoo.support.messages import shown
from keras_attn_zoo.training.run_log import read_steps
from keras_attn_zoo.translators import TransformerTranslator
from keras_attn_zoo.translators.marian.marian_export import check_standard
from tests.support.test_messages import terminal
from tests.tiny_run import TINY, interrupted_after

SYSTEM = TINY.override(
    **{"model_type": "unigram", "vocabulary_size": 150, "joint": True, "max_tokens": 40},
    **{"truecase": "both", "subword_sampling_nbest": 5, "teacher_forcing": 1.0, "validations_per_epoch": 1},
)


@pytest.fixture(scope="module")
def text():
    parts = generate_splits(48, 8, 6, max_words=5, words_per_kind=8)
    splits = Splits(*([(pair.source, pair.target) for pair in parts[name]] for name in ("train", "valid", "test")))
    return Corpus(splits, {"train": ["a", "b"], "reverse": False})


@pytest.fixture(scope="module")
def run(text, tmp_path_factory):
    run = train_system(SYSTEM, text, tmp_path_factory.mktemp("run") / "cased")
    score_run(run.path, load_translator(run.path), text.test)
    return run


def test_case_is_learned_from_training_text_and_kept_in_run_and_preset(run, text, tmp_path):
    for side, name in enumerate(("source", "target")):
        wanted = train_truecaser([pair[side] for pair in text.splits.train], tmp_path / "model").read_bytes()
        [kept] = (run.path / "data").glob(f"*/{name}.truecase")
        assert kept.read_bytes() == wanted
        [of_preset] = (run.best / "assets").glob(f"{'source_' if name == 'source' else ''}tokenizer/truecaser.txt")
        assert of_preset.read_bytes() == wanted
    source = Truecaser(next((run.path / "data").glob("*/source.truecase")))
    assert any(source.truecase(one) != one for one, _ in text.splits.test)


def test_what_enters_is_truecased_and_what_leaves_begins_with_a_capital(run, text):
    translator = load_translator(run.path)
    # The test text has characters that the few training sentences do not have.
    pairs = text.splits.train[:6]
    source, target = (one.truecaser for one in translator.preprocessor.subwords)
    cased = [(source.truecase(one), target.truecase(two)) for one, two in pairs]
    assert cased != pairs
    plain, again = (translator.encode(*zip(*some, strict=True)) for some in (pairs, cased))
    assert plain == again
    assert [one.log_prob for one in translator.score(*zip(*pairs, strict=True))] == pytest.approx(
        [one.log_prob for one in translator.score(*zip(*cased, strict=True))]
    )
    decoded = [translator.preprocessor.detokenize(ids) for ids in plain.targets]
    assert decoded == [target for _, target in pairs]
    hypotheses = run.hypotheses("test").read_text(encoding="utf-8").splitlines()
    assert all(line[:1] == line[:1].upper() for line in hypotheses)
    wanted = sacrebleu.corpus_bleu(hypotheses, [text.test.targets]).score
    assert run.read_scores()["test"]["text"]["metrics"]["bleu"]["score"] == pytest.approx(wanted)


def test_a_preset_is_saved_again_and_loaded_with_its_truecasers(run, text, tmp_path):
    translator = load_translator(run.path)
    translator.save_to_preset(tmp_path / "again")
    sources = [source for source, _ in text.splits.test]
    assert load_translator(tmp_path / "again").encode(sources) == translator.encode(sources)
    (next((tmp_path / "again" / "assets").glob("tokenizer/truecaser.txt"))).unlink()
    with pytest.raises(UserError, match=r"truecaser\.txt is missing"):
        load_translator(tmp_path / "again")
    # A preset without truecasers says nothing of them, so that earlier versions read it.
    task = TransformerTranslator(
        TransformerBackbone(150, 150, width=8, num_heads=2, encoder_layers=1, decoder_layers=1),
        translator.preprocessor,
    )
    assert task.preprocessor.models == translator.preprocessor.models
    with pytest.raises(UserError, match="no translator with a truecaser"):
        check_standard(task)


def test_a_run_without_newer_preparation_has_the_data_and_presets_of_earlier_versions(trained, corpus):
    assert not any("truecased" in path.read_text() for path in (trained / "best").glob("*.json"))
    options = {"vocabulary_size": None, "joint": False, "model_type": "word", "byte_fallback": False}
    filters = {"min_words": 1, "max_words": None, "max_length_ratio": None, "drop_duplicates": False}
    key = fingerprint(corpus.splits.train, (), [options, filters])[:12]
    assert (trained / "data" / key).is_dir()


# The settings of version 0.1.0.
FIRST = {
    "data": "vocabulary_size model_type joint byte_fallback min_words max_words max_length_ratio drop_duplicates "
    "max_tokens sentences_per_batch tokens_per_batch bucket_count",
    "training": "epochs validations_per_epoch learning_rate schedule warmup_steps decay_start decay_every "
    "plateau_factor plateau_patience clip_norm label_smoothing accumulation_steps teacher_forcing teacher_forcing_end "
    "teacher_forcing_steps best_by bleu_sentences patience word_vectors_source word_vectors_target pretraining_rounds",
    "search": "beams length_penalty batch_size search_top_k",
}


def test_a_run_of_the_first_version_resumes_with_the_defaults(trained, tmp_path):
    run = RunFolder(shutil.copytree(trained, tmp_path / "run"))
    config = read_json(run.config)
    for part, names in FIRST.items():
        config["system"][part] = {name: config["system"][part][name] for name in names.split()}
    del config["system"]["precision"]
    write_json(run.config, config)
    run.check_settings(TINY, config["corpus"])
    with pytest.raises(UserError, match=r"different settings \(system\.data\.truecase: "):
        run.check_settings(TINY.override(truecase="both"), config["corpus"])


@pytest.mark.long
def test_an_interrupted_run_sees_the_segmentations_that_it_would_have_seen(run, text, tmp_path):
    steps = len(read_steps(run.log))
    with interrupted_after(steps // 2 + 1):
        train_system(SYSTEM, text, tmp_path / "again")
    again = train_system(SYSTEM, text, tmp_path / "again", resume=True)
    assert [line["loss"] for line in read_steps(again.log)] == [line["loss"] for line in read_steps(run.log)]
    with np.load(run.state) as one, np.load(again.state) as two:
        assert json.loads(str(one["settings"]))["names"] == json.loads(str(two["settings"]))["names"]
        assert all(np.array_equal(one[name], two[name]) for name in one if name != "settings")


def test_training_draws_and_validation_does_not(run, text):
    data = prepare_data(text, SYSTEM.data, run.path / "data")
    plain = prepare_data(text, SYSTEM.override(subword_sampling_nbest=None).data, run.path / "data")
    assert data.key == plain.key and plain.train.reused and type(data.valid) is type(plain.train)
    sampled, best = (training_batches(SYSTEM, one.train) for one in (data, plain))
    first, other = (sampled[i * sampled.batches_per_epoch][0]["encoder_token_ids"] for i in range(2))
    assert not np.array_equal(first, other) and len(best) <= len(sampled)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"subword_sampling_nbest": 30}, "needs model_type='unigram'.*received model_type='bpe'"),
        ({"subword_sampling_alpha": 0.2}, "has no effect without subword_sampling_nbest"),
        ({"subword_sampling_nbest": 1, "model_type": "unigram"}, "from 2 to 512"),
        # SentencePiece takes no more.
        ({"subword_sampling_nbest": 513, "model_type": "unigram"}, "from 2 to 512"),
        ({"truecase": "all"}, "one of source, target, both or None"),
    ],
)
def test_settings_that_have_no_effect_are_refused(settings, message):
    with pytest.raises(UserError, match=message) as caught:
        DataSettings(**settings)
    assert "\n" not in str(caught.value)


def test_a_language_without_case_is_refused(text, tmp_path):
    splits = Splits(*([(source, "一 二 三") for source, _ in part] for part in text.splits))
    with pytest.raises(UserError, match="truecase=both, target: no word of the text has a capital letter"):
        prepare_data(Corpus(splits, {}), SYSTEM.override(joint=False).data, tmp_path)


def test_reading_and_encoding_have_bars(corpus, tmp_path):
    with terminal() as read, shown():
        data = prepare_data(corpus, TINY.data, tmp_path)
        sent = read()
    assert len(data.train) > 0
    for bar in ("reading the training text:", "encoding the train text:", "encoding the valid text:"):
        assert bar in sent
