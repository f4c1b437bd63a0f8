"""Write the pages of docs/results: what the papers found, and what the runs of their recipes say to that.

  python docs/write_results.py zeng2021=runs/zeng zeng2021_dialogue=runs/dialogue bahar2020=runs/bahar

A recipe's comparison on another task than translation has a page of its own, with the task behind the name. Each page
is made of the runs in a folder that was its `--out`, and of `comments.md` there. It shows nothing of the text that they
were trained on: pictures have a pair of sentences made for them, and examples are left out. What it found is added to
findings.json, from which the summary of index.md is written, also without any page.
"""

import argparse
import dataclasses
import importlib.util
import os
import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = Path(__file__).parent / "results"
FINDINGS = "findings.json"
PICTURE = re.compile(r"(!\[[^\]]*\])\(([^)]+\.png)\)")
# The same sentence, by language; the German verb stands at the end. French without accents, as in some texts.
MADE = {
    "de": "Gestern hat sie im Garten ihre ältere Schwester getroffen.",
    "en": "She met her older sister in the garden yesterday.",
    "fr": "Hier elle a rencontre sa grande soeur dans le jardin.",
    "it": "Ieri ha incontrato sua sorella maggiore in giardino.",
    "ro": "Ieri și-a întâlnit sora mai mare în grădină.",
    "tr": "Dün bahçede ablasıyla karşılaştı.",
    "zh": "她昨天在花园里遇见了姐姐。",
}


def load_recipe(name):
    """Return the recipe of a script in `recipes`, or the one that it has for the task behind its name."""
    script, _, task = name.partition("_")
    spec = importlib.util.spec_from_file_location(script, ROOT / "recipes" / f"{script}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.RECIPE.tasks[task] if task else module.RECIPE


def languages_of(folder, pair):
    """The languages of a run's text, by the names of its files, or else of the pair that it stands for."""
    from keras_attn_zoo.runs.run_folder import RunFolder

    text = RunFolder(folder).corpus()
    found = [Path(file.removesuffix(".gz")).suffix[1:] for file in text.get("train", ())]
    of_pair = [] if "generated" in text else (pair or "").split("-")
    for codes in (found[:: -1 if text.get("reverse") else 1], of_pair):
        if len(codes) == 2 and MADE.keys() >= {*codes}:
            return codes
    return ["de", "en"]


def without_text(recipe, languages=("de", "en")):
    """Return a recipe whose pictures have the sentences that were made for them, and which shows no other text."""
    from keras_attn_zoo.cli.plot import EXAMPLE, PAIR
    from keras_attn_zoo.studies.paper_tables import Examples

    def filled(line):
        for there, code in zip(PAIR, languages, strict=True):
            line = line.replace(there, MADE[code])
        return line

    pictures = {file: filled(line) for file, line in recipe.pictures.items() if not EXAMPLE.search(line)}
    tables = tuple(table for table in recipe.tables if not isinstance(table, Examples))
    captions = {
        file: f"{caption}; the sentence was made for this page" if PAIR[0] in recipe.pictures.get(file, "") else caption
        for file, caption in recipe.captions.items()
    }
    return dataclasses.replace(recipe, pictures=pictures, tables=tables, captions=captions)


def scale_of(out):
    """The scale of the runs in a folder, which its tables name; None as published."""
    from keras_attn_zoo.support.files import kind_of, read_json

    tables = out / "tables.json"
    return read_json(tables).get("scale") if kind_of(tables) == "file" else None


def write_one(name, recipe, out):
    """Write the tables and the page of a recipe's runs; copy the page, its pictures and findings to docs/results.

    Pictures that the recipe has drawn of a sentence of the text are drawn again.
    """
    from make import shrink
    from summary_of_findings import findings_of

    from keras_attn_zoo.cli.plot import PAIR, draw_pictures
    from keras_attn_zoo.runs.run_folder import RunFolder
    from keras_attn_zoo.studies.comparison import expand
    from keras_attn_zoo.studies.paper_cells import Runs
    from keras_attn_zoo.studies.paper_files import write_tables
    from keras_attn_zoo.studies.paper_page import write_page
    from keras_attn_zoo.studies.result_files import check_folder
    from keras_attn_zoo.support.errors import UserError
    from keras_attn_zoo.support.files import write_json

    check_folder(out, recipe)
    of_text = [file for file, line in recipe.pictures.items() if PAIR[0] in line]
    whole, scale = recipe, scale_of(out)
    recipe = without_text(whole).at_scale(scale)
    runs = Runs(recipe, out)
    if not runs.pairs:
        raise UserError(f"no run of {name} has been scored in {out}: check the folder, or train one.")
    for pair in runs.pairs:
        there = {entry: own for entry, own in recipe.entries.items() if runs.folders(pair, entry)}
        # Runs that were kept have no weights, and the pictures of their page already.
        kept = not any(RunFolder(folder).best.exists() for entry in there for folder in runs.folders(pair, entry))
        for file in () if kept else of_text:
            (recipe.folder_of(out, pair) / file).unlink(missing_ok=True)
        # One alone shows nothing of a comparison.
        if len(there) > 1 and not kept:
            shown = without_text(whole, languages_of(runs.folders(pair, next(iter(there)))[0], pair))
            draw_pictures(shown.at_scale(scale), expand(there, {}), recipe.folder_of(out, pair))
    page = write_page(runs, write_tables(runs))
    shown = set()

    def copied(found):
        file = f"{name}-{found[2].replace('/', '-')}"
        shown.add(file)
        shutil.copyfile(out / found[2], PAGES / file)
        shrink(PAGES / file)
        return f"{found[1]}({file})"

    (PAGES / f"{name}.md").write_text(PICTURE.sub(copied, page.read_text("utf-8")), "utf-8")
    for old in PAGES.glob(f"{name}-*.png"):
        if old.name not in shown:
            old.unlink()
    if recipe.findings:
        write_json(PAGES / FINDINGS, {**read_findings(), name: findings_of(runs)})
    print(PAGES / f"{name}.md")


def read_findings():
    """What the pages found, by their names."""
    from keras_attn_zoo.support.files import kind_of, read_json

    path = PAGES / FINDINGS
    return read_json(path) if kind_of(path) == "file" else {}


def blocks():
    """What index.md has from the findings of all pages, by the name of its block."""
    from summary_of_findings import table

    return {"findings": table(read_findings())}


def options_of(description):
    """Parse the command line of a script; return its parser, and recipes with the folders of their runs."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", metavar="RECIPE=FOLDER", help="a recipe and the folder of its runs")
    options = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.path[:0] = [str(ROOT / "presets"), str(ROOT / "benchmarks" / "peers")]
    from keras_attn_zoo.support.backends import choose_backend

    choose_backend(None)
    scripts = sorted(path.stem for path in (ROOT / "recipes").glob("*.py"))
    known = [page for name in scripts for page in (name, *(f"{name}_{task}" for task in load_recipe(name).tasks))]
    if wrong := [one for one in options.pages if not re.fullmatch(rf"({'|'.join(known)})=.+", one)]:
        parser.error(f"received {wrong[0]!r}, give RECIPE=FOLDER with one of the recipes {', '.join(known)}.")
    parts = (one.partition("=") for one in options.pages)
    return parser, [(name, Path(folder)) for name, _, folder in parts]


def main():
    """Write the pages."""
    parser, pages = options_of(__doc__)
    from records import fill

    from keras_attn_zoo.support.errors import UserError

    try:
        for name, folder in pages:
            write_one(name, load_recipe(name), folder)
        fill(PAGES / "index.md", blocks())
    except UserError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
