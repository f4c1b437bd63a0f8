"""Translate and score a test set with the translator of a run."""

import time
from typing import Any

import keras

from keras_attn_zoo.data.shapes import EVALUATION_ROWS
from keras_attn_zoo.devices import wait
from keras_attn_zoo.evaluation.alignments import Alignment, write_alignments
from keras_attn_zoo.evaluation.likelihood import corpus_likelihood
from keras_attn_zoo.evaluation.text_scores import score_text
from keras_attn_zoo.evaluation.timing import CompilationClock
from keras_attn_zoo.experiments.parallel_text import ParallelText
from keras_attn_zoo.experiments.run_folder import RunFolder
from keras_attn_zoo.experiments.tasks import TASKS
from keras_attn_zoo.experiments.word_alignment import align_words, score_links
from keras_attn_zoo.files import PathLike, write_text
from keras_attn_zoo.messages import progress_bar
from keras_attn_zoo.models import Translator
from keras_attn_zoo.training.run_log import clock_of, read_log

_OF_REFERENCES = ("loss", "perplexity", "accuracy", "tokens")


def score_run(
    folder: PathLike,
    translator: Translator,
    text: ParallelText,
    name: str = "test",
    known: dict[str, Any] | None = None,
    top_k: int | None = None,
) -> dict[str, Any]:
    """Translate and score a test set; write hypotheses, references, scores and alignments to the run folder.

    What the text is scored with depends on the run's task: see `experiments.tasks`.

    Args:
        folder: the run folder of a trained system.
        translator: its translator, see `load_translator`.
        text: the test text; with gold alignments, those of the translator are scored too.
        name: name of the test set, in files and tables.
        known: scores of the same text with another search, reused where they do not depend on the search.
        top_k: see `Translator.translate`.

    Returns:
        the scores, as plain data.

    Example:
        >>> score_run("runs/bahdanau", load_translator("runs/bahdanau"), corpus.test)  # doctest: +SKIP
    """
    run = RunFolder(folder)
    system = run.system()
    # Everything is read before anything is written.
    training, _ = training_summary(run), run.read_scores()
    encoded = text.encoded_for(translator.preprocessor)
    known = known or _scores_of_references(translator, system, encoded, text, run.alignment(name))
    clock = CompilationClock()
    with progress_bar("translating", len(encoded)) as progress:
        began = time.perf_counter()
        found = translator.translate(
            encoded, batch_size=system.search.batch_size, clock=clock, progress=progress, top_k=top_k
        )
        seconds = time.perf_counter() - began
    hypotheses = [best[0].text for best in found]
    scores = {
        "system": system.name,
        "sentences": len(encoded),
        "beams": translator.sampler.num_beams,
        "length_penalty": translator.sampler.length_penalty,
        "search_top_k": translator.search_top_k if top_k is None else top_k,
        "text": score_text(hypotheses, text.targets, TASKS[system.data.task].metrics).as_dict(),
        **{key: known[key] for key in (*_OF_REFERENCES, "free_running", "alignment") if key in known},
        "translation_seconds": seconds,
        "translation_compilation_seconds": clock.compilation,
        "training": training,
        "parameters": translator.count_params(),
        "backend": keras.config.backend(),
        "precision": translator.compute_dtype,
    }
    with run.lock_scores():
        for path, lines in ((run.hypotheses(name), hypotheses), (run.references(name), text.targets)):
            write_text(path, "".join(line + "\n" for line in lines))
        run.add_scores(name, scores)
    wait()
    return scores


def score_alignment(
    translator: Translator, text: ParallelText, path: PathLike, batch_size: int = 32
) -> dict[str, float]:
    """Align gold-aligned sentence pairs by forced decoding; write the links; return AER, precision, recall.

    Args:
        translator: a `Translator`.
        text: sentence pairs with gold alignments.
        path: file for the links, in Pharaoh format counted from 0, source first.
        batch_size: sentences decoded at once.

    Returns:
        "aer", "precision", "recall" and "sentences"; for a latent alignment, "posterior_aer" too.
    """
    gold, encoded = (
        text.gold or [],
        text.encoded_for(translator.preprocessor),
    )
    words = [(source, target) for source, target, _ in gold]
    wanted = [alignment for *_, alignment in gold]

    def align(layers=None):
        with progress_bar("aligning", len(encoded)) as progress:
            links, _ = align_words(translator, words, layers, batch_size=batch_size, progress=progress, text=encoded)
        return links, score_links(links, words, wanted)

    links, scores = align()
    write_alignments(path, [Alignment(sure=frozenset(one)) for one in links])
    found = {
        "aer": scores.aer,
        "precision": scores.precision,
        "recall": scores.recall,
        "sentences": scores.sentences,
    }
    if translator.backbone.latent_head is not None:
        found["posterior_aer"] = align("posterior")[1].aer
    return found


def _scores_of_references(translator, system, encoded, text, path):
    """Scores of a test set's references under the model, independent of the search."""

    def likelihood(free_running=False):
        with progress_bar("scoring the references", len(encoded)) as progress:
            return corpus_likelihood(translator.score(encoded, None, free_running, EVALUATION_ROWS, progress))

    scores = likelihood()
    if system.training.samples_tokens:
        scores["free_running"] = likelihood(free_running=True)
    if text.gold is not None:
        scores["alignment"] = score_alignment(translator, text, path, system.search.batch_size)
    return scores


def training_summary(run: RunFolder) -> dict[str, Any]:
    """Return steps, rounds and wall time of a run's training, from its log; compilation is counted separately."""
    lines = read_log(run.log)
    steps = [line for line in lines if "shape" in line]
    rounds = [line for line in lines if "round" in line]
    clock = clock_of(steps)
    tokens = sum(line["tokens"] for line in steps)
    return {
        "steps": len(steps),
        "rounds": len(rounds),
        "best_valid_loss": min((x for line in rounds if (x := line.get("val_loss")) is not None), default=None),
        "seconds": clock.total,
        "compilation_seconds": clock.compilation,
        "tokens_per_second": tokens / clock.steady if clock.steady else None,
        "steps_per_second": len(steps) / clock.steady if clock.steady else None,
        "environment": run.backend(),
        "precision": run.system().precision,
    }
