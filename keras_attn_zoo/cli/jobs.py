"""What a command spends its time on, by which its backend is chosen."""

from collections.abc import Iterable

from keras_attn_zoo.runs.system import System


def training_job(systems: Iterable[System | None]) -> str:
    """Return the job of training systems, see `choose_backend`.

    Args:
        systems: the systems; None for one that does not exist, which is reported later.

    Example:
        >>> from keras_attn_zoo.runs.named_systems import SYSTEMS
        >>> training_job([SYSTEMS["bahdanau"]])
        'training RNNs'
    """
    only_rnns = all(system is not None and system.body == "rnn" for system in systems)
    return "training RNNs" if only_rnns else "training"
