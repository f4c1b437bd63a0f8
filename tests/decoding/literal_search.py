"""Beam search over lists of tokens, one sentence at a time: what the searches are held against."""


def penalty(n, alpha):
    return ((5 + n) / 6) ** alpha


def literal_beam_search(log_probs_of, prompt, beams, alpha, stop, mask=None, index=1, considered=None):
    """The hypotheses of a sentence: (score, log-probability, tokens, whether it has ended), the best first.

    `log_probs_of` is a function of a list of beginnings to the log-probabilities of each one's next token. To the list
    `considered` the candidates of each position are added, the best first.
    """
    hypotheses = [(0.0, 0.0, tuple(prompt[:index]), False)]
    for position in range(index, len(prompt)):
        forced = mask is not None and mask[position]
        open_ones = [h for h in hypotheses if not h[3]]
        # A finished one keeps its score; the token 0 fills it up.
        candidates = [(score, log_prob, (*tokens, 0), True) for score, log_prob, tokens, ended in hypotheses if ended]
        if open_ones:
            for (_, log_prob, tokens, _), steps in zip(open_ones, log_probs_of([h[2] for h in open_ones]), strict=True):
                for token in [prompt[position]] if forced else range(len(steps)):
                    total = log_prob + steps[token]
                    score = total / penalty(position - index + 1, alpha)
                    candidates.append((score, total, (*tokens, token), token in stop and not forced))
        candidates.sort(key=lambda c: -c[0])
        if considered is not None:
            considered.append(candidates)
        hypotheses = candidates[:beams]
    return hypotheses
