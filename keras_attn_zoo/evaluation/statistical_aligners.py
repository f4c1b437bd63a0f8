"""Word alignment by counting: IBM Model 1 and the hidden Markov model, trained by expectation maximisation in NumPy."""

import collections
import functools
from collections.abc import Callable, Sequence

import numpy as np

from keras_attn_zoo.evaluation.alignments import Link, WordPair
from keras_attn_zoo.support.errors import UserError, check_counts, check_rates

# Of two words that never stood in one sentence pair, and of a jump that was never made.
_LEAST = 1e-12
# Pairs of words that are counted at once: a few hundred megabytes.
_CELLS = 1 << 23


def check_pairs(pairs: Sequence[WordPair]) -> None:
    """Raise unless there are pairs, and all of them have words on both sides.

    Raises:
        UserError: says which pair has none.

    Example:
        >>> check_pairs([(["das", "Haus"], ["the", "house"])])
    """
    if not pairs:
        raise UserError("there are no sentence pairs: give at least one.")
    for number, (source, target) in enumerate(pairs, 1):
        if not (source and target):
            raise UserError(f"sentence pair {number} has an empty side: leave it out.")


class IBM1:
    """IBM Model 1: every target word is the translation of some source word, whatever the positions of both.

    Use it as the plainest baseline of word alignment; `HMM` is better. With a source sentence e_1 … e_I, to which the
    empty word e_0 is added, a target sentence f_1 … f_J, and the alignment a_j of every target word:

        p(f, a | e) = Π_j 1/(I + 1) t(f_j | e_{a_j})

    Training maximises the likelihood of the text by expectation maximisation, from a uniform t:

        c(f, e) = Σ over pairs, j and i with f_j = f and e_i = e  of  t(f_j | e_i) / Σ_i' t(f_j | e_i')
        t(f | e) = c(f, e) / Σ_f' c(f', e)

    With a Dirichlet prior on t, of which rare words need one, it is variational Bayes: with ψ the digamma function,

        t(f | e) = exp(ψ(c(f, e) + α) - ψ(Σ_f' (c(f', e) + α)))

    Words are compared in lower case. Training takes up to 70 bytes for each source word times each target word of a
    pair: two gigabytes for 200,000 pairs of 10 words.

    Args:
        pairs: the training text, `(source words, target words)` of each pair. It needs no gold links, so include the
            text that is to be aligned: of unseen words, nothing is known.
        iterations: rounds of expectation maximisation.
        alpha: α of the prior; 0 for maximum likelihood.
        progress: called with the number of rounds done.

    Raises:
        UserError: there are no pairs; one has an empty side.

    Example:
        >>> text = [("das Haus", "the house"), ("das Buch", "the book"), ("ein Buch", "a book")]
        >>> pairs = [(source.split(), target.split()) for source, target in text]
        >>> sorted(IBM1(pairs).align(pairs)[0])
        [(0, 0), (1, 1)]

    Source: Brown, Della Pietra, Della Pietra and Mercer, "The Mathematics of Statistical Machine Translation" (1993),
    Section 4.3; for the prior, Dyer, Chahuneau and Smith, "A Simple, Fast, and Effective Reparameterization of IBM
    Model 2" (2013). Differs in a least probability of 1e-12.
    """

    # Of the defaults.
    ROUNDS = 5

    def __init__(
        self,
        pairs: Sequence[WordPair],
        iterations: int = 5,
        alpha: float = 0.0,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        check_counts(iterations=iterations)
        _check_alpha(alpha)
        self._alpha = alpha
        self._train(self._index(pairs), iterations, _posteriors, progress)

    def align(self, pairs: Sequence[WordPair]) -> list[set[Link]]:
        """Return the most probable alignment of each pair: a_j = argmax_i t(f_j | e_i), no link for the empty word.

        Args:
            pairs: the text, `(source words, target words)` of each pair.

        Returns:
            Sets of links (j, i), source position first, of which a target word has one or none.

        Raises:
            UserError: there are no pairs; one has an empty side.
        """
        links: list[set[Link]] = [set() for _ in pairs]
        for numbers, keys in self._keys_of(pairs):
            places = np.searchsorted(self._keys, keys).clip(max=len(self._keys) - 1)
            found = self._best(np.where(self._keys[places] == keys, self._translations[places], _LEAST))
            for number, row in zip(numbers, found.tolist(), strict=True):
                links[number] = {(position - 1, i) for i, position in enumerate(row) if position}
        return links

    def translations(self, word: str) -> dict[str, float]:
        """Return t(f | e) of a source word, or of the empty word for "", for all f that it occurred with.

        Example:
            >>> model = IBM1([(["das", "Haus"], ["the", "house"]), (["das"], ["the"])])
            >>> max(model.translations("Haus").items(), key=lambda one: one[1])[0]
            'house'
        """
        word = word.lower()
        number = self._sources.get(word, -1) if word else 0
        start, end = np.searchsorted(self._keys, [number * self._width, (number + 1) * self._width])
        names = list(self._targets)
        return {
            names[key % self._width]: float(t)
            for key, t in zip(self._keys[start:end], self._translations[start:end], strict=True)
        }

    def _best(self, emissions):
        return emissions.argmax(-1)

    def _index(self, pairs):
        """Number all words and the pairs of them that occur; return the numbers of these, an array for each batch."""
        self._sources = _numbered((word for source, _ in pairs for word in source), first=1)
        self._targets = _numbered((word for _, target in pairs for word in target), first=0)
        # The last number of either side stands for unseen words.
        self._width = len(self._targets) + 1
        keys = [one for _, one in self._keys_of(pairs)]
        self._keys, cells = np.unique(np.concatenate([one.ravel() for one in keys]), return_inverse=True)
        self._translations = np.full(len(self._keys), 1 / len(self._targets))
        ends = np.cumsum([one.size for one in keys])[:-1]
        parts = np.split(cells.astype("int32"), ends)
        return [part.reshape(one.shape) for part, one in zip(parts, keys, strict=True)]

    def _keys_of(self, pairs):
        """Yield pairs of equal lengths: their numbers, and `(pairs, J, I + 1)`, a key for each two words."""
        for numbers in _batches(pairs):
            sources = _numbers([pairs[number][0] for number in numbers], self._sources, len(self._sources) + 1)
            targets = _numbers([pairs[number][1] for number in numbers], self._targets, len(self._targets))
            sources = np.pad(sources, ((0, 0), (1, 0)))
            yield numbers, sources[:, None, :] * self._width + targets[:, :, None]

    def _train(self, cells, iterations, posteriors, progress):
        given = self._keys // self._width
        for done in range(1, iterations + 1):
            counts = np.zeros(len(self._keys))
            for part in _parts(cells):
                weights = [posteriors(self._translations[one]).ravel() for one in part]
                places = [one.ravel() for one in part]
                counts += np.bincount(np.concatenate(places), np.concatenate(weights), len(counts))
            counts += self._alpha
            totals = np.bincount(given, counts)
            if self._alpha:
                counts, totals = _exp_digamma(counts), _exp_digamma(totals)
            self._translations = np.maximum(counts / totals[given], _LEAST)
            if progress is not None:
                progress(done)


class HMM(IBM1):
    """Hidden Markov model of word alignment: where the next target word comes from depends on where the last one did.

    Use it as a strong baseline of word alignment that needs seconds to minutes and no gold links. With t and the empty
    word e_0 as in `IBM1`, and i' the last of a_1 … a_{j-1} that is not 0, or 0:

        p(f, a | e) = Π_j p(a_j | i', I) t(f_j | e_{a_j})
        p(0 | i', I) = p_0,    p(i | i', I) = (1 - p_0) s(i - i') / Σ_l s(l - i')

    Training begins with rounds of Model 1, which give t, and has its prior. In the others, the expectations are those
    of the forward-backward algorithm over all alignments; t is updated as in Model 1, and s(d) is the share of jumps
    over a distance d in all expected jumps, which leaves out its normaliser, so that the likelihood may fall a little
    in a round. Alignments are Viterbi's, the most probable a.

    Args:
        pairs, progress: see `IBM1`.
        iterations: rounds of the hidden Markov model.
        ibm1_iterations: rounds of Model 1 before them.
        null_probability: p_0, of a target word without a source word.
        alpha: α of the prior on t; 0 for maximum likelihood, which links rare words to too many others.

    Raises:
        UserError: there are no pairs; one has an empty side.

    Example:
        >>> text = [("das Haus", "the house"), ("das Buch", "the book"), ("ein Buch", "a book")]
        >>> pairs = [(source.split(), target.split()) for source, target in text]
        >>> sorted(HMM(pairs).align(pairs)[1])
        [(0, 0), (1, 1)]

    Source: Vogel, Ney and Tillmann, "HMM-Based Word Alignment in Statistical Translation" (1996); the empty word is
    that of Och and Ney, "A Systematic Comparison of Various Statistical Alignment Models" (2003), Section 2. Differs in
    that the first target word jumps from position 0, that s does not depend on word classes and is not interpolated
    with a uniform distribution, in the prior, and in a least probability of 1e-12.
    """

    ROUNDS = 10

    def __init__(
        self,
        pairs: Sequence[WordPair],
        iterations: int = 5,
        ibm1_iterations: int = 5,
        null_probability: float = 0.2,
        alpha: float = 0.01,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        check_counts(iterations=iterations, ibm1_iterations=ibm1_iterations)
        check_rates(null_probability=null_probability)
        _check_alpha(alpha)
        self._null, self._alpha = null_probability, alpha
        cells = self._index(pairs)
        self._train(cells, ibm1_iterations, _posteriors, progress)
        longest = max(one.shape[2] for one in cells) - 1
        # Of the distances 1 - I … I.
        self._jumps = np.full(2 * longest, 1 / (2 * longest))
        for done in range(1, iterations + 1):
            expected = np.zeros_like(self._jumps)
            self._train(cells, 1, functools.partial(self._forward_backward, expected), None)
            self._jumps = np.maximum(expected / expected.sum(), _LEAST)
            if progress is not None:
                progress(ibm1_iterations + done)

    def jump_probabilities(self) -> dict[int, float]:
        """Return s(d) of every distance d."""
        longest = len(self._jumps) // 2
        return {place + 1 - longest: float(s) for place, s in enumerate(self._jumps)}

    def _places(self, length):
        """The places in s of i - i', `(I + 1, I)` with i' from 0 and i from 1; longer jumps count as the longest."""
        distances = np.arange(1, length + 1) - np.arange(length + 1)[:, None]
        return (distances + len(self._jumps) // 2 - 1).clip(0, len(self._jumps) - 1)

    def _transitions(self, length):
        jumps = self._jumps[self._places(length)]
        return (1 - self._null) * jumps / jumps.sum(1, keepdims=True)

    def _forward_backward(self, jumps, emissions):
        """Return p(a_j | f, e) like `_posteriors`, and add the expected number of jumps over each distance to `jumps`.

        What follows depends on i' alone, so i' is the state, `(pairs, I + 1)`.
        """
        moves = self._transitions(emissions.shape[2] - 1)
        real, null = emissions[..., 1:], self._null * emissions[..., :1]
        befores = np.empty_like(emissions)
        state = np.zeros_like(emissions[:, 0])
        state[:, 0] = 1
        for j in range(emissions.shape[1]):
            befores[:, j] = state
            state = state * null[:, j]
            state[:, 1:] += (befores[:, j] @ moves) * real[:, j]
            state /= state.sum(1, keepdims=True)
        posteriors, expected = np.empty_like(emissions), np.zeros_like(moves)
        after = np.ones_like(state)
        for j in reversed(range(emissions.shape[1])):
            arrived = real[:, j] * after[:, 1:]
            posteriors[:, j, 0] = (befores[:, j] * null[:, j] * after).sum(1)
            posteriors[:, j, 1:] = (befores[:, j] @ moves) * arrived
            total = posteriors[:, j].sum(1, keepdims=True)
            expected += (befores[:, j] / total).T @ arrived
            after = arrived @ moves.T + null[:, j] * after
            after /= after.sum(1, keepdims=True)
        jumps += np.bincount(self._places(moves.shape[1]).ravel(), (expected * moves).ravel(), len(jumps))
        return posteriors / posteriors.sum(2, keepdims=True)

    def _best(self, emissions):
        """Return Viterbi's alignment, `(pairs, J)`."""
        moves = self._transitions(emissions.shape[2] - 1)
        state = np.zeros_like(emissions[:, 0])
        state[:, 0] = 1
        # Where i' came from; -1 if a target word has no source word, and i' stays.
        origins = np.full(emissions.shape, -1)
        for j in range(emissions.shape[1]):
            scores = state[:, :, None] * moves
            origin = scores.argmax(1)
            moved = scores.max(1) * emissions[:, j, 1:]
            state = state * self._null * emissions[:, j, :1]
            better = moved > state[:, 1:]
            origins[:, j, 1:][better] = origin[better]
            state[:, 1:] = np.maximum(state[:, 1:], moved)
            state /= state.max(1, keepdims=True)
        rows, last = np.arange(len(state)), state.argmax(1)
        best = np.zeros(emissions.shape[:2], int)
        for j in reversed(range(emissions.shape[1])):
            origin = origins[rows, j, last]
            best[:, j] = np.where(origin < 0, 0, last)
            last = np.where(origin < 0, last, origin)
        return best


def _check_alpha(alpha):
    if type(alpha) not in (int, float) or not 0 <= alpha < np.inf:
        raise UserError(f"alpha must be a number of at least 0; received {alpha!r}.")


def _exp_digamma(x):
    """Return exp(ψ(x)): ψ by its recurrence, so that the asymptotic series is exact to ten digits."""
    y = 1 / (x + 6) ** 2
    series = np.log(x + 6) - 0.5 / (x + 6) - y / 12 + y**2 / 120 - y**3 / 252 + y**4 / 240
    return np.exp(series - sum(1 / (x + k) for k in range(6)))


def _posteriors(emissions):
    """Return p(a_j | f, e) of Model 1, `(pairs, J, I + 1)`, from t(f_j | e_i)."""
    return emissions / emissions.sum(2, keepdims=True)


def _numbered(words, first):
    return {word: number for number, word in enumerate(dict.fromkeys(word.lower() for word in words), first)}


def _numbers(sentences, known, unseen):
    return np.array([[known.get(word.lower(), unseen) for word in sentence] for sentence in sentences])


def _batches(pairs):
    """Yield the numbers of pairs that have equal lengths."""
    check_pairs(pairs)
    alike = collections.defaultdict(list)
    for number, (source, target) in enumerate(pairs):
        alike[len(source), len(target)].append(number)
    for (sources, targets), numbers in alike.items():
        size = max(1, _CELLS // 4 // ((sources + 1) * max(sources, targets)))
        yield from (numbers[start : start + size] for start in range(0, len(numbers), size))


def _parts(cells):
    """Split a list of arrays into lists of at most `_CELLS` numbers, or of one array."""
    part = []
    for one in cells:
        if part and sum(other.size for other in part) + one.size > _CELLS:
            yield part
            part = []
        part.append(one)
    yield part
