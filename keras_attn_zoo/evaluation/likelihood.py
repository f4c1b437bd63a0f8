"""Perplexity and token accuracy."""

import math
from collections.abc import Iterable

from keras_attn_zoo.support.errors import UserError


def perplexity(total_nll: float, tokens: int) -> float:
    """Return the perplexity of a corpus: the number of equally likely tokens to choose from.

    Use it on sums over the whole corpus, so that sentences are weighted by their number of tokens.

        PPL = exp(-1/N · Σ_n log p(e_n))

    Args:
        total_nll: negative log-likelihood in nats, summed over the tokens.
        tokens: N, the number of real target tokens, end of sentence included.

    Returns:
        A float; infinite if it exceeds the range of floats, NaN if `total_nll` is NaN.

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


def corpus_likelihood(translations: Iterable) -> dict[str, float]:
    """Return the likelihood of a corpus, from the log-probabilities of its tokens.

    Use it on the result of `Translator.score`. All figures are per real target token, so that sentences are weighted
    by their number of tokens.

    Args:
        translations: objects with the arrays "log_probs" and "correct", with one number per token.

    Returns:
        "loss", the mean negative log-likelihood in nats; "perplexity"; "accuracy", the share of tokens to which the
        model gave the highest probability; and "tokens", their number.

    Raises:
        UserError: there are no tokens.

    Example:
        >>> corpus_likelihood(translator.score(sources, references))["perplexity"]  # doctest: +SKIP
    """
    translations = list(translations)
    tokens = sum(len(one.log_probs) for one in translations)
    nll = -math.fsum(log_prob for one in translations for log_prob in one.log_probs.tolist())
    found = perplexity(nll, tokens)
    correct = sum(int(one.correct.sum()) for one in translations)
    return {"loss": nll / tokens, "perplexity": found, "accuracy": correct / tokens, "tokens": float(tokens)}


def likelihood_sums(translations: Iterable) -> dict[str, list[list[float]]]:
    """Return what the figures of `corpus_likelihood` are ratios of, sentence by sentence, for `resampled_scores`.

    Args:
        translations: see `corpus_likelihood`.

    Returns:
        "loss" and "accuracy": for each, the numerators of all sentences and their denominators, the tokens.

    Example:
        >>> likelihood_sums(translator.score(sources, references))["loss"]  # doctest: +SKIP
    """
    translations = list(translations)
    tokens = [float(len(one.log_probs)) for one in translations]
    nll = [-math.fsum(one.log_probs.tolist()) for one in translations]
    correct = [float(one.correct.sum()) for one in translations]
    return {"loss": [nll, tokens], "accuracy": [correct, tokens]}
