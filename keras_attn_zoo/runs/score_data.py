"""The scores of a run as plain data: what they must hold, and what they are of."""

import math
from collections.abc import Mapping
from typing import Any

# The scores that tables and pictures read. In a dict, `...` is any name, and a name with a question mark is optional.
NUMBER, _MAYBE = (int, float), (int, float, type(None))
# No number of a run is, and none is negative; statistics and pictures cannot compute with such.
_TOO_LARGE = 1e100
_SCORES = {
    "sentences": int,
    "beams": int,
    "length_penalty": NUMBER,
    "search_top_k": (int, type(None)),
    "text": {
        "metrics": {...: {"score": NUMBER, "signature": str}},
        "tokenize?": str,
        "lowercase?": bool,
        "references?": int,
    },
    "perplexity?": _MAYBE,
    "accuracy?": _MAYBE,
    "alignment?": {...: _MAYBE},
    "free_running?": {...: _MAYBE},
    "translation_seconds": NUMBER,
    "translation_compilation_seconds": NUMBER,
    "training": {
        "steps": int,
        "seconds": NUMBER,
        "compilation_seconds": NUMBER,
        "tokens_per_second": _MAYBE,
        "environment": str,
        "precision?": str,
    },
    "parameters": int,
    "precision?": str,
    "text_checksum?": str,
    "origin?": {"files": list, "reverse": bool},
    "translations_checksum?": str,
}


def are_scores(value: Any) -> bool:
    """Return whether plain data is the scores of a run by name, as its folder keeps them."""
    fitting = isinstance(value, dict) and all(fits(one, _SCORES) for one in value.values())
    return fitting and all(one["text"]["metrics"] for one in value.values())


def fits(value: Any, shape: Any) -> bool:
    """Return whether plain data has the given shape; extra entries are ignored."""
    if not isinstance(shape, dict):
        possible = not isinstance(value, (int, float)) or 0 <= value < _TOO_LARGE
        return isinstance(value, shape) and isinstance(value, bool) == (shape is bool) and possible
    if not isinstance(value, dict):
        return False
    if ... in shape:
        return all(fits(one, shape[...]) for one in value.values())
    return all(
        fits(value[name.rstrip("?")], one) if name.rstrip("?") in value else name.endswith("?")
        for name, one in shape.items()
    )


def finite(value: Any) -> Any:
    """Return plain data with None for NaN and infinity, which JSON does not have; tables show a dash."""
    if isinstance(value, dict):
        return {key: finite(one) for key, one in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def how_searched(scores: Mapping[str, Any]) -> tuple[int, float, int | None]:
    """Return beams, length penalty and the number of source positions of the search that scores are of."""
    return scores["beams"], scores["length_penalty"], scores["search_top_k"]


def without_outdated(scores: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the scores of a run without those of texts that were not scored again after it was trained further."""
    steps = scores["test"]["training"]["steps"] if "test" in scores else 0
    return {name: one for name, one in scores.items() if one["training"]["steps"] >= steps}
