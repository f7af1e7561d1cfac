"""Whether the machine had anything else to do."""

import resource
import time
from statistics import median

import psutil

# Share of the machine from which on a measurement says little. Where processors are short, a
# process with more threads gets more of them, so that a busy machine flatters some handlers.
_TOO_MUCH = 0.1


class Load:
    """What other processes take of the machine, from now on."""

    def __init__(self) -> None:
        self._begin = time.perf_counter(), _all(), _children()

    def others(self, server: float) -> float:
        """Return the share of all processors that others took, without *server* seconds of CPU.

        Ours are this process's children that have ended since.
        """
        begin, everything, children = self._begin
        available = (time.perf_counter() - begin) * (psutil.cpu_count() or 1)
        mine = _children() - children + server
        return max(0.0, (_all() - everything - mine) / available)


def verdict(shares: list[float]) -> str:
    """Return in words what others took during the measurements, and whether that is too much."""
    if not shares:
        return ""
    text = f"Other processes took {median(shares):.0%} of the machine, at most {max(shares):.0%}."
    if median(shares) > _TOO_MUCH:
        text += " **That is too much: these numbers do not count.**"
    return text


def _all() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.system + times.nice)


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
