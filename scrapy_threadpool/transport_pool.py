"""The workers of one transport: a download goes in on the event loop, what came of it comes out."""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakSet

from scrapy.exceptions import IgnoreRequest, NotSupported, StopDownload

from ._compat import (
    DOWNLOAD_ERRORS,
    DownloadCancelledError,
    DownloadFailedError,
    DownloadTimeoutError,
)
from .bridge import Bridge
from .diagnostics import Usage
from .download import Download
from .pool import WorkerPool, WorkerState
from .transports import load_transport

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from .download import DownloadRules, RawResponse
    from .settings import TransportSettings
    from .transports.base import Transport

logger = logging.getLogger(__name__)

#: Seconds beyond its timeout that a download may take to come back from its worker
_GRACE = 1.0
#: Seconds to wait at the end for workers that are stuck in a call, and for those that are closing
_STUCK_WAIT, _CLOSING_WAIT = 1.5, 15.0

# What a transport may raise for Scrapy to treat as it stands
_SCRAPY_ERRORS: tuple[type[BaseException], ...] = (
    *DOWNLOAD_ERRORS,
    StopDownload,
    IgnoreRequest,
    NotSupported,
)


class TransportPool:
    """A transport and the worker pool that downloads with it.

    :param entry: what the settings say of the transport.
    :param prefix: the workers are called ``<prefix>-1``, ``<prefix>-2`` and so on.
    :param on_stuck: called on the loop's thread when a worker was given up.
    :raises ValueError: there is no such transport, or it refuses its options.
    """

    _open: ClassVar[WeakSet[TransportPool]] = WeakSet()

    def __init__(
        self,
        crawler: Crawler,
        entry: TransportSettings,
        rules: DownloadRules,
        prefix: str,
        on_stuck: Callable[[], object],
    ):
        self._crawler = crawler
        self._entry = entry
        self._rules = rules
        self._transport_class = load_transport(entry.transport)
        self._shared = self._transport_class.share(crawler, entry.options)
        self._local = threading.local()
        self._waiters: dict[Download, Any] = {}
        self._bridge: Bridge | None = None
        self._on_stuck = on_stuck
        self.usage = Usage(entry.threads)
        self.workers = WorkerPool(entry.threads, name=prefix, on_exit=self._close_seat)
        self._open.add(self)

    def new_download(self, request: Request) -> Download:
        """Return the download of *request*, to :meth:`fetch`."""
        if self._bridge is None:
            self._bridge = Bridge.for_running_loop(self.workers)
        return Download(request, self._rules, self._bridge.ask)

    async def fetch(self, download: Download) -> Response | RawResponse:
        """Return what the transport makes of *download*, or raise what it raises.

        When nobody waits for it any more, the download is dropped from the queue, or stopped.
        """
        assert self._bridge is not None
        self.usage.submitted(download)
        waiter = self._waiters[download] = self._bridge.run(self._fetch, download)
        try:
            return await waiter  # type: ignore[no-any-return]
        finally:
            del self._waiters[download]
            if download.ended is None:
                download.cancelled = True
                self._interrupt(download)
            self.usage.finished(download)

    def _fetch(self, download: Download) -> Response | RawResponse:
        """In a worker: download with the transport of this worker."""
        download.worker = threading.current_thread().name
        download.begun = monotonic()
        try:
            if download.cancelled:
                raise DownloadCancelledError("nobody waits for it any more")
            seat = self._seat()
            seat.take(download)
            try:
                return seat.transport.fetch(download.request, download)
            finally:
                seat.leave()
        except _SCRAPY_ERRORS:
            raise
        except BaseException as error:
            raise DownloadFailedError(f"{type(error).__name__}: {error}") from error
        finally:
            download.ended = monotonic()

    def give_up_overdue(self) -> None:
        """Fail the downloads whose time is over, and replace the workers that are stuck in them."""
        now = monotonic()
        for download in list(self._waiters):
            begun = download.begun
            if begun is None or now < begun + download.timeout + _GRACE:
                continue
            assert self._bridge is not None
            self._bridge.flush()  # it may have come back while the loop was busy
            if download in self._waiters and download.ended is None:
                self._give_up(download, now - begun)

    def _give_up(self, download: Download, seconds: float) -> None:
        url, timeout = download.request.url, download.timeout
        waiter = self._waiters[download]
        for state in self.workers.snapshot():
            if request_download(state) is download:
                replacement = self.workers.give_up(state)
                logger.warning(
                    "%s did not come back from %s in %.1f seconds and is given up; %s takes its "
                    "place",
                    state.name,
                    url,
                    seconds,
                    replacement,
                )
                self.usage.given_up += 1
        assert self._bridge is not None
        self._bridge.fail(
            waiter, DownloadTimeoutError(f"Getting {url} took longer than {timeout} seconds.")
        )
        self._on_stuck()

    def stuck(self) -> int:
        """Return how many workers were given up and are still in their call."""
        return sum(state.given_up for state in self.workers.snapshot())

    async def close(self) -> None:
        """End the workers; those that are stuck in a call are waited for only briefly."""
        self._stop_work()
        left = self.workers.shutdown(0.1)
        started = monotonic()
        while left and self._bridge is not None:
            stuck = all(state.task is not None for state in left)
            if monotonic() > started + (_STUCK_WAIT if stuck else _CLOSING_WAIT):
                break
            await self._bridge.sleep(0.02)
            left = self.workers.shutdown(0)
        for state in left:
            download = request_download(state)
            url = download.request.url if download is not None else "closing"
            logger.warning("%s did not stop: it is still at %s", state.name, url)
        if self._bridge is not None:
            self._bridge.close()
        self._open.discard(self)

    def _stop_work(self) -> None:
        """Drop what is queued and interrupt what is under way."""
        for task in self.workers.drain():
            waiter, download = Bridge.subject(task)
            download.cancelled = True
            if self._bridge is not None:
                self._bridge.fail(waiter, DownloadCancelledError("the crawl has ended"))
        for state in self.workers.snapshot():
            if (download := request_download(state)) is not None:
                self._interrupt(download)

    @classmethod
    def stop_all(cls) -> None:
        """At the exit of the interpreter: leave no thread in a transfer, which could crash it."""
        pools = list(cls._open)
        for pool in pools:
            pool._bridge = None  # the loop has ended
            pool._stop_work()
        for pool in pools:
            pool.workers.shutdown(0)
        deadline = monotonic() + _STUCK_WAIT
        for pool in pools:
            pool.workers.shutdown(max(0.0, deadline - monotonic()))

    # The seat of a worker: its transport, and the download it is at

    def _seat(self) -> _Seat:
        seat: _Seat | None = getattr(self._local, "seat", None)
        if seat is None:
            options = self._entry.options
            transport = self._transport_class.from_crawler(self._crawler, options, self._shared)
            seat = self._local.seat = _Seat(transport)
        return seat

    def _close_seat(self) -> None:
        seat: _Seat | None = getattr(self._local, "seat", None)
        if seat is not None:
            seat.transport.close()

    @staticmethod
    def _interrupt(download: Download) -> None:
        if (seat := download.seat) is not None:
            seat.interrupt(download)


class _Seat:
    """A worker's transport, and the download it is at.

    The lock keeps an interruption from reaching the download after the one it is meant for.
    """

    def __init__(self, transport: Transport):
        self.transport = transport
        self._download: Download | None = None
        self._lock = threading.Lock()

    def take(self, download: Download) -> None:
        with self._lock:
            self._download = download
            download.seat = self

    def leave(self) -> None:
        with self._lock:
            self._download = None

    def interrupt(self, download: Download) -> None:
        with self._lock:
            if self._download is download:
                self.transport.interrupt()


def request_download(state: WorkerState) -> Download | None:
    """Return the download that a worker of a transport pool is at."""
    return None if state.task is None else Bridge.subject(state.task)[1]


atexit.register(TransportPool.stop_all)
