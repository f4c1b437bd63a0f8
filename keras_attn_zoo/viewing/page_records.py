"""What a page shows: systems, sentences, and what each system does with each sentence."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from keras_attn_zoo.evaluation.alignments import Alignment

# Where attention is, and what the page calls it; "prior" and "posterior" are those of a latent alignment.
PLACES = {
    "cross": "cross-attention",
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
    "prior": "prior of the alignment",
    "posterior": "posterior of the alignment",
}
# For each place, an array `(heads, rows, columns)` of every layer.
Weights: TypeAlias = Mapping[str, Sequence[np.ndarray]]


@dataclasses.dataclass(frozen=True)
class Mechanism:
    """The attention of one layer.

    Attributes:
        name: of the registry, or that of its class.
        heads: number of heads.
        by_position: whether its weights depend on positions alone, and so are the same for every sentence.
    """

    name: str
    heads: int
    by_position: bool = False


@dataclasses.dataclass(frozen=True)
class System:
    """A translator.

    Attributes:
        name: what the page calls it.
        places: its mechanisms by place, one per layer.
        shown: layer of cross-attention that stands for the alignment, counted from 0, or "all".
        beams: hypotheses that its search keeps.
        length_penalty: of its search.
    """

    name: str
    places: Mapping[str, Sequence[Mechanism]]
    shown: int | str
    beams: int
    length_penalty: float


@dataclasses.dataclass(frozen=True)
class Sentence:
    """A source sentence.

    Attributes:
        text: as the systems read it.
        words: its words.
        gold: links between its words and those of the given translation, or None.
    """

    text: str
    words: Sequence[str]
    gold: Alignment | None = None


@dataclasses.dataclass(frozen=True)
class Path:
    """A translation along which a model was followed.

    Attributes:
        kind: "own", what the search found, or "given".
        text: the translation.
        words: its words.
        tokens: its subwords, the end included.
        log_probs: log-probability of each.
        weights: attention along it; that of the encoder is the result's.
    """

    kind: str
    text: str
    words: Sequence[str]
    tokens: Sequence[str]
    log_probs: np.ndarray
    weights: Weights


@dataclasses.dataclass(frozen=True)
class SearchStep:
    """One position of a search: up to twice as many candidates as there are beams, the best first.

    Attributes:
        tokens: subword that each candidate adds; a finished one adds none, which is "".
        parents: place of each among the candidates of the position before, where it was kept.
        log_probs: log-probability of the whole candidate.
        scores: the same divided by the length penalty, by which candidates are compared.
        ended: whether each is finished.
        attention: `(beams, heads, source)`, by which each parent's next token is chosen.
    """

    tokens: Sequence[str]
    parents: Sequence[int]
    log_probs: Sequence[float]
    scores: Sequence[float]
    ended: Sequence[bool]
    attention: np.ndarray


@dataclasses.dataclass(frozen=True)
class Result:
    """What a system does with a sentence.

    Attributes:
        source_tokens: subwords of the source, the end included.
        encoder: attention inside the encoder, `(heads, source, source)` of every layer.
        paths: translations along which it was followed, its own first.
        steps: its search, position by position.
    """

    source_tokens: Sequence[str]
    encoder: Sequence[np.ndarray]
    paths: Sequence[Path]
    steps: Sequence[SearchStep]
