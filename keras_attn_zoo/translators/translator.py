"""The translator: a KerasHub task that is trained by `fit` and translates strings."""

import functools
import logging
import numbers
import reprlib
from collections.abc import Callable, Sequence
from typing import Any

import keras
import keras_hub
import numpy as np
from keras import ops

from keras_attn_zoo.bodies.backbone import TranslationBackbone, check_guided
from keras_attn_zoo.bodies.ensemble_backbone import EnsembleBackbone
from keras_attn_zoo.bodies.rnn_backbone import RNNBackbone
from keras_attn_zoo.data.shapes import row_batches
from keras_attn_zoo.decoding import BeamSearch
from keras_attn_zoo.layers.base.rematerialization import RematerializedByLayer
from keras_attn_zoo.presets.quantization import Quantization
from keras_attn_zoo.presets.saving import PresetLoading, check_vocabulary_sizes
from keras_attn_zoo.presets.weight_storage import readable_shapes
from keras_attn_zoo.runtime.compiled_functions import Programs
from keras_attn_zoo.support.choices import HIGHEST_PENALTY, MEANS, MOST_BEAMS
from keras_attn_zoo.support.errors import UserError, check_arguments, choice
from keras_attn_zoo.support.files import PathLike, shown
from keras_attn_zoo.support.types import Config, Tensor
from keras_attn_zoo.training.token_loss import alignment_losses, mixture_losses, token_losses, weighted_sums
from keras_attn_zoo.training.train_step import PerTokenTraining
from keras_attn_zoo.translators.compile_settings import CompileSettings
from keras_attn_zoo.translators.exploration import Exploration
from keras_attn_zoo.translators.input_forms import ids_for_search, joined, source_batches
from keras_attn_zoo.translators.keras_methods import KerasMethods
from keras_attn_zoo.translators.preprocessor import TranslationPreprocessor, shared_preprocessor
from keras_attn_zoo.translators.search import (
    are_search_settings,
    may_retry_at_full_length,
    numbers_of,
    retrying_at_full_length,
    sampler_of,
    search,
    search_key,
    settings_of,
    until_stop,
)
from keras_attn_zoo.translators.texts import strings

