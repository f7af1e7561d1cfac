"""A call that hangs costs one worker for a while, never the crawl."""

import re

import pytest

from .crawling import ADDON, MODES, Crawl, crawl_in_each_mode, start

# /hang/<seconds> ignores every timeout, /listen waits until it is interrupted; all others answer at
# once.
SOURCE = """
import re, threading, time
from scrapy import Request, Spider
from scrapy.http import TextResponse
from scrapy.exceptions import CloseSpider

from scrapy_threadpool import Transport, workers


class HangingTransport(Transport):
    def __init__(self):
        self.interrupted = threading.Event()

    def interrupt(self):
        self.interrupted.set()

    def fetch(self, request, download):
        self.interrupted.clear()
        if "/listen" in request.url and self.interrupted.wait(60):
            raise OSError("interrupted")
        if seconds := re.search("/(?:hang|wait)/([0-9.]+)", request.url):
            time.sleep(float(seconds[1]))
        return TextResponse(request.url)


class Test(Spider):
    name = "test"

    async def start(self):
        for path, timeout in self.paths:
            meta = {"began": time.monotonic()}
            if timeout:
                meta["download_timeout"] = timeout
            yield Request(
                f"http://site.example/{path}", self.parse, errback=self.fail, meta=meta
            )

    def parse(self, response):
        return self.outcome(response.request, "response")

    def fail(self, failure):
        return self.outcome(failure.request, failure.type.__name__)

    def outcome(self, request, outcome):
        states = workers(self.crawler)
        yield {
            "path": request.url.partition("example/")[2],
            "outcome": outcome,
            "worker": request.meta["worker"],
            "seconds": time.monotonic() - request.meta["began"],
            "useful": sum(not state.given_up for state in states),
            "threads": sum("-worker-" in thread.name for thread in threading.enumerate()),
        }
"""
SETTINGS = {
    **ADDON,
    "NUMBER_OF_THREADS": 2,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 100,
    "CONCURRENT_REQUESTS": 100,
    "THREADPOOL_TRANSPORT": "spider_under_test.HangingTransport",
    "RETRY_ENABLED": False,
}


@pytest.fixture(scope="module")
def with_a_hung_call(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Crawl]:
    # The last one keeps the crawl going until the hung call has come back after all.
    paths = [("hang/4", None), ("page/1", None), ("wait/3", 20), ("page/2", None), ("wait/2", 20)]
    return crawl_in_each_mode(
        tmp_path_factory.mktemp("hung"),
        SOURCE,
        settings={**SETTINGS, "DOWNLOAD_TIMEOUT": 1},
        paths=paths,
    )


@pytest.mark.parametrize("mode", MODES)
def test_a_hung_call_fails_on_time_and_its_worker_is_replaced(
    mode: str, with_a_hung_call: dict[str, Crawl]
) -> None:
    result = with_a_hung_call[mode]
    outcomes = {item["path"]: item for item in result.items}
    assert len(result.items) == len(outcomes) == 5, result.log  # a late result is dropped
    assert outcomes["hang/4"]["outcome"] == "DownloadTimeoutError"
    assert 2 <= outcomes["hang/4"]["seconds"] < 4
    assert all(o["outcome"] == "response" for path, o in outcomes.items() if path != "hang/4")
    assert all(outcome["useful"] == 2 for outcome in result.items)
    assert all(outcome["threads"] <= 3 for outcome in result.items)
    # There are two workers again, and the one that hung is gone.
    assert outcomes["wait/2"]["worker"] == "test-worker-3"
    assert outcomes["wait/2"]["threads"] == 2
    warning = re.search(
        r"WARNING: (test-worker-[12]) did not come back from http://site.example/hang/4 in "
        r"(\d\.\d) seconds and is given up; test-worker-3 takes its place",
        result.log,
    )
    assert warning is not None, result.log
    assert warning[1] == outcomes["hang/4"]["worker"]
    assert result.stats["threadpool/workers_given_up"] == 1
    assert result.stats["threadpool/timeouts"] == 1
    assert result.stats["threadpool/tasks"] == 5
    assert result.stats["finish_reason"] == "finished"
    assert "Traceback" not in result.log


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Crawl]:
    """Further crawls with calls that hang, all at the same time."""
    folder = tmp_path_factory.mktemp("others")
    running = {
        "meta": start(
            folder / "meta",
            SOURCE,
            settings={**SETTINGS, "DOWNLOAD_TIMEOUT": 60},
            paths=[("hang/60", 0.2), ("page", None)],
        ),
        "queue": start(
            folder / "queue",
            SOURCE,
            settings={**SETTINGS, "NUMBER_OF_THREADS": 1, "DOWNLOAD_TIMEOUT": 0.5},
            paths=[(f"wait/0.7?{number}", None) for number in range(5)],
        ),
        "interrupted": start(
            folder / "interrupted",
            SOURCE,
            settings={**SETTINGS, "DOWNLOAD_TIMEOUT": 0.3},
            paths=[("listen", None)],
        ),
        "cancelled": start(
            folder / "cancelled",
            SOURCE.replace("for path, timeout in self.paths:", CANCELLED),
            settings={**SETTINGS, "DOWNLOAD_TIMEOUT": 1},
            paths=[("page", None)],
        ),
    }
    return {name: one.finish() for name, one in running.items()}


