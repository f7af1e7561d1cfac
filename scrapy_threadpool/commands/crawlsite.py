"""``scrapy crawlsite``: crawl whole sites, or fetch a list of URLs, without writing a spider."""

from __future__ import annotations

import argparse
import logging
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from scrapy.commands import BaseRunSpiderCommand
from scrapy.exceptions import UsageError

from scrapy_threadpool._version import __version__
from scrapy_threadpool.addon import Addon
from scrapy_threadpool.commands import check_threads
from scrapy_threadpool.progress import Progress
from scrapy_threadpool.sitespider import SiteSpider
from scrapy_threadpool.urls import read_url

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)

_DEFAULT_THREADS = 8  # as many as Scrapy sends to one host at once by default


class Command(BaseRunSpiderCommand):
    """Exit code: 0 when at least one seed page came, 1 when none did, 2 for bad arguments."""

    default_settings: ClassVar[dict[str, Any]] = {
        "CONCURRENT_REQUESTS": _DEFAULT_THREADS,
        "LOG_LEVEL": "INFO",
        "LOGSTATS_INTERVAL": 0,
        "REMOTE_CONTROL_ENABLED": False,
        "TELNETCONSOLE_ENABLED": False,
        "USER_AGENT": f"scrapy-threadpool/{__version__}",
    }

    def syntax(self) -> str:
        return "[options] URL [URL ...] | --urls-from FILE"

    def short_desc(self) -> str:
        return "Crawl whole sites, one item per page, no spider required"

    def long_desc(self) -> str:
        return (
            "Fetch the given pages and every page of the same sites that links lead to, one item "
            "per page; failed pages are items, too. A site is a host and its port: http and https, "
            "and the host with and without 'www.', are the same site. The host that a given page "
            "redirects to is a site of the crawl as well. A URL without a scheme is taken as "
            "http://. Exit code: 0 when at least one of the given pages came, 1 when none did, "
            "2 for bad arguments."
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        what = parser.add_argument_group("What is fetched")
        what.add_argument(
            "--urls-from",
            metavar="FILE",
            help="fetch the URLs in FILE, one a line ('-' for standard input), and follow no links",
        )
        what.add_argument(
            "--max-pages", metavar="N", type=_whole_number(1), help="fetch N pages, failed ones too"
        )
        what.add_argument(
            "--max-depth",
            metavar="N",
            type=_whole_number(0),
            help="follow links up to N links away from the given pages, which have depth 0",
        )
        for option, which in (("--allow", "only"), ("--deny", "no")):
            what.add_argument(
                option,
                metavar="REGEX",
                type=_regex,
                action="append",
                default=[],
                help=f"follow {which} links whose URL matches anywhere (may be repeated)",
            )
        what.add_argument(
            "--subdomains", action="store_true", help="take the subdomains of a site for the site"
        )
        how = parser.add_argument_group("How it is fetched")
        how.add_argument(
            "--threads",
            metavar="N",
            type=_whole_number(1),
            help=f"number of worker threads (default: {_DEFAULT_THREADS})",
        )
        how.add_argument(
            "--delay",
            metavar="SECONDS",
            type=_seconds(0),
            help="time between two requests to a host, varied by up to a half of it",
        )
        how.add_argument(
            "--timeout",
            metavar="SECONDS",
            type=_seconds(0.001),
            help="give up a page that takes longer",
        )
        how.add_argument(
            "--ignore-robots",
            action="store_true",
            help="do not read robots.txt (by default, Disallow and Crawl-delay are obeyed)",
        )

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        super().process_options(args, opts)
        for arg in args:
            if arg.startswith("-"):
                raise UsageError(f"unknown option {arg}", print_help=False)
        if opts.urls_from is None:
            opts.seeds, opts.complaints = _given_urls(args), []
        else:
            _refuse_with_list(args, opts)
            opts.seeds, opts.complaints = _listed_urls(opts.urls_from)
        self._apply(opts)

    def _apply(self, opts: argparse.Namespace) -> None:
        settings = self.settings
        assert settings is not None
        check_threads(opts.threads, settings)
        values: dict[str, Any] = {
            "DOWNLOAD_DELAY": opts.delay,
            "DOWNLOAD_TIMEOUT": opts.timeout,
            "NUMBER_OF_THREADS": opts.threads,
            "CONCURRENT_REQUESTS": opts.threads,
            "ROBOTSTXT_OBEY": False if opts.ignore_robots else None,
        }
        if opts.urls_from is None:
            # All workers may fetch from the one site; of the many hosts in a list each is spared.
            values["CONCURRENT_REQUESTS_PER_DOMAIN"] = opts.threads
        else:
            values["URLLENGTH_LIMIT"] = 0
        for name, value in values.items():
            if value is not None:
                settings.set(name, value, priority="cmdline")
        settings.set_in_component_priority_dict("EXTENSIONS", Progress, 0)
        settings.setdefault_in_component_priority_dict("ADDONS", Addon, 500)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        for complaint in opts.complaints:
            logger.warning("%s", complaint)
        plan = {
            "seeds": opts.seeds,
            "follow": opts.urls_from is None,
            "max_pages": opts.max_pages,
            "max_depth": opts.max_depth,
            "allow": opts.allow,
            "deny": opts.deny,
            "subdomains": opts.subdomains,
        }
        if taken := sorted(plan.keys() & opts.spargs.keys()):
            raise UsageError(f"-a {taken[0]}: this is an option of its own", print_help=False)
        assert self.crawler_process is not None
        crawler = self.crawler_process.create_crawler(SiteSpider)
        self.crawler_process.crawl(crawler, **plan, **opts.spargs)
        self.crawler_process.start()
        came = isinstance(crawler.spider, SiteSpider) and crawler.spider.seeds_that_came
        self.exitcode = 0 if came else 1


def _given_urls(args: list[str]) -> list[str]:
    if not args:
        raise UsageError("which site? Give a URL, or --urls-from FILE", print_help=False)
    urls = []
    for arg in args:
        try:
            urls.append(read_url(arg))
        except ValueError as error:
            raise UsageError(f"not a URL: {arg!r}: {error}", print_help=False) from None
    return urls


def _listed_urls(name: str) -> tuple[list[str], list[str]]:
    """Return the URLs in the file called *name*, and a complaint for every line that is none."""
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise UsageError(f"--urls-from {name}: {error.strerror}", print_help=False) from None
    urls, complaints = [], []
    for number, line in enumerate(data.decode("utf-8-sig", "replace").split("\n"), 1):
        text = line.strip()
        if not text:
            continue
        try:
            urls.append(read_url(text))
        except ValueError as error:
            complaints.append(f"{name}, line {number}: not a URL: {text[:200]!r}: {error}")
    if not urls:
        raise UsageError(f"--urls-from {name}: no line of it is a URL", print_help=False)
    return urls, complaints


def _refuse_with_list(args: list[str], opts: argparse.Namespace) -> None:
    if args:
        raise UsageError(f"--urls-from: not together with {args[0]!r}", print_help=False)
    about_links = ("max_depth", "allow", "deny", "subdomains")
    for name in about_links:
        if getattr(opts, name) not in (None, False, []):
            option = f"--{name.replace('_', '-')}"
            raise UsageError(f"{option}: with --urls-from no links are followed", print_help=False)


def _whole_number(least: int) -> Callable[[str], int]:
    def convert(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least:
            raise argparse.ArgumentTypeError(f"a whole number from {least} on, not {text!r}")
        return number

    return convert


def _seconds(least: float) -> Callable[[str], float]:
    def convert(text: str) -> float:
        try:
            seconds = float(text)
        except ValueError:
            seconds = -1
        if not least <= seconds < float("inf"):
            raise argparse.ArgumentTypeError(f"a number of seconds from {least} on, not {text!r}")
        return seconds

    return convert


def _regex(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {error}") from None
