"""Latent alignment: a mixture over source positions in place of one softmax."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attn_zoo.kernels import along_last, linear, log_normalizer, masked_softmax
from keras_attn_zoo.layers.base.checks import check_choice, check_positive, check_shape
from keras_attn_zoo.layers.base.dense import with_quantized_policies
from keras_attn_zoo.layers.base.kernel_initialization import add_kernel, fresh_initializer
from keras_attn_zoo.layers.base.log_mixture import (
    SMALLEST_WEIGHT,
    constant,
    exponentials,
    log_maximum,
    log_mixture,
    product_normalizer,
)
from keras_attn_zoo.layers.base.marginalization import marginalize, maximize, most_likely, sampled_bound, smoothing
from keras_attn_zoo.layers.base.rematerialization import Rematerialized, may_be, where_training
from keras_attn_zoo.support.choices import MARGINALIZATIONS, TOP_K_GRADIENTS
from keras_attn_zoo.support.types import Config, Initializer, Shape, Tensor, TensorTree


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class LatentAlignmentHead(Rematerialized):
    """Output layer of a translator whose alignment is a latent variable.

    Use it in place of the projection onto the vocabulary and its softmax if the alignment matters: the attention is
    then a probability in its own right, and the posterior p(j|e_i) knows the token that it aligns.

        p(e_i)       = Σ_j p(j) p(e_i|j)                  p(j) = mean of attention heads
        p(e_i|j)     = softmax_v(W (P_e e_{i-1} + P_s s_i + P_h h_j))
        p(j|e_i)     = p(j) p(e_i|j) / p(e_i)

    Symbols: e_{i-1} the embedding of the previous token, s_i decoder state, h_j encoder state; P_e, P_s, P_h bias-free
    maps to `width`, W `(vocabulary, width)`, the matrix of an embedding if one is given.

    The lexicon is linear in a sum, so its logits are S_iv + H_jv, and the normalisers of all pairs are one product of
    matrices: see `log_normalizer`. No array of pairs by vocabulary is ever held in memory, in training or search.

    Args:
        vocabulary_size: number of tokens.
        width: width of the sum.
        embedding: a `TokenEmbedding` to share W with, or None.
        marginalization: "exact" sums over all positions; "top_k" over the `top_k` with the largest p(j); "max" takes
            the largest p(j) p(e_i|j) alone; "hard" is trained on one sampled position, and otherwise exact.
        top_k: K; ignored by "exact".
        kernel_initializer: initialiser of P_e, P_s, P_h and W; may be a plain function.
        top_k_gradient: what the p(j) get that "top_k" leaves out: "selected" no gradient, "straight_through" that of
            the full sum, see below.
        seed: seed of the samples of "hard"; by default a random one.

    Shapes: prior p(j) `(batch, target, source)`, embedded `(batch, target, embedding_dim)`, states
    `(batch, target, state_dim)`, encoded `(batch, source, encoder_dim)`, targets `(batch, target)` or None. With
    targets, the call returns a dict of `(batch, target)`: "log_probs" of the targets; "bound", what is maximised in
    training, equal to them but with "hard"; and "smoothing", what label smoothing takes in place of mean_v log p(v),
    see below; "posterior" `(batch, target, source)`; and "logits", the log-probabilities of all tokens
    `(batch, target, vocabulary)`, which have no gradient: of "top_k" and "max" they are not renormalised, as in the
    paper, and sum to less than one. Without targets it returns only these.

    Gradient of "top_k": the derivative with respect to one of the K largest p(j) is p(e_i|j) / p(e_i), with p(e_i) of
    the K alone. "straight_through" has it for every j, as if the sum were full, so that any position can come in. Where
    the K all but rule out a token that another position explains, it is huge, 10^12 where K is 1; it is cut off at
    e^46, some 10^20, before it leaves float32. "selected" has 0 for the others, which come in only as the attention
    takes weight from the K. In our trainings, "straight_through" learned sooner on some texts, and ended no better on
    any. Either way, only the lexicons of the K are trained.

    "max": log p(e_i) = max_j [log p(j) + log p(e_i|j)], which bounds the sum from below; only the best position is
    trained. "posterior" is that of the sum. The maxima of all tokens cost a pass over the vocabulary for each pair of
    positions, in training for the accuracy alone.

    "hard", in training: one position k is sampled from p(j) in place of a mean over all. "bound" is log p(e_i|k), whose
    expectation is a lower bound of log p(e_i), with the gradient of REINFORCE; its baseline Σ_j p(j) log p(e_i|j) costs
    nothing here, see `sampled_bound`. "log_probs" and all else are those of the exact sum; a search by the most likely
    position alone has `top_k=1`.

    Smoothing: log m + Σ_j p(j)/m mean_v log p(v|j) over the positions that are summed, with m the sum of their p(j);
    of "max", max_j [log p(j) + mean_v log p(v|j)]. It is a lower bound of mean_v log p(v), of the sum by Jensen's
    inequality, and equal to it if K is 1; the mean itself would cost a pass over all pairs and tokens. Σ_j p(j) mean_v
    log p(v|j) alone would be less negative the less weight the K have, and so draw weight away from them.

    Targets: ids from 0 to `vocabulary_size` - 1, also at padding. Other ids raise if the values are accessible; inside
    a compiled call, and on an accelerator under PyTorch, where a check would cost time, "log_probs" and "posterior" of
    that row are NaN.

    Step: `memory = head.prepare(encoded, mask)` once per sentence, then `head.step(prior, embedded, states, memory)`
    for rows `(batch * beams, ...)`, the beams of a sentence side by side: they share its memory. A decoder that depends
    on the posterior of a position keeps `aligned = head.align(...)`, of the same arguments, until the next step, when
    the token is known: `head.posterior(tokens, memory, aligned)`. These two have gradients.

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

    Source: Bahar, equations 2 to 6 and 8 to 12. "hard": Deng and others, Latent Alignment and Variational Attention,
    2018, its hard attention.

    Differences from the papers: "exact", its equation 5, is the default. Of "top_k" the numbers are the paper's, not
    the cost: all normalisers come from the one product. "selected" is what the authors' released layer does, which
    multiplies the K largest weights, not renormalised, by their lexicons; "straight_through" is what its section 4
    says, cut off, see above. Deng samples the context that a decoder reads and learns the baseline of REINFORCE;
    here the position of the lexicon is sampled, and s_i has seen the source by the attentions before.
    """

    def __init__(
        self,
        vocabulary_size: int,
        width: int,
        embedding: keras.layers.Layer | None = None,
        marginalization: str = "exact",
        top_k: int = 6,
        kernel_initializer: Initializer = "glorot_uniform",
        top_k_gradient: str = "selected",
        seed: int | None = None,
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
        self.seed = seed
        if marginalization == "hard":
            self.seed_generator = keras.random.SeedGenerator(seed)

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

    def log_lexicon(self, prior: Tensor, embedded: Tensor, states: Tensor, encoded: Tensor, targets: Tensor) -> Tensor:
        """Return log p(e_i|j) of targets in the vocabulary, `(batch, target, source)`; arguments as of a call."""
        _, left, right = self._parts(prior, embedded, states, encoded)
        return _log_lexicon(left, right, log_normalizer(left, right), ops.cast(targets, "int32"))

    def call(
        self,
        prior: Tensor,
        embedded: Tensor,
        states: Tensor,
        encoded: Tensor,
        targets: Tensor | None = None,
        training: bool | None = None,
    ) -> Tensor | dict[str, Tensor]:
        """Return log-probabilities, smoothing and posterior of targets; if None, log-probabilities of all tokens."""
        prior, left, right = self._parts(prior, embedded, states, encoded)
        normalizer = log_normalizer(left, right)
        summed, left_out = self._selected(prior)
        is_max = self.marginalization == "max"
        of_all = log_maximum if is_max else log_mixture
        logits = of_all(summed, left, exponentials(constant(right)), normalizer)
        if targets is None:
            return logits
        targets = ops.cast(targets, "int32")
        known = ops.logical_and(targets >= 0, targets < self.vocabulary_size)
        targets = ops.where(known, targets, 0)
        lexicon = _log_lexicon(left, right, normalizer, targets)
        mean = ops.mean(left, axis=-1)[..., None] + ops.mean(right, axis=-1)[:, None] - normalizer
        log_probs, posterior = marginalize(summed, left_out, lexicon)
        if is_max:
            log_probs, smooth = maximize(summed, lexicon), maximize(summed, mean)
        else:
            smooth = smoothing(summed if left_out is None else summed + left_out, mean)
        bound = log_probs
        if self.marginalization == "hard" and may_be(training):
            bound = where_training(training, sampled_bound(summed, lexicon, self.seed_generator), log_probs)
        log_probs, bound = (ops.where(known, x, float("nan")) for x in (log_probs, bound))
        posterior = ops.where(known[..., None], posterior, float("nan"))
        return {"log_probs": log_probs, "bound": bound, "smoothing": smooth, "posterior": posterior, "logits": logits}

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
            top_k: source positions summed over; 0 for all, None for the training value, or for the maximum of "max".
        """
        prior, left = self._by_sentence(prior, embedded, states, memory)
        if top_k is None and self.marginalization == "max":
            found = log_maximum(prior, left, memory)
        else:
            found = log_mixture(self._summed(prior, self._count() if top_k is None else top_k), left, memory)
        return ops.reshape(found, (-1, self.vocabulary_size))

    def align(self, prior: Tensor, embedded: Tensor, states: Tensor, memory: TensorTree) -> TensorTree:
        """Return what `posterior` has to know of a position, of the arguments of `step`: a dict of `(rows, source)`."""
        _, left = self._by_sentence(prior, embedded, states, memory)
        normalizer = product_normalizer(left, memory)
        return {
            "prior": ops.cast(prior, "float32"),
            "normalizer": ops.reshape(normalizer, (-1, ops.shape(normalizer)[-1])),
        }

    def unaligned(self, rows: int | Tensor, memory: TensorTree) -> TensorTree:
        """Return what `align` would of a position before the first one, whose posterior is 0 everywhere."""
        zeros = ops.zeros((rows, ops.shape(memory["logits"])[1]), dtype="float32")
        return {"prior": zeros, "normalizer": zeros}

    def posterior(self, tokens: Tensor, memory: TensorTree, aligned: TensorTree) -> Tensor:
        """Return p(j|e_i) `(rows, source)` of the exact sum, given the tokens e_i `(rows,)` of an aligned position."""
        sentences = ops.shape(memory["logits"])[0]
        of_right = _of_tokens(memory["logits"], ops.reshape(ops.cast(tokens, "int32"), (sentences, -1)))
        prior, normalizer = aligned["prior"], aligned["normalizer"]
        # What depends on the target side alone is the same for all j.
        lexicon = ops.reshape(of_right, ops.shape(prior)) - normalizer
        energies = ops.log(ops.maximum(prior, SMALLEST_WEIGHT)) + lexicon
        return masked_softmax(energies, prior >= SMALLEST_WEIGHT)

    def _by_sentence(self, prior, embedded, states, memory):
        """The prior and S of a step, `(sentences, beams, ...)`."""
        for name, x in (("prior", prior), ("embedded", embedded), ("states", states)):
            if len(x.shape) != 2:
                raise ValueError(
                    f"LatentAlignmentHead: `{name}` of a step must have shape (rows, width). "
                    f"Received: shape {tuple(x.shape)}."
                )
        sentences = ops.shape(memory["logits"])[0]
        embedded, states = (
            ops.reshape(ops.cast(x, self.compute_dtype), (sentences, -1, x.shape[-1])) for x in (embedded, states)
        )
        prior = ops.reshape(ops.cast(prior, "float32"), (sentences, -1, ops.shape(prior)[-1]))
        return prior, self._of_target(embedded, states)

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
        return ops.where(most_likely(prior, count), prior, 0.0) if count else prior

    def _selected(self, prior):
        """p(j) where it is summed, 0 elsewhere; and 0 everywhere, with the gradient that the others are to get."""
        summed = self._summed(prior, self._count())
        summed = ops.where(summed >= SMALLEST_WEIGHT, summed, 0.0)
        if self.marginalization != "top_k" or self.top_k_gradient == "selected":
            return summed, None
        others = ops.where(ops.logical_and(prior > 0, summed == 0), prior, 0.0)
        return summed, others - ops.stop_gradient(others)

    def compute_output_spec(
        self,
        prior: Tensor,
        embedded: Tensor,
        states: Tensor,
        encoded: Tensor,
        targets: Tensor | None = None,
        training: bool | None = None,
    ) -> keras.KerasTensor | dict[str, keras.KerasTensor]:
        """Return shapes and types."""
        row, logits = prior.shape[:2], (*prior.shape[:2], self.vocabulary_size)
        if targets is None:
            return keras.KerasTensor(logits, "float32")
        shapes = {"log_probs": row, "bound": row, "smoothing": row, "posterior": prior.shape, "logits": logits}
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
            "seed": self.seed,
        }


def _without_unused(states, used):
    """States, set to 0 where unused, as on padding: their logits are then 0, even if the states are NaN."""
    return ops.where(used[..., None], states, ops.zeros_like(states))


def _log_lexicon(left, right, normalizer, targets):
    return ops.take_along_axis(left, targets[..., None], axis=-1) + _of_tokens(right, targets) - normalizer


def _of_tokens(right, tokens):
    """right_jv of the tokens v_i `(batch, n)`, `(batch, n, source)`."""
    columns = ops.broadcast_to(tokens[:, None], (*ops.shape(right)[:2], ops.shape(tokens)[1]))
    return ops.transpose(along_last(right, columns), (0, 2, 1))
