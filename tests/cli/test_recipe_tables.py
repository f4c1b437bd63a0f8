"""What a recipe scores for its paper's tables, and where it writes them; nothing is trained here."""

import argparse
import dataclasses
import json
import shutil
from pathlib import Path

import keras
import pytest

from keras_attn_zoo.cli.recipe import run_recipe
from keras_attn_zoo.cli.run_comparison import check_with_text, room_of
from keras_attn_zoo.corpora import corpus as corpora
from keras_attn_zoo.corpora.parallel_text import ParallelText
from keras_attn_zoo.runs import finished_run, training
from keras_attn_zoo.runs.named_systems import SYSTEMS
from keras_attn_zoo.runs.preparation import check_system, described, prepare_data
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.studies.comparison import Entry, Recipe, Run
from keras_attn_zoo.studies.paper_tables import Line, Pair, PaperTable
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.locks import InUseError
from tests.made_runs import copy_run
from tests.tiny_run import TINY, make_text

TABLES = (
    PaperTable(
        "Table 1",
        "Scores",
        [
            Line("BLEU", split="valid", measure="BLEU", text="dev"),
            Line("AER", split="gold", measure="AER", text="gold"),
            Line("BLEU", pair="tr-en", measure="BLEU", text="other"),
            Line("BLEU", measure="BLEU after 75% of the steps", setup="steps"),
        ],
        [Line("RNN", entry="rnn", figures="35.7 71.4 19.6 40.9")],
    ),
)
RECIPE = Recipe(
    "One body",
    {"rnn": Entry(dataclasses.replace(TINY, name="rnn"), {"BLEU": "9.9"})},
    ("rnn",),
    tables=TABLES,
    pairs={"ro-en": Pair(), "tr-en": Pair({"dropout": 0.3})},
)


def copy_of_text(trained, folder, system, corpus):
    """A copy of a run, as if another system had been trained in it, on the text of the comparison."""
    copy = copy_run(trained, folder, system)
    prepare_data(corpus, system.data, folder.parent / "data")
    text = described(corpus, system.data)
    copy.config.write_text(json.dumps({**json.loads(copy.config.read_text()), "corpus": text}))
    return copy


@pytest.fixture
def recipe(trained, any_preset, no_pictures_of_runs, tmp_path, monkeypatch, capsys):
    """Run the recipe; a system is trained by a copy of a run."""
    make_text(tmp_path / "text")
    seen = []

    def train(system, corpus, folder, *args, **kwargs):
        seen.append((folder, system, kwargs["bleu_after"]))
        if not folder.exists():
            copy_of_text(trained, folder, system, corpus).scores.unlink()
        return RunFolder(folder)

    def run(*arguments):
        texts = [
            word
            for name in ("train", "valid", "test")
            for word in (f"--{name}", *(f"text/{name}.{side}" for side in ("de", "en")))
        ]
        status = run_recipe(RECIPE, "One body.", ["--out", "out", *texts, *map(str, arguments)])
        return status, *capsys.readouterr()

    monkeypatch.setattr(training, "train_system", train)
    monkeypatch.chdir(tmp_path)
    run.seen = seen
    return run


def cells(folder):
    (line,) = (line for line in (folder / "tables.md").read_text("utf-8").splitlines() if line.startswith("| RNN"))
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


