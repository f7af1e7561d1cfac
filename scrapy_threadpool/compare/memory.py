"""The most memory that this process has used."""

from __future__ import annotations

import sys
from pathlib import Path


def peak_memory() -> int | None:
    """Return the peak of the resident set in bytes, or ``None`` where only Windows could tell."""
    try:
        # Unlike ru_maxrss, this one does not inherit the size of the process that started us.
        status = Path("/proc/self/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    except (OSError, StopIteration):
        pass
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
