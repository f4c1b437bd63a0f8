"""A run from text to scores, and what happens when it is stopped, damaged or asked for the wrong thing."""

import dataclasses
import json
import logging
import re
import shutil

import keras
import numpy as np
import pytest
import sacrebleu
from keras import ops

from keras_attn_zoo.errors import UserError
from keras_attn_zoo.evaluation.alignments import alignment_scores, read_alignments
from keras_attn_zoo.experiments.curves import curves
from keras_attn_zoo.experiments.drawing import draw_run
from keras_attn_zoo.experiments.loading import load_translator
from keras_attn_zoo.experiments.preparation import build_translator, compile_translator
from keras_attn_zoo.experiments.run_folder import RunFolder
from keras_attn_zoo.experiments.scoring import likelihood, score_run, training_summary
from keras_attn_zoo.experiments.system import System
from keras_attn_zoo.experiments.table import markdown_table, results_table
from keras_attn_zoo.experiments.training import train_system
from keras_attn_zoo.training.callbacks import ResumableState, RunLog, read_log
from tests.tiny_run import TINY

NUMBERS = ("loss", "perplexity", "accuracy", "gradient_norm", "tokens", "learning_rate")


def numbers(folder):
    """The log without wall times."""
    return [{k: v for k, v in line.items() if k not in ("seconds", "shape")} for line in read_log(folder / "log.jsonl")]


def test_run_folder_holds_everything(trained, corpus):
    run = RunFolder(trained)
    assert run.system() == TINY
    assert run.corpus().items() >= corpus.description.items()
    lines = read_log(run.log)
    steps = [line for line in lines if "shape" in line]
    rounds = [line for line in lines if "round" in line]
    assert [line["step"] for line in steps] == list(range(1, 13))
    assert [line["round"] for line in rounds] == [1, 2, 3, 4]
    assert all(set(NUMBERS) <= line.keys() for line in steps)
    assert {"val_loss", "val_perplexity", "val_accuracy"} <= rounds[0].keys() and "val_gradient_norm" not in rounds[0]
    assert json.loads(run.environment.read_text())["backend"]


def test_a_round_reports_the_mean_over_its_tokens(trained):
    lines = read_log(trained / "log.jsonl")
    steps = [line for line in lines if "shape" in line][:3]
    first_round = next(line for line in lines if "round" in line)
    tokens = sum(line["tokens"] for line in steps)
    assert first_round["tokens"] == tokens
    assert np.isclose(first_round["loss"], sum(line["loss"] * line["tokens"] for line in steps) / tokens, rtol=1e-5)


def test_scores_are_those_of_the_written_files(trained, corpus):
    run = RunFolder(trained)
    scores = run.read_scores()["test"]
    hypotheses = run.hypotheses("test").read_text(encoding="utf-8").splitlines()
    references = [target for _, target in corpus.splits.test]
    assert len(hypotheses) == len(references)
    bleu = sacrebleu.corpus_bleu(hypotheses, [references])
    assert np.isclose(scores["text"]["metrics"]["bleu"]["score"], bleu.score)
    links = read_alignments(run.alignment("test"))
    assert np.isclose(scores["alignment"]["aer"], alignment_scores(links, [gold for *_, gold in corpus.gold]).aer)
    assert np.isclose(scores["perplexity"], np.exp(scores["loss"]), rtol=1e-5)
    assert scores["tokens"] == sum(len(reference.split()) + 1 for reference in references)


@pytest.mark.parametrize("stop_at", [1, 7])
def test_a_stopped_run_resumes_to_the_numbers_of_an_uninterrupted_one(trained, corpus, tmp_path, monkeypatch, stop_at):
    folder = tmp_path / "run"
    taken = []
    write = RunLog.on_train_batch_end

    def stop(self, batch, logs=None):
        write(self, batch, logs)
        taken.append(batch)
        if len(taken) == stop_at:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RunLog, "on_train_batch_end", stop)
        with pytest.raises(KeyboardInterrupt):
            train_system(TINY, corpus, folder)
    train_system(TINY, corpus, folder, resume=True)
    assert numbers(folder) == numbers(trained)
    with np.load(folder / "state.npz") as ours, np.load(trained / "state.npz") as theirs:
        assert len(ours.files) == len(theirs.files)
        assert all(np.array_equal(ours[name], theirs[name]) for name in ours.files)


