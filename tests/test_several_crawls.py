"""Several crawls in one process, at once and after another, and a crawl in several runs."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from .crawling import ADDON, start
from .unruly import UnrulyServer

pytestmark = pytest.mark.timeout(300)

SCRIPT = '''
import asyncio, gc, sys, threading, weakref
from scrapy import Request, Spider
from scrapy.crawler import AsyncCrawlerRunner, CrawlerRunner
from scrapy.utils.reactor import install_reactor

site, mode = sys.argv[1:]
SETTINGS = {"ADDONS": {"scrapy_threadpool.Addon": 500}, "NUMBER_OF_THREADS": 3,
            "TELNETCONSOLE_ENABLED": False}


class Pages(Spider):
    @property
    def own_threads(self):
        return {t.name for t in threading.enumerate() if t.name.startswith(f"{self.name}-worker-")}

    async def start(self):
        for number in range(9):
            yield Request(f"{site}/trickle/{number}", dont_filter=True)

    def parse(self, response):
        assert response.meta["worker"] in self.own_threads
        workers.append(response.meta["worker"])
        most[0] = max(most[0], threading.active_count())


class First(Pages):
    name = "first"


class Second(Pages):
    name = "second"


class NotOpened(Pages):
    name = "not-opened"
    custom_settings = {"ITEM_PIPELINES": {"no.such.pipeline": 1}}


workers, most, crawlers = [], [0], []


def tell(when):
    """How many workers there are, and how many of the crawlers are still in memory."""
    gc.collect()
    alive = [t.name for t in threading.enumerate() if "-worker-" in t.name]
    kept = [crawler() for crawler in crawlers if crawler() is not None]
    print(when, "| workers seen:", len(set(workers)), "| alive:", alive, "| kept:", len(kept))
    workers.clear()


def new_crawler(runner, spider):
    crawler = runner.create_crawler(spider)
    crawlers.append(weakref.ref(crawler))
    return crawler


async def main(runner, wait):
    for spider in (First, First):
        await wait(runner.crawl(new_crawler(runner, spider)))
        tell("one")
    crawls = [runner.crawl(new_crawler(runner, spider)) for spider in (First, Second)]
    for crawl in crawls:
        await wait(crawl)
    del crawls, crawl
    tell("two at once")
    try:
        await wait(runner.crawl(new_crawler(runner, NotOpened)))
    except ModuleNotFoundError:
        pass
    tell("not opened")


if mode == "no reactor":
    async def run():
        await main(AsyncCrawlerRunner({**SETTINGS, "TWISTED_REACTOR_ENABLED": False}), lambda x: x)
    asyncio.run(run())
else:
    kind = "select.Select" if mode == "select" else "asyncio.AsyncioSelector"
    path = f"twisted.internet.{kind.replace('.', 'reactor.')}Reactor"
    install_reactor(path)
    from twisted.internet import reactor
    from twisted.internet.defer import Deferred
    runner = CrawlerRunner({**SETTINGS, "TWISTED_REACTOR": path})

    def begin():
        d = Deferred.fromCoroutine(main(runner, lambda x: x))
        d.addErrback(lambda failure: failure.printTraceback())
        d.addBoth(lambda _: reactor.stop())

    reactor.callWhenRunning(begin)
    reactor.run()
'''


@pytest.mark.parametrize("mode", ["asyncio", "select", "no reactor"])
def test_each_crawl_has_a_pool_of_its_own_and_leaves_nothing(mode: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    with UnrulyServer() as server:
        process = subprocess.run(
            [sys.executable, "script.py", server.url(), mode],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
    lines = [line.split(" | ") for line in process.stdout.splitlines()]
    assert process.returncode == 0, process.stderr
    assert [(line[0], line[1]) for line in lines] == [
        ("one", "workers seen: 3"),
        ("one", "workers seen: 3"),
        ("two at once", "workers seen: 6"),
        ("not opened", "workers seen: 0"),
    ], process.stderr
    assert all(line[2] == "alive: []" for line in lines), process.stdout


RESUMED = """
from scrapy import Request, Spider


class Test(Spider):
    name = "test"
    pages = 0

    async def start(self):
        for number in range(60):
            yield Request(f"{self.site}/trickle/{number}")

    def parse(self, response):
        self.logger.info("page %s", response.url.rpartition("/")[2])
        self.pages += 1
        if self.pages == 5:
            self.logger.info("ready for a pause")
        yield {"url": response.url}
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")
def test_a_crawl_that_is_paused_twice_loses_nothing(tmp_path: Path) -> None:
    settings = {**ADDON, "JOBDIR": str(tmp_path / "job"), "NUMBER_OF_THREADS": 4}
    pages: list[str] = []
    with UnrulyServer() as server:
        for run in range(3):
            crawl = start(tmp_path / f"run{run}", RESUMED, settings=settings, site=server.url())
            if run < 2:
                crawl.wait_until_logged("ready for a pause", 90)
                crawl.process.send_signal(signal.SIGINT)
            result = crawl.finish(timeout=90)
            assert result.returncode == 0
            assert result.stats["finish_reason"] == ("finished" if run == 2 else "shutdown")
            pages += re.findall(r"INFO: page (\d+)", result.log)
            assert len(result.items) < 60
    assert sorted(pages, key=int) == [str(number) for number in range(60)]
    assert set(server.seen.values()) == {1}
