"""The translator: a task that trains by `fit`, and takes and gives strings."""

import dataclasses
import numbers
import reprlib
import time

import keras
import keras_hub
import numpy as np
from keras import ops

from keras_attn_zoo.decoding import BeamSearch
from keras_attn_zoo.decoding.beam_search import IMPOSSIBLE
from keras_attn_zoo.errors import UserError, check_counts
from keras_attn_zoo.models.backbone import OPTIONAL_INPUTS
from keras_attn_zoo.models.preprocessor import TranslationPreprocessor, check_lengths, check_texts, round_up
from keras_attn_zoo.models.presets import PresetLoading, check_vocabulary_sizes
from keras_attn_zoo.models.rnn_backbone import RNNBackbone
from keras_attn_zoo.training.token_loss import mixture_sums
from keras_attn_zoo.training.train_step import PerTokenTraining

# Rows of a search are padded to one of these, so that compiled backends see few shapes.
SEARCH_ROWS = (1, 8, 32, 128)


def _as_written(function):
    """Have TensorFlow trace a function as it stands: rewriting it and all that it calls takes longer than tracing."""
    if keras.config.backend() != "tensorflow":
        return function
    import tensorflow as tf

    return tf.autograph.experimental.do_not_convert(function)


@dataclasses.dataclass(frozen=True)
class Hypothesis:
    """One translation of a sentence.

    Attributes:
        text: the translation.
        score: its log-probability divided by the length penalty.
        log_prob: its log-probability, the end token included.
        source_tokens: subwords of the source, the end token included.
        tokens: subwords of the translation, the end token included.
        attention: `(heads, len(tokens), len(source_tokens))`, or None where it was not asked for.
    """

    text: str
    score: float
    log_prob: float
    source_tokens: list[str]
    tokens: list[str]
    attention: np.ndarray | None = None


