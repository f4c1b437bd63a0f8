"""Translate and score a test set with the translator of a run."""

import logging
import time
from typing import Any

import numpy as np

from keras_attn_zoo.corpora.parallel_text import ParallelText
from keras_attn_zoo.data.shapes import EVALUATION_ROWS
from keras_attn_zoo.devices import wait
from keras_attn_zoo.evaluation.alignments import Alignment, write_alignments
from keras_attn_zoo.evaluation.likelihood import corpus_likelihood, likelihood_sums
from keras_attn_zoo.evaluation.overlap_scores import check_references
from keras_attn_zoo.evaluation.text_scores import TOKENIZE, score_text
from keras_attn_zoo.evaluation.timing import CompilationClock
from keras_attn_zoo.runs.run_folder import RunFolder, backend_here, translations_checksum
from keras_attn_zoo.runs.tasks import TASKS
from keras_attn_zoo.runs.word_alignment import LEAVE_OUT, links_of, score_links, sums_of_links
from keras_attn_zoo.support.files import PathLike, write_json, write_text
from keras_attn_zoo.support.messages import progress_bar
from keras_attn_zoo.training.run_log import clock_of, read_log
from keras_attn_zoo.translators import Translator

_LOG = logging.getLogger(__name__)
_OF_REFERENCES = ("loss", "perplexity", "accuracy", "tokens")


def score_run(
    folder: PathLike,
    translator: Translator,
    text: ParallelText,
    name: str = "test",
    known: dict[str, Any] | None = None,
    top_k: int | None = None,
    tokenize: str = TOKENIZE,
    lowercase: bool = False,
) -> dict[str, Any]:
    """Translate and score a test set; write hypotheses, references, scores and alignments to the run folder.

    What the text is scored with depends on the run's task: see `runs.tasks`.

    Args:
        folder: the run folder of a trained system.
        translator: its translator, see `load_translator`.
        text: the test text; with gold alignments, those of the translator are scored too.
        name: name of the test set, in files and tables.
        known: scores of the same text with another search, reused where they do not depend on the search.
        top_k: see `Translator.translate`.
        tokenize, lowercase: see `score_text`.

    Returns:
        the scores, as plain data.
    """
    run = RunFolder(folder)
    system = run.system()
    # Everything is read before anything is written.
    training, _ = training_summary(run), run.read_scores()
    check_references(TASKS[system.data.task].metrics, text.references, name)
    empty = sum(not (source.strip() and target.strip()) for source, target in text.pairs)
    if empty and not known:
        _LOG.warning("%d of %d %s sentences have an empty side; they are scored too", empty, len(text.pairs), name)
    encoded = text.encoded_for(translator.preprocessor)
    sums = None
    if not known:
        known, sums = _scores_of_references(translator, system, encoded, text, run.alignment(name))
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
        "text_checksum": text.checksum,
        **({} if text.origin is None else {"origin": text.origin}),
        "beams": translator.sampler.num_beams,
        "length_penalty": translator.sampler.length_penalty,
        "search_top_k": translator.search_top_k if top_k is None else top_k,
        "text": _text_scores(system, hypotheses, text.references, tokenize, lowercase),
        **{key: known[key] for key in (*_OF_REFERENCES, "free_running", "alignment") if key in known},
        "translation_seconds": seconds,
        "translation_compilation_seconds": clock.compilation,
        "training": training,
        "parameters": translator.count_params(),
        "backend": backend_here(),
        "precision": translator.compute_dtype,
    }
    translations = "".join(line + "\n" for line in hypotheses)
    references = _reference_lines(text)
    scores["translations_checksum"] = translations_checksum(translations.encode(), references.encode())
    with run.lock_scores():
        write_text(run.hypotheses(name), translations)
        write_text(run.references(name), references)
        if sums is not None:
            write_json(run.sentence_sums(name), {key: one for key, one in sums.items() if np.isfinite(one).all()})
        run.add_scores(name, scores)
    wait()
    return scores


def _reference_lines(text):
    """The references of a text, tab-separated, as sacrebleu's command line reads them with --num-refs."""
    return "".join("\t".join(lines) + "\n" for _, *lines in text.rows())


