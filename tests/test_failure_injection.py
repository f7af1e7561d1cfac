"""Whatever fails in whichever step of a download: every request ends once, and nothing hangs."""

import pytest

from .crawling import ADDON, MODES, NO_REACTOR, Crawl, crawl_in_each_mode
from .unruly import UnrulyServer

TRANSPORTS = '''
import asyncio, threading, time
from scrapy import Request, Spider, signals
from scrapy.exceptions import IgnoreRequest, NotSupported, StopDownload
from scrapy.http import TextResponse
from twisted.internet.defer import Deferred, succeed
from twisted.python.failure import Failure

from scrapy_threadpool import ThreadPoolDownloadHandler, Transport
from scrapy_threadpool.download import RawResponse


class Unusual(BaseException):
    pass


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no text")


RAISED = {
    error.__name__: error
    for error in (
        SystemExit, KeyboardInterrupt, GeneratorExit, MemoryError, StopIteration,
        StopAsyncIteration, asyncio.CancelledError, Unusual, Unprintable, OSError, RecursionError,
        IgnoreRequest,
    )
}
RETURNED = {
    "none": lambda url: None,
    "text": lambda url: "text",
    "class": lambda url: TextResponse,
    "deferred": lambda url: succeed(TextResponse(url)),
    "failure": lambda url: Failure(ValueError("a failure")),
    "exception": lambda url: ValueError("an exception"),
    "coroutine": lambda url: asyncio.sleep(0),
    "raw": lambda url: RawResponse("no status", [(b"X", b"y")], b""),
    "page": lambda url: TextResponse(url),
}


class Breaking(Transport):
    """Raises or returns what the path says."""

    def fetch(self, request, download):
        kind, name = request.url.split("/")[3:5]
        if kind == "raise":
            raise RAISED[name]("on purpose")
        if kind == "late":
            download.headers_received(200, [(b"Content-Type", b"text/html")])
            download.bytes_received(b"some")
            raise RAISED[name]("on purpose")
        return RETURNED[name](request.url)


class NotMade(Transport):
    @classmethod
    def from_crawler(cls, crawler, options, shared):
        raise SystemExit("cannot be made")

    def fetch(self, request, download):
        raise AssertionError


class NotClosed(Breaking):
    def close(self):
        raise SystemExit("cannot be closed")


class NotInterrupted(Transport):
    def fetch(self, request, download):
        time.sleep(3)
        return TextResponse(request.url)

    def interrupt(self):
        raise RuntimeError("cannot be interrupted")
'''

SOURCE = (
    TRANSPORTS
    + """
class Test(Spider):
    name = "test"

    @classmethod
    def from_crawler(cls, crawler):
        spider = super().from_crawler(crawler)
        for signal in (
            signals.headers_received, signals.bytes_received, signals.response_received,
            signals.response_downloaded, signals.request_reached_downloader,
        ):
            crawler.signals.connect(spider.listener, signal)
        return spider

    def listener(self, **_):
        raise RuntimeError("a listener fails")

    async def start(self):
        for name in RAISED:
            yield self.request(f"raise/{name}")
            yield self.request(f"late/{name}")
        for name in RETURNED:
            yield self.request(f"return/{name}")
        for number in range(5):
            yield self.request(f"return/page/{number}", "not-made")
            yield self.request(f"return/page/{number}", "not-closed")
            yield self.request(f"return/page/{number}", "not-there")
        yield self.request("slow", "not-interrupted", timeout=0.1)

    def request(self, path, transport="default", timeout=60):
        meta = {"transport": transport, "download_timeout": timeout}
        return Request(
            f"http://site.example/{path}", self.parse, errback=self.fail, meta=meta,
            dont_filter=True,
        )

    def parse(self, response):
        return self.outcome(response.request, "response", "")

    def fail(self, failure):
        return self.outcome(failure.request, failure.type.__name__, failure.getErrorMessage())

    def outcome(self, request, outcome, message):
        yield {
            "path": request.url.partition("example/")[2], "transport": request.meta["transport"],
            "outcome": outcome, "message": message,
        }
"""
)
TRANSPORT = {
    "default": "Breaking",
    "not-made": "NotMade",
    "not-closed": "NotClosed",
    "not-interrupted": "NotInterrupted",
}
SETTINGS = {
    **ADDON,
    "RETRY_ENABLED": False,
    "CONCURRENT_REQUESTS": 100,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 100,
    "THREADPOOL_TRANSPORTS": {
        name: {"transport": f"spider_under_test.{cls}", "threads": 2}
        for name, cls in TRANSPORT.items()
    },
}
RAISED = (
    "SystemExit",
    "KeyboardInterrupt",
    "GeneratorExit",
    "MemoryError",
    "StopIteration",
    "StopAsyncIteration",
    "CancelledError",
    "Unusual",
    "Unprintable",
    "OSError",
    "RecursionError",
)
GARBAGE = ("none", "text", "class", "deferred", "failure", "exception", "coroutine")


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Crawl]:
    return crawl_in_each_mode(tmp_path_factory.mktemp("broken"), SOURCE, settings=SETTINGS)


@pytest.mark.parametrize("mode", MODES)
def test_every_request_ends_once(mode: str, broken: dict[str, Crawl]) -> None:
    result = broken[mode]
    ends = [(item["path"], item["transport"]) for item in result.items]
    assert len(ends) == len(set(ends)) == 2 * 12 + 9 + 15 + 1, result.log
    assert result.returncode == 0
    assert result.stats["finish_reason"] == "finished"


