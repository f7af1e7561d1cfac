"""How far ``scrapy crawlsite`` is: a live view on a terminal, elsewhere a line now and then.

All it does is to look at counters twice a second at most, so it costs the same however many pages a
second come.
"""

from __future__ import annotations

import importlib.util
import logging
import sys
from collections import deque
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Protocol, cast

from scrapy import signals
from scrapy.utils.asyncio import create_looping_call

from .handler import workers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, RenderableType
    from scrapy.crawler import Crawler
    from typing_extensions import Self

    from .pool import WorkerState
    from .sitespider import SiteSpider

logger = logging.getLogger(__name__)

_SECONDS_BETWEEN_FRAMES = 0.5
_SECONDS_BETWEEN_LINES = 3.0
_SECONDS_OF_RATES = 10.0


@dataclass(frozen=True)
class Figures:
    """How far a crawl is at one moment."""

    at: float
    pages: int
    failed: int
    queued: int
    received: int
    total: int | None


class View(Protocol):
    """One way to show figures."""

    interval: float

    def show(self, now: Figures, pages_per_second: float, bytes_per_second: float) -> None:
        """Show what is new since the last call."""

    def close(self) -> None:
        """Leave the terminal as it was."""


class Progress:
    """The Scrapy extension that shows how far a :class:`~.sitespider.SiteSpider` is."""

    def __init__(self, crawler: Crawler):
        self.crawler = crawler
        self._loop = create_looping_call(self._show)
        self._recent: deque[Figures] = deque()
        self._view: View

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        extension = cls(crawler)
        crawler.signals.connect(extension.spider_opened, signal=signals.spider_opened)
        crawler.signals.connect(extension.spider_closed, signal=signals.spider_closed)
        return extension

    def spider_opened(self) -> None:
        self._view = LiveView(self.crawler) if _terminal_is_free(self.crawler) else LogLines()
        self._recent.append(self._figures())
        self._loop.start(self._view.interval, now=False)

    def spider_closed(self) -> None:
        if self._loop.running:
            self._loop.stop()
            self._view.close()

    def _show(self) -> None:
        now = self._figures()
        self._recent.append(now)
        while now.at - self._recent[0].at > _SECONDS_OF_RATES:
            self._recent.popleft()
        then = self._recent[0]
        seconds = now.at - then.at
        self._view.show(
            now, (now.pages - then.pages) / seconds, (now.received - then.received) / seconds
        )

    def _figures(self) -> Figures:
        stats = self.crawler.stats
        spider = cast("SiteSpider", self.crawler.spider)
        scheduled: int = stats.get_value("scheduler/enqueued", 0)
        taken: int = stats.get_value("scheduler/dequeued", 0)
        return Figures(
            at=monotonic(),
            pages=spider.pages,
            failed=spider.failed,
            queued=scheduled - taken + len(spider.waiting),
            received=stats.get_value("downloader/response_bytes", 0),
            total=spider.total,
        )


class LogLines:
    """A line of the log every few seconds."""

    interval = _SECONDS_BETWEEN_LINES

    def show(self, now: Figures, pages_per_second: float, bytes_per_second: float) -> None:
        logger.info("%s", describe(now, pages_per_second, bytes_per_second))

    def close(self) -> None:
        pass


class LiveView:
    """The last lines of the terminal, drawn anew; what is logged goes above them."""

    interval = _SECONDS_BETWEEN_FRAMES

    def __init__(self, crawler: Crawler):
        from rich.console import Console
        from rich.live import Live

        self._crawler = crawler
        self._console: Console = Console(stderr=True)
        self._log = _LogAbove(self._console)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._live.start()

    def show(self, now: Figures, pages_per_second: float, bytes_per_second: float) -> None:
        self._log.print_new()
        self._live.update(self._frame(now, pages_per_second, bytes_per_second), refresh=True)

    def close(self) -> None:
        self._live.stop()
        self._log.close()

    def _frame(self, now: Figures, pages: float, received: float) -> RenderableType:
        from rich.console import Group
        from rich.padding import Padding
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        lines: list[RenderableType] = [Text(describe(now, pages, received), style="bold")]
        if now.total:
            lines.append(Padding(ProgressBar(total=now.total, completed=now.pages), 0))
        room = max(self._console.height - len(lines) - 3, 1)
        lines += [
            Text(line, no_wrap=True, overflow="ellipsis")
            for line in _worker_lines(workers(self._crawler), room)
        ]
        return Group(*lines)


class _LogAbove:
    """Takes over what the log writes to the terminal, to print it between two frames.

    Printing at once would draw a frame per line: many times the cost, for a log that is half a
    second earlier.
    """

    def __init__(self, console: Console):
        self._console = console
        self._new: deque[str] = deque()
        self._handlers = [
            (handler, handler.stream)
            for handler in logging.root.handlers
            if isinstance(handler, logging.StreamHandler)
            and handler.stream in (sys.stderr, sys.stdout)
            and handler.stream.isatty()
        ]
        for handler, _ in self._handlers:
            handler.setStream(self)

    def write(self, text: str) -> None:
        self._new.append(text)

    def flush(self) -> None:
        pass

    def print_new(self) -> None:
        if text := "".join(self._new.popleft() for _ in range(len(self._new))):
            self._console.out(text.removesuffix("\n"), highlight=False)

    def close(self) -> None:
        for handler, stream in self._handlers:
            handler.setStream(stream)
        self.print_new()


def describe(now: Figures, pages_per_second: float, bytes_per_second: float) -> str:
    """Return *now* in one line."""
    of_total = f" of {now.total}" if now.total else ""
    line = (
        f"{now.pages}{of_total} pages, {now.failed} failed, {now.queued} queued, "
        f"{pages_per_second:.1f} pages/s, {bytes_per_second / 1e6:.2f} MB/s"
    )
    if now.total and pages_per_second:
        line += f", {_clock((now.total - now.pages) / pages_per_second)} left"
    return line


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def _worker_lines(states: list[WorkerState], room: int) -> Iterator[str]:
    """Yield a line per worker; where there is no room for all, those busy for longest."""
    hidden = len(states) - room
    if hidden > 0:
        states = sorted(states, key=lambda state: (state.task is None, state.since))[: room - 1]
    now = monotonic()
    for state in states:
        number = state.name.rpartition("-")[2]
        task = state.task
        doing = "idle" if task is None else f"{now - state.since:5.1f} s  {task.url}"
        yield f"{number:>4}  {doing}"
    if hidden > 0:
        yield f"and {hidden + 1} more workers"


def _terminal_is_free(crawler: Crawler) -> bool:
    """Return whether a live view can be drawn on the terminal, and would garble nothing there."""
    if importlib.util.find_spec("rich") is None or not sys.stderr.isatty():
        return False
    from rich.console import Console

    items_go_there = sys.stdout.isatty() and any(
        str(uri).startswith("stdout:") for uri in crawler.settings.getdict("FEEDS")
    )
    return not items_go_there and not Console(stderr=True).is_dumb_terminal