@pytest.mark.long
def test_dev_text_gold_links_and_language_pairs(recipe, tmp_path):
    out = tmp_path / "out"
    status, output, _ = recipe("--bitext", "text/test.bitext", "--gold", "text/test.gold")
    assert status == 0 and "(paper: 9.9)" in output
    scores = RunFolder(out / "rnn").read_scores()
    assert list(scores) == ["test", "valid", "gold"]
    assert [scores[name]["sentences"] for name in scores] == [6, 16, 6]
    text = str(tmp_path / "text" / "test.bitext")
    assert [scores[name].get("origin") for name in scores] == [None, None, {"files": [text], "reverse": False}]
    dev, aer, other, steps = cells(out)
    assert dev == f"{scores['valid']['text']['metrics']['bleu']['score']:.1f} [35.7]"
    assert aer == f"{100 * scores['gold']['alignment']['aer_without_full_stop']:.1f} [71.4]"
    assert (other, steps) == ("[19.6]", "[40.9]")
    titles = "BLEU, text/valid de→en [dev]", "AER, text/test.bitext [gold]", "BLEU [other]", "BLEU [steps]"
    assert f"| {' | '.join(titles)} |" in (out / "tables.md").read_text("utf-8")
    # The page has columns with a number of ours, and names the others.
    page = (out / "page.md").read_text("utf-8")
    assert f"| {' | '.join(titles[:2])} |" in page and "- not run: BLEU [other" in page
    # The other pair has settings, a folder and results of its own; the tables gather both.
    status, output, _ = recipe("--pair", "tr-en")
    assert status == 0 and "paper" not in output and "Language pair: tr-en." in output
    assert list(RunFolder(out / "tr-en" / "rnn").read_scores()) == ["test"]
    assert cells(out)[:3] == [dev, aer, f"{scores['test']['text']['metrics']['bleu']['score']:.1f} [19.6]"]
    assert (out / "tr-en" / "results.md").is_file() and not (out / "tr-en" / "tables.md").exists()
    page = (out / "page.md").read_text("utf-8")
    assert "| ro-en |" in page and "| tr-en |" in page and not (out / "tr-en" / "page.md").exists()
    (_, first, percents), (folder, second, _) = recipe.seen
    assert (first.sizes["dropout"], second.sizes["dropout"], percents) == (0.2, 0.3, [75])
    assert folder.parent.name == "tr-en"
    # Other links take the place of wrong ones: each of the six sentences has one now.
    (tmp_path / "text" / "other.gold").write_text("0-0\n" * 6)
    assert recipe("--bitext", "text/test.bitext", "--gold", "text/other.gold")[0] == 0
    after = RunFolder(out / "rnn").read_scores()
    assert scores["gold"]["alignment"]["recall"] != after["gold"]["alignment"]["recall"] in [i / 6 for i in range(7)]
    assert {**after, "gold": None} == {**scores, "gold": None}
    # Lines that begin with the target give the same words.
    turned = [line.split(" ||| ") for line in (tmp_path / "text" / "test.bitext").read_text("utf-8").splitlines()]
    (tmp_path / "text" / "turned").write_text("".join(f"{t} ||| {s}\n" for s, t in turned), encoding="utf-8")
    files = ["--bitext", "text/turned", "--bitext-reverse", "--gold", "text/other.gold"]
    before = RunFolder(out / "rnn").read_translations("gold")
    assert recipe(*files)[0] == 0
    assert RunFolder(out / "rnn").read_translations("gold") == before and RunFolder(out / "rnn").read_scores() == after
    # Text of which nothing can be aligned.
    (tmp_path / "text" / "long.bitext").write_text(("haus " * 40 + "||| house\n") * 6)
    status, _, error = recipe("--bitext", "text/long.bitext", "--gold", "text/other.gold")
    assert status == 2 and "no pair of the text 'gold' has at most 15 tokens on either side" in error
    assert RunFolder(out / "rnn").read_scores() == after


@pytest.mark.long
def test_a_further_test_text_fills_its_column(recipe, tmp_path, monkeypatch):
    """Scored whole, and again if it is another text; its column is scored by one call with the test text's."""
    columns = [Line("BLEU", measure="BLEU"), Line("BLEU", split="news2018", measure="BLEU", text="news")]
    table = PaperTable("Table 1", "Scores", columns, [Line("RNN", entry="rnn", figures="1.5 2.5")])
    monkeypatch.setitem(globals(), "RECIPE", dataclasses.replace(RECIPE, tables=(table,)))
    first = ("--more-test", "news2018", "text/valid.de", "text/valid.en")
    assert recipe(*first, "--more-test", "another", "text/test.de", "text/test.en")[0] == 0
    run = RunFolder(tmp_path / "out" / "rnn")
    scores = run.read_scores()
    assert {name: one["sentences"] for name, one in scores.items()} == {"test": 6, "news2018": 16, "another": 6}
    results = (tmp_path / "out" / "results.md").read_text("utf-8")
    titles = [line for line in results.splitlines() if line.startswith("#")]
    assert titles == ["# One body", "## One body, news2018", "## One body, another"]
    records = json.loads((tmp_path / "out" / "results.json").read_text("utf-8"))["runs"]
    assert [(one["run"], one["text"]) for one in records] == [("rnn", "test"), ("rnn", "news2018"), ("rnn", "another")]
    bleu = {name: one["text"]["metrics"]["bleu"]["score"] for name, one in scores.items()}
    assert bleu["another"] == bleu["test"]
    assert cells(tmp_path / "out") == [f"{bleu['test']:.1f} [1.5]", f"{bleu['news2018']:.1f} [2.5]"]
    # Whatever it was called, it is this text.
    assert " BLEU, text/valid de→en [news] |" in (tmp_path / "out" / "tables.md").read_text("utf-8")
    assert recipe("--more-test", "news2018", "text/test.de", "text/test.en")[0] == 0
    assert run.read_scores()["news2018"]["sentences"] == 6 and run.read_scores()["another"] == scores["another"]
    # What a table has is scored in one way, given again or not.
    assert recipe("--lowercase")[0] == 0
    cases = {name: one["text"]["lowercase"] for name, one in run.read_scores().items()}
    assert cases == {"test": True, "news2018": True, "another": False}
    # A test text is scored whole or not at all, unlike the validation text.
    (tmp_path / "long").write_text("haus " * 40 + "\n")
    status, _, error = recipe("--more-test", "news2018", "long", "long")
    assert status == 2 and "1 of 1 news2018 sentences have more than the 15 tokens that the model accepts" in error
    assert run.read_scores()["news2018"]["sentences"] == 6


