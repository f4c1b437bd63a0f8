"""What a command spends its time on, by which its backend is chosen."""

from collections.abc import Iterable

from keras_attn_zoo.experiments.system import System


def training_job(systems: Iterable[System | None], precision: str | None) -> str:
    """Return the job of training systems, see `choose_backend`.

    Args:
        systems: the systems; None for one that does not exist, which is reported later.
        precision: that of `--precision`, or None. In bfloat16, TensorFlow trains RNNs faster than JAX in float32.

    Example:
        >>> from keras_attn_zoo.experiments.named_systems import SYSTEMS
        >>> training_job([SYSTEMS["bahdanau"]], None)
        'training RNNs'
    """
    only_rnns = all(system is not None and system.body == "rnn" for system in systems)
    return "training RNNs" if only_rnns and precision != "bfloat16" else "training"
