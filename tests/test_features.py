"""What Scrapy does around a download goes on working with the worker threads: one test each."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from .crawling import ADDON, MODES, SELECT, Crawl, crawl
from .server import Server, serve

SPIDER = """
import scrapy

class Test(scrapy.Spider):
    name = "test"
    {attributes}

    async def start(self):
        for path in {paths!r}:
            yield scrapy.Request(self.url + path, errback=self.failed, dont_filter=True)

    def parse(self, response):
        yield {{
            "url": response.url,
            "status": response.status,
            "body": response.text,
            "flags": response.flags,
            "worker": response.meta["worker"],
            "latency": response.meta["download_latency"],
            "times": response.meta.get("retry_times"),
            "came_by": response.meta.get("redirect_urls"),
        }}
        {more}

    def failed(self, failure):
        yield {{"failed": failure.request.url, "error": type(failure.value).__name__}}
"""


def spider(*paths: str, attributes: str = "", more: str = "") -> str:
    return SPIDER.format(paths=list(paths), attributes=attributes, more=more)


def run(folder: Path, server: Server, source: str, **settings: Any) -> Crawl:
    done = crawl(
        folder, source, settings={**ADDON, "NUMBER_OF_THREADS": 8, **settings}, url=server.url
    )
    assert done.returncode == 0, done.log
    assert "spider_exceptions/count" not in done.stats, done.log
    return done


@pytest.fixture
def server() -> Any:
    with serve() as running:
        yield running


def test_retry(tmp_path: Path, server: Server) -> None:
    done = run(tmp_path, server, spider("/flaky"))
    assert [(item["body"], item["times"]) for item in done.items] == [("at last", 2)]
    assert server.paths() == ["/flaky"] * 3
    assert done.stats["retry/count"] == 2
    assert done.stats["retry/reason_count/503 Service Unavailable"] == 2


def test_retry_of_failed_downloads(tmp_path: Path, server: Server) -> None:
    done = run(tmp_path, server, spider("/nothing"))
    # On a connection that was used before, libcurl itself would ask once more.
    assert server.paths() == ["/nothing"] * 3
    assert done.stats["retry/count"] == 2
    assert done.stats["retry/max_reached"] == 1
    assert [item.get("status", item.get("failed")) for item in done.items] == [
        f"{server.url}/nothing",
    ]


def test_redirect(tmp_path: Path, server: Server) -> None:
    done = run(tmp_path, server, spider("/redirect?to=/redirect%3Fto%3D/page"))
    (item,) = done.items
    assert item["url"] == f"{server.url}/page"
    assert item["came_by"] == [
        f"{server.url}/redirect?to=/redirect%3Fto%3D/page",
        f"{server.url}/redirect?to=/page",
    ]
    assert done.stats["downloader/response_status_count/302"] == 2


def test_cookies(tmp_path: Path, server: Server) -> None:
    follow = 'if "login" in response.url: yield response.follow("/page")'
    run(tmp_path, server, spider("/login", more=follow))
    login, page = server.received
    assert login.header("Cookie") == []
    assert page.header("Cookie") == ["session=1; b=2"]


def test_robots_txt(tmp_path: Path, server: Server) -> None:
    done = run(tmp_path, server, spider("/private", "/page"), ROBOTSTXT_OBEY=True)
    assert sorted(server.paths()) == ["/page", "/robots.txt"]
    assert done.stats["robotstxt/forbidden"] == 1
    assert {"failed": f"{server.url}/private", "error": "IgnoreRequest"} in done.items


def test_http_cache(tmp_path: Path, server: Server) -> None:
    source = spider("/page/1", "/page/2").replace('response.meta["worker"]', "None")
    source = source.replace('response.meta["download_latency"]', "None")
    settings = {"HTTPCACHE_ENABLED": True, "HTTPCACHE_DIR": str(tmp_path / "cache")}
    first = run(tmp_path / "first", server, source, **settings)
    second = run(tmp_path / "second", server, source, **settings)
    assert len(server.received) == 2
    assert second.stats["httpcache/hit"] == 2
    bodies = [sorted(item["body"] for item in done.items) for done in (first, second)]
    assert bodies[0] == bodies[1]
    assert [item["flags"] for item in second.items] == [["cached"], ["cached"]]


def test_http_auth(tmp_path: Path, server: Server) -> None:
    source = spider("/private", attributes='http_user = "user"; http_pass = "pass"')
    source = source.replace("http_pass =", "http_auth_domain = None; http_pass =")
    done = run(tmp_path, server, source)
    assert [item["body"] for item in done.items] == ["the secret"]


@pytest.mark.parametrize("process_pages", [True, False])
def test_compression(tmp_path: Path, server: Server, process_pages: bool) -> None:
    source = spider("/gzip?times=1", "/gzip?times=1000")
    done = run(tmp_path, server, source, THREADPOOL_PROCESS_PAGES=process_pages)
    page = "<html><body><p>compressed</p></body></html>"
    assert sorted(item["body"] for item in done.items) == [page, page * 1000]
    assert done.stats["httpcompression/response_count"] == 2
    assert done.stats["httpcompression/response_bytes"] == len(page) * 1001
    assert all("gzip" in one.header("Accept-Encoding")[0] for one in server.received)


def test_autothrottle(tmp_path: Path, server: Server) -> None:
    source = spider(*(f"/page/{number}?delay=0.1" for number in range(6)))
    done = run(
        tmp_path,
        server,
        source,
        AUTOTHROTTLE_ENABLED=True,
        AUTOTHROTTLE_DEBUG=True,
        AUTOTHROTTLE_START_DELAY=0.2,
        AUTOTHROTTLE_TARGET_CONCURRENCY=1.0,
    )
    assert len(done.items) == 6
    throttled = [line for line in done.log.splitlines() if "slot: 127.0.0.1" in line]
    assert len(throttled) == 6
    assert all(0.1 <= item["latency"] < 1 for item in done.items)
    assert all("latency:" in line for line in throttled)


def test_files_pipeline(tmp_path: Path, server: Server) -> None:
    paths = ["/bytes/one?size=1000", "/bytes/two?size=200000"]
    source = spider("/page", more=f'yield {{"file_urls": [self.url + path for path in {paths}]}}')
    pipelines = {"scrapy.pipelines.files.FilesPipeline": 1}
    store = tmp_path / "files"
    done = run(tmp_path, server, source, ITEM_PIPELINES=pipelines, FILES_STORE=str(store))
    (item,) = [item for item in done.items if item.get("files")]
    assert [file["url"] for file in item["files"]] == [server.url + path for path in paths]
    for file, size in zip(item["files"], (1000, 200000), strict=True):
        body = (store / file["path"]).read_bytes()
        assert len(body) == size
        assert file["checksum"] == hashlib.md5(body).hexdigest()


def test_download_delay(tmp_path: Path, server: Server) -> None:
    source = spider(*(f"/page/{number}" for number in range(6)))
    run(tmp_path, server, source, DOWNLOAD_DELAY=0.3, RANDOMIZE_DOWNLOAD_DELAY=False)
    times = sorted(one.at for one in server.received)
    assert len(times) == 6
    assert times[-1] - times[0] > 5 * 0.3 - 0.2


def test_concurrency_per_domain(tmp_path: Path, server: Server) -> None:
    source = spider(*(f"/page/{number}?delay=0.2" for number in range(12)))
    # With asyncio, Scrapy itself goes beyond that limit in a burst.
    run(tmp_path, server, source, **MODES[SELECT], CONCURRENT_REQUESTS_PER_DOMAIN=2)
    assert len(server.received) == 12
    assert server.most_at_once == 2


def test_concurrency_is_that_of_the_workers(tmp_path: Path, server: Server) -> None:
    source = spider(*(f"/page/{number}?delay=0.4" for number in range(20)))
    done = run(tmp_path, server, source, CONCURRENT_REQUESTS=20, CONCURRENT_REQUESTS_PER_DOMAIN=20)
    assert server.most_at_once == 8
    assert done.stats["threadpool/queue/peak"] == 12


def test_http_proxy(tmp_path: Path, server: Server) -> None:
    source = spider("/page").replace("self.url + path", '"http://example.invalid" + path')
    source = source.replace("dont_filter=True", 'dont_filter=True, meta={"proxy": self.url}')
    done = run(tmp_path, server, source)
    assert [item["url"] for item in done.items] == ["http://example.invalid/page"]
    assert [one.target for one in server.received] == ["http://example.invalid/page"]


def test_proxy_of_the_environment_through_the_middleware(tmp_path: Path, server: Server) -> None:
    source = spider("/page").replace("self.url + path", '"http://example.invalid" + path')
    settings = {**ADDON, "NUMBER_OF_THREADS": 8}
    done = crawl(tmp_path, source, settings=settings, env={"http_proxy": server.url}, url="")
    assert [item["url"] for item in done.items] == ["http://example.invalid/page"], done.log


def test_download_timeout(tmp_path: Path, server: Server) -> None:
    source = spider("/slow?first=5", attributes="download_timeout = 0.5")
    done = run(tmp_path, server, source, RETRY_ENABLED=False)
    (item,) = done.items
    assert item["failed"] == f"{server.url}/slow?first=5"
    assert "Timeout" in item["error"]
    assert done.stats["threadpool/timeouts"] == 1


def test_maximum_size(tmp_path: Path, server: Server) -> None:
    done = run(tmp_path, server, spider("/bytes?size=5000", "/page"), DOWNLOAD_MAXSIZE=1000)
    assert sorted(item.get("status", 0) for item in done.items) == [0, 200]
    assert "larger than download max size (1000)" in done.log


def test_data_loss(tmp_path: Path, server: Server) -> None:
    done = run(tmp_path, server, spider("/cut"), DOWNLOAD_FAIL_ON_DATALOSS=False)
    assert [(item["body"], item["flags"]) for item in done.items] == [("too short", ["dataloss"])]
