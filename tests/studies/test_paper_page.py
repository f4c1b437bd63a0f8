"""The page of a paper from run folders made by hand: verdicts, differences and notes worked out by hand."""

import dataclasses
import json
import math

import numpy as np
import pytest

from keras_attn_zoo.evaluation.training_comparison import TrainingComparison
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.runs.system import System
from keras_attn_zoo.studies import paper_cells
from keras_attn_zoo.studies.comparison import Entry, Recipe
from keras_attn_zoo.studies.paper_cells import Runs, Value
from keras_attn_zoo.studies.paper_files import write_tables
from keras_attn_zoo.studies.paper_findings import (
    by_claim,
    compare,
    findings_table,
    notes_of,
    verdict,
    verdict_of,
    without_numbers,
)
from keras_attn_zoo.studies.paper_page import write_page
from keras_attn_zoo.studies.paper_tables import BETTER, LEVEL, WORSE, Contrast, Finding, Line, Pair, PaperTable
from tests.made_runs import REFERENCES, WRONG, make_run, make_seeds, make_timing, table_rows

SYSTEM = System("base", {}, body="transformer")
ENTRIES = {name: Entry(SYSTEM, baseline=None if name == "base" else "base") for name in ("base", "new", "other")}
TABLE = PaperTable(
    "Table 7",
    "Scores",
    [Line("BLEU", measure="BLEU"), Line("TER", measure="TER"), Line("AER", split="gold", measure="AER")],
    [Line("Base", entry="base", figures="34.2 53.5 71.4"), Line("New", entry="new", figures="34.70† 53.2 57.8")],
    baseline="base",
)


@pytest.fixture(autouse=True)
def few_samples(monkeypatch):
    monkeypatch.setattr(paper_cells, "SAMPLES", 100)


def recipe_of(*findings, **options):
    return Recipe("A paper", ENTRIES, ("base",), tables=(TABLE,), findings=findings, **options)


def finding(*contrasts, expected=(BETTER,), **options):
    return Finding("New is better than base", "§5, Table 7", expected, contrasts, **options)


def compared(folder, *findings, **options):
    """The comparisons as `(the paper, here, verdict)`."""
    runs = Runs(recipe_of(*findings, **options), folder)
    return [(one.paper, one.here, one.verdict) for one in compare(runs)]


def table_of(runs):
    """The table of findings."""
    found = by_claim(runs)
    return findings_table(runs.recipe.findings, found, [*notes_of(runs, found)])


def page_of(folder, recipe):
    runs = Runs(recipe, folder)
    path = write_page(runs, write_tables(runs))
    return path.read_text("utf-8")


@pytest.mark.parametrize(
    ("expected", "verdicts"),
    [
        ((BETTER,), ["agrees, but not in size", "differs", "too little to say"]),
        ((WORSE,), ["differs", "agrees", "too little to say"]),
        ((LEVEL,), ["differs", "differs", "agrees"]),
        ((LEVEL, WORSE), ["differs", "agrees", "agrees"]),
    ],
)
def test_seeds_and_sentences_decide_about_bleu(tmp_path, expected, verdicts):
    """All words right against one wrong in every sentence; the third has the words of the baseline.

    Of the paper's difference of 0.5, 60.5 is a multiple. The other way round the paper has none of this sign.
    """
    make_seeds(tmp_path / "base", 30.0, translations=WRONG)
    make_seeds(tmp_path / "new", 90.5, translations=REFERENCES)
    make_seeds(tmp_path / "other", 30.0, translations=WRONG)
    claim = finding(Contrast("new", "base"), Contrast("base", "other"), Contrast("other", "base"), expected=expected)
    make_seeds(tmp_path / "other", 90.5, translations=REFERENCES)
    worse = compared(tmp_path, claim)[1]
    make_seeds(tmp_path / "other", 30.0, translations=WRONG)
    better, _, level = compared(tmp_path, claim)
    assert better == ("+0.50 (34.70 – 34.20)", "+60.5 (90.5 – 30.0)", verdicts[0])
    assert worse == ("", "-60.5 (30.0 – 90.5)", verdicts[1])
    assert level == ("", "+0.0 (30.0 – 30.0)", verdicts[2])


