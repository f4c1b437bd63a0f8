"""What every translator's body has: its inputs, the projection onto the vocabulary, and the steps of a search."""

import keras
import keras_hub

from keras_attn_zoo.errors import UserError
from keras_attn_zoo.layers import AttentionLayer
from keras_attn_zoo.models.presets import PresetLoading

OPTIONAL_INPUTS = {"decoder_padding_mask": None, "teacher_forcing_mask": None}
TIED = ("none", "target", "all")


class TranslationBackbone(PresetLoading, keras_hub.models.Backbone):
    """Base of the bodies: a functional model, and a search by steps over the same layers.

    Subclass it for a new body. A search runs like this, with all that depends on
    weights and lengths alone computed once in `constants`::

        constants = backbone.search_constants(max_length)
        memory, state = backbone.start_search(encoder_token_ids, encoder_padding_mask, constants)
        logits, scores, state = backbone.search_step(token_ids, memory, state, constants)

    `memory` and `state` are trees of tensors with the batch as first axis;
    `scores` is a list, one `(batch, heads, source)` a layer of cross-attention.

    Attributes:
        output_projection: layer from decoder outputs to logits.
        attention_layer: index, in that list, of the layer whose attention stands for the alignment.
        cross_attention_heads: number of heads of each layer of cross-attention.
    """

    attention_layer = -1

    @property
    def input_spec(self):
        """None: two inputs may be left out, which Keras' own check does not allow."""
        return None

    def call(self, inputs, training=None, mask=None):
        """Run the model on a dict of inputs."""
        return super().call({**OPTIONAL_INPUTS, **inputs}, training=training, mask=mask)

    def logits(self, decoder_sequence_output):
        """Project decoder outputs `(..., width)` onto the target vocabulary."""
        return self.output_projection(decoder_sequence_output)

    def search_constants(self, max_length):
        """Return what a search needs that depends on weights and lengths alone."""
        return {}

    def start_search(self, encoder_token_ids, encoder_padding_mask, constants):
        """Encode sentences: the memory of their search, and its state before the first target token."""
        raise NotImplementedError

    def search_step(self, token_ids, memory, state, constants):
        """Advance a search from the previous tokens `(batch,)`: logits, scores of every layer, state."""
        raise NotImplementedError

    def attention_model(self):
        """Return a functional model from the inputs to the scores of all attention layers, `{place: [scores]}`."""
        # Keras has put containers of its own in place of those that hold the scores.
        return keras.Model(self.input, {place: list(scores) for place, scores in self.attention_outputs.items()})


def translation_inputs():
    """Inputs of a body, for its functional model."""
    return {
        "encoder_token_ids": keras.Input((None,), dtype="int32", name="encoder_token_ids"),
        "encoder_padding_mask": keras.Input((None,), dtype="bool", name="encoder_padding_mask"),
        "decoder_token_ids": keras.Input((None,), dtype="int32", name="decoder_token_ids"),
        "decoder_padding_mask": keras.Input((None,), dtype="bool", name="decoder_padding_mask", optional=True),
        "teacher_forcing_mask": keras.Input((None,), dtype="bool", name="teacher_forcing_mask", optional=True),
    }


def attention_config(attention):
    """Return a name as it is, and the configuration of a layer without its shapes: the body builds it."""
    if isinstance(attention, (list, tuple)):
        return [attention_config(one) for one in attention]
    if not isinstance(attention, AttentionLayer):
        return attention
    config = keras.layers.serialize(attention)
    return {key: value for key, value in config.items() if key != "build_config"}


def check_one_of(name, value, valid):
    """Raise where a name is none of the valid ones."""
    if value not in valid:
        raise UserError(f"{name} must be one of {', '.join(valid)}; received {value!r}.")


def check_vocabularies(tie_embeddings, source_vocabulary_size, target_vocabulary_size):
    """Raise where the embeddings of two vocabularies should be one."""
    check_one_of("tie_embeddings", tie_embeddings, TIED)
    if tie_embeddings == "all" and source_vocabulary_size != target_vocabulary_size:
        raise UserError(
            "tie_embeddings='all' needs one joint vocabulary; received "
            f"{source_vocabulary_size} source and {target_vocabulary_size} target tokens."
        )
