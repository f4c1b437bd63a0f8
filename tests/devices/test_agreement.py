"""What processes decide together: a stand-in for the second of two sees what the first one has written meanwhile."""

import json

import pytest

from keras_attn_zoo.corpora.parallel_text import ParallelText
from keras_attn_zoo.devices import Devices, agreed, using
from keras_attn_zoo.presets import preset_registry
from keras_attn_zoo.runs import finished_run, precision
from keras_attn_zoo.support.errors import UserError
from tests.made_runs import make_run

pytestmark = pytest.mark.one_backend
NAME = "uniform_tatoeba_de_en"
TEXT = ParallelText([("rot haus", "red house")])


class Second(Devices):
    """The second of two processes; the first one's decisions are given, and what it does while this one waits."""

    processes, process = 2, 1

    def __init__(self, *decisions, meanwhile=lambda: None):
        self.decisions, self.meanwhile = list(decisions), meanwhile

    def broadcast(self, data):
        return json.dumps(self.decisions.pop(0)).encode()

    def wait(self):
        self.meanwhile()


class First(Devices):
    """The first of two processes."""

    processes = 2

    def __init__(self, events):
        self.events = events

    def wait(self):
        self.events.append("wait")


@pytest.mark.parametrize("decision", [True, {"text": {"bleu": 30.5}}, ["float32", "this CPU"], None])
def test_the_first_process_decides(decision):
    with using(Second(decision)):
        assert agreed("another") == decision
    assert agreed(decision) is decision


@pytest.fixture
def rescored(tmp_path):
    """A run whose scores the first process has computed again, with another tokeniser; and its scores before."""
    run = make_run(tmp_path / "run")
    before = run.read_scores()
    run.add_scores("test", {**before["test"], "text": {**before["test"]["text"], "tokenize": "char"}})
    return run, before


def test_a_process_scores_again_although_the_first_one_has_written_its_scores(rescored, monkeypatch):
    run, before = rescored
    again = []
    monkeypatch.setattr(finished_run, "score_again", lambda folder, name, **how: again.append((name, how)))
    with using(Second(before, [], False)):
        finished_run.score_and_draw(run.path, TEXT, keep_scores=True, tokenize="char", pictures=False)
    assert again == [("test", {"tokenize": "char", "lowercase": False})]


def test_a_process_draws_what_the_first_one_draws(rescored, monkeypatch):
    run, _ = rescored
    drawn = []
    monkeypatch.setattr(finished_run, "load_translator", lambda folder, **options: "translator")
    monkeypatch.setattr(finished_run, "draw_run", lambda folder, translator, text: drawn.append(translator))
    run.picture("curves").parent.mkdir()
    run.picture("curves").touch()
    for exists in (True, False):
        with using(Second(run.read_scores(), [], exists, False)):
            finished_run.score_and_draw(run.path, TEXT, keep_scores=True, tokenize="char")
    assert drawn == ["translator"]


def test_all_processes_compute_in_the_precision_of_the_first(monkeypatch):
    monkeypatch.setattr(precision, "is_faster_in_bfloat16", lambda: True)
    monkeypatch.setattr(precision, "on_cpu", lambda: True)
    assert precision.resolve("auto") == "bfloat16"
    with using(Second(["float32", "this CPU does not multiply bfloat16"])):
        assert precision.resolve("auto") == "float32"
        assert precision.resolve("bfloat16") == "bfloat16"


@pytest.fixture
def places(monkeypatch):
    """The folder of the preset on this machine, in a list; downloads are recorded."""
    found, events = [None], []

    def fetch(name, deadline=None):
        events.append("download")
        found[0] = f"/cache/{name}"
        return found[0]

    monkeypatch.setattr(preset_registry, "local_folder", lambda name: found[0])
    monkeypatch.setattr(preset_registry, "fetch_preset", fetch)
    return found, events


def test_the_first_process_downloads_a_preset_before_the_others_look_for_it(places):
    _, events = places
    with using(First(events)):
        assert preset_registry.find_preset(NAME) == f"/cache/{NAME}"
    assert events[:2] == ["download", "wait"]


def test_the_second_process_waits_for_a_preset_and_downloads_none(places):
    found, events = places

    def arrives():
        found[0] = "/cache/arrived"

    with using(Second(meanwhile=arrives)):
        assert preset_registry.find_preset(NAME) == "/cache/arrived"
    found[0] = None
    with using(Second()), pytest.raises(UserError, match=f"attn-zoo presets --download {NAME} on each machine"):
        preset_registry.find_preset(NAME)
    assert not events
