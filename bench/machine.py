"""The machine: holding one core, resident memory, and what may be told about it."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

STATM = Path("/proc/self/statm")
ALLOWED = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set[int]()


def pin() -> int | None:
    """Keep this process on one core, where the system allows it; that core's number.

    The last of the allowed ones: interrupts and other people's pinned work tend to the first.
    """
    if not hasattr(os, "sched_setaffinity"):
        return None
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return core


def elsewhere(process: int) -> None:
    """Keep a helper's process off the core that `pin` has taken, where there are more."""
    if len(ALLOWED) > 1:
        os.sched_setaffinity(process, ALLOWED - {max(ALLOWED)})


def resident_mb() -> float:
    """Resident memory of this process in MB (2**20 bytes); its peak where no more is known."""
    if STATM.exists():
        pages = int(STATM.read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
    import resource  # not on every system

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def load() -> float | None:
    """The load average of the last minute, where there is one."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def description() -> dict[str, object]:
    """Cores, architecture, system and Python; nothing that names the machine."""
    return {
        "cores": os.cpu_count(),
        "architecture": platform.machine(),
        "system": platform.system(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
    }
