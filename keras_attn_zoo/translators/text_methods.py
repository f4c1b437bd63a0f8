"""A translator's methods on text: translate, force given translations, score them.

All take the same steps: from text to ids, batches of few shapes, a compiled function, results.
"""

import contextlib
import reprlib
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeAlias, overload

import keras
import numpy as np
from keras import ops

from keras_attn_zoo.bodies.backbone import OPTIONAL_INPUTS, TranslationBackbone
from keras_attn_zoo.data.checked_text import SentenceTooLong
from keras_attn_zoo.data.encoded_text import EncodedText
from keras_attn_zoo.data.hypothesis import Hypothesis
from keras_attn_zoo.data.shapes import grid_batches
from keras_attn_zoo.decoding import BeamSearch
from keras_attn_zoo.runtime.compiled_functions import Programs
from keras_attn_zoo.support.errors import UserError, check_counts
from keras_attn_zoo.support.types import Tensor
from keras_attn_zoo.translators.constraints import Constraints
from keras_attn_zoo.translators.hypothesis_reader import HypothesisReader, checked_sampler
from keras_attn_zoo.translators.preprocessor import check_maximum, check_token_count
from keras_attn_zoo.translators.search import (
    may_retry_at_full_length,
    numbers_of,
    retrying_at_full_length,
    search,
    search_key,
)
from keras_attn_zoo.translators.translations import ForcedDecoding, ScoredTranslation, pieces

# Several texts, as opposed to one string.
Texts: TypeAlias = list[str] | tuple[str, ...] | np.ndarray
Progress: TypeAlias = Callable[[int], None] | None


