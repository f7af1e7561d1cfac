"""The download handler: engine → handler → bridge → queue → worker → transport, and back."""

from __future__ import annotations

import dataclasses
import logging
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakSet, WeakValueDictionary

from scrapy import signals
from scrapy.exceptions import NotConfigured, NotSupported, StopDownload
from scrapy.extensions.telnet import update_telnet_vars
from scrapy.utils.asyncio import create_looping_call
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.httpobj import urlparse_cached

from . import settings
from ._compat import ResponseDataLossError, UnsupportedURLSchemeError
from .diagnostics import summary
from .download import DownloadRules
from .settings import DEFAULT_TRANSPORT
from .transport_pool import TransportPool, request_download
from .transports import load_transport

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.settings import BaseSettings
    from typing_extensions import Self

    from .download import Download
    from .pool import WorkerState

logger = logging.getLogger(__name__)

#: Seconds between two looks at whether a worker is stuck, or a download no longer waited for
_WATCH_INTERVAL = 0.25


# Crawlers that are closed because of a wrong setting
_refused: WeakSet[Crawler] = WeakSet()


class _WrongSettingError(NotConfigured, ValueError):
    """A ``ValueError`` that Scrapy logs without a traceback."""


class ThreadPoolDownloadHandler:
    """Downloads ``http`` and ``https`` requests in worker threads.

    The handlers of a crawler share their pools, whichever schemes they are for.

    :raises ValueError: a setting has a value that is not allowed; the spider is closed.
    """

    lazy = False

    def __init__(self, crawler: Crawler):
        try:
            self._pools = _Pools.acquire(crawler)
        except ValueError as error:
            _refuse(crawler, error)
            raise _WrongSettingError(str(error)) from error

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    async def download_request(self, request: Request) -> Response:
        """Return the response to *request*, or raise one of Scrapy's download exceptions."""
        scheme = urlparse_cached(request).scheme
        if scheme not in ("http", "https"):
            raise UnsupportedURLSchemeError(f"{scheme!r} is neither http nor https")
        pool = self._pools.for_request(request)
        download = pool.new_download(request)
        download.awaited = self._pools.awaits(request)
        try:
            response = await _response(pool, download)
        except BaseException as error:  # also when it is cancelled
            pool.usage.failed(error)
            _log(download, type(error).__name__, 0)
            raise
        else:
            pool.usage.pages[str(download.worker)] += 1
            if cause := self._pools.holds_back(request):
                pool.usage.held_back[cause] += 1
            _log(download, response.status, len(response.body))
            return response
        finally:
            request.meta["worker"] = download.worker

    async def close(self) -> None:
        """Release the pools; the last handler of a crawler ends the workers."""
        await self._pools.release()


