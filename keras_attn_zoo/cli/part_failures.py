"""What a command with several parts says of those that failed, while the others go on."""

import logging
from collections.abc import Callable, Iterable

from keras_attn_zoo.cli.process import reason
from keras_attn_zoo.support.errors import UserError

_LOG = logging.getLogger(__name__)


def format_failure(name: str, error: Exception) -> str:
    """Say that one part of a comparison failed, and return the reason; of a bug, say where it is.

    With several processes, the error is raised again: the others would wait for this one in the middle of the part.
    """
    from keras_attn_zoo.devices import current

    if (devices := current()) is not None and devices.processes > 1:
        raise error
    why = reason(error)
    bug = error if why is None else None
    if bug is not None:
        why = f"{type(bug).__name__}: {bug}".splitlines()[0]
    _LOG.error("%s failed: %s", name, why, exc_info=bug)
    return str(why)


def verify_each(what: str, checks: Iterable[tuple[str, Callable[[], str]]]) -> None:
    """Print a line for each check, by name: what it returns, or the `UserError` that it raises.

    Raises:
        UserError: says how many checks failed, of what, in the plural; all were made.
    """
    wrong = 0
    for name, check in checks:
        try:
            print(f"{name}: {check()}")
        except UserError as error:
            wrong += 1
            print(f"{name}: {error}")
    if wrong:
        raise UserError(f"{wrong} of the {what} could not be verified: see above.")
