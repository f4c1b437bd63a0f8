"""The page of a paper from run folders made by hand: verdicts, differences and notes worked out by hand."""

import dataclasses

import pytest

from keras_attn_zoo.evaluation.text_scores import TESTS
from keras_attn_zoo.runs.system import System
from keras_attn_zoo.studies.comparison import Entry, Recipe
from keras_attn_zoo.studies.paper_cells import Runs, Value
from keras_attn_zoo.studies.paper_files import write_tables
from keras_attn_zoo.studies.paper_findings import compare, findings_table, verdict
from keras_attn_zoo.studies.paper_page import write_page
from keras_attn_zoo.studies.paper_tables import BETTER, LEVEL, WORSE, Contrast, Finding, Line, Pair, PaperTable
from tests.made_runs import REFERENCES, WRONG, make_run, table_rows

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
    monkeypatch.setitem(TESTS, "bootstrap", 100)


def recipe_of(*findings, **options):
    return Recipe("A paper", ENTRIES, ("base",), tables=(TABLE,), findings=findings, **options)


def finding(*contrasts, expected=(BETTER,), **options):
    return Finding("New is better than base", "§5, Table 7", expected, contrasts, **options)


def compared(folder, *findings, **options):
    """The comparisons as `(the paper, here, verdict)`."""
    runs = Runs(recipe_of(*findings, **options), folder, "bootstrap")
    return [(one.paper, one.here, one.verdict) for one in compare(runs)]


def page_of(folder, recipe):
    runs = Runs(recipe, folder, "bootstrap")
    path = write_page(runs, write_tables(runs))
    return path.read_text("utf-8")


@pytest.mark.parametrize(
    ("expected", "verdicts"),
    [
        ((BETTER,), ["agrees", "differs", "undecided"]),
        ((WORSE,), ["differs", "agrees", "undecided"]),
        ((LEVEL,), ["differs", "differs", "agrees"]),
        ((LEVEL, WORSE), ["differs", "agrees", "agrees"]),
    ],
)
def test_significance_decides_about_bleu(tmp_path, expected, verdicts):
    """All words right against one wrong in every sentence; the third has the words of the baseline."""
    make_run(tmp_path / "base", 30.0, translations=WRONG)
    make_run(tmp_path / "new", 90.5, translations=REFERENCES)
    make_run(tmp_path / "other", 30.0, translations=WRONG)
    claim = finding(Contrast("new", "base"), Contrast("base", "new"), Contrast("other", "base"), expected=expected)
    assert compared(tmp_path, claim) == [
        ("+0.50 (34.70 – 34.20)", "+60.5 (90.5 – 30.0)**", verdicts[0]),
        ("-0.50 (34.20 – 34.70)", "-60.5 (30.0 – 90.5)**", verdicts[1]),
        ("", "+0.0 (30.0 – 30.0)", verdicts[2]),
    ]


@pytest.mark.parametrize(
    ("expected", "difference", "found"),
    [
        ((LEVEL,), -1.0, "agrees"),
        ((LEVEL,), -1.1, "undecided"),
        ((LEVEL, BETTER), -1.1, "undecided"),
        ((LEVEL, WORSE), -1.1, "agrees"),
        ((LEVEL, BETTER), 1.1, "agrees"),
        ((BETTER,), 1.1, "undecided"),
    ],
)
def test_a_large_difference_that_is_not_significant_does_not_show_that_there_is_none(expected, difference, found):
    value = Value([30.0], p_values=[0.2], better=[difference > 0], difference=difference)
    assert verdict(finding(expected=expected), "BLEU", value) == found
    # Of errors, fewer are better.
    value = Value([30.0], p_values=[0.2], better=[difference > 0], difference=-difference)
    assert verdict(finding(expected=expected), "TER", value) == found


