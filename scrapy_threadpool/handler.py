"""The download handler: engine → handler → bridge → queue → worker → transport, and back."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakKeyDictionary

from scrapy.exceptions import IgnoreRequest, NotSupported, StopDownload
from scrapy.utils.httpobj import urlparse_cached

from . import settings
from ._compat import (
    DOWNLOAD_ERRORS,
    DownloadFailedError,
    ResponseDataLossError,
    UnsupportedURLSchemeError,
)
from .bridge import Bridge
from .download import Download, DownloadRules
from .pool import WorkerPool
from .transports import Transport, load_transport

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from typing_extensions import Self

    from .download import RawResponse

logger = logging.getLogger(__name__)

# What a transport may raise for Scrapy to treat as it stands
_SCRAPY_ERRORS: tuple[type[BaseException], ...] = (
    *DOWNLOAD_ERRORS,
    StopDownload,
    IgnoreRequest,
    NotSupported,
)


class ThreadPoolDownloadHandler:
    """Downloads ``http`` and ``https`` requests in a fixed pool of worker threads.

    The handlers of a crawler share one pool, whichever schemes they are for.

    :raises ValueError: a setting has a value that is not allowed.
    """

    lazy = False

    def __init__(self, crawler: Crawler):
        self._crawler = crawler
        self._downloader = _Downloader.acquire(crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    async def download_request(self, request: Request) -> Response:
        """Return the response to *request*, or raise one of Scrapy's download exceptions."""
        scheme = urlparse_cached(request).scheme
        if scheme not in ("http", "https"):
            raise UnsupportedURLSchemeError(f"{scheme!r} is neither http nor https")
        return await self._downloader.download(request)

    async def close(self) -> None:
        """Release the pool; the last handler of a crawler ends its workers."""
        self._downloader.release(self._crawler)


class _Downloader:
    """The pool of a crawler, and the way of a request through it."""

    _by_crawler: ClassVar[WeakKeyDictionary[Crawler, _Downloader]] = WeakKeyDictionary()

    @classmethod
    def acquire(cls, crawler: Crawler) -> _Downloader:
        downloader = cls._by_crawler.get(crawler)
        if downloader is None:
            downloader = cls._by_crawler[crawler] = cls(crawler)
        downloader._users += 1
        return downloader

    def release(self, crawler: Crawler) -> None:
        self._users -= 1
        if not self._users:
            del self._by_crawler[crawler]
            self._close()

    def __init__(self, crawler: Crawler):
        settings.check(crawler.settings)
        self._users = 0
        self._crawler = crawler
        self._rules = DownloadRules(crawler)
        self._shutdown_timeout = settings.get(crawler.settings, "THREADPOOL_SHUTDOWN_TIMEOUT")
        transport = settings.get(crawler.settings, "THREADPOOL_TRANSPORT")
        try:
            self._transport_class = load_transport(transport)
        except ValueError as error:
            raise ValueError(f"THREADPOOL_TRANSPORT: {error}") from error
        self._shared = self._transport_class.share(crawler, {})
        self._local = threading.local()
        spider = crawler.spider if crawler.spider is not None else crawler.spidercls
        self.pool = WorkerPool(
            settings.number_of_threads(crawler.settings),
            name=f"{spider.name}-worker",
            on_exit=self._close_transport,
        )
        self._bridge: Bridge | None = None

    async def download(self, request: Request) -> Response:
        if self._bridge is None:
            self._bridge = Bridge.for_running_loop(self.pool)
        download = Download(request, self._rules, self._bridge.ask)
        try:
            result = await self._bridge.run(self._fetch, download)
            return download.finish(result)
        except StopDownload as stop:
            return download.stop(stop)
        except ResponseDataLossError as error:
            return download.lose(error)
        finally:
            self._account(request, download)

    def _fetch(self, download: Download) -> Response | RawResponse:
        """In a worker: download with this worker's transport."""
        download.worker = threading.current_thread().name
        try:
            return self._transport().fetch(download.request, download)
        except _SCRAPY_ERRORS:
            raise
        except BaseException as error:
            raise DownloadFailedError(f"{type(error).__name__}: {error}") from error

    def _transport(self) -> Transport:
        transport: Transport | None = getattr(self._local, "transport", None)
        if transport is None:
            transport = self._transport_class.from_crawler(self._crawler, {}, self._shared)
            self._local.transport = transport
        return transport

    def _close_transport(self) -> None:
        transport: Transport | None = getattr(self._local, "transport", None)
        if transport is not None:
            transport.close()

    def _account(self, request: Request, download: Download) -> None:
        request.meta["worker"] = download.worker
        stats: Any = self._crawler.stats
        stats.inc_value(f"threadpool/pages/{download.worker}")

    def _close(self) -> None:
        stuck = self.pool.shutdown(self._shutdown_timeout)
        for state in stuck:
            logger.warning("%s did not stop: %r", state.name, state.task)
        if self._bridge is not None:
            self._bridge.close()
