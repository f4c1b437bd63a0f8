"""The values that were chosen for the systems of a comparison, see `--tune`: a record beside their runs."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_attn_zoo.support.files import read_record, write_json
from keras_attn_zoo.support.locks import locked

FILE = "tuned.json"
# At the end of a run's name.
_SEED = re.compile(r"-seed=\d+\Z")


def tuned_values(out: Path) -> dict[str, dict[str, Any]]:
    """Return what was chosen in a folder, by the name that the candidates of a system share; nothing if it is damaged.

    Each is `{"run": name of the chosen candidate, "values": {setting: value}, "validation_loss": {name of a candidate:
    loss}}`. Names are without the seed, and the loss of what failed is None.

    Example:
        >>> tuned_values(Path("nowhere"))
        {}
    """
    wanted = {"run": str, "values": dict, "validation_loss": dict}
    return {
        name: one
        for name, one in read_record(out / FILE).items()
        if isinstance(one, dict) and all(isinstance(one.get(key), kind) for key, kind in wanted.items())
    }


def keep_tuned_values(out: Path, found: Mapping[str, Mapping[str, Any]]) -> None:
    """Add what was chosen to the record in a folder, which calls for other systems may write too."""
    with locked(out, ".results.lock", wait=True):
        whole = {**tuned_values(out), **found}
        if whole != tuned_values(out):
            write_json(out / FILE, whole)


def chosen_name(out: Path, name: str) -> str:
    """Return the name of the run with the chosen values in place of any candidate of its system and seed.

    Example:
        >>> chosen_name(Path("nowhere"), "bahdanau-dropout=0.1-seed=2")
        'bahdanau-dropout=0.1-seed=2'
    """
    stem = _SEED.sub("", name)
    found = (one["run"] for one in tuned_values(out).values() if stem in one["validation_loss"])
    return next(found, stem) + name.removeprefix(stem)
