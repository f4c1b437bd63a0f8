"""A paper's tables from run folders made by hand, with cells worked out by hand."""

import csv
import dataclasses
import json
import math
import re
import shutil
import sys

import pytest

from keras_attn_zoo.cli.recipe import run_recipe
from keras_attn_zoo.runs.examples import best_translations
from keras_attn_zoo.runs.preparation import prepare_data
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.runs.settings import DataSettings
from keras_attn_zoo.runs.system import System
from keras_attn_zoo.studies.comparison import Entry, Recipe
from keras_attn_zoo.studies.measures import large
from keras_attn_zoo.studies.paper_cells import Runs
from keras_attn_zoo.studies.paper_files import write_tables
from keras_attn_zoo.studies.paper_tables import Examples, Line, Pair, PaperTable, bleu_percents
from tests.made_runs import REFERENCES, WRONG, make_run, make_seeds, make_timing, table_rows
from tests.tiny_run import TINY

TRANSFORMER = System("base", {"tie_embeddings": "all"}, DataSettings(joint=True), body="transformer")
ENTRIES = {"base": Entry(TRANSFORMER, {"BLEU": "9.9"}), "new": Entry(TRANSFORMER, baseline="base")}


def recipe_of(columns, rows, pairs=(), **options):
    table = PaperTable("Table 1", "Scores", columns, rows, **options)
    return Recipe("A paper", ENTRIES, ("base",), tables=(table,), pairs={pair: Pair() for pair in pairs})


def written(folder, recipe):
    """The rows of the table, `{title: cells}`, and the lines below it."""
    assert write_tables(Runs(recipe, folder))
    text = (folder / "tables.md").read_text("utf-8")
    notes = [line[2:] for line in text.splitlines() if line.startswith("- ")]
    return {title: cells for title, *cells in table_rows(text)[1:]}, notes


def test_scores_beside_the_papers_and_what_was_not_run_is_empty(tmp_path):
    """Two seeds of 30 and 32: mean 31, and 1.4 is the root of 1 + 1."""
    make_run(tmp_path / "base", 30.0, names=("test", "valid"))
    make_run(tmp_path / "base-seed=2", 32.0, 51.0)
    make_run(tmp_path / "base-dropout=0.3", 99.0)
    make_run(tmp_path / "baseline", 99.0)
    columns = [
        Line("BLEU", measure="BLEU"),
        Line("TER", "dev", split="valid", measure="TER"),
        Line("BLEU", "other", split="newstest2018", measure="BLEU"),
    ]
    rows = [
        Line("Base", entry="base", figures="34.25 53.5 –"),
        Line("New", entry="new", figures="35 – 1.0"),
        Line("state of the art", figures="36.0 – –"),
    ]
    for name in ("base", "base-seed=2"):
        config = RunFolder(tmp_path / name).config
        files = {
            part: [f"/data/{file}.de", f"/data/{file}.en"] for part, file in (("train", "train"), ("test", "flickr"))
        }
        corpus = {**files, "reverse": False}
        config.write_text(json.dumps({**json.loads(config.read_text()), "corpus": corpus}))
    found, notes = written(tmp_path, recipe_of(columns, rows))
    assert found == {
        "Base": ["31.00 ± 1.41 [34.25]", "50.0 [53.5]", ""],
        "New": ["[35]", "", "[1.0]"],
        "state of the art": ["[36.0]", "", ""],
    }
    assert notes == [
        "in brackets: the paper's figures, texts and settings; a cell with these alone was not run",
        "our systems were trained on data/train de→en",
        "mean ± standard deviation over seeds",
    ]
    text = (tmp_path / "tables.md").read_text("utf-8")
    # The validation text was held out.
    title = "Scores, on data/flickr de→en; data/train de→en, valid"
    assert f"# A paper: the paper's tables\n\n## Table 1: {title}\n\n| system" in text
    assert "| BLEU | dev, TER | other, BLEU |" in re.sub(" +", " ", text)


FLICKR = {
    **{part: [f"/text/multi30k/{part}.{side}.gz" for side in ("de", "en")] for part in ("train", "valid")},
    "test": ["/text/multi30k/flickr.de.gz", "/text/multi30k/flickr.en.gz"],
    "reverse": True,
}