def score_again(folder: PathLike, name: str, tokenize: str, lowercase: bool) -> None:
    """Score the translations in a run folder with another tokeniser, or without case; nothing is translated.

    Args:
        folder: the run folder of a scored system.
        name: name of the test set.
        tokenize, lowercase: see `score_text`.

    Raises:
        UserError: see `RunFolder.read_translations` and `score_text`.
    """
    run = RunFolder(folder)
    hypotheses, references = run.read_translations(name)
    changed = _text_scores(run.system(), hypotheses, references, tokenize, lowercase)
    with run.lock_scores():
        run.add_scores(name, {**run.read_scores()[name], "text": changed})
    wait()


def _text_scores(system, hypotheses, references, tokenize, lowercase):
    metrics, (first, *more) = TASKS[system.data.task].metrics, references
    return score_text(hypotheses, first, metrics, lowercase, tokenize, more).as_dict()


def score_alignment(
    translator: Translator,
    text: ParallelText,
    path: PathLike,
    batch_size: int = 32,
    sums: dict[str, list[list[float]]] | None = None,
) -> dict[str, float]:
    """Align gold-aligned sentence pairs by forced decoding; write the links; return AER, precision, recall.

    Args:
        translator: the translator.
        text: sentence pairs with gold alignments.
        path: file for the links, in Pharaoh format counted from 0, source first.
        batch_size: sentences decoded at once.
        sums: a dict that gets what the error rates without full stops are ratios of, see `aer_sums`.

    Returns:
        "aer", "precision", "recall", "sentences", and "aer_without_full_stop", in which nothing is aligned to a full
        stop; for a latent alignment, "posterior_aer" too; of several decoder layers, which are averaged,
        "all_layers_aer_without_full_stop".
    """
    gold, encoded = text.gold or [], text.encoded_for(translator.preprocessor)
    words = [(source, target) for source, target, _ in gold]
    wanted = [alignment for *_, alignment in gold]

    backbone = translator.backbone
    every = range(len(backbone.cross_attention_heads))

    def force(layers=None):
        with progress_bar("aligning", len(encoded)) as progress:
            return translator.force(encoded, layers=layers, batch_size=batch_size, progress=progress)

    def scored(decoded, leave_out=("end",), key=None):
        links, _ = links_of(decoded, words, leave_out)
        if key is not None and sums is not None:
            sums[key] = sums_of_links(links, words, wanted, leave_out)
        return links, score_links(links, words, wanted, leave_out)

    decoded = force()
    links, scores = scored(decoded)
    write_alignments(path, [Alignment(sure=frozenset(one)) for one in links])
    found = {
        "aer": scores.aer,
        "precision": scores.precision,
        "recall": scores.recall,
        "sentences": scores.sentences,
        "aer_without_full_stop": scored(decoded, LEAVE_OUT, "aer_without_full_stop")[1].aer,
    }
    if backbone.latent_head is not None:
        found["posterior_aer"] = scored(force("posterior"))[1].aer
    if len(every) > 1:
        key = "all_layers_aer_without_full_stop"
        found[key] = scored(force(every), LEAVE_OUT, key)[1].aer
    return found


def _scores_of_references(translator, system, encoded, text, path):
    """Scores of a test set's references under the model, independent of the search, and what these are ratios of."""

    def likelihood(free_running=False):
        with progress_bar("scoring the references", len(encoded)) as progress:
            found = translator.score(encoded, None, free_running, EVALUATION_ROWS, progress)
        return corpus_likelihood(found), likelihood_sums(found)

    scores, sums = likelihood()
    if system.training.samples_tokens:
        scores["free_running"], of_sentences = likelihood(free_running=True)
        sums["free_running_loss"] = of_sentences["loss"]
    if text.gold is not None:
        scores["alignment"] = score_alignment(translator, text, path, system.search.batch_size, sums)
    return scores, sums


def training_summary(run: RunFolder) -> dict[str, Any]:
    """Return steps, rounds and wall time of a run's training, from its log; compilation is counted separately.

    Tokens per second are by the median time for each shape of batch.
    """
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
        "tokens_per_second": tokens / clock.usual if clock.usual else None,
        "environment": run.backend(),
        "precision": run.system().precision,
    }
