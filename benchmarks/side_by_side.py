"""Crawl the same list of pages in several ways in turn, and compare medians."""

import resource
import statistics
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.crawling import crawl

SPIDER = """
from scrapy import Request, Spider

class PagesSpider(Spider):
    name = "pages"

    async def start(self):
        for number in range(self.pages):
            yield Request(f"{self.url}/{number}", meta=dict(self.meta), dont_filter=True)

    def parse(self, response):
        assert response.url.endswith(response.css("p::text").get()), response.text
"""


class Way(NamedTuple):
    """A way to crawl: settings, ``request.meta``, and Python in front of the spider."""

    settings: Mapping[str, Any]
    meta: Mapping[str, Any] = {}
    source: str = ""


def compare(
    ways: Mapping[str, Way],
    url: str,
    *,
    pages: int,
    rounds: int,
    count: Callable[[], int] = lambda: 0,
) -> dict[str, dict[str, float]]:
    """Return medians of pages per second, CPU seconds and the difference of *count*, by way."""
    runs: dict[str, list[tuple[float, float, float]]] = {name: [] for name in ways}
    for turn in range(rounds):
        names = [*ways][turn % len(ways) :] + [*ways][: turn % len(ways)]
        for name in names:
            runs[name].append(_run(ways[name], url, pages, count))
    columns = ("pages/s", "CPU s", "count")
    return {
        name: {
            column: statistics.median(values)
            for column, values in zip(columns, zip(*measured, strict=True), strict=True)
        }
        for name, measured in runs.items()
    }


def _run(way: Way, url: str, pages: int, count: Callable[[], int]) -> tuple[float, float, float]:
    counted = count()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        settings = {"LOG_LEVEL": "WARNING", **way.settings}
        result = crawl(
            Path(folder),
            way.source + SPIDER,
            "pages",
            settings=settings,
            timeout=600,
            url=url,
            pages=pages,
            meta=dict(way.meta),
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    received = result.stats.get("response_received_count", 0)
    if received != pages or result.stats.get("spider_exceptions/count"):
        raise RuntimeError(f"{received} of {pages} pages came\n{result.log}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return pages / result.stats["elapsed_time_seconds"], cpu, count() - counted


def table(results: Mapping[str, Mapping[str, float]], count: str = "") -> str:
    """Return *results* as a Markdown table; *count* is what the last column is called."""
    head = ["", "pages/s", "CPU s", *([count] if count else [])]
    lines = [head, ["---"] + ["---:"] * (len(head) - 1)]
    for name, values in results.items():
        cells = [f"{values['pages/s']:.1f}", f"{values['CPU s']:.1f}", f"{values['count']:.0f}"]
        lines.append([name, *cells[: len(head) - 1]])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
