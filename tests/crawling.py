"""Run a crawl as a user does, in a process of its own, and look at what came out."""

import json
import os
import subprocess
import sys
import time
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
import json, sys, threading
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
json.dump([thread.name for thread in threading.enumerate()], open("threads.json", "w"))
"""


@dataclass
class Crawl:
    """What a crawl left behind; *threads* are the names of those still alive at its end."""

    returncode: int
    log: str
    stats: dict[str, Any] = field(default_factory=dict)
    items: list[dict[str, Any]] = field(default_factory=list)
    threads: list[str] = field(default_factory=list)


class RunningCrawl:
    """A crawl that is under way in a process of its own."""

    def __init__(self, folder: Path, env: dict[str, str]):
        self._folder = folder
        self._log = (folder / "log.txt").open("w")
        self.process = subprocess.Popen(
            [sys.executable, "runner.py"],
            cwd=folder,
            env={**os.environ, **env},
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )

    def log(self) -> str:
        """Return what it has logged so far."""
        return (self._folder / "log.txt").read_text(errors="replace")

    def wait_until_logged(self, text: str, timeout: float = 30) -> None:
        """Wait until *text* stands in the log; fail when the crawl ends without it."""
        end = time.monotonic() + timeout
        while text not in self.log():
            ended = self.process.poll() is not None
            assert not ended or text in self.log(), self.log()
            assert time.monotonic() < end, self.log()
            time.sleep(0.02)

    def finish(self, timeout: float = 60) -> Crawl:
        """Wait until the process has ended, and return what it left behind."""
        try:
            self.process.wait(timeout)
        finally:
            self.process.kill()
            self.process.wait()
            self._log.close()
        result = Crawl(self.process.returncode, self.log())
        if (stats := self._folder / "stats.json").exists():
            result.stats = json.loads(stats.read_text())
        if (threads := self._folder / "threads.json").exists():
            result.threads = json.loads(threads.read_text())
        if (items := self._folder / "items.jsonl").exists():
            result.items = [json.loads(line) for line in items.read_text().splitlines()]
        return result


def start(
    folder: Path,
    source: str,
    spider: str = "test",
    *,
    settings: dict[str, Any] | None = None,
    env: dict[str, str] | None = None,
    **spider_arguments: Any,
) -> RunningCrawl:
    """Begin to crawl with the spider called *spider* of the module text *source*, in *folder*."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "spider_under_test.py").write_text(source)
    (folder / "runner.py").write_text(_RUNNER)
    arguments = {
        "spider": spider,
        "settings": settings or {},
        "spider_arguments": spider_arguments,
    }
    (folder / "arguments.json").write_text(json.dumps(arguments))
    return RunningCrawl(folder, env or {})


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
    running = start(folder, source, spider, settings=settings, env=env, **spider_arguments)
    return running.finish(timeout)


def crawl_in_each_mode(
    folder: Path, source: str, *, settings: dict[str, Any], **arguments: Any
) -> dict[str, Crawl]:
    """Crawl as :func:`crawl` does in each of the :data:`MODES`, at the same time."""
    running = {
        mode: start(
            folder / mode.replace(" ", "-"), source, settings={**settings, **change}, **arguments
        )
        for mode, change in MODES.items()
    }
    return {mode: one.finish() for mode, one in running.items()}