_LOG = logging.getLogger(__name__)
# Those that need nothing else: "contrastive" and "speculative" need hidden states, or a second model.
_KERASHUB_SAMPLERS = ("random", "top_k", "top_p")


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class Translator(
    RematerializedByLayer,
    KerasMethods,
    Quantization,
    Exploration,
    PresetLoading,
    PerTokenTraining,
    keras_hub.models.Seq2SeqLM,
):
    """A translation model: strings in, strings out, trained by `fit`.

    Use it as any KerasHub task: `from_preset`, `save_to_preset`, `compile`,
    `fit`, `generate`. `translate` also returns n-best lists, scores and attention; `explore` shows them on a page.

    Args:
        backbone: an `RNNBackbone`, or a `TransformerBackbone`: the result is a `TransformerTranslator` then.
        preprocessor: a `TranslationPreprocessor`; with None, the model works on ids only.
        search_settings: "beams", "length_penalty" and "search_top_k" of its search until `compile` says otherwise, kept
            in presets; by default five beams and a length penalty of 1. They may have "coverage_penalty", "min_length"
            and "no_repeat_ngram" of a `BeamSearch`; "pooled", a dict of the other arguments, makes it a
            `PooledBeamSearch`.

    `fit` takes the inputs of `RNNBackbone` with the next tokens as labels and
    sample weights that mark the real ones, or a dict of strings, "encoder_text" and
    "decoder_text". All figures are per real target token: see `PerTokenTraining`.

    State: weights only. `compile` sets optimiser, sampler and loss.

    Raises:
        UserError: the preprocessor allows longer sentences than the body has weights for; its tokenizers and the body
            differ in vocabulary size; `search_settings` are none; an argument that there is not.

    Example:
        >>> translator = Translator.from_preset("my_preset")
        >>> translator.generate(["Guten Tag"])
    """

    backbone_cls: Any = RNNBackbone
    preprocessor_cls: Any = TranslationPreprocessor

    def __new__(cls, backbone: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Create the subclass for the body's class, by which KerasHub identifies a task."""
        fitting = [task for task in (cls, *cls.__subclasses__()) if type(backbone) is task.backbone_cls]
        return super().__new__(fitting[0] if fitting else cls, backbone, *args, **kwargs)

    def __init__(
        self,
        backbone: TranslationBackbone,
        preprocessor: TranslationPreprocessor | None = None,
        search_settings: Config | None = None,
        **kwargs: Any,
    ) -> None:
        # KerasHub's tasks take this one too.
        check_arguments(self, kwargs.keys() - {"compile"})
        self.backbone = backbone
        self.preprocessor = preprocessor
        if preprocessor is not None:
            lengths = (preprocessor.encoder_sequence_length, preprocessor.decoder_sequence_length)
            self._check_weights_for(max(lengths))
            check_vocabulary_sizes(backbone, preprocessor)
        # Those that a preprocessor makes; `call` takes the others too.
        inputs = {name: x for name, x in backbone.input.items() if name != "teacher_forcing_mask"}
        # One call of one layer: `keras.models.clone_model` copies layer by layer, and would tear tied embeddings apart.
        super().__init__(inputs=inputs, outputs=backbone(inputs, logits=True), **kwargs)
        if search_settings is not None:
            self.search_settings = search_settings

    @staticmethod
    def ensemble(translators: Sequence["Translator"], mean: str = MEANS[0]) -> "Translator":
        """Combine translators over the same subwords: at each step of a search, their probabilities are averaged.

        Use it for better translations than those of any of them, in the time of all together: of runs with several
        seeds, or of several kinds of systems. See `EnsembleBackbone` for the equations.

        Args:
            translators: two or more, of any bodies and precisions. They are not copied: what changes their weights
                changes the ensemble.
            mean: "arithmetic", or "geometric", the mean of log-probabilities.

        Returns:
            A translator that searches as the first of them, with the first "search_top_k" that one has. It takes as
            long sentences as all of them take. Its attention has the heads of all, one after the other, which
            `backbone.split_heads` parts.

        Raises:
            UserError: fewer than two, or anything else than translators with their preprocessors; other subwords, or
                another cut of long text, than those of the first; another mean.

        Example:
            >>> ensemble = Translator.ensemble([translator, translator], mean="geometric")
            >>> ensemble.generate(["Guten Tag"]) == translator.generate(["Guten Tag"])
            True
        """
        several = isinstance(translators, (list, tuple)) and len(translators) > 1
        if not several or not all(isinstance(one, Translator) for one in translators):
            raise UserError(
                f"an ensemble needs a list of two translators or more; received {reprlib.repr(translators)}."
            )
        preprocessor = shared_preprocessor([one.preprocessor for one in translators])
        combined = Translator(EnsembleBackbone([one.backbone for one in translators], mean), preprocessor)
        top_ks = [one.search_top_k for one in translators if one.search_top_k is not None]
        combined.compile(sampler=translators[0].sampler, search_top_k=top_ks[0] if top_ks else None)
        return combined

    def get_config(self) -> Config:
        """Return the arguments of the constructor."""
        return {**super().get_config(), "search_settings": self.search_settings}

    def compile(
        self,
        optimizer: str | keras.Optimizer = "auto",
        loss: str | None = None,
        *,
        label_smoothing: float = 0.0,
        accumulation_steps: int = 1,
        guided_alignment: float = 0.0,
        sampler: str | keras_hub.samplers.Sampler | None = None,
        search_top_k: int | None = None,
        **kwargs: Any,
    ) -> None:
        """Set up training and search.

        Args:
            optimizer: a Keras optimiser or its name; "auto" is Adam at 1e-3.
            loss: None or "auto": the loss is the cross-entropy per target token, plus what layers add to it.
            label_smoothing: probability mass spread evenly over the vocabulary.
            accumulation_steps: parts that a batch is split into; loss and gradient stay those of the whole batch.
            guided_alignment: weight of the `alignment_losses` of "attention_scores", which are those of the body's
                `attention_layer`, against x["links"] `(batch, target, source)` beside the ids; 0 for none. Perplexity
                does not include it, and neither does the loss of a validation whose x has no links.
            sampler: "greedy", "beam" (five beams, length penalty 1), a `BeamSearch`, or a KerasHub sampler or its name;
                None keeps the present one, which is that of the preset, or "beam".
            search_top_k: source positions that a latent alignment sums over in search; 0 for all, None for the training
                value.
            **kwargs: `run_eagerly`, `jit_compile` and the like; see `keras.Model.compile`.

        Raises:
            UserError: a loss or metrics were given; no sampler of this name; `search_top_k` is not a count, or the
                model has no latent alignment; `guided_alignment` of a cross-attention with fixed weights.
        """
        if loss is not None and loss != "auto":
            raise UserError(
                "a translator has its own loss, the cross-entropy per target token: leave `loss` out, set "
                "`label_smoothing`, or override `batch_sums` in a subclass; "
                f"received loss={reprlib.repr(loss)}."
            )
        for name in ("loss_weights", "metrics", "weighted_metrics"):
            if kwargs.pop(name, None) is not None:
                raise UserError(f"a translator reports its own loss, perplexity and accuracy: leave {name} out.")
        self._check_top_k(search_top_k, "search_top_k")
        if guided_alignment:
            check_guided(self.backbone)
        if optimizer == "auto":
            optimizer = keras.optimizers.Adam(1e-3)
        if sampler is None:
            sampler = getattr(self, "_sampler", "beam")
        own = {"greedy": BeamSearch(1), "beam": BeamSearch(5, length_penalty=1.0)}
        if isinstance(sampler, str):
            if sampler not in (*own, *_KERASHUB_SAMPLERS):
                raise UserError(f"there is no sampler {sampler!r}: {choice(sampler, (*own, *_KERASHUB_SAMPLERS))}")
            sampler = own.get(sampler, sampler)
        super().compile(optimizer=optimizer, loss=None, weighted_metrics=None, sampler=sampler, **kwargs)
        self.compile_training(label_smoothing, accumulation_steps, guided_alignment)
        self.search_top_k = search_top_k
        self._programs = Programs(self)

    def load_task_weights(self, filepath: PathLike) -> None:
        """Load the weights outside the body, of which translators have none; see the base class."""
        readable_shapes(filepath)
        super().load_task_weights(filepath)

    def save_to_preset(self, preset_dir: PathLike, storage: str = "float32", **kwargs: Any) -> None:
        """Save a preset; see `PresetFiles.save_to_preset`. A warning says if it cannot keep the sampler."""
        super().save_to_preset(preset_dir, storage, **kwargs)
        if self.search_settings is None:
            _LOG.warning(
                "presets keep no %s: loaded from %s, the model searches with five beams until `compile` says otherwise",
                type(self.sampler).__name__,
                shown(preset_dir),
            )

    def get_compile_config(self) -> Config:
        """Return the arguments of `compile`, for a `.keras` file or a clone."""
        names = ("optimizer", "label_smoothing", "accumulation_steps", "guided_alignment", "sampler", "search_top_k")
        arguments = {name: getattr(self, name) for name in names}
        is_latent = self.backbone.latent_head is not None
        return keras.saving.serialize_keras_object(CompileSettings(is_latent, **arguments))

    def compile_from_config(self, config: Config) -> None:
        """Compile as `get_compile_config` says, or that of an earlier version, which was a dict of the arguments."""
        settings = keras.saving.deserialize_keras_object(config)
        self.compile(**(settings.arguments if isinstance(settings, CompileSettings) else settings))
        self.optimizer.build(self.trainable_variables)

    @property
    def input_spec(self) -> None:
        """None: two inputs are optional, which Keras' own check does not allow."""
        return None

    def call(
        self, inputs: dict[str, Tensor], training: bool | None = None, mask: None = None, attention: bool = True
    ) -> dict[str, Tensor]:
        """Return "logits" `(batch, target, vocabulary)` and, if `attention`, "attention_scores" for a dict of ids."""
        hidden = self.backbone(_without_links(inputs), training=training, attention=attention)
        scores = {"attention_scores": hidden["attention_scores"]} if attention else {}
        return {"logits": self.backbone.logits(hidden), **scores}

    def compute_output_spec(self, inputs: dict[str, Tensor], **kwargs: Any) -> dict[str, Any]:
        """Return shapes and types of what `call` returns, for a dict of tensors without values."""
        return self.call(inputs, **kwargs)

    def token_losses(
        self, x: dict[str, Tensor], y: Tensor, label_smoothing: float, training: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return loss, negative log-likelihood and correctness of every target token `(batch, target)`."""
        return self._losses_and_scores(x, y, label_smoothing, training, attention=False)[0]

    def batch_sums(
        self, x: dict[str, Tensor], y: Tensor, weights: Tensor, label_smoothing: float, training: bool
    ) -> dict[str, Tensor]:
        """Return sums like those of `token_sums`, and with x["links"] "alignment_loss", see `alignment_losses`.

        Raises:
            UserError: links, but no weight for them, or in training the reverse.
        """
        if "links" not in x:
            if training and self.guided_alignment:
                raise UserError(
                    f"guided_alignment={self.guided_alignment:g} needs links: give ids with x['links'], or compile "
                    "without it."
                )
            return super().batch_sums(x, y, weights, label_smoothing, training)
        if not self.guided_alignment:
            raise UserError("x has links, but no weight for them: compile with guided_alignment, or leave them out.")
        losses, scores = self._losses_and_scores(x, y, label_smoothing, training, attention=True)
        of_links = ops.sum(alignment_losses(scores, x["links"]) * weights)
        return {**weighted_sums(*losses, weights), "alignment_loss": of_links}

    def _losses_and_scores(
        self, x: dict[str, Tensor], y: Tensor, label_smoothing: float, training: bool, attention: bool
    ) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor | None]:
        """Return the losses of every target token, and the scores of attention if asked for."""
        if self.backbone.latent_head is None:
            found = self(x, training=training, attention=attention)
            return token_losses(found["logits"], y, label_smoothing), found.get("attention_scores")
        found = self.backbone(_without_links(x), training=training)
        scored = self.backbone.score_targets(found, y, training)
        return mixture_losses(scored, y, label_smoothing), found["attention_scores"]

    # KerasHub's interface: `generate` runs what `make_generate_function` returns.

    def generate(
        self,
        inputs: Any,
        max_length: int | None = None,
        stop_token_ids: str | Sequence[int] | None = "auto",
        strip_prompt: bool = False,
    ) -> Any:
        """Translate by any sampler; see `keras_hub.models.Seq2SeqLM.generate`.

        Args:
            inputs: strings, in a list, an array or a tensor, or one string; a dict of "encoder_text" and
                "decoder_text", which are forced beginnings; without a preprocessor, ids; or a source of batches of
                these, see `fit`.
            max_length: maximum tokens of a translation; by default the preprocessor's, or the length of the ids.
            stop_token_ids: ids that end a translation; "auto" for the end token, None for none.
            strip_prompt: False; a translation does not begin with its source.

        Returns:
            A list of strings, or one; without a preprocessor, ids.

        Raises:
            UserError: anything other than strings; a sentence longer than the limit; a `max_length` beyond 10,000,
                beyond the model's weights, or below a forced beginning; `stop_token_ids` that are no list of ids, or
                "auto" without a preprocessor; `strip_prompt`.

        Example:
            >>> translator.generate(["Guten Tag"])
        """
        if max_length is not None:
            self._check_maximum(max_length)
        stops = list(stop_token_ids) if isinstance(stop_token_ids, (list, tuple, np.ndarray)) else None
        size = self.backbone.target_vocabulary_size
        if stops is not None and all(isinstance(one, numbers.Integral) and 0 <= int(one) < size for one in stops):
            stop_token_ids = [int(one) for one in stops]
        elif stops is not None or stop_token_ids not in ("auto", None):
            raise UserError(
                f"stop_token_ids must be a list of ids below {size}, 'auto' or None; received "
                f"{reprlib.repr(stop_token_ids)}."
            )
        if strip_prompt:
            raise UserError("a translation does not begin with its source: leave strip_prompt out.")
        if (batches := source_batches(inputs)) is not None:
            return joined([self.generate(batch, max_length, stop_token_ids) for batch in batches])
        if self.preprocessor is None:
            if stop_token_ids == "auto":
                raise UserError(
                    "without a preprocessor the end token is not known: give stop_token_ids, or None for no end."
                )
            ids = ids_for_search(self.backbone.vocabulary_sizes, inputs, max_length)
            return super().generate(ids, max_length, stop_token_ids)
        # KerasHub writes into a dict that it is given.
        is_dict = isinstance(inputs, dict)
        inputs = {name: strings(texts) for name, texts in inputs.items()} if is_dict else strings(inputs)
        if isinstance(inputs, list) and not inputs:
            return []
        if is_dict and not inputs:
            # It says what is missing; KerasHub would look for the first part.
            self.preprocessor.generate_preprocess(inputs)
        return super().generate(inputs, max_length, stop_token_ids)

    @property
    def sampler(self) -> keras_hub.samplers.Sampler:
        """The sampler used in search; it may be replaced at any time."""
        return self._sampler

    @sampler.setter
    def sampler(self, sampler: keras_hub.samplers.Sampler) -> None:
        self._sampler = sampler

    @property
    def search_settings(self) -> Config | None:
        """What presets keep of the search, see the constructor; None with a sampler of which they keep nothing."""
        return settings_of(self.sampler, self.search_top_k)

    @search_settings.setter
    def search_settings(self, settings: Config) -> None:
        if not are_search_settings(settings):
            raise UserError(
                f"search_settings must have beams, from 1 to {MOST_BEAMS}, length_penalty, from 0 to "
                f"{HIGHEST_PENALTY}, and search_top_k, and may have others of a BeamSearch; received "
                f"{reprlib.repr(settings)}."
            )
        self._check_top_k(settings["search_top_k"], "search_top_k")
        self.sampler = sampler_of(settings)
        self.search_top_k = settings["search_top_k"]

    def make_generate_function(self) -> Callable:
        """Return the function that `generate` runs on ids.

        Sentences are searched a few at a time and filled up to a few numbers of rows, as in `translate`; ids without a
        preprocessor come in the shapes that the caller has chosen.
        """

        def generate_function(inputs, stop_token_ids=None):
            stop = None if stop_token_ids is None else tuple(stop_token_ids)
            if self.preprocessor is None:
                return self._generate(inputs, stop)
            found = []
            for count, part in row_batches(inputs):
                found.append({name: value[:count] for name, value in self._generate(part, stop).items()})
            found = {name: np.concatenate([of_part[name] for of_part in found]) for name in found[0]}
            # An empty sentence has an empty translation; a model would make one up.
            lengths = [inputs[f"{side}_padding_mask"].sum(axis=1) for side in ("encoder", "decoder")]
            empty = (lengths[0] == 1) & (lengths[1] == 1)
            found["decoder_padding_mask"] = found["decoder_padding_mask"] & ~empty[:, None]
            return found

        return generate_function

    def _generate(self, inputs, stop):
        """Run the compiled search on ids."""
        sampler = self.sampler
        inputs = keras.tree.map_structure(keras.ops.convert_to_numpy, inputs)
        # Without an end, all the room is needed.
        limit = inputs["decoder_token_ids"].shape[1] if stop and may_retry_at_full_length(sampler) else None
        rows = zip(inputs["encoder_token_ids"], inputs["encoder_padding_mask"], strict=True)
        inputs |= numbers_of(
            sampler, [ids[mask.astype("bool")] for ids, mask in rows], inputs["decoder_token_ids"].shape[1]
        )
        found = self._programs.run(
            ("generate", stop, limit, *search_key(sampler, self.search_top_k)),
            lambda: functools.partial(self.generate_step, stop_token_ids=stop, limit=limit),
            inputs,
            changing=sampler.variables,
            around=None if limit is None else lambda run: retrying_at_full_length(run, self.preprocessor is not None),
            beams=getattr(sampler, "rows", 1),
        )
        return {name: x for name, x in found.items() if name != "certain"}

    def generate_step(
        self, inputs: dict[str, Tensor], stop_token_ids: Sequence[int] | None = None, limit: int | None = None
    ) -> dict[str, Tensor]:
        """Search on ids; return the best ones with their mask, and of a `BeamSearch` "certain", see there."""
        found = search(self, inputs, self.sampler, stop_token_ids, self.search_top_k, n_best=1, limit=limit)
        token_ids = found["token_ids"][:, 0]
        return {
            "decoder_token_ids": token_ids,
            "decoder_padding_mask": until_stop(token_ids, inputs["decoder_padding_mask"], stop_token_ids),
            **{name: x for name, x in found.items() if name == "certain"},
        }


def _without_links(inputs):
    """The inputs of a body among those of a training step, which Keras hands to `call` to see what is not built."""
    return {name: x for name, x in inputs.items() if name != "links"}
