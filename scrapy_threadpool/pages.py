"""Pages are decompressed, decoded and parsed in threads, so that callbacks find them ready."""

from __future__ import annotations

import copy
import os
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
from scrapy.http import HtmlResponse

from .bridge import Bridge
from .pool import WorkerPool

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from typing_extensions import Self

#: Bytes from which on the hand-over costs less than it saves, of HTML and of a compressed body
_WORTH_IT, _WORTH_IT_COMPRESSED = 16_000, 4_000
#: Threads at it at once: most of the work needs no GIL, so as many as the cores can use
_THREADS = max(2, min(4, os.cpu_count() or 2))


class PageProcessingMiddleware(HttpCompressionMiddleware):
    """Scrapy's ``HttpCompressionMiddleware``, with the work done in threads.

    Bodies are decompressed by Scrapy's own code; of an HTML page, the text and the selector are
    then built too. Both run in C without the GIL for the most part, beside the event loop. What can
    be observed is the same as with Scrapy's middleware.
    """

    def __init__(self, *, crawler: Crawler):
        super().__init__(crawler=crawler)
        self._pool: WorkerPool | None = None
        self._bridge: Bridge | None = None
        self._crawler = crawler
        crawler.signals.connect(self._close, signals.engine_stopped)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return super().from_crawler(crawler)

    async def process_response(  # type: ignore[override]
        self, request: Request, response: Response, spider: Spider | None = None
    ) -> Request | Response:
        if not _worth_it(request, response):
            return super().process_response(request, response)
        if self._bridge is None:
            name = self._crawler.spidercls.name
            self._pool = WorkerPool(_THREADS, name=f"{name}-page")
            self._bridge = Bridge.for_running_loop(self._pool)
        # In a thread, the statistics of the crawl are only noted down.
        notes = _Notes()
        decoder = copy.copy(self)
        decoder.stats = notes  # type: ignore[assignment]
        try:
            processed: Request | Response = await self._bridge.run(
                _process, decoder, request, response
            )
        finally:
            notes.apply(self.stats)
        return processed

    @staticmethod
    def _decode(body: bytes, encoding: bytes, max_size: Any) -> bytes:
        if encoding in (b"gzip", b"x-gzip") and isinstance(max_size, int) and max_size >= 0:
            decoded = _gunzip(body, max_size)
            if decoded is not None:
                return decoded
        return HttpCompressionMiddleware._decode(body, encoding, max_size)

    def _close(self) -> None:
        if self._pool is not None and self._bridge is not None:
            self._pool.drain()
            self._pool.shutdown(0)
            self._bridge.close()


def _worth_it(request: Request, response: Response) -> bool:
    if request.method == "HEAD":
        return False
    size = len(response.body)
    if b"Content-Encoding" in response.headers:
        return size >= _WORTH_IT_COMPRESSED
    return size >= _WORTH_IT and isinstance(response, HtmlResponse)


def _process(
    decoder: HttpCompressionMiddleware, request: Request, response: Response
) -> Request | Response:
    processed = HttpCompressionMiddleware.process_response(decoder, request, response)
    if isinstance(processed, HtmlResponse):
        with suppress(Exception):  # it is for the callback to stumble over, if it asks at all
            processed.selector  # noqa: B018 (a cached property: callbacks find it built)
    return processed


def _gunzip(body: bytes, max_size: int) -> bytes | None:
    """Return what is in *body* if it is sound and no larger than *max_size*, else ``None``.

    That is one call without the GIL, where Scrapy's code, which is there for the other cases, takes
    it back after every 8 KB.
    """
    decompressor = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        decoded = decompressor.decompress(body, max_size + 1 if max_size else 0)
    except zlib.error:
        return None
    is_whole = decompressor.eof and not decompressor.unused_data
    return decoded if is_whole and not 0 < max_size < len(decoded) else None


class _Notes:
    """Counts like a stats collector, for :meth:`apply` to enter into a real one."""

    def __init__(self) -> None:
        self._counts: list[tuple[str, int]] = []

    def inc_value(self, key: str, count: int = 1, start: int = 0, **kwargs: Any) -> None:
        self._counts.append((key, count))

    def apply(self, stats: Any) -> None:
        for key, count in self._counts:
            stats.inc_value(key, count)
