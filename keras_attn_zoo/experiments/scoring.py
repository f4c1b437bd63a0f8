"""Translate and score a test set with the translator of a run."""

import time
from collections.abc import Iterable
from typing import Any

import keras

from keras_attn_zoo.data.splits import Pair
from keras_attn_zoo.evaluation.alignments import Alignment, write_alignments
from keras_attn_zoo.evaluation.likelihood import corpus_likelihood
from keras_attn_zoo.evaluation.text_scores import score_text
from keras_attn_zoo.evaluation.timing import CompilationClock
from keras_attn_zoo.experiments.corpora import Gold
from keras_attn_zoo.experiments.run_folder import RunFolder
from keras_attn_zoo.experiments.word_alignment import align_words, score_links
from keras_attn_zoo.files import PathLike, write_text
from keras_attn_zoo.messages import progress_bar
from keras_attn_zoo.models import Translator
from keras_attn_zoo.training.run_log import read_log

# Sentences of a test batch.
EVALUATION_ROWS = 64
_OF_REFERENCES = ("loss", "perplexity", "accuracy", "tokens")


def score_run(
    folder: PathLike,
    translator: Translator,
    pairs: Iterable[Pair],
    gold: Gold | None = None,
    name: str = "test",
    known: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Translate and score a test set; write hypotheses, references, scores and alignments to the run folder.

    Args:
        folder: the run folder of a trained system.
        translator: its translator, see `load_translator`.
        pairs: test sentence pairs.
        gold: for each pair `(source words, target words, Alignment)`; None for no alignment scores.
        name: name of the test set, in files and tables.
        known: scores of the same text with another search, reused where they do not depend on the search.

    Returns:
        the scores, as plain data.

    Example:
        >>> score_run("runs/bahdanau", load_translator("runs/bahdanau"), corpus.splits.test)  # doctest: +SKIP
    """
    run = RunFolder(folder)
    system = run.system()
    # Everything is read before anything is written.
    training, _ = training_summary(run), run.read_scores()
    pairs = list(pairs)
    sources, references = [source for source, _ in pairs], [target for _, target in pairs]
    known = known or _scores_of_references(translator, system, sources, references, gold, run.alignment(name))
    clock = CompilationClock()
    with progress_bar("translating", len(sources)) as progress:
        began = time.perf_counter()
        found = translator.translate(sources, batch_size=system.search.batch_size, clock=clock, progress=progress)
        seconds = time.perf_counter() - began
    hypotheses = [best[0].text for best in found]
    scores = {
        "system": system.name,
        "sentences": len(pairs),
        "beams": translator.sampler.num_beams,
        "length_penalty": translator.sampler.length_penalty,
        "search_top_k": translator.search_top_k,
        "text": score_text(hypotheses, references).as_dict(),
        **{key: known[key] for key in (*_OF_REFERENCES, "free_running", "alignment") if key in known},
        "translation_seconds": seconds,
        "translation_compilation_seconds": clock.compilation,
        "training": training,
        "parameters": translator.count_params(),
        "backend": keras.config.backend(),
    }
    with run.lock_scores():
        for path, lines in ((run.hypotheses(name), hypotheses), (run.references(name), references)):
            write_text(path, "".join(text + "\n" for text in lines))
        run.add_scores(name, scores)
    return scores


def score_alignment(translator: Translator, gold: Gold, path: PathLike, batch_size: int = 32) -> dict[str, float]:
    """Align gold-aligned sentence pairs by forced decoding; write the links; return AER, precision, recall.

    Args:
        translator: a `Translator`.
        gold: `(source words, target words, Alignment)` per sentence.
        path: file for the links, in Pharaoh format counted from 0, source first.

    Returns:
        "aer", "precision", "recall" and "sentences"; for a latent alignment, "posterior_aer" too.
    """
    words = [(source, target) for source, target, _ in gold]
    links, _ = align_words(translator, words, batch_size=batch_size)
    predicted = [Alignment(sure=frozenset(found)) for found in links]
    write_alignments(path, predicted)
    wanted = [alignment for *_, alignment in gold]
    scores = score_links(links, words, wanted)
    found = {
        "aer": scores.aer,
        "precision": scores.precision,
        "recall": scores.recall,
        "sentences": scores.sentences,
    }
    if translator.backbone.latent_head is not None:
        links, _ = align_words(translator, words, layers="posterior", batch_size=batch_size)
        found["posterior_aer"] = score_links(links, words, wanted).aer
    return found


def _scores_of_references(translator, system, sources, references, gold, path):
    """Scores of a test set's references under the model, independent of the search."""
    scores = corpus_likelihood(translator.score(sources, references, batch_size=EVALUATION_ROWS))
    if system.training.samples_tokens:
        free = translator.score(sources, references, free_running=True, batch_size=EVALUATION_ROWS)
        scores["free_running"] = corpus_likelihood(free)
    if gold is not None:
        scores["alignment"] = score_alignment(translator, gold, path, system.search.batch_size)
    return scores


def training_summary(run: RunFolder) -> dict[str, Any]:
    """Return steps, rounds and wall time of a run's training, from its log; compilation is counted separately."""
    lines = read_log(run.log)
    steps = [line for line in lines if "seconds" in line]
    rounds = [line for line in lines if "round" in line]
    clock = CompilationClock()
    for line in steps:
        clock.record(tuple(line["shape"]), line["seconds"])
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
    }
