"""What a crawl takes, read from inside its process."""

import asyncio
import resource
import sys
import time
from pathlib import Path
from typing import Any

import psutil

_TICK = 0.01


class Meter:
    """Reads the clocks between :meth:`start` and :meth:`stop`, both called on the loop's thread."""

    def start(self) -> None:
        """Begin to measure, the lag of the running event loop too."""
        self._lags: list[float] = []
        self._loop = asyncio.get_running_loop()
        self._due = self._loop.time() + _TICK
        self._timer = self._loop.call_at(self._due, self._tick)
        self._begin = self._read()

    def _tick(self) -> None:
        now = self._loop.time()
        self._lags.append(now - self._due)
        self._due = now + _TICK
        self._timer = self._loop.call_at(self._due, self._tick)

    def stop(self) -> dict[str, Any]:
        """Return what happened since :meth:`start`: seconds, bytes and counts."""
        end = self._read()
        self._timer.cancel()
        # A loop that was blocked until now has a lag that its timer could not report.
        self._lags.append(max(0.0, self._loop.time() - self._due))
        used = {key: end[key] - self._begin[key] for key in end}
        return {
            **used,
            "memory": _memory_peak(),
            "lag_p50": percentile(self._lags, 0.5),
            "lag_p99": percentile(self._lags, 0.99),
        }

    @staticmethod
    def _read() -> dict[str, float]:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "seconds": time.perf_counter(),
            "cpu": time.process_time(),
            "loop_cpu": time.thread_time(),
            "switches": usage.ru_nvcsw + usage.ru_nivcsw,
        }


def memory_now() -> int:
    """Return the bytes of memory that this process occupies now."""
    return int(psutil.Process().memory_info().rss)


def _memory_peak() -> int:
    # On Linux, ru_maxrss begins with what the parent process occupied.
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if "VmHWM" in line)
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )


def percentile(values: list[float], share: float) -> float | None:
    """Return the smallest value that at least *share* of *values* do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None