def trained_on(run, corpus):
    """Let a run have been trained on a text."""
    run.config.write_text(json.dumps({**json.loads(run.config.read_text()), "corpus": corpus}))


def headings(folder):
    """The titles of a table, its columns and its rows."""
    text = (folder / "tables.md").read_text("utf-8")
    (_, *columns), *rows = table_rows(text)
    return re.search("^## Table 1: (.*)", text, re.MULTILINE)[1], columns, [row[0] for row in rows]


def test_columns_name_our_text_and_the_papers_in_brackets(tmp_path):
    """Of a pair that was not run, the paper's alone; of a text that was given by itself, its files."""
    trained_on(make_timing(make_run(tmp_path / "base", names=("test", "valid"), loss=1.5)), FLICKR)
    origin = {"files": ["/text/news.tsv.xz"], "reverse": True}
    run = make_run(tmp_path / "new", names=("test", "newstest2018"), origin=origin)
    trained_on(run, {"name": "wmt17-de-en", "sha256": {}})
    run.add_scores("test", {key: value for key, value in run.read_scores()["test"].items() if key != "origin"})
    columns = [
        Line("BLEU", pair="ro-en", measure="BLEU", text="newstest2016"),
        Line("BLEU", pair="ro-en", split="valid", measure="BLEU", text="newsdev2016"),
        Line("BLEU", pair="ro-en", split="newstest2018", measure="BLEU", text="newstest2018"),
        Line("accuracy", pair="ro-en", measure="highest training accuracy", text="train set"),
        Line("BLEU", pair="tr-en", measure="BLEU", text="Tr→En newstest2018"),
        Line("time", pair="ro-en", measure="training time"),
    ]
    rows = [Line("Base", entry="base", figures="1 2 3 4 5 6"), Line("New", entry="new")]
    recipe = recipe_of(columns, rows, ("ro-en", "tr-en"), text="WMT")
    found, _ = written(tmp_path, recipe)
    assert found["Base"][0] == "30 [1]" and found["Base"][4] == "[5]"
    assert headings(tmp_path) == (
        "Scores [WMT]",
        [
            "BLEU, multi30k/flickr en→de; wmt17-de-en test [newstest2016]",
            "BLEU, multi30k/valid en→de [newsdev2016]",
            "BLEU, text/news reversed [newstest2018]",
            "accuracy, multi30k/train en→de; wmt17-de-en train [train set]",
            "BLEU [Tr→En newstest2018]",
            "time",
        ],
        ["Base", "New"],
    )
    cells = json.loads((tmp_path / "tables.json").read_text("utf-8"))["tables"][0]["cells"]
    assert [(cell["column"], cell["text"], cell["paper_text"]) for cell in cells[:6]] == [
        ("BLEU", "multi30k/flickr en→de", "newstest2016"),
        ("BLEU", "multi30k/valid en→de", "newsdev2016"),
        ("BLEU", None, "newstest2018"),
        ("accuracy", "multi30k/train en→de", "train set"),
        ("BLEU", None, "Tr→En newstest2018"),
        ("time", "multi30k/train en→de", "WMT"),
    ]
    with (tmp_path / "tables.csv").open(encoding="utf-8", newline="") as file:
        line = next(csv.DictReader(file))
    assert (line["text"], line["paper_text"]) == ("multi30k/flickr en→de", "newstest2016")
    latex = (tmp_path / "tables.tex").read_text("utf-8")
    assert r"multi30k/flickr en$\rightarrow$de; wmt17-de-en test {[}newstest2016]" in latex


