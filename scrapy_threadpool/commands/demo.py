"""``scrapy demo``: the comparison, on the demo site."""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from typing import Any, ClassVar

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from .compare import add_comparison_options, compare, read_options

# As many as Scrapy sends to one host at once by default.
_THREADS = "8"
_PAGES = 400


class Command(ScrapyCommand):
    """Crawls the demo site with and without the worker threads, in about a minute."""

    requires_crawler_process = False
    default_settings: ClassVar[dict[str, Any]] = {"LOG_ENABLED": False}

    def syntax(self) -> str:
        """Return what follows the command's name."""
        return "[options]"

    def short_desc(self) -> str:
        """Return the command's line in the list of commands."""
        return "Crawl a bookshop on this machine with and without the worker threads, and compare"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's options to *parser*."""
        super().add_options(parser)
        report = {"report": "demo-report.html"} if find_spec("plotly") else {}
        add_comparison_options(parser, threads=_THREADS, **report)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Serve the demo site and compare on it."""
        if args:
            raise UsageError(f"demo takes no such argument: {args[0]}")
        options = read_options(opts)
        # Scrapy loads all commands for each, and only this one needs these.
        from ..compare.rounds import Target
        from ..demosite import running

        with running() as url:
            print(f"Demo site: {url}, {_PAGES} of its pages in each run", file=sys.stderr)
            target = Target(url, "demo", {"LOG_LEVEL": "INFO"}, {}, [], _PAGES)
            self.exitcode = compare(target, options, _spread)
        if options.report is None:
            print("For a report with pictures: pip install 'scrapy-threadpool[report]'")


def _spread(document: dict[str, Any]) -> str:
    """Return how the pages spread over the workers, a line for each."""
    variant = document["variants"][document["ratio"]["variant"]]
    workers = variant["pages_by_worker"]
    most = max(workers.values())
    lines = [
        f"  {name.ljust(max(map(len, workers)))}  {'#' * round(40 * pages / most)} {pages}"
        for name, pages in sorted(workers.items(), key=lambda worker: _number(worker[0]))
    ]
    return "\n".join([f"Pages of each worker, of {variant['label']}:", *lines])


def _number(worker: str) -> int:
    return int(worker.rpartition("-")[2])
