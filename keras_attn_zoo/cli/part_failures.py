"""What a command with several parts says of one that failed, while the others go on."""

import logging

from keras_attn_zoo.cli.process import reason

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