CANCELLED = """import asyncio
        for number in range(4):
            request = Request(f"http://site.example/hang/60?{number}")
            try:
                await asyncio.wait_for(self.crawler.engine.download_async(request), 0.3)
            except asyncio.TimeoutError:
                pass
        for path, timeout in self.paths:"""


def test_download_timeout_of_the_request_counts(others: dict[str, Crawl]) -> None:
    result = others["meta"]
    (hung,) = (item for item in result.items if item["path"] == "hang/60")
    assert hung["outcome"] == "DownloadTimeoutError"
    assert 1.2 <= hung["seconds"] < 6
    assert re.search(r"hang/60>: DownloadTimeoutError, [1-5]\.\d+ s, 0 bytes", result.log)
    assert "did not stop: it is still at http://site.example/hang/60" in result.log


def test_a_call_that_can_be_interrupted_costs_no_worker(others: dict[str, Crawl]) -> None:
    result = others["interrupted"]
    assert [item["outcome"] for item in result.items] == ["DownloadTimeoutError"], result.log
    assert 0.8 <= result.items[0]["seconds"] < 5
    assert result.stats["threadpool/timeouts"] == 1
    assert result.stats["threadpool/workers_given_up"] == 0


def test_the_time_in_the_queue_does_not_count(others: dict[str, Crawl]) -> None:
    result = others["queue"]
    assert [item["outcome"] for item in result.items] == ["response"] * 5
    assert result.stats["threadpool/queue_wait/max"] > 2


def test_a_stuck_worker_is_replaced_though_nobody_waits_for_it(others: dict[str, Crawl]) -> None:
    result = others["cancelled"]
    assert [item["outcome"] for item in result.items] == ["response"], result.log
    assert result.stats["threadpool/workers_given_up"] in (1, 2)  # the crawl ends by then


@pytest.fixture(scope="module")
def with_many_hung_calls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Crawl]:
    return crawl_in_each_mode(
        tmp_path_factory.mktemp("many"),
        SOURCE,
        settings={
            **SETTINGS,
            "DOWNLOAD_TIMEOUT": 0.2,
            "THREADPOOL_MAX_STUCK_WORKERS": 1,
            "CONCURRENT_REQUESTS": 4,
        },
        paths=[(f"hang/60?{number}", None) for number in range(40)],
    )


@pytest.mark.parametrize("mode", MODES)
def test_too_many_stuck_workers_close_the_spider(
    mode: str, with_many_hung_calls: dict[str, Crawl]
) -> None:
    result = with_many_hung_calls[mode]
    assert result.returncode == 0
    assert result.stats["finish_reason"] == "threadpool_stuck_workers", result.log
    assert "2 workers are stuck in calls that do not come back, more than" in result.log
    assert "THREADPOOL_MAX_STUCK_WORKERS = 1: closing the spider" in result.log
    # Those that were under way fail too; the rest is never begun.
    assert 2 <= result.stats["threadpool/workers_given_up"] <= 6
    assert len(result.items) == result.stats["threadpool/tasks"] < 10
    assert {item["outcome"] for item in result.items} == {"DownloadTimeoutError"}
    assert "Traceback" not in result.log
