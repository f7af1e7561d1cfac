"""Downloads in lanes: one for each worker, or as many as it takes so that none overlap."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .plan import Download, Run

_MOST = 1000


@dataclass(frozen=True)
class Lanes:
    """Lanes from the start of a crawl to *end* seconds; *left_out* downloads came after that.

    *names* are those of the lanes, and a download is paired with the number of its lane, from 0.
    """

    names: list[str]
    downloads: list[tuple[int, Download]]
    end: float
    left_out: int

    @property
    def busy(self) -> float:
        """The share of time that the lanes had a download, from 0 to 1."""
        used = sum(min(each.end, self.end) - each.start for _, each in self.downloads)
        return used / (self.end * len(self.names)) if self.names and self.end else 0.0


def lay(run: Run) -> Lanes:
    """Return the lanes of the first downloads of *run*, as many as can be looked at."""
    downloads = sorted(run.downloads, key=lambda download: download.start)
    # Some of all downloads would look like an idle pool; all of the first ones are what it was.
    shown = downloads[:_MOST]
    left_out = len(downloads) - len(shown)
    end = downloads[_MOST].start if left_out else run.seconds
    if any(download.worker for download in shown):
        names = _workers(run)
        paired = [(names.index(download.worker), download) for download in shown]
    else:
        paired = _pack(shown)
        names = [
            str(number + 1) for number in range(1 + max((lane for lane, _ in paired), default=-1))
        ]
    return Lanes(names, paired, end, left_out)


def _workers(run: Run) -> list[str]:
    """Return the names of all workers, also of those without a download, in order."""
    return list(dict.fromkeys([*run.workers, *(download.worker for download in run.downloads)]))


def _pack(downloads: list[Download]) -> list[tuple[int, Download]]:
    """Give each download the first lane that is free at its start."""
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    lanes = 0
    packed = []
    for download in downloads:
        while busy and busy[0][0] <= download.start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            lane = heapq.heappop(free)
        else:
            lane, lanes = lanes, lanes + 1
        heapq.heappush(busy, (download.end, lane))
        packed.append((lane, download))
    return packed