def value_of(difference, error, numbers=(30.0,)):
    """A difference whose interval of 95 % is ± 1.96, that of 90 % ± 1.645 of the error."""
    return Value([*numbers], difference, TrainingComparison(difference, error, math.inf, 0.0, (3, 3)))


@pytest.mark.parametrize(
    ("expected", "difference", "error", "found"),
    [
        # Better by more than a point: 3 - 1.96; then 2.9 - 1.96, 1.9 - 1.96, and 0.5 + 1.96 · 0.2 = 0.89.
        ((BETTER,), 3.0, 1.0, "agrees"),
        ((BETTER,), 2.9, 1.0, "too little to say"),
        ((BETTER,), 0.5, 0.2, "agrees, but not in size"),
        ((BETTER,), 1.9, 1.0, "too little to say"),
        ((BETTER,), -2.0, 1.0, "differs"),
        # No difference: 0.5 + 1.645 · 0.3 = 0.99, with 0.31 more than 1.
        ((LEVEL,), 0.5, 0.3, "agrees"),
        ((LEVEL,), -0.5, 0.3, "agrees"),
        ((LEVEL,), 0.5, 0.31, "too little to say"),
        # It may be significant, and still none that counts; 1.6 - 1.96 · 0.3 = 1.01.
        ((LEVEL,), 0.9, 0.05, "agrees"),
        ((LEVEL,), 1.6, 0.3, "differs"),
        ((LEVEL,), 1.5, 0.3, "too little to say"),
        ((LEVEL, BETTER), 3.0, 0.3, "agrees"),
        ((LEVEL, BETTER), -0.5, 0.31, "too little to say"),
        ((LEVEL, BETTER), -1.6, 0.3, "differs"),
        ((LEVEL, WORSE), 1.6, 0.3, "differs"),
        ((LEVEL, WORSE), -3.0, 0.3, "agrees"),
    ],
)
def test_a_verdict_is_read_off_the_interval(expected, difference, error, found):
    assert verdict(finding(expected=expected), "BLEU", value_of(difference, error)) == found
    # Of errors, fewer are better.
    assert verdict(finding(expected=expected), "TER", value_of(-difference, error)) == found


@pytest.mark.parametrize(
    ("difference", "error", "paper", "found"),
    [
        # Of 4: from 2 to 8; of 0.4, within one point: from -0.6 to 1.4.
        (4.0, 0.5, 4.0, "agrees"),
        (2.1, 0.5, 4.0, "agrees"),
        (1.5, 0.3, 4.0, "too little to say"),
        (1.2, 0.3, 4.0, "agrees, but not in size"),
        (9.0, 0.3, 4.0, "agrees, but not in size"),
        (2.5, 0.3, 0.4, "agrees, but not in size"),
        (1.3, 0.3, 0.4, "agrees"),
        # No direction, but half of the paper's difference would have been seen, if that is more than a point away.
        (0.2, 0.9, 4.0, "differs"),
        (0.2, 1.0, 4.0, "too little to say"),
        (0.0, 0.1, 0.4, "too little to say"),
        (-0.8, 0.1, 0.4, "differs"),
        (-0.8, 0.5, 0.4, "too little to say"),
    ],
)
def test_size_is_judged_too(difference, error, paper, found):
    assert verdict(finding(), "BLEU", value_of(difference, error), (30.0 + paper, 30.0)) == found
    assert verdict(finding(expected=(WORSE,)), "BLEU", value_of(-difference, error), (30.0 - paper, 30.0)) == found


def test_no_better_may_be_worse_than_in_the_paper():
    """Luong's attention is 0.1 BLEU behind Bahdanau's in the paper; 10.7 are no agreement."""
    claim = finding(expected=(LEVEL, WORSE))
    assert verdict(claim, "BLEU", value_of(-10.7, 0.5), (42.3, 42.4)) == "agrees, but not in size"
    assert [verdict(claim, "BLEU", value_of(one, 0.3), (42.3, 42.4)) for one in (-1.0, 0.2, -1.2)] == [
        *["agrees"] * 2,
        "too little to say",
    ]
    assert verdict(claim, "BLEU", value_of(-10.7, 0.5)) == "agrees"
    better = finding(expected=(LEVEL, BETTER))
    assert verdict(better, "TER", value_of(-9.0, 0.5), (50.0, 50.5)) == "agrees, but not in size"


