"""Systems of a comparison with equally many parameters: a width of each body takes the difference."""

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from keras_attn_zoo.runs.outline import outline
from keras_attn_zoo.runs.settings import SMALLEST_VOCABULARY
from keras_attn_zoo.runs.system import System
from keras_attn_zoo.studies.comparison import Recipe, Run
from keras_attn_zoo.support.errors import UserError

# By body: no mechanism depends on the first; of the second, those of an RNN do.
WIDTHS = {"transformer": "ffn_dim", "rnn": "hidden_dim"}
# A secant converges in a few steps; a width is a whole number.
_MOST_STEPS = 12


def equally_large(system: System, parameters: int) -> System:
    """Return a system with as many parameters, as nearly as its body's one of `WIDTHS` allows.

    Raises:
        UserError: the mechanism alone has more.

    Example:
        >>> small = System("a", {"width": 8, "num_heads": 2, "ffn_dim": 8}, body="transformer")
        >>> equally_large(small, parameters_of(small.override(ffn_dim=11))).sizes["ffn_dim"]
        11
    """
    name = WIDTHS[system.body]
    found: dict[int, int] = {}

    def missing(width):
        """How many parameters a width lacks."""
        if width not in found:
            found[width] = parameters_of(system.override(**{name: width}))
        return parameters - found[width]

    last, width = system.sizes[name], system.sizes[name] + 1
    for _ in range(_MOST_STEPS if missing(last) else 0):
        rise = found[last] - parameters + missing(width) or 1
        last, width = width, max(1, round(width - missing(width) * (width - last) / rise))
        if width in found:
            break
    best = min(found, key=lambda one: abs(missing(one)))
    if best == 1 and missing(best) < 0:
        raise UserError(
            f"even with {name}=1, {system.name} has {found[best]:,} parameters, and the systems that it is compared "
            f"with {parameters:,}: leave it out, or give all a larger {name}."
        )
    return system.override(**{name: best})


def parameters_of(system: System) -> int:
    """Return the number of a system's parameters, with the vocabulary that it asks for."""
    size = system.data.vocabulary_size or SMALLEST_VOCABULARY
    return outline(system, size, size).parameters


def equal_runs(runs: Sequence[Run], recipe: Recipe, settings: Mapping[str, Any]) -> list[Run]:
    """Return runs whose systems have as many parameters as `Recipe.equal_to` has with the same settings.

    Args:
        runs: the runs, see `expand`.
        recipe: the comparison; if its systems have their own sizes, the runs stay as they are.
        settings: those of all runs. A width among them is the reference's; it stays in bodies of another kind, and one
            of a grid stays in all.
    """
    if recipe.equal_to is None:
        return list(runs)
    reference, equal = recipe.entries[recipe.equal_to].system, []
    for run in runs:
        given = {**settings, **run.point}
        fixed = run.point if run.system.body == reference.body else given
        if WIDTHS[run.system.body] not in fixed:
            same = parameters_of(reference.override(**reference.applicable_settings(given)))
            # A mechanism may have more than a whole system at the scale "smoke".
            with contextlib.suppress(*([UserError] if recipe.scale == "smoke" else [])):
                run = dataclasses.replace(run, system=equally_large(run.system, same))
        equal.append(run)
    return equal
