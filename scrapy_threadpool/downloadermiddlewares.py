"""Downloader middlewares that hold a crawl of whole sites to the rules of those sites."""

from __future__ import annotations

import asyncio
import logging
from time import monotonic
from typing import TYPE_CHECKING

from scrapy import Request, Spider
from scrapy.downloadermiddlewares.offsite import OffsiteMiddleware
from scrapy.downloadermiddlewares.redirect import RedirectMiddleware
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.exceptions import IgnoreRequest
from scrapy.utils.asyncio import is_asyncio_available
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.httpobj import urlparse_cached
from twisted.internet.defer import Deferred

from .urls import page_key

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.robotstxt import RobotParser

logger = logging.getLogger(__name__)


class DisallowedByRobots(IgnoreRequest):
    """robots.txt forbids the request."""


class PoliteRobotsTxtMiddleware(RobotsTxtMiddleware):
    """Scrapy's robots.txt middleware, and ``Crawl-delay`` as well.

    The requests to a host go out one by one, never less than its ``Crawl-delay`` apart.
    """

    def __init__(self, crawler: Crawler):
        super().__init__(crawler)
        self._next_start: dict[str, float] = {}
        # Who waits for the robots.txt of a host; None when it is there.
        self._waiting: dict[str, list[Deferred[None]] | None] = {}
        logging.getLogger(RobotsTxtMiddleware.__module__).addFilter(_without_traceback)

    async def process_request(self, request: Request, spider: Spider | None = None) -> None:
        try:
            await super().process_request(request)
        except IgnoreRequest as error:
            raise DisallowedByRobots(*error.args) from None
        if request.meta.get("dont_obey_robotstxt"):
            return
        parser = await self.robot_parser(request)
        if parser is not None and (delay := self._crawl_delay(parser, request)):
            await self._wait_for_turn(urlparse_cached(request).netloc, delay)

    async def robot_parser(self, request: Request) -> RobotParser | None:
        """Return the parser of the robots.txt that holds for *request*, or ``None``.

        Of several requests that wait for the same robots.txt, Scrapy gives the parser to the first
        only, and lets the others pass (2.14 to 2.19). So here only the first waits in Scrapy.
        """
        netloc = urlparse_cached(request).netloc
        if netloc not in self._waiting:
            others: list[Deferred[None]] = []
            self._waiting[netloc] = others
            try:
                return await super().robot_parser(request)
            finally:
                self._waiting[netloc] = None
                for other in others:
                    other.callback(None)
        if (waiting := self._waiting[netloc]) is not None:
            arrival: Deferred[None] = Deferred()
            waiting.append(arrival)
            await maybe_deferred_to_future(arrival)
        return await super().robot_parser(request)

    def _crawl_delay(self, parser: RobotParser, request: Request) -> float:
        settings = self.crawler.settings
        agent = settings["ROBOTSTXT_USER_AGENT"] or request.headers.get(
            b"User-Agent", settings["USER_AGENT"]
        )
        agent = agent.decode("latin-1") if isinstance(agent, bytes) else agent
        # Scrapy's parsers know the delay since 2.18; the parsers they wrap always did.
        source = parser if hasattr(parser, "crawl_delay") else getattr(parser, "rp", None)
        find = getattr(source, "crawl_delay", None)
        return float(find(agent) or 0) if find else 0.0

    async def _wait_for_turn(self, netloc: str, delay: float) -> None:
        if netloc not in self._next_start:
            logger.info("robots.txt of %s asks for %g s between two requests", netloc, delay)
            self._next_start[netloc] = monotonic() + delay  # robots.txt itself was a request
        while (wait := self._next_start[netloc] - monotonic()) > 0:
            if not self.crawler.crawling:
                raise DisallowedByRobots("the crawl was stopped before its turn came")
            await _sleep(min(wait, 1))
        self._next_start[netloc] = monotonic() + delay


class SameSiteMiddleware(OffsiteMiddleware):
    """Keeps redirects, too, to the pages that the spider wants."""

    def should_follow(self, request: Request, spider: Spider) -> bool:
        # A seed may move to another host: the spider takes that one for a site of the crawl.
        return bool(request.meta.get("seed") or spider.wants(request.url))  # type: ignore[attr-defined]


class ReturningRedirectMiddleware(RedirectMiddleware):
    """Lets a page redirect back to itself.

    Pages that set a cookie do so once. The duplicates filter would drop the way back, and the page
    would be missing without a trace. A redirect that goes round for ever ends in an error, at
    ``REDIRECT_MAX_TIMES``.
    """

    def process_response(
        self, request: Request, response: Response, spider: Spider | None = None
    ) -> Request | Response:
        result = super().process_response(request, response)
        if isinstance(result, Request):
            before = {page_key(url) for url in result.meta["redirect_urls"]}
            if page_key(result.url) in before:
                result.dont_filter = True
        return result


def _without_traceback(record: logging.LogRecord) -> bool:
    """Keep to one line what is said of a robots.txt that did not come: lists have dead hosts."""
    record.exc_info = None
    return True


async def _sleep(seconds: float) -> None:
    if is_asyncio_available():
        await asyncio.sleep(seconds)
        return
    from twisted.internet import reactor
    from twisted.internet.task import deferLater

    await maybe_deferred_to_future(deferLater(reactor, seconds))
