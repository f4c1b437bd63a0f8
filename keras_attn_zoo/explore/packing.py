"""Records as the page reads them: JSON, and weights as bytes."""

import base64
import json
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_attn_zoo.analysis.word_attention import group_pieces, word_attention
from keras_attn_zoo.evaluation.alignments import Alignment, alignment_scores
from keras_attn_zoo.evaluation.attention_links import extract_alignment
from keras_attn_zoo.explore.records import PLACES, Result, Sentence, System

END = "</s>"
# Weights are stored as bytes, row by row: the largest as a share of 1 in 65535 parts, the others as the square root
# of their share of the largest in 255 parts. So small weights, which entropies are made of, keep their digits.
_LARGEST, _ROOT = 65535, 255


class Bytes:
    """Attention weights, packed one behind the other.

    Example:
        >>> packed = Bytes()
        >>> packed.add(np.eye(2)[None])
        {'at': 0, 'shape': [1, 2, 2]}
    """

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, weights: np.ndarray) -> dict[str, Any]:
        """Add weights `(matrices, rows, columns)`; return where they are."""
        weights = np.clip(np.nan_to_num(np.asarray(weights, "float64")), 0.0, 1.0)
        largest = weights.max(axis=-1, initial=0.0)
        largest = np.ceil(largest * _LARGEST).astype("<u2")
        share = weights / np.maximum(largest, 1)[..., None] * _LARGEST
        place = {"at": self._size, "shape": list(weights.shape)}
        self._parts += [largest.tobytes(), np.round(_ROOT * np.sqrt(share)).astype("u1").tobytes()]
        self._size += sum(map(len, self._parts[-2:]))
        return place

    def all(self) -> bytes:
        """All of them."""
        return b"".join(self._parts)


def pack(systems: Sequence[System], sentences: Sequence[Sentence], results: Sequence[Sequence[Result]]) -> str:
    """Return a page's data as JSON that may stand inside a `script` element.

    It holds one string, "packed": in base64, deflated, the length of more JSON in four bytes, that JSON, and the
    weights that it points to.

    Args:
        systems: the systems.
        sentences: the sentences.
        results: for each sentence, the `Result` of each system.
    """
    packed = Bytes()
    data = {
        "places": PLACES,
        "systems": [_system(system, _error_rates(i, sentences, results)) for i, system in enumerate(systems)],
        "sentences": [_sentence(packed, *both) for both in zip(sentences, results, strict=True)],
    }
    text = safe_json(data).encode()
    whole = zlib.compress(len(text).to_bytes(4, "little") + text + packed.all(), 9)
    return safe_json({"packed": base64.b64encode(whole).decode("ascii")})


def safe_json(value: Any) -> str:
    """Return JSON in which nothing ends a `script` element, begins a comment, or ends a line of JavaScript."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    # Halves of a pair that Python lets through have no UTF-8.
    return "".join(c if not "\ud800" <= c <= "\udfff" else f"\\u{ord(c):04x}" for c in text)


def _system(system, rates):
    best, by = system.shown, "model"
    if rates:
        best, by = min(range(len(rates)), key=rates.__getitem__), "aer"
    return {
        "name": system.name,
        "beams": system.beams,
        "penalty": system.length_penalty,
        "best": best,
        "bestBy": by,
        "aer": [round(100 * rate, 1) for rate in rates],
        "places": {
            place: [[one.name, one.heads, int(one.by_position)] for one in layers]
            for place, layers in system.places.items()
            if layers
        },
    }


def _error_rates(system, sentences, results):
    """Alignment error rate of each layer of cross-attention; none without gold links."""
    pairs = [
        (sentence, of_systems[system].source_tokens, path)
        for sentence, of_systems in zip(sentences, results, strict=True)
        if sentence.gold is not None
        for path in of_systems[system].paths
        if path.kind == "given"
    ]
    layers = len(pairs[0][2].weights["cross"]) if pairs else 0
    gold = [sentence.gold for sentence, _, _ in pairs]
    return [alignment_scores([_links(*pair, layer) for pair in pairs], gold).aer for layer in range(layers)]


def _links(sentence, source_tokens, path, layer):
    attention = path.weights["cross"][layer].mean(axis=0)
    words = word_attention(attention, source_tokens, path.tokens, sentence.words, path.words)
    return Alignment(sure=frozenset(extract_alignment(words)))


def _sentence(packed, sentence, results):
    return {
        "text": sentence.text,
        "words": list(sentence.words),
        "gold": None if sentence.gold is None else _gold(sentence.gold),
        "results": [_result(packed, sentence, result) for result in results],
    }


def _gold(gold):
    return [[j, i, int((j, i) in gold.sure)] for j, i in sorted(gold.possible)]


def _result(packed, sentence, result):
    return {
        "tokens": list(result.source_tokens),
        "groups": _groups(result.source_tokens, sentence.words),
        "encoder": _layers(packed, result.encoder),
        "paths": [_path(packed, path) for path in result.paths],
        "steps": [_step(packed, step) for step in result.steps],
    }


def _groups(tokens, words):
    """The word of each subword. The end of the sentence is a word of its own here, behind the others."""
    groups = group_pieces(tokens, words)
    return [len(words) if token == END else group for token, group in zip(tokens, groups, strict=True)]


def _layers(packed, layers):
    return [packed.add(layer) for layer in layers]


def _path(packed, path):
    return {
        "kind": path.kind,
        "text": path.text,
        "words": list(path.words),
        "tokens": list(path.tokens),
        "groups": _groups(path.tokens, path.words),
        "logProbs": _rounded(path.log_probs),
        "weights": {place: _layers(packed, layers) for place, layers in path.weights.items() if len(layers)},
    }


def _step(packed, step):
    return {
        "tokens": list(step.tokens),
        "parents": [int(parent) for parent in step.parents],
        "logProbs": _rounded(step.log_probs),
        "scores": _rounded(step.scores),
        "ended": [int(ended) for ended in step.ended],
        "attention": packed.add(np.moveaxis(np.asarray(step.attention), 0, 1)),
    }


def _rounded(values):
    return [round(float(value), 4) if np.isfinite(value) else None for value in values]
