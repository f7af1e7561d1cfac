"""The workers of one transport: a download goes in on the event loop, what came of it comes out."""

from __future__ import annotations

import atexit
import logging
import threading
import traceback
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakSet

from scrapy.exceptions import IgnoreRequest, NotSupported, StopDownload
from scrapy.http import Response

from ._compat import (
    DOWNLOAD_ERRORS,
    DownloadCancelledError,
    DownloadFailedError,
)
from .bridge import Bridge
from .diagnostics import Usage
from .download import Download, RawResponse
from .pool import WorkerPool, WorkerState
from .transports import load_transport

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler

    from .download import DownloadRules
    from .settings import TransportSettings
    from .transports.base import Transport

logger = logging.getLogger(__name__)

#: Seconds beyond its timeout after which a download is interrupted, and after which it must be back
_PATIENCE, _GRACE = 0.5, 1.0
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

    All methods belong to the event loop's thread, but for those that say otherwise.

    :param entry: what the settings say of the transport.
    :param prefix: the workers are called ``<prefix>-1``, ``<prefix>-2`` and so on.
    :param on_stuck: called when a worker was given up.
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
        self._prefix = prefix
        self._local = threading.local()
        self._waiters: dict[Download, Any] = {}
        self._workers: WorkerPool | None = None
        self._bridge: Bridge | None = None
        self._on_stuck = on_stuck
        self.usage = Usage(entry.threads)

    def start(self) -> None:
        """Start the workers, unless they were."""
        if self._workers is None:
            self._workers = WorkerPool(self.usage.size, name=self._prefix, on_exit=self._close_seat)
            self._open.add(self)

    def snapshot(self) -> list[WorkerState]:
        """From any thread: return what each worker is doing."""
        return [] if self._workers is None else self._workers.snapshot()

    def new_download(self, request: Request) -> Download:
        """Return the download of *request*, to :meth:`fetch`."""
        self.start()
        if self._bridge is None:
            assert self._workers is not None
            self._bridge = Bridge.for_running_loop(self._workers)
        return Download(request, self._rules, self._bridge.ask)

    async def fetch(self, download: Download) -> Response | RawResponse:
        """Return what the transport makes of *download*, or raise what it raises.

        When nobody waits for it any more, the download is dropped from the queue, or stopped.
        """
        assert self._bridge is not None
        self.usage.submitted(download)
        try:
            waiter = self._waiters[download] = self._bridge.run(self._fetch, download)
            return await waiter  # type: ignore[no-any-return]
        finally:
            self._waiters.pop(download, None)
            if download.ended is None:
                self._cancel(download)
            self.usage.finished(download)

    def _fetch(self, download: Download) -> Response | RawResponse:
        """In a worker: download with the transport of this worker."""
        download.worker = threading.current_thread().name
        download.begun = monotonic()
        try:
            seat = self._seat()
            seat.take(download)
            try:
                response = seat.transport.fetch(download.request, download)
            finally:
                seat.leave()
            if not isinstance(response, (Response, RawResponse)):
                name, kind = self._entry.transport, type(response).__name__
                raise TypeError(f"{name} returned {kind}, which is no response")
            return response
        except BaseException as error:
            if download.overdue:
                raise download.timeout_error() from error
            if isinstance(error, _SCRAPY_ERRORS):
                raise
            text = "".join(traceback.format_exception_only(error)).strip()
            raise DownloadFailedError(text) from error
        finally:
            download.ended = monotonic()

    def watch(self, wanted: Callable[[Request], bool]) -> None:
        """Drop or stop the downloads that are not *wanted* any more, and end those overdue.

        To be called every now and then.
        """
        for waiting in list(self._waiters):
            if waiting.awaited and not wanted(waiting.request):
                self._fail(waiting, DownloadCancelledError("nobody waits for it any more"))
        now = monotonic()
        for state in self.snapshot():
            download = request_download(state)
            if download is None or state.given_up:
                continue
            if download.cancelled:  # once more: a transport may miss it while it starts
                self._interrupt(download)
            overdue = now - state.since - download.timeout
            if overdue >= _GRACE and download.overdue:
                assert self._bridge is not None
                self._bridge.flush()  # it may have come back while the loop was busy
                if download.ended is None:
                    self._give_up(state, download, now - state.since)
            elif overdue >= _PATIENCE:
                download.overdue = True
                self._interrupt(download)

    def _give_up(self, state: WorkerState, download: Download, seconds: float) -> None:
        assert self._workers is not None
        url = download.request.url
        try:
            successor = self._workers.give_up(state)
        except RuntimeError as error:  # the system has no more threads to give
            if not download.cancelled:  # else it was said before
                logger.error("%s is stuck in %s; none can replace it: %s", state.name, url, error)
        else:
            if successor is None:
                return
            logger.warning(
                "%s did not come back from %s in %.1f seconds and is given up; %s takes its place",
                state.name,
                url,
                seconds,
                successor,
            )
            self.usage.given_up += 1
        self._fail(download, download.timeout_error())
        self._on_stuck()

    def stuck(self) -> int:
        """Return how many workers were given up and are still in their call."""
        return sum(state.given_up for state in self.snapshot())

    def stop(self) -> None:
        """Have the workers end: drop what is queued, and stop what is under way."""
        for download in list(self._waiters):
            self._cancel(download)
            self._fail(download, DownloadCancelledError("the crawl has ended"))
        if self._workers is not None:
            self._workers.drain()
            self._workers.shutdown(0)

    async def close(self) -> None:
        """Wait for the workers after :meth:`stop`, and only briefly for those stuck in a call."""
        if self._workers is None:
            return
        left = self._workers.shutdown(0.1)
        started = monotonic()
        while self._bridge is not None and not all(state.given_up for state in left):
            stuck = all(state.task is not None for state in left)
            if monotonic() > started + (_STUCK_WAIT if stuck else _CLOSING_WAIT):
                break
            self._interrupt_all()
            await self._bridge.sleep(0.05)
            left = self._workers.shutdown(0)
        for state in left:
            download = request_download(state)
            url = "its end" if download is None else download.request.url
            logger.warning("%s did not stop: it is still at %s", state.name, url)
        if self._bridge is not None:
            self._bridge.close()
        self._open.discard(self)

    @classmethod
    def stop_all(cls) -> None:
        """At the exit of the interpreter: leave no thread in a transfer, which could crash it."""
        pools = list(cls._open)
        for pool in pools:
            if pool._bridge is not None:
                pool._bridge.abandon()
                pool._bridge = None  # the loop has ended: nobody can be told there
            pool.stop()
        deadline = monotonic() + _STUCK_WAIT
        for pool in pools:
            assert pool._workers is not None
            while pool._workers.shutdown(0.05) and monotonic() < deadline:
                pool._interrupt_all()

    def _fail(self, download: Download, error: Exception) -> None:
        if self._bridge is not None and (waiter := self._waiters.get(download)) is not None:
            self._bridge.fail(waiter, error)

    def _interrupt_all(self) -> None:
        for state in self.snapshot():
            if (download := request_download(state)) is not None:
                self._interrupt(download)

    def _cancel(self, download: Download) -> None:
        download.cancelled = True
        self._interrupt(download)

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
        """Begin with *download*.

        :raises DownloadCancelledError: nobody waits for it any more.
        """
        with self._lock:
            self._download = download
            download.seat = self
        # Only now: who cancels it first says so and then looks for the seat.
        if download.cancelled:
            self.leave()
            raise DownloadCancelledError("nobody waits for it any more")

    def leave(self) -> None:
        with self._lock:
            self._download = None

    def interrupt(self, download: Download) -> None:
        with self._lock:
            if self._download is not download:
                return
            try:
                self.transport.interrupt()
            except Exception:
                logger.exception("%r cannot be interrupted", self.transport)


def request_download(state: WorkerState) -> Download | None:
    """Return the download that a worker of a transport pool is at."""
    return None if state.task is None else Bridge.subject(state.task)[1]


atexit.register(TransportPool.stop_all)
