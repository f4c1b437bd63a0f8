"""A state.npz that no training has saved: resuming says what is wrong with it, and trains nothing."""

import io
import json
import shutil

import numpy as np
import pytest

from keras_attn_zoo.runs.resuming import check_resumable
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.runs.training import train_system
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.training.resumable_state import ResumableState
from tests.tiny_run import TINY


@pytest.fixture(scope="module")
def run(trained, tmp_path_factory):
    """A copy of a trained run, whose state the tests replace."""
    return RunFolder(shutil.copytree(trained, tmp_path_factory.mktemp("altered") / "run"))


def altered(state, change):
    """The bytes of a state after a change to its arrays, by the names of variables, and to its settings."""
    with np.load(state) as arrays:
        arrays = dict(arrays)
    settings = json.loads(str(arrays.pop("settings")))
    named = {settings["names"][int(key)] if key.isdecimal() else key: array for key, array in arrays.items()}
    text = change(named, settings) or json.dumps(settings)
    places = {name: str(place) for place, name in enumerate(settings["names"])}
    file = io.BytesIO()
    np.savez(file, settings=np.array(text), **{places.get(name, name): array for name, array in named.items()})
    return file.getvalue()


def array(part, change):
    """Change the first array with a name that has this part."""

    def made(named, settings):
        name = next(one for one in named if part in one)
        named[name] = np.asarray(change(named[name]))

    return made


def setting(**values):
    return lambda named, settings: settings.update(values)


def counter(name, value):
    """Change a counter of all callbacks that have it."""

    def made(named, settings):
        of_it = [one for one in settings["counters"] if name in one]
        assert of_it
        for one in of_it:
            one[name] = value

    return made


def without_counters(count):
    return lambda named, settings: settings.update(counters=settings["counters"][:count])


def put(value):
    """Put a value into the first place of an array."""

    def made(array):
        array = np.array(array)
        array.flat[0] = value
        return array

    return made


def twice(named, settings):
    return json.dumps(settings).replace('"round"', '"round": 1, "round"')


ALTERED = {
    "round of 31 digits": (setting(round=10**30), r"it says round=10{30}, but optimizer/iteration is \d+\."),
    "more rounds than steps": (setting(round=10**6), "it says round=1000000, but optimizer/iteration is"),
    "fewer rounds than steps": (setting(round=1), "it says round=1, but optimizer/iteration is 12, above 3"),
    "steps below zero": (array("iteration", lambda _: np.int64(-5)), "it says round=4, but optimizer/iteration is -5"),
    "two rounds": (twice, "its settings cannot be read .*the key 'round' occurs twice"),
    "no counters": (setting(counters=[]), r"it says counters=\[\], which are not those of this training"),
    "counters of two callbacks": (without_counters(2), "which are not those of this training"),
    "counters of nothing": (setting(counters=[{}, {}, {}]), "which are not those of this training"),
    "wait of None": (counter("wait", None), "it says counters=.*'wait': None"),
    "cooldown of None": (counter("cooldown_counter", None), "it says counters=.*'cooldown_counter': None"),
    "wait below zero": (counter("wait", -1.0), "it says counters=.*'wait': -1.0"),
    "half a wait": (counter("wait", 0.5), "it says counters=.*'wait': 0.5"),
    "endless wait": (counter("wait", float("inf")), "it says counters=.*'wait': inf"),
    "a best of NaN": (counter("best", float("nan")), "it says counters=.*'best': nan"),
    "a best of 401 digits": (counter("best", 10**400), "it says counters=.*'best': 10{20}"),
    "weights of int8": (array("weight/", lambda a: a.astype("int8")), "weight/.* is of int8, not float32"),
    "weights of bool": (array("weight/", lambda a: a.astype(bool)), "weight/.* is of bool, not float32"),
    "weights of float64": (array("weight/", lambda a: a.astype("float64")), "weight/.* is of float64, not float32"),
    "moments of float16": (array("momentum", lambda a: a.astype("float16")), "momentum is of float16, not float32"),
    "steps of float": (array("iteration", lambda a: a.astype("float32")), "iteration is of float32, not int"),
    "seeds of float": (array("other/", lambda a: a.astype("float64")), "other/.* is of float64, not "),
    "a weight of NaN": (array("weight/", put(np.nan)), "weight/.* is not finite"),
    "a weight of infinity": (array("weight/", put(-np.inf)), "weight/.* is not finite"),
    "a moment of NaN": (array("_momentum", put(np.nan)), "_momentum is not finite"),
    "a moment of infinity": (array("_velocity", put(np.inf)), "_velocity is not finite"),
    "a negative square": (array("_velocity", put(-1.0)), "_velocity is negative"),
    "a negative rate": (array("learning_rate", put(-1.0)), "optimizer/learning_rate is negative"),
    "a rate of NaN": (array("learning_rate", put(np.nan)), "optimizer/learning_rate is not finite"),
    "no weights": (setting(names=[]), "it says round=4, but has no weights"),
    "no random state": (setting(random=[]), "it has no random state for this backend"),
    "a short random state": (array("random_", lambda a: a[:5]), "it has no random state for this backend"),
    "a random state of float": (array("random_", lambda a: a.astype("float32")), "it has no random state"),
    "a weight of text": (array("weight/", lambda _: ["text"]), ""),
    "a round of text": (setting(round="x"), ""),
    "a round below zero": (setting(round=-1), ""),
    "a counter that is a number": (setting(counters=[3]), ""),
    "a counter of something else": (setting(counters=[{"model": 1}]), ""),
    "an end that is a number": (setting(ended=3), ""),
    "a backend that is a number": (setting(backend=3), ""),
}


@pytest.mark.long
@pytest.mark.parametrize("name", ALTERED)
def test_what_no_training_saves_is_refused(run, trained, corpus, name):
    change, message = ALTERED[name]
    content = altered(trained / "state.npz", change)
    run.state.write_bytes(content)
    with pytest.raises(UserError, match=rf"state\.npz is damaged: .*{message}") as error:
        train_system(TINY, corpus, run.path, resume=True)
    told = str(error.value)
    assert "\n" not in told and len(told) < 600
    assert run.state.read_bytes() == content


def test_rounds_and_steps_that_agree_may_be_too_many_for_the_log(run, trained, corpus):
    """Nothing as long as their number is made."""

    def change(named, settings):
        array("iteration", lambda _: np.int64(2**62))(named, settings)
        settings["round"] = 2**61

    run.state.write_bytes(altered(trained / "state.npz", change))
    with pytest.raises(UserError, match=r"log\.jsonl lacks lines: it has 4 of the 2,305,843,009,213,693,952 rounds"):
        check_resumable(run, TINY, run.corpus(), corpus.test.rows())


@pytest.mark.parametrize("best", [None, float("inf"), float("-inf"), 2.5])
def test_the_best_figure_may_be_missing_or_infinite(run, trained, best):
    """Before there is one, Keras' callbacks have None, or had infinity in earlier versions."""
    run.state.write_bytes(altered(trained / "state.npz", counter("best", best)))

    class Batches:
        def set_round(self, number):
            assert number == 4

    assert not ResumableState(run.state, Batches()).read()
