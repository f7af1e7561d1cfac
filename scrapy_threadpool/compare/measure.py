"""Listens to one crawl, and notes what a comparison needs."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from time import perf_counter, process_time, thread_time
from typing import TYPE_CHECKING, Any

from scrapy import Request, signals
from scrapy.exceptions import IgnoreRequest

from ..settings import DEFAULT_TRANSPORT, transports
from .items import describe
from .lag import LoopLag
from .memory import peak_memory
from .plan import Download, Run

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from twisted.python.failure import Failure
    from typing_extensions import Self

    from ..transports.base import Transport

download_failed = object()


class FailedDownloads:
    """Sends ``download_failed`` for each failed attempt: a downloader middleware, the innermost."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def process_exception(self, request: Request, exception: Exception) -> None:
        if not isinstance(exception, IgnoreRequest):
            self._crawler.signals.send_catch_log(
                download_failed, request=request, exception=exception
            )


class Measure:
    """Notes what happens in *crawler* from when its spider opens until it has closed.

    As little as possible is done while the crawl runs, and the same for each variant. *run* is what
    came out, or ``None`` when the spider did not get as far as to close.
    """

    def __init__(self, crawler: Crawler, ignored_fields: list[str], *, pool: bool) -> None:
        self.run: Run | None = None
        self._pool = pool
        self._crawler = crawler
        self._ignored_fields = ignored_fields
        self._lag = LoopLag()
        self._pages = 0
        self._received_bytes = 0
        self._latencies: list[float] = []
        self._statuses: defaultdict[str, list[str]] = defaultdict(list)
        self._failures: dict[str, str] = {}
        self._errors: Counter[str] = Counter()
        self._workers: Counter[str] = Counter()
        self._items: list[tuple[str, Any]] = []
        self._downloads: list[tuple[str, str, str, float, float]] = []
        self._begun: dict[Request, float] = {}
        for name in vars(signals):
            if listener := getattr(self, f"_{name}", None):
                crawler.signals.connect(listener, getattr(signals, name))
        crawler.signals.connect(self._download_failed, download_failed)

    def time_workers(self, transport: type[Transport]) -> type[Transport]:
        """Return *transport* with a clock around each of its downloads."""
        note = self._note

        class Timed(transport):  # type: ignore[misc, valid-type]
            def fetch(self, request: Request, download: Any) -> Any:
                begun = perf_counter()
                outcome = "?"
                try:
                    response = super().fetch(request, download)
                    outcome = str(response.status)
                    return response
                except BaseException as error:
                    outcome = type(error).__name__
                    raise
                finally:
                    note(threading.current_thread().name, request.url, outcome, begun)

        Timed.__name__ = Timed.__qualname__ = transport.__name__
        return Timed

    def time_handler(self) -> None:
        """Note when the downloads of Scrapy's own handlers begin and end.

        Not with a pool: there a listener to what happens within a download would cost each one a
        call to the event loop.
        """
        connect = self._crawler.signals.connect
        connect(self._handler_begins, signals.request_reached_downloader)
        connect(self._handler_has_headers, signals.headers_received)
        connect(self._handler_has_response, signals.response_downloaded)
        connect(self._handler_failed, download_failed)

    # Signals of Scrapy: a method is connected to the signal of its name

    def _spider_opened(self) -> None:
        self._start = perf_counter()
        self._process_start = process_time()
        self._loop_start = thread_time()
        self._lag.start()

    def _response_downloaded(self, response: Response, request: Request) -> None:
        self._received_bytes += len(response.body)
        self._failures.pop(request.url, None)
        if (latency := request.meta.get("download_latency")) is not None:
            self._latencies.append(round(latency, 6))
        if worker := request.meta.get("worker"):
            self._workers[worker] += 1

    def _response_received(self, response: Response, request: Request) -> None:
        self._pages += 1
        self._statuses[request.url].append(str(response.status))

    def _item_scraped(self, item: Any, response: Response | None) -> None:
        self._items.append(("" if response is None else response.url, item))

    def _spider_error(self, failure: Failure) -> None:
        self._errors[f"spider: {failure.type.__name__}"] += 1  # type: ignore[union-attr]

    def _item_error(self, failure: Failure) -> None:
        self._errors[f"pipeline: {failure.type.__name__}"] += 1  # type: ignore[union-attr]

    def _spider_closed(self, spider: Spider, reason: str) -> None:
        seconds = perf_counter() - self._start
        cpu_seconds = process_time() - self._process_start
        loop_cpu_seconds = thread_time() - self._loop_start
        memory = peak_memory()
        self._lag.stop()
        settings = self._crawler.settings
        handler = settings.getwithbase("DOWNLOAD_HANDLERS").get("https")
        self.run = Run(
            spider=spider.name,
            handler=str(getattr(handler, "__name__", handler)).rpartition(".")[2],
            reactor=settings.getbool("TWISTED_REACTOR_ENABLED", True),
            workers=self._names(spider),
            finish_reason=reason,
            seconds=seconds,
            pages=self._pages,
            cpu_seconds=cpu_seconds,
            loop_cpu_seconds=loop_cpu_seconds,
            peak_memory=memory,
            received_bytes=self._received_bytes,
            latencies=self._latencies,
            lag=self._lag.samples,
            errors=dict(self._errors),
            outcomes=self._outcomes(),
            pages_by_worker=dict(self._workers),
            downloads=[Download(*download) for download in self._downloads],
            items=[describe(item, url, self._ignored_fields) for url, item in self._items],
        )

    def _names(self, spider: Spider) -> list[str]:
        """Return the names of the workers that this crawl has from the start."""
        if not self._pool:
            return []
        return [
            f"{spider.name}-{'' if name == DEFAULT_TRANSPORT else f'{name}-'}worker-{number}"
            for name, entry in transports(self._crawler.settings).items()
            for number in range(1, entry.threads + 1)
        ]

    # Other signals

    def _download_failed(self, request: Request, exception: Exception) -> None:
        kind = type(exception).__name__
        self._errors[f"download: {kind}"] += 1
        self._failures[request.url] = kind

    def _handler_begins(self, request: Request) -> None:
        self._begun[request] = perf_counter()

    def _handler_has_headers(self, request: Request) -> None:
        # Until the handler began, the request waited for its slot: only the latency tells.
        if (latency := request.meta.get("download_latency")) is not None:
            self._begun[request] = perf_counter() - latency

    def _handler_has_response(self, response: Response, request: Request) -> None:
        if (begun := self._begun.pop(request, None)) is not None:
            self._note("", request.url, str(response.status), begun)

    def _handler_failed(self, request: Request, exception: Exception) -> None:
        if (begun := self._begun.pop(request, None)) is not None:
            self._note("", request.url, type(exception).__name__, begun)

    def _note(self, worker: str, url: str, outcome: str, begun: float) -> None:
        end = perf_counter() - self._start
        self._downloads.append((worker, url, outcome, round(begun - self._start, 6), round(end, 6)))

    def _outcomes(self) -> dict[str, list[str]]:
        outcomes = {url: sorted(statuses) for url, statuses in self._statuses.items()}
        for url, kind in self._failures.items():
            outcomes[url] = [*outcomes.get(url, []), kind]
        return outcomes