def test_rows_or_the_title_name_the_texts_where_the_papers_stand_there(tmp_path):
    trained_on(make_run(tmp_path / "base", names=("test", "newstest2018")), FLICKR)
    columns = [Line("BLEU", measure="BLEU", text="newstest2017")]
    columns += [Line("BLEU", split="newstest2018", measure="BLEU", text="newstest2018")]
    pairs = {"de-en": "German→English", "en-de": "English→German"}
    rows = [Line("base", entry="base", pair=pair, text=name) for pair, name in pairs.items()]
    written(tmp_path, recipe_of(columns, rows, pairs))
    assert headings(tmp_path) == (
        "Scores",
        ["BLEU [newstest2017]", "BLEU [newstest2018]"],
        ["base, multi30k/flickr en→de; newstest2018 [German→English]", "base [English→German]"],
    )
    written(tmp_path, recipe_of([Line("BLEU", measure="BLEU")], [Line("Base", entry="base")], text="Europarl"))
    assert headings(tmp_path) == ("Scores, on multi30k/flickr en→de [Europarl]", ["BLEU"], ["Base"])


def test_a_column_has_the_steps_of_the_run_not_those_of_the_paper(tmp_path):
    """The second line of the log has the BLEU, after 6 steps; another run was longer."""
    columns = [
        Line(f"{part} %", measure=f"BLEU after {part}% of the steps", setup=f"{part}00 steps") for part in (50, 75)
    ]
    rows = [Line("Base", entry="base", figures="40.9 42.1"), Line("New", entry="new")]
    make_run(tmp_path / "base")
    written(tmp_path, recipe_of(columns, rows))
    assert headings(tmp_path)[1] == ["50 %, 6 steps [5000 steps]", "75 % [7500 steps]"]
    run = make_run(tmp_path / "new")
    run.log.write_text(json.dumps({"round": 1, "step": 12, "test_bleu_after_50%": 40.0}) + "\n")
    found, _ = written(tmp_path, recipe_of(columns, rows))
    assert found == {"Base": ["41.3 [40.9]", "[42.1]"], "New": ["40.0", ""]}
    assert headings(tmp_path)[1] == ["50 %, 6 steps; 12 steps [5000 steps]", "75 % [7500 steps]"]
    first, second, *_ = json.loads((tmp_path / "tables.json").read_text("utf-8"))["tables"][0]["cells"]
    assert (first["steps"], first["paper_setup"]) == ("6", "5000 steps")
    assert (second["steps"], second["paper_setup"]) == (None, "7500 steps")


def test_measures_of_scores_log_and_baseline(tmp_path):
    known = {"loss": 1.5, "perplexity": 4.48, "accuracy": 0.727, "free_running": {"loss": 4.479}}
    gold = {"aer": 0.9, "aer_without_full_stop": 0.714, "all_layers_aer_without_full_stop": 0.571}
    # 40 steps of 2 seconds.
    make_timing(make_run(tmp_path / "base", alignment=gold, **known))
    make_timing(make_run(tmp_path / "new", translations=REFERENCES), 5.0)
    measures = {
        "loss": "1.50",
        "perplexity": "4.48",
        "accuracy": "72.7",
        "loss, free-running": "4.48",
        "training time": "80",
        "translation time": "7.0",
        "training time of a step, relative": "1.0x",
        "lowest training perplexity": "7.39",
        "lowest training loss": "2.00",
        "highest training accuracy": "50.00",
        "lowest validation perplexity": "8.25",
        "highest validation accuracy": "75.00",
        "BLEU after 50% of the steps": "41.3",
        "BLEU after 75% of the steps": "",
        "AER": "71.4",
        "AER, all layers": "57.1",
    }
    columns = [Line(name, measure=name, split="gold" if "AER" in name else "") for name in measures]
    recipe = recipe_of(columns, [Line("Base", entry="base"), Line("New", entry="new")])
    found, notes = written(tmp_path, recipe)
    assert found["Base"] == list(measures.values())
    new = dict(zip(measures, found["New"], strict=True))
    assert (new["training time of a step, relative"], new["loss"], new["AER"]) == ("2.5x", "", "")
    assert "AER: the end of the sentence and the full stop are left out" in notes
    assert bleu_percents(recipe.tables) == [50, 75]
    assert (recipe.splits("base", None), recipe.splits("other", None)) == (["gold"], [])
    drawn = dataclasses.replace(
        recipe, pictures={"k.png": "top-k base other --trained --name valid", "c.png": "curves new"}
    )
    assert [drawn.splits(name, None) for name in ("base", "other", "new")] == [["gold", "valid"], ["valid"], ["gold"]]


