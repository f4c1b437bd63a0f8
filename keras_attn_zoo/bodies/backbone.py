"""What the bodies of all translators share: inputs, the projection onto the vocabulary, the steps of a search."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import keras
import keras_hub
from keras import ops

from keras_attn_zoo.bodies.call_export import CallExport
from keras_attn_zoo.bodies.model_inputs import OPTIONAL_INPUTS, with_optional_specs
from keras_attn_zoo.bodies.needed_scores import scores_needed_of
from keras_attn_zoo.bodies.nested_layers import build_once, serialize_layer
from keras_attn_zoo.bodies.output_projection import OutputProjection
from keras_attn_zoo.bodies.posterior_layer import Posterior
from keras_attn_zoo.bodies.schema import BodyArguments, with_arguments
from keras_attn_zoo.bodies.token_embedding import TokenEmbedding
from keras_attn_zoo.layers import AttentionLayer, FirstOrderAlignment, LatentAlignmentHead
from keras_attn_zoo.layers.base.normalizers import FREE_NORMALIZERS
from keras_attn_zoo.layers.base.rematerialization import RematerializedByLayer
from keras_attn_zoo.presets.quantization import Quantization, take_own_policies
from keras_attn_zoo.presets.saving import PresetLoading, WeightFiles
from keras_attn_zoo.support.compat import layers_of
from keras_attn_zoo.support.errors import UserError, check_arguments
from keras_attn_zoo.support.setting_types import layer_and_head
from keras_attn_zoo.support.types import Config, DType, Tensor, TensorTree


class TranslationBackbone(
    CallExport, RematerializedByLayer, Quantization, PresetLoading, WeightFiles, keras_hub.models.Backbone
):
    """Base class of the bodies: a functional model, and a stepwise search with the same layers.

    Subclass it for a new body, and define `_search_constants`, `_begin` and `_advance`. A search runs as follows::

        constants, memory, state = backbone.start_search(encoder_token_ids, encoder_padding_mask, max_length)
        logits, scores, state = backbone.search_step(token_ids, memory, state, constants)

    `memory` and `state` are trees of tensors with a row for each hypothesis, of which a sentence may have several;
    `constants` is what all of them share. `scores` are those of `attention_layer`, `(rows, heads, source)`.

    The outputs of the functional model are a dict: "encoder_sequence_output" `(batch, source, width)`,
    "decoder_sequence_output" `(batch, target, width)`, "decoder_embedding_output" `(batch, target, width)`, the
    embeddings of the previous tokens, and "attention_scores" `(batch, heads, target, source)`, those of
    `attention_layer`. `logits` computes logits from them.

    `input` has five entries, one more than a preprocessor makes: Keras wants data for "teacher_forcing_mask" too, an
    optional one. For a model on top of a translator's body, call the body: `keras.Model(translator.input,
    translator.backbone(translator.input))`.

    Attributes:
        output_projection: layer from decoder outputs to logits; None with a latent alignment.
        latent_head: a `LatentAlignmentHead` in its place, or None.
        max_jump: that of the `FirstOrderAlignment` of the prior, whose result "attention_scores" then are; or None.
        posterior_feeding: whether steps of the decoder are fed the posterior of the one before.
        attention_layer: index of the cross-attention layer whose scores are used as the alignment, "all", or one head
            of a layer, such as "-1:0".
        cross_attention_heads: number of heads of each cross-attention layer.
        attention_outputs: scores of all layers by place: "cross", and for a Transformer "encoder" and "decoder".
        suppressed_tokens: ids that a search never chooses, whatever their logits.
        arguments: the dataclass that declares what the constructor takes, see `schema`; None if none does.
        can_be_trained: whether a translator with this body takes training data.
        feeds_itself: whether the class can feed the decoder its own predictions.
    """

    arguments: type[BodyArguments] | None = None
    max_jump: int | None = None
    posterior_feeding: bool = False
    attention_layer: int | str = -1
    suppressed_tokens: Sequence[int] = ()
    can_be_trained: bool = True
    feeds_itself: bool = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        check_arguments(self, kwargs)
        super().__init__(*args, **kwargs)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Explain every argument in the docstring."""
        super().__init_subclass__(**kwargs)
        if cls.arguments is not None:
            cls.__doc__ = with_arguments(cls.__doc__, cls.arguments)

    def _keep(self, given, source_embedding, target_embedding, output_projection, latent_head, first_order):
        """Keep the parts of a body, and all arguments but the one whose name Keras has for its tensors."""
        for name in given.names():
            if name != "output":
                setattr(self, name, getattr(given, name))
        self.source_embedding, self.target_embedding = source_embedding, target_embedding
        # Its name in KerasHub.
        self.token_embedding = target_embedding
        self.output_projection, self.latent_head, self.first_order = output_projection, latent_head, first_order
        build_output(self)

    def get_config(self) -> Config:
        """Return the arguments of the constructor, as far as `arguments` declares them."""
        config = super().get_config()
        for name in self.arguments.names() if self.arguments else ():
            value = getattr(self, name) if name != "output" else "softmax" if self.latent_head is None else "latent"
            config[name] = attention_config(value)
        return config

    @property
    def can_run_free(self) -> bool:
        """Whether the decoder can be fed its own predictions, by "teacher_forcing_mask"."""
        return self.feeds_itself and self.latent_head is None

    @property
    def takes_top_k(self) -> bool:
        """Whether a search can be told how many source positions a latent alignment sums over."""
        return self.latent_head is not None

    @property
    def attention_heads(self) -> int:
        """Number of heads of "attention_scores"."""
        (layer, head), heads = layer_and_head(self.attention_layer), self.cross_attention_heads
        if head is not None or self.max_jump is not None:
            return 1
        return sum(heads) if layer is None else heads[layer]

    def rows_of_heads(
        self, layers: Sequence[int] | str | None, heads: Sequence[int] | None, among: Sequence[int] | None = None
    ) -> list[int] | None:
        """Return the rows of some heads among those of cross-attention layers, one layer after the other.

        Args:
            layers: cross-attention layers, or "posterior", or None for `attention_layer`.
            heads: heads of each layer, counted from 0, or None for all.
            among: the layers, counted from 0, among whose heads they stand; by default `layers`.

        Returns:
            A list of rows; None for all.

        Raises:
            UserError: a head that a layer does not have, or of an alignment that is one head, or of first order.
        """
        if heads is None and among is None:
            return None
        if isinstance(layers, str):
            raise UserError("the posterior of an alignment has no heads: leave the heads out, or choose a layer.")
        sizes = self.cross_attention_heads
        if layers is None:
            if heads is not None and self.max_jump is not None:
                raise UserError(
                    "the model's alignment is of first order, so it has no heads: leave the heads out, or choose a "
                    "layer."
                )
            layer, head = layer_and_head(self.attention_layer)
            layers = range(len(sizes)) if layer is None else [layer]
            if head is not None and heads is not None:
                raise UserError(
                    f"the model's alignment is one head, attention_layer={self.attention_layer!r}: leave the heads "
                    "out, or choose a layer too."
                )
            heads = heads if head is None else [head]
        fewest = min(sizes[layer] for layer in layers)
        for head in heads or ():
            if not 0 <= head < fewest:
                raise UserError(f"there is no head {head}: choose from 0 to {fewest - 1}.")
        every = layers if among is None else among
        firsts = [sum(sizes[layer] for layer in every[:i]) for i in range(len(every))]
        places = range(len(layers)) if among is None else [every.index(range(len(sizes))[layer]) for layer in layers]
        return [
            firsts[place] + head
            for place, layer in zip(places, layers, strict=True)
            for head in (range(sizes[layer]) if heads is None else heads)
        ]

    @property
    def longest_sentence(self) -> int | None:
        """The maximum tokens that length-dependent weights allow; None if there are no such weights."""
        limits = (getattr(layer, "longest_sentence", None) for layer in layers_of(self, include_self=False))
        return min((limit for limit in limits if limit is not None), default=None)

    @property
    def input_spec(self) -> None:
        """None: two inputs are optional, which Keras' own check does not allow."""
        return None

    @property
    def aligned_layers(self) -> Collection[AttentionLayer]:
        """The attention layers of "attention_scores"; by default none."""
        return ()

    def call(
        self,
        inputs: Mapping[str, Tensor],
        training: bool | None = None,
        mask: Tensor = None,
        attention: bool = True,
        logits: bool = False,
    ) -> dict[str, Tensor]:
        """Run the model on a dict of inputs.

        Args:
            inputs: token ids and masks; optional ones may be left out.
            training: whether dropout is active.
            mask: as Keras has it; the masks of this model are among its inputs.
            attention: whether to return "attention_scores".
            logits: whether to return "logits" in the place of the outputs of encoder and decoder.

        Raises:
            UserError: inputs that this body does not take.
        """
        self._check_inputs(inputs)
        with scores_needed_of(self.aligned_layers if attention or self.max_jump is not None else ()):
            outputs = super().call({**OPTIONAL_INPUTS, **inputs}, training=training, mask=mask)
        return self._chosen_outputs(outputs, attention, logits)

    def compute_output_spec(
        self,
        inputs: Mapping[str, Tensor],
        training: bool | None = None,
        mask: Tensor = None,
        attention: bool = True,
        logits: bool = False,
    ) -> dict[str, Any]:
        """Return shapes and types of the outputs of `call`."""
        outputs = super().compute_output_spec(with_optional_specs(inputs), training=training, mask=mask)
        return self._chosen_outputs(outputs, attention, logits)

    @property
    def vocabulary_sizes(self) -> dict[str, int]:
        """The sizes of the vocabularies, of the "encoder" and the "decoder"."""
        return {"encoder": self.source_vocabulary_size, "decoder": self.target_vocabulary_size}

    def _check_inputs(self, inputs):
        """Raise a `UserError` for inputs that this body does not take; by default, take all."""

    def _chosen_outputs(self, outputs, attention, logits):
        """Return the outputs that the arguments of `call` choose."""
        if logits:
            outputs = {"logits": self.logits(outputs), "attention_scores": outputs["attention_scores"]}
        return outputs if attention else {name: x for name, x in outputs.items() if name != "attention_scores"}

    def enable_lora(self, rank: int, target_layer_names: Sequence[str] | None = None) -> None:
        """Freeze the body and train LoRA weights of the given rank, by default on the query and value projections.

        Raises:
            UserError: no layer of these names supports LoRA, so nothing would be trained.
        """
        names = target_layer_names or self.default_lora_layer_names()
        layers = layers_of(self, include_self=False)
        if not any(layer.name in names and hasattr(layer, "enable_lora") for layer in layers):
            raise UserError(
                f"no layer of this {type(self).__name__} named {' or '.join(names)} supports LoRA: name others in "
                "target_layer_names, or train without LoRA."
            )
        super().enable_lora(rank, target_layer_names)

    def logits(self, outputs: Mapping[str, Tensor]) -> Tensor:
        """Return logits `(batch, target, vocabulary)` from the model's outputs; log-probabilities if latent."""
        if self.latent_head is None:
            return self.output_projection(outputs["decoder_sequence_output"])
        return self.latent_head(*lexicon_inputs(outputs))

    def score_targets(
        self, outputs: Mapping[str, Tensor], token_ids: Tensor, training: bool = False
    ) -> dict[str, Tensor]:
        """Return the scores of given tokens by the `LatentAlignmentHead`, from the model's outputs."""
        return self.latent_head(*lexicon_inputs(outputs), token_ids, training=training)

    def posterior_model(self) -> keras.Model:
        """Return a functional model from the inputs and "decoder_labels", the next tokens, to p(j|e_i).

        Shapes: `(batch, 1, target, source)`, like the scores of one head.
        """
        labels = keras.Input((None,), dtype="int32", name="decoder_labels")
        posterior = Posterior(self.latent_head, name="posterior")(*lexicon_inputs(self.output), labels)
        return keras.Model({**self.input, "decoder_labels": labels}, posterior)

    # The search.

    def start_search(
        self,
        encoder_token_ids: Tensor,
        encoder_padding_mask: Tensor,
        max_length: int,
        top_k: int | None = None,
        beams: int = 1,
    ) -> tuple[dict[str, TensorTree], TensorTree, TensorTree]:
        """Encode sentences.

        Args:
            encoder_token_ids, encoder_padding_mask: `(batch, source)`.
            max_length: maximum tokens of a translation.
            top_k: source positions that a latent alignment sums over; 0 for all, None for the training value.
            beams: number of beams that may share the part of the state that is called "by_sentence": it then stays with
                the sentence when hypotheses change their beam. With one beam there is no such part.

        Returns:
            what all hypotheses share, the memory of each, and its state before the first target token.
        """
        constants = self._search_constants(max_length)
        encoded, memory, state = self._begin(encoder_token_ids, encoder_padding_mask, constants, beams)
        if self.latent_head is not None:
            constants["lexicon"] = self.latent_head.prepare(encoded, encoder_padding_mask)
            constants["top_k"] = top_k
        if self._remembers_alignment:
            batch = ops.shape(encoder_token_ids)[0]
            state = {**state, "aligned": self.latent_head.unaligned(batch, constants["lexicon"])}
        return constants, memory, state

    def search_step(
        self, token_ids: Tensor, memory: TensorTree, state: TensorTree, constants: TensorTree
    ) -> tuple[Tensor, Tensor, TensorTree]:
        """Advance a search by one token, given the previous tokens `(rows,)`.

        Returns:
            logits, scores `(rows, heads, source)`, state.
        """
        head = self.latent_head
        embedded, x, layers, prior, state = self.decoder_step(token_ids, memory, state, constants)
        scores = scores_of_layer(layers["cross"], self.attention_layer)
        if head is None:
            return self.output_projection(x), scores, state
        if self.max_jump is not None:
            scores = ops.expand_dims(prior, 1)
        return head.step(prior, embedded, x, constants["lexicon"], constants["top_k"]), scores, state

    def decoder_step(
        self, token_ids: Tensor, memory: TensorTree, state: TensorTree, constants: TensorTree
    ) -> tuple[Tensor, Tensor, dict[str, list[Tensor]], Tensor | None, TensorTree]:
        """Advance by one token as `search_step` does, before the vocabulary.

        Returns:
            embeddings and outputs `(rows, width)`; scores of every layer of "cross" `(rows, heads, source)` and, for a
            Transformer, of "decoder" `(rows, heads, max_length)`; the prior `(rows, source)` of a latent alignment, or
            None; state.
        """
        head = self.latent_head
        if self._remembers_alignment:
            posterior = head.posterior(token_ids, constants["lexicon"], state["aligned"])
            state = {**state, "posterior": posterior}
        embedded, x, scores, state = self._advance_everywhere(token_ids, memory, state, constants)
        if head is None:
            return embedded, x, scores, None, state
        prior = ops.mean(scores_of_layer(scores["cross"], self.attention_layer), axis=1)
        if self.max_jump is not None:
            prior = self.first_order.step(prior, posterior)
        if self._remembers_alignment:
            state = {**state, "aligned": head.align(prior, embedded, x, constants["lexicon"])}
        return embedded, x, scores, prior, state

    @property
    def _remembers_alignment(self):
        """Whether a step of a search depends on the posterior of the one before."""
        return self.posterior_feeding or self.max_jump is not None

    def _search_constants(self, max_length):
        """Return a dict of what a search needs and what depends only on weights and lengths."""
        return {}

    def _begin(self, encoder_token_ids, encoder_padding_mask, constants, beams):
        """Return encoder outputs, memory and state."""
        raise NotImplementedError

    def _advance(self, token_ids, memory, state, constants):
        """Return embeddings and outputs of one position, a list of the scores of all layers, and the next state."""
        raise NotImplementedError

    def _advance_everywhere(self, token_ids, memory, state, constants):
        """Return what `_advance` does, with the scores of all layers by place."""
        embedded, x, scores, state = self._advance(token_ids, memory, state, constants)
        return embedded, x, {"cross": scores}, state

    def attention_model(self) -> Callable[[dict[str, Tensor]], dict[str, list[Tensor]]]:
        """Return a function of the inputs to the scores of all attention layers, `{place: [scores]}`."""
        # Keras has replaced the containers that hold the scores by its own.
        return keras.Model(self.input, {place: list(scores) for place, scores in self.attention_outputs.items()})


def embedding_layers(
    given: BodyArguments, width: int, stddev: float, dtype: DType
) -> tuple[TokenEmbedding, TokenEmbedding]:
    """Return the embeddings of source and target, which are the same layer if all embeddings are tied."""

    def embedding(size, name):
        initializer = {"class_name": "RandomNormal", "config": {"stddev": stddev}}
        return TokenEmbedding(size, width, embeddings_initializer=initializer, dtype=dtype, name=name)

    target = embedding(given.target_vocabulary_size, "target_embedding")
    shared = given.tie_embeddings == "all"
    return (target if shared else embedding(given.source_vocabulary_size, "source_embedding")), target


def output_layer(
    given: BodyArguments, width: int, embedding: keras.layers.Layer | None, dtype: DType, use_bias: bool | None = None
) -> tuple[OutputProjection | None, LatentAlignmentHead | None]:
    """Return the projection onto the vocabulary and the latent head of a body, one of which is None."""
    size = given.target_vocabulary_size
    if given.output == "softmax":
        return OutputProjection(size, embedding, use_bias, dtype=dtype, name="output_projection"), None
    how = {name: getattr(given, name) for name in ("marginalization", "top_k", "top_k_gradient")}
    return None, LatentAlignmentHead(size, width, embedding, **how, dtype=dtype, name="latent_alignment_head")


def first_order_alignment(
    given: BodyArguments, head: LatentAlignmentHead | None, outputs: dict[str, Tensor], token_ids: Tensor
) -> FirstOrderAlignment | None:
    """Return the layer that makes an alignment depend on the one before, or None.

    If there is one, "attention_scores" among the outputs of a body's functional model become its result.
    """
    if given.max_jump is None or head is None:
        return None
    build_once(head, *(x.shape for x in lexicon_inputs(outputs)))
    layer = FirstOrderAlignment(head, given.max_jump, dtype=head.dtype_policy, name="first_order_alignment")
    outputs["attention_scores"] = layer(*lexicon_inputs(outputs), token_ids)[:, None]
    return layer


def check_alignment(output: str, attention: AttentionLayer) -> None:
    """Raise if a latent alignment could have no position to choose, or weights that are no probabilities."""
    if output == "latent" and attention.normalizer in FREE_NORMALIZERS:
        raise UserError(
            "a latent alignment needs a cross-attention whose weights are probabilities: choose another normalizer; "
            f"received {attention.normalizer!r}."
        )
    if output == "latent" and attention.may_attend_nothing:
        raise UserError(
            "a latent alignment needs a cross-attention that always attends to some source position, which "
            f"{type(attention).__name__} does not: choose another one."
        )


def check_guided(backbone: TranslationBackbone) -> None:
    """Raise if no training changes the weights of the attention that is used as the alignment of a body."""
    fixed = next((layer for layer in backbone.aligned_layers if layer.has_fixed_weights), None)
    if fixed is not None:
        raise UserError(
            f"guided alignment needs a cross-attention that learns its weights, which {type(fixed).__name__} does not: "
            "choose another one."
        )


def build_output(backbone: TranslationBackbone) -> None:
    """Complete a body by the weights of its output layer, which its functional model does not call."""
    outputs = backbone.output
    if backbone.latent_head is None:
        build_once(backbone.output_projection, outputs["decoder_sequence_output"].shape)
    else:
        build_once(backbone.latent_head, *(x.shape for x in lexicon_inputs(outputs)))
    take_own_policies(backbone)


def lexicon_inputs(outputs: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return prior, embeddings, states and encoder states for a `LatentAlignmentHead`, from a body's outputs."""
    return (
        ops.mean(outputs["attention_scores"], axis=1),
        outputs["decoder_embedding_output"],
        outputs["decoder_sequence_output"],
        outputs["encoder_sequence_output"],
    )


def scores_of_layer(scores: Sequence[Tensor], attention_layer: int | str) -> Tensor:
    """Return the scores of an `attention_layer` from those of each layer; those of all are joined along the heads."""
    layer, head = layer_and_head(attention_layer)
    found = ops.concatenate(scores, axis=1) if layer is None else scores[layer]
    return found if head is None else found[:, head : head + 1]


def attention_config(attention: Any) -> Any:
    """Return the configuration of a layer, or of each in a list, without its shapes: the body builds it."""
    if isinstance(attention, (list, tuple)):
        return [attention_config(one) for one in attention]
    return serialize_layer(attention) if isinstance(attention, AttentionLayer) else attention


def policy_of(dtype: DType) -> keras.DTypePolicy:
    """Return the dtype policy of a body's layers; raise if they have no form for it."""
    policy = keras.dtype_policies.get(dtype or keras.config.dtype_policy())
    if policy.quantization_mode is not None or not keras.backend.is_float_dtype(policy.compute_dtype):
        raise UserError(
            f"a model cannot be created with the dtype policy {policy.name!r}: give a floating-point one, then call "
            "quantize('int8') if it is to be in int8."
        )
    return policy