@pytest.mark.parametrize("mode", MODES)
def test_what_a_transport_raises_fails_its_request(mode: str, broken: dict[str, Crawl]) -> None:
    outcomes = {item["path"]: item for item in broken[mode].items if item["transport"] == "default"}
    for name in RAISED:
        for kind in ("raise", "late"):
            outcome = outcomes[f"{kind}/{name}"]
            assert outcome["outcome"] == "DownloadFailedError", outcome
            assert name in outcome["message"]
    assert outcomes["raise/IgnoreRequest"]["outcome"] == "IgnoreRequest"  # Scrapy's own pass


@pytest.mark.parametrize("mode", MODES)
def test_what_is_no_response_fails_its_request(mode: str, broken: dict[str, Crawl]) -> None:
    outcomes = {item["path"]: item for item in broken[mode].items if item["transport"] == "default"}
    for name in GARBAGE:
        assert outcomes[f"return/{name}"]["outcome"] == "DownloadFailedError"
        assert "spider_under_test.Breaking returned" in outcomes[f"return/{name}"]["message"]
    assert outcomes["return/raw"]["outcome"] == "ValueError"
    assert outcomes["return/page"]["outcome"] == "response"


@pytest.mark.parametrize("mode", MODES)
def test_a_transport_may_fail_when_it_is_made_closed_or_interrupted(
    mode: str, broken: dict[str, Crawl]
) -> None:
    result = broken[mode]
    outcomes: dict[str, set[str]] = {}
    for item in result.items:
        outcomes.setdefault(item["transport"], set()).add(item["outcome"])
    assert outcomes["not-made"] == {"DownloadFailedError"}
    assert outcomes["not-closed"] == {"response"}
    assert outcomes["not-there"] == {"NotSupported"}  # which is not retried
    assert outcomes["not-interrupted"] == {"DownloadTimeoutError"}
    assert "test-not-closed-worker-1: closing failed" in result.log
    assert "cannot be interrupted" in result.log
    assert "Unhandled" not in result.log
    assert "never retrieved" not in result.log


# 40 downloads that the engine does not know of wait for one worker when the spider closes.
QUEUED = (
    TRANSPORTS
    + """
from scrapy.exceptions import CloseSpider
from scrapy.utils.defer import deferred_from_coro


class Test(Spider):
    name = "test"
    outcomes = []

    async def start(self):
        handler = ThreadPoolDownloadHandler.from_crawler(self.crawler)
        self.crawler.signals.connect(handler.close, signals.engine_stopped)
        for number in range(40):
            coroutine = handler.download_request(Request(f"{self.site}/stall/{number}"))
            deferred_from_coro(coroutine).addBoth(self.ended)
        yield Request("data:,", self.parse)

    def parse(self, response):
        raise CloseSpider("enough")

    def ended(self, result):
        self.outcomes.append(result.type.__name__)
        if len(self.outcomes) == 40:
            print("ended:", set(self.outcomes))
"""
)


@pytest.fixture(scope="module")
def queued(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Crawl]:
    settings = {**ADDON, "NUMBER_OF_THREADS": 1}
    with UnrulyServer() as server:
        folder = tmp_path_factory.mktemp("queued")
        return crawl_in_each_mode(folder, QUEUED, settings=settings, site=server.url())


@pytest.mark.parametrize("mode", MODES)
def test_a_queue_full_of_work_when_the_spider_closes(mode: str, queued: dict[str, Crawl]) -> None:
    result = queued[mode]
    assert "ended: {'DownloadCancelledError'}" in result.log
    assert result.stats["finish_reason"] == "enough"
    assert result.returncode == 0
    assert "did not stop" not in result.log
    assert "Traceback" not in result.log


LOOP_STOPS = (
    TRANSPORTS
    + """
class Test(Spider):
    name = "test"

    @classmethod
    def from_crawler(cls, crawler, **arguments):
        spider = super().from_crawler(crawler, **arguments)
        # A listener: so that workers wait for the loop's thread too.
        crawler.signals.connect(spider.listener, signals.bytes_received)
        return spider

    def listener(self, **_):
        pass

    async def start(self):
        for number in range(40):
            kind, callback = ("stall", self.parse) if number % 2 else ("trickle", self.stop)
            yield Request(f"{self.site}/{kind}/{number}", callback)

    def parse(self, response):
        pass

    def stop(self, response):
        try:
            asyncio.get_running_loop().stop()
        except RuntimeError:
            from twisted.internet import reactor
            reactor.crash()  # stop() would end the crawl first
"""
)


@pytest.fixture(scope="module")
def loop_stops(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Crawl]:
    with UnrulyServer() as server:
        folder = tmp_path_factory.mktemp("loop")
        settings = {**ADDON, "NUMBER_OF_THREADS": 8, "CONCURRENT_REQUESTS_PER_DOMAIN": 50}
        return crawl_in_each_mode(folder, LOOP_STOPS, settings=settings, site=server.url())


@pytest.mark.parametrize("mode", MODES)
def test_the_loop_stops_first(mode: str, loop_stops: dict[str, Crawl]) -> None:
    result = loop_stops[mode]
    # Without a reactor, Scrapy itself fails like this.
    assert result.returncode == (1 if mode == NO_REACTOR else 0), result.log
    assert ("Event loop stopped before Future completed" in result.log) == (mode == NO_REACTOR)
    assert "Fatal" not in result.log
    assert result.log.count("Traceback") == (1 if mode == NO_REACTOR else 0), result.log