def test_marks_are_of_the_tables_baseline_and_direction(tmp_path):
    """By seeds and sentences: the second seed of `new` is as bad as the baseline's."""
    make_seeds(tmp_path / "base", 30.0)
    make_seeds(tmp_path / "new", 90.5, ter=10.0, translations=REFERENCES)
    columns = [Line(name, measure=name) for name in ("BLEU", "Multi-BLEU", "TER")]
    rows = [Line("Base", entry="base", figures="30.0 30.00 50.0"), Line("New", entry="new", figures="28.5(+0.5)† – –")]
    found, notes = written(tmp_path, recipe_of(columns, rows, dagger=True, differences=True))
    # All words are right, and so is every n-gram.
    base = float(found["Base"][1].split()[0])
    assert 0 < base < 70
    assert found["New"] == [
        *("90.5 ± 0.1 (+60.5)† [28.5 (+0.5)†]", f"100.00 ± 0.00 ({100 - base:+.2f})†"),
        "10.0 ± 0.0 (-40.0)†",
    ]
    assert "†: better than base, p < 0.01; a test that counts seeds and sentences" in notes
    assert any("multi-bleu.perl" in note and "tok:moses-en-sacremoses-" in note for note in notes)
    found, _ = written(tmp_path, recipe_of(columns, rows))
    assert [cell.split(" [")[0] for cell in found["New"]] == ["90.5 ± 0.1**", "100.00 ± 0.00**", "10.0 ± 0.0**"]
    # The other way round, it differs and is not better.
    found, _ = written(tmp_path, recipe_of(columns, rows, baseline="new"))
    assert [cell.split(" [")[0] for cell in found["Base"]] == ["30.0 ± 0.1**", f"{base:.2f} ± 0.00**", "50.0 ± 0.0**"]
    found, _ = written(tmp_path, recipe_of(columns, rows, baseline="new", dagger=True))
    assert "†" not in "".join(cell.split(" [")[0] for cell in found["Base"])
    make_run(tmp_path / "new-seed=2", 30.0)
    found, _ = written(tmp_path, recipe_of(columns, rows))
    assert "*" not in "".join(found["New"])
    # By Welch's test: t = 0.5 / √(0.05 / 3), 2.9 degrees of freedom, p = 0.03.
    for name, bleu in (("new", 30.3), ("new-seed=2", 30.5), ("new-seed=3", 30.7)):
        make_run(tmp_path / name, bleu)
    assert written(tmp_path, recipe_of(columns[:1], [Line("New", entry="new")]))[0]["New"] == ["30.5 ± 0.2*"]


def test_too_few_seeds_and_other_texts_have_no_marks(tmp_path):
    table = [Line("BLEU", measure="BLEU")], [Line("New", entry="new")]
    make_run(tmp_path / "base")
    make_run(tmp_path / "new", 90.0, translations=REFERENCES)
    found, notes = written(tmp_path, recipe_of(*table))
    assert found == {"New": ["90.0"]} and "no marks for new (new: 1 of 3 seeds; base: 1 of 3 seeds)" in notes
    make_seeds(tmp_path / "base")
    make_seeds(tmp_path / "new", 90.0, translations=REFERENCES[:9], references=REFERENCES[:9])
    found, notes = written(tmp_path, recipe_of(*table))
    assert found == {"New": ["90.0 ± 0.1"]} and "no marks for new (trained or scored on different texts)" in notes
    make_seeds(tmp_path / "base", translations=WRONG[:9], references=REFERENCES[:9])
    assert (
        "no marks for new (new: 9 of 20 sentences; base: 9 of 20 sentences)" in written(tmp_path, recipe_of(*table))[1]
    )
    make_seeds(tmp_path / "base")
    make_seeds(tmp_path / "new", 90.0, translations=REFERENCES)
    recipe = recipe_of(*table)
    assert written(tmp_path, recipe)[0] == {"New": ["90.0 ± 0.1**"]}
    # Of runs that show nothing, and of other training texts.
    smoke = dataclasses.replace(recipe, scale="smoke")
    assert "no marks for new (a smoke run)" in written(tmp_path, smoke)[1]
    for folder in tmp_path.glob("*/config.json"):
        corpus = {"fingerprint": folder.parent.name.partition("-")[0]}
        folder.write_text(json.dumps({**json.loads(folder.read_text()), "corpus": corpus}))
    assert "no marks for new (trained or scored on different texts)" in written(tmp_path, recipe)[1]


