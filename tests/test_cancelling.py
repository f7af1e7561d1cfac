"""What the engine no longer waits for is dropped from the queue, or its transfer is stopped."""

from collections.abc import Iterator

import pytest

from .crawling import ADDON, ASYNCIO, MODES, NO_REACTOR, RunningCrawl, start
from .unruly import UnrulyServer

SOURCE = '''
import asyncio, logging
from scrapy import Request, Spider, signals
from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import Deferred

from scrapy_threadpool import ThreadPoolDownloadHandler


class Test(Spider):
    name = "test"

    async def start(self):
        stopped = await getattr(self, self.how)()
        self.logger.info("stopped waiting: %s", stopped)
        # Long enough for the transfer to be stopped, if it is.
        ended = Deferred()
        call_later(5, ended.callback, None)
        await maybe_deferred_to_future(ended)
        yield Request(f"{self.site}/page/after", self.parse)

    def request(self, name):
        return Request(f"{self.site}/stall/{name}")

    async def wait_for(self):
        """asyncio.wait_for() around download_async(): of one under way, and of one queued."""
        waits = (
            asyncio.wait_for(self.crawler.engine.download_async(self.request(name)), 1)
            for name in ("first", "queued")
        )
        errors = await asyncio.gather(*waits, return_exceptions=True)
        return [type(error).__name__ for error in errors]

    async def cancel_deferred(self):
        deferreds = [
            deferred_from_coro(self.crawler.engine.download_async(self.request(name)))
            for name in ("first", "queued")
        ]
        return await self.cancelled(deferreds)

    async def cancel_handler(self):
        """Cancel what a handler's download_request() itself gives."""
        handler = ThreadPoolDownloadHandler.from_crawler(self.crawler)
        self.crawler.signals.connect(handler.close, signals.engine_stopped)
        deferreds = [
            deferred_from_coro(handler.download_request(self.request(name)))
            for name in ("first", "queued")
        ]
        return await self.cancelled(deferreds)

    async def cancelled(self, deferreds):
        outcomes = []
        for deferred in deferreds:
            deferred.addBoth(lambda result: outcomes.append(result.type.__name__))
            call_later(1, deferred.cancel)
        ended = Deferred()
        call_later(1.2, ended.callback, None)
        await maybe_deferred_to_future(ended)
        return outcomes

    def parse(self, response):
        yield {"url": response.url}
'''
SETTINGS = {**ADDON, "NUMBER_OF_THREADS": 1, "CONCURRENT_REQUESTS": 10, "DOWNLOAD_TIMEOUT": 60}
HOW = {"wait_for": (ASYNCIO, NO_REACTOR), "cancel_deferred": MODES, "cancel_handler": MODES}
CASES = [(how, mode) for how, modes in HOW.items() for mode in modes]


@pytest.fixture(scope="module")
def crawls(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[tuple[str, str], tuple[UnrulyServer, RunningCrawl]]]:
    """All cases, each with a server of its own, under way at the same time."""
    servers = {case: UnrulyServer().__enter__() for case in CASES}
    crawls = {}
    for number, (how, mode) in enumerate(CASES):
        server = servers[how, mode]
        crawl = start(
            tmp_path_factory.mktemp(f"cancelling{number}"),
            SOURCE,
            settings={**SETTINGS, **MODES[mode]},
            site=server.url(),
            how=how,
        )
        crawls[how, mode] = (server, crawl)
    yield crawls
    for server, crawl in crawls.values():
        crawl.process.kill()
        server.__exit__()


@pytest.mark.parametrize(("how", "mode"), CASES)
def test_what_nobody_waits_for_is_stopped(
    how: str, mode: str, crawls: dict[tuple[str, str], tuple[UnrulyServer, RunningCrawl]]
) -> None:
    server, crawl = crawls[how, mode]
    result = crawl.finish()
    assert result.returncode == 0
    line = next(line for line in result.log.splitlines() if "stopped waiting" in line)
    assert line.count("Error") == 2, result.log
    # The transfer was stopped, not only left to the end of the crawl; the other never began.
    assert server.events == ["asked for /stall/first", "left /stall/first", "asked for /page/after"]
    assert [item["url"] for item in result.items] == [server.url("/page/after")]  # the worker works
    assert result.stats["threadpool/failures"] == 2, result.log
    assert "Traceback" not in result.log
