"""What a pool did in a crawl, in numbers and in plain words."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any

from ._compat import DownloadTimeoutError

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings
    from scrapy.statscollectors import StatsCollector

    from .download import Download

# Shares from which on a bottleneck is one worth a word; of the loop's time, the lower one where the
# workers had little to do and nothing else explains that
_LOOP_BUSY, _LOOP_HALF_BUSY = 0.8, 0.5
_QUEUE_WAIT = 0.1


@dataclass
class Usage:
    """What the workers of one transport did; kept on the event loop's thread.

    Times are seconds. ``queue_wait`` is from the hand-over of a request to its begin in a worker,
    ``busy`` from there to its end. ``held_back`` counts by its cause (``"delay"``, ``"site"`` or
    ``"all"``) how often Scrapy held further requests back when one was done.
    """

    size: int
    tasks: int = 0
    failures: int = 0
    timeouts: int = 0
    given_up: int = 0
    busy_peak: int = 0
    busy_total: float = 0.0
    queue_peak: int = 0
    queue_wait_total: float = 0.0
    queue_wait_max: float = 0.0
    pages: Counter[str] = field(default_factory=Counter)
    held_back: Counter[str] = field(default_factory=Counter)
    _in_flight: int = 0
    _first: float | None = None
    _last: float = 0.0
    _loop_first: float = 0.0
    _loop_last: float = 0.0

    def submitted(self, download: Download) -> None:
        """Count *download* when it is handed to the workers."""
        download.submitted = monotonic()
        if self._first is None:
            self._first = download.submitted
            self._loop_first = time.thread_time()
        self._in_flight += 1
        self.busy_peak = max(self.busy_peak, min(self._in_flight, self.size))
        self.queue_peak = max(self.queue_peak, self._in_flight - self.size)

    def finished(self, download: Download) -> None:
        """Count *download* when it is back, or nobody waits for it any more."""
        self.tasks += 1
        self._in_flight -= 1
        self._last = monotonic()
        self._loop_last = time.thread_time()
        begun = download.begun
        if begun is None:
            return
        wait = begun - download.submitted
        self.queue_wait_total += wait
        self.queue_wait_max = max(self.queue_wait_max, wait)
        self.busy_total += (download.ended or self._last) - begun

    def failed(self, error: BaseException) -> None:
        """Count *error*, which a download ended with."""
        self.failures += 1
        if isinstance(error, DownloadTimeoutError):
            self.timeouts += 1

    @property
    def seconds(self) -> float:
        """From the first request that was handed over to the last that came back."""
        return 0.0 if self._first is None else self._last - self._first

    @property
    def busy_mean(self) -> float:
        """How many workers were busy at a time."""
        return self.busy_total / self.seconds if self.seconds else 0.0

    @property
    def loop_busy(self) -> float:
        """Share of the time in which the event loop's thread computed."""
        return (self._loop_last - self._loop_first) / self.seconds if self.seconds else 0.0

    def write(self, stats: StatsCollector, prefix: str) -> None:
        """Write the numbers to *stats*, under names that begin with *prefix*."""
        numbers: dict[str, Any] = {
            "size": self.size,
            "tasks": self.tasks,
            "failures": self.failures,
            "timeouts": self.timeouts,
            "workers_given_up": self.given_up,
            "busy_workers/peak": self.busy_peak,
            "busy_workers/mean": round(self.busy_mean, 2),
            "queue/peak": self.queue_peak,
            "queue_wait/total": round(self.queue_wait_total, 3),
            "queue_wait/max": round(self.queue_wait_max, 3),
        }
        for name, value in numbers.items():
            stats.set_value(f"{prefix}/{name}", value)
        for worker, pages in self.pages.items():
            stats.set_value(f"{prefix}/pages/{worker}", pages)


def summary(usage: Usage, settings: BaseSettings, threads_setting: str) -> str:
    """Return in one line how a crawl used its workers, and which setting would change that.

    :param threads_setting: the name of the setting with the number of workers.
    """
    if not usage.tasks:
        return f"{usage.size} workers had nothing to do: no request came to them"
    words = (
        f"{usage.size} workers did {usage.tasks} requests in {usage.seconds:.1f} s, "
        f"{usage.busy_mean:.1f} of them at a time and {usage.busy_peak} at most"
    )
    return f"{words}; {_bottleneck(usage, settings, threads_setting)}"


def _bottleneck(usage: Usage, settings: BaseSettings, threads_setting: str) -> str:
    if usage.given_up:
        return (
            f"{usage.given_up} were given up because their call did not come back within "
            "DOWNLOAD_TIMEOUT"
        )
    loop = (
        f"the event loop was the bottleneck ({usage.loop_busy:.0%} of its time): callbacks, "
        "pipelines and middlewares take it, not the downloads"
    )
    if usage.loop_busy >= _LOOP_BUSY and usage.tasks > usage.size:
        return loop
    if usage.queue_peak > 0 and usage.queue_wait_total > _QUEUE_WAIT * usage.busy_total:
        mean = usage.queue_wait_total / usage.tasks
        return f"requests waited {mean:.2f} s for a worker on average: raise {threads_setting}"
    full = usage.busy_peak == usage.size
    cause, times = (usage.held_back.most_common(1) or [("", 0)])[0]
    if not full and times and 2 * times >= usage.tasks:
        return f"the pool was never full: {_limit(cause, settings)}"
    idle = 2 * usage.busy_mean < usage.size < usage.tasks
    if idle and usage.loop_busy >= _LOOP_HALF_BUSY:
        return loop
    if full:
        return "no setting holds the crawl back"
    return "the pool was never full: there were too few requests at a time"


def _limit(cause: str, settings: BaseSettings) -> str:
    """Return which setting held requests back."""
    if cause == "all":
        limit = settings.getint("CONCURRENT_REQUESTS")
        return f"CONCURRENT_REQUESTS = {limit} allows no more at a time"
    if cause == "site":
        limit = settings.getint("CONCURRENT_REQUESTS_PER_DOMAIN")
        return f"CONCURRENT_REQUESTS_PER_DOMAIN = {limit} limits the requests to one site"
    if settings.getbool("AUTOTHROTTLE_ENABLED"):
        return "AUTOTHROTTLE_ENABLED and AUTOTHROTTLE_TARGET_CONCURRENCY hold requests back"
    if delay := settings.getfloat("DOWNLOAD_DELAY"):
        return f"DOWNLOAD_DELAY = {delay:g} holds requests back"
    return "a delay of DOWNLOAD_SLOTS, of the spider or of robots.txt holds requests back"