def test_language_pairs_and_their_average(tmp_path):
    make_run(tmp_path / "base", 20.0)
    make_run(tmp_path / "tr-en" / "base", 31.0)
    make_run(tmp_path / "tr-en" / "new", 33.0)
    both = ("en-de", "tr-en")
    rows = [
        *(Line("BLEU", pair, pair=pair, measure="BLEU") for pair in both),
        Line("BLEU", "Average", pair=both, measure="BLEU", figures="26.69 26.82(+0.13)"),
    ]
    recipe = recipe_of([Line("Base", entry="base"), Line("New", entry="new")], rows, both, differences=True)
    found, _ = written(tmp_path, recipe)
    assert found == {
        "en-de, BLEU": ["20.00", ""],
        "tr-en, BLEU": ["31.00", "33.00 (+2.00)"],
        "Average, BLEU": ["25.50 [26.69]", "[26.82 (+0.13)]"],
    }
    make_run(tmp_path / "new", 21.0)
    assert written(tmp_path, recipe)[0]["Average, BLEU"][1] == "27.00 (+1.50) [26.82 (+0.13)]"


@pytest.mark.parametrize(
    ("texts", "base", "new", "note"),
    [
        # (20 + 40) / 2 and (30 + 44) / 2.
        (("test", "mt04"), "30.00 ± 0.10", "37.00 ± 0.10 (+7.00)†", "zh-en: the mean of test, mt04"),
        (
            ("test",),
            "20.00 ± 0.10",
            "30.00 ± 0.10 (+10.00)†",
            "new (zh-en): of test alone, since mt04 were not all scored",
        ),
    ],
)
def test_several_test_texts_stand_as_their_mean(tmp_path, texts, base, new, note):
    """Without all of them, the first stands alone."""
    for name, own, other in (("test", 20.0, 30.0), ("mt04", 40.0, 44.0)):
        if name in texts:
            make_seeds(tmp_path / "zh-en" / "base", own, names=(name,))
            make_seeds(tmp_path / "zh-en" / "new", other, translations=REFERENCES, names=(name,))
    rows = [Line("Zh", pair="zh-en", measure="BLEU", figures="48.17 48.69(+0.52)†")]
    found, notes = written(tmp_path, of_two_texts(rows, differences=True, dagger=True, baseline="base"))
    assert found == {"Zh": [f"{base} [48.17]", f"{new} [48.69 (+0.52)†]"]}
    assert any(line.endswith(note) for line in notes)


def of_two_texts(rows, columns=("base", "new"), **options):
    """A recipe of two language pairs, of which the second has two test texts."""
    recipe = recipe_of([Line(name.title(), entry=name) for name in columns], rows, **options)
    return dataclasses.replace(recipe, pairs={"en-de": Pair(), "zh-en": Pair(tests=("test", "mt04"))})


@pytest.mark.parametrize(("base", "new"), [([20], [30, 44]), ([20, 40], [30])])
def test_a_mean_is_not_compared_with_a_single_text(tmp_path, base, new):
    for system, scores in (("base", base), ("new", new)):
        for name, bleu in zip(("test", "mt04"), scores, strict=False):
            translations = REFERENCES if system == "new" else WRONG
            make_run(tmp_path / "zh-en" / system, float(bleu), translations=translations, names=(name,))
    found, notes = written(tmp_path, of_two_texts([Line("Zh", pair="zh-en", measure="BLEU")], differences=True))
    assert found == {"Zh": [f"{sum(scores) / len(scores):.1f}" for scores in (base, new)]}
    assert "no marks for new (zh-en) (trained or scored on different texts)" in notes


