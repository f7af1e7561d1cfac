"""One crawl of a comparison, in this process; its arguments are two files: plan and result."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy import Spider
from scrapy.crawler import AsyncCrawlerProcess, CrawlerProcess
from scrapy.settings import Settings
from scrapy.spiderloader import DummySpiderLoader
from scrapy.utils.misc import load_object
from scrapy.utils.project import get_project_settings

from ..addon import Addon
from ..settings import get as get_setting
from ..transports import load_transport
from .limit import SamePages
from .measure import FailedDownloads, Measure
from .plan import Plan

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

# Above that of the command line (40): these settings are what a comparison is.
_PRIORITY = 50
_OWN_SPIDERS = {
    "url": "scrapy_threadpool.sitespider.SiteSpider",
    "demo": "scrapy_threadpool.demosite.spider.DemoSpider",
}
_ASYNCIO = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"


def main(plan_file: str, result_file: str) -> int:
    """Do what *plan_file* says, write what was found into *result_file*; return the exit code."""
    plan = Plan.read(Path(plan_file))
    settings = Settings() if plan.kind == "demo" else get_project_settings()
    settings.setdict(plan.settings, priority="cmdline")
    if plan.kind != "spider":
        settings.set("SPIDER_LOADER_CLASS", DummySpiderLoader, priority="command")
    settings.set("LOG_FILE", None, _PRIORITY)
    _switch(plan, settings)
    process = _process(settings)
    crawler = process.create_crawler(_spider(plan))
    _apply(plan, crawler.settings)
    measure = Measure(crawler, plan.ignored_fields, pool=plan.pool)
    _time_downloads(plan, measure, crawler.settings)
    limit = SamePages(crawler, plan.max_pages, Path(plan.pages))
    process.crawl(crawler, **_arguments(plan))
    process.start()
    limit.write()
    if measure.run is None:
        return 1
    measure.run.write(Path(result_file))
    return 0


def _process(settings: Settings) -> AsyncCrawlerProcess | CrawlerProcess:
    # The choice of Scrapy's own command line.
    asyncio = settings["TWISTED_REACTOR"] == _ASYNCIO
    if not settings.getbool("TWISTED_REACTOR_ENABLED", True) or (
        asyncio and not settings.getbool("FORCE_CRAWLER_PROCESS")
    ):
        return AsyncCrawlerProcess(settings)
    return CrawlerProcess(settings)


def _switch(plan: Plan, settings: BaseSettings) -> None:
    """Switch the add-on on or off, wherever *settings* got it from."""
    addons = settings.getdict("ADDONS")
    ours = [key for key in addons if issubclass(load_object(key), Addon)]
    if not plan.pool:
        addons = {key: addons[key] for key in addons if key not in ours}
    elif all(addons[key] is None for key in ours):
        addons = {**addons, Addon: 500}
    # At the same priority, so that a spider's own settings still count.
    settings.set("ADDONS", addons, settings.getpriority("ADDONS") or 0)


def _apply(plan: Plan, settings: BaseSettings) -> None:
    """Turn a crawler's *settings* into those of the variant."""
    _switch(plan, settings)
    # What would make a second crawl another one than the first, or write its output twice.
    for name, value in {"FEEDS": {}, "HTTPCACHE_ENABLED": False, "JOBDIR": None}.items():
        settings.set(name, value, _PRIORITY)
    # The add-on raises it to the size of the pool; without the pool the crawl may have as many.
    least = max(settings.getint("NUMBER_OF_THREADS"), plan.concurrency)
    _raise_default(settings, "CONCURRENT_REQUESTS", least)
    if plan.kind in _OWN_SPIDERS:  # of one site, so this would be the limit
        _raise_default(settings, "CONCURRENT_REQUESTS_PER_DOMAIN", plan.concurrency)
    if plan.threads is not None:
        settings.set("NUMBER_OF_THREADS", plan.threads, _PRIORITY)
    if not plan.pool:
        handlers = settings.getdict("DOWNLOAD_HANDLERS")
        kept = {key: handlers[key] for key in handlers if key not in ("http", "https")}
        settings.set("DOWNLOAD_HANDLERS", kept, _PRIORITY)
    middlewares = {**settings.getdict("DOWNLOADER_MIDDLEWARES"), FailedDownloads: 1_000_000}
    # The process sets its settings once more when the crawl starts; an add-on may still come after.
    priority = (settings.getpriority("DOWNLOADER_MIDDLEWARES") or 0) + 1
    settings.set("DOWNLOADER_MIDDLEWARES", middlewares, priority)


def _raise_default(settings: BaseSettings, name: str, least: int) -> None:
    if settings.getpriority(name) == 0 and settings.getint(name) < least:
        settings.set(name, least, _PRIORITY)


def _time_downloads(plan: Plan, measure: Measure, settings: BaseSettings) -> None:
    if not plan.pool:
        measure.time_handler()
        return
    entries = get_setting(settings, "THREADPOOL_TRANSPORTS")
    if entries is None:
        transport = load_transport(get_setting(settings, "THREADPOOL_TRANSPORT"))
        settings.set("THREADPOOL_TRANSPORT", measure.time_workers(transport), _PRIORITY)
    else:
        for entry in entries.values():
            entry["transport"] = measure.time_workers(load_transport(entry["transport"]))
        settings.set("THREADPOOL_TRANSPORTS", entries, _PRIORITY)


def _from_file(target: str) -> type[Spider]:
    """Return the last spider of a Python file, as ``scrapy runspider`` does."""
    path = Path(target).resolve()
    sys.path.insert(0, str(path.parent))
    try:
        module = import_module(path.stem)
    finally:
        sys.path.pop(0)
    spiders = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Spider)
        and value.__module__ == module.__name__
        and getattr(value, "name", None)
    ]
    if not spiders:
        raise SystemExit(f"no spider in {target}")
    return spiders[-1]


def _spider(plan: Plan) -> str | type[Spider]:
    if plan.kind == "file":
        return _from_file(plan.target)
    if plan.kind in _OWN_SPIDERS:
        spider: type[Spider] = load_object(_OWN_SPIDERS[plan.kind])
        return spider
    return plan.target


def _arguments(plan: Plan) -> dict[str, Any]:
    own: dict[str, dict[str, Any]] = {
        "url": {"seeds": [plan.target]},
        "demo": {"site": plan.target},
    }
    return own.get(plan.kind, plan.arguments)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
