"""``scrapy demosite``: serve the demo site."""

import argparse
import math
import sys
from typing import Any, ClassVar

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError


class Command(ScrapyCommand):
    """Serves the demo site until Ctrl-C."""

    requires_crawler_process = False
    default_settings: ClassVar[dict[str, Any]] = {"LOG_ENABLED": False}

    def syntax(self) -> str:
        """Return what follows the command's name."""
        return "[--port N] [--delay S] [--host ADDRESS]"

    def short_desc(self) -> str:
        """Return the command's line in the list of commands."""
        return "Serve a bookshop of 1,000 books on this machine, to try spiders on"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's options to *parser*."""
        super().add_options(parser)
        parser.add_argument(
            "--port", metavar="N", default="8000", help="port, 0 for any free one (default: 8000)"
        )
        parser.add_argument(
            "--host",
            metavar="ADDRESS",
            default="127.0.0.1",
            help="address to listen on (default: 127.0.0.1)",
        )
        parser.add_argument(
            "--delay", metavar="S", default="0", help="seconds that every page takes (default: 0)"
        )

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Serve until SIGINT or SIGTERM."""
        if args:
            raise UsageError(f"demosite takes no such argument: {args[0]}")
        port, delay = _port(opts.port), _delay(opts.delay)

        # Scrapy loads all commands for each, and only this one needs a web server and a reactor.
        reactor: Any
        from twisted.internet import reactor
        from twisted.internet.error import CannotListenError

        from ..demosite import listen

        try:
            url = listen(port, host=opts.host, delay=delay)
        except CannotListenError as error:
            print(f"Cannot listen on {opts.host}:{port}: {error.socketError}", file=sys.stderr)
            self.exitcode = 1
            return
        print(f"Demo site: {url}", flush=True)
        reactor.run()


def _port(text: str) -> int:
    if text.isascii() and text.isdigit() and int(text) <= 65535:
        return int(text)
    raise UsageError(f"--port must be a number from 0 to 65535, not {text!r}")


def _delay(text: str) -> float:
    try:
        delay = float(text)
    except ValueError:
        delay = math.nan
    if 0 <= delay < math.inf:
        return delay
    raise UsageError(f"--delay must be a number of seconds, 0 or more, not {text!r}")
