"""The base class of attention with heads: a value projection, dropout on weights, an output projection."""

import math
import numbers
from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from keras_attn_zoo.kernels import operand_dtype
from keras_attn_zoo.layers.base.attention_layer import AttentionLayer
from keras_attn_zoo.layers.base.checks import check_axis, check_choice, check_positive, check_rate, check_sizes
from keras_attn_zoo.layers.base.dropout import Dropout
from keras_attn_zoo.layers.base.heads import HeadMerge, HeadProjection
from keras_attn_zoo.layers.base.positions import POSITIONS, RelativePositions
from keras_attn_zoo.support.types import Config, Initializer, Shape, Tensor, TensorTree

# The options for kernels and biases, named as in Keras' own layer.
_OPTIONS = (
    "kernel_initializer",
    "bias_initializer",
    "kernel_regularizer",
    "bias_regularizer",
    "kernel_constraint",
    "bias_constraint",
    "activity_regularizer",
)
_GET = {"initializer": keras.initializers, "regularizer": keras.regularizers, "constraint": keras.constraints}


class HeadedAttention(AttentionLayer):
    """Base class of attention with heads: a value projection, weights, dropout, an output projection.

        c_i^n = Σ_j α_ij^n (W_v^n h_j),   c_i = Σ_n O^n c_i^n + b

    `projections` names what is projected into heads. Their weights come first, in this order, then those of the
    output projection, as in Keras' layer; weights that a mechanism adds come last.

    Args: see `MultiHeadAttention`; `key_dim` is the width of a value's head unless `value_dim` is given.
    """

    projections: tuple[str, ...] = ("value",)
    # Neither is inherited: a subclass may compute other weights. Whether contexts may be had without weights;
    takes_flash_attention = False
    # whether a call may attend along any axes, within a window, and to contexts with several axes.
    takes_axes = False
    # What is given in place of a window.
    in_place_of_window = "an `attention_mask`"
    # Why every head has keys and values of its own, without positions and norms; None if a mechanism takes these.
    plain_heads: str | None = "it compares no queries with keys"

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = True,
        output_shape: int | Sequence[int] | None = None,
        attention_axes: int | Sequence[int] | None = None,
        sliding_window: int | None = None,
        flash_attention: bool | None = None,
        kernel_initializer: Initializer = "glorot_uniform",
        bias_initializer: Initializer = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        use_gate: bool = False,
        seed: int | None = None,
        *,
        num_key_value_heads: int | None = None,
        positions: str | None = None,
        query_key_norm: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        given = locals()
        self._refuse_what_keras_alone_has(output_shape, attention_axes, sliding_window, flash_attention, use_gate)
        self.num_heads = check_positive(self, "num_heads", num_heads)
        self.key_dim = check_positive(self, "key_dim", key_dim)
        self.value_dim = check_positive(self, "value_dim", value_dim, optional=True) or self.key_dim
        self.dropout = check_rate(self, "dropout", dropout)
        self.flash_attention = flash_attention
        if flash_attention and (self.dropout or self.normalizer != "softmax"):
            raise ValueError(
                f"{type(self).__name__}: `flash_attention` takes no dropout and only the softmax: leave it out. "
                f"Received: dropout={dropout!r}, normalizer={self.normalizer!r}."
            )
        self.use_bias = bool(use_bias)
        self.output_axes = check_sizes(self, "output_shape", output_shape)
        self.output_width = math.prod(self.output_axes) if self.output_axes else None
        axes = attention_axes if isinstance(attention_axes, (list, tuple)) else [attention_axes]
        self.attention_axes = None if attention_axes is None else tuple(check_axis(self, axis) for axis in axes)
        self.sliding_window = check_positive(self, "sliding_window", sliding_window, optional=True)
        self.seed = int(seed) if isinstance(seed, numbers.Integral) else seed
        self._set_heads(num_key_value_heads, positions, query_key_norm)
        self.options = {name: _GET[name.split("_")[1]].get(given[name]) for name in _OPTIONS}
        # The attributes are named as in Keras' layer, so that its weight files can be read.
        for part in self.projections:
            width = self.value_dim if part == "value" else self.key_dim
            heads = self.num_heads if part == "query" else self.num_key_value_heads
            projection = HeadProjection(heads, width, self.use_bias, dtype=self.dtype_policy, name=part, **self.options)
            setattr(self, f"{part}_dense", projection)
        self._dropout_layer = Dropout(self.dropout, seed=self.seed, dtype=self.dtype_policy)

    @property
    def kernel_initializer(self) -> Initializer:
        """The initialiser of the projections, and of kernels that a mechanism adds by `add_kernel`."""
        return self.options["kernel_initializer"]

    def _set_heads(self, num_key_value_heads, positions, query_key_norm):
        """Keep what keys and values have besides their projections; raise if it does not fit."""
        name = type(self).__name__
        groups = check_positive(self, "num_key_value_heads", num_key_value_heads, optional=True)
        for argument, value in {
            "num_key_value_heads": groups,
            "positions": positions,
            "query_key_norm": query_key_norm,
        }.items():
            if self.plain_heads and value not in (None, False):
                raise ValueError(f"{name} takes no `{argument}`: {self.plain_heads}. Received: {argument}={value!r}.")
        self.num_key_value_heads = groups or self.num_heads
        if self.num_heads % self.num_key_value_heads:
            raise ValueError(
                f"{name}: `num_key_value_heads` must divide num_heads={self.num_heads}. "
                f"Received: num_key_value_heads={groups}."
            )
        self.positions = positions
        if positions is not None:
            check_choice(self, "positions", positions, POSITIONS)
            POSITIONS[positions].check(self)
            if self.flash_attention and POSITIONS[positions].bias is not RelativePositions.bias:
                raise ValueError(
                    f"{name}: `flash_attention` adds nothing to energies: leave it out, or choose rotary positions. "
                    f"Received: positions={positions!r}."
                )
        self.query_key_norm = bool(query_key_norm)

    def _refuse_what_keras_alone_has(self, output_shape, attention_axes, sliding_window, flash_attention, use_gate):
        """Raise if Keras' layer would compute something different from these layers."""
        axes = list(attention_axes) if isinstance(attention_axes, (list, tuple)) else [attention_axes]
        several = isinstance(output_shape, (list, tuple)) and len(output_shape) > 1
        takes_axes = type(self).__dict__.get("takes_axes")
        refusals = {
            "output_shape": (takes_axes or not several, "a context has one axis, its width"),
            "attention_axes": (takes_axes or axes in ([None], [1], [-2]), "it attends over the one axis of positions"),
            "sliding_window": (takes_axes or sliding_window is None, f"give the window as {self.in_place_of_window}"),
            "flash_attention": (
                not flash_attention or type(self).__dict__.get("takes_flash_attention"),
                "it computes the weights of a plain softmax alone",
            ),
            "use_gate": (not use_gate, "there is no gate"),
        }
        given = locals()
        for name, (taken, difference) in refusals.items():
            if not taken:
                raise ValueError(
                    f"{type(self).__name__}: `{name}` of keras.layers.MultiHeadAttention is not supported: "
                    f"{difference}. Received: {name}={given[name]!r}."
                )

    def build(self, query_shape: Shape, value_shape: Shape | None = None, key_shape: Shape | None = None) -> None:
        """Build the projections."""
        shapes = {"query": query_shape, "value": value_shape or query_shape}
        shapes["key"] = key_shape or shapes["value"]
        for part in self.projections:
            getattr(self, f"{part}_dense").build((None, None, shapes[part][-1]))
        self.built_widths = {part: shapes[part][-1] for part in self.projections}
        self.output_dense = HeadMerge(
            self.output_axes or (query_shape[-1],),
            self.use_bias,
            dtype=self.dtype_policy,
            name="attention_output",
            **self.options,
        )
        self.output_dense.build((None, self.num_heads, None, self.value_dim))
        self.built = True

    def add_projection(self, name: str, width: int, query_shape: Shape, use_bias: bool = True) -> None:
        """Add a projection of the query into heads, such as a gate, as `NAME_dense`; called in `build`."""
        projection = HeadProjection(
            self.num_heads, width, use_bias and self.use_bias, dtype=self.dtype_policy, name=name, **self.options
        )
        projection.build((None, None, query_shape[-1]))
        setattr(self, f"{name}_dense", projection)

    @property
    def weights(self) -> list[keras.Variable]:
        """All weights; those that a mechanism adds come after those that Keras' layer has too."""
        return self._projections_first(super().weights)

    @property
    def variables(self) -> list[keras.Variable]:
        """All weights and random states, in the order of `weights`."""
        return self._projections_first(super().variables)

    def _projections_first(self, variables):
        return sorted(variables, key=lambda v: "/" not in v.path.removeprefix(f"{self.path}/"))

    @property
    def operand_dtype(self) -> str:
        """The type of projected keys and values, and of the weights on these."""
        return operand_dtype(self.compute_dtype)

    def drop(self, weights: Tensor, training: bool | None) -> Tensor:
        """Return the weights under dropout, in the type of products with values."""
        weights = ops.cast(weights, self.operand_dtype)
        if not self.dropout or training is False:
            # A call of a layer costs more than some steps of a search.
            return weights
        return self._dropout_layer(weights, training=training)

    def draw_noise(self, memory: TensorTree, length: int | Tensor) -> TensorTree | None:
        """Draw the dropout on the weights of every step."""
        if not self.dropout:
            return None
        batch, source = ops.shape(memory["mask"])
        return self._noise((length, batch, self.num_heads, source))

    def _noise(self, shape):
        """Factors that drop or scale a weight."""
        return self.drop(ops.ones(shape), training=True)

    def weigh(
        self, weights: Tensor, memory: TensorTree, mask: Tensor | None = None, training: bool | None = None
    ) -> Tensor:
        """Return the contexts of all heads, joined."""
        return self.merge(self.weighted(self.drop(weights, training), memory["value"]), mask)

    def weighted(self, weights: Tensor, value: Tensor) -> Tensor:
        """Return contexts `(batch, heads, target, value_dim)` of projected values."""
        return self.by_group(ops.matmul, weights, value)

    def by_group(self, product: Callable[[Tensor, Tensor], Tensor], x: Tensor, y: Tensor) -> Tensor:
        """Return products of what every head has with what it shares with the other heads of its group.

        The heads of a group are neighbours, so that they become more rows of one product, and nothing is copied.

        Args:
            product: function of both.
            x: `(batch, heads, rows, ...)`.
            y: `(batch, num_key_value_heads, ...)`.
        """
        size = self.num_heads // self.num_key_value_heads
        if size == 1:
            return product(x, y)
        batch, _, rows, width = ops.shape(x)
        found = product(ops.reshape(x, (batch, self.num_key_value_heads, size * rows, width)), y)
        return ops.reshape(found, (ops.shape(found)[0], self.num_heads, rows, ops.shape(found)[-1]))

    def project(self, part: str, x: Tensor, positions: int | Tensor | None = None) -> Tensor:
        """Return the projection of a part, `(batch, heads, length, ...)`, of x `(batch, length, width)`.

        `positions` are their numbers, or that of all; None if they begin at 0.
        """
        return getattr(self, f"{part}_dense")(x)

    def merge(self, contexts: Tensor, mask: Tensor | None) -> Tensor:
        """Merge the heads' contexts `(batch, heads, target, value_dim)`; 0 in a row with nothing to attend to."""
        return self.without_empty_rows(self.output_dense(contexts), mask)

    def without_empty_rows(self, merged: Tensor, mask: Tensor | None) -> Tensor:
        """Return contexts `(batch, target, width)`, set to 0 in a row with nothing to attend to."""
        if mask is None:
            return merged
        return ops.where(ops.any(mask, axis=(1, 3))[..., None], merged, 0.0)

    def context_width(self, query_shape: Shape, value_shape: Shape) -> int | None:
        """Return the width of the context."""
        return self.output_width or query_shape[-1]

    def get_config(self) -> Config:
        """Return the arguments of the constructor."""
        of_heads = ("num_key_value_heads", "positions", "query_key_norm")
        return {
            **super().get_config(),
            **({} if self.plain_heads else {name: getattr(self, name) for name in of_heads}),
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "dropout": self.dropout,
            "use_bias": self.use_bias,
            "output_shape": self.output_axes if self.output_axes and len(self.output_axes) > 1 else self.output_width,
            "seed": self.seed,
            **{name: _GET[name.split("_")[1]].serialize(value) for name, value in self.options.items()},
        }
