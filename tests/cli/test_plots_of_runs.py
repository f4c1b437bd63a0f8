"""What `attn-zoo plot` computes of run folders, which are made by hand."""

import json

import pytest

from keras_attn_zoo.runs.system import System
from tests.made_runs import REFERENCES, WRONG, make_run, make_timing, write_log


@pytest.fixture
def drawn(monkeypatch):
    """What is drawn as curves: positional and named arguments."""
    seen = []
    monkeypatch.setattr(
        "keras_attn_zoo.viewing.attention_pictures.plot_curves", lambda *given, **more: seen.append((given, more))
    )
    return seen


def test_one_curve_for_all_seeds_of_a_system(attn_zoo, refused, tmp_path, drawn):
    """Losses of 3 and 2 beside 5 and 4: means of 4 and 3; the root of 1 + 1; the third round of one run is left out."""
    runs = {"a": (1, 0.1), "a2": (2, 0.1), "b": (1, 0.3), "b-elsewhere": (2, 0.3)}
    for name, (seed, dropout) in runs.items():
        translations = REFERENCES if name == "a" else WRONG
        system = System("a", {"dropout": dropout}, seed=seed)
        run = runs[name] = make_run(tmp_path / name, translations=translations, system=system)
        corpus = {"train": [name if name == "b" else "text"]}
        run.config.write_text(json.dumps({"system": system.to_dict(), "corpus": corpus}))
    write_log(runs["a2"], [{"round": number, "step": number, "loss": 6.0 - number} for number in (1, 2)])
    write_log(runs["a"], [{"round": number, "step": number, "loss": 4.0 - number} for number in (1, 2, 3)])
    folders, output = [tmp_path / name for name in runs], ("--output", tmp_path / "c.png")
    assert attn_zoo("plot", "curves", *folders, "--key", "loss", "--over-seeds", *output)[0] == 0
    ((curves, *_), options) = drawn.pop()
    root = 2**0.5
    assert list(curves) == ["a, 2 seeds", "b", "b-elsewhere"] and curves["a, 2 seeds"] == ([1, 2], [4.0, 3.0])
    assert options["deviations"] == {"a, 2 seeds": pytest.approx([root, root])}
    assert options["ylabel"] == "loss, mean ± standard deviation"
    # Losses of 5 and 4 are 1 above means of 4 and 3, at the two steps that these have.
    for name in ("b", "b-elsewhere"):
        write_log(runs[name], [{"round": number, "step": number, "loss": 6.0 - number} for number in (1, 2, 3)])
    assert attn_zoo("plot", "curves", *folders, "--key", "loss", "--over-seeds", "--difference", *output)[0] == 0
    ((curves, *_), options) = drawn.pop()
    above = ([1, 2], [1.0, 1.0])
    assert curves == {"a, 2 seeds": ([1, 2], [0.0, 0.0]), "b": above, "b-elsewhere": above}
    assert options["deviations"] == {"a, 2 seeds": pytest.approx([root, root])}
    assert options["ylabel"] == "loss above that of a, 2 seeds, mean ± standard deviation"
    assert options["title"] == "trained once: two trainings of one system may differ as much"
    assert not options["log_scale"]
    assert attn_zoo("plot", "curves", *folders, "--key", "loss", "--log-scale", *output)[0] == 0
    assert drawn.pop()[1]["log_scale"]
    for arguments, said in (
        ([folders[0], "--difference"], "--difference compares runs: give two or more"),
        ([*folders, "--difference", "--log-scale"], "no room for differences below 0: leave out --log-scale"),
    ):
        refused(said, "plot", "curves", *arguments, "--key", "loss", *output)
    write_log(runs["a2"], [{"round": 1, "step": 9, "loss": 1.0}])
    line = ("plot", "curves", *folders[:2], "--key", "loss", *output)
    refused("have no step in common", *line, "--over-seeds")
    refused("a2 has no step in common with a: draw them without --difference", *line, "--difference")