def test_what_is_compared_as_it_is_has_a_size_too():
    """Parameters, in millions: a tenth fewer in the paper."""
    claim, paper = finding(Contrast("new", "base", "parameters")), (9.0, 10.0)
    for own, found in ((16.0, "agrees"), (18.9, "agrees"), (5.0, "agrees, but not in size"), (20.1, "differs")):
        assert verdict(claim, "parameters", Value([own], own - 20.0), paper) == found
    assert verdict(claim, "parameters", Value([5.0], -15.0)) == "agrees"


def test_a_claim_of_significance_and_margins_of_other_measures():
    claim = finding(expected=(LEVEL, WORSE), significant=True)
    found = [verdict(claim, "BLEU", value_of(*one)) for one in ((0.4, 0.3), (0.5, 0.1), (0.2, 0.8), (-2.0, 0.5))]
    assert found == ["agrees", "differs", "too little to say", "agrees"]
    # 5 % of 20 are 1; 0.05 of a loss.
    level = finding(expected=(LEVEL,))
    assert [verdict(level, "perplexity", value_of(0.5, error, [20.5])) for error in (0.3, 0.31)] == [
        "agrees",
        "too little to say",
    ]
    assert [verdict(level, "loss", value_of(0.02, error)) for error in (0.018, 0.019)] == [
        "agrees",
        "too little to say",
    ]
    assert verdict(finding(expected=(LEVEL,), margin=3.0), "BLEU", value_of(1.5, 0.3)) == "agrees"
    assert verdict(finding(), "BLEU", Value([30.0], 5.0, lacks="base: 1 of 3 seeds")) == "too little to say"


def test_what_is_missing_is_named(tmp_path):
    """Seeds, of either system; a BLEU that means something; scores of sentences."""
    claim, low = finding(Contrast("new", "base")), finding(Contrast("new", "base", "AER", "gold"), expected=(LEVEL,))

    def missing():
        return [(one.verdict, one.lacks) for one in compare(Runs(recipe_of(claim, low), tmp_path))]

    gold = {"names": ("test", "gold"), "alignment": {"aer": 0.9, "aer_without_full_stop": 0.3}}
    make_seeds(tmp_path / "base", 9.9, **gold)
    make_run(tmp_path / "new", 30.0, **gold)
    assert missing() == [("too little to say", "new: 1 of 3 seeds; base: BLEU 9.9, below 10")] * 2
    make_seeds(tmp_path / "new", 30.0, **gold)
    assert missing() == [("too little to say", "base: BLEU 9.9, below 10")] * 2
    make_seeds(tmp_path / "base", 30.0, **gold)
    # The links of each sentence are not there.
    assert missing() == [("too little to say", ""), ("too little to say", "no scores of sentences")]
    runs = Runs(recipe_of(claim, low), tmp_path)
    rows = table_of(runs).rows
    assert rows[1] == [
        *("2. New is better than base (§5, Table 7)", "`new` – `base`", "AER (gold) +0.0 [-13.6]", ""),
        "too little to say (no scores of sentences)",
    ]
    # The variance of 29.9, 30 and 30.1 is 0.01: the error √(0.02 / 3), with 4 degrees of freedom.
    assert rows[0][3] == "-0.2 to +0.2 (0.3)"
    # A paper whose own BLEU is as low is held against runs that are.
    poor = Line("New", entry="new", figures="4.70 53.2 57.8"), Line("Base", entry="base", figures="4.2 53.5 71.4")
    make_seeds(tmp_path / "base", 5.0, **gold)
    make_seeds(tmp_path / "new", 5.0, **gold)
    recipe = dataclasses.replace(recipe_of(claim), tables=(dataclasses.replace(TABLE, rows=poor),))
    assert [one.lacks for one in compare(Runs(recipe, tmp_path))] == [""]
    # That of another language pair says nothing.
    table = dataclasses.replace(TABLE, rows=[dataclasses.replace(row, pair="tr-en") for row in poor])
    recipe = dataclasses.replace(recipe_of(claim, pairs={"ro-en": Pair(), "tr-en": Pair()}), tables=(table,))
    assert [one.lacks for one in compare(Runs(recipe, tmp_path))] == [
        "new: BLEU 5.0, below 10; base: BLEU 5.0, below 10",
    ]