class TextMethods:
    """Mixin for a translator: its methods on text.

    It needs the body, preprocessor, sampler and `Programs` of a `Translator`. Calls leave nothing on the translator,
    so several threads may translate, force and score at once.
    """

    backbone: TranslationBackbone
    preprocessor: Any
    sampler: Any
    search_top_k: int | None
    token_losses: Callable[..., tuple[Tensor, Tensor, Tensor]]
    _programs: Programs

    def set_max_tokens(self, max_tokens: int) -> None:
        """Set the maximum length of sentences and translations to `max_tokens`.

        RNNs and sinusoidal positions work beyond the lengths seen in training, though less well; learned positions
        and weight matrices over positions have a fixed length.

        Args:
            max_tokens: maximum tokens of a sentence, including start and end.

        Raises:
            UserError: not a number of tokens, more than 10,000, or more than the model's weights allow; no
                preprocessor.

        Example:
            >>> translator.set_max_tokens(240)
        """
        self._check_preprocessor()
        self._check_maximum(max_tokens)
        self.preprocessor.encoder_sequence_length = self.preprocessor.decoder_sequence_length = int(max_tokens)

    # Its name in version 0.1.
    make_room = set_max_tokens

    def _check_preprocessor(self):
        if self.preprocessor is None:
            raise UserError("this translator has no preprocessor and takes only ids: give it one, or give ids.")

    def _check_maximum(self, tokens):
        check_maximum(tokens)
        self._check_weights_for(tokens)

    def _check_weights_for(self, tokens):
        check_token_count(tokens)
        longest = self.backbone.longest_sentence
        if longest is not None and tokens > longest:
            raise UserError(
                f"the model has weights for sentences of at most {longest} tokens, not for {tokens}: ask for fewer, or "
                "train a model with a larger max_tokens."
            )

    def _check_top_k(self, top_k, name):
        if top_k is None:
            return
        if type(top_k) is not int or top_k < 0:
            raise UserError(f"{name} must be an integer, 0 for all positions; received {top_k!r}.")
        if not self.backbone.takes_top_k:
            text = f"applies only to latent alignments, and this model has none: leave it out; received {top_k}."
            raise UserError(f"{name} {text}", f"--top-k {text}")

    def encode(self, sources: Texts | EncodedText, targets: Texts | None = None) -> EncodedText:
        """Encode text as ids, once for several uses.

        Use it if the same text is translated, scored and aligned, or translated repeatedly.

        Args:
            sources: a list of strings, or text that is already encoded.
            targets: their translations, if any.

        Returns:
            An `EncodedText`, which `translate`, `force` and `score` accept instead of strings.

        Raises:
            UserError: anything other than strings; lists of unequal length; a sentence longer than the limit; text
                that was encoded with other subword models; no preprocessor.

        Example:
            >>> text = translator.encode(["Guten Tag"], ["Hello"])
            >>> translator.translate(text), translator.score(text)
        """
        with self._encoder() as encode:
            return encode(sources, targets)

    @contextlib.contextmanager
    def _encoder(self):
        """Yield the preprocessor's `encode`; an error says how long a sentence the model's weights allow."""
        self._check_preprocessor()
        try:
            yield self.preprocessor.encode
        except SentenceTooLong as error:
            longest = self.backbone.longest_sentence
            raise SentenceTooLong(error.number, error.tokens, error.limit, error.what, longest) from None

    @overload
    def translate(
        self,
        sentences: str,
        n_best: int = ...,
        attention: bool = ...,
        batch_size: int = ...,
        max_length: int | None = ...,
        progress: Progress = ...,
        clock: Any = ...,
        top_k: int | None = ...,
        sampler: BeamSearch | None = ...,
        constraints: Constraints | None = ...,
        mbr: str | None = ...,
        replace_unknown: bool = ...,
    ) -> list[Hypothesis]: ...

    @overload
    def translate(
        self,
        sentences: Texts | EncodedText,
        n_best: int = ...,
        attention: bool = ...,
        batch_size: int = ...,
        max_length: int | None = ...,
        progress: Progress = ...,
        clock: Any = ...,
        top_k: int | None = ...,
        sampler: BeamSearch | None = ...,
        constraints: Constraints | None = ...,
        mbr: str | None = ...,
        replace_unknown: bool = ...,
    ) -> list[list[Hypothesis]]: ...

    def translate(
        self,
        sentences: str | Texts | EncodedText,
        n_best: int = 1,
        attention: bool = False,
        batch_size: int = 32,
        max_length: int | None = None,
        progress: Progress = None,
        clock: Any = None,
        top_k: int | None = None,
        sampler: BeamSearch | None = None,
        constraints: Constraints | None = None,
        mbr: str | None = None,
        replace_unknown: bool = False,
    ) -> list[Hypothesis] | list[list[Hypothesis]]:
        """Translate sentences; return hypotheses with scores and, on request, attention.

        Sentences are batched by similar length into a few shapes, for each of which a compiled backend compiles once.
        Translations first get twice the room of their source; those that it does not suffice for are searched again.
        Under JAX on a CPU, up to four batches run at once.

        Args:
            sentences: a list of strings, or one string, or what `encode` returned.
            n_best: hypotheses per sentence, at most the number of beams or samples.
            attention: whether to return attention, as the search saw it.
            batch_size: sentences per batch.
            max_length: maximum tokens of a translation; by default the preprocessor's.
            progress: function called with the number of sentences done, after every batch.
            clock: a `CompilationClock`, which records the shapes and the seconds of every search; with one, batches run
                one after the other.
            top_k: source positions that a latent alignment sums over; 0 for all, None for what `compile` was given.
            sampler: the search, in place of that of `compile`: a `BeamSearch`, `DiverseBeamSearch` or `Sampling`. One
                of KerasHub's draws `n_best` translations, see `Sampling`.
            constraints: beginnings, forbidden and required words.
            mbr: "chrf" or "bleu", and what comes first is the hypothesis of all beams or samples that agrees best with
                the others; its `score` is how well, see `evaluation.minimum_bayes_risk.expected_utilities`.
            replace_unknown: whether to write the source word that it attends to most in place of an unknown word; only
                for word models.

        Returns:
            For each sentence, a list of up to `n_best` `Hypothesis`, the best first; for a single string, only its
            list, as with `generate`. An empty sentence has one translation, which is empty. Where constraints leave
            nothing possible, the list is empty.

        Raises:
            UserError: anything other than strings; more hypotheses than beams; a sentence longer than the limit; a
                `max_length` beyond 10,000, beyond the model's weights, or below the minimum length; a `top_k` that is
                not a count, or of a model without a latent alignment; a sampler that returns no scores; constraints
                that contradict each other or the search; an unknown `mbr`; `replace_unknown` of a model with subwords,
                or without text; no preprocessor.

        Example:
            >>> translator.translate(["Guten Tag"], attention=True)[0][0].attention
        """
        check_counts(n_best=n_best, batch_size=batch_size)
        self._check_top_k(top_k, "top_k")
        alone = isinstance(sentences, str)
        with self._encoder() as encode:
            text = encode([sentences] if alone else sentences, name="sentences")
        preprocessor, given = self.preprocessor, self.sampler if sampler is None else sampler
        if max_length is not None:
            self._check_maximum(max_length)
        limit = max_length or preprocessor.decoder_sequence_length
        sampler = checked_sampler(given, n_best, limit)
        known = (constraints or Constraints()).encode(preprocessor.tokenizer, len(text), limit)
        reader = HypothesisReader(preprocessor, sampler, n_best, attention, mbr, replace_unknown)
        words = reader.source_words([sentences] if alone else sentences)
        searcher = known.sampler(sampler)
        stop = (preprocessor.tokenizer.end_token_id,)
        top_k = self.search_top_k if top_k is None else top_k
        asked, attends = reader.hypotheses, reader.attention
        key = ("search", attends, asked, limit, stop, known.key, *search_key(given, top_k))

        def make():
            options = {"n_best": asked, "limit": limit, "processors": known.processors}
            return lambda inputs: search(self, inputs, searcher, stop, top_k, attends, **options)

        def pack(ids, members, width):
            inputs = preprocessor.pack_search(ids, width, limit, [known.prefixes[i] for i in members])
            return ({**inputs, **numbers_of(searcher, ids, limit), **known.data(members)},)

        def read(source, member, found, row):
            return reader.read(found, row, source, words[member])

        around = retrying_at_full_length if may_retry_at_full_length(searcher) else None
        options = {"progress": progress, "clock": clock, "around": around, "beams": searcher.rows}
        batches = grid_batches([list(map(len, text.sources))], [preprocessor.encoder_sequence_length], batch_size)
        sides = text.sources, range(len(text))
        results = self._programs.run_batches(batches, sides, key, make, pack, read, **options)
        return results[0] if alone else results

    @overload
    def force(
        self,
        sources: str,
        targets: str,
        layers: Sequence[int] | str | None = ...,
        batch_size: int = ...,
        progress: Progress = ...,
        heads: Sequence[int] | None = ...,
    ) -> ForcedDecoding: ...

    @overload
    def force(
        self,
        sources: Texts | EncodedText,
        targets: Texts | None = ...,
        layers: Sequence[int] | str | None = ...,
        batch_size: int = ...,
        progress: Progress = ...,
        heads: Sequence[int] | None = ...,
    ) -> list[ForcedDecoding]: ...

    def force(
        self,
        sources: str | Texts | EncodedText,
        targets: str | Texts | None = None,
        layers: Sequence[int] | str | None = None,
        batch_size: int = 32,
        progress: Progress = None,
        heads: Sequence[int] | None = None,
    ) -> ForcedDecoding | list[ForcedDecoding]:
        """Force given translations; return the attention, for example to align words.

        Args:
            sources, targets: lists of equally many strings, or one string each; or what `encode` returned, alone.
            layers: decoder layers, counted from 0, whose heads are returned one layer after the other; by default
                the backbone's `attention_layer`. "posterior" is p(j|e_i) of a latent alignment: what a position is
                aligned to, given its token.
            batch_size: sentences decoded at once.
            progress: function called with the number of sentences done, after every batch.
            heads: heads of each layer to return, counted from 0; by default all.

        Returns:
            A list of `ForcedDecoding`, or one for a pair of strings.

        Raises:
            UserError: anything other than strings; lists of unequal length; a sentence longer than the limit; a layer
                or a head that does not exist; the posterior of a model without a latent alignment; no preprocessor.

        Example:
            >>> translator.force(["Guten Tag"], ["Hello"])[0].attention
        """
        key, make = attention_program(self.backbone, layers)
        rows = self.backbone.rows_of_heads(layers, heads)

        def read(source, target, scores):
            scores = scores if rows is None else scores[rows]
            # A copy: it would keep that of the whole batch.
            return ForcedDecoding(*self._pieces(source, target), scores[:, : len(target), : len(source)].copy())

        return self._along(sources, targets, batch_size, progress, key, make, read)

    @overload
    def score(
        self, sources: str, targets: str, free_running: bool = ..., batch_size: int = ..., progress: Progress = ...
    ) -> ScoredTranslation: ...

    @overload
    def score(
        self,
        sources: Texts | EncodedText,
        targets: Texts | None = ...,
        free_running: bool = ...,
        batch_size: int = ...,
        progress: Progress = ...,
    ) -> list[ScoredTranslation]: ...

    def score(
        self,
        sources: str | Texts | EncodedText,
        targets: str | Texts | None = None,
        free_running: bool = False,
        batch_size: int = 32,
        progress: Progress = None,
    ) -> ScoredTranslation | list[ScoredTranslation]:
        """Return the log-probabilities of given translations, token by token.

        Use it to rescore another system's hypotheses, or for the perplexity of a text; see
        `evaluation.likelihood.corpus_likelihood`.

        Args:
            sources, targets, batch_size, progress: see `force`.
            free_running: whether the decoder is fed its own predictions instead of the given tokens; only for an RNN
                without a latent alignment.

        Returns:
            A list of `ScoredTranslation`, or one for a pair of strings.

        Raises:
            UserError: see `force`; `free_running` with a body that does not support it.

        Example:
            >>> translator.score(["Guten Tag"], ["Hello"])[0].log_prob
        """
        if free_running and not self.backbone.can_run_free:
            raise UserError("free_running needs an RNN without a latent alignment: leave it out.")

        def losses(x, labels):
            if free_running:
                x = {**x, "teacher_forcing_mask": ops.zeros_like(labels, dtype="bool")}
            return self.token_losses(x, labels, 0.0, training=False)[1:]

        def read(source, target, losses):
            nll, correct = (x[: len(target)] for x in losses)
            return ScoredTranslation(*self._pieces(source, target), -nll, correct > 0)

        return self._along(sources, targets, batch_size, progress, ("score", free_running), lambda: losses, read)

    def _along(self, sources, targets, batch_size, progress, key, make, read):
        """Run a function of inputs and labels over given translations; see `Programs.run` for `key` and `make`.

        `read` gets the ids of a source and a target, and the function's results for them.
        """
        alone = isinstance(sources, str) and isinstance(targets, str)
        check_counts(batch_size=batch_size)
        with self._encoder() as encode:
            text = encode([sources], [targets]) if alone else encode(sources, targets)
        if text.targets is None:
            raise UserError(f"targets must be a list of strings; received {targets!r}.")

        def pack(*pairs_and_widths):
            return self.preprocessor.pack_pairs(*pairs_and_widths)[:2]

        def read_row(source, target, found, row):
            return read(source, target, keras.tree.map_structure(lambda value: value[row], found))

        results = self._in_batches((text.sources, text.targets), batch_size, key, make, pack, read_row, progress)
        return results[0] if alone else results

    def _in_batches(self, sides, batch_size, *arguments, **options):
        """Run a function over encoded sentences, or over pairs of them; see `Programs.run_batches`."""
        limits = (self.preprocessor.encoder_sequence_length, self.preprocessor.decoder_sequence_length)
        batches = grid_batches([list(map(len, side)) for side in sides], limits[: len(sides)], batch_size)
        return self._programs.run_batches(batches, sides, *arguments, **options)

    def _pieces(self, source, target):
        return pieces(self.preprocessor.source_tokenizer, source), pieces(self.preprocessor.tokenizer, target)