def test_the_further_test_text_of_a_corpus_is_scored_unless_another_is_given(recipe, corpus, monkeypatch):
    """The columns of a table fill from the paper's corpus alone."""
    own = dataclasses.replace(corpus, more_tests={"news2018": ParallelText(corpus.splits.valid)})
    monkeypatch.setattr("keras_attn_zoo.cli.run_comparison.corpus_from_options", lambda options: own)
    run = RunFolder(Path("out", "rnn"))
    sentences = []
    for arguments in ((), ("--more-test", "news2018", "text/test.de", "text/test.en")):
        status, _, error = recipe(*arguments)
        assert status == 0, error
        sentences.append(run.read_scores()["news2018"]["sentences"])
    assert sentences == [len(corpus.splits.valid), 6]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["news"], "takes a name and files; received 'news' alone"),
        (["valid", "text/test.de", "text/test.en"], "the name 'valid' is one that a run has for other scores"),
        (["news-k6", "text/test.de", "text/test.en"], "the name 'news-k6' is one that a run has"),
        (["a/b", "text/test.de", "text/test.en"], "cannot be the name of a test set"),
        (["news", "text/test.de", "nowhere"], "nowhere"),
        (["news", "text/test.tsv", "--more-test", "news", "text/test.tsv"], "the name 'news' is given twice"),
        (["text/test.de", "text/test.en"], "takes a name before the files; received the file 'text/test.de' first"),
        (["news", "text/test.tsv", "--table-only"], "--table-only scores nothing: leave out --more-test"),
    ],
)
def test_further_test_texts_that_cannot_be_scored_are_refused_at_once(recipe, tmp_path, monkeypatch, arguments, said):
    monkeypatch.setattr(corpora, "corpus_from_files", None)
    pairs = zip(*((tmp_path / "text" / f"test.{side}").read_text().splitlines() for side in ("de", "en")), strict=True)
    (tmp_path / "text" / "test.tsv").write_text("".join(f"{one}\t{other}\n" for one, other in pairs))
    status, _, error = recipe("--more-test", *arguments)
    assert status == 2 and said in error and error.count("\n") == 1
    assert not recipe.seen


@pytest.mark.parametrize(
    ("arguments", "corpus"),
    [
        (["--scale", "paper"], "wmt16-ro-en"),
        (["--scale", "paper", "--pair", "tr-en"], None),
        (["--scale", "paper", "--train", "a", "b"], None),
        (["--scale", "small"], None),
        ([], None),
        (["--scale", "paper", "--corpus", "multi30k-de-en"], "multi30k-de-en"),
    ],
)
def test_the_text_of_the_scale_paper_is_the_papers_own(tmp_path, monkeypatch, capsys, arguments, corpus):
    seen = []

    def read(name):
        seen.append(name)
        raise UserError("not read here.")

    monkeypatch.setattr(corpora, "corpus_from_name", read)
    monkeypatch.chdir(tmp_path)
    pairs = {"ro-en": Pair(corpus="wmt16-ro-en"), "tr-en": Pair()}
    known = dataclasses.replace(RECIPE, pairs=pairs)
    assert run_recipe(known, "One body.", ["--out", "out", *arguments]) == 2
    assert seen == [corpus] * (corpus is not None)
    error = capsys.readouterr().err
    assert ("this paper is taken: --corpus wmt16-ro-en\n" in error) == (seen == ["wmt16-ro-en"])
    assert ("no training text" in error) == (corpus is None and "--train" not in arguments)


