"""A run from text to its last round; stopped, resumed, refused; what grows layer by layer."""

import dataclasses
import json
import logging

import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.corpora.corpus import Corpus
from keras_attn_zoo.data.splits import Splits
from keras_attn_zoo.data.subwords import Subwords
from keras_attn_zoo.evaluation.alignments import Alignment
from keras_attn_zoo.evaluation.text_scores import score_text
from keras_attn_zoo.runs.finished_run import draw_run
from keras_attn_zoo.runs.loading import load_translator
from keras_attn_zoo.runs.preparation import build_translator, compile_translator, prepare_data, training_batches
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.runs.scoring import score_run
from keras_attn_zoo.runs.system import System
from keras_attn_zoo.runs.training import train_system
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.training.resumable_state import ResumableState
from keras_attn_zoo.training.run_log import RunLog, read_log, read_steps
from tests.tiny_run import TINY, assert_same_training, interrupted_after, mean_loss, numbers

NUMBERS = ("loss", "perplexity", "accuracy", "gradient_norm", "tokens", "learning_rate")


@pytest.mark.every_backend
@pytest.mark.slow_compiled
def test_run_folder_holds_everything(trained, corpus):
    run = RunFolder(trained)
    assert run.system() == TINY
    assert run.corpus().items() >= corpus.description.items()
    steps = read_steps(run.log)
    rounds = [line for line in read_log(run.log) if "round" in line]
    assert [line["step"] for line in steps] == list(range(1, 13))
    assert [line["round"] for line in rounds] == [1, 2, 3, 4]
    assert all(set(NUMBERS) <= line.keys() for line in steps)
    assert {"val_loss", "val_perplexity", "val_accuracy"} <= rounds[0].keys() and "val_gradient_norm" not in rounds[0]
    assert json.loads(run.environment.read_text())["backend"]


def test_a_round_reports_the_mean_over_its_tokens(trained):
    log = trained / "log.jsonl"
    steps = read_steps(log)[:3]
    first_round = next(line for line in read_log(log) if "round" in line)
    tokens = sum(step["tokens"] for step in steps)
    assert first_round["tokens"] == tokens
    assert np.isclose(first_round["loss"], sum(step["loss"] * step["tokens"] for step in steps) / tokens, rtol=1e-5)


@pytest.mark.parametrize("stop_at", [1, pytest.param(7, marks=[pytest.mark.every_backend, pytest.mark.slow_compiled])])
@pytest.mark.long
def test_a_stopped_run_resumes_to_the_numbers_of_an_uninterrupted_one(trained, corpus, tmp_path, stop_at):
    folder = tmp_path / "run"
    with interrupted_after(stop_at):
        train_system(TINY, corpus, folder)
    assert_same_training(train_system(TINY, corpus, folder, resume=True), RunFolder(trained))


def test_resuming_an_ended_run_changes_nothing(run, trained, corpus, caplog):
    caplog.set_level(logging.INFO, "keras_attn_zoo")
    train_system(TINY, corpus, run.path, resume=True)
    assert caplog.messages[-1] == "training is already complete"
    assert numbers(run.path) == numbers(trained)


def test_a_folder_that_is_taken_is_refused_before_anything_is_written(trained, corpus, tmp_path):

    def written():
        """When each file was; a lock that comes and goes changes the time of its folder."""
        return {path: path.stat().st_mtime_ns for path in trained.rglob("*") if path.is_file()}

    before = written()
    with pytest.raises(UserError, match="already holds a run: resume it with --resume"):
        train_system(TINY, corpus, trained)
    with pytest.raises(UserError, match=r"different settings \(system.seed: \d+, now 4\): resume"):
        train_system(TINY.override(seed=4), corpus, trained, resume=True)
    with pytest.raises(UserError, match=r"different settings \(system.backbone.hidden_dim: \d+, now 13\)"):
        train_system(TINY.override(hidden_dim=13), corpus, trained, resume=True)
    assert before == written()
    other = dataclasses.replace(corpus, splits=corpus.splits._replace(train=corpus.splits.train[1:]))
    with pytest.raises(UserError, match=r"was started with other text than a and b: resume with the same text"):
        train_system(TINY, other, trained, data_folder=tmp_path / "data", resume=True)
    assert not (tmp_path / "data").exists()
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="not empty and is not a run folder"):
        train_system(TINY, corpus, tmp_path)


