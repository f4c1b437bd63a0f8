"""Keep what the pages of docs/results are made of: settings, logs, scores and counts of runs, without weights and text.

  python docs/write_results.py bahar2020=runs/bahar && python docs/keep_runs.py bahar2020=runs/bahar
  python docs/write_results.py bahar2020=docs/results/runs/bahar2020

The runs of a recipe stand in docs/results/runs/RECIPE then, beside those that were kept before, and its page can be
written of them all, anywhere. What metrics count in each sentence takes the place of translations and references:
these are not ours to pass on. Pictures are those of the page that was written before.
"""

import json
import os
import shutil
from pathlib import Path

from write_results import PAGES, load_recipe, options_of

KEPT = PAGES / "runs"


def keep(name, out):
    """Keep the runs of a recipe that stand in a folder, and the pictures and comments beside them."""
    from make import shrink

    from keras_attn_zoo.studies.paper_cells import Runs

    recipe, runs = load_recipe(name), Runs(load_recipe(name), out)
    for pair in runs.pairs:
        place, there = recipe.folder_of(KEPT / name, pair), recipe.folder_of(out, pair)
        for folder in (folder for entry in recipe.entries for folder in runs.folders(pair, entry)):
            keep_run(recipe, pair, folder, place / folder.name)
        for path in (*there.glob("*.png"), *there.glob(".pictures.json")):
            shutil.copyfile(path, place / path.name)
            if path.suffix == ".png":
                shrink(place / path.name)
    for file in ("tables.json", "comments.md", "tuned.json"):
        if (out / file).exists():
            shutil.copyfile(out / file, KEPT / name / file)


def keep_run(recipe, pair, folder, place):
    """Keep one run in another place."""
    from keras_attn_zoo.runs.run_folder import RunFolder
    from keras_attn_zoo.runs.sentence_counts import keep_counts
    from keras_attn_zoo.studies.measures import Scored, text_counts
    from keras_attn_zoo.support.files import read_json, write_json, write_text

    run, kept = RunFolder(folder), RunFolder(place)
    scores = run.read_scores()
    for name in scores:
        keep_counts(run, name, countings(recipe, scores[name], pair), place)
        if run.sentence_sums(name).exists():
            sums = read_json(run.sentence_sums(name))
            # Six digits are enough for the ratio; a line for each number would be a hundred thousand lines.
            short = {key: [[round(one, 6) for one in part] for part in parts] for key, parts in sums.items()}
            write_text(kept.sentence_sums(name), json.dumps(short) + "\n")
    rounds = [line for line in run.log.read_text("utf-8").splitlines(keepends=True) if '"round"' in line]
    write_text(kept.log, "".join(rounds))
    write_json(kept.text_counts, text_counts(Scored(run, "test", scores["test"])))
    write_json(kept.scores, with_short_paths(scores))
    write_json(kept.environment, {key: one for key, one in read_json(run.environment).items() if key != "command"})
    if run.timing.exists():
        shutil.copyfile(run.timing, kept.timing)
    write_json(kept.config, with_short_paths(read_json(run.config)))


def countings(recipe, scores, pair):
    """The ways in which the tables and findings of a recipe count in a test set, see `keep_counts`."""
    from keras_attn_zoo.evaluation.text_scores import how_scored
    from keras_attn_zoo.studies.measures import measure, tested
    from keras_attn_zoo.studies.paper_tables import cells_of

    cells = [*cells_of(recipe.tables)]
    cells += [cell for one in recipe.findings for contrast in one.contrasts for cell in contrast.cells(pair)]
    tests = dict.fromkeys(tested(measure(cell.measure), pair) for cell in cells if cell.measure)
    how = how_scored(scores["text"])
    return [(test[0], test[1] or how["tokenize"], how["lowercase"]) for test in tests if test is not None]


def with_short_paths(value):
    """Plain data with the last folder and the name of each file, of which pages make the names of texts."""
    if isinstance(value, dict):
        return {key: with_short_paths(one) for key, one in value.items()}
    if isinstance(value, list):
        return [with_short_paths(one) for one in value]
    return os.path.join(*Path(value).parts[-2:]) if isinstance(value, str) and os.path.isabs(value) else value


def main():
    """Parse the command line."""
    parser, options = options_of(__doc__)
    from keras_attn_zoo.support.errors import UserError

    try:
        for name, folder in options:
            keep(name, folder)
    except UserError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