@pytest.mark.parametrize(
    ("scale", "given", "system", "longest"),
    [
        ("paper", None, "transformer", 250),
        # It has weights for each position.
        ("paper", None, "ran-all", None),
        ("paper", 99, "transformer", 99),
        ("small", None, "transformer", None),
        (None, None, "transformer", None),
    ],
)
def test_published_test_texts_have_room(scale, given, system, longest):
    options = argparse.Namespace(scale=scale, max_tokens=given)
    system = SYSTEMS[system]
    assert room_of(system, options) == longest
    check_system(system, room_of(system, options))
    # 500, which its test sentences may have by themselves.
    assert room_of(system.override(max_tokens=400), options) == given


def test_the_text_of_earlier_runs_must_be_given_again(trained, tmp_path, monkeypatch, capsys):
    """At the scale "paper" too, where a recipe knows another one."""
    shutil.copytree(trained, tmp_path / "rnn")
    known = dataclasses.replace(RECIPE, pairs={"ro-en": Pair(corpus="wmt16-ro-en")})
    assert run_recipe(known, "One body.", ["--out", str(tmp_path), "--scale", "paper"]) == 2
    assert "has runs of another text, a, b: give it again, or another --out." in capsys.readouterr().err


@pytest.mark.long
def test_systems_of_the_tables_that_were_not_trained_are_named(recipe, monkeypatch, tmp_path):
    """Those of the language pair of the call; `all` trains every one."""
    rows = [Line(name, entry=name) for name in ("rnn", "second")] + [Line("third", entry="third", pair="tr-en")]
    table = PaperTable("Table 1", "Scores", [Line("BLEU", measure="BLEU")], rows)
    entries = {name: Entry(dataclasses.replace(TINY, name=name)) for name in ("rnn", "second", "third", "fourth")}
    known = dataclasses.replace(RECIPE, entries=entries, tables=(table,))
    monkeypatch.setitem(globals(), "RECIPE", known)
    said = "empty in the paper's tables, because they were not trained: {}; see --systems\n"
    assert said.format("second") in recipe()[2]
    assert said.format("third") in recipe("--pair", "tr-en")[2]
    recipe.seen.clear()
    status, _, error = recipe("--systems", "all")
    assert status == 0 and "not trained" not in error
    assert [folder.name for folder, *_ in recipe.seen] == list(entries)


def test_a_run_of_another_backend_is_named_before_any_is_trained(recipe, trained, tmp_path):
    own = keras.config.backend()
    other = "torch" if own == "jax" else "jax"
    run = copy_run(trained, tmp_path / "out" / "rnn", RECIPE.for_pair("ro-en").entries["rnn"].system)
    run.environment.write_text(json.dumps({"backend": other}))
    status, _, error = recipe("--backend", own)
    assert status == 2 and not recipe.seen
    assert f"rnn: this run was started under {other}, not {own}: resume it with --backend {other}." in error


@pytest.mark.long
def test_a_run_of_an_earlier_version_gets_what_it_lacks(recipe, trained, tmp_path):
    texts = {part: [f"text/{part}.de", f"text/{part}.en"] for part in ("train", "valid", "test")}
    system = RECIPE.for_pair("ro-en").entries["rnn"].system
    run = copy_of_text(trained, tmp_path / "out" / "rnn", system, corpora.corpus_from_files(**texts))
    before = {key: value for key, value in run.read_scores()["test"].items() if key != "text_checksum"}
    run.scores.unlink()
    run.add_scores("test", before)
    assert recipe("--table-only")[0] == 0
    # A test text with gold links does for those of the paper.
    assert cells(tmp_path / "out")[0] == "[35.7]" and cells(tmp_path / "out")[1] != "[71.4]"
    assert recipe()[0] == 0
    scores = run.read_scores()
    assert scores["test"] == before and list(scores) == ["test", "valid"]
    assert cells(tmp_path / "out")[0].endswith(" [35.7]")
    # Of another text of that name, as `evaluate` may have scored it.
    run.add_scores("test", {**before, "text_checksum": "0", "perplexity": 0.5})
    assert recipe()[0] == 0
    assert run.read_scores()["test"]["perplexity"] > 1


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--gold", "text/test.gold"], "--gold needs --bitext"),
        (["--bitext", "text/test.bitext", "--index-base", "1"], "no --gold: leave out --bitext and --index-base"),
        (["--bitext", "text/test.bitext", "--gold", "nowhere"], "nowhere"),
        (["--bitext", "text/test.bitext", "--gold", "nowhere", "--plan"], "nowhere"),
        (["--bitext", "text/test.bitext", "--gold", "text/blank.gold"], "blank.gold has no links to score against"),
        (["--gold", "text/test.gold", "--bitext", "text/test.bitext", "--table-only"], "leave out --bitext and --gold"),
        # Only the first pair has alignments in the table.
        (
            ["--gold", "text/test.gold", "--bitext", "text/test.bitext", "--pair", "tr-en"],
            "systems with this language pair or task",
        ),
    ],
)
def test_what_is_wrong_with_gold_links_is_said_before_training(recipe, arguments, text):
    Path("text/blank.gold").write_text("\n" * 6)
    status, _, error = recipe(*arguments)
    assert (status, recipe.seen) == (2, [])
    assert text in error and error.count("\n") == 1