def test_the_floor_is_that_of_the_text_that_is_compared(tmp_path):
    """Translations of a harder text may mean nothing, whatever those of the test text are; links have none."""
    for name, bleu in (("base", 30.0), ("new", 33.0)):
        gold = {"alignment": {"aer": 0.9, "aer_without_full_stop": 0.3}}
        make_seeds(tmp_path / name, bleu)
        make_seeds(tmp_path / name, bleu - 25.0, names=("joined", "gold"), **gold)
    splits = [Contrast("new", "base"), Contrast("new", "base", split="joined"), Contrast("new", "base", "AER", "gold")]
    found = compare(Runs(recipe_of(finding(*splits)), tmp_path))
    assert [one.lacks for one in found] == [
        *("", "new: BLEU 8.0, below 10; base: BLEU 5.0, below 10", "no scores of sentences")
    ]


def test_a_difference_whose_size_is_open_says_so(tmp_path):
    """It is there, and may be as large as the paper's or not; an end that rounding would hide is shown."""
    make_seeds(tmp_path / "base", 30.0)
    make_seeds(tmp_path / "new", 31.6)
    claim = finding(Contrast("new", "base", figures="30.4 30.0"))
    (one,) = compare(Runs(recipe_of(claim), tmp_path))
    assert (verdict_of(one), one.interval) == ("too little to say (its size is open)", "+1.4 to +1.8")


def test_numbers_of_the_same_trainings_are_paired(tmp_path):
    """Trainings differ by 10, and by 2 from one text to the other: Student's paired test, by hand.

    Of the differences 1.9, 2 and 2.1, the error is 0.1 / √3, and 4.303 of it are the interval, of 2 degrees of freedom.
    """
    for seed, (bleu, other) in enumerate(((20.0, 21.9), (30.0, 32.0), (40.0, 42.1)), start=1):
        folder = tmp_path / (f"new-seed={seed}" if seed > 1 else "new")
        make_run(folder, bleu)
        make_run(folder, other, names=("valid",))
    runs = Runs(recipe_of(finding(Contrast("new", "new", split="valid", other_split="test"))), tmp_path)
    (found,) = compare(runs)
    assert (found.here, found.interval, found.verdict) == ("+2.0 (32.0 – 30.0)", "+1.8 to +2.2", "agrees")


def test_error_rates_are_compared_by_the_links_of_each_sentence(tmp_path):
    """30 sentences, of which each has 2 errors in 4 links, or 1 in 4: nothing varies, so nothing is uncertain."""
    for name, errors in (("base", 2.0), ("new", 1.0)):
        alignment = {"aer": 0.9, "aer_without_full_stop": errors / 4, "all_layers_aer_without_full_stop": errors / 8}
        make_seeds(tmp_path / name, 30.0, names=("test", "gold"), alignment=alignment)
        for folder in tmp_path.glob(f"{name}*"):
            sums = RunFolder(folder).sentence_sums("gold")
            sums.parent.mkdir(exist_ok=True)
            each = {"aer_without_full_stop": [[errors] * 30, [4.0] * 30]}
            each["all_layers_aer_without_full_stop"] = [[errors / 2] * 30, [4.0] * 30]
            sums.write_text(json.dumps(each))
    of_aer = Contrast("new", "base", "AER", "gold")
    layers = Contrast("new", "new", "AER, all layers", "gold", other_measure="AER", figures="47.8 57.8")
    assert compared(tmp_path, finding(of_aer, layers), finding(of_aer, expected=(WORSE,))) == [
        ("-13.6 (57.8 – 71.4)", "-25.0 (25.0 – 50.0)", "agrees"),
        ("-10.0 (47.8 – 57.8)", "-12.5 (12.5 – 25.0)", "agrees"),
        ("-13.6 (57.8 – 71.4)", "-25.0 (25.0 – 50.0)", "differs"),
    ]


def errors(folder, bad):
    """Translations of which some have a wrong word, and what that adds to TER."""
    make_seeds(folder, translations=[WRONG[i] if i in bad else REFERENCES[i] for i in range(30)])
    return np.array([100 / 7 if i in bad else 0.0 for i in range(30)])


