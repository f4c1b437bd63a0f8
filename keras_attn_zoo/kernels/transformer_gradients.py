"""Backward passes of what stands between a Transformer's products, written by hand, each beside a plain form."""

from keras import ops

from keras_attn_zoo.kernels.function_transforms import custom_gradient
from keras_attn_zoo.kernels.gradients import upstream_of
from keras_attn_zoo.support.types import Tensor


def plain_dropped_relu(x: Tensor, kept: Tensor, keep: float) -> Tensor:
    """The plain form of `dropped_relu`."""
    return ops.where(kept, ops.relu(x) / ops.cast(keep, x.dtype), ops.zeros((), x.dtype))


def dropped_relu(x: Tensor, kept: Tensor, keep: float) -> Tensor:
    """Return the ReLU of x, scaled by 1 / keep where it is kept; the gradient needs the result alone."""

    @custom_gradient
    def of(x, kept):
        found = plain_dropped_relu(x, kept, keep)

        def gradient(*args, upstream=None):
            scaled = upstream_of(args, upstream) / ops.cast(keep, x.dtype)
            return ops.where(found > 0, scaled, ops.zeros((), x.dtype)), None

        return found, gradient

    return of(x, ops.convert_to_tensor(kept))


def plain_layer_normalized(x: Tensor, gamma: Tensor, beta: Tensor, epsilon: float) -> Tensor:
    """The plain form of `layer_normalized`."""
    return ops.layer_normalization(ops.cast(x, "float32"), gamma, beta, -1, epsilon)


def layer_normalized(x: Tensor, gamma: Tensor, beta: Tensor, epsilon: float) -> Tensor:
    """Return γ n + β with n = (x - mean x) / σ, in float32, over the last axis of x.

    With u the upstream gradient and means over that axis, that of x is (γu - mean(γu) - n mean(γu n)) / σ. Means are
    products with γ, and sums over rows products with ones, which read u and u n once for all.
    """

    @custom_gradient
    def of(x, gamma, beta):
        wide = ops.cast(x, "float32")
        centered = wide - ops.mean(wide, axis=-1, keepdims=True)
        scale = ops.rsqrt(ops.mean(ops.square(centered), axis=-1, keepdims=True) + epsilon)
        normal = centered * scale

        def gradient(*args, upstream=None):
            upstream = upstream_of(args, upstream)
            width = x.shape[-1]
            rows = [ops.reshape(factor, (-1, width)) for factor in (upstream, upstream * normal)]
            share = ops.reshape(gamma / width, (width, 1))
            mean, along = (ops.reshape(ops.matmul(factor, share), ops.shape(scale)) for factor in rows)
            ones = ops.ones((1, ops.shape(rows[0])[0]), "float32")
            of_beta, of_gamma = (ops.matmul(ones, factor)[0] for factor in rows)
            return ops.cast((upstream * gamma - mean - normal * along) * scale, x.dtype), of_gamma, of_beta

        return normal * gamma + beta, gradient

    return of(ops.convert_to_tensor(x), *(ops.cast(weight, "float32") for weight in (gamma, beta)))
