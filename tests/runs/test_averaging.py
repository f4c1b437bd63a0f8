"""Checkpoints that are kept, their mean, and the moving average with which rounds are scored and saved."""

import logging

import numpy as np
import pytest
from keras import ops

from keras_attn_zoo import cli
from keras_attn_zoo.runs.averaging import average_models, checkpoints_of
from keras_attn_zoo.runs.finished_run import score_and_draw
from keras_attn_zoo.runs.loading import load_translator
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.runs.training import train_system
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.training.resumable_state import ResumableState
from keras_attn_zoo.training.run_log import RunLog, read_log
from tests.tiny import translator
from tests.tiny_run import TINY, TINY_TRANSFORMER, assert_same_training, interrupted_after, mean_loss, weights_of

MOMENTUM = 0.75
AVERAGED = TINY.override(average=2, keep_best=1, ema_momentum=MOMENTUM)
TRANSFORMER = TINY_TRANSFORMER.override(average=2, keep_best=1, ema_momentum=MOMENTUM)


@pytest.fixture(scope="module")
def averaged(tmp_path_factory, corpus):
    return train_system(AVERAGED, corpus, tmp_path_factory.mktemp("averaged") / "run")


def kept_in(run):
    return sorted(path.name for path in run.checkpoints.iterdir())


def test_the_last_and_the_best_rounds_are_kept(averaged, corpus, tmp_path, monkeypatch):
    """Of rounds with losses 2, 1, 3, 4, two of each: the last are 3 and 4, the best 1 and 2."""
    assert kept_in(averaged) == ["round-3", "round-4"]
    write, losses = RunLog.on_epoch_end, [2.0, 1.0, 3.0, 4.0]

    def given(self, epoch, logs=None):
        logs["val_loss"] = losses[epoch]
        write(self, epoch, logs)

    monkeypatch.setattr(RunLog, "on_epoch_end", given)
    run = train_system(TINY.override(keep_last=1, keep_best=2), corpus, tmp_path / "run")
    assert kept_in(run) == ["round-1", "round-2", "round-4"]
    assert [path[-7:] for path in checkpoints_of(run, best=2)] == ["round-2", "round-1"]
    for which, count in (("last", 2), ("best", 3)):
        with pytest.raises(UserError, match=rf"of its {count} {which} rounds: train with keep_{which}={count}"):
            checkpoints_of(run, **{which: count})


def test_the_average_is_the_mean_of_the_last_rounds(averaged):
    rounds = [weights_of(averaged.checkpoints / f"round-{number}") for number in (3, 4)]
    for path, found in weights_of(averaged.average).items():
        mean = np.mean([one[path].astype("float64") for one in rounds], axis=0)
        np.testing.assert_allclose(found, mean, rtol=1e-7)
    assert any((rounds[0][path] != rounds[1][path]).any() for path in rounds[0])


@pytest.mark.every_backend
@pytest.mark.slow_compiled
@pytest.mark.parametrize(
    "system", [pytest.param(AVERAGED, id="rnn"), pytest.param(TRANSFORMER, id="transformer", marks=pytest.mark.slow)]
)
def test_rounds_are_saved_with_the_moving_average(system, corpus, tmp_path, monkeypatch):
    """a(1) = w(1), a(t) = μ a(t-1) + (1 - μ) w(t), in float64; the state keeps w and a."""
    write, weights = RunLog.on_train_batch_end, []

    def record(self, batch, logs=None):
        write(self, batch, logs)
        if hasattr(self.model, "jax_state_sync"):
            self.model.jax_state_sync()
        weights.append({v.path: ops.convert_to_numpy(v).astype("float64") for v in self.model.trainable_variables})

    monkeypatch.setattr(RunLog, "on_train_batch_end", record)
    run = train_system(system.override(keep_last=4), corpus, tmp_path / "run")
    averages = [weights[0]]
    for later in weights[1:]:
        averages.append({p: MOMENTUM * averages[-1][p] + (1 - MOMENTUM) * later[p] for p in later})
    for number in range(1, 5):
        saved = weights_of(run.checkpoints / f"round-{number}")
        for (_, found), (path, wanted) in zip(saved.items(), averages[3 * number - 1].items(), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6, err_msg=path)


def test_the_validation_is_of_the_average_too(averaged, corpus):
    valid = list(map(list, zip(*corpus.splits.valid, strict=True)))
    *_, last = (line for line in read_log(averaged.log) if "round" in line)
    scored = load_translator(averaged.checkpoints / "round-4").score(*valid)
    assert np.isclose(last["val_loss"], mean_loss(scored), rtol=1e-5)


