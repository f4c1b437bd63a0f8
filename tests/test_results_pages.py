"""The pages of docs/results: what can be held against their sources without the runs."""

import dataclasses
import importlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from PIL import Image

from keras_attn_zoo.studies.paper_cells import Runs
from keras_attn_zoo.studies.paper_files import write_tables
from keras_attn_zoo.studies.paper_findings import compare
from keras_attn_zoo.studies.paper_tables import PaperTable
from keras_attn_zoo.viewing.attention_pictures import plot_curves
from tests.made_runs import make_run

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "results"
TASKS = ["zeng2021_dialogue", "zeng2021_summarization"]
NAMES = sorted([path.stem for path in (ROOT / "recipes").glob("*.py")] + TASKS)
# Pages of no recipe.
OTHERS = {"breaks", "index", "latent-alignment", "reliability"}
# Kilobytes of a picture.
MOST = 60


@pytest.fixture(scope="module")
def writer():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "docs")
        yield importlib.import_module("write_results")


def words(text):
    """Text without its line breaks."""
    return " ".join(text.split())


def test_there_is_a_page_for_every_recipe_and_task(writer):
    tasks = [f"{name}_{task}" for name in NAMES if name not in TASKS for task in writer.load_recipe(name).tasks]
    assert sorted(tasks) == TASKS
    assert {path.stem for path in FOLDER.glob("*.md")} - OTHERS == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_page_has_what_it_is_made_of(writer, name, tmp_path):
    """Claims and figures of the recipe."""
    recipe, text = writer.load_recipe(name), words((FOLDER / f"{name}.md").read_text("utf-8"))
    assert text.startswith(f"# {recipe.title} {words(recipe.about)}")
    claims = [f"{number}. {one.claim} ({one.place})" for number, one in enumerate(recipe.findings, start=1)]
    assert f"## Findings {' '.join(claims)} |" in text
    for one in compare(Runs(recipe, tmp_path)):
        # Or the figures of another language pair, which was run.
        assert one.paper in text or f"`{one.contrast.entry}` – `{one.contrast.other}`, {one.contrast.measure}, " in text
    for table in (table for table in recipe.tables if isinstance(table, PaperTable)):
        assert f"## {table.name}: " in text
        assert all(f"[{cell.figure}]" in text for row in table.cells() for cell in row if cell.figure)
    assert not re.search(r"/(tmp|work|home)/", text)


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
    german, english = writer.MADE
    assert shown.pictures["attention.png"] == f"attention experiment-4 '{german}' --target '{english}' --beside uniform"
    assert not any("{" in line for line in shown.pictures.values())
    turned = writer.without_text(recipe, "en-de").pictures["attention.png"]
    assert turned == f"attention experiment-4 '{english}' --target '{german}' --beside uniform"


@pytest.mark.parametrize("name", NAMES)
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
        assert [path.name for path in pages.iterdir()] == ["rosendahl2021-old.png"]
    assert write(f"rosendahl2021={out}") == (0, f"{pages / 'rosendahl2021.md'}\n")
    assert [path.name for path in pages.iterdir()] == ["rosendahl2021.md"]
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
    german, english = writer.MADE
    filled = f"attention transformer '{german}' --target '{english}'"
    assert drawn == [{"of-text.png": filled, "curves.png": "curves transformer"}]
    assert [path.name for path in out.glob("*.png")] == ["curves.png"]
    assert [path.name for path in pages.glob("*.png")] == ["rosendahl2021-curves.png"]


@pytest.fixture
def made_runs(trained, tmp_path):
    """A folder of results of a recipe with one run, and one of pages with a picture that is shown no longer."""
    out, pages = tmp_path / "out", tmp_path / "pages"
    out.mkdir()
    pages.mkdir()
    (pages / "rosendahl2021-old.png").write_bytes(b"")
    shutil.copytree(trained, out / "transformer")
    (out / "results.json").write_text(json.dumps({"title": "Rosendahl: recurrent cross-attention"}))
    (out / "tables.json").write_text(json.dumps({"scale": "smoke"}))
    return out, pages
