"""The spider of every measurement."""

import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from scrapy import Request, Spider
from scrapy.http import Response
from twisted.python.failure import Failure

from .meter import Meter, memory_now, percentile


class BenchmarkSpider(Spider):
    """Fetches what *plan* says (see worker.py) and keeps what it saw in :attr:`result`."""

    name = "benchmark"

    def __init__(self, plan: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plan = plan
        self.result: dict[str, Any] = {}
        self._bodies = {
            url: (Path(plan["root"]) / urlsplit(url).path[1:]).read_bytes() for url in plan["urls"]
        }
        self._meter = Meter()
        self._ended = 0
        self._compared: set[str] = set()
        self._problems: Counter[str] = Counter()
        self._latencies: list[float] = []
        self._late: list[float] = []
        self._memory: dict[int, int] = {}

    async def start(self) -> AsyncIterator[Request]:
        """Yield the requests; the clock runs from here to the end of the last callback."""
        urls, meta = self.plan["urls"], self.plan["meta"]
        self._meter.start()
        for number in range(self.plan["pages"]):
            yield Request(
                urls[number % len(urls)], errback=self.failed, dont_filter=True, meta=dict(meta)
            )

    def parse(self, response: Response) -> Iterator[dict[str, Any]]:
        """Check the page and work on it as the workload says."""
        self._check(response)
        latency = response.meta.get("download_latency")
        if latency is not None:
            self._latencies.append(latency)
            if self.plan["delay"]:
                self._late.append(latency - float(response.headers["Server-Delay"]))
        if self.plan["burn"]:
            end = time.thread_time() + self.plan["burn"]
            while time.thread_time() < end:
                pass
        if self.plan["extract"]:
            yield {
                "title": response.css("title::text").get(),
                "headings": response.css("h1::text, h2::text, h3::text").getall(),
                "links": response.css("a::attr(href)").getall(),
            }
        self._end()

    def failed(self, failure: Failure) -> None:
        """Count a request that brought no page."""
        self._problems[f"{type(failure.value).__name__}: {failure.value}"[:300]] += 1
        self._end()

    def _check(self, response: Response) -> None:
        body = self._bodies[response.request.url]
        if response.status != 200:
            self._problems[f"status {response.status}"] += 1
        elif len(response.body) != len(body):
            self._problems[f"{len(response.body)} bytes instead of {len(body)}"] += 1
        elif response.url not in self._compared:
            # Once for each URL: comparing 2 MB every time would be measured too.
            self._compared.add(response.url)
            if response.body != body:
                self._problems["wrong bytes"] += 1

    def _end(self) -> None:
        self._ended += 1
        if self._ended in self.plan["memory_at"]:
            self._memory[self._ended] = memory_now()
        if self._ended == self.plan["pages"]:
            self.result = {
                **self._meter.stop(),
                "latency_p50": percentile(self._latencies, 0.5),
                "latency_p99": percentile(self._latencies, 0.99),
                "late_p50": percentile(self._late, 0.5),
                "late_p99": percentile(self._late, 0.99),
                "memory_at": self._memory,
                "problems": dict(self._problems),
            }
