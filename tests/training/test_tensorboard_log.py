"""What TensorBoard is given is what the log has; and callbacks of one's own."""

import sys
import types

import keras
import pytest

from keras_attn_zoo.runs.training import train_system
from keras_attn_zoo.support import extras
from keras_attn_zoo.support.extras import MissingPackageError
from keras_attn_zoo.training.run_log import read_log
from tests.tiny_run import TINY, interrupted_after

pytestmark = pytest.mark.one_backend


class Writer:
    """In the place of TensorBoard's: keeps what it is given, by folder."""

    given: dict = {}

    def __init__(self, folder):
        self.folder = folder
        Writer.given[folder] = []

    def add_scalar(self, tag, data, step):
        Writer.given[self.folder].append((tag, step, data))

    def flush(self):
        pass

    close = flush


def scalars(log):
    found = []
    for line in read_log(log):
        kind = "round" if "round" in line else "step"
        places = {"step", "round", "shape"}
        found += [(f"{kind}/{name}", line["step"], one) for name, one in line.items() if name not in places]
    return found


def test_scalars_are_those_of_the_log_also_of_a_resumed_run(corpus, tmp_path, monkeypatch):
    modules = {"tensorboard": types.ModuleType("tensorboard"), "tensorboard.summary": types.ModuleType("summary")}
    modules["tensorboard.summary"].Writer = Writer
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    with interrupted_after(7):
        train_system(TINY, corpus, tmp_path / "run", tensorboard=True)
    run = train_system(TINY, corpus, tmp_path / "run", resume=True, tensorboard=True)
    written = Writer.given[str(run.tensorboard)]
    assert written == scalars(run.log)
    assert {"step/loss", "step/learning_rate", "round/val_loss"} <= {tag for tag, *_ in written}


def test_tensorboard_reads_them(corpus, tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = train_system(TINY.override(epochs=0.5), corpus, tmp_path / "run", tensorboard=True)
    read = EventAccumulator(str(run.tensorboard))
    read.Reload()
    for tag in read.Tags()["tensors"]:
        found = [(event.step, event.tensor_proto.float_val[0]) for event in read.Tensors(tag)]
        wanted = [(step, value) for one, step, value in scalars(run.log) if one == tag]
        assert found == [(step, pytest.approx(value)) for step, value in wanted]


def test_without_the_package_nothing_begins(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(extras, "is_installed", lambda module: module != "tensorboard")
    with pytest.raises(MissingPackageError, match=r"needs tensorboard: pip install 'keras-attn-zoo\[tensorboard\]'"):
        train_system(TINY, corpus, tmp_path / "run", tensorboard=True)
    assert not (tmp_path / "run").exists()


def test_callbacks_of_ones_own_are_called_with_what_is_logged(corpus, tmp_path):
    rounds, steps = [], []
    counting = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: rounds.append((epoch + 1, logs["val_loss"])),
        on_train_batch_end=lambda batch, logs: steps.append(logs["loss"]),
    )
    run = train_system(TINY.override(epochs=1.0), corpus, tmp_path / "run", callbacks=[counting])
    lines = read_log(run.log)
    assert rounds == [(line["round"], line["val_loss"]) for line in lines if "round" in line]
    assert steps == pytest.approx([line["loss"] for line in lines if "shape" in line])
