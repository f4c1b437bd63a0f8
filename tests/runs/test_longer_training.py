"""A run that is resumed with a larger budget ends as one that was given it at once, or says why it cannot."""

import numpy as np
import pytest

from keras_attn_zoo.runs.training import train_system
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.training.run_log import RunLog, read_steps
from tests.tiny_run import TINY, assert_same_training, interrupted_after, weights_of

# Rounds have three steps.
AVERAGED = TINY.override(average=2, keep_best=1, ema_momentum=0.75)
LONG = {"budget": "11steps"}


def assert_same(run, other):
    """To the last bit: log, state, and every preset."""
    assert_same_training(run, other)
    presets = [sorted(path.relative_to(one.path) for path in one.path.rglob("metadata.json")) for one in (run, other)]
    assert presets[0] == presets[1]
    for path in presets[0]:
        ours, theirs = (weights_of((one.path / path).parent).values() for one in (run, other))
        assert all(map(np.array_equal, ours, theirs)), path
    assert run.system() == other.system()


@pytest.fixture(scope="module")
def at_once(tmp_path_factory, corpus):
    return train_system(AVERAGED.override(**LONG), corpus, tmp_path_factory.mktemp("at_once") / "run")


# In whole epochs, within a round, at the end of one, and within the first.
@pytest.mark.parametrize(
    "short",
    [
        pytest.param({"epochs": 1.0}, marks=pytest.mark.slow),
        pytest.param({"budget": "8steps"}, marks=[pytest.mark.every_backend, pytest.mark.slow_compiled]),
        pytest.param({"budget": "6steps"}, marks=pytest.mark.slow),
        {"budget": "2steps", "average": None},
    ],
    ids=str,
)
def test_a_larger_budget_gives_the_same_bits_as_at_once(at_once, corpus, tmp_path, short):
    folder = tmp_path / "run"
    if short.get("average", 1) is None:
        at_once = train_system(AVERAGED.override(**LONG, average=None), corpus, tmp_path / "at_once")
    first = train_system(AVERAGED.override(**short), corpus, folder)
    assert len(read_steps(first.log)) < 11
    run = train_system(
        AVERAGED.override(**{**short, **LONG, "epochs": TINY.training.epochs}), corpus, folder, resume=True
    )
    assert_same(run, at_once)


@pytest.mark.slow
def test_the_best_round_may_be_one_that_ended_early(corpus, tmp_path, monkeypatch):
    """The third round, of two steps, has the lowest loss; as a whole round it has not, and the second is the best."""
    write = RunLog.on_epoch_end

    def given(self, epoch, logs=None):
        logs["val_loss"] = {3: 3.0, 6: 2.0, 8: 1.0, 9: 2.5, 11: 4.0}[self.step]
        write(self, epoch, logs)

    monkeypatch.setattr(RunLog, "on_epoch_end", given)
    at_once = train_system(AVERAGED.override(**LONG), corpus, tmp_path / "at_once")
    run = train_system(AVERAGED.override(budget="8steps"), corpus, tmp_path / "run")
    assert run.earlier_best.exists()
    best, earlier = weights_of(run.best), weights_of(run.earlier_best)
    assert any((best[path] != earlier[path]).any() for path in best)
    # Stopped once more on the way.
    with interrupted_after(2):
        train_system(AVERAGED.override(**LONG), corpus, run.path, resume=True)
    assert_same(train_system(AVERAGED.override(**LONG), corpus, run.path, resume=True), at_once)


def test_what_depends_on_its_end_cannot_be_made_longer(corpus, tmp_path):
    cosine = TINY.override(schedule="cosine", warmup_steps=1, epochs=1.0)
    run = train_system(cosine, corpus, tmp_path / "run")
    files = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}
    with pytest.raises(UserError, match="started with epochs=1, now budget=11steps: with schedule=cosine, the rate of"):
        train_system(cosine.override(**LONG), corpus, run.path, resume=True)
    assert files == {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}


@pytest.mark.parametrize("budget", ["12steps", "9tokens"])
def test_less_is_refused(run, corpus, budget):
    with pytest.raises(UserError, match=rf"has been trained for .*, which budget={budget} does not exceed: give more"):
        train_system(TINY.override(budget=budget), corpus, run.path, resume=True)
    assert run.system() == TINY


def test_scores_after_parts_of_the_steps_and_other_settings_still_have_to_agree(run, corpus):
    for more, options in (({}, {"bleu_after": (25,)}), ({"dropout": 0.5}, {})):
        with pytest.raises(UserError, match="was started with different settings"):
            train_system(TINY.override(budget="40steps", **more), corpus, run.path, resume=True, **options)