@pytest.mark.parametrize(
    "stop_at",
    [
        pytest.param(4, marks=pytest.mark.slow),
        pytest.param(8, marks=[pytest.mark.every_backend, pytest.mark.slow_compiled]),
    ],
)
def test_a_stopped_run_keeps_and_averages_what_an_uninterrupted_one_does(averaged, corpus, tmp_path, stop_at):
    folder = tmp_path / "run"
    with interrupted_after(stop_at):
        train_system(AVERAGED, corpus, folder)
    run = train_system(AVERAGED, corpus, folder, resume=True)
    assert_same_training(run, averaged)
    assert kept_in(run) == kept_in(averaged)
    with np.load(run.state) as state:
        assert "average" in str(state["settings"])
    for name in ("best", "average", "checkpoints/round-3"):
        ours, theirs = (weights_of(one.path / name).values() for one in (run, averaged))
        assert all(map(np.array_equal, ours, theirs))


def test_an_average_that_a_kill_has_prevented_is_made_on_resuming(averaged, corpus, tmp_path, monkeypatch):
    run = RunFolder(tmp_path / "run")
    save = ResumableState.on_epoch_end

    def stop(self, epoch, logs=None):
        save(self, epoch, logs)
        if epoch == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(ResumableState, "on_epoch_end", stop)
        train_system(AVERAGED, corpus, run.path)
    assert not run.average.exists()
    train_system(AVERAGED, corpus, run.path, resume=True)
    assert all(map(np.array_equal, weights_of(run.average).values(), weights_of(averaged.average).values()))


def test_the_average_is_scored_beside_the_best(averaged, corpus):
    score_and_draw(averaged.path, corpus.test, pictures=False)
    scores = averaged.read_scores()
    wanted = load_translator(averaged.average).score(corpus.test.sources, corpus.test.targets)
    assert np.isclose(scores["average"]["loss"], mean_loss(wanted), rtol=1e-5)
    assert scores["average"]["loss"] != scores["test"]["loss"]


def test_rounds_without_all_layers_are_not_kept(corpus, tmp_path, caplog):
    """Two layers from the third round on; the averages of a new layer begin with its weights, not with 0."""
    system = AVERAGED.override(encoder_layers=2, pretraining_rounds=2, ema_momentum=0.999, keep_last=4)
    run = train_system(system, corpus, tmp_path / "run")
    assert kept_in(run) == ["round-3", "round-4"]
    kernel = next(w for path, w in weights_of(run.average).items() if "forward_encoder_1" in path)
    assert np.abs(kernel).mean() > 0.1
    with pytest.raises(UserError, match="average=3 needs as many whole rounds, but training has only 2"):
        train_system(system.override(average=3), corpus, tmp_path / "other")
    assert not (tmp_path / "other" / "config.json").exists()


def test_early_stopping_averages_the_rounds_that_there_are(corpus, tmp_path, caplog):
    stopped = TINY.override(average=5, epochs=10, patience=1, learning_rate=1e-9, schedule="constant", best_by="bleu")
    caplog.set_level(logging.WARNING)
    run = train_system(stopped, corpus, tmp_path / "run")
    assert "average=5: training ended after 2 whole rounds" in caplog.text
    assert run.average.exists()


def test_models_that_do_not_fit_are_not_averaged(averaged, tmp_path):
    other = translator(hidden_dim=16)
    other.save_to_preset(tmp_path / "other")
    with pytest.raises(UserError, match=r"cannot be averaged: they differ in .*hidden_dim.*subwords"):
        average_models([averaged.path, tmp_path / "other"])
    with pytest.raises(UserError, match="at least two models; received 1"):
        average_models([averaged.path])
    other.quantize("int8")
    other.save_to_preset(tmp_path / "int8")
    with pytest.raises(UserError, match="is quantized, and integers have no mean"):
        average_models([tmp_path / "int8", tmp_path / "int8"])


def test_on_the_command_line(averaged, tmp_path, capsys):
    output = tmp_path / "mean"
    assert cli.main(["average", str(averaged.path), "--last", "2", "--output", str(output)]) == 0
    assert all(map(np.array_equal, weights_of(output).values(), weights_of(averaged.average).values()))
    for arguments, message in (
        ([str(averaged.path), "--last", "2", "--output", str(output)], "is there already"),
        ([str(averaged.path)] * 2 + ["--best", "2", "--output", str(tmp_path / "x")], "take one run folder"),
        ([str(averaged.best), "--best", "2", "--output", str(tmp_path / "x")], "is not a run folder"),
    ):
        assert cli.main(["average", *arguments]) == 2
        assert message in capsys.readouterr().err