def test_seeds_are_averaged_over_the_same_texts(tmp_path):
    """The second seed was scored on one text: both stand for that one alone, and do not spread."""
    for folder, names in (("new", ("test", "mt04")), ("new-seed=2", ("test",))):
        for name in names:
            make_run(tmp_path / "zh-en" / folder, 20.0 if name == "test" else 30.0, names=(name,))
    found, notes = written(tmp_path, of_two_texts([Line("Zh", pair="zh-en", measure="BLEU")], ["new"]))
    assert found == {"Zh": ["20.0 ± 0.0"]}
    assert "new (zh-en): of test alone, since mt04 were not all scored" in notes


def test_multi_bleu_splits_as_in_the_target_language(tmp_path):
    """`Nr.` is a word in German and two in Latvian: 5 to 2 n-grams of 6 to 3 are right, or 6 to 3 of 7 to 4."""
    references = ["Nr. Zwei drei vier fünf sechs"]
    for folder in (tmp_path, tmp_path / "en-lv"):
        make_run(folder / "base", translations=["Nr. Zwei drei vier fünf neun"], references=references)
        make_run(folder / "new", translations=references, references=references)
    rows = [Line(pair, pair=pair, measure="Multi-BLEU") for pair in ("en-de", "en-lv")]
    recipe = recipe_of([Line("Base", entry="base"), Line("New", entry="new")], rows, ("en-de", "en-lv"))
    found, notes = written(tmp_path, recipe)
    wanted = {"en-de": 5 / 6 * 4 / 5 * 3 / 4 * 2 / 3, "en-lv": 6 / 7 * 5 / 6 * 4 / 5 * 3 / 4}
    assert {pair: cells[0] for pair, cells in found.items()} == {k: f"{100 * p**0.25:.2f}" for k, p in wanted.items()}
    for language in ("de", "lv"):
        assert any(f"tok:moses-{language}-sacremoses-" in note for note in notes)