@pytest.mark.parametrize(
    ("others", "title"),
    [
        # By 0.5 with a standard deviation of 0.1, three times; by Welch's test p is 0.004, and 0.06 for 0.2.
        ((2.4, 2.5, 2.6), None),
        ((2.1, 2.2, 2.3), "within the noise: in the end, no curve differs from the first, p < 0.05 (Holm)"),
    ],
)
def test_differences_of_curves_within_the_noise_are_called_so(attn_zoo, tmp_path, drawn, others, title):
    """By the last step; before it, all differ."""
    for system, last, losses in (("a", 6.0, (1.9, 2.0, 2.1)), ("b", 9.0, others)):
        for seed, loss in enumerate(losses, start=1):
            run = make_run(tmp_path / f"{system}{seed}", system=System(system, {}, seed=seed))
            write_log(run, [{"round": 1, "step": 1, "loss": last}, {"round": 2, "step": 2, "loss": loss}])
    line = ("plot", "curves", *sorted(tmp_path.iterdir()), "--key", "loss", "--over-seeds", "--difference")
    assert attn_zoo(*line, "--output", tmp_path / "c.png")[0] == 0
    assert drawn[0][1]["title"] == title


def test_a_score_over_positions_has_intervals(attn_zoo, tmp_path, drawn):
    """Two numbers of positions with the same mistakes, and a level without any."""
    latent = {"output": "latent"}
    places = {"all": latent, "two": {**latent, "marginalization": "top_k", "top_k": 2}, "plain": {}}
    half_wrong = [*WRONG[:15], *REFERENCES[15:]]
    for name, place in places.items():
        translations = REFERENCES if name == "plain" else half_wrong
        make_run(tmp_path / name, translations=translations, system=System(name, place))
    line = ["plot", "top-k", "--trained", "--output", tmp_path / "k.png"]
    for names, title in ((places, None), (["all", "two"], "within the noise: no two points differ, p < 0.05 (Holm)")):
        assert attn_zoo(*line, *(tmp_path / name for name in names))[0] == 0
        ((curves, _, ylabel), more) = drawn.pop()
        assert ylabel == "BLEU, 95 % interval over sentences" and more["title"] == title
    assert attn_zoo(*line, *(tmp_path / name for name in places))[0] == 0
    ((curves, *_), more) = drawn.pop()
    assert curves["plain"][1] == pytest.approx([100, 100]) and more["deviations"]["plain"] == pytest.approx([0, 0])
    first, second = more["deviations"]["latent alignment"]
    assert first == second and 2 < first < 15


def test_a_score_by_length_has_intervals_and_no_small_class(attn_zoo, tmp_path, drawn):
    """Of 30 sentences of 7 words and 30 of 8, right with one seed, with one wrong word each with the other."""
    texts = {name: [*lines, *(f"{line} too" for line in lines)] for name, lines in (("a", REFERENCES), ("a2", WRONG))}
    # The same mistakes as with the second seed.
    texts["b"] = texts["a2"]
    for name, translations in texts.items():
        system = System(name[0], {}, seed=2 if name == "a2" else 1)
        make_run(tmp_path / name, translations=translations, references=texts["a"], system=system)
    line = ["plot", "by-length", "--side", "target", "--bounds", 3, 7, 8, 20, "--output", tmp_path / "l.png"]
    assert attn_zoo(*line, *(tmp_path / name for name in texts))[0] == 0
    ((curves, _, ylabel), more) = drawn.pop()
    assert more["ticks"] == {0: "≤7\n(30)", 1: ">7\n(30)"} and more["xlabel"] == "target words (sentences)"
    (steps, right), (_, wrong) = curves["a"], curves["a2"]
    assert right == pytest.approx([100, 100]) and max(wrong) < 90 and more["title"] is None
    assert more["deviations"]["a"] == pytest.approx([0, 0]) and ylabel == "BLEU, 95 % interval over sentences"
    # Beside each other, around the class.
    assert [one[0][1] for one in curves.values()] == pytest.approx([0.94, 1, 1.06]) and steps[0] == pytest.approx(-0.06)
    assert attn_zoo(*line, "--over-seeds", *(tmp_path / name for name in texts))[0] == 0
    ((curves, _, ylabel), more) = drawn.pop()
    assert list(curves) == ["a, 2 seeds", "b"] and ylabel == "BLEU, 95 % interval over seeds and sentences"
    assert curves["a, 2 seeds"][1] == pytest.approx([(one + two) / 2 for one, two in zip(right, wrong, strict=True)])
    # Student's quantile for one degree of freedom, as all sentences of a training are alike.
    half = 12.706 * abs(right[0] - wrong[0]) / 2
    assert more["deviations"]["a, 2 seeds"][0] == pytest.approx(half, rel=1e-3)
    assert attn_zoo(*line, *(tmp_path / name for name in ("a2", "b")))[0] == 0
    assert drawn.pop()[1]["title"] == "within the noise: in no class of length do two systems differ, p < 0.05 (Holm)"


