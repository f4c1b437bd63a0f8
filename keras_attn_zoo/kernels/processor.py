"""What this machine's processor is, as far as Linux tells, and whether JAX computes on it."""

import functools
import platform
import re
from pathlib import Path

import keras

# What Linux calls instructions that multiply bfloat16.
_BFLOAT16_FLAGS = {"amx_bf16", "avx512_bf16"}


def is_jax_on_cpu() -> bool:
    """Return whether Keras computes by JAX, on the CPU."""
    if keras.config.backend() != "jax":
        return False
    import jax

    return jax.default_backend() == "cpu"


def is_intel() -> bool:
    """Return whether it is one of Intel's."""
    return _known("vendor_id") == "GenuineIntel"


def is_amd() -> bool:
    """Return whether it is one of AMD's."""
    return _known("vendor_id") == "AuthenticAMD"


def has_avx512() -> bool:
    """Return whether it has AVX-512."""
    return "avx512f" in flags()


def has_avx512_vnni() -> bool:
    """Return whether it multiplies and adds numbers of int8 by VNNI in vectors of AVX-512."""
    return "avx512_vnni" in flags()


def has_amx_int8() -> bool:
    """Return whether it multiplies int8 by Intel's AMX."""
    return "amx_int8" in flags()


def has_amx() -> bool:
    """Return whether it multiplies bfloat16 by Intel's AMX."""
    return "amx_bf16" in bfloat16_instructions()


def is_faster_in_bfloat16() -> bool:
    """Return whether it multiplies bfloat16 faster than float32: by AMX, or one of AMD's by AVX-512.

    An Intel Xeon with the same instructions of AVX-512, and without AMX, trains slower in bfloat16 than in float32.
    """
    return has_amx() or (is_amd() and bool(bfloat16_instructions()))


def bfloat16_instructions() -> list[str]:
    """Return what Linux calls its instructions that multiply bfloat16."""
    return sorted(_BFLOAT16_FLAGS.intersection(flags()))


def flags() -> list[str]:
    """Return what Linux calls its features."""
    return _known("flags").split()


def processor_name() -> str:
    """Return what the processor is called, or what kind it is of."""
    return _known("model name") or platform.processor() or platform.machine()


def _known(key):
    """What is said of the first core; "" if nothing is."""
    found = re.search(rf"^{key}\s*:(.*)$", _description(), re.MULTILINE)
    return found[1].strip() if found else ""


@functools.cache
def _description():
    try:
        return Path("/proc/cpuinfo").read_text()
    except OSError:
        return ""
