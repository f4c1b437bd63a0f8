"""Latent alignment: a mixture over source positions in place of one softmax."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attn_zoo.kernels import EXCLUDED, linear, log_normalizer
from keras_attn_zoo.layers.base.checks import check_choice, check_positive, check_shape
from keras_attn_zoo.layers.base.dense import with_quantized_policies
from keras_attn_zoo.layers.base.kernel_initialization import add_kernel, fresh_initializer
from keras_attn_zoo.layers.base.log_mixture import SMALLEST_WEIGHT, exponentials, log_mixture
from keras_attn_zoo.support.choices import MARGINALIZATIONS, TOP_K_GRADIENTS
from keras_attn_zoo.support.types import Config, Initializer, Shape, Tensor, TensorTree


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class LatentAlignmentHead(keras.layers.Layer):
    """Output layer of a translator whose alignment is a latent variable.

    Use it in place of the projection onto the vocabulary and its softmax if the
    alignment matters: the attention is then a probability in its own right, and
    the posterior p(j|e_i) knows the token that it aligns.

        p(e_i)       = Σ_j p(j) p(e_i|j)                  p(j) = mean of attention heads
        p(e_i|j)     = softmax_v(W (P_e e_{i-1} + P_s s_i + P_h h_j))
        p(j|e_i)     = p(j) p(e_i|j) / p(e_i)

    Symbols: e_{i-1} the embedding of the previous token, s_i decoder state, h_j
    encoder state; P_e, P_s, P_h bias-free maps to `width`, W `(vocabulary, width)`,
    the matrix of an embedding if one is given.

    The lexicon is linear in a sum, so its logits are S_iv + H_jv, and the
    normalisers of all pairs are one product of matrices: see `log_normalizer`.
    No array of pairs by vocabulary is ever held in memory, in training or search.

    Args:
        vocabulary_size: number of tokens.
        width: width of the sum.
        embedding: a `TokenEmbedding` to share W with, or None.
        marginalization: "exact" sums over all positions; "top_k" over the `top_k` with the largest p(j).
        top_k: K; ignored by "exact".
        kernel_initializer: initialiser of P_e, P_s, P_h and W; may be a plain function.
        top_k_gradient: what the p(j) get that "top_k" leaves out: "straight_through" the gradient of the full sum, see
            below; "selected" none.

    Shapes: prior p(j) `(batch, target, source)`, embedded `(batch, target, embedding_dim)`, states
    `(batch, target, state_dim)`, encoded `(batch, source, encoder_dim)`, targets `(batch, target)` or None. With
    targets, the call returns a dict of `(batch, target)`: "log_probs" of the targets and "smoothing", what label
    smoothing takes in place of mean_v log p(v), see below; "posterior" `(batch, target, source)`; and "logits", the
    log-probabilities of all tokens `(batch, target, vocabulary)`, which have no gradient: of "top_k" they are not
    renormalised, as in the paper, and sum to less than one. Without targets it returns only these.

    Gradient of "top_k": the derivative with respect to one of the K largest p(j) is p(e_i|j) / p(e_i), with p(e_i) of
    the K alone. "straight_through" has it for every j, as if the sum were full, so that any position can come in. Where
    the K all but rule out a token that another position explains, it is huge, 10^12 where K is 1; it is cut off at
    e^46, some 10^20, before it leaves float32. "selected" has 0 for the others, which come in only as the attention
    takes weight from the K. Either way, only the lexicons of the K are trained.

    Smoothing: log m + Σ_j p(j)/m mean_v log p(v|j) over the positions that are summed, with m the sum of their p(j). It
    is a lower bound of mean_v log p(v), by Jensen's inequality, and equal to it if K is 1; the mean itself would cost a
    pass over all pairs and tokens. Σ_j p(j) mean_v log p(v|j) alone would be less negative the less weight the K have,
    and so draw weight away from them.

    Targets: ids from 0 to `vocabulary_size` - 1, also at padding. Other ids raise if the values are accessible; inside
    a compiled call, and on an accelerator under PyTorch, where a check would cost time, "log_probs" and "posterior" of
    that row are NaN.

    Step: `memory = head.prepare(encoded, mask)` once per sentence, then `head.step(prior, embedded, states, memory)`
    for rows `(batch * beams, ...)`, the beams of a sentence side by side: they share its memory.

    Masking: positions with p(j) = 0, or less than 1.2e-38, are ignored. A row without any other position gets
    log-probability 0 and posterior 0.

    State: none.

    Raises:
        ValueError: an unknown marginalisation; sizes that are not positive integers; tensors whose ranks, sizes or
            widths do not fit; targets that are not in the vocabulary; steps before there are weights.

    Example:
        >>> head = LatentAlignmentHead(100, width=8)
        >>> prior, states = keras.ops.ones((2, 3, 5)) / 5, keras.ops.ones((2, 3, 8))
        >>> head(prior, states, states, keras.ops.ones((2, 5, 8)), keras.ops.ones((2, 3)))["log_probs"]  # (2, 3)

    Source: Bahar, equations 2 to 6 and 8 to 12.

    Differences from the paper: "exact", its equation 5, is the default. Of "top_k" the numbers are the paper's, not
    the cost: all normalisers come from the one product. "straight_through" is what its section 4 says, cut off, see
    above; "selected" is what the authors' released layer does, which multiplies the K largest weights, not
    renormalised, by their lexicons.
    """

    def __init__(
        self,
        vocabulary_size: int,
        width: int,
        embedding: keras.layers.Layer | None = None,
        marginalization: str = "exact",
        top_k: int = 6,
        kernel_initializer: Initializer = "glorot_uniform",
        top_k_gradient: str = "straight_through",
        **kwargs: Any,
    ) -> None:
        # Rounded to bfloat16, a prior would not sum to 1: what is cast is cast by hand.
        super().__init__(autocast=False, **kwargs)
        sizes = {"vocabulary_size": vocabulary_size, "width": width, "top_k": top_k}
        for name, size in sizes.items():
            setattr(self, name, check_positive(self, name, size))
        self.embedding = embedding
        self.marginalization = check_choice(self, "marginalization", marginalization, MARGINALIZATIONS)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.top_k_gradient = check_choice(self, "top_k_gradient", top_k_gradient, TOP_K_GRADIENTS)

    def build(
        self,
        prior_shape: Shape,
        embedded_shape: Shape,
        states_shape: Shape,
        encoded_shape: Shape,
        targets_shape: Shape | None = None,
    ) -> None:
        """Make P_e, P_s, P_h and W."""
        shapes = {"embedded": embedded_shape, "state": states_shape, "encoder": encoded_shape}
        self.maps: dict[str, keras.layers.Dense] = {}
        for name, shape in shapes.items():
            self.maps[name] = keras.layers.Dense(
                self.width,
                use_bias=False,
                kernel_initializer=fresh_initializer(self.kernel_initializer),
                dtype=self.dtype_policy,
                name=f"{name}_map",
            )
            self.maps[name].build((None, None, shape[-1]))
        if self.embedding is None:
            self.kernel = add_kernel(self, "kernel", (self.vocabulary_size, self.width))
        elif not self.embedding.built:
            self.embedding.build((None, None))
        self.built = True

    def __call__(
        self,
        prior: Tensor,
        embedded: Tensor,
        states: Tensor,
        encoded: Tensor,
        targets: Tensor | None = None,
        **kwargs: Any,
    ) -> Tensor | dict[str, Tensor]:
        """Check the inputs, before Keras builds anything with wrong shapes, then call the layer."""
        self._check_shapes(prior, embedded, states, encoded, targets)
        if targets is not None:
            self._check_vocabulary(targets)
        return super().__call__(prior, embedded, states, encoded, targets, **kwargs)

    def _check_shapes(self, prior, embedded, states, encoded, targets):
        """Raise if ranks, known sizes or widths do not fit."""
        check_shape(self, "prior", prior, "(batch, target, source)", (None, None, None))
        batch, target, source = prior.shape
        width = {part: layer.kernel.shape[0] for part, layer in self.maps.items()} if self.built else {}
        wanted = {
            "embedded": (embedded, "(batch, target, embedding_dim)", (batch, target, width.get("embedded"))),
            "states": (states, "(batch, target, state_dim)", (batch, target, width.get("state"))),
            "encoded": (encoded, "(batch, source, encoder_dim)", (batch, source, width.get("encoder"))),
        }
        if targets is not None:
            wanted["targets"] = targets, "(batch, target)", (batch, target)
        for name, (x, pattern, sizes) in wanted.items():
            check_shape(self, name, x, f"{pattern} = {sizes}", sizes)

    def _check_vocabulary(self, targets):
        """Raise if a target is not in the vocabulary, as far as the values are accessible."""
        try:
            values = np.asarray(targets)
        except (TypeError, ValueError, NotImplementedError):
            return
        wrong = values[(values < 0) | (values >= self.vocabulary_size) | (values % 1 != 0)]
        if wrong.size:
            last = self.vocabulary_size - 1
            raise ValueError(f"LatentAlignmentHead: `targets` must be ids from 0 to {last}. Received: {wrong[0]}.")

    def lexicon(self, embedded: Tensor, states: Tensor, encoded: Tensor) -> tuple[Tensor, Tensor]:
        """Return both parts of the logits, S `(batch, target, vocabulary)` and H `(batch, source, vocabulary)`."""
        return self._of_target(embedded, states), self._logits(self.maps["encoder"](encoded))

    def _of_target(self, embedded, states):
        return self._logits(self.maps["embedded"](embedded) + self.maps["state"](states))

    def _logits(self, x):
        kernel = self.kernel if self.embedding is None else self.embedding.embeddings
        logits = linear(x, kernel, transposed=True, compute_dtype=self.compute_dtype)
        return ops.cast(logits, "float32")

    def call(
        self, prior: Tensor, embedded: Tensor, states: Tensor, encoded: Tensor, targets: Tensor | None = None
    ) -> Tensor | dict[str, Tensor]:
        """Return log-probabilities, smoothing and posterior of targets; if None, log-probabilities of all tokens."""
        prior, left, right = self._parts(prior, embedded, states, encoded)
        normalizer = log_normalizer(left, right)
        summed, left_out = self._selected(prior)
        logits = log_mixture(summed, left, exponentials(right), normalizer)
        if targets is None:
            return logits
        targets = ops.cast(targets, "int32")
        known = ops.logical_and(targets >= 0, targets < self.vocabulary_size)
        targets = ops.where(known, targets, 0)
        of_left = ops.take_along_axis(left, targets[..., None], axis=-1)
        batch, source = ops.shape(right)[0], ops.shape(right)[1]
        columns = ops.broadcast_to(targets[:, None], (batch, source, ops.shape(targets)[1]))
        of_right = ops.take_along_axis(right, columns, axis=-1)
        # log p(e_i|j), (batch, target, source)
        lexicon = of_left + ops.transpose(of_right, (0, 2, 1)) - normalizer
        log_probs, posterior = _marginalize(summed, left_out, lexicon)
        log_probs = ops.where(known, log_probs, float("nan"))
        posterior = ops.where(known[..., None], posterior, float("nan"))
        mean = ops.mean(left, axis=-1)[..., None] + ops.mean(right, axis=-1)[:, None] - normalizer
        smoothing = _smoothing(summed if left_out is None else summed + left_out, mean)
        return {"log_probs": log_probs, "smoothing": smoothing, "posterior": posterior, "logits": logits}

    # The step, which search uses.

    def prepare(self, encoded: Tensor, mask: Tensor | None = None) -> TensorTree:
        """Compute what depends only on the source: the memory of `step`."""
        if not self.built:
            raise ValueError("LatentAlignmentHead: steps need weights: call the layer or `build` it first.")
        encoded = ops.cast(encoded, self.compute_dtype)
        if mask is not None:
            encoded = _without_unused(encoded, ops.cast(mask, "bool"))
        return exponentials(self._logits(self.maps["encoder"](encoded)))

    def step(
        self, prior: Tensor, embedded: Tensor, states: Tensor, memory: TensorTree, top_k: int | None = None
    ) -> Tensor:
        """Return the log-probabilities of all tokens `(rows, vocabulary)` at one position.

        Args:
            prior, embedded, states: `(rows, width)`; rows are sentences, or the beams of each in turn.
            memory: the result of `prepare`.
            top_k: source positions summed over; 0 for all, None for the training value.
        """
        for name, x in (("prior", prior), ("embedded", embedded), ("states", states)):
            if len(x.shape) != 2:
                raise ValueError(
                    f"LatentAlignmentHead: `{name}` of a step must have shape (rows, width). "
                    f"Received: shape {tuple(x.shape)}."
                )
        sentences = ops.shape(memory["logits"])[0]

        def by_sentence(x):
            return ops.reshape(x, (sentences, -1, x.shape[-1]))

        left = self._of_target(*(ops.cast(by_sentence(x), self.compute_dtype) for x in (embedded, states)))
        prior = ops.reshape(ops.cast(prior, "float32"), (sentences, -1, ops.shape(prior)[-1]))
        prior = self._summed(prior, self._count() if top_k is None else top_k)
        return ops.reshape(log_mixture(prior, left, memory), (-1, self.vocabulary_size))

    def _parts(self, prior, embedded, states, encoded):
        """Prior and logits, in float32."""
        prior = ops.cast(prior, "float32")
        some = prior > 0
        used = {"target": ops.any(some, axis=2), "source": ops.any(some, axis=1)}
        embedded, states, encoded = (
            _without_unused(ops.cast(x, self.compute_dtype), used[side])
            for x, side in ((embedded, "target"), (states, "target"), (encoded, "source"))
        )
        return prior, *self.lexicon(embedded, states, encoded)

    def _count(self):
        """How many positions training sums over; 0 for all."""
        return self.top_k if self.marginalization == "top_k" else 0

    def _summed(self, prior, count):
        """The prior, 0 where a position is not among the `count` most likely ones."""
        return ops.where(_most_likely(prior, count), prior, 0.0) if count else prior

    def _selected(self, prior):
        """p(j) where it is summed, 0 elsewhere; and 0 everywhere, with the gradient that the others are to get."""
        summed = self._summed(prior, self._count())
        summed = ops.where(summed >= SMALLEST_WEIGHT, summed, 0.0)
        if self.marginalization == "exact" or self.top_k_gradient == "selected":
            return summed, None
        others = ops.where(ops.logical_and(prior > 0, summed == 0), prior, 0.0)
        return summed, others - ops.stop_gradient(others)

    def compute_output_spec(
        self, prior: Tensor, embedded: Tensor, states: Tensor, encoded: Tensor, targets: Tensor | None = None
    ) -> keras.KerasTensor | dict[str, keras.KerasTensor]:
        """Return shapes and types."""
        row, logits = prior.shape[:2], (*prior.shape[:2], self.vocabulary_size)
        if targets is None:
            return keras.KerasTensor(logits, "float32")
        shapes = {"log_probs": row, "smoothing": row, "posterior": prior.shape, "logits": logits}
        return {name: keras.KerasTensor(shape, "float32") for name, shape in shapes.items()}

    @classmethod
    def from_config(cls, config: Config) -> "LatentAlignmentHead":
        """Create a layer from the result of `get_config`; shared matrices of a saved model stay shared."""
        return super().from_config({**config, "embedding": keras.saving.deserialize_keras_object(config["embedding"])})

    def get_config(self) -> Config:
        """Return the arguments of the constructor and, after `quantize`, the policies of the maps."""
        return {
            **with_quantized_policies(self, super().get_config()),
            "vocabulary_size": self.vocabulary_size,
            "width": self.width,
            "embedding": None if self.embedding is None else keras.layers.serialize(self.embedding),
            "marginalization": self.marginalization,
            "top_k": self.top_k,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "top_k_gradient": self.top_k_gradient,
        }


def _without_unused(states, used):
    """States, set to 0 where unused, as on padding: their logits are then 0, even if the states are NaN."""
    return ops.where(used[..., None], states, ops.zeros_like(states))


def _marginalize(summed, left_out, lexicon):
    """log Σ_j p(j) p(e_i|j), and the posterior, of what `_selected` returns."""
    counted = summed > 0
    joint = ops.where(counted, ops.log(ops.maximum(summed, SMALLEST_WEIGHT)) + lexicon, EXCLUDED)
    largest = ops.stop_gradient(ops.max(joint, axis=-1, keepdims=True))
    some = ops.any(counted, axis=-1)
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


def _smoothing(weights, mean):
    """log m + Σ_j p(j)/m mean_v log p(v|j), where m = Σ_j p(j), of weights p(j) that may sum to less than 1."""
    mass = ops.sum(weights, axis=-1)
    mass = ops.where(mass > 0, mass, 1.0)
    return ops.log(mass) + ops.sum(weights / mass[..., None] * mean, axis=-1)


def _most_likely(prior, count):
    """True for the `count` largest positive entries of each row; ties go to the first."""
    # Zeros, so that there are as many.
    enough = ops.pad(prior, [(0, 0)] * (len(prior.shape) - 1) + [(0, count)])
    threshold = ops.sort(enough, axis=-1)[..., -count, None]
    above = prior > threshold
    level = ops.logical_and(prior == threshold, prior > 0)
    room = count - ops.sum(ops.cast(above, "int32"), axis=-1, keepdims=True)
    return ops.logical_or(above, ops.logical_and(level, ops.cumsum(ops.cast(level, "int32"), axis=-1) <= room))
