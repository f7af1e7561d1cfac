"""However a crawl ends: the process ends as with Scrapy's own handler, and soon."""

import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from .crawling import ADDON, ASYNCIO, MODES, NO_REACTOR, SELECT, Crawl, RunningCrawl, start
from .unruly import UnrulyServer

pytestmark = pytest.mark.timeout(300)

if sys.platform == "win32":
    pytest.skip("signals are POSIX's", allow_module_level=True)

SOURCE = '''
import time
from scrapy import Request, Spider
from scrapy.exceptions import CloseSpider
from scrapy.http import TextResponse

from scrapy_threadpool import Transport
from scrapy_threadpool.transports.curl import CurlTransport


class StuckTransport(CurlTransport):
    """curl, but a stalled download is a call that nothing can end."""

    def fetch(self, request, download):
        if "/stall/" in request.url:
            time.sleep(60)
        return super().fetch(request, download)


class Test(Spider):
    name = "test"

    async def start(self):
        for number in range(self.stalls):
            yield Request(f"{self.site}/stall/{number}")
        for number in range(10):
            yield Request(f"{self.site}/page/{number}", self.parse)
        if self.how == "error in start":
            raise ValueError("on purpose")
        yield Request(f"{self.site}/trickle/0", self.late, priority=-1)
        if self.how == "memory limit":
            self.memory = b"x" * 300_000_000

    def parse(self, response):
        yield {"url": response.url}

    def late(self, response):
        yield {"url": response.url}
        self.logger.info("ready for its end")
        if self.how == "CloseSpider":
            raise CloseSpider("enough")
        if self.how == "error in a callback":
            raise ValueError("on purpose")
'''
STALLS = 4
SETTINGS = {
    "CONCURRENT_REQUESTS": 32,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 32,
    "DOWNLOAD_TIMEOUT": 4,
    "RETRY_ENABLED": False,
    "LOG_LEVEL": "INFO",
}
ENDINGS: dict[str, dict[str, Any]] = {
    "finished": {},
    "error in start": {},
    "error in a callback": {},
    "CloseSpider": {},
    "memory limit": {"MEMUSAGE_LIMIT_MB": 250, "MEMUSAGE_CHECK_INTERVAL_SECONDS": 1},
    "SIGINT": {},
    "SIGTERM": {},
    "SIGINT twice": {},
    "SIGTERM twice": {},
}
STUCK = {**ADDON, "THREADPOOL_TRANSPORT": "spider_under_test.StuckTransport"}
FINISHED = ("finished", "error in a callback")
#: With Scrapy's own handler, with ours, and with ours where calls are stuck that nothing can end
HANDLERS: dict[str, dict[str, Any]] = {"Scrapy's": {}, "ours": ADDON, "ours, stuck": STUCK}
CASES = [
    *((how, handler, ASYNCIO) for how in ENDINGS for handler in HANDLERS),
    *(
        (how, handler, mode)
        for how in ("SIGINT", "SIGINT twice")
        for handler in HANDLERS
        for mode in (NO_REACTOR, SELECT)
    ),
]


@dataclass
class Ending:
    """How a crawl ended, and how many seconds that took."""

    result: Crawl
    seconds: float

    @property
    def messages(self) -> list[str]:
        """What the engine said, and what anybody but us complained of; in order of the text.

        Without the extension that says once a second that there is too little memory.
        """
        _, _, log = self.result.log.partition("[scrapy.core.engine] INFO: Spider opened")
        lines = re.findall(r"\[(\S+)\] ([A-Z]+): (.*)", log)
        return sorted(
            f"{level} {text}"
            for logger, level, text in lines
            if not logger.startswith(("scrapy_threadpool", "scrapy.extensions.memusage"))
            and (level != "INFO" or logger in ("scrapy.crawler", "scrapy.core.engine"))
        )


def end(running: RunningCrawl, how: str) -> Ending:
    # An error in start() has been raised by then.
    running.wait_until_logged("ready for its end" if how != "error in start" else "on purpose", 90)
    if how.startswith("SIG"):
        number = signal.Signals[how.split()[0]]
        running.process.send_signal(number)
        running.wait_until_logged("Closing spider (shutdown)", 90)
        began = time.monotonic()
        if how.endswith("twice"):
            running.process.send_signal(number)
    elif how in ("CloseSpider", "memory limit"):
        running.wait_until_logged("Closing spider", 90)
        began = time.monotonic()
    else:
        began = time.monotonic()
    result = running.finish()
    return Ending(result, time.monotonic() - began)


@pytest.fixture(scope="module")
def endings(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[str, str, str], Ending]]:
    """All endings; three of them at a time."""
    folder = tmp_path_factory.mktemp("endings")

    def run(case: tuple[str, str, str]) -> Ending:
        how, handler, mode = case
        running = start(
            folder / f"case{CASES.index(case)}",
            SOURCE,
            settings={**SETTINGS, **ENDINGS[how], **HANDLERS[handler], **MODES[mode]},
            site=server.url(),
            how=how,
            stalls=STALLS,
        )
        return end(running, how)

    with UnrulyServer() as server, ThreadPoolExecutor(6) as executor:
        futures = {case: executor.submit(run, case) for case in CASES}
        yield lambda *case: futures[case].result()


@pytest.mark.parametrize(
    ("how", "handler", "mode"), [case for case in CASES if case[1] != "Scrapy's"]
)
def test_it_ends_as_with_scrapys_own_handler(
    how: str, handler: str, mode: str, endings: Callable[[str, str, str], Ending]
) -> None:
    plain, ours = endings(how, "Scrapy's", mode), endings(how, handler, mode)
    log = ours.result.log
    assert ours.result.returncode == plain.result.returncode, log
    assert ours.messages == plain.messages
    for trouble in ("Fatal Python error", "Exception ignored", "Unhandled", "never retrieved"):
        assert trouble not in log, log
    urls = [sorted(item["url"] for item in one.result.items) for one in (ours, plain)]
    assert urls[0] == urls[1]
    # A second or two on a machine with nothing else to do; stuck calls take a minute.
    assert ours.seconds < plain.seconds + 15
    if not how.endswith("twice"):
        assert ours.result.stats["finish_reason"] == plain.result.stats["finish_reason"]
        assert ours.result.stats["finish_reason"] != "finished" or how in FINISHED
        assert ours.result.stats["threadpool/tasks"] == STALLS + 11 - (how == "error in start")


@pytest.mark.parametrize("how", ["SIGINT", "SIGTERM", "CloseSpider"])
def test_running_downloads_finish(how: str, endings: Callable[[str, str, str], Ending]) -> None:
    """After one Ctrl-C the stalled downloads end with their timeout, as they do with Scrapy."""
    for handler in ("Scrapy's", "ours"):
        result = endings(how, handler, ASYNCIO).result
        timeouts = "downloader/exception_type_count/scrapy.exceptions.DownloadTimeoutError"
        assert result.stats[timeouts] == STALLS
