"""``scrapy compare``: is it worth it on my spider?"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError
from scrapy.utils.project import inside_project

from . import check_threads

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..compare.plan import Variant
    from ..compare.rounds import Target

SAME, FAILED, DIFFERENT = 0, 1, 3
# Of the items of `crawlsite`: who fetched the page, and which link to it was seen first, is luck.
_UNSTABLE_FIELDS = ("worker", "latency", "referer", "depth")


class Command(ScrapyCommand):
    """Exit code: 0 if all runs scraped the same, 3 if not, 1 if one failed, 2 for bad arguments."""

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
            "Run a spider of the project, the spider of a Python file, or one that follows the "
            "links from a URL: without the worker threads and with them in turn, each time in a "
            "fresh process. Exit code: 0 if all runs scraped the same items and got the same "
            "status codes, 3 if not, 1 if a run failed, 2 for bad arguments."
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

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Compare; *args* is the one thing to crawl."""
        from ..compare.rounds import Target  # not for every other command of Scrapy

        if len(args) != 1:
            raise UsageError(f"give one spider, Python file or URL, not {' '.join(args) or 'none'}")
        options = read_options(opts)
        assert self.settings is not None
        check_threads(opts.threads, self.settings)
        if delay := self.settings.getfloat("DOWNLOAD_DELAY"):
            _say(
                f"DOWNLOAD_DELAY = {delay:g} holds both variants back; with -s DOWNLOAD_DELAY=0, "
                "for a site of your own, they show what they can do"
            )
        level = {"LOG_LEVEL": opts.loglevel} if opts.loglevel else {}
        kind = self._kind(args[0])
        if kind == "url" and opts.spargs:
            raise UsageError("-a is for spiders; a URL takes none")
        ignored = [name for name in opts.ignore_fields.split(",") if name]
        target = Target(
            name=args[0],
            kind=kind,
            settings=_pairs("-s", opts.set) | level,
            arguments=_pairs("-a", opts.spargs),
            ignored_fields=[*ignored, *(_UNSTABLE_FIELDS if kind == "url" else ())],
            max_pages=_whole("--max-pages", opts.max_pages, 0),
        )
        self.exitcode = compare(target, options)

    def _kind(self, name: str) -> str:
        if urlsplit(name).scheme in ("http", "https"):
            return "url"
        if name.endswith(".py"):
            if not Path(name).is_file():
                raise UsageError(f"no such file: {name}")
            return "file"
        if not inside_project():
            raise UsageError(
                f"{name!r} is no Python file and no http(s) URL, and there is no project here to "
                "have a spider of that name"
            )
        from scrapy.spiderloader import get_spider_loader

        assert self.settings is not None
        names = get_spider_loader(self.settings).list()
        if name not in names:
            raise UsageError(f"no spider {name!r} in the project; there are: {', '.join(names)}")
        return "spider"


@dataclass(frozen=True)
class Options:
    """How to compare, and where the findings go."""

    variants: list[Variant]
    rounds: int
    time_limit: int
    json: Path | None
    report: Path | None


def add_comparison_options(parser: argparse.ArgumentParser, **defaults: str) -> None:
    """Add the options that `read_options` reads to *parser*."""
    parser.add_argument(
        "--rounds", metavar="N", default="3", help="runs of each variant (default: 3)"
    )
    parser.add_argument(
        "--threads",
        metavar="N,N",
        default=defaults.get("threads"),
        help=f"sizes of the pool (default: {defaults.get('threads', 'as the settings say')})",
    )
    parser.add_argument(
        "--time-limit",
        metavar="S",
        default="600",
        help="seconds that one run may take (default: 600)",
    )
    parser.add_argument("--json", metavar="FILE", help="write all figures to FILE")
    parser.add_argument(
        "--report",
        metavar="FILE",
        default=defaults.get("report"),
        help=f"write a page with pictures to FILE (default: {defaults.get('report', 'none')})",
    )


def read_options(opts: argparse.Namespace) -> Options:
    """Return the options that *opts* says.

    :raises UsageError: an option has a value that is not allowed.
    """
    from ..compare.plan import POOL, TWISTED, Variant

    pools = [Variant(POOL, pool=True)]
    if opts.threads is not None:
        sizes = [_whole("--threads", text, 1) for text in opts.threads.split(",")]
        pools = [Variant(f"{POOL}-{n}", pool=True, threads=n) for n in dict.fromkeys(sizes)]
    if opts.report and find_spec("plotly") is None:
        raise UsageError("--report needs plotly: pip install 'scrapy-threadpool[report]'")
    return Options(
        variants=[Variant(TWISTED, pool=False), *pools],
        rounds=_whole("--rounds", opts.rounds, 1),
        time_limit=_whole("--time-limit", opts.time_limit, 1),
        json=_new_file("--json", opts.json),
        report=_new_file("--report", opts.report),
    )


def compare(
    target: Target, options: Options, before: Callable[[dict[str, Any]], str] | None = None
) -> int:
    """Compare on *target*, print the table and write the files; return the exit code.

    Where *before* is given, what it returns of the findings is printed before the table.
    """
    from ..compare import rounds
    from ..compare.document import make_document
    from ..compare.table import render

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(FAILED))  # which ends the run under way, too
    try:
        found = rounds.compare(
            target,
            options.variants,
            rounds=options.rounds,
            time_limit=options.time_limit,
            say=_say,
        )
    except rounds.RunFailedError as failure:
        _say(f"Error: {failure}")
        return FAILED
    except KeyboardInterrupt:
        _say("Interrupted")
        return FAILED
    document = make_document(target, options.variants, found)
    if before:
        print(f"\n{before(document)}")
    print(f"\n{render(document)}")
    if options.json:
        options.json.write_text(json.dumps(document, indent=2), encoding="utf-8")
        print(f"Figures: {options.json.resolve()}")
    if options.report:
        from ..compare.report import make_report

        options.report.write_text(make_report(document, found), encoding="utf-8")
        print(f"Report: {options.report.resolve()}")
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


def _new_file(option: str, name: str | None) -> Path | None:
    """Return the path called *name*, where a file can be: to fail after minutes would be late."""
    if name is None:
        return None
    path = Path(name)
    if path.is_dir() or not path.parent.is_dir():
        raise UsageError(f"{option} takes a file in a folder that exists, not {name!r}")
    return path
