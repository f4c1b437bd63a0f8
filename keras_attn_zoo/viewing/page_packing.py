"""Records as the page reads them: JSON, and a byte for each weight."""

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_attn_zoo.evaluation.alignment_scores import alignment_scores
from keras_attn_zoo.evaluation.alignments import Alignment
from keras_attn_zoo.evaluation.attention_links import extract_alignment
from keras_attn_zoo.viewing.page_records import PLACES, Result, Sentence, System
from keras_attn_zoo.viewing.word_attention import group_pieces, word_attention

END = "</s>"
# How a byte stands for a weight: below the knee by its root, so that small weights, which entropies are made of, keep
# their digits; above it in even steps. A page takes the first of these (step, knee) with which it stays small.
SCALES = ((2 / 255, 1.0), *((1 / steps, 2 / steps) for steps in (250, 125, 60, 30, 15)))
# Characters of data, beside which the style and the script of a page have room in 2 MB.
MOST = 1_900_000
# What would end a script element becomes what base85 leaves out and JSON does not escape.
_HARMLESS = bytes.maketrans(b"<>&", b",.:")


class Matrices:
    """Attention weights, one matrix behind the other; equal ones are kept once.

    Example:
        >>> matrices = Matrices()
        >>> matrices.add(np.eye(2)[None])
        {'at': 0, 'shape': [1, 2, 2]}
    """

    def __init__(self) -> None:
        self._places: dict[bytes, int] = {}
        self._parts: list[np.ndarray] = []
        self._size = 0

    def add(self, weights: np.ndarray) -> dict[str, Any]:
        """Add weights `(matrices, rows, columns)`; return where they are."""
        part = np.clip(np.nan_to_num(np.asarray(weights, "float32")), 0.0, 1.0).ravel()
        place = self._places.setdefault(part.tobytes(), self._size)
        if place == self._size:
            self._parts.append(part)
            self._size += part.size
        return {"at": place, "shape": list(np.shape(weights))}

    def quantized(self, step: float, knee: float) -> bytes:
        """Return all weights, a byte each; see `SCALES`."""
        weights = np.concatenate(self._parts) if self._parts else np.zeros(0)
        counts = np.where(weights < knee, 2 * np.sqrt(weights * knee), weights + knee) / step
        return np.round(counts).astype("u1").tobytes()


def pack(
    systems: Sequence[System],
    sentences: Sequence[Sentence],
    results: Sequence[Sequence[Result]],
    more: Mapping[str, Any] | None = None,
) -> str:
    """Return a page's data as JSON that may stand inside a `script` element.

    It holds one string, "packed": in base85, deflated, the length of more JSON in four bytes, that JSON, and the
    weights that it points to; and `more`, as it is. The other arguments are those of `Page`.
    """
    matrices = Matrices()
    data = {
        "places": PLACES,
        "systems": [system_record(system, _error_rates(i, sentences, results)) for i, system in enumerate(systems)],
        "sentences": [_sentence(matrices, *both) for both in zip(sentences, results, strict=True)],
    }
    for scale in SCALES:
        text = safe_json({**data, "scale": scale}).encode()
        packed = base64.b85encode(_deflated(len(text).to_bytes(4, "little") + text, matrices.quantized(*scale)))
        if len(packed) <= MOST:
            break
    return safe_json({"packed": packed.translate(_HARMLESS).decode("ascii"), **(more or {})})


def _deflated(text, weights):
    """Both as one raw stream. Weights repeat nothing but zeros, and to look for more takes time and space."""
    parts = []
    for data, strategy, end in (
        (text, zlib.Z_DEFAULT_STRATEGY, zlib.Z_FULL_FLUSH),
        (weights, zlib.Z_RLE, zlib.Z_FINISH),
    ):
        stream = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS, 9, strategy)
        parts += [stream.compress(data), stream.flush(end)]
    return b"".join(parts)


def safe_json(value: Any) -> str:
    """Return JSON in which nothing ends a `script` element, begins a comment, or ends a line of JavaScript."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    # Halves of a pair that Python lets through have no UTF-8.
    return "".join(c if not "\ud800" <= c <= "\udfff" else f"\\u{ord(c):04x}" for c in text)


def system_record(system: System, rates: Sequence[float] = ()) -> dict[str, Any]:
    """Return what the page's data says of a system, with the alignment error rates of its layers, if there are any."""
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


def _sentence(matrices, sentence, results):
    gold = sentence.gold
    return {
        "text": sentence.text,
        "words": list(sentence.words),
        "gold": gold and [[j, i, int((j, i) in gold.sure)] for j, i in sorted(gold.possible)],
        "results": [_result(matrices, sentence, result) for result in results],
    }


def _result(matrices, sentence, result):
    return {
        "tokens": list(result.source_tokens),
        "groups": _groups(result.source_tokens, sentence.words),
        "encoder": _layers(matrices, result.encoder),
        "paths": [_path(matrices, path) for path in result.paths],
        "steps": [_step(matrices, step) for step in result.steps],
    }


def _groups(tokens, words):
    """The word of each subword. The end of the sentence is a word of its own here, behind the others."""
    groups = group_pieces(tokens, words)
    return [len(words) if token == END else group for token, group in zip(tokens, groups, strict=True)]


def _layers(matrices, layers):
    return [matrices.add(layer) for layer in layers]


def _path(matrices, path):
    return {
        "kind": path.kind,
        "text": path.text,
        "words": list(path.words),
        "tokens": list(path.tokens),
        "groups": _groups(path.tokens, path.words),
        "logProbs": _rounded(path.log_probs),
        "weights": {place: _layers(matrices, layers) for place, layers in path.weights.items() if len(layers)},
    }


def _step(matrices, step):
    return {
        "tokens": list(step.tokens),
        "parents": [int(parent) for parent in step.parents],
        "logProbs": _rounded(step.log_probs),
        "scores": _rounded(step.scores),
        "ended": [int(ended) for ended in step.ended],
        "attention": matrices.add(np.moveaxis(np.asarray(step.attention), 0, 1)),
    }


def _rounded(values):
    return [round(float(value), 4) if np.isfinite(value) else None for value in values]
