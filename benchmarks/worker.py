"""One measurement, in a fresh process: ``python -m benchmarks.worker PLAN``, both ways JSON."""

import json
import subprocess
import sys
from typing import Any

from scrapy.crawler import AsyncCrawlerProcess

from .load import Load
from .servers import Server
from .spider import BenchmarkSpider
from .variants import Variant
from .workloads import Workload


class Refused(Exception):  # noqa: N818
    """A measurement that must not count: something went wrong in the crawl."""


def measure(
    workload: Workload,
    variant: Variant,
    server: Server,
    *,
    pages: int,
    concurrency: int | None = None,
    memory_at: tuple[int, ...] = (),
    timeout: float = 90,
) -> dict[str, Any]:
    """Crawl *pages* pages in a fresh process and return what it took.

    Seconds are seconds for the whole crawl, ``memory`` is in bytes, ``switches`` counts context
    switches. Raises Refused unless every page came complete and with status 200.
    """
    plan = {
        "pages": pages,
        "concurrency": concurrency or workload.concurrency,
        "delay": workload.delay,
        "burn": workload.burn,
        "extract": workload.extract,
        "urls": server.urls,
        "root": str(server.root),
        "settings": {**workload.settings, **variant.settings},
        "meta": variant.meta,
        "memory_at": memory_at,
    }
    before, load = server.cpu(), Load()
    command = [sys.executable, "-m", "benchmarks.worker", json.dumps(plan)]
    try:
        process = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        raise Refused(f"took longer than {timeout:g} s") from None
    result: dict[str, Any] = json.loads(process.stdout) if process.stdout else {}
    if not result:
        last = process.stderr.strip().splitlines()[-1:] or [f"exit code {process.returncode}"]
        raise Refused(f"the crawl broke: {last[0]}")
    if problems := result.pop("problems"):
        raise Refused("; ".join(f"{count} × {what}" for what, count in problems.items()))
    server_cpu = server.cpu() - before
    others = load.others(server_cpu)
    return {**result, "pages": pages, "server_cpu": server_cpu, "others": others}


def _crawl(plan: dict[str, Any]) -> dict[str, Any]:
    process = AsyncCrawlerProcess(
        {
            "ROBOTSTXT_OBEY": False,
            "LOG_LEVEL": "WARNING",
            "TELNETCONSOLE_ENABLED": False,
            "CONCURRENT_REQUESTS": plan["concurrency"],
            "CONCURRENT_REQUESTS_PER_DOMAIN": plan["concurrency"],
            "NUMBER_OF_THREADS": plan["concurrency"],
            "BENCHMARK_ROOT": plan["root"],
            **plan["settings"],
        }
    )
    crawler = process.create_crawler(BenchmarkSpider)
    process.crawl(crawler, plan=plan)
    process.start()
    result = crawler.spider.result if crawler.spider else {}
    if result:
        result["retries"] = crawler.stats.get_value("retry/count", 0)
    return result


if __name__ == "__main__":
    print(json.dumps(_crawl(json.loads(sys.argv[1]))))
