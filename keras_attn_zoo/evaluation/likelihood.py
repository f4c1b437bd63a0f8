"""Perplexity and token accuracy."""

import math

import numpy as np

from keras_attn_zoo.errors import UserError


def perplexity(total_nll, tokens):
    """Perplexity of a corpus: how many equally likely tokens the model chose from.

    Use it on sums over the whole corpus, so that long and short sentences count
    by their tokens.

        PPL = exp(-1/N · Σ_n log p(e_n))

    Args:
        total_nll: negative log-likelihood in nats, summed over the tokens.
        tokens: N, the number of real target tokens, end of sentence included.

    Returns:
        A float; infinite where it exceeds the range of floats, NaN where `total_nll` is NaN.

    Raises:
        UserError: `tokens` is not positive.

    Example:
        >>> round(perplexity(4 * 0.6931472, 4), 4)
        2.0
    """
    if tokens < 1:
        raise UserError(f"perplexity over {tokens} tokens: give at least one token.")
    try:
        return math.exp(total_nll / tokens)
    except OverflowError:
        return math.inf


def token_accuracy(predicted, target, mask=None):
    """Share of positions at which the most likely token is the right one.

    Args:
        predicted: int array of token ids, any shape.
        target: int array of the same shape.
        mask: bool array of the same shape, true on real positions; None: all are.

    Returns:
        A float from 0 to 1.

    Raises:
        UserError: the shapes differ, or no position is real.

    Example:
        >>> token_accuracy([[5, 7, 2, 0]], [[5, 8, 2, 0]], [[True, True, True, False]])
        0.6666666666666666
    """
    predicted, target = np.asarray(predicted), np.asarray(target)
    mask = np.ones(target.shape, bool) if mask is None else np.asarray(mask, bool)
    if not predicted.shape == target.shape == mask.shape:
        raise UserError(
            f"predicted {predicted.shape}, target {target.shape} and mask {mask.shape} differ in shape: "
            "give arrays of one shape."
        )
    if not mask.any():
        raise UserError("token accuracy over 0 real positions: give at least one.")
    return float(np.mean((predicted == target)[mask]))
