"""How a latent alignment is removed from p(j) p(e_i|j): by a sum, a maximum or a sample over source positions."""

import keras
from keras import ops

from keras_attn_zoo.kernels import EXCLUDED
from keras_attn_zoo.layers.base.log_mixture import SMALLEST_WEIGHT
from keras_attn_zoo.support.types import Tensor


def marginalize(summed: Tensor, left_out: Tensor | None, lexicon: Tensor) -> tuple[Tensor, Tensor]:
    """Return log Σ_j p(j) p(e_i|j), and the posterior.

    Args:
        summed: p(j) where it is summed, 0 elsewhere, `(batch, target, source)`.
        left_out: 0 everywhere, with the gradient that positions outside the sum are to get; None for none.
        lexicon: log p(e_i|j), shaped like `summed`.
    """
    joint = _joint(summed, lexicon)
    some = ops.any(summed > 0, axis=-1)
    largest = ops.stop_gradient(ops.max(joint, axis=-1, keepdims=True))
    largest = ops.where(some[..., None], largest, 0.0)
    terms = ops.exp(joint - largest)
    total = ops.sum(terms, axis=-1)
    if left_out is not None:
        # Beyond float32 the quotient would be infinite, and times the 0 of the forward pass NaN.
        likelihood = ops.exp(ops.minimum(lexicon - largest, 46.0))
        total = total + ops.sum(left_out * ops.stop_gradient(likelihood), axis=-1)
    total = ops.where(some, total, 1.0)
    posterior = ops.where(some[..., None], terms / total[..., None], 0.0)
    return ops.log(total) + largest[..., 0], posterior


def maximize(weights: Tensor, lexicon: Tensor) -> Tensor:
    """Return log max_j p(j) p(e_i|j), 0 in a row without any p(j)."""
    return ops.where(ops.any(weights > 0, axis=-1), ops.max(_joint(weights, lexicon), axis=-1), 0.0)


def sampled_bound(weights: Tensor, lexicon: Tensor, seed: keras.random.SeedGenerator) -> Tensor:
    """Return log m + log p(e_i|k) of one sampled position k, with the gradient of REINFORCE.

        k ~ p(j) / m,   m = Σ_j p(j)
        E_k[log m + log p(e_i|k)] ≤ log Σ_j p(j) p(e_i|j)
        ∇ = ∇ log m + ∇ log p(e_i|k) + (log p(e_i|k) - b) ∇ log (p(k)/m),   b = Σ_j p(j)/m log p(e_i|j)

    The baseline b does not depend on k, so that the mean of the gradient is that of the bound.

    Args:
        weights: p(j), `(batch, target, source)`; a row without any gets 0.
        lexicon: log p(e_i|j), shaped like `weights`.
        seed: generator of the seed, whose state moves on.
    """
    log_weights = ops.where(weights > 0, ops.log(ops.maximum(weights, SMALLEST_WEIGHT)), EXCLUDED)
    # The position of the largest log p(j) plus Gumbel noise is a sample of p(j)/m.
    uniform = keras.random.uniform(ops.shape(weights), dtype="float32", seed=seed)
    chosen = ops.argmax(log_weights - ops.log(-ops.log(uniform)), axis=-1)[..., None]
    taken, log_weight = (ops.take_along_axis(x, chosen, axis=-1)[..., 0] for x in (lexicon, log_weights))
    mass = _mass(weights)
    log_mass = ops.log(mass)
    advantage = ops.stop_gradient(taken - ops.sum(weights * lexicon, axis=-1) / mass)
    log_share = log_weight - log_mass
    bound = log_mass + taken + advantage * (log_share - ops.stop_gradient(log_share))
    return ops.where(ops.any(weights > 0, axis=-1), bound, 0.0)


def smoothing(weights: Tensor, mean: Tensor) -> Tensor:
    """Return log m + Σ_j p(j)/m mean_v log p(v|j), m = Σ_j p(j), of weights p(j) that may sum to less than 1."""
    mass = _mass(weights)
    return ops.log(mass) + ops.sum(weights / mass[..., None] * mean, axis=-1)


def most_likely(prior: Tensor, count: int) -> Tensor:
    """Return true for the `count` largest positive entries of each row; ties go to the first."""
    # Zeros, so that there are as many.
    enough = ops.pad(prior, [(0, 0)] * (len(prior.shape) - 1) + [(0, count)])
    threshold = ops.sort(enough, axis=-1)[..., -count, None]
    above = prior > threshold
    level = ops.logical_and(prior == threshold, prior > 0)
    room = count - ops.sum(ops.cast(above, "int32"), axis=-1, keepdims=True)
    return ops.logical_or(above, ops.logical_and(level, ops.cumsum(ops.cast(level, "int32"), axis=-1) <= room))


def _joint(weights, lexicon):
    """log p(j) p(e_i|j), all but -∞ where p(j) is 0."""
    return ops.where(weights > 0, ops.log(ops.maximum(weights, SMALLEST_WEIGHT)) + lexicon, EXCLUDED)


def _mass(weights):
    """Σ_j p(j), 1 in a row without any."""
    mass = ops.sum(weights, axis=-1)
    return ops.where(mass > 0, mass, 1.0)
