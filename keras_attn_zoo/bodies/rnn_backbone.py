"""The body of the RNN translator: RNN encoder, attention, RNN decoder."""

from typing import Any

import keras
from keras import ops

from keras_attn_zoo.bodies.backbone import (
    AttentionChoice,
    TranslationBackbone,
    attention_config,
    build_output,
    check_alignment,
    check_one_of,
    check_vocabularies,
    embedding_layers,
    output_layer,
    policy_of,
)
from keras_attn_zoo.bodies.model_inputs import translation_inputs
from keras_attn_zoo.bodies.readout import Readout
from keras_attn_zoo.bodies.recurrent_layers import GRU, LSTM
from keras_attn_zoo.bodies.rnn_decoder import STATES_OF_CELL, RNNDecoder
from keras_attn_zoo.layers import get_attention
from keras_attn_zoo.layers.base.dropout import Dropout
from keras_attn_zoo.support.choices import ATTENTION_QUERIES, CELLS, INITIAL_STATES, READOUTS
from keras_attn_zoo.support.errors import UserError, check_counts, check_rates
from keras_attn_zoo.support.types import Config, DType

ENCODER_LAYERS = {"gru": GRU, "lstm": LSTM}


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class RNNBackbone(TranslationBackbone):
    """RNN encoder-decoder with any cross-attention.

    Use it for the systems of Hiemsch (`cross_attention="bahdanau"` and
    "uniform") and, with `attention_query="current_state"` and input feeding,
    for Luong's. See `RNNDecoder` for the equations of both orders.

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
        readout: "linear", "tanh", "maxout", or "state", which uses the decoder state alone.
        readout_dim: width of the readout; by default the full concatenation for "linear",
            and `hidden_dim` for the others (`embedding_dim` with tied embeddings).
        readout_embedding: whether the readout includes the embedding of the previous token.
        initial_state: "linear" or "tanh", the map from the encoder's final states.
        tie_embeddings: "none"; "target" shares target embedding and output matrix; "all" the source embedding too.
        dropout: rate on embeddings, between layers, and on the readout.
        output: "softmax", or "latent": a `LatentAlignmentHead` whose lexicon sees the readout; the paper has no
            context there, as with "state".
        marginalization, top_k: how a latent alignment is summed in training, "exact" or "top_k".
        dtype: dtype policy of all layers.

    Inputs, a dict: "encoder_token_ids" `(batch, source)`, "encoder_padding_mask"
    (true on tokens), "decoder_token_ids" `(batch, target)`, and two optional ones:
    "decoder_padding_mask" `(batch, target)`, which sets the scores of padded
    positions to 0, and "teacher_forcing_mask" `(batch, target)`: where it is
    false, the decoder is fed its own prediction instead of the given token, which
    a latent alignment does not support. Outputs: see `TranslationBackbone`.

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

    Differences from the paper: Hiemsch's readout gets the new state s_i, as in
    Bahdanau's original; the text says s_{i-1}. The same holds for Bahar's
    lexicon (equation 12), in a decoder that attends before its cells: s_i has
    seen the context c_i, which the text keeps out of the lexicon.
    """

    feeds_itself = True

    def __init__(
        self,
        source_vocabulary_size: int,
        target_vocabulary_size: int,
        embedding_dim: int = 256,
        hidden_dim: int = 512,
        cell: str = "gru",
        encoder_layers: int = 1,
        decoder_layers: int = 1,
        bidirectional: bool = True,
        cross_attention: AttentionChoice = "bahdanau",
        attention_query: str = "previous_state",
        input_feeding: bool = False,
        readout: str = "linear",
        readout_dim: int | None = None,
        readout_embedding: bool = True,
        initial_state: str = "linear",
        tie_embeddings: str = "none",
        dropout: float = 0.0,
        output: str = "softmax",
        marginalization: str = "exact",
        top_k: int = 6,
        dtype: DType = None,
        **kwargs: Any,
    ) -> None:
        check_counts(
            source_vocabulary_size=source_vocabulary_size,
            target_vocabulary_size=target_vocabulary_size,
            embedding_dim=embedding_dim,
            hidden_dim=hidden_dim,
            encoder_layers=encoder_layers,
            decoder_layers=decoder_layers,
        )
        check_rates(dropout=dropout)
        check_one_of("cell", cell, CELLS)
        check_one_of("attention_query", attention_query, ATTENTION_QUERIES)
        check_one_of("readout", readout, READOUTS)
        check_one_of("initial_state", initial_state, INITIAL_STATES)
        check_vocabularies(tie_embeddings, source_vocabulary_size, target_vocabulary_size)
        if tie_embeddings != "none" and readout_dim not in (None, embedding_dim):
            raise UserError(
                f"tied embeddings need readout_dim = embedding_dim = {embedding_dim}; received {readout_dim}."
            )
        tied = tie_embeddings != "none"
        if tied and (output, readout) == ("softmax", "state") and hidden_dim != embedding_dim:
            raise UserError(
                f"tied embeddings and readout='state' need hidden_dim = embedding_dim = {embedding_dim}; "
                f"received {hidden_dim}."
            )
        if readout_dim is None and readout != "state" and (tied or readout != "linear"):
            readout_dim = embedding_dim if tied else hidden_dim
        dtype = policy_of(dtype)

        # === Layers ===
        source_embedding, target_embedding = embedding_layers(
            tie_embeddings, source_vocabulary_size, target_vocabulary_size, embedding_dim, stddev=0.1, dtype=dtype
        )
        encoders = []
        for i in range(encoder_layers):
            layer = ENCODER_LAYERS[cell](
                hidden_dim, return_sequences=True, return_state=True, dtype=dtype, name=f"encoder_{i}"
            )
            if bidirectional:
                layer = keras.layers.Bidirectional(layer, dtype=dtype, name=f"encoder_{i}")
            encoders.append(layer)
        bridges = [
            keras.layers.Dense(hidden_dim, activation=initial_state, dtype=dtype, name=f"initial_state_{i}")
            for i in range(decoder_layers * STATES_OF_CELL[cell])
        ]
        output_projection, latent_head = output_layer(
            output,
            target_vocabulary_size,
            embedding_dim,
            target_embedding if tied else None,
            marginalization,
            top_k,
            dtype,
        )
        attention = get_attention(cross_attention, hidden_dim, dtype=dtype, name="cross_attention")
        check_alignment(output, attention)
        decoder = RNNDecoder(
            attention=attention,
            target_embedding=target_embedding,
            readout=Readout(readout, readout_dim, dtype=dtype, name="readout"),
            output_projection=output_projection,
            embedding_dim=embedding_dim,
            encoder_dim=hidden_dim * (2 if bidirectional else 1),
            cell=cell,
            hidden_dim=hidden_dim,
            num_layers=decoder_layers,
            attention_query=attention_query,
            input_feeding=input_feeding,
            readout_embedding=readout_embedding,
            dropout=dropout,
            dtype=dtype,
            name="decoder",
        )
        source_dropout = Dropout(dropout, dtype=dtype, name="source_dropout")
        encoder_dropouts = [
            Dropout(dropout, dtype=dtype, name=f"encoder_dropout_{i}") for i in range(1, encoder_layers)
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
            per_cell = STATES_OF_CELL[cell]
            initial = []
            for i in range(decoder_layers):
                # Layer by layer if there are as many encoder layers, otherwise all from the top one.
                states = last_states[i] if encoder_layers == decoder_layers else last_states[-1]
                for k in range(per_cell):
                    joined = ops.concatenate(states[k::per_cell], axis=-1) if bidirectional else states[k]
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
        super().__init__(
            inputs=inputs,
            outputs={
                "encoder_sequence_output": encoder_outputs,
                "decoder_sequence_output": readouts,
                "decoder_embedding_output": target_embedding(inputs["decoder_token_ids"]),
                "attention_scores": scores,
            },
            dtype=dtype,
            **kwargs,
        )

        # === Config ===
        self.source_vocabulary_size = source_vocabulary_size
        self.target_vocabulary_size = target_vocabulary_size
        self.embedding_dim = embedding_dim
        self.hidden_dim = hidden_dim
        self.cell = cell
        self.encoder_layers = encoder_layers
        self.decoder_layers = decoder_layers
        self.bidirectional = bidirectional
        self.cross_attention = cross_attention
        self.attention_query = attention_query
        self.input_feeding = input_feeding
        self.readout = readout
        self.readout_dim = readout_dim
        self.readout_embedding = readout_embedding
        self.initial_state = initial_state
        self.tie_embeddings = tie_embeddings
        self.dropout = dropout
        self.marginalization = marginalization
        self.top_k = top_k
        self.source_embedding = source_embedding
        self.target_embedding = target_embedding
        self.token_embedding = target_embedding
        self.decoder = decoder
        self.output_projection = output_projection
        self.latent_head = latent_head
        build_output(self)
        self.attention_outputs = {"cross": [scores]}
        self.cross_attention_heads = [decoder.attention.num_heads]
        self._encode = encode

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

    def get_config(self) -> Config:
        """Return the arguments of the constructor."""
        return {
            **super().get_config(),
            "source_vocabulary_size": self.source_vocabulary_size,
            "target_vocabulary_size": self.target_vocabulary_size,
            "embedding_dim": self.embedding_dim,
            "hidden_dim": self.hidden_dim,
            "cell": self.cell,
            "encoder_layers": self.encoder_layers,
            "decoder_layers": self.decoder_layers,
            "bidirectional": self.bidirectional,
            "cross_attention": attention_config(self.cross_attention),
            "attention_query": self.attention_query,
            "input_feeding": self.input_feeding,
            "readout": self.readout,
            "readout_dim": self.readout_dim,
            "readout_embedding": self.readout_embedding,
            "initial_state": self.initial_state,
            "tie_embeddings": self.tie_embeddings,
            "dropout": self.dropout,
            "output": "softmax" if self.latent_head is None else "latent",
            "marginalization": self.marginalization,
            "top_k": self.top_k,
        }
