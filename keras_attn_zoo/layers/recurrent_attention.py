"""Recurrent attention (RAN): matrices of energies that a shared transition refines from layer to layer."""

from typing import Any

import keras
from keras import ops
from keras.quantizers import QuantizationConfig

from keras_attn_zoo.kernels import first
from keras_attn_zoo.layers.base.checks import check_choice, check_positive
from keras_attn_zoo.layers.base.position_attention import PositionAttention, check_length
from keras_attn_zoo.layers.base.rematerialization import Rematerialized
from keras_attn_zoo.layers.base.shared_by_layers import SharedByLayers
from keras_attn_zoo.layers.registry import attention
from keras_attn_zoo.support.configuration import Configured
from keras_attn_zoo.support.types import Initializer, Shape, Tensor, TensorTree


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class InitialAttention(Configured, keras.layers.Layer):
    """The matrices A_0 of recurrent attention, one per head, shared by the layers of one side.

    Use it once for an encoder or a decoder, before the first layer.

    Args:
        num_heads, max_length: N, and n, the longest sentence.
        causal: whether to keep only the lower triangle, as in the paper's decoder.
        initializer: initialiser of the matrices.
        trainable: False freezes them (the paper's ablation).

    Shapes: in `(batch, length, ...)`, of which only the length matters;
    out `(heads, length, max_length)`, the rows that are needed, in float32 under every policy.

    Raises:
        ValueError: a sentence longer than `max_length`.

    Example:
        >>> InitialAttention(num_heads=2, max_length=10)(keras.ops.ones((3, 5, 8)))  # (2, 5, 10)

    Source: Zeng, section 2.2.
    """

    def __init__(
        self,
        num_heads: int,
        max_length: int,
        causal: bool = False,
        initializer: Initializer = "random_normal",
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("dtype", "float32")
        super().__init__(**kwargs)
        # Matrices have no padding, so `compute_mask` drops the mask of the sequence.
        self.supports_masking = True
        self.num_heads = check_positive(self, "num_heads", num_heads)
        self.max_length = check_positive(self, "max_length", max_length)
        self.longest_sentence = self.max_length
        self.causal = bool(causal)
        self.initializer = keras.initializers.get(initializer)

    def build(self, input_shape: Shape | None = None) -> None:
        """Make A_0."""
        self.matrices = self.add_weight(
            name="matrices", shape=(self.num_heads, self.max_length, self.max_length), initializer=self.initializer
        )
        self.built = True

    def call(self, inputs: Tensor) -> Tensor:
        """Return the first rows, as many as there are positions."""
        return self.rows(ops.shape(inputs)[1])

    def rows(self, length: int | Tensor) -> Tensor:
        """Return the first `length` rows."""
        length = check_length(self, length, self.max_length)
        matrices = ops.convert_to_tensor(self.matrices)
        if self.causal:
            matrices = ops.tril(matrices)
        return first(matrices, length, axis=1)

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None) -> None:
        """Return None."""
        return None

    def compute_output_spec(self, inputs: Tensor) -> keras.KerasTensor:
        """Return the shape and type of the rows."""
        check_length(self, inputs.shape[1], self.max_length)
        return keras.KerasTensor((self.num_heads, inputs.shape[1], self.max_length), "float32")


class _Float32Dense(Rematerialized, keras.layers.Dense):
    """W and b of the transition, which stay float32 when a model is quantised."""

    def quantize(
        self, mode: str | None = None, type_check: bool = True, config: QuantizationConfig | None = None
    ) -> None:
        """Do nothing."""


