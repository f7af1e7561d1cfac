"""How late the event loop is: the time from when something was due to when it came to it."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from scrapy.utils.asyncio import call_later

if TYPE_CHECKING:
    from scrapy.utils.asyncio import CallLaterResult

_INTERVAL = 0.02


class LoopLag:
    """Looks at the clock every 20 ms of the loop's time.

    *samples* are pairs: when a look was due, in seconds after `start`, and how late it came.
    """

    def __init__(self) -> None:
        self.samples: list[tuple[float, float]] = []
        self._start = 0.0
        self._due = 0.0
        self._call: CallLaterResult | None = None

    def start(self) -> None:
        """Begin; on the loop's thread."""
        self._start = perf_counter()
        self._due = self._start + _INTERVAL
        self._call = call_later(_INTERVAL, self._look)

    def stop(self) -> None:
        """End; may be called more than once."""
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def _look(self) -> None:
        now = perf_counter()
        # A loop that was blocked for a second was late fifty times, not once: else the worst
        # would hardly count.
        while self._due <= now:
            self.samples.append((round(self._due - self._start, 4), round(now - self._due, 6)))
            self._due += _INTERVAL
        self._call = call_later(max(self._due - now, 0), self._look)
