"""A latent alignment of first order: a hidden Markov model over source positions."""

from typing import Any

import keras
from keras import ops

from keras_attn_zoo.kernels import masked_softmax, scan
from keras_attn_zoo.layers.base.checks import check_positive
from keras_attn_zoo.layers.base.log_mixture import SMALLEST_WEIGHT
from keras_attn_zoo.layers.latent_alignment_head import LatentAlignmentHead
from keras_attn_zoo.support.configuration import Configured
from keras_attn_zoo.support.types import Config, Shape, Tensor

# Of the jump that is e^30 times less likely than the best one, a share of the probability is left in float32.
_LARGEST_DIFFERENCE = 30.0


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class FirstOrderAlignment(Configured, keras.layers.Layer):
    """Make the prior of a `LatentAlignmentHead` depend on the position before: a hidden Markov model.

    Use it between attention and head if alignments are mostly monotone, or as the first-order model beside the
    head's own, whose positions a_1..a_I are independent of each other.

        p(a_i = j|a_{i-1} = k) = p_i(j) w(j - k) / Σ_l p_i(l) w(l - k)
        w(d)         = exp(v_{max(-D, min(d, D))})
        π_i(j)       = Σ_k q_{i-1}(k) p(a_i = j|a_{i-1} = k),     π_1 = p_1
        q_i(j)       = π_i(j) p(e_i|j) / Σ_l π_i(l) p(e_i|l)

    Symbols: p_i(j) the attention, v the 2D + 1 weights of the jumps, D `max_jump`, p(e_i|j) the lexicon of the head.
    π_i is p(a_i|e_1..e_{i-1}) and q_i is p(a_i|e_1..e_i): the forward algorithm, normalised at each position. The
    head's likelihood with the prior π_i is thus the exact sum over all alignments,

        Π_i Σ_j π_i(j) p(e_i|j) = Σ_{a_1..a_I} Π_i p(a_i|a_{i-1}) p(e_i|a_i)

    and its posterior is q_i, which knows the tokens up to e_i, not those after it. The v begin as 0, where π_i = p_i.

    Args:
        head: the `LatentAlignmentHead` to which the result is passed; its weights are shared. Of a functional model
            that calls both, Keras would load two heads: save its weights, or subclass `keras.Model`.
        max_jump: D; longer jumps share a weight with those of D.

    Shapes: prior p `(batch, target, source)`, embedded, states and encoded as of the head, tokens `(batch, target)`,
    the previous ones e_{i-1}; out π `(batch, target, source)`. Only the loop over target positions is sequential: it
    has products of `(source, source)`, none with the vocabulary. Before it, the normalisers of the head are computed
    once more.

    Step: `posterior = head.posterior(tokens, memory, aligned)`, see there, then `layer.step(prior, posterior)`.

    Masking: positions with p_i(j) = 0 are ignored. A row without any other one gets 0; the next is as the first.

    State of a step: what `head.align` returns.

    Raises:
        ValueError: a `max_jump` that is not a positive integer.

    Example:
        >>> layer = FirstOrderAlignment(LatentAlignmentHead(100, width=8), max_jump=5)
        >>> prior, states = keras.ops.ones((2, 3, 5)) / 5, keras.ops.ones((2, 3, 8))
        >>> layer(prior, states, states, keras.ops.ones((2, 5, 8)), keras.ops.ones((2, 3)))  # (2, 3, 5), all 0.2

    Source: Wang, Alkhouli, Zhu and Ney, Neural Hidden Markov Model for Machine Translation, 2018, with which Bahar
    compares; the weights of jumps as of Vogel, Ney and Tillmann, HMM-based Word Alignment, 1996.

    Differences from the papers: Wang's transition is a network of its own, trained on posteriors; here it is the
    attention, weighted by jumps, and trained through the sum. Vogel's depends on the jump alone.
    """

    def __init__(self, head: LatentAlignmentHead, max_jump: int, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.head = head
        self.max_jump = check_positive(self, "max_jump", max_jump)

    def build(
        self,
        prior_shape: Shape,
        embedded_shape: Shape,
        states_shape: Shape,
        encoded_shape: Shape,
        tokens_shape: Shape | None = None,
    ) -> None:
        """Make the weights of the jumps, and build the head, unless it is built."""
        if not self.head.built:
            self.head.build(prior_shape, embedded_shape, states_shape, encoded_shape)
        self.jumps = self.add_weight(name="jumps", shape=(2 * self.max_jump + 1,), initializer="zeros")
        self.built = True

    def call(self, prior: Tensor, embedded: Tensor, states: Tensor, encoded: Tensor, tokens: Tensor) -> Tensor:
        """Return π."""
        prior = ops.cast(prior, "float32")
        # Those that follow a position; of the last one, nobody asks.
        following = ops.concatenate([tokens[:, 1:], tokens[:, :1]], axis=1)
        lexicon = self.head.log_lexicon(prior, embedded, states, encoded, following)
        factors = self._factors(ops.shape(prior)[2])

        def step(posterior, at):
            prior = _moved(at["prior"], posterior, factors)
            energies = ops.log(ops.maximum(prior, SMALLEST_WEIGHT)) + at["lexicon"]
            return masked_softmax(energies, prior >= SMALLEST_WEIGHT), prior

        steps = {name: ops.transpose(x, (1, 0, 2)) for name, x in (("prior", prior), ("lexicon", lexicon))}
        _, found = scan(step, ops.zeros_like(prior[:, 0]), steps)
        return ops.transpose(found, (1, 0, 2))

    def step(self, prior: Tensor, posterior: Tensor) -> Tensor:
        """Return π_i of one position from its p_i and q_{i-1}, all `(rows, source)`."""
        return _moved(ops.cast(prior, "float32"), posterior, self._factors(ops.shape(prior)[1]))

    def _factors(self, source):
        """The w(j - k) of all pairs k, j, `(source, source)`, up to a factor that cancels out."""
        jumps = ops.cast(self.jumps, "float32")
        weights = ops.exp(ops.maximum(jumps - ops.max(jumps), -_LARGEST_DIFFERENCE))
        positions = ops.arange(source, dtype="int32")
        distances = ops.clip(positions[None] - positions[:, None], -self.max_jump, self.max_jump)
        # A column: of a vector, PyTorch exports a squeeze of what it has taken.
        return ops.take(weights[:, None], distances + self.max_jump, axis=0)[..., 0]

    def compute_output_spec(self, prior: Tensor, *inputs: Tensor) -> keras.KerasTensor:
        """Return shape and type."""
        return keras.KerasTensor(prior.shape, "float32")

    @classmethod
    def from_config(cls, config: Config) -> "FirstOrderAlignment":
        """Create a layer from the result of `get_config`."""
        return super().from_config({**config, "head": keras.saving.deserialize_keras_object(config["head"])})


def _moved(prior, posterior, factors):
    """π_i of p_i, q_{i-1} and the w of all pairs; p_i itself where there is no q_{i-1}."""
    reached = ops.matmul(prior, ops.transpose(factors))
    # A row without any p_i; others reach at least e^-30 of it. Squared, as in a gradient, a smaller one would be 0.
    moved = prior * ops.matmul(posterior / ops.where(reached > 0, reached, 1.0), factors)
    return ops.where(ops.any(posterior > 0, axis=-1, keepdims=True), moved, prior)