def test_a_run_is_scored_by_one_process_at_a_time(recipe, monkeypatch):
    seen = []

    def score(folder, *args, **kwargs):
        with pytest.raises(InUseError), RunFolder(folder).lock():
            pass
        seen.append(folder.name)

    monkeypatch.setattr(finished_run, "score_and_draw", score)
    recipe()
    assert seen == ["rnn"]


@pytest.mark.parametrize("plan", [(), ("--plan",)])
@pytest.mark.parametrize(
    ("grid", "text"),
    [
        (["vocabulary_size=9,500"], "rnn-vocabulary_size=500: vocabulary_size=500 is too large for a word model"),
        (["schedule=constant,cosine"], "rnn-schedule=cosine: schedule=cosine with warmup_steps=4000"),
        (["max_tokens=4,16"], "rnn-max_tokens=4: 1 of 6 test sentences have more than the 5 tokens"),
    ],
)
def test_what_the_text_is_too_small_or_too_long_for_is_said_before_any_training(recipe, grid, text, plan):
    status, _, error = recipe("--grid", *grid, *plan)
    assert (status, recipe.seen) == (2, [])
    assert text in error.splitlines()[-1]


@pytest.mark.long
def test_what_is_too_long_to_be_translated_is_left_out_of_other_texts(recipe, tmp_path):
    for side in ("de", "en"):
        with (tmp_path / "text" / f"valid.{side}").open("a") as file:
            file.write("haus " * 40 + "\n")
    assert recipe()[0] == 0
    assert RunFolder(tmp_path / "out" / "rnn").read_scores()["valid"]["sentences"] == 16


def test_results_are_kept_apart_from_other_recipes_and_from_runs(recipe, trained, tmp_path):
    (tmp_path / "out").mkdir()
    results = tmp_path / "out" / "results.json"
    results.write_text(json.dumps({"title": "Two bodies"}))
    status, _, error = recipe("--table-only")
    assert status == 2 and "out has the results of another comparison, 'Two bodies'" in error
    results.write_text("damaged")
    status, _, error = recipe("--table-only")
    assert status == 2 and "none of the runs asked for has been scored in out: train one" in error
    shutil.copytree(trained, tmp_path / "out", dirs_exist_ok=True)
    status, _, error = recipe()
    assert (status, recipe.seen) == (2, []) and "out is the folder of a run" in error


def test_a_corpus_in_other_languages_than_those_it_stands_for(capsys, monkeypatch):
    monkeypatch.setattr("keras_attn_zoo.cli.run_comparison.corpus_from_options", lambda options: 1 / 0)
    for pair, told in (("ro-en", True), ("tr-en", False)):
        with pytest.raises(ZeroDivisionError):
            run_recipe(RECIPE, "One body.", ["--out", "out", "--corpus", "wmt18-tr-en", "--pair", pair])
        assert ("wmt18-tr-en is tr-en, but stands for the paper's ro-en" in capsys.readouterr().err) is told


def test_a_run_of_another_text_is_refused(trained, corpus, tmp_path):
    """That of its own is not."""
    copy_run(trained, tmp_path / "rnn", TINY)
    runs = [Run("rnn", "rnn", RunFolder(tmp_path / "rnn").system(), {})]
    options = argparse.Namespace(scale=None, max_tokens=None)
    check_with_text(runs, options, tmp_path, corpus)
    other = dataclasses.replace(corpus, splits=corpus.splits._replace(train=corpus.splits.train[:-9]))
    with pytest.raises(
        UserError, match=r"^rnn: .* was started with other text than a and b: resume with the same text"
    ):
        check_with_text(runs, options, tmp_path, other)
