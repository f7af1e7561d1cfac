"""The worker model in a crawl: how many threads there are, their names, what they share."""

import re
from collections import Counter
from pathlib import Path

import pytest

from .crawling import ADDON, MODES, crawl
from .server import serve

SPIDER = """
import threading
import scrapy

def workers():
    names = {}
    for thread in threading.enumerate():
        if "worker-" in thread.name:
            names[thread.name] = thread.daemon
    return names

class Test(scrapy.Spider):
    name = "test"
    pages = 40

    async def start(self):
        yield {"when": "start", "workers": workers()}
        for number in range(int(self.pages)):
            yield scrapy.Request(f"{self.url}/page/{number}", errback=self.failed)

    def parse(self, response):
        yield {"worker": response.meta["worker"], "workers": workers()}

    def failed(self, failure):
        request = failure.request
        yield {
            "failed": request.url,
            "error": type(failure.value).__name__,
            "cause": repr(failure.value.__cause__),
            "worker": request.meta["worker"],
            "workers": workers(),
        }
"""
FAILING = """
import os
from scrapy_threadpool import Transport
from scrapy.http import TextResponse

class Failing(Transport):
    def fetch(self, request, download):
        number = int(request.url.rpartition("/")[2])
        if number == 7:
            raise RuntimeError("page 7 is not for you")
        if number == 13:
            raise SystemExit("page 13 ends it all")
        return TextResponse(request.url, body=b"fetched", request=request)
"""
FOUR = {f"test-worker-{number}": True for number in (1, 2, 3, 4)}


@pytest.mark.parametrize("mode", list(MODES))
def test_exactly_four_workers_from_start_to_end(tmp_path: Path, mode: str) -> None:
    with serve() as server:
        settings = {**ADDON, **MODES[mode], "NUMBER_OF_THREADS": 4}
        done = crawl(tmp_path, SPIDER, settings=settings, url=server.url)
    assert done.returncode == 0, done.log
    assert len(done.items) == 41, done.log
    assert all(item["workers"] == FOUR for item in done.items)  # name: daemon
    assert "MainThread" in done.threads
    assert [name for name in done.threads if "worker" in name] == []
    pages = Counter(item["worker"] for item in done.items if "worker" in item)
    assert set(pages) <= set(FOUR)
    prefix = "threadpool/pages/"
    stats = {key.removeprefix(prefix): n for key, n in done.stats.items() if prefix in key}
    assert stats == dict(pages)
    assert done.stats["threadpool/size"] == 4
    assert done.stats["threadpool/tasks"] == 40
    logged = Counter(re.findall(r"\] DEBUG: (test-worker-\d+): <GET ", done.log))
    assert logged == pages
    assert "did not stop" not in done.log


def test_a_page_that_raises_is_one_failed_request(tmp_path: Path) -> None:
    tmp_path.joinpath("failing.py").write_text(FAILING)
    settings = {
        **ADDON,
        "NUMBER_OF_THREADS": 4,
        "THREADPOOL_TRANSPORT": "failing.Failing",
        "RETRY_ENABLED": False,
        "ROBOTSTXT_OBEY": False,
    }
    done = crawl(tmp_path, SPIDER, settings=settings, url="http://nowhere.invalid")
    assert done.returncode == 0, done.log
    url = "http://nowhere.invalid/page"
    failed = {item["failed"]: item for item in done.items if "failed" in item}
    assert set(failed) == {f"{url}/7", f"{url}/13"}
    assert {item["cause"] for item in failed.values()} == {
        "RuntimeError('page 7 is not for you')",
        "SystemExit('page 13 ends it all')",
    }
    assert all(item["worker"] in FOUR for item in failed.values())
    assert all(item["workers"] == FOUR for item in done.items)
    assert sum("worker" in item and "failed" not in item for item in done.items) == 38
    assert done.stats["downloader/exception_count"] == 2
    assert done.stats["threadpool/failures"] == 2
    assert done.stats["downloader/response_count"] == 38


def test_a_page_that_raises_is_retried_as_any_other(tmp_path: Path) -> None:
    tmp_path.joinpath("failing.py").write_text(FAILING)
    settings = {
        **ADDON,
        "NUMBER_OF_THREADS": 4,
        "THREADPOOL_TRANSPORT": "failing.Failing",
        "RETRY_TIMES": 2,
        "ROBOTSTXT_OBEY": False,
    }
    done = crawl(tmp_path, SPIDER, settings=settings, url="http://nowhere.invalid")
    assert sum("failed" in item for item in done.items) == 2
    assert done.stats["retry/count"] == 4
    assert done.stats["downloader/exception_count"] == 6


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_polite_crawl_opens_one_connection(
    tmp_path: Path, scheme: str, localhost: tuple[Path, Path]
) -> None:
    certificate = localhost if scheme == "https" else ()
    with serve(*certificate) as server:
        settings = {**ADDON, "NUMBER_OF_THREADS": 16, "CONCURRENT_REQUESTS": 1}
        done = crawl(tmp_path, SPIDER, settings=settings, url=server.url, pages=200)
        assert len(server.received) == 200, done.log
        assert server.most_at_once == 1
        assert server.connections == 1


def test_no_more_connections_than_requests_at_a_time(tmp_path: Path) -> None:
    with serve() as server:
        settings = {**ADDON, "NUMBER_OF_THREADS": 16, "CONCURRENT_REQUESTS": 3}
        done = crawl(tmp_path, SPIDER, settings=settings, url=server.url, pages=100)
        assert len(server.received) == 100, done.log
        assert server.connections <= 3


def test_a_busy_loop_does_not_inflate_latency(tmp_path: Path) -> None:
    spider = """
import time
import scrapy

class Test(scrapy.Spider):
    name = "test"

    async def start(self):
        for number in range(8):
            yield scrapy.Request(f"{self.url}/page/{number}")

    def parse(self, response):
        time.sleep(0.5)
        yield {"latency": response.meta["download_latency"]}
"""
    with serve() as server:
        settings = {**ADDON, "NUMBER_OF_THREADS": 4}
        done = crawl(tmp_path, spider, settings=settings, url=server.url)
    latencies = sorted(item["latency"] for item in done.items)
    assert len(latencies) == 8, done.log
    assert latencies[4] < 0.4  # a callback alone takes longer


def test_a_crawl_of_several_spiders_has_a_pool_each(tmp_path: Path) -> None:
    script = """
import json, sys
from scrapy.crawler import AsyncCrawlerProcess
from spider_under_test import Test

class Other(Test):
    name = "other"

process = AsyncCrawlerProcess(json.load(open("settings.json")))
url = sys.argv[1]
crawlers = [process.create_crawler(spider) for spider in (Test, Other)]
for crawler in crawlers:
    process.crawl(crawler, url=url)
process.start()
print(json.dumps([sorted(k for k in c.stats.get_stats() if "pages/" in k) for c in crawlers]))
"""
    import json
    import subprocess
    import sys

    (tmp_path / "spider_under_test.py").write_text(SPIDER)
    (tmp_path / "script.py").write_text(script)
    settings = {**ADDON, "NUMBER_OF_THREADS": 1, "LOG_LEVEL": "ERROR"}
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    with serve() as server:
        done = subprocess.run(
            [sys.executable, "script.py", server.url],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert json.loads(done.stdout) == [
        ["threadpool/pages/test-worker-1"],
        ["threadpool/pages/other-worker-1"],
    ], done.stderr
