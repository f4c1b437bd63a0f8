"""Finished run folders of the published presets: scored on test, validation and gold-aligned text, without training."""

import dataclasses
import json
import shutil

from make import HERE, precision_of
from measuring import read_links

TIMES = ("translation_seconds", "translation_compilation_seconds")


def score_preset(recipe, folder, corpus, links, wanted=()):
    """Score a preset on the test text as if it had just been trained; what was scored before is left alone.

    Args:
        recipe: the preset, see `make.Recipe`.
        folder: the run folder to make.
        corpus: folder of train, valid and test.tsv.gz, English first.
        links: folder of test.de-en and gold.talp.
        wanted: names of further scores: "valid", "gold", or either with `-kK` behind it, see `score_and_draw`.
    """
    from keras_attn_zoo.experiments.run_folder import RunFolder

    run = RunFolder(folder)
    if not all(name in run.read_scores() for name in ("test", *wanted)):
        _score(recipe, run, corpus, links, wanted)
    log_round(run, recipe)
    # Whatever else ran at the time, the presets one after the other were not timed under equal conditions.
    for name, scores in run.read_scores().items():
        if any(scores[key] for key in TIMES):
            run.add_scores(name, {**scores, **dict.fromkeys(TIMES, 0.0)})


def _score(recipe, run, corpus, links, wanted):
    from keras_attn_zoo.data.words import as_sentence
    from keras_attn_zoo.experiments.corpora import corpus_from_files
    from keras_attn_zoo.experiments.finished_run import score_and_draw
    from keras_attn_zoo.experiments.parallel_text import ParallelText
    from keras_attn_zoo.files import atomic_path

    files = [corpus / f"{split}.tsv.gz" for split in ("train", "valid", "test")]
    text = corpus_from_files(*files, reverse=recipe.reversed)
    if not run.holds_run:
        run.path.mkdir(parents=True, exist_ok=True)
        with atomic_path(run.best) as best:
            shutil.copytree(HERE / recipe.name, best)
        run.log.touch()
        run.create(trained(recipe), text.description, text.test.rows())
    texts = {"valid": ParallelText(text.splits.valid)}
    if "gold" in wanted:
        pairs, gold = read_links(links, recipe)
        words = [(source, target, one) for (source, target), one in zip(pairs, gold, strict=True)]
        texts["gold"] = ParallelText([(as_sentence(source), as_sentence(target)) for source, target in pairs], words)
    more = {name: texts[name.partition("-")[0]] for name in wanted}
    score_and_draw(run.path, text.test, keep_scores=True, more=more, pictures=False)


def trained(recipe):
    """The system of a preset, in the precision that its card says it was trained in."""
    return dataclasses.replace(recipe.trained(), precision=precision_of(recipe.name))


def log_round(run, recipe):
    """Log the one round that is known of the training: its best, which the preset is; with its figures, if scored."""
    from keras_attn_zoo.files import read_json, write_text
    from keras_attn_zoo.models.preset_registry import REGISTRY

    training = read_json(REGISTRY)["presets"][recipe.name]["training"]
    scores = run.read_scores().get("valid", {})
    figures = {f"val_{key}": scores[key] for key in ("loss", "perplexity", "accuracy") if key in scores}
    write_text(run.log, json.dumps({"round": training["epochs"], "step": training["steps"], **figures}) + "\n")
