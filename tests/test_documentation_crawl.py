"""A real documentation of 1,000 pages and more: with the add-on, a crawl finds the same."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from .crawling import ADDON, MODES, Crawl, start
from .nginx import Nginx, serve

DOCUMENTATION = Path("/usr/share/doc/postgresql-doc-15/html")
PAGES = 1000  # there are more, by a few with every release of the package

SPIDER = r"""
import hashlib
import re
import scrapy

class Docs(scrapy.Spider):
    name = "docs"
    handle_httpstatus_list = [404]

    async def start(self):
        for site in (self.http, self.https):
            yield scrapy.Request(f"{site}/index.html")
            yield scrapy.Request(f"{site}/no-such-page.html")

    def parse(self, response):
        if not isinstance(response, scrapy.http.HtmlResponse):
            return
        links = re.findall(r'href="([^"#:]+\.html)[#"]', response.text)
        yield {
            "url": response.url,
            "status": response.status,
            "title": re.search("<title>(.*?)</title>", response.text, re.DOTALL)[1],
            "sha1": hashlib.sha1(response.body).hexdigest(),
            "encoding": response.encoding,
            "headers": sorted(
                (name.decode(), [value.decode() for value in values])
                for name, values in response.headers.items()
                # What is about the connection, some of Scrapy's handlers leave out.
                if name not in (b"Date", b"Connection", b"Keep-Alive", b"Transfer-Encoding")
            ),
            "flags": response.flags,
            "protocol": response.protocol or "HTTP/1.1",  # not every handler of Scrapy tells
            "links": len(links),
        }
        # Those to the pages around it suffice to come to all of them.
        for link in list(dict.fromkeys(links))[:4] if response.meta["depth"] else links:
            yield response.follow(link)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nginx]:
    if not DOCUMENTATION.exists():
        message = "not installed: postgresql-doc-15"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    with serve(DOCUMENTATION, tmp_path_factory.mktemp("nginx")) as nginx:
        yield nginx


def counts(done: Crawl) -> dict[str, int]:
    """Return the statistics that say what was found, rather than how long it took."""
    prefixes = (
        "downloader/response_status_count/",
        "downloader/response_count",
        "downloader/request_method_count/",
        "downloader/request_count",
        "downloader/exception_count",
        "dupefilter/filtered",
        "httpcompression/",
        "item_scraped_count",
        "log_count/ERROR",
        "log_count/WARNING",
        "offsite/",
        "response_received_count",
        "retry/",
        "scheduler/",
        "spider_exceptions/",
    )
    return {key: value for key, value in done.stats.items() if key.startswith(prefixes)}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("mode", list(MODES))
def test_same_items_and_stats_as_without(tmp_path: Path, site: Nginx, mode: str) -> None:
    settings = {**MODES[mode], "LOG_LEVEL": "WARNING", "CONCURRENT_REQUESTS_PER_DOMAIN": 16}
    running = [
        start(
            tmp_path / name,
            SPIDER,
            "docs",
            settings={**settings, **addon},
            http=site.http,
            https=site.https,
        )
        for name, addon in (("with", ADDON), ("without", {}))
    ]
    with_addon, without = (one.finish(timeout=280) for one in running)
    assert with_addon.returncode == without.returncode == 0, with_addon.log + without.log
    found = sorted(with_addon.items, key=lambda item: item["url"])
    assert found == sorted(without.items, key=lambda item: item["url"])
    assert counts(with_addon) == counts(without)
    for base in (site.http, site.https):
        pages = [item for item in found if item["url"].startswith(f"{base}/")]
        assert Counter(item["status"] for item in pages)[200] >= PAGES
        assert len({item["url"] for item in pages}) == len(pages)
    assert with_addon.stats["dupefilter/filtered"] > PAGES
    assert with_addon.stats["threadpool/tasks"] == with_addon.stats["downloader/response_count"]
    assert "threadpool/tasks" not in without.stats
