"""The spider behind ``scrapy crawlsite``: whole sites, or a list of URLs, one item per page."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider, signals
from scrapy.downloadermiddlewares.offsite import OffsiteMiddleware
from scrapy.downloadermiddlewares.redirect import RedirectMiddleware
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.exceptions import DontCloseSpider
from scrapy.http import HtmlResponse
from w3lib.html import get_meta_refresh, strip_html5_whitespace
from w3lib.url import safe_url_string

from .downloadermiddlewares import (
    DisallowedByRobots,
    PoliteRobotsTxtMiddleware,
    ReturningRedirectMiddleware,
    SameSiteMiddleware,
)
from .urls import page_key, site_of, tidy

if TYPE_CHECKING:
    import re
    from collections.abc import AsyncIterator, Iterable, Iterator

    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.settings import BaseSettings
    from typing_extensions import Self

_LINKS = "//a/@href | //area/@href | //iframe/@src | //frame/@src"
_TITLE = "normalize-space((//title[not(ancestor::svg)])[1])"


class SiteSpider(Spider):
    """Fetches *seeds* and, with *follow*, every page of their sites that links lead to.

    :param seeds: the URLs to begin with.
    :param follow: whether links are followed. Without it, every seed gives exactly one item, also
        where seeds repeat, redirect to the same page, or are forbidden by robots.txt.
    :param max_pages: how many items there are at most.
    :param max_depth: how many links away from a seed pages are followed; seeds have depth 0.
    :param allow: where given, links are followed only to URLs in which one of these is found.
    :param deny: links are not followed to URLs in which one of these is found.
    :param subdomains: whether the subdomains of the seeds' hosts belong to their sites.
    """

    name = "crawlsite"
    custom_settings = {  # noqa: RUF012 - as Scrapy declares it
        "CONCURRENT_ITEMS": 1,  # a page has one, and Scrapy makes as many tasks for each page
        "HTTPERROR_ALLOW_ALL": True,
        "METAREFRESH_ENABLED": False,  # such a page is a page; where it leads to is a link
        "REFERRER_POLICY": "no-referrer",
        "ROBOTSTXT_OBEY": True,
        # Breadth first, so that a page's depth is about its distance from the seeds.
        "SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleFifoDiskQueue",
        "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue",
    }

    def __init__(
        self,
        seeds: Iterable[str] = (),
        *,
        follow: bool = True,
        max_pages: int | None = None,
        max_depth: int | None = None,
        allow: Iterable[re.Pattern[str]] = (),
        deny: Iterable[re.Pattern[str]] = (),
        subdomains: bool = False,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.seeds = list(seeds)
        self.follow = follow
        self.max_pages = max_pages
        self.max_depth = max_depth
        self.allow = list(allow)
        self.deny = list(deny)
        self.subdomains = subdomains
        self.sites = {site_of(seed) for seed in self.seeds}
        self.pages = 0
        self.failed = 0
        # What Scrapy keeps from one crawl to the next with the same JOBDIR, and sets again then
        self.state: dict[str, Any] = {}
        self.waiting: deque[Request] = deque()
        self._started = 0
        # The pages known so far, by key, and whether there was an item of each.
        self._known: dict[str, bool] = {}

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.start_what_waits, signal=signals.spider_idle)
        return spider

    @classmethod
    def update_settings(cls, settings: BaseSettings) -> None:
        super().update_settings(settings)
        base = settings.getdict("DOWNLOADER_MIDDLEWARES_BASE")
        middlewares = settings.getdict("DOWNLOADER_MIDDLEWARES")
        for scrapys, ours in (
            (OffsiteMiddleware, SameSiteMiddleware),
            (RedirectMiddleware, ReturningRedirectMiddleware),
            (RobotsTxtMiddleware, PoliteRobotsTxtMiddleware),
        ):
            name = f"{scrapys.__module__}.{scrapys.__name__}"
            middlewares |= {name: None, ours: base[name]}
        settings.set("DOWNLOADER_MIDDLEWARES", middlewares, priority="spider")

    @property
    def seeds_that_came(self) -> int:
        """How many seed pages came, in earlier crawls with the same ``JOBDIR`` too."""
        count: int = self.state.get("seeds_that_came", 0)
        return count

    @property
    def total(self) -> int | None:
        """How many pages the crawl comes to at most, where that is known beforehand."""
        if self.follow:
            return self.max_pages
        return min(len(self.seeds), self.max_pages or len(self.seeds))

    def wants(self, url: str) -> bool:
        """Return whether the page at *url* is one to fetch: on a site, and neither filtered out."""
        if not self.follow:
            return True
        return (
            self._is_on_site(url)
            and (not self.allow or any(pattern.search(url) for pattern in self.allow))
            and not any(pattern.search(url) for pattern in self.deny)
        )

    async def start(self) -> AsyncIterator[Any]:
        requests = [self._request(seed, seed=True) for seed in self.seeds if self._is_new(seed)]
        for request in self._within_limits(requests):
            yield request

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        assert response.request is not None
        url = tidy(response.url)
        if self._had_item(url):
            return
        came = 200 <= response.status < 300
        yield self._item(
            response.request,
            url=url,
            status=response.status,
            title=_title(response),
            worker=response.meta.get("worker"),
            latency=response.meta.get("download_latency"),
            size=len(response.body),
            content_type=_content_type(response),
            error=None if came else f"HTTP {response.status}",
        )
        if response.meta.get("seed") and came:
            self.state["seeds_that_came"] = self.seeds_that_came + 1
            self.sites.add(site_of(url))
        if came and self.follow and isinstance(response, HtmlResponse):
            depth = response.meta["depth"] + 1
            if self.max_depth is None or depth <= self.max_depth:
                links = (
                    self._request(link, depth=depth, referer=url) for link in self._links(response)
                )
                yield from self._within_limits(links)

    def failure(self, failure: Any) -> Iterator[Any]:
        """Make an item of a page that did not come."""
        request = failure.request
        if self.follow and isinstance(failure.value, DisallowedByRobots):
            if request.meta.get("seed"):
                self.logger.warning("%s: %s", request.url, failure.value)
            return
        if self._had_item(request.url):
            return
        yield self._item(
            request,
            url=tidy(request.url),
            worker=request.meta.get("worker"),
            latency=request.meta.get("download_latency"),
            error=f"{type(failure.value).__name__}: {failure.value}",
        )

    def start_what_waits(self) -> None:
        """Schedule the next pages when all that were scheduled are done.

        With ``max_depth`` these are the pages one link further away: only when everything nearer
        is done is their distance certain. With ``max_pages`` they stand in for pages that turned
        out to be none: redirects to known pages, or forbidden by robots.txt.
        """
        room = len(self.waiting)
        if self.max_pages is not None:
            room = min(room, self.max_pages - self.pages)
        if room <= 0:
            return
        self._started = self.pages + room
        for _ in range(room):
            self.crawler.engine.crawl(self.waiting.popleft())
        raise DontCloseSpider

    def closed(self, reason: str) -> None:
        """Sum up the crawl in one line of the log."""
        stats = self.crawler.stats
        forbidden = stats.get_value("robotstxt/forbidden", 0) if stats else 0
        self.logger.info(
            "Pages: %d, of which %d failed%s",
            self.pages,
            self.failed,
            f"; robots.txt forbids {forbidden} more" if forbidden and self.follow else "",
        )

    def _request(
        self, url: str, *, depth: int = 0, referer: str | None = None, seed: bool = False
    ) -> Request:
        return Request(
            url,
            callback=self.parse,
            errback=self.failure,
            priority=-depth,
            dont_filter=not self.follow,
            meta={"depth": depth, "referer": referer, "seed": seed},
        )

    def _within_limits(self, requests: Iterable[Request]) -> Iterator[Request]:
        for request in requests:
            full = self.max_pages is not None and self._started >= self.max_pages
            if full or (self.max_depth is not None and request.meta["depth"]):
                self.waiting.append(request)
            else:
                self._started += 1
                yield request

    def _item(self, request: Request, **values: Any) -> dict[str, Any]:
        self.pages += 1
        if error := values["error"]:
            self.failed += 1
            if came_from := request.meta.get("redirect_urls"):
                error = f"{error} (redirected from {came_from[0]})"
            referer = request.meta["referer"]
            origin = f", linked from {referer}" if referer else ""
            self.logger.info("%s: %s%s", values["url"], error, origin)
        return {
            "url": values["url"],
            "status": values.get("status"),
            "title": values.get("title"),
            "depth": request.meta["depth"],
            "worker": values.get("worker"),
            "latency": values.get("latency"),
            "size": values.get("size"),
            "content_type": values.get("content_type"),
            "referer": request.meta["referer"],
            "error": error,
        }

    def _links(self, response: HtmlResponse) -> Iterator[str]:
        """Yield the URLs of the pages to fetch that *response* is the first to link to."""
        hrefs = [
            strip_html5_whitespace(href).partition("#")[0]
            for href in response.selector.root.xpath(_LINKS)  # thousands: no selector for each
        ]
        refresh = get_meta_refresh(response.text[:4096], response.url, response.encoding)[1]
        for href in dict.fromkeys([*hrefs, refresh]):
            if not href:
                continue
            try:
                url = response.urljoin(href)
                if url in self._known or not url.startswith(("http://", "https://")):
                    continue
                url = tidy(safe_url_string(url, encoding=response.encoding))
                if self.wants(url) and self._is_new(url):
                    yield url
            except ValueError:
                self.logger.debug("%s links to %r, which is no URL", response.url, href)

    def _is_new(self, url: str) -> bool:
        """Return whether *url* is a page not known before; from now on it is known."""
        key = page_key(url)
        if self.follow and key in self._known:
            return False
        self._known[key] = False
        return True

    def _had_item(self, url: str) -> bool:
        """Return whether there was an item of the page at *url*; from now on there is one."""
        key = page_key(url)
        if self.follow and self._known.get(key):
            return True
        self._known[key] = True
        return False

    def _is_on_site(self, url: str) -> bool:
        site = site_of(url)
        return site in self.sites or (
            self.subdomains and any(site.endswith(f".{known}") for known in self.sites)
        )


def _title(response: Response) -> str | None:
    return (response.xpath(_TITLE).get() or None) if isinstance(response, HtmlResponse) else None


def _content_type(response: Response) -> str | None:
    value = response.headers.get("Content-Type")
    return value.decode("latin-1") if value else None