def test_resuming_an_ended_run_changes_nothing(trained, corpus, tmp_path, caplog):
    folder = tmp_path / "run"
    shutil.copytree(trained, folder)
    caplog.set_level(logging.INFO, "keras_attn_zoo")
    train_system(TINY, corpus, folder, resume=True)
    assert caplog.messages[-1] == "training has ended already"
    assert numbers(folder) == numbers(trained)


def test_a_folder_that_is_taken_is_refused_before_anything_is_written(trained, corpus, tmp_path):

    def written():
        """When each file was; a lock that comes and goes changes the time of its folder."""
        return {path: path.stat().st_mtime_ns for path in trained.rglob("*") if path.is_file()}

    before = written()
    with pytest.raises(UserError, match="holds a run already: resume it with --resume"):
        train_system(TINY, corpus, trained)
    with pytest.raises(UserError, match=r"other settings \(system.seed\)"):
        train_system(TINY.override(seed=4), corpus, trained, resume=True)
    with pytest.raises(UserError, match=r"other settings \(system.backbone.hidden_dim\)"):
        train_system(TINY.override(hidden_dim=13), corpus, trained, resume=True)
    assert before == written()
    other = dataclasses.replace(corpus, splits=corpus.splits._replace(train=corpus.splits.train[1:]))
    with pytest.raises(UserError, match=r"other settings \(corpus.fingerprint\)"):
        train_system(TINY, other, trained, data_folder=tmp_path / "data", resume=True)
    shutil.rmtree(tmp_path / "data")
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="not empty and holds no run"):
        train_system(TINY, corpus, tmp_path)


def test_a_damaged_or_foreign_state_is_refused(trained, corpus, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(trained, folder)
    whole = (folder / "state.npz").read_bytes()
    (folder / "state.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match="is damaged"):
        train_system(TINY, corpus, folder, resume=True)
    config = json.loads((folder / "config.json").read_text())
    config["system"]["backbone"]["hidden_dim"] = 14
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "state.npz").write_bytes(whole)
    with pytest.raises(UserError, match="belongs to another model"):
        train_system(TINY.override(hidden_dim=14), corpus, folder, resume=True)
    with np.load(folder / "state.npz") as arrays:
        arrays = dict(arrays)
    settings = {**json.loads(str(arrays["settings"])), "backend": "theano"}
    np.savez(folder / "state.npz", **{**arrays, "settings": np.array(json.dumps(settings))})
    with pytest.raises(UserError, match="begun under theano"):
        train_system(TINY.override(hidden_dim=14), corpus, folder, resume=True)


def test_a_preset_stands_for_itself(trained, tmp_path):
    preset = shutil.copytree(trained / "best", tmp_path / "preset")
    sentences = ["kalo", "mi fi do"]
    # A preset has no settings of a search: they are given.
    found, wanted = (load_translator(path, 3, 0.5).translate(sentences, n_best=3) for path in (preset, trained))
    assert [[(h.text, h.score) for h in one] for one in found] == [[(h.text, h.score) for h in one] for one in wanted]
    with pytest.raises(UserError, match="is not a run folder"):
        RunFolder(preset).system()
    with pytest.raises(UserError, match="holds no run"):
        RunFolder(preset).check_free()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("config.json", b"{", "/config.json is damaged: it is not JSON"),
        ("model.weights.h5", b"nothing", " is not a translator preset, or is damaged: "),
        ("task.json", None, " is not a translator preset, or is damaged: "),
    ],
)
def test_a_damaged_preset_is_one_line(trained, tmp_path, name, content, message):
    preset = tmp_path / "preset"
    shutil.copytree(trained / "best", preset)
    # As one from before there were checksums, which would tell at once.
    (preset / "checksums.json").unlink()
    if content is None:
        (preset / "config.json").unlink()
    else:
        (preset / name).write_bytes(content)
    with pytest.raises(UserError) as error:
        load_translator(preset)
    assert str(error.value).startswith(f"{preset}{message}")
    assert "\n" not in str(error.value)