@dataclasses.dataclass(frozen=True)
class ForcedDecoding:
    """A given translation as the model sees it.

    Attributes:
        source_tokens: subwords of the source, the end token included.
        tokens: subwords of the translation, the end token included.
        attention: `(heads, len(tokens), len(source_tokens))`.
    """

    source_tokens: list[str]
    tokens: list[str]
    attention: np.ndarray


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class Translator(PresetLoading, PerTokenTraining, keras_hub.models.Seq2SeqLM):
    """A translation model: strings in, strings out, trained by `fit`.

    Use it as any KerasHub task: `from_preset`, `save_to_preset`, `compile`,
    `fit`, `generate`. `translate` gives n-best lists, scores and attention too.

    Args:
        backbone: an `RNNBackbone`, or a `TransformerBackbone`: the result is a `TransformerTranslator` then.
        preprocessor: a `TranslationPreprocessor`; None works on ids alone.

    `fit` takes what `RNNBackbone` takes, with the next tokens as labels and
    weights that mark the real ones, or a dict of strings "encoder_text" and
    "decoder_text". Its numbers are per real target token: see `PerTokenTraining`.

    State: weights alone. `compile` sets optimiser, sampler and loss.

    Raises:
        UserError: sentences of the preprocessor are longer than the body has weights for; its tokenizers have other
            numbers of tokens than the body.

    Example:
        >>> translator = Translator.from_preset("my_preset")
        >>> translator.generate(["Guten Tag"])
    """

    backbone_cls = RNNBackbone
    preprocessor_cls = TranslationPreprocessor
    _search_detail = None

    def __new__(cls, backbone=None, *args, **kwargs):
        """Make the subclass that belongs to the body: KerasHub knows a task by the class of its body."""
        fitting = [task for task in (cls, *cls.__subclasses__()) if type(backbone) is task.backbone_cls]
        return super().__new__(fitting[0] if fitting else cls, backbone, *args, **kwargs)

    def __init__(self, backbone, preprocessor=None, **kwargs):
        self.backbone = backbone
        self.preprocessor = preprocessor
        if preprocessor is not None:
            lengths = (preprocessor.encoder_sequence_length, preprocessor.decoder_sequence_length)
            self._check_weights_for(max(lengths))
            check_vocabulary_sizes(backbone, preprocessor)
        inputs = backbone.input
        hidden = backbone(inputs)
        outputs = {
            "logits": backbone.logits(hidden),
            "attention_scores": hidden["attention_scores"],
        }
        super().__init__(inputs=inputs, outputs=outputs, **kwargs)

    def compile(
        self,
        optimizer="auto",
        loss=None,
        *,
        label_smoothing=0.0,
        accumulation_steps=1,
        sampler="beam",
        search_top_k=None,
        **kwargs,
    ):
        """Set up training and search.

        Args:
            optimizer: a Keras optimiser or its name; "auto" is Adam at 1e-3.
            loss: None or "auto": the loss is the cross-entropy per target token, plus what layers add to it.
            label_smoothing: share of the probability that is spread over the vocabulary.
            accumulation_steps: parts in which a batch is taken; loss and gradient stay those of the whole.
            sampler: "greedy", "beam" (five beams, length penalty 1), a `BeamSearch`, or a KerasHub sampler or its name.
            search_top_k: source positions that a latent alignment sums over in search; 0 for all, None for as many as
                in training.
            **kwargs: `run_eagerly`, `jit_compile` and the like; see `keras.Model.compile`.

        Raises:
            UserError: a loss or metrics; positions to sum over that are no count, or of a model without a latent
                alignment.
        """
        if loss is not None and loss != "auto":
            raise UserError(
                "a translator has its own loss, the cross-entropy per target token: leave `loss` out, set "
                "`label_smoothing`, or override `batch_sums` in a subclass for another one; "
                f"received loss={reprlib.repr(loss)}."
            )
        for name in ("loss_weights", "metrics", "weighted_metrics"):
            if kwargs.pop(name, None) is not None:
                raise UserError(
                    f"a translator counts loss, perplexity and accuracy per target token: leave {name} out."
                )
        if search_top_k is not None:
            if type(search_top_k) is not int or search_top_k < 0:
                raise UserError(f"search_top_k counts positions, 0 for all: received {search_top_k!r}.")
            if self.backbone.latent_head is None:
                raise UserError(f"without a latent alignment there is no search_top_k: received {search_top_k}.")
        if optimizer == "auto":
            optimizer = keras.optimizers.Adam(1e-3)
        own = {"greedy": BeamSearch(1), "beam": BeamSearch(5, length_penalty=1.0)}
        if isinstance(sampler, str):
            sampler = own.get(sampler, sampler)
        super().compile(optimizer=optimizer, loss=None, weighted_metrics=None, sampler=sampler, **kwargs)
        self.compile_training(label_smoothing, accumulation_steps)
        self.search_top_k = search_top_k
        self._compiled_searches = {}

    def get_compile_config(self):
        """Return what `compile` was given, for a `.keras` file."""
        return {
            "optimizer": keras.optimizers.serialize(self.optimizer),
            "label_smoothing": self.label_smoothing,
            "accumulation_steps": self.accumulation_steps,
            "sampler": keras.saving.serialize_keras_object(self.sampler),
            "search_top_k": self.search_top_k,
        }

    def compile_from_config(self, config):
        """Compile as `get_compile_config` says."""
        self.compile(**keras.saving.deserialize_keras_object(config))
        self.optimizer.build(self.trainable_variables)

    @property
    def input_spec(self):
        """None: two inputs may be left out, which Keras' own check does not allow."""
        return None

    def call(self, inputs, training=None, mask=None):
        """Return "logits" `(batch, target, vocabulary)` and "attention_scores" of a dict of ids."""
        return super().call({**OPTIONAL_INPUTS, **inputs}, training=training, mask=mask)

    def batch_sums(self, x, y, weights, label_smoothing, training):
        """Sums of one batch: see `token_sums` and `mixture_sums`."""
        if self.backbone.latent_head is None:
            return super().batch_sums(x, y, weights, label_smoothing, training)
        scored = self.backbone.score_targets(self.backbone(x, training=training), y)
        return mixture_sums(scored, y, weights, label_smoothing)

    # Training. KerasHub's own pipeline takes no `keras.utils.PyDataset`, and strings only with TensorFlow.

    def fit(self, x=None, y=None, sample_weight=None, validation_data=None, **kwargs):
        """Train; see `keras.Model.fit`."""
        x, y, sample_weight = self._to_ids(x, y, sample_weight)
        if isinstance(validation_data, (dict, tuple)):
            data = (validation_data,) if isinstance(validation_data, dict) else validation_data
            validation_data = self._to_ids(*data)
        return keras.Model.fit(self, x=x, y=y, sample_weight=sample_weight, validation_data=validation_data, **kwargs)

    def evaluate(self, x=None, y=None, sample_weight=None, **kwargs):
        """Return loss, perplexity and accuracy per token; see `keras.Model.evaluate`."""
        x, y, sample_weight = self._to_ids(x, y, sample_weight)
        self._evaluating = True
        try:
            return keras.Model.evaluate(self, x=x, y=y, sample_weight=sample_weight, **kwargs)
        finally:
            self._evaluating = False

    def _to_ids(self, x, y=None, sample_weight=None):
        """Run the preprocessor over strings; leave everything else alone."""
        if isinstance(x, dict) and "encoder_text" in x:
            self._check_preprocessor()
            return self.preprocessor(x)
        return x, y, sample_weight

    # Search.

    @_as_written
    def generate_step(self, inputs, stop_token_ids=None):
        """Search on ids; return the best ones with their mask, or for `translate` all that was found."""
        found = self._search(inputs, stop_token_ids, with_attention=self._search_detail == "attention")
        if self._search_detail is not None:
            attention = found.pop("state").get("attention")
            return found if attention is None else {**found, "attention": attention}
        token_ids = found["token_ids"][:, 0]
        return {
            "decoder_token_ids": token_ids,
            "decoder_padding_mask": _until_stop(token_ids, inputs["decoder_padding_mask"], stop_token_ids),
        }

    def _search(self, inputs, stop_token_ids, with_attention):
        """Run the sampler; with attention, the scores of every step follow the hypotheses."""
        prompt = inputs["decoder_token_ids"]
        constants, memory, state = self.backbone.start_search(
            inputs["encoder_token_ids"], inputs["encoder_padding_mask"], prompt.shape[1], self.search_top_k
        )
        cache = {"memory": memory, "state": {"model": state}}
        batch, length = ops.shape(prompt)[0], ops.shape(prompt)[1]
        if with_attention:
            heads = self.backbone.attention_heads
            source = ops.shape(inputs["encoder_token_ids"])[1]
            cache["state"]["attention"] = ops.zeros((batch, length, heads, source), dtype="float32")

        def next(prompt, cache, index):
            logits, scores, state = self.backbone.search_step(
                prompt[:, index - 1], cache["memory"], cache["state"]["model"], constants
            )
            state = {"model": state}
            if with_attention:
                state["attention"] = ops.slice_update(
                    cache["state"]["attention"], (0, index, 0, 0), ops.cast(scores[:, None], "float32")
                )
            return logits, None, {"memory": cache["memory"], "state": state}

        arguments = {
            "next": next,
            "prompt": prompt,
            "cache": cache,
            "index": 1,
            "mask": inputs["decoder_padding_mask"],
            "stop_token_ids": stop_token_ids,
            "model": self,
        }
        if isinstance(self.sampler, BeamSearch):
            return self.sampler.search(**arguments)
        return {"token_ids": self.sampler(**arguments)[:, None]}

    def make_room(self, max_tokens):
        """Take sentences and give translations of up to `max_tokens` tokens, more or less than the model was made for.

        Sines and RNNs count on. What a model has not seen in training it does worse; learned positions and matrices
        of weights end where they end.

        Args:
            max_tokens: most tokens of a sentence, start and end included.

        Raises:
            UserError: something other than a number of tokens, or more than the model's weights allow; no preprocessor.

        Example:
            >>> translator.make_room(240)
        """
        self._check_preprocessor()
        self._check_weights_for(max_tokens)
        self.preprocessor.encoder_sequence_length = self.preprocessor.decoder_sequence_length = int(max_tokens)

    def _check_preprocessor(self):
        if self.preprocessor is None:
            raise UserError("a translator takes sentences where it was made with a preprocessor: this one takes ids.")

    def _check_weights_for(self, tokens):
        if not isinstance(tokens, numbers.Integral) or isinstance(tokens, bool) or tokens < 2:
            raise UserError(f"room is made for 2 tokens, start and end, or more: received {tokens!r}.")
        longest = self.backbone.longest_sentence
        if longest is not None and tokens > longest:
            raise UserError(
                f"the model has weights for sentences of at most {longest} tokens, and was asked for {tokens}: ask for "
                "less, or train a model with a larger max_tokens."
            )

    def translate(
        self, sentences, n_best=1, attention=False, batch_size=32, max_length=None, progress=None, clock=None
    ):
        """Translate sentences; return hypotheses with scores and, if asked for, attention.

        Sentences are taken in batches of like length, and lengths and rows are
        padded to few shapes, so that a compiled backend compiles once a shape.

        Args:
            sentences: a list of strings, or one string.
            n_best: hypotheses a sentence, at most the number of beams.
            attention: whether to return attention, as the search saw it.
            batch_size: sentences searched at once.
            max_length: most tokens of a translation; by default the preprocessor's.
            progress: function called with the number of sentences done, after every batch.
            clock: a `CompilationClock` that is told the shape and the seconds of every batch.

        Returns:
            a list, a sentence an entry: lists of up to `n_best` `Hypothesis`, the best first. Of one string, its
            entry alone, as `generate` returns one string.

        Raises:
            UserError: something other than strings; more hypotheses asked for than beams; a sentence longer than the
                limit; a `max_length` beyond the model's weights; no `BeamSearch`; no preprocessor.

        Example:
            >>> translator.translate(["Guten Tag"], attention=True)[0][0].attention
        """
        self._check_preprocessor()
        alone = isinstance(sentences, str)
        sentences = check_texts([sentences] if alone else sentences, "sentences")
        check_counts(n_best=n_best, batch_size=batch_size)
        if not isinstance(self.sampler, BeamSearch):
            raise UserError("translate needs a BeamSearch: call compile(sampler='greedy' or 'beam') first.")
        if n_best > self.sampler.num_beams:
            raise UserError(f"n_best={n_best} needs as many beams; the sampler has {self.sampler.num_beams}.")
        if max_length is not None:
            self._check_weights_for(max_length)
        results = [None] * len(sentences)
        if not sentences:
            return results
        tokenized = check_lengths(
            self.preprocessor.source_tokenizer.tokenize(sentences),
            self.preprocessor.encoder_sequence_length - 1,
        )
        order = sorted(range(len(sentences)), key=lambda i: len(tokenized[i]))
        done = 0
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size]
            inputs = self.preprocessor.generate_preprocess([sentences[i] for i in chosen], max_length)
            rows = _padded_rows(len(chosen), batch_size)
            inputs = {key: _repeat_last_row(value, rows) for key, value in inputs.items()}
            began = time.perf_counter()
            found = self._run_search(inputs, "attention" if attention else "hypotheses")
            if clock is not None:
                clock.record(inputs["encoder_token_ids"].shape, time.perf_counter() - began)
            for row, i in enumerate(chosen):
                source = inputs["encoder_token_ids"][row][inputs["encoder_padding_mask"][row]]
                results[i] = self._hypotheses(found, row, source, n_best)
            done += len(chosen)
            if progress is not None:
                progress(done)
        return results[0] if alone else results

    def force(self, sources, targets, layers=None, batch_size=32, progress=None):
        """Decode along given translations; return the attention, with which words are aligned.

        Args:
            sources, targets: lists of as many strings, or one string each.
            layers: decoder layers, counted from 0, whose heads are returned one layer after the other; by default
                what the backbone names, `attention_layer`. "posterior" is p(j|e_i) of a latent alignment: what a
                position was aligned to, once its token is known.
            batch_size: sentences decoded at once.
            progress: function called with the number of sentences done, after every batch.

        Returns:
            a list of `ForcedDecoding`; of one string each, one.

        Raises:
            UserError: something other than strings; lists of unequal length; a sentence longer than the limit; a layer
                that there is not; the posterior of a model without a latent alignment; no preprocessor.

        Example:
            >>> translator.force(["Guten Tag"], ["Hello"])[0].attention
        """
        self._check_preprocessor()
        alone = isinstance(sources, str) and isinstance(targets, str)
        sources = check_texts([sources] if alone else sources, "sources")
        targets = check_texts([targets] if alone else targets, "targets")
        check_counts(batch_size=batch_size)
        if len(sources) != len(targets):
            raise UserError(f"{len(sources)} sources and {len(targets)} targets: give as many of each.")
        attention_of = self._attention_of(layers)
        order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
        results = [None] * len(sources)
        done = 0
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size]
            x, labels, weights = self.preprocessor.call(
                {"encoder_text": [sources[i] for i in chosen], "decoder_text": [targets[i] for i in chosen]}
            )
            x = _trim(x, "encoder_padding_mask", ("encoder_token_ids", "encoder_padding_mask"))
            x = _trim(x, "decoder_padding_mask", ("decoder_token_ids", "decoder_padding_mask"))
            rows = _padded_rows(len(chosen), batch_size)
            x = {key: _repeat_last_row(value, rows) for key, value in x.items()}
            scores = attention_of(
                {**OPTIONAL_INPUTS, **x}, _repeat_last_row(labels[:, : x["decoder_token_ids"].shape[1]], rows)
            )
            for row, i in enumerate(chosen):
                source = x["encoder_token_ids"][row][x["encoder_padding_mask"][row]]
                target = labels[row][weights[row] > 0]
                results[i] = ForcedDecoding(
                    source_tokens=_pieces(self.preprocessor.source_tokenizer, source),
                    tokens=_pieces(self.preprocessor.tokenizer, target),
                    attention=np.asarray(scores[row][:, : len(target), : len(source)]),
                )
            done += len(chosen)
            if progress is not None:
                progress(done)
        return results[0] if alone else results

    def _attention_of(self, layers):
        """Return a function from inputs and labels of a batch to the attention that `force` is asked for."""
        if layers is None:
            return lambda x, labels: keras.Model.predict_on_batch(self.backbone, x)["attention_scores"]
        if isinstance(layers, str) and layers == "posterior":
            if self.backbone.latent_head is None:
                raise UserError("the model has no latent alignment, so there is no posterior: name a layer.")
            posterior = self.backbone.posterior_model()
            return lambda x, labels: posterior.predict_on_batch({**x, "decoder_labels": labels})
        count = len(self.backbone.cross_attention_heads)
        if not isinstance(layers, (list, tuple, range)) or not layers:
            raise UserError(f"layers must be a list of layers or 'posterior'; received {reprlib.repr(layers)}.")
        for layer in layers:
            if not isinstance(layer, numbers.Integral) or not -count <= layer < count:
                raise UserError(f"there is no layer {layer!r} of cross-attention: the model has {count}, from 0.")
        every_layer = self.backbone.attention_model()

        def of_layers(x, labels):
            found = every_layer.predict_on_batch(x)["cross"]
            return np.concatenate([found[layer] for layer in layers], axis=1)

        return of_layers

    def _run_search(self, inputs, detail):
        """Run `generate_step` as KerasHub compiles it, once with attention and once without."""
        stop = [self.preprocessor.tokenizer.end_token_id]
        plain = self.generate_function
        self.generate_function, self._search_detail = self._compiled_searches.get(detail), detail
        try:
            self._compiled_searches[detail] = search = self.make_generate_function()
            found = search(inputs, stop_token_ids=stop)
        finally:
            self.generate_function, self._search_detail = plain, None
        return {key: np.asarray(ops.convert_to_numpy(value)) for key, value in found.items()}

    def _hypotheses(self, found, row, source, n_best):
        """Read the hypotheses of one sentence from the arrays of a search."""
        end = self.preprocessor.tokenizer.end_token_id
        hypotheses = []
        for beam in range(n_best):
            if found["log_probs"][row, beam] < IMPOSSIBLE / 2:
                break
            ids = found["token_ids"][row, beam][1:]
            stops = np.flatnonzero(ids == end)
            ids = ids[: stops[0] + 1] if len(stops) else ids
            attention = None
            if "attention" in found:
                beams = found["token_ids"].shape[1]
                scores = found["attention"][row * beams + beam][1 : len(ids) + 1, :, : len(source)]
                attention = np.transpose(scores, (1, 0, 2))
            hypotheses.append(
                Hypothesis(
                    text=self.preprocessor.detokenize(ids),
                    score=float(found["scores"][row, beam]),
                    log_prob=float(found["log_probs"][row, beam]),
                    source_tokens=_pieces(self.preprocessor.source_tokenizer, source),
                    tokens=_pieces(self.preprocessor.tokenizer, ids),
                    attention=attention,
                )
            )
        return hypotheses


