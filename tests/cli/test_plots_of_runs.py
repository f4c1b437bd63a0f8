"""What `attn-zoo plot` computes of run folders, which are made by hand."""

import json

import pytest

from keras_attn_zoo.runs.system import System
from tests.made_runs import REFERENCES, WRONG, make_run


def test_one_curve_for_all_seeds_of_a_system(attn_zoo, refused, tmp_path, monkeypatch):
    """Losses of 3 and 2 beside 5 and 4: means of 4 and 3; the root of 1 + 1; the third round of one run is left out."""
    seen = []
    monkeypatch.setattr(
        "keras_attn_zoo.viewing.attention_pictures.plot_curves", lambda *given, **more: seen.append((given, more))
    )
    runs = {"a": (1, 0.1), "a2": (2, 0.1), "b": (1, 0.3), "b-elsewhere": (2, 0.3)}
    for name, (seed, dropout) in runs.items():
        run = make_run(tmp_path / name, translations=REFERENCES if name == "a" else WRONG)
        corpus = {"train": [name if name == "b" else "text"]}
        system = System("a", {"dropout": dropout}, seed=seed).to_dict()
        run.config.write_text(json.dumps({"system": system, "corpus": corpus}))
    rounds = [{"round": number, "step": number, "loss": 6.0 - number} for number in (1, 2)]
    (tmp_path / "a2" / "log.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rounds))
    rounds = [{"round": number, "step": number, "loss": 4.0 - number} for number in (1, 2, 3)]
    (tmp_path / "a" / "log.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rounds))
    folders, output = [tmp_path / name for name in runs], ("--output", tmp_path / "c.png")
    assert attn_zoo("plot", "curves", *folders, "--key", "loss", "--over-seeds", *output)[0] == 0
    ((curves, *_), options) = seen.pop()
    root = 2**0.5
    assert list(curves) == ["a, 2 seeds", "b", "b-elsewhere"] and curves["a, 2 seeds"] == ([1, 2], [4.0, 3.0])
    assert options["deviations"] == {"a, 2 seeds": pytest.approx([root, root])}
    assert options["ylabel"] == "loss, mean ± standard deviation"
    # Losses of 5 and 4 are 1 above means of 4 and 3, at the two steps that these have.
    for name in ("b", "b-elsewhere"):
        rounds = [{"round": number, "step": number, "loss": 6.0 - number} for number in (1, 2, 3)]
        (tmp_path / name / "log.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rounds))
    assert attn_zoo("plot", "curves", *folders, "--key", "loss", "--over-seeds", "--difference", *output)[0] == 0
    ((curves, *_), options) = seen.pop()
    above = ([1, 2], [1.0, 1.0])
    assert curves == {"a, 2 seeds": ([1, 2], [0.0, 0.0]), "b": above, "b-elsewhere": above}
    assert options["deviations"] == {"a, 2 seeds": pytest.approx([root, root])}
    assert options["ylabel"] == "loss above that of a, 2 seeds, mean ± standard deviation"
    assert not options["log_scale"]
    assert attn_zoo("plot", "curves", *folders, "--key", "loss", "--log-scale", *output)[0] == 0
    assert seen.pop()[1]["log_scale"]
    for arguments, said in (
        ([folders[0], "--difference"], "--difference compares runs: give two or more"),
        ([*folders, "--difference", "--log-scale"], "no room for differences below 0: leave out --log-scale"),
    ):
        refused(said, "plot", "curves", *arguments, "--key", "loss", *output)
    line = ("plot", "by-length", *folders[:2], "--side", "target", "--bounds", 6)
    assert attn_zoo(*line, *output)[0] == 0 and attn_zoo(*line, "--over-seeds", *output)[0] == 0
    (alone, more), (together, _) = seen
    right, wrong = (alone[0][name][1][0] for name in ("a", "a2"))
    assert right == pytest.approx(100) and wrong < 90 and not more["deviations"]
    assert together[0]["a, 2 seeds"][1][0] == pytest.approx((right + wrong) / 2)
    assert seen[1][1]["deviations"]["a, 2 seeds"][0] == pytest.approx((right - wrong) / root)
    (tmp_path / "a2" / "log.jsonl").write_text(json.dumps({"round": 1, "step": 9, "loss": 1.0}) + "\n")
    line = ("plot", "curves", *folders[:2], "--key", "loss", *output)
    refused("have no step in common", *line, "--over-seeds")
    refused("a2 has no step in common with a: draw them without --difference", *line, "--difference")


def test_how_many_times_faster_the_run_without_a_latent_alignment_is_trained(attn_zoo, refused, tmp_path, monkeypatch):
    """1,200 tokens/s beside 400 with two positions and 300 with all: 3 and 4 times."""
    seen = []
    monkeypatch.setattr(
        "keras_attn_zoo.viewing.attention_pictures.plot_curves", lambda *given, **more: seen.append(given)
    )
    latent = {"output": "latent"}
    places = {"plain": ({}, 1200.0), "all": (latent, 300.0)}
    places["two"] = ({**latent, "marginalization": "top_k", "top_k": 2}, 400.0)
    for name, (place, speed) in places.items():
        training = {"steps": 9, "seconds": 9.0, "compilation_seconds": 2.0, "environment": "torch"}
        run = make_run(tmp_path / name, training={**training, "tokens_per_second": speed})
        run.config.write_text(json.dumps({"system": System(name, place).to_dict(), "corpus": {}}))
    line = ["plot", "top-k", "--trained", "--key", "speed-ratio", "--output", tmp_path / "k.png"]
    assert attn_zoo(*line, *(tmp_path / name for name in places))[0] == 0
    ((curves, _, ylabel),) = seen
    assert curves == {"latent alignment": ([0, 1], [3.0, 4.0]), "plain": ([0, 1], [1.0, 1.0])}
    assert ylabel == "training speed of plain / training speed"
    refused("needs one run without a latent alignment; received 0", *line, tmp_path / "all")
    line.remove("--trained")
    refused("speed-ratio is measured in training: give --trained", *line, tmp_path / "all")
