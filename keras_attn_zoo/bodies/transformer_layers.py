"""Encoder and decoder layers of a Transformer, with any attention."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_attn_zoo.bodies.needed_scores import needs_scores
from keras_attn_zoo.bodies.nested_layers import build_once, deserialize_layers, serialize_layer
from keras_attn_zoo.layers import AttentionLayer
from keras_attn_zoo.layers.base.checks import check_choice, check_positive
from keras_attn_zoo.layers.base.dense import Dense, LinearMap
from keras_attn_zoo.layers.base.dropout import ActivationDropout, Dropout
from keras_attn_zoo.layers.base.layer_normalization import LayerNormalization, RMSNormalization
from keras_attn_zoo.layers.base.rematerialization import Rematerialized
from keras_attn_zoo.support.choices import ACTIVATIONS, GATES, NORMALIZATIONS, NORMS
from keras_attn_zoo.support.compat import layers_of
from keras_attn_zoo.support.types import Config, Shape, Tensor, TensorTree

NORM_LAYERS = {"layer": LayerNormalization, "rms": RMSNormalization}


class TransformerLayer(Rematerialized):
    """Base class of encoder and decoder layers: residual connections, normalisation, the feed-forward network.

        y = LN(x + dropout(f(x)))        normalization="post"
        y = x + dropout(f(LN(x)))        normalization="pre"

    for every part f, in order; the last one is f(x) = W_2 dropout(φ(W_1 x + b_1)) + b_2, or with a gate

        f(x) = W_2 dropout(φ(W_1 x + b_1) ⊙ (W_3 x + b_3)) + b_2        activation="swiglu" (φ silu), "geglu" (φ gelu)

    `parts` names the attentions of a subclass, which are its attributes and arguments.

    Args:
        width, ffn_dim: width of the model and of the network's hidden layer.
        normalization: "post" or "pre".
        dropout, activation_dropout: rates on the output of each part, and on the hidden layer.
        activation: φ: "relu", "silu" (also called swish), "gelu" or "tanh"; "swiglu" or "geglu".
        norm: LN: "layer", or "rms", normalisation by the root mean square.

    Raises:
        ValueError: an unknown normalisation or activation; sizes that are not positive integers; rates outside [0, 1].

    Source: Vaswani, sections 3.1 and 3.3; Shazeer, GLU variants improve Transformer, 2020, equation 6; Zhang and
    Sennrich, Root mean square layer normalization, 2019, equation 4.

    Differences from the papers: gated networks have the biases of the others.
    """

    parts: tuple[str, ...] = ()

    def __init__(
        self,
        width: int,
        ffn_dim: int,
        normalization: str,
        dropout: float,
        activation_dropout: float,
        activation: str = "relu",
        norm: str = "layer",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_choice(self, "normalization", normalization, NORMALIZATIONS)
        check_choice(self, "activation", activation, ACTIVATIONS)
        self.norm = check_choice(self, "norm", norm, NORMS)
        self.activation = activation
        self.width = width = check_positive(self, "width", width)
        ffn_dim = check_positive(self, "ffn_dim", ffn_dim)
        self.normalization = normalization
        policy = self.dtype_policy
        self.norms = {
            part: NORM_LAYERS[norm](epsilon=1e-5, dtype=policy, name=f"{part}_norm") for part in (*self.parts, "ffn")
        }
        self.ffn_hidden = Dense(ffn_dim, dtype=policy, name="ffn_hidden")
        self.ffn_gated = Dense(ffn_dim, dtype=policy, name="ffn_gated") if activation in GATES else None
        self.ffn_output = Dense(width, dtype=policy, name="ffn_output")
        self.residual_dropout = Dropout(dropout, dtype=policy)
        function = GATES.get(activation, activation)
        self.activation_dropout = ActivationDropout(activation_dropout, function, dtype=policy)

    def build_shared(self) -> None:
        """Build norms and network."""
        shape = (None, None, self.width)
        for norm in self.norms.values():
            norm.build(shape)
        self.ffn_hidden.build(shape)
        if self.ffn_gated is not None:
            self.ffn_gated.build(shape)
        self.ffn_output.build((None, None, self.ffn_hidden.units))
        self.built = True

    def around(self, part: str, x: Tensor, function: Callable[[Tensor], tuple], training: bool | None = None) -> tuple:
        """Run `function`, whose first result is the output, with residual connection and normalisation."""
        before = self.normalization == "pre"
        output, *others = function(self.norms[part](x) if before else x)
        x = x + self.residual_dropout(output, training=training)
        return (x if before else self.norms[part](x)), *others

    def feed_forward(self, x: Tensor, training: bool | None = None) -> Tensor:
        """Run the feed-forward network, the last part of every layer."""

        def network(x):
            # Positions as one axis: the gradients of the kernels are then products of two matrices.
            flat = ops.reshape(x, (-1, self.width))
            hidden = self.activation_dropout(self.ffn_hidden(flat), training=training)
            if self.ffn_gated is not None:
                hidden = hidden * self.ffn_gated(flat)
            return (ops.reshape(self.ffn_output(hidden), ops.shape(x)),)

        [x] = self.around("ffn", x, network, training)
        return x

    @classmethod
    def from_config(cls, config: Config) -> "TransformerLayer":
        """Create a layer from the result of `get_config`."""
        return cls(**deserialize_layers(config, *cls.parts))

    def get_config(self) -> Config:
        """Return the arguments of the constructor."""
        return {
            **super().get_config(),
            **{part: serialize_layer(getattr(self, part)) for part in self.parts},
            "width": self.width,
            "ffn_dim": self.ffn_hidden.units,
            "normalization": self.normalization,
            "dropout": self.residual_dropout.rate,
            "activation_dropout": self.activation_dropout.rate,
            "activation": self.activation,
            "norm": self.norm,
        }


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class TransformerEncoderLayer(TransformerLayer):
    """Self-attention, then the feed-forward network; see `TransformerLayer`.

    Args:
        attention: an `AttentionLayer` for self-attention.
        **kwargs: see `TransformerLayer`.

    Shapes: x `(batch, source, width)`, padding_mask `(batch, source)`, shared: additional arguments of the attention,
    see `SharedByLayers`; out: x, scores `(batch, heads, source, source)`, or None if nobody reads them.
    """

    parts = ("attention",)

    def __init__(self, attention: AttentionLayer, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.attention = attention

    def build(self, x_shape: Shape, padding_mask_shape: Shape | None = None, shared_shape: Any = None) -> None:
        """Build attention, norms and network."""
        build_once(self.attention, (None, None, self.width))
        self.build_shared()

    def call(
        self,
        x: Tensor,
        padding_mask: Tensor | None,
        shared: dict[str, Tensor] | None = None,
        training: bool | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Encode."""

        def attend(x):
            return attended(self.attention, x, query_mask=padding_mask, training=training, **(shared or {}))

        x, scores = self.around("attention", x, attend, training)
        return self.feed_forward(x, training), scores

    def compute_output_spec(self, x: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Return shapes and types."""
        scores = (x.shape[0], self.attention.num_heads, x.shape[1], x.shape[1])
        return keras.KerasTensor(x.shape, self.compute_dtype), keras.KerasTensor(scores, "float32")


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class TransformerDecoderLayer(TransformerLayer):
    """Causal self-attention, cross-attention, then the feed-forward network; see `TransformerLayer`.

    Args:
        self_attention, cross_attention: `AttentionLayer`s.
        **kwargs: see `TransformerLayer`.

    Shapes: x `(batch, target, width)`, encoded `(batch, source, width)`, encoder_mask `(batch, source)`, shared:
    additional arguments of self-attention, see `SharedByLayers`; out: x, scores of self-attention
    `(batch, heads, target, target)` and of cross-attention `(batch, heads, target, source)`, or None if nobody reads
    them.

    State of a step: `{"self": ..., "cross": ...}`, the states of the attentions.
    """

    parts = ("self_attention", "cross_attention")

    def __init__(self, self_attention: AttentionLayer, cross_attention: AttentionLayer, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.self_attention = self_attention
        self.cross_attention = cross_attention

    def build(
        self,
        x_shape: Shape,
        encoded_shape: Shape | None = None,
        encoder_mask_shape: Shape | None = None,
        shared_shape: Any = None,
    ) -> None:
        """Build attentions, norms and network."""
        shape = (None, None, self.width)
        build_once(self.self_attention, shape)
        build_once(self.cross_attention, shape, shape)
        self.build_shared()

    def call(
        self,
        x: Tensor,
        encoded: Tensor,
        encoder_mask: Tensor | None,
        shared: dict[str, Tensor] | None = None,
        training: bool | None = None,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Decode with given tokens as input."""

        def attend_to_target(x):
            return attended(self.self_attention, x, use_causal_mask=True, training=training, **(shared or {}))

        def attend_to_source(x):
            return attended(self.cross_attention, x, encoded, value_mask=encoder_mask, training=training)

        x, self_scores = self.around("self_attention", x, attend_to_target, training)
        x, cross_scores = self.around("cross_attention", x, attend_to_source, training)
        return self.feed_forward(x, training), self_scores, cross_scores

    def step_maps(self) -> list[LinearMap]:
        """Return the layers whose kernels `step` multiplies by: all but those of the source, which are used once."""
        once = [getattr(self.cross_attention, name, None) for name in ("key_dense", "value_dense")]
        return [one for one in layers_of(self) if isinstance(one, LinearMap) and one not in once]

    def step(
        self, x: Tensor, memory: TensorTree, state: TensorTree, position: int | Tensor | None = None
    ) -> tuple[Tensor, dict[str, Tensor], TensorTree]:
        """Decode one position `(batch, width)`, of that number: output, scores of "self" and "cross", state."""
        scores, new = {}, {}

        def attend(part, layer):
            def function(x):
                context, scores[part], new[part] = layer.step(x, memory[part], state[part], position=position)
                return context, scores[part]

            return function

        x, _ = self.around("self_attention", x, attend("self", self.self_attention))
        x, _ = self.around("cross_attention", x, attend("cross", self.cross_attention))
        return self.feed_forward(x), scores, new

    def compute_output_spec(
        self, x: Tensor, encoded: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return shapes and types."""
        batch, target, source = x.shape[0], x.shape[1], encoded.shape[1]
        return (
            keras.KerasTensor(x.shape, self.compute_dtype),
            keras.KerasTensor((batch, self.self_attention.num_heads, target, target), "float32"),
            keras.KerasTensor((batch, self.cross_attention.num_heads, target, source), "float32"),
        )


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class TargetMask(keras.layers.Layer):
    """Set the scores `(batch, heads, target, source)` of padded target positions to 0; without a mask, keep them.

    Scores of several layers, in a list, are joined along the heads; of `head`, only its own are returned. None remains
    None.
    """

    def call(
        self, scores: Tensor | list[Tensor] | None, padding_mask: Tensor | None = None, head: int | None = None
    ) -> Tensor | None:
        """Mask."""
        if _is_unread(scores):
            return None
        joined: Tensor = ops.concatenate(scores, axis=1) if isinstance(scores, list) else scores
        if head is not None:
            joined = joined[:, head : head + 1]
        if padding_mask is None:
            return joined
        return ops.where(ops.cast(padding_mask, "bool")[:, None, :, None], joined, 0.0)

    def compute_output_spec(self, scores: Any, padding_mask: Tensor | None = None, head: int | None = None) -> Any:
        """Return the shape and type."""
        if _is_unread(scores):
            return None
        layers = scores if isinstance(scores, list) else [scores]
        batch, _, target, source = layers[0].shape
        heads = 1 if head is not None else sum(one.shape[1] for one in layers)
        return keras.KerasTensor((batch, heads, target, source), layers[0].dtype)


def _is_unread(scores: Any) -> bool:
    return scores is None or (isinstance(scores, list) and any(one is None for one in scores))


def attended(attention: AttentionLayer, *args: Tensor, **options: Any) -> tuple[Tensor, Tensor | None]:
    """Call an attention layer; return context and scores, or None in their place if nobody reads them."""
    read = needs_scores(attention)
    found = attention(*args, return_attention_scores=read, **options)
    return found if read else (found, None)