def test_sentences_count_as_they_differ_between_the_systems(tmp_path, monkeypatch):
    """TER is edits over words, of which every sentence has seven: its mean varies as that of the differences does."""
    monkeypatch.setattr(paper_cells, "SAMPLES", 4000)
    base, new = errors(tmp_path / "base", range(20)), errors(tmp_path / "new", range(14))
    recipe = recipe_of(finding(Contrast("new", "base", "TER")))
    cells = Contrast("new", "base", "TER").cells()
    wanted = (new - base).std() / 30**0.5
    found = Runs(recipe, tmp_path).value(*cells).comparison
    assert found.of_seeds == 0 and found.of_text == pytest.approx(wanted, rel=0.05)
    # The mean of two texts, of which the other one never varies.
    for place, name in ((tmp_path / "zh-en", "test"), (tmp_path / "zh-en", "mt04")):
        for system, bad in (("base", range(20)), ("new", range(14))):
            words = [WRONG[i] if name == "test" and i in bad else REFERENCES[i] for i in range(30)]
            make_seeds(place / system, translations=words, names=(name,))
    recipe = dataclasses.replace(recipe, pairs={"de-en": Pair(), "zh-en": Pair(tests=("test", "mt04"))})
    cells = Contrast("new", "base", "TER").cells("zh-en")
    assert Runs(recipe, tmp_path).value(*cells).comparison.of_text == pytest.approx(wanted / 2, rel=0.05)


def test_a_perplexity_varies_as_its_loss_does_and_a_log_by_seeds_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(paper_cells, "SAMPLES", 2000)
    rng = np.random.default_rng(0)
    for name in ("base", "new"):
        losses = 2.0 + rng.normal(0, 0.2, 30)
        make_seeds(tmp_path / name, loss=losses.mean(), perplexity=math.exp(losses.mean()))
        for folder in tmp_path.glob(f"{name}*"):
            path = RunFolder(folder).sentence_sums("test")
            path.parent.mkdir()
            path.write_text(json.dumps({"loss": [[*losses], [1.0] * 30]}))
    runs = Runs(recipe_of(), tmp_path)
    loss, perplexity, log = (
        runs.value(*Contrast("new", "base", name).cells()).comparison
        for name in ("loss", "perplexity", "lowest training loss")
    )
    # By the derivative of exp.
    assert perplexity.of_text == pytest.approx(math.exp(2.0) * loss.of_text, rel=0.1) and loss.of_text > 0.03
    assert (log.of_text, log.of_seeds, log.difference) == (0.0, 0.0, 0.0)
    found = Runs(recipe_of(finding(Contrast("new", "base", "lowest training loss"), expected=(LEVEL,))), tmp_path)
    assert any("over seeds alone" in note for note in table_of(found).notes)


def test_scores_of_two_tokenisers_and_sums_without_a_ratio_are_not_compared(tmp_path):
    for name in ("base", "new"):
        make_seeds(tmp_path / name, names=("test", "gold"), alignment={"aer": 0.9, "aer_without_full_stop": 0.5})
    for folder in tmp_path.iterdir():
        run = RunFolder(folder)
        path = run.sentence_sums("gold")
        path.parent.mkdir()
        # Of most texts that are drawn, a third of the sentences have no links: of all others there is a ratio.
        path.write_text(json.dumps({"aer_without_full_stop": [[15.0] + [0.0] * 29, [30.0] + [0.0] * 29]}))
        if folder.name.startswith("new"):
            scores = run.read_scores()["test"]
            run.add_scores("test", {**scores, "text": {**scores["text"], "tokenize": "char"}})
    runs = Runs(recipe_of(), tmp_path)
    assert runs.value(*Contrast("new", "base").cells()).lacks == "trained or scored on different texts"
    assert runs.value(*Contrast("new", "base", "AER", "gold").cells()).lacks == "no scores of sentences"


def test_a_smoke_run_says_nothing(tmp_path):
    make_seeds(tmp_path / "base", 30.0)
    make_seeds(tmp_path / "new", 60.0, translations=REFERENCES)
    claim = finding(Contrast("new", "base"))
    text = page_of(tmp_path, recipe_of(claim, claim, scale="smoke"))
    findings = text.partition("## Findings")[2].partition("##")[0]
    assert "1. New is better than base (§5, Table 7)\n2. New" in findings and "nothing about these claims" in findings
    assert "|" not in findings and "agrees" not in text


