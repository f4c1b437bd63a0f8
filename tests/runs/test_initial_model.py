"""Trainings that begin with a run, a preset or a Marian model, as a whole, in parts, or with LoRA."""

import dataclasses
import json
import re

import numpy as np
import pytest

from keras_attn_zoo import cli
from keras_attn_zoo.corpora.corpus import Corpus
from keras_attn_zoo.data.splits import Splits
from keras_attn_zoo.runs.initial_model import system_from
from keras_attn_zoo.runs.loading import load_translator
from keras_attn_zoo.runs.preparation import check_system
from keras_attn_zoo.runs.settings import TrainingSettings
from keras_attn_zoo.runs.trained_parts import choose_trained
from keras_attn_zoo.runs.training import train_system
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.training.run_log import RunLog, read_log
from tests import tiny
from tests.tiny_run import TINY, TINY_TRANSFORMER, assert_same_training, interrupted_after, mean_loss, weights_of

# Weights hardly move.
STILL = {"learning_rate": 1e-12, "schedule": "constant", "epochs": 0.5, "validations_per_epoch": 2}
ONE_ROUND = {"epochs": 0.5, "validations_per_epoch": 2}


def valid_loss(translator, corpus):
    return mean_loss(translator.score(*map(list, zip(*corpus.splits.valid, strict=True))))


def logged_loss(run):
    return next(line["val_loss"] for line in read_log(run.log) if "round" in line)


@pytest.fixture(scope="module")
def transformer_run(tmp_path_factory, corpus):
    return train_system(
        TINY_TRANSFORMER.override(epochs=0.5), corpus, tmp_path_factory.mktemp("transformer") / "run"
    ).path


def test_a_run_is_continued_with_its_weights_subwords_and_settings(trained, corpus, tmp_path):
    system = system_from(trained).override(**STILL)
    assert system.training.patience == TINY.training.patience and system.search == TINY.search
    # Other text, which has fewer words: the vocabulary stays.
    fewer = dataclasses.replace(corpus, splits=corpus.splits._replace(train=corpus.splits.train[:40]))
    run = train_system(system, fewer, tmp_path / "run")
    before, after = load_translator(trained), load_translator(run.path)
    assert after.preprocessor.models == before.preprocessor.models
    assert np.isclose(logged_loss(run), valid_loss(before, corpus), rtol=1e-5)
    assert not list((run.path / "data").rglob("*.spm"))


def test_a_preset_is_continued(corpus, tmp_path):
    """Of a Transformer with weights that depend on a length."""
    lengths = {"length": 40, "max_length": 40}
    made = tiny.translator(body=tiny.transformer, encoder_attention="random_synthesizer", joint=True, **lengths)
    made.save_to_preset(tmp_path / "preset")
    system = system_from(tmp_path / "preset").override(**STILL, sentences_per_batch=16)
    assert system.data.joint and system.data.max_tokens * 1.25 <= made.preprocessor.encoder_sequence_length
    sources, targets = tiny.sentences("source"), tiny.sentences("target")
    pairs = list(zip(sources, targets, strict=True))
    text = Corpus(Splits(pairs[:40], pairs[40:50], pairs[50:]), {"train": ["a", "b"], "reverse": False}, None)
    run = train_system(system, text, tmp_path / "run")
    assert np.isclose(logged_loss(run), valid_loss(load_translator(tmp_path / "preset"), text), rtol=1e-5)
    assert load_translator(run.path).preprocessor.models == made.preprocessor.models


