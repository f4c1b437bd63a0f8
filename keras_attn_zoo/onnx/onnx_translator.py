"""A translator that was exported to ONNX."""

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
import onnxruntime

from keras_attn_zoo.data.checked_text import SentenceTooLong, check_texts
from keras_attn_zoo.data.encoded_text import EncodedText, encode_sentences
from keras_attn_zoo.data.hypothesis import Hypothesis, until_end
from keras_attn_zoo.data.marian_pieces import AddedToken, MarianPieces
from keras_attn_zoo.data.subwords import LARGEST_MODEL, Subwords
from keras_attn_zoo.data.truecasing import Truecaser
from keras_attn_zoo.data.truncation import Truncation
from keras_attn_zoo.onnx.description import ENCODER, HYPOTHESES, STEP, read_description
from keras_attn_zoo.onnx.numpy_beam_search import BeamSearch, PooledBeamSearch
from keras_attn_zoo.onnx.onnx_steps import ONNXSteps
from keras_attn_zoo.support.checksums import CHECKSUMS, check_sum, read_checksums
from keras_attn_zoo.support.choices import HIGHEST_PENALTY, MOST_BEAMS, MOST_TOKENS
from keras_attn_zoo.support.errors import UserError, check_counts, counted
from keras_attn_zoo.support.files import PathLike, read_bytes, read_json, shown
from keras_attn_zoo.support.setting_types import Number, Whole
from keras_attn_zoo.support.threads import cores, in_order

# What a search can be given, as `SearchSettings` has it, whose module is above this one.
_SETTINGS = {
    "beams": Whole(least=1, most=MOST_BEAMS),
    **dict.fromkeys(("length_penalty", "coverage_penalty"), Number(least=0, most=HIGHEST_PENALTY)),
    **dict.fromkeys(("min_length", "no_repeat_ngram"), Whole(least=0, most=MOST_TOKENS)),
}