@pytest.mark.parametrize(("seconds", "found"), [(10.0, "agrees"), (4.0, "differs")])
def test_a_factor_counts_from_its_margin_on(tmp_path, seconds, found):
    """Beside a step of two seconds."""
    make_timing(make_run(tmp_path / "base"))
    make_timing(make_run(tmp_path / "new"), seconds)
    slow = Contrast("new", "base", "training time of a step, relative", figures="5.6x 1.0x")
    ((paper, here, verdict_found),) = compared(tmp_path, finding(slow, expected=(WORSE,), margin=3.9))
    times = {10.0: "+4.0x (5.0x – 1.0x)", 4.0: "+1.0x (2.0x – 1.0x)"}
    assert (paper, here, verdict_found) == ("+4.6x (5.6x – 1.0x)", times[seconds], found)


@pytest.mark.parametrize(("seconds", "found"), [(98.0, "differs"), (96.0, "agrees"), (104.0, "differs")])
def test_a_small_share_of_a_time_counts_as_no_difference(tmp_path, seconds, found):
    for name, own in (("base", 100.0), ("new", seconds)):
        make_timing(make_run(tmp_path / name), translation_seconds=own)
    faster = finding(Contrast("new", "base", "translation time"), share=0.03)
    assert [one[2] for one in compared(tmp_path, faster)] == [found]
    assert (
        table_of(Runs(recipe_of(faster), tmp_path)).notes[-1]
        == "a difference of at most 3% counts as none: translation time"
    )


def test_how_many_positions_a_search_sums_over_is_named(tmp_path):
    every = Contrast("new", "new", split="valid-k0", other_split="valid-k6")
    (one,) = compare(Runs(recipe_of(finding(every)), tmp_path))
    assert (one.systems, one.measured) == ("`new`", "BLEU (valid, K=all) – BLEU (valid, K=6)")


def test_claims_with_a_verdict_come_first_and_what_says_the_same_stands_once(tmp_path):
    """An interval has a row; one training each shares it, and so does what was not run."""
    make_seeds(tmp_path / "base", 30.0, translations=WRONG)
    make_seeds(tmp_path / "new", 60.0, translations=REFERENCES)
    make_run(tmp_path / "other", 33.0, ter=45.0)
    one_seed = [Contrast("other", one, name) for one in ("base", "new") for name in ("BLEU", "TER")]
    one_seed += [Contrast("base", "other")]
    unknown = Contrast("new", "base", split="valid")
    claims = (finding(*one_seed, unknown), finding(unknown), finding(Contrast("new", "base"), one_seed[0]))
    runs = Runs(recipe_of(*claims), tmp_path)
    assert [row[:3] + row[4:] for row in table_of(runs).rows] == [
        ["3. New is better than base (§5, Table 7)", "`new` – `base`", "BLEU +30.0 [+0.50]", "agrees, but not in size"],
        ["3", "`other` – `base`", "BLEU +3.0", "too little to say (1 of 3 seeds)"],
        [
            *("1. New is better than base (§5, Table 7)", "`other` – `base`; `other` – `new`; `base` – `other`"),
            *("BLEU -27.0 to +3.0; TER -5.0", "too little to say (1 of 3 seeds)"),
        ],
    ]
    assert list(without_numbers(claims, by_claim(runs))) == [
        "Not measured:\n\n- **2.** New is better than base (§5, Table 7)\n- of 1: `new` – `base`"
    ]


def test_what_was_not_run_or_timed_says_so(tmp_path):
    make_run(tmp_path / "base")
    make_run(tmp_path / "other")
    untimed = [Contrast("other", "base", name) for name in ("training time", "translation time")]
    claim = finding(Contrast("new", "base"), Contrast("base", "new"), Contrast("new", "new", "TER"), *untimed)
    found = compared(tmp_path, claim)
    assert [one[1:] for one in found] == [("", "not run")] * 3 + [("", "not measured")] * 2
    assert found[0][0] == "+0.50 (34.70 – 34.20)"


def test_other_texts_are_not_compared(tmp_path):
    """By what the scores say of the text, or by the references."""
    make_seeds(tmp_path / "base")
    make_seeds(tmp_path / "new", translations=REFERENCES[:9], references=REFERENCES[:9])
    assert compared(tmp_path, finding(Contrast("new", "base")))[0][1:] == ("", "trained or scored on different texts")
    for name, checksum in (("base", "1"), ("new", "2")):
        make_run(tmp_path / name, text_checksum=checksum, loss=1.0)
    found = compared(tmp_path, *(finding(Contrast("new", "base", name)) for name in ("loss", "BLEU")))
    assert [one[1:] for one in found] == [("", "trained or scored on different texts")] * 2


