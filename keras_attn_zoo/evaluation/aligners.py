"""Statistical aligners by name: ours, and those of other packages."""

import logging
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_attn_zoo.evaluation.alignments import Link, WordPair, read_alignments
from keras_attn_zoo.evaluation.statistical_aligners import HMM, IBM1, check_pairs
from keras_attn_zoo.evaluation.symmetrization import symmetrize
from keras_attn_zoo.support.choices import ALIGNERS
from keras_attn_zoo.support.errors import UserError, choice, counted
from keras_attn_zoo.support.extras import require
from keras_attn_zoo.support.files import write_text
from keras_attn_zoo.support.messages import progress_bar

_LOG = logging.getLogger(__name__)
_MODELS: dict[str, type[IBM1]] = {"ibm1": IBM1, "hmm": HMM}
# What fast_align's package gives.
_OF_FAST_ALIGN = "grow-diag-final-and"


def check_aligner(name: str, method: str | None = None) -> None:
    """Raise unless an aligner is known and installed, and can give links that are symmetrised in this way.

    Args:
        name: one of `ALIGNERS`.
        method: one of `SYMMETRIZATIONS`, or None for one direction.

    Raises:
        UserError: it is unknown; it is fast_align, and the method another than the only one that it has.
        MissingPackageError: its package is not installed.

    Example:
        >>> check_aligner("hmm")
    """
    if name not in ALIGNERS:
        raise UserError(f"there is no aligner {name!r}: {choice(str(name), ALIGNERS)}")
    if name not in _MODELS:
        require({"fast_align": "systran_align"}.get(name, name), user=f"the aligner {name}", extra="aligners")
    if name == "fast_align" and method != _OF_FAST_ALIGN:
        raise UserError(
            f"fast_align, of systran-align, has no links but those of {_OF_FAST_ALIGN}: choose it, or another aligner.",
            f"fast_align, of systran-align, has no links but those of --symmetrize {_OF_FAST_ALIGN}: add it.",
        )


def align_text(
    name: str, pairs: Sequence[WordPair], train: Sequence[WordPair] = (), method: str | None = None
) -> list[set[Link]]:
    """Align the words of a text with a statistical aligner, which learns from this text and from more.

    Use it for the baseline that a table of alignments needs. An aligner is trained anew in each call; words are
    compared in lower case.

        ibm1         `IBM1`
        hmm          `HMM`
        fast_align   Model 2 with a preference for the diagonal, of the package systran-align, with its options
                     favor_diagonal, optimize_tension and variational_bayes; has links of grow-diag-final-and alone
        eflomal      HMM with fertilities by Gibbs sampling, of the package eflomal, which is under the GPL; it takes no
                     seed, so links differ a little from call to call

    Args:
        name: one of `ALIGNERS`; the last two need the extra `aligners`.
        pairs: the text, `(source words, target words)` of each pair.
        train: more text to learn from.
        method: one of `SYMMETRIZATIONS`, of links in both directions; None for the direction in which a target word has
            at most one link.

    Returns:
        A set of links (j, i) for each of the pairs.

    Raises:
        UserError: a pair has an empty side; see `check_aligner` and `symmetrize`.

    Example:
        >>> text = [("das Haus", "the house"), ("das Buch", "the book"), ("ein Buch", "a book")]
        >>> first, *train = [(source.split(), target.split()) for source, target in text]
        >>> sorted(align_text("hmm", [first], train, method="intersection")[0])
        [(0, 0), (1, 1)]

    Source: for fast_align, Dyer, Chahuneau and Smith, "A Simple, Fast, and Effective Reparameterization of IBM Model 2"
    (2013); for eflomal, Östling and Tiedemann, "Efficient Word Alignment with Markov Chain Monte Carlo" (2016).
    """
    check_aligner(name, method)
    text = [*pairs, *train]
    check_pairs(text)
    _LOG.info("training %s on %s", name, counted(len(text), "sentence pair"))
    if name == "fast_align":
        return _fast_align(text, len(pairs))
    if name == "eflomal":
        forward, reverse = _eflomal(text, len(pairs))
    else:
        forward = _links_of(_MODELS[name], text, len(pairs))
        if method is not None:
            turned = _links_of(_MODELS[name], [(target, source) for source, target in text], len(pairs))
            reverse = [{(j, i) for i, j in links} for links in turned]
    if method is None:
        return forward
    return [symmetrize(*links, method) for links in zip(forward, reverse, strict=True)]


# What follows returns the links of the first pairs of a text.


def _links_of(model, text, count):
    with progress_bar("training", model.ROUNDS, "round") as progress:
        return model(text, progress=progress).align(text[:count])


def _sides(text):
    return [[" ".join(words).lower() for words in side] for side in zip(*text, strict=True)]


def _fast_align(text, count):
    import systran_align

    sources, targets = _sides(text)
    with tempfile.TemporaryDirectory() as folder:
        lines, *probabilities = (str(Path(folder) / name) for name in ("text", "forward", "reverse"))
        write_text(lines, "".join(f"{source} ||| {target}\n" for source, target in zip(sources, targets, strict=True)))
        options: dict[str, Any] = {"favor_diagonal": True, "optimize_tension": True, "variational_bayes": True}
        # The logarithm below which probabilities are left out: the default leaves out many that matter.
        options["beam_threshold"] = -100.0
        systran_align.generate_alignment_probabilities(lines, *probabilities, **options)
        words = ([line.split(" ") for line in side[:count]] for side in (sources, targets))
        found = systran_align.Aligner(*probabilities).align_batch(*words)
    return [{(j, i) for j, i in one["alignments"]} for one in found]


def _eflomal(text, count):
    import eflomal

    with tempfile.TemporaryDirectory() as folder:
        files = [str(Path(folder) / name) for name in ("forward", "reverse")]
        try:
            eflomal.Aligner().align(*_sides(text), *files)
        except subprocess.CalledProcessError as error:
            raise UserError(
                f"eflomal ended with status {error.returncode}: give it less text, or choose another aligner."
            ) from None
        return [[set(one.sure) for one in read_alignments(file)[:count]] for file in files]