def test_how_many_times_faster_the_run_without_a_latent_alignment_is_trained(attn_zoo, refused, tmp_path, drawn):
    """1,200 tokens/s beside 400 with two positions and 300 with all: 3 and 4 times."""
    latent = {"output": "latent"}
    places = {"plain": ({}, 1200.0), "all": (latent, 300.0)}
    places["two"] = ({**latent, "marginalization": "top_k", "top_k": 2}, 400.0)
    for name, (place, speed) in places.items():
        run = make_timing(make_run(tmp_path / name, system=System(name, place)), tokens_per_second=speed)
    line = ["plot", "top-k", "--trained", "--key", "speed-ratio", "--output", tmp_path / "k.png"]
    assert attn_zoo(*line, *(tmp_path / name for name in places))[0] == 0
    (curves, _, ylabel), _ = drawn.pop()
    assert curves == {"latent alignment": ([0, 1], [3.0, 4.0]), "plain": ([0, 1], [1.0, 1.0])}
    assert ylabel == "training speed of plain / training speed"
    make_timing(run, tokens_per_second=speed, beside_other_work=True)
    assert attn_zoo(*line, *(tmp_path / name for name in places))[0] == 0
    assert drawn[0][0][2] == f"{ylabel} (beside other work)"
    make_timing(run, systems=["two"])
    refused("two was not timed together with the others", *line, *(tmp_path / name for name in places))
    refused("needs one run without a latent alignment; received 0", *line, tmp_path / "all")
    line.remove("--trained")
    refused("speed-ratio is measured in training: give --trained", *line, tmp_path / "all")


def test_a_trade_off_has_scores_times_and_states(attn_zoo, refused, tmp_path, monkeypatch):
    """BLEU of 30 and 32 is 31; 7 seconds by 1.4 for 6 of 30 sentences; a GRU's state of 6 and a counter."""
    seen = []
    monkeypatch.setattr("keras_attn_zoo.viewing.bubble_chart.plot_bubbles", lambda *given: seen.append(given))
    for name, bleu, seed in (("a", 30.0, 1), ("a-seed=2", 32.0, 2), ("b", 20.0, 1)):
        system = System(name[0], {"embedding_dim": 4, "hidden_dim": 6}, seed=seed)
        run = make_run(tmp_path / name, bleu, system=system)
        if seed == 1:
            make_timing(run)
    line, folders = (
        ("plot", "trade-off", "--output", tmp_path / "t.png"),
        [tmp_path / n for n in ("a", "a-seed=2", "b")],
    )
    assert attn_zoo(*line, "--over-seeds", *folders)[0] == 0
    points, _, xlabel, ylabel = seen.pop()
    assert points == {"a": (pytest.approx(7.0), 31.0, 7), "b": (pytest.approx(7.0), 20.0, 7)}
    assert (xlabel, ylabel) == ("seconds to translate the test text; area: state of a search", "BLEU")
    status, _, error = attn_zoo(*line, *folders)
    assert status == 0 and "left out, as `attn-zoo time` has not timed them: a-seed=2" in error
    assert list(seen.pop()[0]) == ["a", "b"]
    refused("a-seed=2: not timed; give the runs to `attn-zoo time`", *line, folders[1])
    refused("has no chrF: evaluate it first", *line, *folders[::2], "--key", "chrF")
    make_timing(run, started="2026-01-02T00:00:00+00:00")
    refused("b was not timed together with the others: `attn-zoo time` times them in turn", *line, *folders[::2])