class _Pools:
    """The pools of a crawler, one for each transport."""

    # By the id of the crawler, which lives as long as its pools: nothing here keeps either alive.
    _by_crawler: ClassVar[WeakValueDictionary[int, _Pools]] = WeakValueDictionary()

    @classmethod
    def acquire(cls, crawler: Crawler) -> _Pools:
        pools = cls._by_crawler.get(id(crawler))
        if pools is None:
            pools = cls._by_crawler[id(crawler)] = cls(crawler)
        pools._users += 1
        return pools

    async def release(self) -> None:
        self._users -= 1
        if not self._users:
            del self._by_crawler[id(self._crawler)]
            await self._close()

    @classmethod
    def of(cls, crawler: Crawler) -> list[TransportPool]:
        pools = cls._by_crawler.get(id(crawler))
        return [] if pools is None else list(pools._by_name.values())

    def __init__(self, crawler: Crawler):
        check_settings(crawler.settings)
        self._users = 0
        self._crawler = crawler
        rules = DownloadRules(crawler)
        self._by_name: dict[str, TransportPool] = {}
        spider = crawler.spider if crawler.spider is not None else crawler.spidercls
        for name, entry in settings.transports(crawler.settings).items():
            infix = "" if name == DEFAULT_TRANSPORT else f"{name}-"
            try:
                pool = TransportPool(
                    crawler, entry, rules, f"{spider.name}-{infix}worker", self._check_stuck
                )
            except ValueError as error:
                if not entry.options:  # then it is about a setting, and names that
                    raise
                raise ValueError(f"THREADPOOL_TRANSPORTS[{name!r}]: {error}") from error
            self._by_name[name] = pool
        self._most_stuck = settings.get(crawler.settings, "THREADPOOL_MAX_STUCK_WORKERS")
        if self._most_stuck is None:
            self._most_stuck = sum(pool.usage.size for pool in self._by_name.values())
        self._closing = False
        self._watch: Any = None
        self._engine: Any = None
        # Not before: where the engine does not start, nothing would end the workers.
        crawler.signals.connect(self._start, signals.engine_started)
        crawler.signals.connect(self._report, signals.spider_closed)
        crawler.signals.connect(self._extend_telnet, update_telnet_vars)

    def _start(self) -> None:
        self._engine = self._crawler.engine
        for name, pool in self._by_name.items():
            try:
                pool.start()
            except RuntimeError as error:
                setting = settings.name_of(self._crawler.settings, name, "threads")
                message = "%s must be less than %d: %s"
                self._close_spider(
                    "threadpool_wrong_setting", message, setting, pool.usage.size, error
                )

    def awaits(self, request: Request) -> bool:
        """Return whether the engine waits for *request*."""
        return self._engine is not None and request in self._engine.downloader.active

    def holds_back(self, request: Request) -> str | None:
        """Return why Scrapy holds more requests like *request* back now, or ``None``."""
        if self._engine is None:
            return None
        downloader = self._engine.downloader
        slot = downloader.slots.get(request.meta.get("download_slot"))
        if slot is not None and slot.queue:
            return "delay" if slot.delay else "site"
        return "all" if downloader.needs_backout() else None

    def for_request(self, request: Request) -> TransportPool:
        """Return the pool of the transport that *request* asks for.

        :raises NotSupported: there is no such transport.
        """
        if self._watch is None:
            self._watch = create_looping_call(self._look)
            self._watch.start(_WATCH_INTERVAL, now=False)
        name = request.meta.get("transport", DEFAULT_TRANSPORT)
        try:
            return self._by_name[name]
        except (KeyError, TypeError):
            raise NotSupported(  # which is not retried
                f"there is no transport {name!r} in THREADPOOL_TRANSPORTS, only "
                f"{', '.join(map(repr, self._by_name))}"
            ) from None

    def _look(self) -> None:
        for pool in self._by_name.values():
            pool.watch(self.awaits)

    def _check_stuck(self) -> None:
        stuck = sum(pool.stuck() for pool in self._by_name.values())
        if stuck > self._most_stuck:
            self._close_spider(
                "threadpool_stuck_workers",
                "%d workers are stuck in calls that do not come back, more than "
                "THREADPOOL_MAX_STUCK_WORKERS = %d: closing the spider",
                stuck,
                self._most_stuck,
            )

    def _close_spider(self, reason: str, message: str, *args: object) -> None:
        """Log *message* and close the spider, if it is open and nothing else closes it."""
        if not self._closing and self._engine is not None and self._engine.spider is not None:
            self._closing = True
            logger.error(message, *args)
            deferred_from_coro(self._engine.close_spider_async(reason=reason))

    def _report(self) -> None:
        for name, pool in self._by_name.items():
            if name == DEFAULT_TRANSPORT:
                label, prefix = "", "threadpool"
            else:
                label, prefix = f"Transport {name!r}: ", f"threadpool/{name}"
            pool.usage.write(self._crawler.stats, prefix)
            threads = settings.name_of(self._crawler.settings, name, "threads")
            logger.info("%s%s", label, summary(pool.usage, self._crawler.settings, threads))

    def _extend_telnet(self, telnet_vars: dict[str, Any]) -> None:
        telnet_vars["workers"] = lambda: workers(self._crawler)

    async def _close(self) -> None:
        if self._watch is not None:
            self._watch.stop()
        for pool in self._by_name.values():
            pool.stop()
        for pool in self._by_name.values():
            await pool.close()


def check_settings(crawler_settings: BaseSettings) -> None:
    """Refuse a wrong value of any setting of this package, and a transport that is not to be had.

    :raises ValueError: naming the setting, the value and what is allowed.
    """
    settings.check(crawler_settings)
    for entry in settings.transports(crawler_settings).values():
        try:
            load_transport(entry.transport)
        except ValueError as error:
            where = settings.name_of(crawler_settings, entry.name, "transport")
            raise ValueError(f"{where}: {error}") from error


def _refuse(crawler: Crawler, error: ValueError) -> None:
    """Close the spider at once: Scrapy goes on without a handler that cannot be made."""
    if crawler in _refused:  # by the handler of the other scheme
        return
    _refused.add(crawler)

    async def close() -> None:
        engine: Any = crawler.engine
        if engine.spider is not None:
            logger.error("%s", error)
            await engine.close_spider_async(reason="threadpool_wrong_setting")

    crawler.signals.connect(close, signals.engine_started, weak=False)


def workers(crawler: Crawler) -> list[WorkerState]:
    """Return what each worker of *crawler* is doing now; ``task`` is its request, or ``None``.

    Call it on the event loop's thread.
    """
    states = [state for pool in _Pools.of(crawler) for state in pool.snapshot()]
    return [dataclasses.replace(state, task=_request(state)) for state in states]


async def _response(pool: TransportPool, download: Download) -> Response:
    try:
        result = await pool.fetch(download)
    except StopDownload as stop:
        return download.stop(stop)
    except ResponseDataLossError as error:
        return download.lose(error)
    return download.finish(result)


def _request(state: WorkerState) -> Request | None:
    download = request_download(state)
    return None if download is None else download.request


def _log(download: Download, outcome: object, size: int) -> None:
    if logger.isEnabledFor(logging.DEBUG):
        ended = download.ended or monotonic()  # one that hangs has not ended
        seconds = 0.0 if download.begun is None else ended - download.begun
        logger.debug(
            "%s: %s: %s, %.3f s, %d bytes",
            download.worker or "no worker",
            download.request,
            outcome,
            seconds,
            size,
        )