CELLS = ("dense", "feed_forward", "gru", "lstm")


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class RecurrentTransition(Configured, Rematerialized):
    """The transition from the matrices of one layer to those of the next, shared by all layers and heads.

    Use it once for an encoder or a decoder, and apply it before each layer.

        A_l = LN(cell(A_{l-1})) + A_{l-1}

        dense:          cell(A) = tanh(W A + b)
        feed_forward:   cell(A) = W max(0, U A + d) + b
        gru:            cell(A) = (1 - z) A + z tanh(W (r A) + b),    z, r = σ(U A + d)
        lstm:           cell(A) = o tanh(C_l),   C_l = f C_{l-1} + i tanh(W A + b),   i, f, o = σ(U A + d),   C_0 = 0

    Symbols: A `(heads, length, max_length)`; W, b, U, d and LN act on the last
    axis, the attended position; every map has `max_length` outputs for each gate.

    Args:
        normalize, residual: False leaves out LN, or the addition (the paper's ablations).
        cell: "dense", the paper's; "feed_forward", "gru" or "lstm", which it names as alternatives.

    Shapes: `(heads, length, max_length)` in and out; of "lstm", C_l follows A_l on the last axis of the output, and is
    taken off the input. Rows do not depend on one another, so only those that a batch needs are computed.

    Raises:
        ValueError: an unknown cell.

    Example:
        >>> RecurrentTransition()(keras.ops.ones((2, 5, 10)))  # (2, 5, 10)

    Source: Zeng, equations 3 and 4, and section 2.3 for the other cells. The paper has LN; the authors' released code
    leaves it out.

    Differences from the paper: it gives no equations for the other cells. Here the matrix is their state, they have no
    other input, and LN and the addition follow as they do the paper's own.
    """

    def __init__(self, normalize: bool = True, residual: bool = True, cell: str = "dense", **kwargs: Any) -> None:
        kwargs.setdefault("dtype", "float32")
        super().__init__(**kwargs)
        self.normalize = bool(normalize)
        self.residual = bool(residual)
        self.cell = check_choice(self, "cell", cell, CELLS)

    def build(self, input_shape: Shape) -> None:
        """Make the maps of the cell and LN."""
        self.size = size = input_shape[-1]
        activation = None if self.cell == "feed_forward" else "tanh"
        self.dense = _Float32Dense(size, activation=activation, dtype=self.dtype_policy, name="dense")
        self.dense.build(input_shape)
        inner = {"feed_forward": (size, "relu"), "gru": (2 * size, "sigmoid"), "lstm": (3 * size, "sigmoid")}
        if self.cell in inner:
            units, activation = inner[self.cell]
            self.inner = _Float32Dense(units, activation=activation, dtype=self.dtype_policy, name="inner")
            self.inner.build(input_shape)
        if self.normalize:
            self.normalization = keras.layers.LayerNormalization(dtype=self.dtype_policy, name="normalization")
            self.normalization.build(input_shape)
        self.built = True

    def call(self, energies: Tensor) -> Tensor:
        """Return A_l."""
        energies, memory = energies[..., : self.size], energies[..., self.size :]
        if self.cell == "feed_forward":
            refined = self.dense(self.inner(energies))
        elif self.cell == "gru":
            update, reset = ops.split(self.inner(energies), 2, axis=-1)
            refined = (1.0 - update) * energies + update * self.dense(reset * energies)
        elif self.cell == "lstm":
            into, keep, out = ops.split(self.inner(energies), 3, axis=-1)
            added = into * self.dense(energies)
            memory = added if memory.shape[-1] == 0 else keep * memory + added
            refined = out * ops.tanh(memory)
        else:
            refined = self.dense(energies)
        if self.normalize:
            refined = self.normalization(refined)
        refined = refined + energies if self.residual else refined
        return ops.concatenate([refined, memory], axis=-1) if self.cell == "lstm" else refined

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        """Return the shape, which does not change, but for the memory of "lstm"."""
        size = self.size if self.built else input_shape[-1]
        return (*input_shape[:-1], 2 * size if self.cell == "lstm" else size)


