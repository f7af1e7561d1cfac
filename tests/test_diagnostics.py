"""What the pool says of itself: the log, the stats, and what each worker does now."""

import os
import re
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from .crawling import ADDON, ASYNCIO, MODES, SELECT, Crawl, crawl, start

SOURCE = """
import re, time
from scrapy import Request, Spider
from scrapy.http import TextResponse
from scrapy_threadpool import Transport, workers


class SlowTransport(Transport):
    def fetch(self, request, download):
        time.sleep(float(request.url.rpartition("/")[2]))
        if "error" in request.url:
            raise OSError("on purpose")
        return TextResponse(request.url, body=b"1234")


class Test(Spider):
    name = "test"
    compute = 0
    sites = 1

    async def start(self):
        for number in range(self.requests):
            site = f"site{number % self.sites}.example"
            yield Request(f"http://{site}/{number}/{self.seconds}", self.parse)

    def parse(self, response):
        end = time.thread_time() + self.compute
        while time.thread_time() < end:
            pass
"""
SETTINGS: dict[str, Any] = {
    **ADDON,
    "THREADPOOL_TRANSPORT": "spider_under_test.SlowTransport",
    "RETRY_ENABLED": False,
}
# Scrapy itself lets more requests through than it is told to when several come at the same moment
# on an asyncio loop, hence the other reactor for the limit per domain.
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "per domain": (
        {"CONCURRENT_REQUESTS_PER_DOMAIN": 2, **MODES[SELECT]},
        {"requests": 8, "seconds": 0.3},
        r"16 workers did 8 requests in \d+\.\d s, \d\.\d of them at a time and 2 at most; "
        "the pool was never full: CONCURRENT_REQUESTS_PER_DOMAIN = 2 limits the requests to "
        "one site",
    ),
    "per domain, several": (
        {"CONCURRENT_REQUESTS_PER_DOMAIN": 1, **MODES[SELECT]},
        {"requests": 12, "seconds": 0.3, "sites": 3},
        "the pool was never full: CONCURRENT_REQUESTS_PER_DOMAIN = 1 limits the requests",
    ),
    "delay": (
        {"DOWNLOAD_DELAY": 0.3},
        {"requests": 4, "seconds": 0},
        "the pool was never full: DOWNLOAD_DELAY = 0.3 holds requests back",
    ),
    "delay of a slot": (
        {"DOWNLOAD_SLOTS": {"site0.example": {"delay": 0.3}}},
        {"requests": 4, "seconds": 0},
        "the pool was never full: a delay of DOWNLOAD_SLOTS, of the spider or of robots.txt holds",
    ),
    "AutoThrottle": (
        {"AUTOTHROTTLE_ENABLED": True, "AUTOTHROTTLE_START_DELAY": 0.3},
        {"requests": 4, "seconds": 0},
        "the pool was never full: AUTOTHROTTLE_ENABLED and AUTOTHROTTLE_TARGET_CONCURRENCY hold "
        "requests back",
    ),
    "in all": (
        {"NUMBER_OF_THREADS": 4, "CONCURRENT_REQUESTS": 2},
        {"requests": 8, "seconds": 0.3},
        "the pool was never full: CONCURRENT_REQUESTS = 2 allows no more at a time",
    ),
    "too few": (
        {},
        {"requests": 3, "seconds": 0.3},
        "16 workers did 3 requests in .*the pool was never full: there were too few requests",
    ),
    "none": ({}, {"requests": 0, "seconds": 0}, "16 workers had nothing to do: no request came to"),
    "workers": (
        {"NUMBER_OF_THREADS": 1, "CONCURRENT_REQUESTS": 8},
        {"requests": 8, "seconds": 0.3},
        r"requests waited \d\.\d\d s for a worker on average: raise NUMBER_OF_THREADS",
    ),
    "fits": (
        {"NUMBER_OF_THREADS": 2, "CONCURRENT_REQUESTS": 2},
        {"requests": 6, "seconds": 0.5},
        "2 workers did 6 requests in .* and 2 at most; no setting holds the crawl back",
    ),
    "given up": (
        {"DOWNLOAD_TIMEOUT": 0.1},
        {"requests": 2, "seconds": 5},
        "2 were given up because their call did not come back within DOWNLOAD_TIMEOUT",
    ),
    "loop": (
        {"NUMBER_OF_THREADS": 4, "CONCURRENT_REQUESTS_PER_DOMAIN": 4},
        {"requests": 20, "seconds": 0, "compute": 0.1},
        r"the event loop was the bottleneck \(\d+% of its time\): callbacks, pipelines and "
        "middlewares take it, not the downloads",
    ),
    "long form": (
        {
            "THREADPOOL_TRANSPORT": None,
            "THREADPOOL_TRANSPORTS": {
                "default": {"transport": "spider_under_test.SlowTransport", "threads": 1},
                "other": {"transport": "spider_under_test.SlowTransport", "threads": 3},
            },
            "CONCURRENT_REQUESTS": 8,
        },
        {"requests": 8, "seconds": 0.3},
        r"s for a worker on average: raise THREADPOOL_TRANSPORTS\['default'\]\['threads'\]",
    ),
}


@pytest.fixture(scope="module")
def crawls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Crawl]:
    folder = tmp_path_factory.mktemp("diagnostics")

    def run(kind: str) -> Crawl:
        settings, arguments, _ = KINDS[kind]
        return crawl(folder / kind, SOURCE, settings={**SETTINGS, **settings}, **arguments)

    # What is told of the event loop is its share of the processor: it needs one to itself.
    alone = {"loop": run("loop")}
    others = [kind for kind in KINDS if kind not in alone]
    with ThreadPoolExecutor(4) as executor:
        return {**alone, **dict(zip(others, executor.map(run, others), strict=True))}


