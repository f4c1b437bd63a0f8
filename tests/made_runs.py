"""Run folders made by hand: scores, log and translations, of a system that was never trained."""

import json
import shutil

from keras_attn_zoo.runs.run_folder import RunFolder, translations_checksum
from keras_attn_zoo.runs.system import System

REFERENCES = [f"the {colour} house {number} is here today" for colour in ("red", "blue") for number in range(15)]
WRONG = [line.replace("house", "dog") for line in REFERENCES]
LINES = [
    {"step": 3, "shape": [8, 8], "seconds": 1.0, "tokens": 5, "loss": 9.0},
    {
        "round": 1,
        "step": 3,
        "loss": 3.0,
        "perplexity": 20.0,
        "accuracy": 0.25,
        "val_perplexity": 9.5,
        "val_accuracy": 0.5,
    },
    {
        "round": 2,
        "step": 6,
        "loss": 2.0,
        "perplexity": 7.39,
        "accuracy": 0.5,
        "val_perplexity": None,
        "test_bleu_after_50%": 41.3,
    },
    {
        "round": 3,
        "step": 9,
        "loss": 2.5,
        "perplexity": 12.0,
        "accuracy": 0.4,
        "val_perplexity": 8.25,
        "val_accuracy": 0.75,
    },
]


def copy_run(run, folder, system):
    """A copy of a run, as if another system had been trained in it; without the texts that others scored it on.

    Its preset stays that of the run; see the fixture `any_preset`.
    """
    copy = RunFolder(shutil.copytree(run, folder))
    copy.scores.write_text(json.dumps({"test": json.loads(copy.scores.read_text())["test"]}))
    copy.config.write_text(json.dumps({**json.loads(copy.config.read_text()), "system": system.to_dict()}))
    return copy


def make_timing(run, seconds=2.0, precision="float32", **more):
    """What a timing pass might have found of a run; a step takes some seconds, the translation 7."""
    timing = {
        **{"started": "2026-01-01T00:00:00+00:00", "systems": ["base", "new"], "rounds": 5, "step_seconds": seconds},
        **{"shapes": {"8x8": {"seconds": seconds, "share": 1.0}}, "tokens_per_second": 100.0 / seconds},
        **{"translation_seconds": 1.4, "sentences": 6, "test_sentences": 30, "machine": "m", "cores": 2},
        **{"cores_used": 1.0, "backend": "torch", "precision": precision, "used_by_others": 0.01},
        **{"beside_other_work": False, **more},
    }
    run.timing.write_text(json.dumps(timing))
    return run


def translate_as(run, lines, name="test", bleu=None):
    """Give a run other translations, as if it had been scored on these; by default, with the BLEU that it had."""
    run.hypotheses(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    checksum = translations_checksum(run.hypotheses(name).read_bytes(), run.references(name).read_bytes())
    scores = {**run.read_scores()[name], "translations_checksum": checksum}
    if bleu is not None:
        scores["text"]["metrics"]["bleu"]["score"] = bleu
    run.add_scores(name, scores)


def repeat_text(run, times, text="test"):
    """Let a run have translated a text so many times over, by the name "many"."""
    for file in (run.hypotheses, run.references):
        file("many").write_text(file(text).read_text("utf-8") * times, encoding="utf-8")


def write_log(run, rounds):
    """Give a run a log of other rounds."""
    run.log.write_text("".join(json.dumps(line) + "\n" for line in rounds))


def make_run(
    folder,
    bleu=30.0,
    ter=50.0,
    translations=WRONG,
    steps=40,
    names=("test",),
    references=REFERENCES,
    system=None,
    **more,
):
    """A scored run."""
    run = RunFolder(folder)
    metrics = {name: {"score": score, "signature": name} for name, score in (("bleu", bleu), ("ter", ter))}
    times = {"translation_seconds": 9.0, "translation_compilation_seconds": 2.0}
    training = {"steps": steps, "seconds": 100.0, "compilation_seconds": 20.0, "tokens_per_second": 1.0}
    scores = {
        **{"sentences": len(references), "beams": 2, "length_penalty": 1.0, "search_top_k": None, "parameters": 9},
        **{"text": {"metrics": metrics}, "training": {**training, "environment": "torch"}, **times, **more},
    }
    for name in names:
        for path, lines in ((run.hypotheses(name), translations), (run.references(name), references)):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        run.add_scores(name, scores)
    write_log(run, LINES)
    run.test.write_text("".join(f"quelle {i}\t{line}\n" for i, line in enumerate(references)), encoding="utf-8")
    system = system or System(folder.name, {}, seed=int(folder.name.partition("-seed=")[2] or 1))
    run.config.write_text(json.dumps({"system": system.to_dict(), "corpus": {}}))
    return run


def make_seeds(folder, bleu=30.0, **options):
    """A run of each of three seeds, whose BLEU differs by a tenth."""
    for seed, number in enumerate((bleu - 0.1, bleu, bleu + 0.1), start=1):
        make_run(folder if seed == 1 else folder.with_name(f"{folder.name}-seed={seed}"), number, **options)


def table_rows(text):
    """The cells of the rows of a Markdown table, the heading first."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    return [rows[0], *rows[2:]]