def test_figures_outside_the_tables_are_of_the_first_language_pair(tmp_path):
    recipe = recipe_of(finding(Contrast("new", "base", figures="2 1")), pairs={"ro-en": Pair(), "tr-en": Pair()})
    for place in (tmp_path, tmp_path / "tr-en"):
        for name in ("base", "new"):
            make_run(place / name)
    found = compare(Runs(recipe, tmp_path))
    assert [(one.pair, one.paper) for one in found] == [("ro-en", "+1 (2 – 1)"), ("tr-en", "")]


def test_a_finding_is_held_against_every_language_pair_that_was_run(tmp_path):
    pairs = {"ro-en": Pair(), "tr-en": Pair(), "en-it": Pair()}
    claim = finding(Contrast("new", "base"))
    recipe = recipe_of(claim, pairs=pairs)
    for folder in (tmp_path / "tr-en", tmp_path / "en-it"):
        make_seeds(folder / "base", translations=WRONG)
        make_seeds(folder / "new", 90.0, translations=REFERENCES)
    found = compare(Runs(recipe, tmp_path))
    # The paper's figures are those of the first pair.
    assert [(one.pair, one.paper, one.verdict) for one in found] == [("tr-en", "", "agrees"), ("en-it", "", "agrees")]
    text = page_of(tmp_path, recipe)
    assert "| `new` – `base` (tr-en) |" in text and "| `new` – `base` (en-it) |" in text and "- all: seeds 3, " in text


def test_a_difference_is_of_the_numbers_beside_it_whatever_seeds_the_baseline_has_more(tmp_path):
    for seed, bleu in (("", 30.0), ("-seed=2", 32.0), ("-seed=3", 64.0)):
        make_run(tmp_path / f"base{seed}", bleu)
    for seed, bleu in (("", 31.0), ("-seed=2", 33.0)):
        make_run(tmp_path / f"new{seed}", bleu)
    [(_, here, found)] = compared(tmp_path, finding(Contrast("new", "base")))
    assert (here, found) == ("-10.0 (32.0 – 42.0)", "too little to say")


def test_of_language_pairs_those_with_numbers_are_shown(tmp_path):
    """Else one in which both were run; what rounds to nothing has no minus sign."""
    recipe = recipe_of(
        finding(Contrast("new", "base", split="valid")),
        finding(Contrast("new", "base", "translation time")),
        pairs={"ro-en": Pair(), "tr-en": Pair(), "en-it": Pair()},
    )
    for pair, names in (("tr-en", ("test",)), ("en-it", ("test", "valid"))):
        make_run(tmp_path / pair / "base", 30.01, names=names)
        make_run(tmp_path / pair / "new", 30.0, names=names)
    found = compare(Runs(recipe, tmp_path))
    assert [(one.pair, one.here, one.verdict) for one in found] == [
        ("en-it", "+0.0 (30.0 – 30.0)", "too little to say"),
        ("tr-en", "", "not measured"),
    ]