def test_a_recipe_of_multi_bleu_without_its_tokeniser_is_refused_at_once(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    recipe = recipe_of([Line("BLEU", measure="Multi-BLEU")], [Line("Base", entry="base")])
    assert run_recipe(recipe, "A paper.", ["--out", str(tmp_path / "out"), "--embedded"]) == 2
    error = capsys.readouterr().err
    assert "needs sacremoses: pip install 'keras-attn-zoo[translate]'." in error and error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_settings_of_a_language_pair():
    pairs = {
        "en-de": Pair(),
        "zh-en": Pair({"joint": False, "length_penalty": 1.5, "hidden_dim": 3}, {"budget": "20steps"}),
    }
    recipe = Recipe("A paper", ENTRIES, ("base",), {"budget": "90steps"}, note="For En-De.", pairs=pairs)
    first, second = (recipe.for_pair(pair).at_scale("paper") for pair in pairs)
    assert [one.entries["base"].system.training.budget for one in (first, second)] == ["90steps", "20steps"]
    assert [one.entries["base"].paper for one in (first, second)] == [{"BLEU": "9.9"}, {}]
    system = second.entries["base"].system
    # The source has a vocabulary of its own.
    assert (system.data.joint, system.sizes["tie_embeddings"], system.search.length_penalty) == (False, "target", 1.5)
    assert first.entries["base"].system.sizes["tie_embeddings"] == "all"
    assert [one.note.splitlines()[-1] for one in (first, second)] == ["For En-De.", "Language pair: zh-en."]


def test_csv_and_json_have_the_numbers(tmp_path):
    make_run(tmp_path / "base", 30.125)
    make_seeds(tmp_path / "new", 90.0, translations=REFERENCES)
    rows = [Line("Base", entry="base"), Line("New", entry="new", figures="34.2†"), Line("Other", figures="1.0")]
    written(tmp_path, recipe_of([Line("BLEU", pair="en-de", measure="BLEU")], rows, ["en-de"], dagger=True))
    with (tmp_path / "tables.csv").open(encoding="utf-8", newline="") as file:
        base, new, other = csv.DictReader(file)
    assert (base["table"], base["row"], base["values"], base["mean"], base["sd"]) == (
        "Table 1",
        "Base",
        "30.125",
        "30.125",
        "",
    )
    assert (new["paper"], new["baseline"], new["mark"], new["pairs"]) == ("34.2†", "base", "", "en-de")
    assert (other["system"], other["mean"], other["paper"]) == ("", "", "1.0")
    content = json.loads((tmp_path / "tables.json").read_text("utf-8"))
    assert (content["title"], content["significance"]) == ("A paper: the paper's tables", "seeds and sentences")
    (table,) = content["tables"]
    assert {(cell["text"], cell["paper_text"]) for cell in table["cells"]} == {("unknown text", None), (None, None)}
    assert [cell["row"] for cell in table["cells"]] == ["Base", "New", "Other"]
    assert [cell["p_value"] for cell in table["cells"]] == [None] * 3
    for name in ("base-seed=2", "base-seed=3"):
        make_run(tmp_path / name, 30.125)
    written(tmp_path, recipe_of([Line("BLEU", pair="en-de", measure="BLEU")], rows, ["en-de"], dagger=True))
    (table,) = json.loads((tmp_path / "tables.json").read_text("utf-8"))["tables"]
    assert table["cells"][1]["p_value"] < 0.01 and table["cells"][1]["mark"] == "†"
    assert table["cells"][1]["difference"] == 59.875


def test_a_table_in_print_names_the_paper_s_without_taking_its_number(tmp_path):
    make_run(tmp_path / "base")
    lines = [Line("BLEU", measure="BLEU")], [Line("Base", entry="base")]
    tables = PaperTable("Table 7", "Scores", *lines), PaperTable("Ablation", "Without it", *lines)
    write_tables(Runs(Recipe("A paper", ENTRIES, ("base",), tables=tables), tmp_path))
    captions = re.findall(r"\\caption\{(.*?)\. ", (tmp_path / "tables.tex").read_text("utf-8"))
    assert captions == ["Scores, on unknown text (Table 7 of the paper)", "Ablation: Without it, on unknown text"]


def test_nothing_is_written_of_nothing(tmp_path):
    recipe = recipe_of([Line("BLEU", measure="BLEU")], [Line("Base", entry="base")], ["en-de", "tr-en"])
    assert not write_tables(Runs(recipe, tmp_path / "nowhere"))
    make_run(tmp_path / "base")
    assert not write_tables(Runs(Recipe("No tables", ENTRIES, ("base",)), tmp_path))
    assert not list(tmp_path.glob("tables*"))


def test_the_training_text_is_counted(trained, corpus, tmp_path):
    prepare_data(corpus, TINY.data, tmp_path / "data")
    shutil.copytree(trained, tmp_path / "base")
    sides = [Line(side, measure=side, entry="base") for side in ("source", "target")]
    counts = ("sentences", "running words", "vocabulary")
    rows = [Line(count, measure=count, figures="5.9M –") for count in counts]
    recipe = Recipe("A paper", ENTRIES, ("base",), tables=(PaperTable("Table 1", "Statistics", sides, rows),))
    assert write_tables(Runs(recipe, tmp_path))
    pairs = list(corpus.splits.train)
    words = [[word for pair in pairs for word in pair[side].split()] for side in (0, 1)]
    assert table_rows((tmp_path / "tables.md").read_text("utf-8"))[1:] == [
        ["sentences", f"{len(pairs)} [5.9M]", str(len(pairs))],
        ["running words", *(f"{large(len(side))}{paper}" for side, paper in zip(words, (" [5.9M]", ""), strict=True))],
        ["vocabulary", *(f"{len({*side})}{paper}" for side, paper in zip(words, (" [5.9M]", ""), strict=True))],
    ]
    # Any other system of the same pair has the same text.
    shutil.move(tmp_path / "base", tmp_path / "new")
    before = (tmp_path / "tables.md").read_text("utf-8")
    write_tables(Runs(recipe, tmp_path))
    assert (tmp_path / "tables.md").read_text("utf-8") == before
    shutil.move(tmp_path / "new", tmp_path / "base")
    # Without the text, there is nothing to count.
    shutil.rmtree(tmp_path / "data")
    shutil.move(tmp_path / "base", tmp_path / "elsewhere" / "base")
    write_tables(Runs(recipe, tmp_path / "elsewhere"))
    assert "| sentences     | [5.9M] |" in (tmp_path / "elsewhere" / "tables.md").read_text("utf-8")


def test_scores_that_are_ratios_of_sums_have_marks_too(tmp_path, caplog):
    """A loss of 2 a token beside 1.9, on every sentence; of other texts or sums, nothing is said."""
    for name, loss in (("base", 2.0), ("new", 1.9)):
        make_seeds(tmp_path / name, loss=loss, perplexity=math.exp(loss))
        for folder in tmp_path.glob(f"{name}*"):
            path = RunFolder(folder).sentence_sums("test")
            path.parent.mkdir()
            path.write_text(json.dumps({"loss": [[loss * n for n in range(1, 31)], [*range(1, 31)]]}))
    run, path = RunFolder(tmp_path / "new"), RunFolder(tmp_path / "new").sentence_sums("test")
    columns = [Line(name, measure=name) for name in ("loss", "perplexity", "accuracy")]
    recipe = recipe_of(columns, [Line("New", entry="new")])
    found, notes = written(tmp_path, recipe)
    assert found["New"] == ["1.90 ± 0.00**", "6.69 ± 0.00**", ""]
    assert any("differs from base," in note for note in notes)
    [above, below], warned = json.loads(path.read_text())["loss"], "compared without a test"
    bare = ["1.90 ± 0.00", "6.69 ± 0.00", ""]
    for bad in (
        [[1.0], "x"],
        [[1.9], [1.0]],
        [],
        [above, below, below],
        [[None, *above[1:]], below],
        [above, [0] * 30],
        # Of an earlier state of the model.
        [[0.9 * one for one in above], below],
    ):
        caplog.clear()
        path.write_text(json.dumps({"loss": bad}))
        found, notes = written(tmp_path, recipe)
        assert found["New"] == bare and "no marks for loss of new, perplexity of new (no scores of sentences)" in notes
        assert caplog.text.count(warned) == 1, bad
    for content in ("[]", json.dumps({"loss": [[[one] for one in above], [[one] for one in below]]})):
        caplog.clear()
        path.write_text(content)
        assert written(tmp_path, recipe)[0]["New"] == bare and caplog.text.count(warned) == 1
    caplog.clear()
    path.unlink()
    assert written(tmp_path, recipe)[0]["New"] == bare and warned not in caplog.text
    # The same sums, of as many sentences, but others.
    path.write_text(json.dumps({"loss": [above, below]}))
    run.references("test").write_text("".join(f"{line} too\n" for line in REFERENCES), encoding="utf-8")
    assert "**" not in "".join(written(tmp_path, recipe)[0]["New"])


def test_the_best_translations(tmp_path):
    translations = ["the red house 0 is here today", *WRONG[1:3], "the red house 3 is", *WRONG[4:]]
    make_run(tmp_path / "base", translations=translations)
    recipe = Recipe("A paper", ENTRIES, ("base",), tables=(Examples("Examples", "the best", "base", 1),))
    assert write_tables(Runs(recipe, tmp_path))
    table = (tmp_path / "tables.md").read_text("utf-8")
    assert table_rows(table)[1:] == [
        ["quelle 0", "source", ""],
        ["the red house 0 is here today", "reference", ""],
        ["the red house 0 is here today", "base", "100.0"],
    ]
    assert "of the 30 sentences of the test text" in table


def test_the_best_translations_are_found_as_the_run_was_scored(tmp_path):
    """Of a sentence without a reference, nothing is right; characters have a BLEU where words have none."""
    references = ["", "他昨天在花园里见过她", "她走了"]
    run = make_run(tmp_path / "base", translations=["red", "他昨天在花园里见过他", "他来过"], references=references)
    assert [one.score for one in best_translations(run)] == [0.0, 0.0, 0.0]
    scores = run.read_scores()["test"]
    run.add_scores("test", {**scores, "text": {**scores["text"], "tokenize": "zh"}})
    best, *others = best_translations(run)
    assert best.number == 2 and best.score > 80
    assert [one.number for one in others if one.score == 0][-1] == 1
