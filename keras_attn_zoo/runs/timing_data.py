"""What a timing pass found of a run, as plain data: what it must hold, and whether two runs were timed together."""

from collections.abc import Iterable
from typing import Any

from keras_attn_zoo.runs.score_data import NUMBER, fits

# How often each system has its turn.
ROUNDS = 5
# Stands beside figures that were measured while others used the machine.
BESIDE_OTHER_WORK = "beside other work"
_TIMING = {
    "started": str,
    "systems": list,
    "rounds": int,
    "step_seconds": NUMBER,
    "step_bytes?": (int, type(None)),
    "shapes": {...: {"seconds": NUMBER, "share": NUMBER}},
    "tokens_per_second": NUMBER,
    "translation_seconds": NUMBER,
    "sentences": int,
    "test_sentences": int,
    "machine": str,
    "cores": int,
    "cores_used": NUMBER,
    "backend": str,
    "precision": str,
    "used_by_others": NUMBER,
    "beside_other_work": bool,
}
# Those that differ between passes; of these, two of one second may be alike.
_OF_PASS = ("started", "systems", "machine", "backend")


def is_timing(value: Any) -> bool:
    """Return whether plain data is what a timing pass found of a run, as its folder keeps it."""
    return fits(value, _TIMING) and all(isinstance(name, str) for name in value["systems"]) and value["sentences"] > 0


def timed_together(timings: Iterable[dict[str, Any]]) -> bool:
    """Return whether runs took turns in one pass, so that their times may be compared."""
    return len({repr([one[name] for name in _OF_PASS]) for one in timings}) <= 1


def translation_seconds(timing: dict[str, Any]) -> float:
    """Return how long the whole test text takes, by the sentences of it that were timed.

    Example:
        >>> translation_seconds({"translation_seconds": 3.0, "sentences": 200, "test_sentences": 1000})
        15.0
    """
    return timing["translation_seconds"] * timing["test_sentences"] / timing["sentences"]