def test_the_page(tmp_path):
    make_run(tmp_path / "base", names=("test", "valid"), beams=4, length_penalty=0.6)
    make_run(tmp_path / "new", 90.5, translations=REFERENCES, beams=4, length_penalty=0.6)
    make_run(tmp_path / "new-seed=2", 92.5, translations=REFERENCES, beams=4, length_penalty=0.6)
    (tmp_path / "curves.png").write_bytes(b"")
    recipe = recipe_of(
        finding(Contrast("new", "base")),
        finding(Contrast("other", "base")),
        about="It asks " + "whether this helps " * 9 + "at all.",
        pictures={"curves.png": "curves base new", "missing.png": "curves base"},
        captions={"curves.png": "Loss over steps"},
        scale="small",
    )
    text = page_of(tmp_path, recipe)
    parts = text.split("\n## ")
    assert [part.partition("\n")[0] for part in parts] == [
        "# A paper",
        "Findings",
        "Table 7: Scores, on unknown text",
        "Pictures",
        "Runs",
    ]
    assert "This" not in parts[1] and text.index("It asks") < text.index("## Findings")
    assert max(map(len, parts[0].splitlines())) <= 120
    missing = "too little to say (2 of 3 seeds; 1 of 3 seeds)"
    assert table_rows(parts[1]) == [
        ["claim", "systems", "here [the paper]", "verdict"],
        ["1. New is better than base (§5, Table 7)", "`new` – `base`", "BLEU +61.5 [+0.50]", missing],
    ]
    assert "\n\nNot run:\n\n- **2.** New is better than base (§5, Table 7)\n" in parts[1]
    # All of the paper's table is in the file.
    assert table_rows(parts[2]) == [
        ["system", "BLEU", "TER"],
        ["Base", "30.00 [34.2]", "50.0 [53.5]"],
        ["New", "91.50 ± 1.41 [34.70†]", "50.0 ± 0.0 [53.2]"],
    ]
    assert parts[2].endswith("\n- not measured: AER\n") and "[71.4]" in (tmp_path / "tables.md").read_text("utf-8")
    assert "![curves](curves.png)\n\nLoss over steps." in parts[3] and "missing" not in text
    own, changed = parts[4].split("Settings changed, the recipe's at the scale small in parentheses:")
    assert " warmup_steps=" in " ".join(changed.split())
    assert table_rows(own) == [["system", "seeds"], ["`base`", "1"], ["`new`", "2"]]
    assert "Scale small: at most three layers" in parts[0]
    alike = "test text unknown text, test sentences 30, beams 4, length penalty 0.6, backend torch"
    assert f"\n- all: steps 9, parameters 9, {alike}\n" in own and "trained on unknown\n" in parts[2]


def test_a_note_stands_once_and_a_table_that_was_not_run_in_a_line(tmp_path):
    make_run(tmp_path / "base")
    other = dataclasses.replace(TABLE, name="Table 8", columns=[Line("BLEU", measure="BLEU", text="WMT")] * 3)
    rows = [Line("A", entry="other", figures="1 2 3", text="One"), Line("B", entry="other", text="One"), TABLE.rows[1]]
    none = dataclasses.replace(other, name="Table 9", rows=rows)
    text = page_of(tmp_path, dataclasses.replace(recipe_of(), tables=(TABLE, other, none)))
    assert text.count("in brackets") == text.count("trained on unknown") == 1
    # B has no figure of the paper either.
    assert "## Table 9: Scores\n\n- not run: A [One]; New; BLEU, BLEU, BLEU [WMT]\n" in text


def test_what_is_said_about_differences(tmp_path):
    """By hand, if there is a file; of claims that differ and that it does not name, that they are not explained."""
    make_seeds(tmp_path / "base", translations=WRONG)
    make_seeds(tmp_path / "new", 30.9, translations=REFERENCES)
    agrees, differs = (finding(Contrast("new", "base"), expected=(one,)) for one in (BETTER, WORSE))
    assert "Not explained" not in page_of(tmp_path, recipe_of(agrees))
    recipe = recipe_of(differs, agrees, differs, differs)
    assert "\n\nNot explained: claims 1, 3, 4.\n" in page_of(tmp_path, recipe)
    comments = tmp_path / "comments.md"
    comments.write_text("Claims 1 and 3: the 4 sentences are short.\n", encoding="utf-8")
    text = page_of(tmp_path, recipe)
    assert text.index("differs") < text.index("short.\n\nNot explained: claim 4.\n\n## Table 7")
    comments.write_text("Of claims 1, 3 and 4, too.", encoding="utf-8")
    assert "Not explained" not in page_of(tmp_path, recipe)


def test_comments_that_make_a_page_too_long_are_told(tmp_path, caplog):
    make_run(tmp_path / "base")
    recipe = recipe_of(finding(Contrast("new", "base")))
    without = len(page_of(tmp_path, recipe).split())
    for more, told in ((1500, False), (1501, True)):
        caplog.clear()
        (tmp_path / "comments.md").write_text("word " * (more - without), encoding="utf-8")
        assert len(page_of(tmp_path, recipe).split()) == more
        assert (f"page.md has {more} words, more than 1500: shorten comments.md" in caplog.text) == told


def test_no_page_without_tables(tmp_path):
    make_run(tmp_path / "base")
    runs = Runs(dataclasses.replace(recipe_of(), tables=()), tmp_path)
    assert write_page(runs, write_tables(runs)) is None
    assert not (tmp_path / "page.md").exists()