def test_a_foreign_state_is_refused(run, corpus):
    folder = run.path
    config = json.loads(run.config.read_text())
    config["system"]["backbone"]["hidden_dim"] = 14
    run.config.write_text(json.dumps(config))
    # Its preset is of that model, or it would be named first.
    body = json.loads((folder / "best" / "config.json").read_text())
    body["config"]["hidden_dim"] = 14
    (folder / "best" / "config.json").write_text(json.dumps(body))
    (folder / "best" / "checksums.json").unlink()
    with pytest.raises(UserError, match="belongs to another model"):
        train_system(TINY.override(hidden_dim=14), corpus, folder, resume=True)
    with np.load(folder / "state.npz") as arrays:
        arrays = dict(arrays)
    settings = {**json.loads(str(arrays["settings"])), "backend": "theano"}
    np.savez(folder / "state.npz", **{**arrays, "settings": np.array(json.dumps(settings))})
    with pytest.raises(UserError, match="started under theano"):
        train_system(TINY.override(hidden_dim=14), corpus, folder, resume=True)


PLAIN = System("plain", {"width": 8, "num_heads": 2, "encoder_layers": 2}, body="transformer")


@pytest.mark.parametrize(
    ("system", "wrong", "message"),
    [
        (TINY, {"cross_attention": "bahdanow"}, "is not a cross attention"),
        (PLAIN, {"encoder_attention": ["multi_head"]}, "1 mechanisms for 2 layers"),
        (PLAIN, {"max_length": 24, "max_tokens": 20}, r"max_length=24 is less than the 25 tokens .* max_tokens=20"),
    ],
)
def test_no_run_begins_that_cannot_be_made_or_translate_as_long_as_it_may(corpus, tmp_path, system, wrong, message):
    with pytest.raises(UserError, match=message):
        train_system(system.override(**wrong), corpus, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.every_backend
@pytest.mark.long
@pytest.mark.slow_compiled
def test_bleu_after_parts_of_the_training_is_logged_and_changes_nothing(trained, corpus, tmp_path):
    """At the end of a round, within one, and at the very end; a run that is stopped behind such a step repeats it."""
    run, percents = RunFolder(tmp_path / "run"), (25, 42, 100)
    with interrupted_after(6):
        train_system(TINY, corpus, run.path, bleu_after=percents)
    train_system(TINY, corpus, run.path, resume=True, bleu_after=percents)
    found, plain = numbers(run.path), numbers(trained)
    bleu = [(line["step"], key) for line in found for key in line if key.startswith("test_bleu")]
    # Of twelve steps the third, the fifth and the last.
    assert bleu == [(3, "test_bleu_after_25%"), (6, "test_bleu_after_42%"), (12, "test_bleu_after_100%")]
    # The best round is the last one here, whose weights are those of step 12.
    best = load_translator(run.path).translate(corpus.test.sources)
    wanted = score_text([one[0].text for one in best], corpus.test.targets, metrics="bleu")
    assert np.isclose(found[-1]["test_bleu_after_100%"], wanted["bleu"].score)
    assert [{k: v for k, v in line.items() if not k.startswith("test_bleu")} for line in found] == plain


@pytest.mark.long
def test_bleu_after_all_of_a_budget_of_tokens_is_that_of_its_last_step(corpus, tmp_path):
    """Three steps are expected, which is a round, and four taken; after a half, that of the expected step."""
    batches = training_batches(TINY, prepare_data(corpus, TINY.data, tmp_path / "data").train)
    tokens = sum(int(batches[index][2].sum()) for index in range(3)) + 1
    run = train_system(TINY.override(budget=f"{tokens}tokens"), corpus, tmp_path / "run", bleu_after=(50, 100))
    bleu = [(line["step"], key) for line in read_log(run.log) for key in line if key.startswith("test_bleu")]
    assert bleu == [(3, "test_bleu_after_50%"), (4, "test_bleu_after_100%")]


@pytest.mark.long
def test_bleu_after_parts_of_the_training_is_of_long_sentences_too(corpus, tmp_path):
    """A test sentence that is longer than those of training, two shares of one step, and scores as asked for."""
    long = " ".join(["haus"] * 20)
    pairs = [*corpus.splits.test[:2], (long, "house " * 20)]
    text = dataclasses.replace(corpus, splits=corpus.splits._replace(test=pairs), gold=None)
    system = TINY.override(budget="2steps", epochs=10.0)
    options = {"max_tokens": 40, "bleu_after": (10, 25, 100), "scoring": {"tokenize": "char", "lowercase": True}}
    run = train_system(system, text, tmp_path / "run", **options)
    (line,) = (one for one in numbers(run.path) if any(key.startswith("test_bleu") for key in one))
    assert line["test_bleu_after_10%_char_lowercase"] == line["test_bleu_after_25%_char_lowercase"]
    translator = load_translator(run.path)
    # What is saved has the room of training.
    assert translator.preprocessor.encoder_sequence_length < 40
    translator.set_max_tokens(40)
    best = [one[0].text for one in translator.translate([source for source, _ in pairs])]
    wanted = score_text(best, [target for _, target in pairs], "bleu", lowercase=True, tokenize="char")
    assert np.isclose(line["test_bleu_after_100%_char_lowercase"], wanted["bleu"].score)


@pytest.mark.long
def test_the_free_running_loss_is_logged_where_the_decoder_feeds_itself(trained, corpus, tmp_path):
    rounds = [line for line in read_log(trained / "log.jsonl") if "round" in line]
    best = min(rounds, key=lambda line: line["val_loss"])
    scored = load_translator(trained).score(*map(list, zip(*corpus.splits.valid, strict=True)), free_running=True)
    assert np.isclose(best["val_free_running_loss"], mean_loss(scored), rtol=1e-5)
    assert all(line["val_free_running_loss"] != line["val_loss"] for line in rounds)
    forced = train_system(TINY.override(teacher_forcing=1.0, epochs=0.5), corpus, tmp_path / "run")
    assert not any("val_free_running_loss" in line for line in read_log(forced.log))


def test_best_by_bleu_and_early_stopping(corpus, tmp_path, caplog):
    system = TINY.override(
        best_by="bleu", bleu_sentences=4, patience=1, learning_rate=1e-9, epochs=5, schedule="constant"
    )
    run = train_system(system, corpus, tmp_path / "run")
    rounds = [line for line in read_log(run.log) if "round" in line]
    assert all("val_bleu" in line for line in rounds)
    assert len(rounds) < 10, "no gain, so it stopped early"
    before = numbers(run.path)
    caplog.set_level(logging.INFO, "keras_attn_zoo")
    train_system(system.override(epochs=9), corpus, tmp_path / "run", resume=True)
    assert caplog.messages[-1] == "training is already complete" and numbers(run.path) == before


@pytest.mark.long
def test_text_is_encoded_once(corpus, tmp_path, encodings):
    """Test text for all that is done with it; validation text for the loss and for what is translated every round."""
    train, _, test = corpus.splits
    # Sentences that no other split has.
    valid = [(" ".join(["rot"] * length), " ".join(["red"] * length)) for length in range(2, 8)]
    test = [(f"{source} {source}", f"{target} {target}") for source, target in test]
    gold = [(source.split(), target.split(), Alignment({(0, 0)})) for source, target in test]
    corpus = Corpus(Splits(train, valid, test), corpus.description, gold)
    system = TINY.override(best_by="bleu", bleu_sentences=4, epochs=1)
    run = train_system(system, corpus, tmp_path / "run")
    translator = load_translator(run.path)
    assert "free_running" in score_run(run.path, translator, corpus.test)
    score_run(run.path, translator, corpus.test, "again")
    draw_run(run.path, translator, corpus.test)
    source, target = (one.checksum for one in translator.preprocessor.subwords)
    assert len([line for line in read_log(run.log) if "val_bleu" in line]) == 2
    assert {encodings[model, one] for pair in test for model, one in zip((source, target), pair, strict=True)} == {1}
    assert {encodings[model, one] for pair in valid for model, one in zip((source, target), pair, strict=True)} == {1}


@pytest.mark.long
def test_layer_by_layer_pretraining(corpus, tmp_path, monkeypatch):
    """A round of one layer and one of two; to the same numbers where the run is stopped after it has grown."""
    system = TINY.override(encoder_layers=2, pretraining_rounds=1, epochs=1)
    write, layers, stop_at = RunLog.on_train_batch_end, [], None

    def count(self, batch, logs=None):
        write(self, batch, logs)
        layers.append(len({v.path.split("/")[0] for v in self.model.trainable_variables if "encoder_" in v.path}))
        if len(layers) == stop_at:
            raise KeyboardInterrupt

    monkeypatch.setattr(RunLog, "on_train_batch_end", count)
    train_system(system, corpus, tmp_path / "whole")
    steps = len(layers) // 2
    assert layers == [1] * steps + [2] * steps
    layers.clear()
    stop_at = steps + 1
    with pytest.raises(KeyboardInterrupt):
        train_system(system, corpus, tmp_path / "stopped")
    train_system(system, corpus, tmp_path / "stopped", resume=True)
    assert numbers(tmp_path / "stopped") == numbers(tmp_path / "whole")


@pytest.mark.long
def test_best_and_early_stopping_are_of_the_whole_encoder(corpus, tmp_path, monkeypatch):
    """Every round is worse than the one before: the first of two layers is the best, and patience of one ends it."""
    system = TINY.override(encoder_layers=2, pretraining_rounds=2, epochs=3, patience=1)
    save = RunLog.on_epoch_end

    def worse(self, epoch, logs=None):
        logs["val_loss"] = float(epoch)
        save(self, epoch, logs)

    monkeypatch.setattr(RunLog, "on_epoch_end", worse)
    run = train_system(system, corpus, tmp_path / "run")
    assert [line["round"] for line in read_log(run.log) if "round" in line] == [1, 2, 3, 4]
    assert load_translator(run.path).backbone.get_config()["encoder_layers"] == 2
    too_short = TINY.override(encoder_layers=3, pretraining_rounds=2, epochs=2)
    with pytest.raises(UserError, match="pretraining_rounds=2, the encoder has only 2 of its 3 layers after 4 rounds"):
        train_system(too_short, corpus, tmp_path / "short")
    assert not (tmp_path / "short" / "config.json").exists()


def test_what_a_grown_model_takes_over(corpus, tmp_path):
    """Weights and optimiser of the layers that were there; the new layer begins as it was built."""
    system = TINY.override(encoder_layers=2)
    run = train_system(TINY.override(epochs=0.5), corpus, tmp_path / "run")
    with np.load(run.state) as arrays:
        saved = json.loads(str(arrays["settings"]))["names"]
        saved = {name: arrays[str(i)] for i, name in enumerate(saved)}
    subwords = [Subwords(path) for path in sorted((run.path / "data").rglob("*.spm"))]
    translator = build_translator(system, subwords, system.data.max_tokens)
    compile_translator(translator, system, steps=100)
    before = {v.path: ops.convert_to_numpy(v) for v in translator.trainable_variables}

    state = ResumableState(
        run.state, training_batches(system, prepare_data(corpus, system.data, run.path / "data").train)
    )
    state.read()
    assert state.batches.round == 1
    with pytest.raises(UserError, match="belongs to another model"):
        state.check(translator)
    state.read()
    state.check(translator, grown=True)
    state.set_model(translator)
    state.on_train_begin()
    kept = {name.removeprefix("weight/"): value for name, value in saved.items() if name.startswith("weight/")}
    for v in translator.trainable_variables:
        np.testing.assert_array_equal(ops.convert_to_numpy(v), kept.get(v.path, before[v.path]), err_msg=v.path)
        assert (v.path in kept) == ("encoder_1" not in v.path)
    moments = [v for v in translator.optimizer.variables if "encoder_0" in v.path or "iteration" in v.path]
    for v in moments:
        np.testing.assert_array_equal(ops.convert_to_numpy(v), saved["optimizer/" + v.path.split("/", 1)[1]])
        assert np.any(ops.convert_to_numpy(v))
    assert len(moments) > 8


@pytest.mark.parametrize("budget", [None, "5steps"])
def test_the_cosine_schedule_ends_at_zero_where_training_ends(corpus, tmp_path, budget):
    """Against its formula, in the rates that the run logs."""
    system = TINY.override(schedule="cosine", warmup_steps=2, learning_rate=1e-2, budget=budget)
    run = train_system(system, corpus, tmp_path / "run")
    rates = [step["learning_rate"] for step in read_steps(run.log)]
    total, wanted = len(rates), []
    assert total == (12 if budget is None else 5)
    # A line of the log has the rate that the next step takes.
    for step in range(1, total + 1):
        done = (step - 2) / (total - 2)
        wanted.append(1e-2 * (0.5 + step / 2 * 0.5 if step < 2 else (1 + np.cos(np.pi * done)) / 2))
    np.testing.assert_allclose(rates, wanted, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize(("warmup", "told"), [(4, False), (5, True)])
def test_a_warm_up_longer_than_training_is_told(corpus, tmp_path, caplog, warmup, told):
    system = TINY.override(schedule="inverse_sqrt", warmup_steps=warmup, budget="4steps")
    caplog.set_level(logging.INFO, "keras_attn_zoo")
    train_system(system, corpus, tmp_path / f"{TINY.name}-seed=3")
    # The run's name, not the system's alone.
    assert any(message.startswith(f"{TINY.name}-seed=3  round 1") for message in caplog.messages)
    said = "the learning rate rises for 5 steps, but training has only 4: set fewer warmup_steps"
    assert any(said in message for message in caplog.messages) is told
