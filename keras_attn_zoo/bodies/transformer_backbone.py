"""The body of the Transformer translator, for every attention mechanism."""

import keras
from keras import ops

from keras_attn_zoo.bodies.attention_stack import AttentionStack
from keras_attn_zoo.bodies.backbone import (
    TranslationBackbone,
    check_alignment,
    embedding_layers,
    first_order_alignment,
    output_layer,
    policy_of,
)
from keras_attn_zoo.bodies.model_inputs import translation_inputs
from keras_attn_zoo.bodies.needed_scores import scores_needed_of
from keras_attn_zoo.bodies.position_encodings import position_layer
from keras_attn_zoo.bodies.schema import TransformerArguments, takes
from keras_attn_zoo.bodies.shared_beams import descend, shared_states
from keras_attn_zoo.bodies.transformer_layers import (
    NORM_LAYERS,
    TargetMask,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
)
from keras_attn_zoo.layers import AttentionLayer
from keras_attn_zoo.layers.base.dropout import Dropout
from keras_attn_zoo.support.choices import RELATIVE_POSITIONS
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.setting_types import layer_and_head
from keras_attn_zoo.support.types import TensorTree


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class TransformerBackbone(TranslationBackbone):
    """Transformer encoder-decoder with any attention in each place and layer.

    Use it for the systems of Rosendahl, Zeng, Dang and Bahar, which differ only in
    the names of their attentions. See `TransformerLayer` for the equations of a layer.

        x_0 = dropout(√width · e(tokens) + positions),  h = encoder(x_0),  t = decoder(y_0, h)

    Args:
        source_vocabulary_size, target_vocabulary_size: sizes of the vocabularies.
        width, num_heads, ffn_dim: width of the model, attention heads, hidden width of the feed-forward networks.
        encoder_layers, decoder_layers: number of layers.
        encoder_attention, decoder_attention, cross_attention: a name of `keras_attn_zoo.layers.ATTENTIONS`, a
            dict with the name as "attention" and arguments, an `AttentionLayer`, or a list of these, one per layer.
            "recurrent" shares its matrices between the layers of a side.
        normalization: "post" or "pre"; with "pre", encoder and decoder end in one more normalisation.
        norm: what normalises: "layer", or "rms", the root mean square.
        activation: that of the feed-forward networks: "relu", "silu" (also called swish), "gelu" or "tanh"; "swiglu" or
            "geglu", with a gate.
        encoder_positions, decoder_positions: "sine"; "halved_sine", the same numbers in Marian's order, sines before
            cosines, up to `max_length`; "learned"; "none"; or "rotary", "alibi", "shaw" or "t5", the `positions` of
            self-attention, see `MultiHeadAttention`.
        max_length: longest sentence, for positions and mechanisms whose weights depend on it.
        tie_embeddings: "none"; "target" shares target embedding and output matrix; "all" the source embedding too.
        output_bias: whether a tied output matrix has a bias; an untied one always does.
        suppressed_tokens: ids that a search never chooses, such as a padding token that begins translations.
        dropout: rate on embeddings and sublayer outputs.
        attention_dropout: rate on attention weights, for mechanisms that support it.
        activation_dropout: rate on the hidden layer of the feed-forward networks.
        attention_layer: decoder layer whose cross-attention is used as the alignment, the mean of its heads; -1 is the
            last, "all" the mean of all layers, and "5:0" the first head of the sixth layer alone.
        output: "softmax", or "latent": a `LatentAlignmentHead` with that alignment.
        marginalization, top_k, top_k_gradient: how a latent alignment is summed in training, see `LatentAlignmentHead`.
        max_jump: None, or D of a `FirstOrderAlignment`: the alignment is then a hidden Markov model.
        dtype: dtype policy of all layers.

    Inputs and outputs are dicts, as for `RNNBackbone`, but without "teacher_forcing_mask".
    `attention_model` returns the scores of all layers.

    Raises:
        UserError: an unknown name; sizes that do not fit together; a sentence longer than `max_length` if weights
            depend on it.

    Example:
        >>> backbone = TransformerBackbone(100, 100, width=8, num_heads=2, ffn_dim=16, decoder_attention="average")
        >>> backbone({
        ...     "encoder_token_ids": np.ones((2, 5), "int32"),
        ...     "encoder_padding_mask": np.ones((2, 5), "bool"),
        ...     "decoder_token_ids": np.ones((2, 4), "int32"),
        ... })["attention_scores"]  # (2, 2, 4, 5)

    Source: Rosendahl, sections 3.1 and 4; Zeng, sections 2 and 3.1; Dang, section 2.6; Bahar, sections 5 and 6.
    """

    arguments = TransformerArguments

    @takes(TransformerArguments)
    def __init__(self, given: TransformerArguments) -> None:
        dtype, tied = policy_of(given.dtype), given.tie_embeddings != "none"

        # === Layers ===
        # Scaled by √width below, which gives variance 1, also to the logits if the matrix is tied.
        source_embedding, target_embedding = embedding_layers(given, given.width, given.width**-0.5, dtype)
        encoder_position = position_layer(given.encoder_positions, given.width, given.max_length, "encoder_positions")
        decoder_position = position_layer(given.decoder_positions, given.width, given.max_length, "decoder_positions")

        def stack(attention, count, place):
            positions = getattr(given, f"{place}_positions", None)
            return AttentionStack(
                attention,
                count,
                place,
                dtype,
                positions if positions in RELATIVE_POSITIONS else None,
                width=given.width,
                num_heads=given.num_heads,
                max_length=given.max_length,
                dropout=given.attention_dropout,
            )

        encoder_stack = stack(given.encoder_attention, given.encoder_layers, "encoder")
        decoder_stack = stack(given.decoder_attention, given.decoder_layers, "decoder")
        cross_stack = stack(given.cross_attention, given.decoder_layers, "cross")
        aligned_layer, aligned_head = layer_and_head(given.attention_layer)
        attentions = cross_stack.layers if aligned_layer is None else [cross_stack.layers[aligned_layer]]
        for attention in attentions:
            check_alignment(given.output, attention)
        if aligned_head is not None and aligned_head >= attentions[0].num_heads:
            last = attentions[0].num_heads - 1
            raise UserError(
                f"attention_layer={given.attention_layer!r} names a head that its layer does not have: choose one from "
                f"0 to {last}."
            )
        common = {
            "width": given.width,
            "ffn_dim": given.ffn_dim,
            "normalization": given.normalization,
            "dropout": given.dropout,
            "activation_dropout": given.activation_dropout,
            "activation": given.activation,
            "norm": given.norm,
            "dtype": dtype,
        }
        encoders = [
            TransformerEncoderLayer(attention, **common, name=f"encoder_{i}")
            for i, attention in enumerate(encoder_stack.layers)
        ]
        decoders = [
            TransformerDecoderLayer(*attentions, **common, name=f"decoder_{i}")
            for i, attentions in enumerate(zip(decoder_stack.layers, cross_stack.layers, strict=True))
        ]
        source_dropout = Dropout(given.dropout, dtype=dtype, name="source_dropout")
        target_dropout = Dropout(given.dropout, dtype=dtype, name="target_dropout")
        last_norms = {}
        if given.normalization == "pre":
            last_norms = {
                side: NORM_LAYERS[given.norm](epsilon=1e-5, dtype=dtype, name=f"{side}_norm")
                for side in ("encoder", "decoder")
            }
        output_projection, latent_head = output_layer(
            given, given.width, target_embedding if tied else None, dtype, use_bias=given.output_bias or not tied
        )

        def embed(embedded, positions, dropout):
            if positions is not None:
                embedded = embedded + ops.cast(positions(embedded), embedded.dtype)
            return dropout(embedded)

        def encode(token_ids, padding_mask):
            """Return encoder outputs, and the scores of every layer."""
            x = embed(source_embedding(token_ids) * given.width**0.5, encoder_position, source_dropout)
            scores = []
            for layer, shared in zip(encoders, encoder_stack.given(x), strict=True):
                x, one = layer(x, padding_mask, shared=shared or None)
                scores.append(one)
            return (last_norms["encoder"](x) if last_norms else x), scores

        # === Functional Model ===
        inputs = translation_inputs()
        encoder_mask = inputs["encoder_padding_mask"]
        encoded, encoder_scores = encode(inputs["encoder_token_ids"], encoder_mask)
        embedded = target_embedding(inputs["decoder_token_ids"]) * given.width**0.5
        x = embed(embedded, decoder_position, target_dropout)
        decoder_scores, cross_scores, unmasked = [], [], []
        real = TargetMask(dtype="float32", name="target_mask")
        for layer, shared in zip(decoders, decoder_stack.given(x), strict=True):
            x, self_scores, scores = layer(x, encoded, encoder_mask, shared=shared or None)
            decoder_scores.append(real(self_scores, inputs["decoder_padding_mask"]))
            cross_scores.append(real(scores, inputs["decoder_padding_mask"]))
            unmasked.append(scores)
        aligned = unmasked if aligned_layer is None else unmasked[aligned_layer]
        if last_norms:
            x = last_norms["decoder"](x)
        outputs = {
            "encoder_sequence_output": encoded,
            "decoder_sequence_output": x,
            "decoder_embedding_output": embedded,
            "attention_scores": real(aligned, inputs["decoder_padding_mask"], head=aligned_head),
        }
        first_order = first_order_alignment(given, latent_head, outputs, inputs["decoder_token_ids"])
        super().__init__(inputs=inputs, outputs=outputs, dtype=dtype, name=given.name, trainable=given.trainable)

        # === Config ===
        self._keep(given, source_embedding, target_embedding, output_projection, latent_head, first_order)
        self.attention_outputs = {"encoder": encoder_scores, "decoder": decoder_scores, "cross": cross_scores}
        self.cross_attention_heads = [layer.num_heads for layer in cross_stack.layers]
        self._encode = encode
        self._decoders = decoders
        self._decoder_stack = decoder_stack
        self._positions = {"encoder": encoder_position, "decoder": decoder_position}
        self._last_norm = last_norms.get("decoder")

    @property
    def aligned_layers(self) -> list[AttentionLayer]:
        """The cross-attention layers of "attention_scores"."""
        layers, (layer, _) = [layer.cross_attention for layer in self._decoders], layer_and_head(self.attention_layer)
        return layers if layer is None else [layers[layer]]

    def _check_inputs(self, inputs):
        """Refuse own predictions, and sentences for which there are no positions."""
        if inputs.get("teacher_forcing_mask") is not None:
            raise UserError("a Transformer is trained only on given tokens: leave teacher_forcing_mask out.")
        for side, positions in self._positions.items():
            length, longest = inputs[f"{side}_token_ids"].shape[1], getattr(positions, "longest_sentence", None)
            if isinstance(length, int) and longest is not None and length > longest:
                raise UserError(
                    f"a sentence of {length} tokens is longer than max_length={longest}, for which the "
                    "positions were built: build the model with a larger one, or leave the sentence out."
                )

    def _search_constants(self, max_length):
        """Return the positions, and what every self-attention layer needs that depends only on weights and lengths."""
        constants = {"self": self._decoder_stack.memories(max_length), "length": max_length}
        if self._positions["decoder"] is not None:
            places = ops.zeros((1, max_length, self.width), dtype="float32")
            constants["positions"] = self._positions["decoder"](places)[0]
        return constants

    def _begin(self, encoder_token_ids, encoder_padding_mask, constants, beams):
        """Return encoder outputs, keys and values of layers with a state, and states; the rest become constants."""
        with scores_needed_of(()):
            encoded, _ = self._encode(encoder_token_ids, encoder_padding_mask)
        batch = ops.shape(encoder_token_ids)[0]
        memory = [layer.cross_attention.prepare(encoded, value_mask=encoder_padding_mask) for layer in self._decoders]
        states = [
            {
                "self": layer.self_attention.initial_state(of_target, batch_size=batch),
                "cross": layer.cross_attention.initial_state(of_source),
            }
            for layer, of_target, of_source in zip(self._decoders, constants["self"], memory, strict=True)
        ]
        # If a layer has no state, all hypotheses of a sentence share its keys and values.
        stateful = [bool(one["cross"]) for one in states]
        constants["source"] = [{} if own else shared for own, shared in zip(stateful, memory, strict=True)]
        memory = [own if one else {} for one, own in zip(stateful, memory, strict=True)]
        state = {"layers": states, "position": ops.zeros((batch,), dtype="int32")}
        by_sentence = shared_states([layer.self_attention for layer in self._decoders], constants["self"], batch, beams)
        if any(by_sentence):
            constants["beams"] = beams
            state |= {"by_sentence": by_sentence, "ancestors": ops.zeros((batch, constants["length"]), dtype="int32")}
            for one, shared in zip(states, by_sentence, strict=True):
                one["self"] = {} if shared else one["self"]
        return encoded, memory, state

    def _advance(self, token_ids, memory, state, constants):
        """Return embeddings and outputs of one position, the scores of all layers, and the next state."""
        embedded, x, scores, state = self._advance_everywhere(token_ids, memory, state, constants)
        return embedded, x, scores["cross"], state

    def _advance_everywhere(self, token_ids, memory, state, constants):
        """Do so, and return the scores of self-attention too."""
        embedded = x = self.target_embedding(token_ids) * self.width**0.5
        position = state["position"][0]
        if "positions" in constants:
            x = x + ops.cast(ops.take(constants["positions"], position, axis=0), x.dtype)
        new: TensorTree = {"layers": [], "position": state["position"] + 1}
        by_sentence, seen, visible = [{}] * len(self._decoders), [], {}
        if "by_sentence" in state:
            by_sentence, new["by_sentence"] = state["by_sentence"], seen
            new["ancestors"], visible["visible"] = descend(state["ancestors"], position, constants["beams"])
        scores = {"decoder": [], "cross": []}
        parts = self._decoders, constants["self"], constants["source"], memory, state["layers"], by_sentence
        for layer, of_target, of_source, own, one, shared in zip(*parts, strict=True):
            if shared:
                of_target, one = {**of_target, **visible}, {**one, "self": shared}
            x, found, one = layer.step(x, {"self": of_target, "cross": {**of_source, **own}}, one, position)
            scores["decoder"].append(found["self"])
            scores["cross"].append(found["cross"])
            new["layers"].append({**one, "self": {}} if shared else one)
            seen.append(one["self"] if shared else {})
        if self._last_norm is not None:
            x = self._last_norm(x)
        return embedded, x, scores, new
