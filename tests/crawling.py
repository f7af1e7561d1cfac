"""Run a crawl as a user does, in a process of its own, and look at what came out."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ADDON = {"ADDONS": {"scrapy_threadpool.Addon": 500}}
ASYNCIO = "asyncio reactor"
NO_REACTOR = "no reactor"
SELECT = "select reactor"
MODES: dict[str, dict[str, Any]] = {
    ASYNCIO: {"TWISTED_REACTOR": "twisted.internet.asyncioreactor.AsyncioSelectorReactor"},
    NO_REACTOR: {"TWISTED_REACTOR_ENABLED": False},
    SELECT: {"TWISTED_REACTOR": "twisted.internet.selectreactor.SelectReactor"},
}

_RUNNER = """
import json, sys
from scrapy.utils.project import get_project_settings
sys.path.insert(0, "")
import spider_under_test
from scrapy import Spider
from scrapy.crawler import AsyncCrawlerProcess, CrawlerProcess

arguments = json.load(open("arguments.json"))
settings = {"FEEDS": {"items.jsonl": {"format": "jsonlines"}}, **arguments["settings"]}
name = arguments["spider"]
spider = next(
    value for value in vars(spider_under_test).values()
    if isinstance(value, type) and issubclass(value, Spider) and value.__dict__.get("name") == name
)
reactor = settings.get("TWISTED_REACTOR", "asyncio")
asyncio = "asyncio" in reactor or settings.get("TWISTED_REACTOR_ENABLED") is False
process = (AsyncCrawlerProcess if asyncio else CrawlerProcess)(settings)
crawler = process.create_crawler(spider)
process.crawl(crawler, **arguments["spider_arguments"])
process.start()
stats = {key: value for key, value in crawler.stats.get_stats().items()}
json.dump(stats, open("stats.json", "w"), default=str)
"""


@dataclass
class Crawl:
    """What a crawl left behind."""

    returncode: int
    log: str
    stats: dict[str, Any] = field(default_factory=dict)
    items: list[dict[str, Any]] = field(default_factory=list)


def crawl(
    folder: Path,
    source: str,
    spider: str = "test",
    *,
    settings: dict[str, Any] | None = None,
    timeout: float = 60,
    env: dict[str, str] | None = None,
    **spider_arguments: Any,
) -> Crawl:
    """Crawl with the spider called *spider* of the module text *source*, in the empty *folder*."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "spider_under_test.py").write_text(source)
    (folder / "runner.py").write_text(_RUNNER)
    arguments = {
        "spider": spider,
        "settings": settings or {},
        "spider_arguments": spider_arguments,
    }
    (folder / "arguments.json").write_text(json.dumps(arguments))
    process = subprocess.run(
        [sys.executable, "runner.py"],
        cwd=folder,
        env={**os.environ, **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=timeout,
        check=False,
    )
    result = Crawl(process.returncode, process.stdout)
    if (stats := folder / "stats.json").exists():
        result.stats = json.loads(stats.read_text())
    if (items := folder / "items.jsonl").exists():
        result.items = [json.loads(line) for line in items.read_text().splitlines()]
    return result
