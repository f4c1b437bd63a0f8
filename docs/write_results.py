"""Write the pages of docs/results: what the papers found, and what the published presets, or other runs, say to that.

  python docs/write_results.py --runs runs/results --corpus tatoeba --links word-alignment-de-en
  python docs/write_results.py zeng2021 --out zeng2021=runs/zeng

Presets are scored once, in run folders of their own in `--runs`; a call that was stopped goes on. `--out` names the
`--out` of a recipe, such as that of a longer training: the page is then made of its runs, and of `comments.md` there.
`docs/results/pages.toml` says which preset stands for which system, and has the comments on the presets' pages.
"""

import argparse
import dataclasses
import functools
import importlib.util
import os
import re
import shutil
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = Path(__file__).parent / "results"
PICTURE = re.compile(r"(!\[[^\]]*\])\(([^)]+\.png)\)")


def read_pages(file=PAGES / "pages.toml"):
    """Return what `pages.toml` has of each page, by the name of its recipe, and what it has for all."""
    text = tomllib.loads(file.read_text("utf-8"))
    pages = {name: text.pop(name) for name in list(text) if isinstance(text[name], dict)}
    return pages, text


def load_recipe(name):
    """Return the recipe of a script in `recipes`."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "recipes" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.RECIPE


def with_pair(lines, common):
    """Return lines of pictures, `{file: line}`, with the pair that was made for them; pages show no text of others."""
    pair = {f"{{{key}}}": common[key] for key in ("sentence", "translation")}
    return {file: functools.reduce(lambda line, key: line.replace(key, pair[key]), pair, line) for file, line in lines}


def with_pictures(recipe, page, common):
    """Return a recipe with the pictures of its page."""
    lines = with_pair(((file, picture["draw"]) for file, picture in page["pictures"].items()), common)
    captions = {file: picture["caption"] for file, picture in page["pictures"].items()}
    return dataclasses.replace(recipe, pictures=lines, captions=captions)


def published(page):
    """The rows of a page whose preset is published."""
    from keras_attn_zoo.files import read_json
    from keras_attn_zoo.models.preset_registry import REGISTRY

    return [row for row in page["presets"] if row["preset"] in read_json(REGISTRY)["presets"]]


def prepare(pages, options):
    """Score the presets of some pages, each once, and lay them out as the runs of each recipe; return the folders."""
    from make import recipes as read_presets
    from score import score_preset

    presets, _ = read_presets()
    loaded = {name: load_recipe(name) for name in pages}
    wanted = {}
    for name, page in pages.items():
        for row in published(page):
            splits = loaded[name].splits(row["entry"], row.get("pair", loaded[name].first_pair))
            wanted.setdefault(row["preset"], {}).update(dict.fromkeys([*splits, *page.get("texts", [])]))
    for preset, splits in wanted.items() if options.corpus else ():
        # A second test text of a paper has no counterpart.
        texts = [split for split in splits if split.partition("-")[0] in ("valid", "gold")]
        print(preset, *texts, flush=True)
        score_preset(presets[preset], options.runs / "presets" / preset, options.corpus, options.links, texts)
    for name, page in pages.items():
        out = options.runs / name
        for row in published(page):
            folder = loaded[name].folder_of(out, row.get("pair"))
            folder.mkdir(parents=True, exist_ok=True)
            run = (options.runs / "presets" / row["preset"]).resolve()
            if not (folder / row["entry"]).is_symlink():
                (folder / row["entry"]).symlink_to(run, target_is_directory=True)
        (out / "comments.md").write_text(page["comments"].strip() + "\n", "utf-8")
    return {name: options.runs / name for name in pages}


def scale_of(out):
    """The scale of the runs in a folder, which its tables name; None as published."""
    from keras_attn_zoo.files import kind_of, read_json

    tables = out / "tables.json"
    return read_json(tables).get("scale") if kind_of(tables) == "file" else None


def write_one(name, recipe, out, before):
    """Write the tables and the page of a recipe's runs, and copy the page and its pictures to docs/results."""
    from make import shrink

    from keras_attn_zoo.commands.pictures import draw_pictures
    from keras_attn_zoo.errors import UserError
    from keras_attn_zoo.experiments.comparison import expand
    from keras_attn_zoo.experiments.paper_cells import Runs
    from keras_attn_zoo.experiments.paper_files import write_tables
    from keras_attn_zoo.experiments.paper_page import write_page
    from keras_attn_zoo.experiments.result_files import check_folder

    check_folder(out, recipe)
    recipe = recipe.at(scale_of(out))
    runs = Runs(recipe, out, "bootstrap")
    if not runs.pairs:
        raise UserError(f"no run of {name} has been scored in {out}: check the folder, or train one.")
    for pair in runs.pairs:
        there = {entry: own for entry, own in recipe.entries.items() if runs.folders(pair, entry)}
        # One alone shows nothing of a comparison.
        if len(there) > 1:
            draw_pictures(recipe, expand(there, {}), recipe.folder_of(out, pair))
    page = write_page(runs, write_tables(runs), before.strip())
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
    print(PAGES / f"{name}.md")


def main():
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="RECIPE", help="pages to write; by default those of presets")
    parser.add_argument("--runs", type=Path, default=Path("runs/results"), help="folder for the scored presets")
    parser.add_argument(
        "--corpus",
        type=Path,
        help="folder of train, valid and test.tsv.gz, English first; without it, nothing more is scored",
    )
    parser.add_argument("--links", type=Path, help="folder of test.de-en and gold.talp, for AER")
    parser.add_argument("--out", action="append", default=[], metavar="RECIPE=FOLDER", help="a recipe's own runs")
    options = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.path.insert(0, str(ROOT / "presets"))
    from keras_attn_zoo.backends import choose_backend
    from keras_attn_zoo.errors import UserError

    choose_backend(None)
    pages, common = read_pages()
    if unknown := set(options.names) - set(pages):
        parser.error(f"there is no page {min(unknown)}: choose among {', '.join(pages)}")
    for one in options.out:
        if not re.fullmatch(rf"({'|'.join(options.names or pages)})=.+", one):
            parser.error(f"--out takes RECIPE=FOLDER, with a recipe whose page is written; received {one!r}")
    given = {name: Path(folder) for name, _, folder in (one.partition("=") for one in options.out)}
    names = options.names or [name for name, page in pages.items() if page["presets"] or name in given]
    for name in names:
        if not pages[name]["presets"] and name not in given:
            parser.error(f"the page of {name} is made of runs: name their folder, --out {name}=FOLDER")
    pages = {name: pages[name] for name in names}
    try:
        of_presets = prepare({name: page for name, page in pages.items() if name not in given}, options)
        for name, page in pages.items():
            if name in given:
                recipe = load_recipe(name)
                pictures = with_pair(recipe.pictures.items(), common)
                write_one(name, dataclasses.replace(recipe, pictures=pictures), given[name], "")
            else:
                write_one(name, with_pictures(load_recipe(name), page, common), of_presets[name], common["before"])
    except UserError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
