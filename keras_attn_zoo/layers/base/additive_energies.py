"""The additive energy vᵀ tanh(q + k), without a tensor of every pair of positions in memory."""

from typing import Any

import keras
from keras import ops

from keras_attn_zoo import kernels
from keras_attn_zoo.kernels import each, recomputed
from keras_attn_zoo.layers.base.kernel_initialization import add_kernel
from keras_attn_zoo.support.types import Shape, Tensor


def add_additive_weights(layer: Any, query_shape: Shape, key_shape: Shape) -> None:
    """Create W, U, b and v of an energy vᵀ tanh(W s + U h + b), for a layer with `units` and `kernel_initializer`."""
    widths = {"query": query_shape[-1], "key": key_shape[-1]}
    layer.built_widths = widths
    for part, width in widths.items():
        setattr(layer, f"{part}_kernel", add_kernel(layer, f"{part}_kernel", (width, layer.units)))
    layer.bias = layer.add_weight(name="bias", shape=(layer.units,), initializer="zeros")
    layer.energy_kernel = add_kernel(layer, "energy_kernel", (layer.units, 1))


def energy_vector(layer: keras.layers.Layer) -> Tensor:
    """Return v, `(units,)`, from the `energy_kernel` of a layer."""
    return ops.squeeze(layer.weight(layer.energy_kernel), -1)


def linear(layer: keras.layers.Layer, x: Tensor, kernel: keras.Variable, bias: keras.Variable | None = None) -> Tensor:
    """Return x W + b along the last axis, in the type of x, given weights of a layer."""
    bias = None if bias is None else layer.weight(bias)
    return kernels.linear(x, kernel, bias, compute_dtype=layer.compute_dtype)


@recomputed
def position_energies(query: Tensor, key: Tensor, vector: Tensor) -> Tensor:
    """Return the energies of one target position, or of several along an axis before the others: vᵀ tanh(q_i + k_j).

    Recomputed in the backward pass, so that training keeps no tensor of target · source · units.

    Args:
        query: `(batch, units)`, projected.
        key: `(batch, source, units)`, projected.
        vector: v, `(units,)`.

    Returns:
        `(batch, source)`.
    """
    return ops.matmul(ops.tanh(query[..., None, :] + key), vector)


@recomputed
def position_energies_with_record(query: Tensor, key: Tensor, vector: Tensor, record: Tensor, kernel: Tensor) -> Tensor:
    """Return energies of one target position, given a vector per source position: vᵀ tanh(q_i + k_j + r_j V).

    Args:
        query: `(batch, 1, units)`, projected.
        key, vector: see `position_energies`; recomputed in the backward pass like there.
        record: r, `(batch, source, width)`.
        kernel: V, `(width, units)`.

    Returns:
        `(batch, source)`.
    """
    # No name for what is as large as the keys: it is freed, and its memory used again, before the next of its size.
    return ops.matmul(ops.tanh(query + key + ops.matmul(record, kernel)), vector)


def additive_energies(query: Tensor, key: Tensor, vector: Tensor) -> Tensor:
    """Compute the energies of all target positions, one after the other: e_ij = vᵀ tanh(q_i + k_j).

    Args:
        query: `(batch, target, units)`, projected.
        key: `(batch, source, units)`, projected.
        vector: v, `(units,)`.

    Returns:
        `(batch, 1, target, source)`.
    """
    if query.shape[1] == 1:
        return position_energies(query[:, 0], key, vector)[:, None, None]
    energies = each(lambda q: position_energies(q, key, vector), ops.transpose(query, (1, 0, 2)))
    return ops.transpose(energies, (1, 0, 2))[:, None]
