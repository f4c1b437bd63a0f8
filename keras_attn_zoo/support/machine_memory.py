"""How much memory this machine has."""

import os


def machine_bytes() -> float:
    """Return the memory of this machine; infinity if unknown.

    Example:
        >>> machine_bytes() > 1e8
        True
    """
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return float("inf")