@pytest.mark.long
def test_a_marian_model_is_continued(tmp_path):
    """Its sentences begin and end with tokens of its own."""
    pytest.importorskip("torch")
    pytest.importorskip("safetensors.numpy")
    marian = pytest.importorskip("tests.translators.marian_checkpoint")
    marian.write(tmp_path / "opus-mt-xx-yy")
    pairs = list(zip(marian.text("source", 60), marian.text("target", 60), strict=True))
    text = Corpus(Splits(pairs[:40], pairs[40:50], pairs[50:]), {"train": ["a", "b"], "reverse": False}, None)
    original = load_translator(tmp_path / "opus-mt-xx-yy")
    system = system_from(tmp_path / "opus-mt-xx-yy").override(**STILL, sentences_per_batch=16, dropout=0.0)
    run = train_system(system, text, tmp_path / "run")
    assert np.isclose(logged_loss(run), valid_loss(original, text), rtol=1e-5)
    again = load_translator(run.path)
    assert again.backbone.suppressed_tokens == original.backbone.suppressed_tokens
    ours, theirs = (one.score(text.test.sources, text.test.targets) for one in (again, original))
    np.testing.assert_allclose([one.log_prob for one in ours], [one.log_prob for one in theirs], rtol=1e-5)


@pytest.mark.every_backend
@pytest.mark.slow_compiled
@pytest.mark.parametrize("stop_at", [pytest.param(1, marks=pytest.mark.slow), 4])
def test_a_stopped_continuation_resumes_to_the_same_bits(trained, corpus, tmp_path, stop_at):
    system = system_from(trained).override(lora_rank=2, freeze="output", ema_momentum=0.5, seed=5, epochs=1)
    whole = train_system(system, corpus, tmp_path / "whole")
    with interrupted_after(stop_at):
        train_system(system, corpus, tmp_path / "run")
    run = train_system(system, corpus, tmp_path / "run", resume=True)
    assert_same_training(run, whole)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"hidden_dim": 16}, r"has hidden_dim=24, not 16: leave it out\. You may change dropout, "),
        ({"cross_attention": "luong_general"}, "has cross_attention='bahdanau'"),
        ({"model_type": "char"}, "has model_type='word', not 'char'"),
        ({"joint": True}, "has joint=False"),
        ({"pretraining_rounds": 1}, "pretraining_rounds is for weights that are drawn: leave it out"),
        ({"word_vectors_target": "vectors.txt"}, "word_vectors_target is for weights that are drawn"),
        ({"initial_model": "nowhere"}, "nowhere"),
    ],
)
def test_what_may_not_change_is_refused_before_anything_is_written(trained, corpus, tmp_path, wrong, message):
    with pytest.raises(UserError, match=message):
        train_system(system_from(trained).override(**wrong), corpus, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_another_body_and_integers_are_refused(trained, transformer_run, corpus, tmp_path):
    other = system_from(transformer_run).override(initial_model=str(trained))
    with pytest.raises(UserError, match="has body='rnn', not 'transformer'"):
        train_system(other, corpus, tmp_path / "run")
    quantized = load_translator(transformer_run)
    quantized.quantize("int8")
    quantized.save_to_preset(tmp_path / "int8")
    with pytest.raises(UserError, match="is quantized, and integers cannot be trained"):
        system_from(tmp_path / "int8")


PARTS = {
    "embeddings": ("_embedding/",),
    "target_embedding": ("target_embedding/",),
    "encoder,output": ("encoder_", "readout", "output_projection"),
    "decoder": ("initial_state_", "decoder/c", "decoder_"),
    "cross_attention": ("cross_attention/",),
}


def of_parts(paths, freeze):
    return {path for path in paths if any(part in path for part in PARTS[freeze])}


@pytest.mark.parametrize(
    ("body", "freeze"),
    [("rnn", "encoder,output"), pytest.param("transformer", "embeddings", marks=pytest.mark.slow)],
)
def test_frozen_parts_keep_their_bits_and_all_others_move(trained, transformer_run, corpus, tmp_path, freeze, body):
    model = trained if body == "rnn" else transformer_run
    run = train_system(system_from(model).override(freeze=freeze, **ONE_ROUND), corpus, tmp_path / "run")
    before, after = weights_of(model), weights_of(run.path)
    still = {path for path in before if np.array_equal(before[path], after[path])}
    assert still == of_parts(before, freeze)


@pytest.mark.parametrize("freeze", PARTS)
def test_parts_are_the_same_in_both_bodies(freeze):
    for make in (tiny.backbone, tiny.transformer):
        body = make()
        choose_trained(body, TrainingSettings(freeze=freeze))
        paths = {weight.path for weight in body.weights}
        assert {weight.path for weight in body.weights if not weight.trainable} == of_parts(paths, freeze)


def test_something_is_left_to_be_trained(trained):
    with pytest.raises(UserError, match="freeze=embeddings,encoder,decoder,output leaves nothing to be trained"):
        check_system(system_from(trained).override(freeze="output,decoder,encoder,embeddings"))
    with pytest.raises(UserError, match="lora_rank=4 adapts a trained model: give one with --from"):
        TINY.override(lora_rank=4)
    with pytest.raises(UserError, match="freeze=encoder is for a body that has all its layers"):
        TINY.override(freeze="encoder", pretraining_rounds=1)


@pytest.mark.every_backend
@pytest.mark.slow_compiled
@pytest.mark.parametrize("body", [pytest.param("rnn", marks=pytest.mark.slow), "transformer"])
def test_lora_is_a_product_beside_the_kernel_and_saved_within_it(
    trained, transformer_run, corpus, tmp_path, body, monkeypatch
):
    """W' = W + A·B in float64, of the matrices in the state; the preset scores as the model with LoRA did."""
    model = trained if body == "rnn" else transformer_run
    write, scored = RunLog.on_epoch_end, []

    def score(self, epoch, logs=None):
        scored.append([one.log_prob for one in self.model.score(corpus.test.sources, corpus.test.targets)])
        write(self, epoch, logs)

    monkeypatch.setattr(RunLog, "on_epoch_end", score)
    system = system_from(model).override(lora_rank=2, learning_rate=0.05, schedule="constant", **ONE_ROUND)
    run = train_system(system, corpus, tmp_path / "run")
    before, after = weights_of(model), weights_of(run.path)
    with np.load(run.state) as arrays:
        names = json.loads(str(arrays["settings"]))["names"]
        lora = {name: arrays[str(i)] for i, name in enumerate(names) if re.match("weight/.*lora_kernel", name)}
    adapted = {name.removeprefix("weight/").removesuffix("lora_kernel_a") for name in lora if name.endswith("_a")}
    assert adapted == {
        path.removesuffix("kernel")
        for path in before
        if path.endswith(("dense/kernel", "initial_state_0/kernel"))
        or (body == "transformer" and path.endswith("/kernel") and "output_projection" not in path)
    }
    for path, found in after.items():
        layer = path.removesuffix("kernel")
        wanted = before[path].astype("float64")
        if path.endswith("kernel") and layer in adapted:
            a, b = (lora[f"weight/{layer}lora_kernel_{one}"].astype("float64") for one in "ab")
            assert np.abs(a @ b).max() > 1e-3
            wanted = wanted + a @ b
        if not (path.endswith("bias") and path.removesuffix("bias") in adapted):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6, err_msg=path)
    again = load_translator(run.path).score(corpus.test.sources, corpus.test.targets)
    np.testing.assert_allclose([one.log_prob for one in again], scored[-1], rtol=1e-4)
    assert not [layer for layer in weights_of(run.path) if "lora" in layer]


@pytest.mark.long
def test_on_the_command_line(trained, corpus, tmp_path, capsys):
    for part, pairs in corpus.splits._asdict().items():
        (tmp_path / f"{part}.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in pairs), encoding="utf-8")
    text = [f"--{part}={tmp_path}/{part}.tsv" for part in ("train", "valid", "test")]
    line = ["train", "--from", str(trained), *text, "--run", str(tmp_path / "run"), "--freeze", "encoder", "output"]
    assert cli.main([*line, "--lora", "2", "--set", "epochs=0.5"]) == 0
    training = json.loads((tmp_path / "run" / "config.json").read_text())["system"]["training"]
    assert training["freeze"] == "encoder,output" and training["lora_rank"] == 2
    assert training["initial_model"] == str(trained)
    for more, message in (
        (["--small"], "--from gives the sizes: leave out --small"),
        (["--set", "hidden_dim=99"], "has hidden_dim=24, not 99"),
    ):
        assert cli.main([*line[:-5], "--run", str(tmp_path / "other"), *more]) == 2
        assert message in capsys.readouterr().err