def test_what_is_no_run_is_said(tmp_path):
    with pytest.raises(UserError, match="no run folder or preset"):
        load_translator(tmp_path / "nowhere")
    with pytest.raises(UserError, match="is not a run folder"):
        RunFolder(tmp_path).system()
    with pytest.raises(UserError, match="no run is scored on 'test'"):
        results_table([tmp_path])


def test_settings_of_a_search_are_checked(trained):
    with pytest.raises(UserError, match="search_top_k must be a whole number from 0 to 10,000 or None; received -1"):
        load_translator(trained, search_top_k=-1)
    with pytest.raises(UserError, match="beams must be a whole number from 1 to 1,000; received 0"):
        load_translator(trained, beams=0)


def test_settings_round_trip_and_unknown_ones_are_listed():
    assert System.from_dict(json.loads(json.dumps(TINY.to_dict()))) == TINY
    with pytest.raises(UserError, match=r"no setting 'epoch': choose one of .*epochs"):
        TINY.override(epoch=1)
    for wrong in ({"epochs": "three"}, {"epochs": 0}, {"joint": 1}, {"accumulation_steps": 0}, {"schedule": "cosine"}):
        with pytest.raises(UserError, match=f"the setting {next(iter(wrong))} "):
            TINY.override(**wrong)
    with pytest.raises(UserError, match="do not fit this version"):
        System.from_dict({**TINY.to_dict(), "colour": "red"})


def test_settings_that_do_not_fit_together_are_refused():
    plain = System("plain", {"width": 8, "num_heads": 2}, body="transformer")
    for system, settings, text in (
        (TINY, {"output": "latent"}, "received body='rnn', output='latent'"),
        (plain, {"teacher_forcing": 0.5}, "received body='transformer'"),
        (plain, {"pretraining_rounds": 1}, "adds encoder layers of an RNN"),
        (TINY, {"search_top_k": 0}, "search_top_k=0"),
        (plain, {"tie_embeddings": "all"}, "needs joint=True; received joint=False"),
        (plain, {"num_heads": 0}, "num_heads must be a whole number from 1 to 1,024; received 0"),
        (TINY, {"dropout": 1.5}, "dropout must be a number of at least 0 and below 1; received 1.5"),
    ):
        with pytest.raises(UserError, match=text):
            system.override(**settings)


