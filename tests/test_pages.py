"""Pages processed in threads are the same as those of Scrapy's own middleware."""

import gzip
import threading
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import brotli
import pytest
from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware

from scrapy_threadpool.pages import PageProcessingMiddleware

from .crawling import ADDON, ASYNCIO, MODES, Crawl, crawl

SPIDER = """
import hashlib
from urllib.parse import urljoin
import scrapy

class Test(scrapy.Spider):
    name = "test"

    async def start(self):
        for path in self.paths.split():
            yield scrapy.Request(urljoin(self.site, path), errback=self.failed)

    def parse(self, response):
        text = isinstance(response, scrapy.http.TextResponse)
        yield {
            "url": response.url,
            "class": type(response).__name__,
            "body": hashlib.sha256(response.body).hexdigest(),
            "encoding": response.encoding if text else None,
            "title": response.css("title::text").get() if "Html" in str(type(response)) else None,
            "flags": response.flags,
            "headers": {
                name.decode(): [value.decode() for value in response.headers.getlist(name)]
                for name in sorted(response.headers) if name not in (b"Date", b"Server")
            },
            "threads": sorted(
                thread.name for thread in __import__("threading").enumerate()
                if "-page-" in thread.name
            ),
        }

    def failed(self, failure):
        yield {"url": failure.request.url, "error": failure.type.__name__}
"""

PAGE = "<html><head><title>Stra\u00dfe {}</title></head><body>{}</body></html>"
BODY = PAGE.format("groß", "<p>päge</p>" * 3000).encode()
LATIN = PAGE.format("latin", "<p>\u00e4</p>" * 3000).encode("latin-1")
ANSWERS = {
    "/gzip": (gzip.compress(BODY), "text/html; charset=utf-8", "gzip"),
    "/x-gzip": (gzip.compress(BODY), "text/html; charset=utf-8", "x-gzip"),
    "/two-members": (gzip.compress(BODY) + gzip.compress(LATIN), "text/html", "gzip"),
    "/trailing": (gzip.compress(BODY) + b"more", "text/html", "gzip"),
    "/truncated": (gzip.compress(BODY, 0)[:-20_000], "text/html", "gzip"),
    "/wrong-checksum": (gzip.compress(BODY)[:-8] + bytes(8), "text/html", "gzip"),
    "/deflate": (zlib.compress(BODY), "text/html; charset=utf-8", "deflate"),
    "/br": (brotli.compress(BODY), "text/html; charset=utf-8", "br"),
    "/twice": (gzip.compress(zlib.compress(BODY)), "text/html", "deflate, gzip"),
    "/unknown": (BODY, "text/html", "rot13"),
    "/not-gzip": (BODY, "text/html", "gzip"),
    "/plain": (BODY, "text/html", None),
    "/latin": (LATIN, "text/html; charset=iso-8859-1", None),
    "/no-charset": (LATIN, "text/html", None),
    "/small": (PAGE.format("small", "").encode(), "text/html", None),
    "/json": (b'{"a": "%s"}' % (b"x" * 30000), "application/json", None),
    "/binary": (bytes(range(256)) * 200, "application/octet-stream", None),
    "/bomb": (gzip.compress(b"<p>x</p>" * 500_000), "text/html", "gzip"),
    "/incompressible": (
        gzip.compress(__import__("random").Random(1).randbytes(50_000)),
        "",
        "gzip",
    ),
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body, kind, encoding = ANSWERS[self.path]
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        if kind:
            self.send_header("Content-Type", kind)
        if encoding:
            self.send_header("Content-Encoding", encoding)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def run(folder: Path, site: str, process: bool, **settings: object) -> Crawl:
    return crawl(
        folder,
        SPIDER,
        site=site,
        paths=" ".join(ANSWERS),
        settings={
            **ADDON,
            "THREADPOOL_PROCESS_PAGES": process,
            "DOWNLOAD_MAXSIZE": 1_000_000,
            "DOWNLOAD_WARNSIZE": 30_000,
            "RETRY_ENABLED": False,
            **settings,
        },
    )


def observed(result: Crawl) -> dict[str, object]:
    """Return what of a crawl must not depend on where pages are processed."""
    ignored = ("threads", "latency")
    items = [{k: v for k, v in item.items() if k not in ignored} for item in result.items]
    stats = {
        name: value
        for name, value in result.stats.items()
        if name.startswith(
            ("httpcompression/", "downloader/", "httpcache/", "item_", "log_count/W")
        )
    }
    return {"items": sorted(items, key=lambda item: item["url"]), "stats": stats}


@pytest.mark.parametrize("limit", [None, 1e6, 1_000_000, 100, 0, -1, -2])
def test_size_limits_of_every_kind_are_as_with_scrapy(limit: Any) -> None:
    def outcome(middleware: type[HttpCompressionMiddleware]) -> bytes | type[Exception]:
        try:
            return middleware._decode(gzip.compress(BODY), b"gzip", limit)
        except Exception as error:
            return type(error)

    assert outcome(PageProcessingMiddleware) == outcome(HttpCompressionMiddleware)


@pytest.mark.parametrize("mode", MODES)
def test_pages_are_the_same(tmp_path: Path, site: str, mode: str) -> None:
    ours = run(tmp_path / "ours", site, True, **MODES[mode])
    scrapys = run(tmp_path / "scrapys", site, False, **MODES[mode])
    assert observed(ours) == observed(scrapys)
    assert len(ours.items) == len(ANSWERS)
    # and they did go through threads of their own, few at a time
    threads = {name for item in ours.items for name in item.get("threads", [])}
    assert threads
    assert threads <= {f"test-page-{n}" for n in range(1, 5)}
    assert not any(item.get("threads") for item in scrapys.items)


def test_pages_from_the_cache_are_the_same(tmp_path: Path, site: str) -> None:
    cache = {
        **MODES[ASYNCIO],
        "HTTPCACHE_ENABLED": True,
        "HTTPCACHE_DIR": str(tmp_path / "cache"),
    }
    first = run(tmp_path / "first", site, True, **cache)
    again = run(tmp_path / "again", site, True, **cache)
    scrapys = run(tmp_path / "scrapys", site, False, **cache)
    assert first.stats["httpcache/store"] == len(ANSWERS)
    assert again.stats["httpcache/hit"] == len(ANSWERS)
    assert observed(again) == observed(scrapys)


@pytest.mark.parametrize(
    "chosen",
    [
        {"scrapy.downloadermiddlewares.httpcompression.HttpCompressionMiddleware": 100},
        {"scrapy.downloadermiddlewares.httpcompression.HttpCompressionMiddleware": None},
    ],
)
def test_what_the_user_says_of_the_middleware_stands(
    tmp_path: Path, site: str, chosen: dict[str, int | None]
) -> None:
    result = run(tmp_path, site, True, DOWNLOADER_MIDDLEWARES=chosen)
    assert not any(item.get("threads") for item in result.items)
