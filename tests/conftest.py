"""Set-up of all tests: quiet libraries, and no TensorFlow where it is not the backend."""

import collections
import gc
import os
import shutil
import sys

import pytest

from tests.__main__ import ONE_BACKEND
from tests.budgets import Budgets

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "jax")
# Most programs are run once: it takes longer to optimise them than to run them as they are.
# A second device, which the tests of several devices use, costs nothing.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1 "
    "--xla_force_host_platform_device_count=2",
)
if os.environ["KERAS_BACKEND"] != "tensorflow":
    # Proves that the package needs no TensorFlow, and saves the seconds that its import takes.
    sys.modules["tensorflow"] = None
    sys.modules["tensorflow_text"] = None
else:
    import tensorflow as tf

    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    # Its dependency optimiser lets the update of a weight overtake the reading of it where the gradient does not
    # depend on the value: so in a loss that is linear in a weight. No translator's loss is, those of the tests are.
    tf.config.optimizer.set_experimental_options({"dependency_optimization": False})


@pytest.fixture(scope="session", autouse=True)
def no_collection_by_keras():
    """Keras collects garbage for every kernel that int8 takes the place of, which takes longer than the rest."""
    collect = gc.collect

    def collect_for_others(*generation):
        by_keras = sys._getframe(1).f_globals["__name__"] == "keras.src.layers.layer"
        return 0 if by_keras else collect(*generation)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gc, "collect", collect_for_others)
        yield


@pytest.fixture(scope="session")
def corpus():
    """A tiny corpus with gold alignments."""
    from tests.tiny_run import make_corpus

    return make_corpus()


@pytest.fixture(scope="session")
def trained(tmp_path_factory, corpus):
    """A trained and scored run folder; tests leave its system, log and "test" scores as they are."""
    from keras_attn_zoo.runs.loading import load_translator
    from keras_attn_zoo.runs.scoring import score_run
    from keras_attn_zoo.runs.training import train_system
    from tests.tiny_run import TINY

    folder = tmp_path_factory.mktemp("runs") / "tiny"
    train_system(TINY, corpus, folder)
    score_run(folder, load_translator(folder), corpus.test)
    return folder


@pytest.fixture
def run(trained, tmp_path):
    """A copy of the trained run, which a test may change."""
    from keras_attn_zoo.runs.run_folder import RunFolder

    return RunFolder(shutil.copytree(trained, tmp_path / "run"))


@pytest.fixture
def softmaxes(monkeypatch):
    """A list with an entry for every softmax of attention weights that is computed."""
    from keras_attn_zoo.layers.base import normalizers

    softmax, calls = normalizers.NORMALIZERS["softmax"], []

    def counted(*args):
        calls.append(args)
        return softmax(*args)

    monkeypatch.setitem(normalizers.NORMALIZERS, "softmax", counted)
    return calls


@pytest.fixture
def encodings(monkeypatch):
    """How often each sentence was encoded by each subword model, by checksum and sentence."""
    from keras_attn_zoo.data.subwords import Subwords

    counts, encode = collections.Counter(), Subwords.encode

    def count(self, sentences):
        sentences = list(sentences)
        counts.update((self.checksum, sentence) for sentence in sentences)
        return encode(self, sentences)

    monkeypatch.setattr(Subwords, "encode", count)
    return counts


# Laws: tests that share nothing, and are many.
SPREAD = ("test_attention_laws.py", "test_attention_inputs.py", "test_attention_masks.py")
# Folders whose tests say the same under every backend: what stands above models and search is text, files and numbers.
ALIKE = {
    *("tests", "support", "viewing", "cli", "data", "evaluation", "runs", "studies", "corpora"),
    *("hostile", "checkpoints", "unicode"),
}
# Folders of what stands between layers and those. Programs are compiled for each model there: by day this is done for
# two bodies alone, in `tests/matrix`, and at night for all.
ABOVE_LAYERS = {"bodies", "presets", "strangers", "translators"}


def pytest_configure(config):
    config.pluginmanager.register(Budgets(os.environ["KERAS_BACKEND"]))


def pytest_ignore_collect(collection_path, config):
    """Leave out files of which nothing would run: what they import takes seconds."""
    marks = config.option.markexpr
    if "not one_backend" not in marks or not collection_path.match("test_*.py"):
        return None
    left_out = ALIKE | (ABOVE_LAYERS if "not slow" in marks else set())
    here = collection_path.parent.name in left_out
    return True if here and "every_backend" not in collection_path.read_text(encoding="utf-8") else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark what runs under one backend, or seldom; keep tests that share a fixture or cached results in one worker.

    All cases of a test but the first one are `long`, unless it is a law. Laws come last: a worker that is done with its
    groups takes of them.
    """
    seen = set()
    for item in items:
        folder, everywhere = item.path.parent.name, item.get_closest_marker("every_backend")
        at_night = item.get_closest_marker("slow_compiled") or (folder in ABOVE_LAYERS and not everywhere)
        if os.environ["KERAS_BACKEND"] != ONE_BACKEND and at_night:
            item.add_marker(pytest.mark.slow)
        if folder in ALIKE and not everywhere:
            item.add_marker(pytest.mark.one_backend)
        if item.path.name not in SPREAD:
            group = "trained" if "trained" in item.fixturenames else item.path.name
            item.add_marker(pytest.mark.xdist_group(group))
            if not (item.get_closest_marker("slow") or item.get_closest_marker("long")):
                test = item.nodeid.partition("[")[0]
                if test in seen:
                    item.add_marker(pytest.mark.long)
                seen.add(test)
    items.sort(key=lambda item: item.path.name in SPREAD)


def pytest_collection_finish():
    """What is imported stays."""
    gc.freeze()