def _trim(x, mask, keys):
    """Cut padding that no row of the batch needs, down to a length that compiled backends see often."""
    width = min(round_up(int(x[mask].sum(axis=1).max())), x[mask].shape[1])
    return {key: value[:, :width] if key in keys else value for key, value in x.items()}


def _pieces(tokenizer, ids):
    return [tokenizer.id_to_token(int(i)) for i in ids]


def _padded_rows(rows, batch_size):
    """Return the number of rows that `rows` is padded to."""
    return min([n for n in (*SEARCH_ROWS, batch_size) if n >= rows])


def _repeat_last_row(x, rows):
    return np.concatenate([x, np.repeat(x[-1:], rows - len(x), axis=0)]) if len(x) < rows else x


def _until_stop(token_ids, prompt_mask, stop_token_ids):
    """Mask true up to the first stop token that is not of the prompt, that token included."""
    if not stop_token_ids:
        return ops.ones_like(token_ids, dtype="bool")
    stops = ops.zeros_like(token_ids, dtype="bool")
    for stop in stop_token_ids:
        stops = ops.logical_or(stops, token_ids == stop)
    stops = ops.logical_and(stops, ops.logical_not(ops.cast(prompt_mask, "bool")))
    before = ops.cumsum(ops.cast(stops, "int32"), axis=-1) - ops.cast(stops, "int32")
    return before == 0