class ONNXTranslator:
    """A translator from the folder that `export_to_onnx` wrote.

    Use it to serve translations where neither Keras nor a backend is installed: it needs onnxruntime, SentencePiece
    and NumPy. It finds the translations that `Translator.translate` finds, by the search of the exported translator.

    Args:
        folder: the exported folder.
        threads: how many threads to use; by default, as many as there are cores for this process. As many batches are
            searched at once, or they share the steps of a single one.

    Attributes:
        description: what stands in its `translator.json`.
        source, target: the `Subwords` of both sides.

    Raises:
        UserError: no such folder, or a file in it is missing or damaged.

    Example:
        >>> ONNXTranslator("exported").translate("Guten Tag")[0].text  # doctest: +SKIP
    """

    def __init__(self, folder: PathLike, threads: int | None = None) -> None:
        self._threads = cores() if threads is None else threads
        check_counts(threads=self._threads)
        # Programs are opened when they are needed, wherever the process is by then.
        self._folder = folder = Path(folder).absolute()
        self.description = read_description(folder)
        self._sums = read_checksums(folder / CHECKSUMS)
        self.source, self.target = (_subwords(folder, side, self.description) for side in ("source", "target"))
        # Encoder and step, by how many threads they use.
        self._sessions: dict[int, tuple[Any, Any]] = {}
        self._opening = threading.Lock()

    @property
    def search_settings(self) -> dict[str, Any]:
        """The settings of the search, as the exported translator had them."""
        return dict(self.description["search"])

    @overload
    def translate(
        self,
        sentences: str,
        n_best: int = ...,
        attention: bool = ...,
        batch_size: int | None = ...,
        max_length: int | None = ...,
        beams: int | None = ...,
        length_penalty: float | None = ...,
        coverage_penalty: float | None = ...,
        min_length: int | None = ...,
        no_repeat_ngram: int | None = ...,
        progress: Callable[[int], None] | None = ...,
    ) -> list[Hypothesis]: ...

    @overload
    def translate(
        self,
        sentences: list[str] | tuple[str, ...],
        n_best: int = ...,
        attention: bool = ...,
        batch_size: int | None = ...,
        max_length: int | None = ...,
        beams: int | None = ...,
        length_penalty: float | None = ...,
        coverage_penalty: float | None = ...,
        min_length: int | None = ...,
        no_repeat_ngram: int | None = ...,
        progress: Callable[[int], None] | None = ...,
    ) -> list[list[Hypothesis]]: ...

    def translate(
        self,
        sentences: str | Sequence[str],
        n_best: int = 1,
        attention: bool = False,
        batch_size: int | None = None,
        max_length: int | None = None,
        beams: int | None = None,
        length_penalty: float | None = None,
        coverage_penalty: float | None = None,
        min_length: int | None = None,
        no_repeat_ngram: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> list[Hypothesis] | list[list[Hypothesis]]:
        """Translate sentences; return hypotheses with scores and, on request, attention.

        Args:
            sentences: a list of strings, or one string.
            n_best: hypotheses per sentence, at most the number of beams.
            attention: whether to return attention, as the search saw it.
            batch_size: sentences per batch; those of similar length share one. By default, as many as have 128
                hypotheses, and no more than leave each thread a batch.
            max_length: maximum tokens of a translation, start and end included; by default the translator's.
            beams, length_penalty, coverage_penalty, min_length, no_repeat_ngram: settings of the search; by default
                those of the exported translator.
            progress: function called with the number of sentences done, after every batch.

        Returns:
            As `Translator.translate`: for each sentence a list of up to `n_best` `Hypothesis`, the best first; for a
            single string, only its list.

        Raises:
            UserError: anything other than strings; more hypotheses than beams; a sentence or a `max_length` beyond the
                exported one; a setting that a search cannot have.
        """
        alone = isinstance(sentences, str)
        check_counts(batch_size=1 if batch_size is None else batch_size, n_best=n_best)
        given = {"beams": beams, "length_penalty": length_penalty, "coverage_penalty": coverage_penalty}
        given |= {"min_length": min_length, "no_repeat_ngram": no_repeat_ngram}
        search = self._search(given, n_best, attention, max_length)
        text = self.encode([sentences] if isinstance(sentences, str) else sentences)
        if batch_size is None:
            batch_size = max(1, min(HYPOTHESES // search.beams, -(-len(text) // self._threads)))
        # The longest first, so that threads end together.
        order = sorted(range(len(text)), key=lambda i: -len(text[i]))
        batches = [order[first : first + batch_size] for first in range(0, len(order), batch_size)]
        # onnxruntime shares the steps of a small model between threads with little gain.
        parallel = max(1, min(self._threads, len(batches)))
        threads = 1 if parallel > 1 else self._threads
        start = self.description["target"]["start"]
        options = onnxruntime.RunOptions()

        def searched(members):
            return search.search(self.steps([text[i] for i in members], threads, options), start)

        def stop():
            options.terminate = True

        results: list[list[Hypothesis]] = [[] for _ in text]
        done = 0
        for members, found in zip(batches, in_order(searched, batches, parallel, stop=stop), strict=True):
            for i, of_sentence in zip(members, found, strict=True):
                results[i] = self._hypotheses(text[i], of_sentence, attention)
            done += len(members)
            if progress is not None:
                progress(done)
        return results[0] if alone else results

    def encode(self, sentences: Sequence[str]) -> list[list[int]]:
        """Return the ids of sentences, the end token included; raise if one is too long."""
        ids = encode_sentences(self.source, check_texts(sentences, "sentences"))
        truncation = Truncation(**self.description["truncation"])
        ids = truncation.cut_sources(EncodedText(ids, None, ("", ""))).sources
        longest = self.description["lengths"]["source"]
        for number, one in enumerate(ids, start=1):
            if len(one) > longest:
                raise SentenceTooLong(number, len(one), longest, most=longest)
        return ids

    def steps(self, sources: Sequence[list[int]], threads: int = 1, options: Any = None) -> ONNXSteps:
        """Return the steps of a search of encoded sentences, each step by so many threads; see there for `options`."""
        mask = np.arange(max(map(len, sources)))[None] < np.array([len(ids) for ids in sources])[:, None]
        token_ids = np.zeros(mask.shape, "int32")
        token_ids[mask] = np.concatenate(sources)
        with self._opening:
            if threads not in self._sessions:
                self._sessions[threads] = self._open(ENCODER, threads), self._open(STEP, threads)
        return ONNXSteps(*self._sessions[threads], self.description, token_ids, mask, options)

    def _open(self, name, threads):
        """Return the session of a program; the folder may hold another translator by now."""
        check_sum(self._folder / name, self._sums[name])
        return _session(self._folder / name, threads)

    def _search(self, given, n_best, attention, max_length):
        """Return the search with some settings other than its own."""
        settings = {**self.search_settings, **{name: value for name, value in given.items() if value is not None}}
        pooled = settings.pop("pooled", None)
        for name, value in settings.items():
            _SETTINGS[name].check(value, name)
        if not 1 <= n_best <= settings["beams"]:
            beams = counted(settings["beams"], "beam")
            raise UserError(
                f"n_best={n_best} must be at least 1, and at most {beams}: search with more beams.",
                f"--n-best {n_best} is more than {beams}: set --beams {n_best}.",
            )
        if pooled and settings.get("coverage_penalty"):
            raise UserError("a pooled search, as this translator has it, has no coverage_penalty: leave it out.")
        limit = self.description["lengths"]["target"]
        if max_length is not None:
            if type(max_length) is not int or not 2 <= max_length <= limit:
                bounds = f"must be from 2 to {limit}, as exported; received {max_length}."
                raise UserError(f"max_length {bounds}", f"--max-tokens {bounds}")
            limit = max_length
        options = {"end": self.description["target"]["end"], "limit": limit, "n_best": n_best, "attention": attention}
        if pooled is None:
            return BeamSearch(**settings, **options)
        return PooledBeamSearch(**settings, **options, **pooled)

    def _hypotheses(self, source, found, attention):
        """The results of a sentence; an empty one has a translation that is empty and certain."""
        end = self.description["target"]["end"]
        return [
            Hypothesis(
                text=self.target.decode(ids),
                score=score,
                log_prob=log_prob,
                source_tokens=self.source.pieces(source),
                tokens=self.target.pieces(ids),
                token_ids=ids,
                # A copy: it would keep that of the padding.
                attention=weights[: len(ids), :, : len(source)].transpose(1, 0, 2).copy() if attention else None,
            )
            for ids, score, log_prob, weights in _up_to_end(source, found, end)
        ]


def _up_to_end(source, found, end):
    """Yield ids, score, log-probability and attention of translations."""
    for score, log_prob, ids, attention in found[:1] if len(source) == 1 else found:
        if len(source) == 1:
            # A model, which was never shown any, would make up a translation.
            yield [end], 0.0, 0.0, attention
        else:
            yield until_end(ids, end), score, log_prob, attention


def _subwords(folder, side, description):
    """Return the subwords of a side."""
    known = description["tokenizers"][side]
    model = read_bytes(folder / known["model"], LARGEST_MODEL)
    if "vocabulary" in known:
        added = [AddedToken(**one) for one in known["added_tokens"]]
        return MarianPieces(model, read_json(folder / known["vocabulary"]), added, known["clean_up_spaces"])
    return Subwords(model, Truecaser(folder / known["truecaser"]) if "truecaser" in known else None)


def _session(path, threads):
    options = onnxruntime.SessionOptions()
    # Errors alone.
    options.log_severity_level = 3
    options.intra_op_num_threads = threads
    try:
        return onnxruntime.InferenceSession(os.fspath(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        # onnxruntime's errors have no common class, and may begin with a signature of C++.
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rpartition(") ")[2][:200]
        raise UserError(
            f"onnxruntime {onnxruntime.__version__} cannot open {shown(path)}: {reason}. Install a newer one, or "
            "export the translator again."
        ) from None
