"""The pages of docs/results: what can be held against their sources without the runs."""

import dataclasses
import doctest
import importlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from PIL import Image

from keras_attn_zoo.evaluation.training_comparison import LEAST_SEEDS
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.runs.system import System
from keras_attn_zoo.studies import paper_cells
from keras_attn_zoo.studies.comparison import Entry, Recipe
from keras_attn_zoo.studies.measures import measure
from keras_attn_zoo.studies.paper_cells import Runs
from keras_attn_zoo.studies.paper_files import write_tables
from keras_attn_zoo.studies.paper_findings import DIFFERS, IN_DIRECTION, UNDECIDED, findings_table, without_numbers
from keras_attn_zoo.studies.paper_page import MOST_WORDS, claims_in, write_page
from keras_attn_zoo.studies.paper_tables import BETTER, LEVEL, Contrast, Finding, Pair, PaperTable
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.viewing.attention_pictures import plot_curves
from tests.made_runs import REFERENCES, WRONG, make_run, make_seeds, table_rows

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "results"
TASKS = ["zeng2021_dialogue", "zeng2021_summarization"]
# The league is of no paper, and has a page once it is trained.
NAMES = sorted({*(path.stem for path in (ROOT / "recipes").glob("*.py")), *TASKS} - {"league"})
# Pages of no paper.
OTHERS = {"breaks", "combinations", "index", "latent-alignment", "league", "reliability", "word-alignment"}
FOUND = json.loads((FOLDER / "findings.json").read_text("utf-8"))
INDEX = "# Results\n\n<!-- results: findings -->\n\nold\n\n<!-- end -->\n"
CODE_AND_PICTURES = re.compile(r"^```.*?^```$|^!\[[^\n]*$", re.DOTALL | re.MULTILINE)
# Kilobytes of a picture.
MOST = 60


@pytest.fixture(scope="module")
def writer():
    with pytest.MonkeyPatch.context() as patch:
        for folder in ("docs", "benchmarks/peers"):
            patch.syspath_prepend(ROOT / folder)
        yield importlib.import_module("write_results")


def words(text):
    """Text without its line breaks."""
    return " ".join(text.split())


def test_there_is_a_page_for_every_recipe_and_task(writer):
    tasks = [f"{name}_{task}" for name in NAMES if name not in TASKS for task in writer.load_recipe(name).tasks]
    assert sorted(tasks) == TASKS
    assert {path.stem for path in FOLDER.glob("*.md")} - OTHERS == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_page_has_what_it_is_made_of(writer, name):
    """Figures of the recipe, and the names of the rows and columns that were not run."""
    recipe, page = writer.load_recipe(name), (FOLDER / f"{name}.md").read_text("utf-8")
    assert words(page).startswith(f"# {recipe.title} {words(recipe.about)}")
    for table in (table for table in recipe.tables if isinstance(table, PaperTable)):
        start = f"\n## {table.name}: {table.caption}"
        heading, _, part = page.partition(start)[2].partition("\n## ")[0].partition("\n")
        assert f"[{table.text}]" in heading or not table.text
        headings, *rows = table_rows(part) if "\n| " in part else [[]]
        columns = [place_of(line, headings, part) for line in table.columns]
        for line, cells in zip(table.rows, table.cells(), strict=True):
            # One without any figure is none of the paper's.
            of_paper = any(cell.figure for cell in cells)
            row = place_of(line, [row[0] for row in rows], part) if of_paper else None
            for column, cell in zip(columns, cells, strict=True):
                if None not in (row, column):
                    assert f"[{cell.figure}]" in rows[row][column] or not cell.figure
    assert not re.search(r"/(tmp|work|home)/", page)


def place_of(line, titles, part):
    """Where a row or column of a paper stands; None if a note names it."""
    papers = ", ".join(filter(None, (line.text, line.setup)))
    # Our text, or our steps, stands before the paper's.
    pattern = re.escape(line.title) + (rf"(, [^,]*)? \[{re.escape(papers)}\]" if papers else "")
    for place, title in enumerate(titles):
        if re.fullmatch(pattern, title):
            return place
    notes = "\n".join(note for note in part.splitlines() if note[:1] != "|").replace("\\", "")
    assert line.title in notes and papers in notes
    return None