def test_verdicts_of_significance_alone_of_one_seed_and_of_no_test():
    better = Value([30.0], p_values=[0.2], better=[True], difference=1.3)
    assert verdict(finding(expected=(LEVEL, WORSE)), "BLEU", better) == "undecided"
    assert verdict(finding(expected=(LEVEL, WORSE), significant=True), "BLEU", better) == "agrees"
    assert verdict(finding(expected=(WORSE,), significant=True), "BLEU", better) == "undecided"
    # One seed that differs shows that there may be a difference.
    for p, found in ((0.04, "undecided"), (0.06, "agrees")):
        value = Value([30.0, 30.0], p_values=[p, 0.3], better=[True, False], difference=0.4)
        assert [verdict(finding(expected=one), "BLEU", value) for one in ((LEVEL,), (LEVEL, WORSE))] == [found] * 2
        assert verdict(finding(expected=(LEVEL, BETTER)), "BLEU", value) == "agrees"
    # Without a test of significance there is no "significant": nothing is not what was claimed.
    same = Value([30.0], difference=0.0)
    assert verdict(finding(), "AER", same) == "differs"
    assert verdict(finding(expected=(LEVEL,)), "AER", same) == "agrees"


def test_of_two_seeds_both_must_differ(tmp_path):
    for name, translations in (("base", WRONG), ("new", REFERENCES), ("base-seed=2", WRONG), ("new-seed=2", WRONG)):
        make_run(tmp_path / name, 30.0 if translations is WRONG else 90.0, translations=translations)
    ((_, here, found),) = compared(tmp_path, finding(Contrast("new", "base")))
    assert (here, found) == ("+30.0 (60.0 – 30.0)", "undecided")


def test_a_lower_error_rate_is_better_without_a_test(tmp_path):
    for name, aer in (("base", 0.444), ("new", 0.301)):
        gold = {"aer": 0.9, "aer_without_full_stop": aer, "all_layers_aer_without_full_stop": 0.2}
        make_run(tmp_path / name, names=("test", "gold"), alignment=gold)
    of_aer = Contrast("new", "base", "AER", "gold")
    layers = Contrast("new", "new", "AER, all layers", "gold", other_measure="AER", figures="54.8 57.8")
    assert compared(tmp_path, finding(of_aer, layers), finding(of_aer, expected=(WORSE,))) == [
        ("-13.6 (57.8 – 71.4)", "-14.3 (30.1 – 44.4)", "agrees"),
        ("-3.0 (54.8 – 57.8)", "-10.1 (20.0 – 30.1)", "agrees"),
        ("-13.6 (57.8 – 71.4)", "-14.3 (30.1 – 44.4)", "differs"),
    ]


@pytest.mark.parametrize(("steps", "found"), [(8, "agrees"), (20, "differs")])
def test_a_factor_counts_from_its_margin_on(tmp_path, steps, found):
    """80 seconds of 40 steps: 2 a step; of 8 steps five times that, of 20 twice."""
    make_run(tmp_path / "base", steps=40)
    make_run(tmp_path / "new", steps=steps)
    slow = Contrast("new", "base", "training time of a step, relative", figures="5.6x 1.0x")
    ((paper, here, verdict_found),) = compared(tmp_path, finding(slow, expected=(WORSE,), margin=3.9))
    times = {8: "+4.0x (5.0x – 1.0x)", 20: "+1.0x (2.0x – 1.0x)"}
    assert (paper, here, verdict_found) == ("+4.6x (5.6x – 1.0x)", times[steps], found)


@pytest.mark.parametrize(("seconds", "found"), [(98.0, "differs"), (96.0, "agrees"), (104.0, "differs")])
def test_a_small_share_of_a_time_counts_as_no_difference(tmp_path, seconds, found):
    for name, own in (("base", 100.0), ("new", seconds)):
        make_run(tmp_path / name, translation_seconds=own, translation_compilation_seconds=0.0)
    faster = finding(Contrast("new", "base", "translation time"), share=0.03)
    assert [one[2] for one in compared(tmp_path, faster)] == [found]
    runs = Runs(recipe_of(faster), tmp_path, "bootstrap")
    notes = findings_table(runs, compare(runs)).notes
    assert notes[-1] == "a difference of at most 3% counts as none: translation time"


