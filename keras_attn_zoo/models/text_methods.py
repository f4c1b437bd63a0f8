"""A translator's methods on text: translate, force given translations, score them.

All take the same steps: from text to ids, batches of few shapes, a compiled function, results.
"""

import numbers
import reprlib
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import keras
from keras import ops

from keras_attn_zoo.data.shapes import grid_batches, pad_rows
from keras_attn_zoo.decoding import BeamSearch
from keras_attn_zoo.errors import UserError, check_counts
from keras_attn_zoo.models.backbone import OPTIONAL_INPUTS, TranslationBackbone
from keras_attn_zoo.models.preprocessor import check_texts
from keras_attn_zoo.models.programs import Programs
from keras_attn_zoo.models.search import search
from keras_attn_zoo.models.translations import (
    ForcedDecoding,
    ScoredTranslation,
    pieces,
    read_hypotheses,
)
from keras_attn_zoo.types import Tensor

# One result for a string, a list of results for a list of strings: Any to a type checker.
OneOrMany: TypeAlias = Any


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

    def make_room(self, max_tokens: int) -> None:
        """Set the maximum length of sentences and translations to `max_tokens`.

        RNNs and sinusoidal positions work beyond the lengths seen in training, though less well; learned positions
        and weight matrices over positions have a fixed length.

        Args:
            max_tokens: maximum tokens of a sentence, including start and end.

        Raises:
            UserError: not a number of tokens, or more than the model's weights allow; no preprocessor.

        Example:
            >>> translator.make_room(240)
        """
        self._check_preprocessor()
        self._check_weights_for(max_tokens)
        self.preprocessor.encoder_sequence_length = self.preprocessor.decoder_sequence_length = int(max_tokens)

    def _check_preprocessor(self):
        if self.preprocessor is None:
            raise UserError("this translator has no preprocessor and takes only ids: give it one, or give ids.")

    def _check_weights_for(self, tokens):
        if not isinstance(tokens, numbers.Integral) or isinstance(tokens, bool) or tokens < 2:
            raise UserError(
                f"the maximum length must be an integer of at least 2, for start and end; received {tokens!r}."
            )
        longest = self.backbone.longest_sentence
        if longest is not None and tokens > longest:
            raise UserError(
                f"the model has weights for sentences of at most {longest} tokens, not for {tokens}: ask for fewer, or "
                "train a model with a larger max_tokens."
            )

    def translate(
        self,
        sentences: str | Sequence[str],
        n_best: int = 1,
        attention: bool = False,
        batch_size: int = 32,
        max_length: int | None = None,
        progress: Callable[[int], None] | None = None,
        clock: Any = None,
    ) -> list[Any]:
        """Translate sentences; return hypotheses with scores and, on request, attention.

        Sentences are batched by similar length into a few shapes: a compiled
        backend compiles once per shape.

        Args:
            sentences: a list of strings, or one string.
            n_best: hypotheses per sentence, at most the number of beams.
            attention: whether to return attention, as the search saw it.
            batch_size: sentences translated at once.
            max_length: maximum tokens of a translation; by default the preprocessor's.
            progress: function called with the number of sentences done, after every batch.
            clock: a `CompilationClock`, which records the shape and the seconds of every batch.

        Returns:
            For each sentence, a list of up to `n_best` `Hypothesis`, the best first; for a single string, only its
            list, as with `generate`.

        Raises:
            UserError: anything other than strings; more hypotheses than beams; a sentence longer than the limit; a
                `max_length` beyond the model's weights; no `BeamSearch`; no preprocessor.

        Example:
            >>> translator.translate(["Guten Tag"], attention=True)[0][0].attention
        """
        self._check_preprocessor()
        alone = isinstance(sentences, str)
        texts = check_texts([sentences] if isinstance(sentences, str) else sentences, "sentences")
        check_counts(n_best=n_best, batch_size=batch_size)
        sampler = self.sampler
        if not isinstance(sampler, BeamSearch):
            raise UserError("translate needs a BeamSearch: call compile(sampler='greedy' or 'beam') first.")
        if n_best > sampler.num_beams:
            raise UserError(f"n_best={n_best} is more than the {sampler.num_beams} beams: search with more beams.")
        if max_length is not None:
            self._check_weights_for(max_length)
        preprocessor = self.preprocessor
        sources = preprocessor.encode_sources(texts)
        stop = (preprocessor.tokenizer.end_token_id,)
        top_k = self.search_top_k
        key = ("search", attention, sampler, repr(sampler.get_config()), top_k)

        def make():
            return lambda inputs: search(self, inputs, sampler, stop, top_k, attention)

        results: list[Any] = [None] * len(sources)
        limits = (preprocessor.encoder_sequence_length,)
        for batch in grid_batches([list(map(len, sources))], limits, batch_size, progress):
            inputs = preprocessor.pack_search([sources[i] for i in batch.members], *batch.widths, max_length)
            inputs = {name: pad_rows(value, batch.rows) for name, value in inputs.items()}
            began = time.perf_counter()
            found = self._programs.run(key, make, inputs)
            if clock is not None:
                clock.record(inputs["encoder_token_ids"].shape, time.perf_counter() - began)
            for row, i in enumerate(batch.members):
                results[i] = read_hypotheses(found, row, sources[i], n_best, preprocessor)
        return results[0] if alone else results

    def force(
        self,
        sources: str | Sequence[str],
        targets: str | Sequence[str],
        layers: Sequence[int] | str | None = None,
        batch_size: int = 32,
        progress: Callable[[int], None] | None = None,
        heads: Sequence[int] | None = None,
    ) -> OneOrMany:
        """Force given translations; return the attention, for example to align words.

        Args:
            sources, targets: lists of equally many strings, or one string each.
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
        key, make = self._attention_of(layers)
        rows = self.backbone.rows_of_heads(layers, heads)

        def read(source, target, scores):
            scores = scores if rows is None else scores[rows]
            return ForcedDecoding(*self._pieces(source, target), scores[:, : len(target), : len(source)])

        return self._along(sources, targets, batch_size, progress, key, make, read)

    def score(
        self,
        sources: str | Sequence[str],
        targets: str | Sequence[str],
        free_running: bool = False,
        batch_size: int = 32,
        progress: Callable[[int], None] | None = None,
    ) -> OneOrMany:
        """Return the log-probabilities of given translations, token by token.

        Use it to rescore another system's hypotheses, or for the perplexity of a text; see
        `evaluation.likelihood.corpus_likelihood`.

        Args:
            sources, targets: lists of equally many strings, or one string each.
            free_running: whether the decoder is fed its own predictions instead of the given tokens; only for an RNN
                without a latent alignment.
            batch_size: sentences scored at once.
            progress: function called with the number of sentences done, after every batch.

        Returns:
            A list of `ScoredTranslation`, or one for a pair of strings.

        Raises:
            UserError: anything other than strings; lists of unequal length; a sentence longer than the limit;
                `free_running` with a body that does not support it; no preprocessor.

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
        """Run a function of inputs and labels over given translations.

        Args:
            sources, targets, batch_size, progress: see `force`.
            key, make: see `Programs.run`.
            read: function of the ids of a source and a target, and of the function's results for them.

        Returns:
            What `read` returns for each pair, or for the only one.
        """
        self._check_preprocessor()
        alone = isinstance(sources, str) and isinstance(targets, str)
        sources = check_texts([sources] if alone else sources, "sources")
        targets = check_texts([targets] if alone else targets, "targets")
        check_counts(batch_size=batch_size)
        if len(sources) != len(targets):
            raise UserError(f"received {len(sources)} sources and {len(targets)} targets: give equally many of both.")
        preprocessor = self.preprocessor
        sources, targets = preprocessor.encode_sources(sources), preprocessor.encode_targets(targets)
        lengths = [list(map(len, side)) for side in (sources, targets)]
        limits = (preprocessor.encoder_sequence_length, preprocessor.decoder_sequence_length)
        results = [None] * len(sources)
        for batch in grid_batches(lengths, limits, batch_size, progress):
            pairs = ([side[i] for i in batch.members] for side in (sources, targets))
            x, labels, _ = preprocessor.pack_pairs(*pairs, *batch.widths)
            x, labels = keras.tree.map_structure(lambda value, rows=batch.rows: pad_rows(value, rows), (x, labels))
            found = self._programs.run(key, make, x, labels)
            for row, i in enumerate(batch.members):
                of_row = keras.tree.map_structure(lambda value, row=row: value[row], found)
                results[i] = read(sources[i], targets[i], of_row)
        return results[0] if alone else results

    def _pieces(self, source, target):
        return pieces(self.preprocessor.source_tokenizer, source), pieces(self.preprocessor.tokenizer, target)

    def _attention_of(self, layers):
        """Return key and maker of the program that returns the attention of these layers; see `Programs.run`."""
        if layers is None:
            return ("force", None), lambda: lambda x, labels: self.backbone(x)["attention_scores"]
        if isinstance(layers, str) and layers == "posterior":
            if self.backbone.latent_head is None:
                raise UserError("the model has no latent alignment, so there is no posterior: choose a layer.")
            return ("force", layers), self._posterior
        count = len(self.backbone.cross_attention_heads)
        if not isinstance(layers, (list, tuple, range)) or not layers:
            raise UserError(f"layers must be a list of layers or 'posterior'; received {reprlib.repr(layers)}.")
        for layer in layers:
            if not isinstance(layer, numbers.Integral) or not -count <= layer < count:
                raise UserError(f"there is no cross-attention layer {layer!r}: choose from 0 to {count - 1}.")
        layers = tuple(layers)

        def make():
            every_layer = self.backbone.attention_model()

            def of_layers(x, labels):
                found = every_layer({**OPTIONAL_INPUTS, **x})["cross"]
                return ops.concatenate([found[layer] for layer in layers], axis=1)

            return of_layers

        return ("force", layers), make

    def _posterior(self):
        posterior = self.backbone.posterior_model()
        return lambda x, labels: posterior({**OPTIONAL_INPUTS, **x, "decoder_labels": labels})
