"""The peak memory of a piece of work, as far as the machine tells it."""

import ctypes
import gc
import platform
from collections.abc import Callable

import keras

# glibc's name of the size from which memory comes from the system, and goes back to it when it is freed.
_M_MMAP_THRESHOLD, _SMALL = -3, 1 << 16


def peak_bytes(work: Callable[[], object]) -> int | None:
    """Do some work twice, and return by how much the memory in use rises the second time, at most; None if unknown.

    Use it in a process of its own, before anything is timed: on a CPU, freed memory goes back to the system at once
    from then on, which takes time, and what lies free in the process already is not counted. JAX tells the peak of a
    GPU since the process began. TensorFlow counts its own arrays where it keeps freed memory, in pieces that may
    be larger than what they hold: on GPUs, and on processors for which it has oneDNN's operations.

    Args:
        work: what to do; what it compiles and keeps the first time is not counted.

    Example:
        >>> (peak_bytes(lambda: bytearray(50_000_000)) or 5e7) >= 5e7
        True
    """
    if "cpu" not in str(keras.ops.zeros((1,)).device).lower():
        return _DEVICES[keras.config.backend()](work)
    if keras.config.backend() == "tensorflow" and _keeps_freed_memory():
        return _tensorflow(work, "CPU:0")
    return _of_process(work) if platform.libc_ver()[0] == "glibc" else None


def _of_process(work):
    libc = ctypes.CDLL(None)
    libc.mallopt(_M_MMAP_THRESHOLD, _SMALL)
    work()
    gc.collect()
    libc.malloc_trim(0)
    try:
        # The peak begins anew.
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        return None
    before = _status("VmRSS")
    work()
    return max(0, _status("VmHWM") - before)


def _status(what):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(what))


def _torch(work):
    import torch

    work()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    work()
    return torch.cuda.max_memory_allocated() - before


def _jax(work):
    import jax

    work()
    before = jax.devices()[0].memory_stats()["bytes_in_use"]
    work()
    return jax.devices()[0].memory_stats()["peak_bytes_in_use"] - before


def _tensorflow(work, device="GPU:0"):
    from tensorflow.config import experimental

    work()
    experimental.reset_memory_stats(device)
    before = experimental.get_memory_info(device)["current"]
    work()
    return experimental.get_memory_info(device)["peak"] - before


def _keeps_freed_memory():
    """Whether TensorFlow has an allocator with statistics on the CPU, as those have that keep freed memory."""
    from tensorflow.config import experimental

    try:
        experimental.get_memory_info("CPU:0")
    except ValueError:
        return False
    return True


_DEVICES = {"torch": _torch, "jax": _jax, "tensorflow": _tensorflow}