def test_how_many_positions_a_search_sums_over_is_named(tmp_path):
    every = Contrast("new", "new", split="valid-k0", other_split="valid-k6")
    runs = Runs(recipe_of(finding(every)), tmp_path, "bootstrap")
    (row,) = findings_table(runs, compare(runs)).rows
    assert row[0] == "1: `new`, BLEU (valid, K = all) – BLEU (valid, K = 6)"


def test_what_was_not_run_or_timed_says_so(tmp_path):
    make_run(tmp_path / "base", steps=0, translation_seconds=0.0, translation_compilation_seconds=0.0)
    make_run(tmp_path / "other", steps=0, translation_seconds=0.0, translation_compilation_seconds=0.0)
    untimed = [Contrast("other", "base", name) for name in ("training time", "translation time")]
    claim = finding(Contrast("new", "base"), Contrast("base", "new"), Contrast("new", "new", "TER"), *untimed)
    found = compared(tmp_path, claim)
    assert [one[1:] for one in found] == [("", "not run")] * 3 + [("", "not measured")] * 2
    assert found[0][0] == "+0.50 (34.70 – 34.20)"


def test_other_texts_are_not_compared(tmp_path):
    make_run(tmp_path / "base")
    make_run(tmp_path / "new", translations=REFERENCES[:9], references=REFERENCES[:9])
    ((_, _, found),) = compared(tmp_path, finding(Contrast("new", "base")))
    assert found == "scored on different texts"


def test_losses_and_links_of_other_texts_are_not_compared(tmp_path):
    """They have no test of significance that would notice it."""
    make_run(tmp_path / "base", names=("test", "gold"), text_checksum="1", loss=2.0)
    make_run(tmp_path / "new", text_checksum="1", loss=1.0)
    for split, wanted in (("test", "agrees"), ("gold", "scored on different texts")):
        ((_, _, found),) = compared(tmp_path, finding(Contrast("new", "base", "loss", split)))
        assert found == wanted
    make_run(tmp_path / "new", text_checksum="2", loss=1.0)
    ((_, here, found),) = compared(tmp_path, finding(Contrast("new", "base", "loss")))
    assert (here, found) == ("", "scored on different texts")


def test_two_zeros_confirm_nothing(tmp_path):
    for name in ("base", "new"):
        make_run(tmp_path / name, bleu=0.0)
    ((_, _, found),) = compared(tmp_path, finding(Contrast("new", "base"), expected=(LEVEL,)))
    assert found == "both are 0"


def test_figures_outside_the_tables_are_of_the_first_language_pair(tmp_path):
    recipe = recipe_of(finding(Contrast("new", "base", figures="2 1")), pairs={"ro-en": Pair(), "tr-en": Pair()})
    for place in (tmp_path, tmp_path / "tr-en"):
        for name in ("base", "new"):
            make_run(place / name)
    found = compare(Runs(recipe, tmp_path, "bootstrap"))
    assert [(one.pair, one.paper) for one in found] == [("ro-en", "+1 (2 – 1)"), ("tr-en", "")]


def test_a_finding_is_held_against_every_language_pair_that_was_run(tmp_path):
    pairs = {"ro-en": Pair(), "tr-en": Pair(), "en-it": Pair()}
    claim = finding(Contrast("new", "base"))
    recipe = recipe_of(claim, pairs=pairs)
    for folder in (tmp_path / "tr-en", tmp_path / "en-it"):
        make_run(folder / "base", translations=WRONG)
        make_run(folder / "new", 90.0, translations=REFERENCES)
    found = compare(Runs(recipe, tmp_path, "bootstrap"))
    # The paper's figures are those of the first pair.
    assert [(one.pair, one.paper, one.verdict) for one in found] == [("tr-en", "", "agrees"), ("en-it", "", "agrees")]
    text = page_of(tmp_path, recipe)
    assert "1: `new` – `base`, BLEU, tr-en" in text and "| tr-en |" in text


