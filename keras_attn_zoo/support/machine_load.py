"""How much of this machine's processors other processes use: what disturbs a measurement of time."""

import os
import time

from keras_attn_zoo.support.extras import require

# A share of all processors that hardly disturbs: what a system does by itself.
IDLE = 0.05
# Of a processor's times, those in which it works; "steal" is what another virtual machine had of it.
_BUSY = ("user", "nice", "system", "irq", "softirq", "steal")


class MachineLoad:
    """The processor seconds since it was made, of this process and of all others; accelerators are not seen.

    A hypervisor's other guests count among the others.

    Raises:
        MissingPackageError: psutil is not installed.

    Example:
        >>> load = MachineLoad()
        >>> load.of_others() >= 0
        True
    """

    def __init__(self) -> None:
        require("psutil", user="the load of this machine")
        self._began = _seconds()

    def of_others(self) -> float:
        """Return the share of all processors that others used."""
        elapsed, busy, own = self._since()
        # Clocks tick at different moments.
        return max(0.0, busy - own) / (elapsed * cores())

    def own_cores(self) -> float:
        """Return how many processors this process used on average."""
        elapsed, _, own = self._since()
        return own / elapsed

    def _since(self):
        now = _seconds()
        elapsed, busy, own = (end - begin for begin, end in zip(self._began, now, strict=True))
        return max(elapsed, 1e-3), busy, own


def cores() -> int:
    """Return how many processors this machine has.

    Example:
        >>> cores() >= 1
        True
    """
    return os.cpu_count() or 1


def load_of_others(seconds: float) -> float:
    """Watch for some seconds; return the share of all processors that others use."""
    load = MachineLoad()
    time.sleep(seconds)
    return load.of_others()


def _seconds():
    """Wall time, what all processors worked, and what this process worked; in seconds."""
    import psutil

    machine, own = psutil.cpu_times(), os.times()
    busy = sum(getattr(machine, name, 0.0) for name in _BUSY)
    return time.perf_counter(), busy, own.user + own.system + own.children_user + own.children_system