def test_no_run_begins_that_could_not_translate_as_long_as_it_may(corpus, tmp_path):
    system = System("short", {"width": 8, "num_heads": 2, "max_length": 24}, body="transformer").override(max_tokens=20)
    with pytest.raises(UserError, match=r"max_length=24 is less than the 25 tokens .* with max_tokens=20"):
        train_system(system, corpus, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("wrong", [{"cross_attention": "bahdanow"}, {"encoder_attention": ["multi_head"]}])
def test_no_run_begins_with_an_attention_that_cannot_be_made(corpus, tmp_path, wrong):
    system = TINY
    if "encoder_attention" in wrong:
        system = System("plain", {"width": 8, "num_heads": 2, "encoder_layers": 2}, body="transformer")
    with pytest.raises(UserError, match=r"is no cross attention|1 mechanisms for 2 layers"):
        train_system(system.override(**wrong), corpus, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_likelihood_of_a_text_of_many_lengths(trained):
    """Like the one of all sentences padded to the longest, in one batch."""
    translator = load_translator(trained, max_tokens=40)
    pairs = [("rot haus " * n, "red house " * m) for n, m in ((1, 1), (2, 1), (1, 4), (9, 2), (2, 18))]
    x, y, weights = translator.preprocessor.call(
        {"encoder_text": [source for source, _ in pairs], "decoder_text": [target for _, target in pairs]}
    )
    wanted = translator.evaluate(x, y, sample_weight=weights, verbose=0, return_dict=True)
    found = likelihood(translator, pairs)
    assert found.keys() == {"loss", "perplexity", "accuracy", "tokens"}
    assert found == pytest.approx({name: float(wanted[name]) for name in found}, rel=1e-5)
    assert found["tokens"] == 57


def test_free_running_likelihood_is_that_of_the_own_guesses(trained):
    """Given tokens that are the model's own best guesses one by one, but scored on the references."""
    translator = load_translator(trained)
    pairs = [("rot haus", "house red"), ("der hund geht", "the dog goes")]
    x, y, weights = translator.preprocessor.call(
        {"encoder_text": [source for source, _ in pairs], "decoder_text": [target for _, target in pairs]}
    )
    given, losses = np.array(x["decoder_token_ids"]), []
    for i in range(int(weights.sum(axis=1).max())):
        logits = keras.Model.predict_on_batch(translator, {**x, "decoder_token_ids": given})["logits"][:, i]
        log_probs = logits - np.log(np.sum(np.exp(logits), axis=-1, keepdims=True))
        losses.append(-log_probs[range(len(pairs)), y[:, i]])
        given[:, i + 1 : i + 2] = log_probs.argmax(axis=-1)[:, None]
    wanted = np.sum(np.stack(losses, axis=1) * weights[:, : len(losses)]) / np.sum(weights)
    found = likelihood(translator, pairs, free_running=True)
    assert found["loss"] == pytest.approx(wanted, rel=1e-5)
    assert found["perplexity"] == pytest.approx(np.exp(wanted), rel=1e-5)
    assert abs(found["loss"] - likelihood(translator, pairs)["loss"]) > 1e-3


def test_a_table_ranked_by_a_score(trained, tmp_path):
    folders = [shutil.copytree(trained, tmp_path / name) for name in "abc"]
    for folder, value in zip(folders, (9.0, None, 3.0), strict=True):
        scores = {name: one for name, one in RunFolder(folder).read_scores()["test"].items() if name != "free_running"}
        own = {} if value is None else {"free_running": {"perplexity": value}}
        RunFolder(folder).add_scores("test", {**scores, **own})

    def rows(**arguments):
        return [line.split("|")[1].strip() for line in results_table(folders, **arguments).splitlines()[2:5]]

    assert rows() == ["a", "b", "c"]
    assert rows(rank_by=lambda scores: scores["free_running"]["perplexity"]) == ["c", "a", "b"]


def test_curves_of_folders_of_one_name(trained, tmp_path):
    other = tmp_path / "other" / trained.name
    shutil.copytree(trained, other)
    assert list(curves([trained, other])) == [str(trained), str(other)]
    assert list(curves([trained])) == [trained.name]


def test_pictures_stand_in_the_folder(trained, corpus, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(trained, folder)
    paths = draw_run(folder, load_translator(folder), corpus.splits.test, corpus.gold, count=2)
    assert [path.name for path in paths] == ["attention-1.png", "attention-2.png", "curves.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") and path.parent == folder / "pictures" for path in paths)


def test_empty_sentences_are_not_drawn(trained, corpus, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(trained, folder)
    blank = [("", ""), ("rot haus", ""), (" ", "house")]
    paths = draw_run(folder, load_translator(folder), [*blank, corpus.splits.test[0]], count=2)
    assert [path.name for path in paths] == ["attention-1.png", "curves.png"]


def test_a_number_that_no_round_has_is_named_with_those_it_has(trained):
    with pytest.raises(UserError, match=r"has no val_lossy: choose one of .*val_loss"):
        curves([trained], "val_lossy")


@pytest.mark.parametrize("name", ["environment.json", "log.jsonl", "scores.json"])
def test_a_run_folder_that_is_damaged_is_scored_wholly_or_not_at_all(trained, corpus, tmp_path, name):
    folder = tmp_path / "run"
    shutil.copytree(trained, folder)
    (folder / name).write_text("{}}\n")
    before = sorted(folder.rglob("*"))
    with pytest.raises(UserError, match=re.escape(name)):
        score_run(folder, load_translator(folder), corpus.splits.test, name="other")
    assert sorted(folder.rglob("*")) == before


def test_table_and_curves_come_from_the_folder(trained):
    table = results_table([trained], paper={"tiny": {"BLEU": "17.75"}})
    scores = RunFolder(trained).read_scores()["test"]
    assert f" {scores['free_running']['perplexity']:.2f} |" in table
    row = next(line for line in table.splitlines() if line.startswith("| tiny"))
    assert f"{scores['text']['metrics']['bleu']['score']:.1f} (paper: 17.75)" in row
    assert f"{100 * scores['alignment']['aer']:.1f}" in row
    assert scores["text"]["metrics"]["bleu"]["signature"] in table
    ((name, (steps, values)),) = curves([trained]).items()
    assert name == "tiny" and steps == [3, 6, 9, 12] and values[-1] == read_log(trained / "log.jsonl")[-1]["val_loss"]


def test_training_summary_is_that_of_the_log(trained):
    steps = [line for line in read_log(trained / "log.jsonl") if "shape" in line]
    summary = training_summary(RunFolder(trained))
    assert summary["steps"] == 12 and summary["rounds"] == 4
    assert np.isclose(summary["seconds"], sum(line["seconds"] for line in steps))
    first, *rest = (line["seconds"] for line in steps)
    assert np.isclose(summary["compilation_seconds"], max(0, first - np.median(rest)))


def test_markdown_table_has_one_width_a_column():
    table = markdown_table(["system", "BLEU"], [["a", "1.0"], ["longer name", "10.0"]])
    assert len({len(line) for line in table.splitlines()}) == 1
    assert table.splitlines()[1].endswith(":|")


def test_best_by_bleu_and_early_stopping(corpus, tmp_path, caplog):
    system = TINY.override(
        best_by="bleu", bleu_sentences=4, patience=1, learning_rate=1e-9, epochs=5, schedule="constant"
    )
    run = train_system(system, corpus, tmp_path / "run")
    rounds = [line for line in read_log(run.log) if "round" in line]
    assert all("val_bleu" in line for line in rounds)
    assert len(rounds) < 10, "no gain, so it stopped early"
    caplog.set_level(logging.INFO, "keras_attn_zoo")
    train_system(system, corpus, tmp_path / "run", resume=True)
    assert caplog.messages[-1] == "training has ended already"


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
    with pytest.raises(
        UserError, match="4 rounds of validation end at 2 of 3 encoder layers with pretraining_rounds=2"
    ):
        train_system(too_short, corpus, tmp_path / "short")
    assert not (tmp_path / "short" / "config.json").exists()


def test_what_a_grown_model_takes_over(corpus, tmp_path):
    """Weights and optimiser of the layers that were there; the new layer begins as it was built."""
    system = TINY.override(encoder_layers=2)
    run = train_system(TINY.override(epochs=0.5), corpus, tmp_path / "run")
    with np.load(run.state) as arrays:
        saved = json.loads(str(arrays["settings"]))["names"]
        saved = {name: arrays[str(i)] for i, name in enumerate(saved)}
    paths = sorted((run.path / "data").rglob("*.spm"))
    translator = build_translator(system, paths, system.data.max_tokens)
    compile_translator(translator, system)
    before = {v.path: ops.convert_to_numpy(v) for v in translator.trainable_variables}

    class Batches:
        def set_round(self, number):
            assert number == 1

    state = ResumableState(run.state, Batches())
    state.read()
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