def attention_program(
    backbone: TranslationBackbone, layers: Sequence[int] | str | None
) -> tuple[Hashable, Callable[[], Callable]]:
    """Return key and maker of the function of inputs and labels that computes attention, see `Programs.run`.

    `Translator.force` says what `layers` may be, and which are refused.
    """
    if layers is None:
        return ("force", None), lambda: lambda x, labels: backbone(x)["attention_scores"]
    if isinstance(layers, str) and layers == "posterior":
        if backbone.latent_head is None:
            raise UserError("the model has no latent alignment, so there is no posterior: choose a layer.")
        return ("force", layers), lambda: _posterior(backbone)
    count = len(backbone.cross_attention_heads)
    if not isinstance(layers, (list, tuple, range)) or not layers:
        raise UserError(f"layers must be a list of layers or 'posterior'; received {reprlib.repr(layers)}.")
    for layer in layers:
        if not isinstance(layer, (int, np.integer)) or not -count <= layer < count:
            raise UserError(f"there is no cross-attention layer {layer!r}: choose from 0 to {count - 1}.")
    return ("force", tuple(layers)), lambda: _of_layers(backbone, tuple(layers))


def _of_layers(backbone, layers):
    every_layer = backbone.attention_model()

    def of_layers(x, labels):
        found = every_layer({**OPTIONAL_INPUTS, **x})["cross"]
        return ops.concatenate([found[layer] for layer in layers], axis=1)

    return of_layers


def _posterior(backbone):
    posterior = backbone.posterior_model()
    return lambda x, labels: posterior({**OPTIONAL_INPUTS, **x, "decoder_labels": labels})