@pytest.mark.parametrize("kind", KINDS)
def test_the_line_at_the_end_says_what_limited_the_crawl(
    kind: str, crawls: dict[str, Crawl]
) -> None:
    if kind == "loop" and os.getloadavg()[0] > 2 * (os.cpu_count() or 1):
        pytest.skip("the processors are busy with other work: the loop waits for them")
    log = crawls[kind].log
    line = re.search(r"\[scrapy_threadpool\.handler\] INFO: (.*)", log)
    assert line is not None, log
    assert re.search(KINDS[kind][2], line[1]), line[1]


def test_each_transport_has_a_line_of_its_own(crawls: dict[str, Crawl]) -> None:
    result = crawls["long form"]
    assert "INFO: Transport 'other': 3 workers had nothing to do" in result.log
    assert result.stats["threadpool/size"] == 1
    assert result.stats["threadpool/other/size"] == 3
    assert result.stats["threadpool/other/tasks"] == 0


def test_a_debug_line_for_each_download(crawls: dict[str, Crawl]) -> None:
    lines = re.findall(
        r"DEBUG: (test-worker-\d+): <GET http://site0.example/\d/0.3>: 200, (\d\.\d{3}) s, 4 bytes",
        crawls["per domain"].log,
    )
    assert len(lines) == 8
    assert all(float(seconds) >= 0.3 for _, seconds in lines)
    failed = r"DEBUG: test-worker-\d: <GET http://site0.example/\d/5>: DownloadTimeoutError, "
    assert len(re.findall(failed, crawls["given up"].log)) == 2


def test_stats(crawls: dict[str, Crawl]) -> None:
    stats = ours(crawls["workers"])
    assert stats.pop("busy_workers/mean") == pytest.approx(1, abs=0.3)
    assert stats.pop("queue_wait/max") >= 6 * 0.3
    assert stats.pop("queue_wait/total") >= 26 * 0.3
    assert stats == {
        "size": 1,
        "tasks": 8,
        "failures": 0,
        "timeouts": 0,
        "workers_given_up": 0,
        "busy_workers/peak": 1,
        "queue/peak": 7,
        "pages/test-worker-1": 8,
    }
    stats = ours(crawls["given up"])
    assert (stats["tasks"], stats["failures"], stats["timeouts"]) == (2, 2, 2)
    assert stats["workers_given_up"] == 2
    assert not any(name.startswith("pages/") for name in stats)


def ours(result: Crawl) -> dict[str, Any]:
    prefix = "threadpool/"
    items = result.stats.items()
    return {key.removeprefix(prefix): value for key, value in items if key.startswith(prefix)}


WATCHED = (
    SOURCE
    + """

class Watched(Test):
    name = "watched"
    requests, seconds = 2, 8

    async def start(self):
        async for request in super().start():
            yield request
        yield Request("http://site1.example/now/0.5", self.look)

    def look(self, response):
        before = workers(self.crawler)
        busy = [state for state in before if state.task is not None]
        yield {
            "names": [state.name for state in before],
            "urls": sorted(state.task.url for state in busy),
            "seconds": [time.monotonic() - state.since for state in busy],
            "done": [state.done for state in before],
        }
"""
)


@pytest.mark.parametrize("mode", [ASYNCIO, SELECT])
def test_what_each_worker_does_now(mode: str, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {
        **SETTINGS,
        **MODES[mode],
        "NUMBER_OF_THREADS": 4,
        "TELNETCONSOLE_PASSWORD": "secret",
        "TELNETCONSOLE_PORT": [port, port],
    }
    running = start(tmp_path, WATCHED, "watched", settings=settings)
    running.wait_until_logged("Telnet console listening on", 60)
    running.wait_until_logged("Crawled (200) <GET http://site1.example/now/0.5>")
    said = telnet(port, "secret", "[state.task for state in workers()]")
    assert said.count("http://site0.example/") == 2, said
    assert said.count("None") == 2, said
    (item,) = running.finish().items
    assert item["names"] == [f"watched-worker-{number}" for number in range(1, 5)]
    assert item["urls"] == ["http://site0.example/0/8", "http://site0.example/1/8"]
    assert all(0 < seconds < 8 for seconds in item["seconds"])
    assert sorted(item["done"]) == [0, 0, 0, 1]


# The answers to what a telnet server offers, wants and refuses (RFC 854): WILL, WONT and DO
AGREED = {b"\xfb": b"\xfd", b"\xfc": b"\xfe", b"\xfd": b"\xfc"}


def telnet(port: int, password: str, command: str) -> str:
    """Return what the telnet console says to *command*."""
    said = b""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        lines = [(b"Username:", "scrapy"), (b"Password:", password), (b">>>", command)]
        for prompt, line in [*lines, (b">>>", None)]:
            while prompt not in said:
                more = connection.recv(4096)
                assert more, said
                for verb, option in re.findall(rb"\xff([\xfb-\xfd])(.)", more, re.DOTALL):
                    connection.sendall(b"\xff" + AGREED[verb] + option)
                said += more
            if line is not None:
                said = b""
                connection.sendall(line.encode() + b"\r\n")
    return re.sub(r"\x1b\[[^A-Za-z]*[A-Za-z]", "", said.decode(errors="replace"))
