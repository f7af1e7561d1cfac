"""``scrapy compare``: is it worth it on my spider?"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError
from scrapy.utils.project import inside_project

if TYPE_CHECKING:
    from ..compare.rounds import Target

SAME, FAILED, DIFFERENT = 0, 1, 3


class Command(ScrapyCommand):
    """Crawls with and without the worker threads in turn, and compares speed and what was scraped."""

    requires_crawler_process = False
    default_settings: ClassVar[dict[str, Any]] = {"LOG_ENABLED": False}

    def syntax(self) -> str:
        """Return what follows the command's name."""
        return "[options] <spider|file.py|url>"

    def short_desc(self) -> str:
        """Return the command's line in the list of commands."""
        return "Run a spider with and without the worker threads, and compare"

    def long_desc(self) -> str:
        """Return the text above the command's options."""
        return (
            "Run a spider of the project, the spider of a Python file, or one that follows the links from a "
            "URL: without the worker threads and with them in turn, each time in a fresh process. "
            "Exit code: 0 if all runs scraped the same, 3 if not, 1 if a run failed, 2 for bad arguments."
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's options to *parser*."""
        super().add_options(parser)
        parser.add_argument(
            "-a",
            dest="spargs",
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help="set spider argument (may be repeated)",
        )
        add_comparison_options(parser)
        parser.add_argument(
            "--max-pages",
            metavar="N",
            default="500",
            help="requests in each run, 0 for as many as the spider makes (default: 500)",
        )
        parser.add_argument(
            "--ignore-fields",
            metavar="A,B",
            default="",
            help="fields of items that may differ, such as the time of scraping",
        )
        parser.add_argument(
            "--report", metavar="FILE", help="write an HTML page with the pictures to FILE"
        )

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Compare; *args* is the one thing to crawl."""
        from ..compare.rounds import Target  # not for every other command of Scrapy

        if len(args) != 1:
            raise UsageError(f"give one spider, Python file or URL, not {' '.join(args) or 'none'}")
        target = Target(
            name=args[0],
            kind=self._kind(args[0]),
            settings=_pairs("-s", opts.set)
            | ({"LOG_LEVEL": opts.loglevel} if opts.loglevel else {}),
            arguments=_pairs("-a", opts.spargs),
            ignored_fields=[name for name in opts.ignore_fields.split(",") if name],
            max_pages=_whole("--max-pages", opts.max_pages, 0),
        )
        self.exitcode = run_comparison(target, opts)

    def _kind(self, name: str) -> str:
        if urlsplit(name).scheme in ("http", "https"):
            return "url"
        if name.endswith(".py"):
            if not Path(name).is_file():
                raise UsageError(f"no such file: {name}")
            return "file"
        if not inside_project():
            raise UsageError(
                f"{name!r} is no Python file and no http(s) URL, and there is no project here to have "
                "a spider of that name"
            )
        from scrapy.spiderloader import get_spider_loader

        assert self.settings is not None
        names = get_spider_loader(self.settings).list()
        if name not in names:
            raise UsageError(f"no spider {name!r} in the project; there are: {', '.join(names)}")
        return "spider"


def add_comparison_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that `run_comparison` reads to *parser*."""
    parser.add_argument(
        "--rounds", metavar="N", default="3", help="runs of each variant (default: 3)"
    )
    parser.add_argument(
        "--threads",
        metavar="N,N",
        help="sizes of the pool to try (default: one, as the settings say)",
    )
    parser.add_argument(
        "--time-limit",
        metavar="S",
        default="600",
        help="seconds that one run may take (default: 600)",
    )
    parser.add_argument("--json", metavar="FILE", help="write all figures to FILE")


def run_comparison(target: Target, opts: argparse.Namespace) -> int:
    """Compare on *target* as *opts* say, print the table and write the files; return the exit code.

    :raises UsageError: an option has a value that is not allowed.
    """
    from ..compare.document import make_document
    from ..compare.plan import POOL, TWISTED, Variant
    from ..compare.rounds import RunFailed, compare
    from ..compare.table import render

    sizes = [_whole("--threads", text, 1) for text in (opts.threads or "").split(",") if text]
    pools = [Variant(f"{POOL}-{size}", pool=True, threads=size) for size in dict.fromkeys(sizes)]
    variants = [Variant(TWISTED, pool=False), *(pools or [Variant(POOL, pool=True)])]
    rounds = _whole("--rounds", opts.rounds, 1)
    time_limit = _whole("--time-limit", opts.time_limit, 1)
    try:
        found = compare(target, variants, rounds=rounds, time_limit=time_limit, say=_say)
    except RunFailed as failure:
        _say(f"scrapy compare: {failure}")
        return FAILED
    document = make_document(target, variants, found)
    print(render(document))
    if opts.json:
        Path(opts.json).write_text(json.dumps(document, indent=2), encoding="utf-8")
    return SAME if document["same_items"] and document["same_statuses"] else DIFFERENT


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _pairs(option: str, texts: list[str]) -> dict[str, str]:
    for text in texts:
        if "=" not in text:
            raise UsageError(f"{option} takes NAME=VALUE, not {text!r}")
    return dict(text.split("=", 1) for text in texts)


def _whole(option: str, text: str, least: int) -> int:
    if text.isascii() and text.isdigit() and int(text) >= least:
        return int(text)
    raise UsageError(f"{option} takes whole numbers from {least}, not {text!r}")
