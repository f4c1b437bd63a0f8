"""The body of the RNN translator: RNN encoder, attention, RNN decoder."""

import keras
from keras import ops

from keras_attn_zoo.bodies.backbone import (
    TranslationBackbone,
    check_alignment,
    embedding_layers,
    first_order_alignment,
    output_layer,
    policy_of,
)
from keras_attn_zoo.bodies.model_inputs import translation_inputs
from keras_attn_zoo.bodies.readout import Readout
from keras_attn_zoo.bodies.recurrent_layers import GRU, LSTM
from keras_attn_zoo.bodies.rnn_decoder import STATES_OF_CELL, RNNDecoder
from keras_attn_zoo.bodies.schema import BODIES, RNNArguments, takes
from keras_attn_zoo.layers import AttentionLayer, get_attention
from keras_attn_zoo.layers.base.dropout import Dropout
from keras_attn_zoo.support.errors import UserError

ENCODER_LAYERS = {"gru": GRU, "lstm": LSTM}


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class RNNBackbone(TranslationBackbone):
    """RNN encoder-decoder with any cross-attention.

    Use it for the systems of Hiemsch (`cross_attention="bahdanau"` and "uniform") and, with
    `attention_query="current_state"` and input feeding, for Luong's. See `RNNDecoder` for the equations of both orders.

        h = bi-RNN(e(x_1..x_J)),  s_0 = W [last forward state ; last backward state]

    Args:
        source_vocabulary_size, target_vocabulary_size: sizes of the vocabularies.
        embedding_dim: width of the embeddings.
        hidden_dim: width of decoder states, and of encoder states per direction.
        cell: "gru" or "lstm".
        encoder_layers, decoder_layers: number of layers.
        bidirectional: whether the encoder reads in both directions.
        cross_attention: a name of `keras_attn_zoo.layers.ATTENTIONS`, or an `AttentionLayer`.
        attention_query: "previous_state" or "current_state" of the decoder.
        input_feeding: whether the previous readout is fed into the decoder cells.
        posterior_feeding: whether the posterior context of the previous position is, see `RNNDecoder`.
        readout: "linear", "tanh", "maxout", or "state", which uses the decoder state alone.
        readout_dim: width of the readout; by default the full concatenation for "linear",
            and `hidden_dim` for the others (`embedding_dim` with tied embeddings).
        readout_embedding: whether the readout includes the embedding of the previous token.
        initial_state: "linear" or "tanh", the map from the encoder's final states.
        tie_embeddings: "none"; "target" shares target embedding and output matrix; "all" the source embedding too.
        dropout: rate on embeddings, between layers, and on the readout.
        output: "softmax", or "latent": a `LatentAlignmentHead` whose lexicon sees the readout; the paper has no
            context there, as with "state".
        marginalization, top_k, top_k_gradient: how a latent alignment is summed in training, see `LatentAlignmentHead`.
        max_jump: None, or D of a `FirstOrderAlignment`: the alignment is then a hidden Markov model.
        dtype: dtype policy of all layers.

    Inputs, a dict: "encoder_token_ids" `(batch, source)`, "encoder_padding_mask" (true on tokens), "decoder_token_ids"
    `(batch, target)`, and two optional ones: "decoder_padding_mask" `(batch, target)`, which sets the scores of padded
    positions to 0, and "teacher_forcing_mask" `(batch, target)`: where it is false, the decoder is fed its own
    prediction instead of the given token, which a latent alignment does not support. Outputs: see
    `TranslationBackbone`.

    Raises:
        UserError: an unknown name, or arguments that do not fit together.

    Example:
        >>> backbone = RNNBackbone(100, 100, embedding_dim=8, hidden_dim=16)
        >>> backbone({
        ...     "encoder_token_ids": np.ones((2, 5), "int32"),
        ...     "encoder_padding_mask": np.ones((2, 5), "bool"),
        ...     "decoder_token_ids": np.ones((2, 4), "int32"),
        ... })["attention_scores"]  # (2, 1, 4, 5)

    Source: Hiemsch, section 4; Dang, sections 2.3 and 2.4; Bahar, section 6.

    Differences from the paper: Hiemsch's readout gets the new state s_i, as in Bahdanau's original; the text says
    s_{i-1}. The same holds for Bahar's lexicon (equation 12), in a decoder that attends before its cells: s_i has seen
    the context c_i, which the text keeps out of the lexicon.
    """

    arguments = RNNArguments
    feeds_itself = BODIES["rnn"].feeds_itself

    @takes(RNNArguments)
    def __init__(self, given: RNNArguments) -> None:
        dtype, tied = policy_of(given.dtype), given.tie_embeddings != "none"

        # === Layers ===
        source_embedding, target_embedding = embedding_layers(given, given.embedding_dim, stddev=0.1, dtype=dtype)
        encoders = []
        for i in range(given.encoder_layers):
            layer = ENCODER_LAYERS[given.cell](
                given.hidden_dim, return_sequences=True, return_state=True, dtype=dtype, name=f"encoder_{i}"
            )
            if given.bidirectional:
                layer = keras.layers.Bidirectional(layer, dtype=dtype, name=f"encoder_{i}")
            encoders.append(layer)
        bridges = [
            keras.layers.Dense(given.hidden_dim, activation=given.initial_state, dtype=dtype, name=f"initial_state_{i}")
            for i in range(given.decoder_layers * STATES_OF_CELL[given.cell])
        ]
        output_projection, latent_head = output_layer(
            given, given.embedding_dim, target_embedding if tied else None, dtype
        )
        attention = get_attention(given.cross_attention, given.hidden_dim, dtype=dtype, name="cross_attention")
        check_alignment(given.output, attention)
        decoder = RNNDecoder(
            attention=attention,
            target_embedding=target_embedding,
            readout=Readout(given.readout, given.readout_dim, dtype=dtype, name="readout"),
            output_projection=output_projection,
            posterior_head=latent_head if given.posterior_feeding else None,
            embedding_dim=given.embedding_dim,
            encoder_dim=given.hidden_dim * (2 if given.bidirectional else 1),
            cell=given.cell,
            hidden_dim=given.hidden_dim,
            num_layers=given.decoder_layers,
            attention_query=given.attention_query,
            input_feeding=given.input_feeding,
            readout_embedding=given.readout_embedding,
            dropout=given.dropout,
            dtype=dtype,
            name="decoder",
        )
        source_dropout = Dropout(given.dropout, dtype=dtype, name="source_dropout")
        encoder_dropouts = [
            Dropout(given.dropout, dtype=dtype, name=f"encoder_dropout_{i}") for i in range(1, given.encoder_layers)
        ]

        def encode(token_ids, padding_mask):
            """Return encoder outputs, and the initial states of the decoder."""
            x = source_dropout(source_embedding(token_ids))
            last_states = []
            for i, layer in enumerate(encoders):
                if i > 0:
                    x = encoder_dropouts[i - 1](x)
                x, *states = layer(x, mask=padding_mask)
                last_states.append(states)
            per_cell = STATES_OF_CELL[given.cell]
            initial = []
            for i in range(given.decoder_layers):
                # Layer by layer if there are as many encoder layers, otherwise all from the top one.
                states = last_states[i] if given.encoder_layers == given.decoder_layers else last_states[-1]
                for k in range(per_cell):
                    joined = ops.concatenate(states[k::per_cell], axis=-1) if given.bidirectional else states[k]
                    initial.append(bridges[i * per_cell + k](joined))
            return x, initial

        # === Functional Model ===
        inputs = translation_inputs()
        encoder_outputs, initial_states = encode(inputs["encoder_token_ids"], inputs["encoder_padding_mask"])
        readouts, scores = decoder(
            inputs["decoder_token_ids"],
            encoder_outputs,
            initial_states,
            encoder_mask=inputs["encoder_padding_mask"],
            padding_mask=inputs["decoder_padding_mask"],
            teacher_forcing_mask=inputs["teacher_forcing_mask"],
        )
        outputs = {
            "encoder_sequence_output": encoder_outputs,
            "decoder_sequence_output": readouts,
            "decoder_embedding_output": target_embedding(inputs["decoder_token_ids"]),
            "attention_scores": scores,
        }
        first_order = first_order_alignment(given, latent_head, outputs, inputs["decoder_token_ids"])
        super().__init__(inputs=inputs, outputs=outputs, dtype=dtype, name=given.name, trainable=given.trainable)

        # === Config ===
        self.decoder = decoder
        self._keep(given, source_embedding, target_embedding, output_projection, latent_head, first_order)
        self.attention_outputs = {"cross": [scores]}
        self.cross_attention_heads = [decoder.attention.num_heads]
        self._encode = encode

    @property
    def aligned_layers(self) -> list[AttentionLayer]:
        """The cross-attention of "attention_scores"."""
        return [self.decoder.attention]

    def _check_inputs(self, inputs):
        """Refuse own predictions for a latent alignment."""
        if self.latent_head is not None and inputs.get("teacher_forcing_mask") is not None:
            raise UserError("a latent alignment is trained only on given tokens: leave teacher_forcing_mask out.")

    def _begin(self, encoder_token_ids, encoder_padding_mask, constants, beams):
        """Return encoder outputs, and the memory and first state of a search."""
        outputs, initial_states = self._encode(encoder_token_ids, encoder_padding_mask)
        memory = self.decoder.prepare(outputs, encoder_padding_mask)
        return outputs, memory, self.decoder.initial_state(memory, initial_states)

    def _advance(self, token_ids, memory, state, constants):
        """Return embedding and readout of one position, the scores, and the next state."""
        readout, scores, state = self.decoder.step(token_ids, memory, state)
        return self.target_embedding(token_ids), readout, [scores], state
