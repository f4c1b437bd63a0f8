"""The loss per real target token, with label smoothing, as sums that may be added up."""

from keras import ops


def token_sums(logits, labels, weights, label_smoothing=0.0):
    """Sum the loss of a batch over its real target tokens.

    Use the quotient of "loss" and "tokens" as the loss of a batch: sums of
    several batches add up to that of the whole, which means of means do not.

        nll_i  = log Σ_v exp(z_iv) - z_{i,y_i}
        loss_i = (1 - ε) nll_i + ε/V Σ_v (log Σ_u exp(z_iu) - z_iv)

    Symbols: z logits, y gold tokens, ε the label smoothing, V the vocabulary.

    Args:
        logits: `(batch, target, vocabulary)`, any float type; the sums run in float32.
        labels: int `(batch, target)`.
        weights: float `(batch, target)`, 1 on real tokens, 0 on padding.
        label_smoothing: ε, 0 for none.

    Returns:
        a dict of float32 scalars: "loss" Σ w·loss, "nll" Σ w·nll, "correct" the weight of the
        tokens than which the model holds none more likely, and "tokens" Σ w.

    Example:
        >>> sums = token_sums(ops.zeros((1, 2, 4)), [[1, 2]], [[1.0, 1.0]])
        >>> sums["nll"] / sums["tokens"]  # log 4
    """
    logits = ops.cast(logits, "float32")
    labels = ops.cast(labels, "int32")
    log_normalizer = ops.logsumexp(logits, axis=-1)
    gold = ops.squeeze(ops.take_along_axis(logits, labels[..., None], axis=-1), axis=-1)
    nll = log_normalizer - gold
    uniform = log_normalizer - ops.mean(logits, axis=-1) if label_smoothing else 0.0
    return _sums(nll, uniform, label_smoothing, _is_largest(logits, gold), weights)


def mixture_sums(scored, labels, weights, label_smoothing=0.0):
    """`token_sums` of a mixture over source positions.

        nll_i  = -log Σ_j p(j) p(y_i|j)
        loss_i = (1 - ε) nll_i - ε Σ_j p(j) 1/V Σ_v log p(v|j)

    Smoothing holds for each lexicon by itself, weighted by the alignment: the
    mean over the vocabulary of the mixture's own logarithm would cost a pass over
    all pairs and tokens, of which this one is a lower bound.

    Args:
        scored: "log_probs" and "smoothing" `(batch, target)` and "logits" `(batch, target, vocabulary)`, as
            `LatentAlignmentHead` gives them for the labels; accuracy is counted by the last.
        labels, weights, label_smoothing: see `token_sums`.

    Returns:
        see `token_sums`.

    Example:
        >>> scored = {"log_probs": ops.zeros((1, 2)), "smoothing": ops.zeros((1, 2)), "logits": ops.zeros((1, 2, 4))}
        >>> mixture_sums(scored, [[1, 2]], [[1.0, 1.0]])["nll"]  # 0
    """
    logits, labels = scored["logits"], ops.cast(labels, "int32")
    gold = ops.squeeze(ops.take_along_axis(logits, labels[..., None], axis=-1), axis=-1)
    correct = _is_largest(logits, gold)
    return _sums(-scored["log_probs"], -scored["smoothing"], label_smoothing, correct, weights)


def _is_largest(logits, gold):
    # Compared with the largest logit: XLA's argmax takes a fifth of the whole loss on a CPU.
    return gold >= ops.max(ops.stop_gradient(logits), axis=-1)


def _sums(nll, uniform, label_smoothing, correct, weights):
    """Weighted sums of what was found for each token."""
    weights = ops.cast(weights, "float32")
    loss = (1.0 - label_smoothing) * nll + label_smoothing * uniform if label_smoothing else nll
    return {
        "loss": ops.sum(loss * weights),
        "nll": ops.sum(nll * weights),
        "correct": ops.sum(ops.cast(correct, "float32") * weights),
        "tokens": ops.sum(weights),
    }
