"""The loss per real target token, with label smoothing, as sums that can be added up over batches."""

from keras import ops

from keras_attn_zoo import kernels
from keras_attn_zoo.kernels import is_largest, of_labels, smoothed
from keras_attn_zoo.support.types import Tensor

# Of an attention weight in a logarithm: far above the smallest number of float32, whose reciprocal would overflow.
_SMALLEST_WEIGHT = 1e-30


def token_sums(logits: Tensor, labels: Tensor, weights: Tensor, label_smoothing: float = 0.0) -> dict[str, Tensor]:
    """Sum the loss of a batch over its real target tokens.

    Use the quotient of "loss" and "tokens" as the loss of a batch: unlike means,
    the sums of several batches add up to those of the whole.

        nll_i  = log Σ_v exp(z_iv) - z_{i,y_i}
        loss_i = (1 - ε) nll_i + ε/V Σ_v (log Σ_u exp(z_iu) - z_iv)

    Symbols: z logits, y gold tokens, ε the label smoothing, V the vocabulary.

    Args:
        logits: `(batch, target, vocabulary)`, any float type; the sums run in float32.
        labels: int `(batch, target)`.
        weights: float `(batch, target)`, 1 on real tokens, 0 on padding.
        label_smoothing: ε; 0 for none.

    Returns:
        a dict of float32 scalars: "loss" Σ w·loss, "nll" Σ w·nll, "correct" the weight of the
        tokens to which the model gives the highest probability, and "tokens" Σ w.

    Example:
        >>> sums = token_sums(ops.zeros((1, 2, 4)), [[1, 2]], [[1.0, 1.0]])
        >>> sums["nll"] / sums["tokens"]  # log 4
    """
    return weighted_sums(*token_losses(logits, labels, label_smoothing), weights)


def token_losses(logits: Tensor, labels: Tensor, label_smoothing: float = 0.0) -> tuple[Tensor, Tensor, Tensor]:
    """Return loss, nll and correctness of every token, each float32 `(batch, target)`; see `token_sums`."""
    logits, labels = ops.cast(logits, "float32"), ops.cast(labels, "int32")
    return kernels.token_losses(logits, labels, label_smoothing)


def mixture_losses(
    scored: dict[str, Tensor], labels: Tensor, label_smoothing: float = 0.0
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the `token_losses` of a mixture over source positions.

        nll_i  = -log Σ_j p(j) p(y_i|j)
        loss_i = -(1 - ε) b_i - ε (log m + Σ_j p(j)/m 1/V Σ_v log p(v|j)),  m = Σ_j p(j)

    The bound b_i is -nll_i, except where one sampled position is trained. All sums are over
    the same positions: all, or the K best, whose p(j) sum to less than one. Each lexicon is
    smoothed separately, weighted by the alignment. The mean of the mixture's own logarithm
    over the vocabulary would cost a pass over all pairs and tokens; this is a lower bound of it.

    Args:
        scored: "log_probs", "bound" and "smoothing" `(batch, target)` and "logits" `(batch, target, vocabulary)`, as
            `LatentAlignmentHead` returns them for the labels; accuracy is computed from the last.
        labels, label_smoothing: see `token_sums`.

    Returns:
        see `token_losses`.

    Example:
        >>> scored = {name: ops.zeros((1, 2)) for name in ("log_probs", "bound", "smoothing")}
        >>> scored["logits"] = ops.zeros((1, 2, 4))
        >>> mixture_losses(scored, [[1, 2]])[1]  # zeros
    """
    logits, labels = scored["logits"], ops.cast(labels, "int32")
    loss = smoothed(-scored["bound"], -scored["smoothing"], label_smoothing)
    return loss, -scored["log_probs"], is_largest(logits, of_labels(logits, labels))


def alignment_losses(scores: Tensor, links: Tensor) -> Tensor:
    """Return the loss of attention against given links, for every target token: float32 `(batch, target)`.

    Use it to teach a model an alignment beside the translation: links come from a statistical aligner, or from people.

        loss_i = - Σ_j g_ij log a_ij,   a_ij = 1/H Σ_h α_ijh,   g_ij = G_ij / Σ_k G_ik

    Symbols: G the links between target i and source j, α the weights of H heads. A token without links has no loss.
    Weights count as at least 1e-30, so that a link to where there are exactly none is finite, and has no gradient.

    Args:
        scores: `(batch, heads, target, source)`, weights that sum to 1 over the source.
        links: `(batch, target, source)`, 1 or true for a link; other weights of links may be given.

    Example:
        >>> links = [[[1, 0, 1], [0, 0, 0]]]
        >>> alignment_losses(ops.ones((1, 2, 2, 3)) / 3, links).tolist()  # log 3, and 0 where nothing is linked
        [[1.0986123085021973, 0.0]]

    Source: Chen et al., "Guided Alignment Training for Topic-Aware Neural Machine Translation" (2016), for the
    attention of an RNN; Garg et al., "Jointly Learning to Align and Translate with Transformer Models" (2019), section
    4, for one head of a Transformer.

    Differences from the papers: Garg et al. train one head; here it is the mean of those that are given. Their
    decoder reads the whole target sentence in a second pass for this loss; here it reads what precedes the token, as
    in translation.
    """
    weights = ops.mean(ops.cast(scores, "float32"), axis=1)
    links = ops.cast(links, "float32")
    linked = ops.sum(links, axis=-1)
    losses = ops.sum(links * -ops.log(ops.maximum(weights, _SMALLEST_WEIGHT)), axis=-1)
    return losses / ops.where(linked > 0, linked, 1.0)


def weighted_sums(loss: Tensor, nll: Tensor, correct: Tensor, weights: Tensor) -> dict[str, Tensor]:
    """Sum the results of all tokens, as `token_sums` returns them."""
    weights = ops.cast(weights, "float32")
    return {
        "loss": ops.sum(loss * weights),
        "nll": ops.sum(nll * weights),
        "correct": ops.sum(correct * weights),
        "tokens": ops.sum(weights),
    }