def part_of(name, title):
    """A part of a page, below its heading."""
    return (FOLDER / f"{name}.md").read_text("utf-8").partition(f"\n## {title}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("name", NAMES)
def test_what_a_page_found_is_what_is_kept_of_it(writer, name):
    findings = writer.load_recipe(name).findings
    assert [one["claim"] for one in FOUND[name]] == [one.claim for one in findings]
    found = [*map(importlib.import_module("summary_of_findings").comparisons_of, FOUND[name])]
    part = part_of(name, "Findings")
    assert part.startswith(f"\n{findings_table(findings, found, []).markdown()}\n")
    for of_reason in without_numbers(findings, found):
        assert f"\n\n{of_reason}\n\n" in part


@pytest.mark.parametrize("name", NAMES)
def test_fewer_than_three_seeds_say_nothing(writer, name):
    """Neither by a verdict nor by a mark, unless another training has the same number."""
    recipe, part = writer.load_recipe(name), part_of(name, "Runs")
    headings, *rows = table_rows(part.partition("\n- ")[0])
    alike = dict(re.findall(r"(pair|seeds) ([^,\n]+)", part.partition("\n- all: ")[2]))
    seeds = {}
    for row in rows:
        known = {**alike, **dict(zip(headings, row, strict=True))}
        for system in re.findall(r"`[\w-]+`", known["system"]):
            seeds[system, known.get("pair", recipe.first_pair)] = int(known["seeds"])
    for one in (one for claim in FOUND[name] for one in claim["comparisons"] if one["here"]):
        pair = next((pair for pair in recipe.pairs if one["systems"].endswith(f"({pair})")), recipe.first_pair)
        systems = re.findall(r"`[\w-]+`", one["systems"])
        counts = [seeds[system, pair] for system in (systems * 2)[:2]]
        assert one["seeds"] == counts
        if min(counts) < LEAST_SEEDS and measure(one["measure"]).seeded:
            assert one["verdict"] == UNDECIDED and one["lacks"].endswith(f"{min(counts)} of {LEAST_SEEDS} seeds")
    if max(seeds.values()) < LEAST_SEEDS:
        text = re.sub(r"\[[^]]*\]", "", (FOLDER / f"{name}.md").read_text("utf-8"))
        assert not re.search(r"^\|.*\d\)?[*†]|p < 0", text, re.MULTILINE)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_contradicted_has_a_word_on_why(name):
    """`write_page` adds that a claim is not explained if the comments do not name it."""
    comments = part_of(name, "Findings")
    for number, claim in enumerate(FOUND[name], start=1):
        if any(one["verdict"] in (DIFFERS, IN_DIRECTION) for one in claim["comparisons"]):
            assert number in claims_in(comments)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.md")), ids=lambda path: path.stem)
def test_a_page_is_read_in_one_sitting(path):
    """That of a paper with its tables; of others, what is neither table, code, picture nor figure."""
    text = path.read_text("utf-8")
    found = text.split()
    if path.stem not in NAMES:
        lines = (line for line in CODE_AND_PICTURES.sub("", text).splitlines() if line[:1] != "|")
        found = [word for line in lines for word in line.split() if any(map(str.isalpha, word))]
    assert len(found) <= MOST_WORDS


def test_no_table_stands_on_two_pages():
    tables = [
        table
        for path in FOLDER.glob("*.md")
        for table in set(re.findall(r"(?:^\|.*\n){3,}", path.read_text("utf-8"), re.MULTILINE))
    ]
    assert len(tables) == len(set(tables)) > 30


def test_the_summary_is_that_of_the_findings(writer):
    page = (FOLDER / "index.md").read_text("utf-8")
    assert sorted(FOUND) == NAMES
    filled = importlib.import_module("records").filled
    assert page == filled(page, writer.blocks()), "stale: run `python docs/write_results.py`"
    for name in NAMES:
        # Each claim once, by itself or with others.
        rows = [row for row in table_rows(page) if f"({name}.md)" in row[0]]
        found = [re.findall(r"^\d+(?=\.)", claim) or re.findall(r"\b\d+\b", verdict) for _, claim, verdict, *_ in rows]
        numbers = [int(one) for of_row in found for one in of_row]
        assert sorted(numbers) == [*range(1, len(FOUND[name]) + 1)]


def test_claims_are_summed_up(writer, tmp_path, monkeypatch):
    """Three seeds with all words right, in one direction against wrong ones, in the other against one training."""
    monkeypatch.setattr(paper_cells, "SAMPLES", 100)
    system = System("base", {}, body="transformer")
    claims = [
        Finding("New is better", "§1", (BETTER,), [Contrast("new", "base", figures="2.5 1")]),
        Finding("It is as good", "§2", (LEVEL,), [Contrast("new", "base"), Contrast("new", "base", "TER")]),
        Finding("It is [small]", "§3", (BETTER,), [Contrast("new", "other", "parameters")]),
        *(Finding(f"The old is better by {name}", "§4", (BETTER,), [Contrast("old", "base")]) for name in "ab"),
    ]
    entries = {name: Entry(system) for name in ("base", "new", "old", "other")}
    recipe = Recipe("A paper", entries, ("base",), findings=claims, pairs={"de-en": Pair(), "en-de": Pair()})
    make_seeds(tmp_path / "new", 60.0, translations=REFERENCES, ter=20.0)
    for name in ("base", "old"):
        make_seeds(tmp_path / name, 30.0, translations=WRONG, ter=50.0)
    make_seeds(tmp_path / "en-de" / "new", 32.0, translations=REFERENCES, ter=20.0)
    make_run(tmp_path / "en-de" / "base", 30.0, ter=50.0)
    summary = importlib.import_module("summary_of_findings")
    found = summary.findings_of(Runs(recipe, tmp_path))
    _, *rows = table_rows(summary.table({"smith1999_dialogue": found}))
    paper, seeds, text = "[Smith, dialogue](smith1999_dialogue.md)", "1–3", "unknown text"
    few = "too little to say (1 of 3 seeds), {}"
    assert rows == [
        [
            *(paper, "1. New is better", "agrees, but not in size, 1 of 2; " + few.format("1 of 2")),
            *("BLEU +2.0 to +30.0 [+1.5]", seeds, text),
        ],
        [
            *(paper, "2. It is as good", "differs, 2 of 4; " + few.format("2 of 4")),
            *("BLEU +2.0 to +30.0; TER -30.0", seeds, text),
        ],
        [paper, "claims without a verdict", "not run: 3; too little to say: 4, 5", "", "", ""],
    ]
    assert doctest.testmod(summary) == (0, 2)
    assert summary.findings_of(Runs(dataclasses.replace(recipe, scale="smoke"), tmp_path)) == []


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex")
def test_tables_compile(writer, tmp_path):
    for name in NAMES:
        recipe = writer.load_recipe(name)
        out = tmp_path / name
        make_run(out / next(iter(recipe.entries)))
        assert write_tables(Runs(recipe, out)), name
    packages = [r"\usepackage{booktabs}", r"\usepackage{graphicx}"]
    inputs = [rf"\input{{{name}/tables}}" for name in NAMES]
    parts = [r"\documentclass{article}", *packages, r"\begin{document}", *inputs, r"\end{document}"]
    (tmp_path / "papers.tex").write_text("\n".join(parts), encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "papers.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert not re.search(r"Overfull|Missing character", done.stdout)


def test_a_page_shows_no_sentence_of_a_text(writer):
    """Neither examples nor pictures of a sentence, but for the pair that was made for them."""
    recipe = writer.load_recipe("hiemsch2023")
    shown = writer.without_text(recipe)
    assert {type(table) for table in shown.tables} == {PaperTable} and len(shown.tables) == len(recipe.tables) - 1
    assert set(recipe.pictures) - set(shown.pictures) == {"attention-2.png", "attention-3.png"}
    german, english = writer.MADE["de"], writer.MADE["en"]
    assert shown.pictures["attention.png"] == f"attention experiment-4 '{german}' --target '{english}' --beside uniform"
    assert not any("{" in line for line in shown.pictures.values())
    turned = writer.without_text(recipe, ("en", "de")).pictures["attention.png"]
    assert turned == f"attention experiment-4 '{english}' --target '{german}' --beside uniform"


@pytest.mark.parametrize(
    ("text", "pair", "languages"),
    [
        ({"train": ["a/train.fr", "a/train.en"], "reverse": False}, "de-en", ["fr", "en"]),
        ({"train": ["a/train.en.gz", "a/train.zh.gz"], "reverse": True}, None, ["zh", "en"]),
        ({"train": ["a/all.tsv"], "reverse": True}, "en-tr", ["en", "tr"]),
        ({"generated": {}}, "ro-en", ["de", "en"]),
    ],
)
def test_sentences_are_made_in_the_languages_of_the_text(writer, text, pair, languages, tmp_path):
    run = make_run(tmp_path / "run")
    run.config.write_text(json.dumps({**json.loads(run.config.read_text()), "corpus": text}))
    assert writer.languages_of(run.path, pair) == languages


@pytest.mark.parametrize("name", [*NAMES, *(path.stem for path in FOLDER.glob("league.md"))])
def test_pictures_are_small_and_shown(name):
    shown = set(re.findall(r"\]\(([^)]+\.png)\)", (FOLDER / f"{name}.md").read_text("utf-8")))
    assert shown == {path.name for path in FOLDER.glob(f"{name}-*.png")} and shown
    for file in shown:
        assert (FOLDER / file).stat().st_size < 1000 * MOST, file
        with Image.open(FOLDER / file) as image:
            assert image.mode == "P", file


def test_a_page_of_own_runs_is_written_whole_or_not_at_all(writer, made_runs, monkeypatch, capsys):
    """The pictures of the page before stay until another page is there; nothing is written for runs of others."""
    out, pages = made_runs
    monkeypatch.setattr(writer, "PAGES", pages)

    def write(*arguments):
        monkeypatch.setattr("sys.argv", ["write_results.py", *arguments])
        try:
            writer.main()
        except SystemExit as stop:
            return stop.code, capsys.readouterr().err
        return 0, capsys.readouterr().out

    for arguments, said in (
        (
            ["rosendahl=runs"],
            "received 'rosendahl=runs', give RECIPE=FOLDER with one of the recipes bahar2020, dang2023",
        ),
        (["rosendahl2021"], "received 'rosendahl2021'"),
        ([f"rosendahl2021={out}", "zeng2021="], "received 'zeng2021='"),
        ([f"rosendahl2021={pages}"], "no run of rosendahl2021 has been scored in"),
        ([f"zeng2021={out}"], "has the results of another comparison, 'Rosendahl"),
    ):
        status, error = write(*arguments)
        assert status == 2 and said in error.splitlines()[-1]
        assert sorted(path.name for path in pages.iterdir()) == ["index.md", "rosendahl2021-old.png"]
    assert write(f"rosendahl2021={out}") == (0, f"{pages / 'rosendahl2021.md'}\n")
    assert sorted(path.name for path in pages.iterdir()) == ["findings.json", "index.md", "rosendahl2021.md"]
    # A smoke run found nothing; what another page found stays.
    kept = {"zeng2021": FOUND["zeng2021"], "rosendahl2021": []}
    (pages / "findings.json").write_text(json.dumps({"zeng2021": FOUND["zeng2021"]}))
    assert write(f"rosendahl2021={out}")[0] == 0
    assert json.loads((pages / "findings.json").read_text()) == kept
    (pages / "index.md").write_text(INDEX)
    assert write() == (0, "")
    assert "| [Zeng](zeng2021.md) | claim" in (pages / "index.md").read_text("utf-8")
    text = (pages / "rosendahl2021.md").read_text("utf-8")
    assert "Scale smoke: tiny systems" in text and "| `transformer` |" in text
    assert "Scale smoke: tiny systems" in (out / "tables.md").read_text("utf-8")


def test_pictures_of_a_sentence_of_the_text_are_drawn_again(writer, made_runs, monkeypatch):
    out, pages = made_runs
    monkeypatch.setattr(writer, "PAGES", pages)
    recipe = writer.load_recipe("rosendahl2021")
    line = "attention transformer '{sentence}' --target '{translation}'"
    pictures = {"of-text.png": line, "curves.png": "curves transformer"}
    for file in pictures:
        plot_curves({"a": ([1, 2], [1.0, 2.0])}, out / file, "loss")
    shutil.copytree(out / "transformer", out / "previous-context")
    drawn = []
    monkeypatch.setattr("keras_attn_zoo.cli.plot.draw_pictures", lambda recipe, *_: drawn.append(recipe.pictures))
    monkeypatch.syspath_prepend(ROOT / "presets")
    writer.write_one("rosendahl2021", dataclasses.replace(recipe, pictures=pictures), out)
    filled = f"attention transformer '{writer.MADE['ro']}' --target '{writer.MADE['en']}'"
    assert drawn == [{"of-text.png": filled, "curves.png": "curves transformer"}]
    assert [path.name for path in out.glob("*.png")] == ["curves.png"]
    assert [path.name for path in pages.glob("*.png")] == ["rosendahl2021-curves.png"]


def test_runs_are_kept_without_their_text(writer, tmp_path, monkeypatch):
    """And the page of them is the same, wherever they are."""
    monkeypatch.setattr(paper_cells, "SAMPLES", 100)
    monkeypatch.syspath_prepend(ROOT / "presets")
    keeper, out = importlib.import_module("keep_runs"), tmp_path / "out"
    monkeypatch.setattr(keeper, "KEPT", tmp_path / "kept")
    for name, bleu, translations in (("transformer", 30.0, WRONG), ("previous-context", 60.0, REFERENCES)):
        make_seeds(out / name, bleu, translations=translations, names=("test", "valid"))
    for folder in out.iterdir():
        run = RunFolder(folder)
        run.environment.write_text(json.dumps({"backend": "torch", "command": ["--train", "/home/me/secret.de"]}))
        train = [f"/home/me/news/train.{side}" for side in ("ro", "en")]
        config = json.loads(run.config.read_text())
        run.config.write_text(json.dumps({**config, "corpus": {"train": train, "reverse": False}}))
    (out / "comments.md").write_text("Claim 1 is strange.")
    keeper.keep("rosendahl2021", out)
    kept = tmp_path / "kept" / "rosendahl2021"
    pages = []
    for place in (out, kept):
        runs = Runs(writer.load_recipe("rosendahl2021"), place)
        pages.append(write_page(runs, write_tables(runs)).read_text("utf-8"))
    assert pages[0] == pages[1] and "news/train ro→en" in pages[0] and "p < 0.01" in pages[0]
    whole = [path for path in kept.rglob("*") if path.is_file()]
    assert {path.parent.name for path in whole} >= {"transformer", "sentence_counts"}
    text = b"".join(path.read_bytes() for path in whole if path.parent != kept)
    assert b"house" not in text and b"quelle" not in text and b"/home" not in text


def test_the_league_has_a_page_of_its_runs_and_no_findings(writer, tmp_path, monkeypatch):
    """Wherever its runs are kept, with the values that were chosen."""
    monkeypatch.setattr(paper_cells, "SAMPLES", 100)
    monkeypatch.syspath_prepend(ROOT / "presets")
    keeper, out, pages = importlib.import_module("keep_runs"), tmp_path / "out", tmp_path / "pages"
    monkeypatch.setattr(keeper, "KEPT", tmp_path / "kept")
    monkeypatch.setattr(writer, "PAGES", pages)
    recipe, record = writer.load_recipe("league"), {}
    with pytest.raises(UserError, match="no run of league has been scored"):
        writer.write_one("league", recipe, out)
    for name, bleu, translations in (("transformer", 30.0, WRONG), ("rotary", 60.0, REFERENCES)):
        chosen, other = (f"{name}-learning_rate={value}" for value in (0.0015, 0.003))
        make_seeds(out / chosen, bleu, translations=translations, names=("test", "joined"))
        make_run(out / other, 99.0)
        losses = {chosen: 1.0, other: 2.0}
        record[name] = {"run": chosen, "values": {"learning_rate": 0.0015}, "validation_loss": losses}
    (out / "tuned.json").write_text(json.dumps(record))
    for folder in out.glob("*/"):
        RunFolder(folder).environment.write_text(json.dumps({"backend": "torch", "command": []}))
    pages.mkdir()
    writer.write_one("league", recipe, out)
    assert [path.name for path in pages.iterdir()] == ["league.md"]
    page = (pages / "league.md").read_text("utf-8")
    rows = [row[:4] for row in table_rows(page.partition("\n- ")[0])[1:]]
    assert rows == [
        ["`rotary`", "60.0 ± 0.1**", "+30.0 (+29.8 to +30.2)", "60.0 ± 0.1**"],
        ["`transformer`", "30.0 ± 0.1", "–", "30.0 ± 0.1"],
    ]
    keeper.keep("league", out)
    writer.write_one("league", recipe, tmp_path / "kept" / "league")
    assert (pages / "league.md").read_text("utf-8") == page
    kept = {path.name for path in (tmp_path / "kept" / "league").glob("*/")}
    assert "rotary-learning_rate=0.0015-seed=2" in kept and not any("0.003" in name for name in kept)


@pytest.fixture
def made_runs(trained, tmp_path):
    """A folder of results of a recipe with one run, and one of pages with a picture that is shown no longer."""
    out, pages = tmp_path / "out", tmp_path / "pages"
    out.mkdir()
    pages.mkdir()
    (pages / "index.md").write_text(INDEX)
    (pages / "rosendahl2021-old.png").write_bytes(b"")
    shutil.copytree(trained, out / "transformer")
    (out / "results.json").write_text(json.dumps({"title": "Rosendahl: recurrent cross-attention"}))
    (out / "tables.json").write_text(json.dumps({"scale": "smoke"}))
    return out, pages
