"""A long crawl of an unruly server, and many forced ends under load: `make soak`."""

import argparse
import random
import signal
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

from .certificates import make_certificate
from .crawling import ADDON, ASYNCIO, MODES, Crawl, start
from .unruly import UnrulyServer

THREADS = 32

SOAK = """
import os, threading
from collections import Counter
from scrapy import Request, Spider, signals

from scrapy_threadpool import workers


class Soak(Spider):
    name = "soak"
    ends = Counter()
    given = 0

    @classmethod
    def from_crawler(cls, crawler, **arguments):
        spider = super().from_crawler(crawler, **arguments)
        crawler.signals.connect(spider.spider_closed, signals.spider_closed)
        return spider

    async def start(self):
        for number in range(self.requests):
            self.given += 1
            yield Request(
                f"{self.site}/random/{number}", self.parse, errback=self.fail, dont_filter=True
            )

    def parse(self, response):
        response.css("title::text").get()
        self.end(response.request)

    def fail(self, failure):
        self.end(failure.request)

    def end(self, request):
        self.ends[request.url] += 1
        if len(self.ends) % (self.requests // 20) == 0:
            with open("/proc/self/statm") as statm:
                memory = int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            states = workers(self.crawler)
            self.logger.info(
                "at %d: %.1f MB, %d threads, %d workers", len(self.ends), memory / 1e6,
                sum("-worker-" in thread.name for thread in threading.enumerate()),
                sum(not state.given_up for state in states),
            )

    def spider_closed(self):
        stats = self.crawler.stats
        stats.set_value("soak/given", self.given)
        stats.set_value("soak/ended", len(self.ends))
        stats.set_value("soak/ended_twice", sum(times > 1 for times in self.ends.values()))
"""
SOAK_SETTINGS = {
    **ADDON,
    **MODES[ASYNCIO],
    "NUMBER_OF_THREADS": THREADS,
    "CONCURRENT_REQUESTS": 2 * THREADS,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 2 * THREADS,
    "DOWNLOAD_TIMEOUT": 2,
    "RETRY_ENABLED": False,
    "HTTPERROR_ALLOW_ALL": True,
    "LOG_LEVEL": "INFO",
}

ENDLESS = """
from scrapy import Request, Spider


class Endless(Spider):
    name = "endless"

    number = pages = 0

    async def start(self):
        for _ in range(100):
            yield self.next_request()

    def next_request(self):
        self.number += 1
        site = self.sites[self.number % len(self.sites)]
        return Request(
            f"{site}/random/{self.number}", self.parse, errback=self.parse, dont_filter=True
        )

    def parse(self, response):
        self.pages += 1
        if self.pages == 50:
            self.logger.warning("under load")
        yield self.next_request()
"""


@dataclass
class Sample:
    """What the soak noted on its way."""

    requests: int
    megabytes: float
    threads: int
    workers: int


def soak(folder: Path, requests: int) -> tuple[Crawl, list[Sample]]:
    """Crawl *requests* pages of an unruly server."""
    with UnrulyServer() as server:
        settings = SOAK_SETTINGS
        running = start(
            folder, SOAK, "soak", settings=settings, site=server.url(), requests=requests
        )
        result = running.finish(timeout=60 + requests / 10)
    samples = []
    for line in result.log.splitlines():
        _, at, words = line.partition("[soak] INFO: at ")
        if at:
            numbers = [word.rstrip(":,") for word in words.split()]
            samples.append(
                Sample(int(numbers[0]), float(numbers[1]), int(numbers[3]), int(numbers[5]))
            )
    return result, samples


def forced_ends(folder: Path, ends: int, seed: int = 1) -> list[tuple[int, float, str]]:
    """Interrupt *ends* crawls twice, each at a random moment under load, in all modes in turn.

    Returns the exit code, the seconds from the second signal to the end, and the log of each.
    """
    folder.mkdir(parents=True, exist_ok=True)
    certificate, key = folder / "localhost.crt", folder / "localhost.key"
    make_certificate(certificate, key)
    moments = random.Random(seed)
    modes = list(MODES.values())
    with UnrulyServer() as plain, UnrulyServer((str(certificate), str(key))) as encrypted:

        def end(number: int, wait: float) -> tuple[int, float, str]:
            running = start(
                folder / f"end{number}",
                ENDLESS,
                "endless",
                settings={
                    **SOAK_SETTINGS,
                    **modes[number % len(modes)],
                    "LOG_LEVEL": "WARNING" if number % 2 else "INFO",
                    "DOWNLOAD_TIMEOUT": 20,
                },
                sites=[plain.url(), encrypted.url()],
            )
            running.wait_until_logged("under load", 120)
            time.sleep(wait)
            running.process.send_signal(signal.SIGINT)
            time.sleep(wait / 10)
            # Another one: of two signals of a kind, one may be lost, and the end is no forced one.
            running.process.send_signal(signal.SIGTERM)
            began = time.monotonic()
            result = running.finish()
            return result.returncode, time.monotonic() - began, result.log

        waits = [moments.uniform(0, 1) for _ in range(ends)]
        with ThreadPoolExecutor(4) as executor:
            return list(executor.map(end, count(), waits))


def trouble(log: str) -> list[str]:
    """Return the lines of *log* that tell of a crash."""
    signs = ("Fatal Python error", "Segmentation", "Exception ignored", "Unhandled", "terminate")
    return [line for line in log.splitlines() if any(sign in line for sign in signs)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--ends", type=int, default=200)
    arguments = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        began = time.monotonic()
        result, samples = soak(folder / "soak", arguments.requests)
        for sample in samples:
            print(
                f"{sample.requests:>7} requests {sample.megabytes:8.1f} MB "
                f"{sample.threads:4} threads {sample.workers:4} workers"
            )
        stats: dict[str, Any] = result.stats
        print(f"{stats['soak/given']} requests, {stats['soak/ended']} ended, in", end=" ")
        print(f"{time.monotonic() - began:.0f} s, exit code {result.returncode}")
        failed |= bool(result.returncode) or stats["soak/given"] != stats["soak/ended"]
        ends = forced_ends(folder / "ends", arguments.ends)
        codes = sorted({code for code, _, _ in ends})
        seconds = [seconds for _, seconds, _ in ends] or [0.0]
        troubles = [line for _, _, log in ends for line in trouble(log)]
        print(
            f"{len(ends)} forced ends: exit codes {codes}, {median(seconds):.2f} s in the median, "
            f"{max(seconds):.2f} s at most, {len(troubles)} lines of trouble"
        )
        print(*troubles[:20], sep="\n")
        failed |= any(codes) or bool(troubles)
    sys.exit(failed)


if __name__ == "__main__":
    main()