def test_a_difference_is_of_the_numbers_beside_it_whatever_seeds_the_baseline_has_more(tmp_path):
    for seed, bleu in (("", 30.0), ("-seed=2", 32.0), ("-seed=3", 60.0)):
        make_run(tmp_path / f"base{seed}", bleu)
    for seed, bleu in (("", 31.0), ("-seed=2", 33.0)):
        make_run(tmp_path / f"new{seed}", bleu)
    [(_, here, _)] = compared(tmp_path, finding(Contrast("new", "base")))
    assert here == "+1.0 (32.0 – 31.0)"


def test_of_language_pairs_those_with_numbers_are_shown(tmp_path):
    """Else one in which both were run; what rounds to nothing has no minus sign."""
    recipe = recipe_of(
        finding(Contrast("new", "base", split="valid")),
        finding(Contrast("new", "base", "translation time")),
        pairs={"ro-en": Pair(), "tr-en": Pair(), "en-it": Pair()},
    )
    untimed = {"translation_seconds": 0.0, "translation_compilation_seconds": 0.0}
    for pair, names in (("tr-en", ("test",)), ("en-it", ("test", "valid"))):
        make_run(tmp_path / pair / "base", 30.01, names=names, **untimed)
        make_run(tmp_path / pair / "new", 30.0, names=names, **untimed)
    found = compare(Runs(recipe, tmp_path, "bootstrap"))
    assert [(one.pair, one.here, one.verdict) for one in found] == [
        ("en-it", "+0.0 (30.0 – 30.0)", "undecided"),
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
        "Table 7: Scores",
        "Pictures",
        "Runs",
    ]
    assert "This" not in parts[1] and text.index("It asks") < text.index("## Findings")
    assert max(map(len, parts[0].splitlines())) <= 120
    assert "1. New is better than base (§5, Table 7)\n2. New is better" in parts[1]
    rows = table_rows(parts[1])
    assert rows[0] == ["finding", "the paper", "here", "verdict"]
    # The second seed of the baseline is missing.
    assert rows[1] == ["1: `new` – `base`, BLEU", "+0.50 (34.70 – 34.20)", "", "not measured"]
    assert rows[2] == ["2: `other` – `base`, BLEU", "", "", "not run"]
    tables = (tmp_path / "tables.md").read_text("utf-8")
    assert parts[2].strip() in tables
    assert "![Loss over steps](curves.png)\n\nLoss over steps." in parts[3] and "missing" not in text
    own, changed = parts[4].split("In these settings they differ from the recipe's at the scale small:")
    assert "| `warmup_steps`" in changed
    assert table_rows(own)[1:] == [
        ["`base`", "1", "9", "9", "30", "30.0", "4, 0.6", "torch"],
        ["`new`", "2", "9", "9", "30", "91.5", "4, 0.6", "torch"],
    ]
    assert "Scale small: at most three layers" in parts[0] and "- text: unknown\n" in parts[4]


def test_what_is_said_about_differences(tmp_path):
    """By hand, if there is a file; else that no reason was tested, where something differs."""
    make_run(tmp_path / "base", translations=WRONG)
    make_run(tmp_path / "new", 90.5, translations=REFERENCES)
    unexplained = "no reason was tested"
    assert unexplained not in page_of(tmp_path, recipe_of(finding(Contrast("new", "base"))))
    differs = recipe_of(finding(Contrast("new", "base"), expected=(WORSE,)))
    assert unexplained in page_of(tmp_path, differs)
    (tmp_path / "comments.md").write_text("The sentences are short.\n", encoding="utf-8")
    text = page_of(tmp_path, differs)
    assert unexplained not in text
    assert text.index("differs") < text.index("The sentences are short.\n\n## Table 7")


def test_no_page_without_tables(tmp_path):
    make_run(tmp_path / "base")
    runs = Runs(dataclasses.replace(recipe_of(), tables=()), tmp_path, "bootstrap")
    assert write_page(runs, write_tables(runs)) is None
    assert not (tmp_path / "page.md").exists()