class SharedMatrices(SharedByLayers):
    """The matrices of one side: initial ones, which a transition refines before each layer.

    The description of a layer may contain "max_length", "initializer" and "trainable" (False freezes them) for the
    initial matrices, and "normalize", "residual" and "cell" for the transition.
    """

    what = "matrices"
    of_initial = ("max_length", "initializer", "trainable")
    arguments = (*of_initial, "normalize", "residual", "cell")
    of_each = {"max_length": None, "causal": False}

    def __init__(self, place: str, max_length: int, num_heads: int = 1, **arguments: Any) -> None:
        of_initial = {key: arguments.pop(key) for key in self.of_initial if key in arguments}
        self.initial = InitialAttention(
            num_heads, max_length, causal=place == "decoder", name=f"{place}_initial_attention", **of_initial
        )
        self.transition = RecurrentTransition(name=f"{place}_transition", **arguments)

    @classmethod
    def asked_by(cls, layer: Any) -> dict[str, Any] | None:
        """Ask for one matrix per head, unless a layer has its own matrices."""
        return {"num_heads": layer.num_heads} if layer.max_length is None else None

    @classmethod
    def split(cls, arguments: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Split the arguments; whether the matrices are causal follows from their place."""
        if "causal" in arguments:
            raise ValueError("the place determines whether it is causal: leave causal out.")
        return super().split(arguments)

    def first(self, x: Tensor) -> dict[str, Tensor]:
        """Return A_1."""
        return {"energies": self.transition(self.initial(x))}

    def next(self, given: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return A_l, from A_{l-1}."""
        return {"energies": self.transition(given["energies"])}


@attention(
    "recurrent",
    source="Zeng 3-4 (RAN)",
    places=("encoder", "decoder"),
    year=2021,
    arguments=lambda sizes: {**sizes.heads, "max_length": sizes.max_length, "causal": sizes.place == "decoder"},
    cost=("1", "I²·d + I³·N once per batch", "I·d", "I·d values"),
)
class RecurrentAttention(PositionAttention):
    """Self-attention with learned matrices that are refined from layer to layer (RAN).

    Use it in place of self-attention if the pattern of positions is enough, with
    one set of matrices for all layers of a side. It must know the longest sentence.

    Use it alone, with its own matrices, or in a stack of layers that share them::

        energies = InitialAttention(num_heads=8, max_length=100)(x)
        transition = RecurrentTransition()
        for layer in layers:
            energies = transition(energies)
            x = x + layer(x, energies=energies)

    The equation, with A_l = A_{l-1} + LN(tanh(W A_{l-1} + b)) of `RecurrentTransition`, or of another of its cells:

        α^n = softmax(A_l^n),   c_i = Σ_n O^n Σ_j α_ij^n (W_v^n x_j) + b

    Symbols: x the input; A_0 `(heads, max_length, max_length)`, trained; n counts
    the heads; W_v `(width, heads, value_dim)`, O `(heads, value_dim, width)`.

    Args:
        num_heads, key_dim: number of heads; width of a value's head, unless `value_dim` is given.
        max_length: the longest sentence, for matrices of its own, A_1 from its own A_0; with None, pass `energies`
            in the call.
        causal: see `InitialAttention`; for the layer's own matrices.
        **kwargs: see `MultiHeadAttention`. The paper uses a dropout of 0.2.

    Shapes: `(batch, length, width)` in and out; scores `(batch, heads, length, length)`;
    energies, if given, `(heads, length, max_length)`.

    Masking: the softmax runs over the positions that may be attended to.

    State: the values so far, see `PositionAttention`; the softmax of the matrices is
    computed once per search, in `prepare(max_length=..., energies=...)`.

    Raises:
        ValueError: a sentence longer than `max_length`; neither `max_length` nor `energies`, or both; a value
            that is not the query.

    Example:
        >>> layer = RecurrentAttention(num_heads=2, key_dim=4, max_length=10)
        >>> context = layer(keras.ops.ones((3, 5, 8)))  # (3, 5, 8)

    Source: Zeng, section 2.2, equations 2 to 4.

    Differences from the paper: none known. The first layer already uses A_1; W
    acts on the attended position; the decoder's A_0 is lower triangular.
    """

    shared_by_layers = SharedMatrices
    beams_share = True

    def __init__(
        self, num_heads: int, key_dim: int, max_length: int | None = None, causal: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(num_heads, key_dim, **kwargs)
        max_length = check_positive(self, "max_length", max_length, optional=True)
        if causal and max_length is None:
            raise ValueError("RecurrentAttention: `causal` needs `max_length`. Received: max_length=None.")
        self.max_length = max_length
        self.causal = bool(causal)
        if max_length is not None:
            self.initial_attention = InitialAttention(num_heads, max_length, causal, name="initial_attention")
            self.transition = RecurrentTransition(name="transition")

    def build(self, query_shape: Shape, value_shape: Shape | None = None, key_shape: Shape | None = None) -> None:
        """Build the projections, and the layer's own matrices."""
        super().build(query_shape)
        if self.max_length is not None:
            self.initial_attention.build()
            self.transition.build((self.num_heads, None, self.max_length))

    def call(
        self,
        query: Tensor,
        value: Tensor | None = None,
        key: Tensor | None = None,
        query_mask: Tensor | None = None,
        value_mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        use_causal_mask: bool = False,
        mask: Tensor | None = None,
        energies: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Attend from every position, with given energies or the layer's own."""
        masks = query_mask if query_mask is not None else mask, value_mask, key_mask, attention_mask
        return self.run(query, value, key, masks, return_attention_scores, training, use_causal_mask, energies=energies)

    def compute_output_spec(
        self, query: Tensor, *args: Any, energies: Tensor | None = None, **kwargs: Any
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Return shapes and types without running the layer."""
        return super().compute_output_spec(query, *args, **kwargs)

    def prepare(
        self,
        value: Tensor | None = None,
        key: Tensor | None = None,
        value_mask: Tensor | None = None,
        max_length: int | None = None,
        energies: Tensor | None = None,
    ) -> TensorTree:
        """Project the values; for steps, apply the causal softmax to all rows instead."""
        if energies is not None:
            if self.max_length is not None:
                raise ValueError("RecurrentAttention: give `max_length` or `energies`, not both. Received: both.")
            length = max_length if value is None else ops.shape(value)[1]
            self._check_energies(energies, length)
            energies = energies[:, :length, :length]
        return super().prepare(value, key, value_mask, max_length, energies)

    def _check_energies(self, energies, length):
        """Raise if given energies have too few rows or columns."""
        shape, wanted = tuple(energies.shape), (self.num_heads, length, length)
        fits = len(shape) == 3 and shape[0] == self.num_heads
        for have, want in zip(shape[1:], wanted[1:], strict=False):
            fits = fits and (not isinstance(have, int) or not isinstance(want, int) or have >= want)
        if not fits:
            raise ValueError(
                "RecurrentAttention: `energies` must have shape (heads, length, max_length) of at least "
                f"{wanted}. Received: shape {shape}."
            )

    def position_energies(self, length: int | Tensor) -> Tensor:
        """Return A_1 from the layer's own A_0, with as many rows as there are positions."""
        if self.max_length is None:
            raise ValueError("RecurrentAttention: give `max_length`, or `energies` in the call. Received: neither.")
        length = check_length(self, length, self.max_length)
        return first(self.transition(self.initial_attention.rows(length)), length, axis=2)
