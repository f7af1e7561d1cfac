"""The server of the demo site: it makes all pages at its start, and serving one costs little."""

import gzip
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Site

from .pages import make_page, make_pages

_ROBOTS = "User-agent: *\nDisallow: /basket/\n"


def listen(port: int = 0, *, host: str = "127.0.0.1", delay: float = 0.0) -> str:
    """Open the site on *port* (0: any free one) of Twisted's reactor, and return its URL.

    Every answer takes *delay* seconds. Raises :exc:`twisted.internet.error.CannotListenError`
    where the port is in use or *host* is no address of this machine.
    """
    site = _QuietSite(Bookshop(delay))  # type: ignore[no-untyped-call]
    listening = _reactor().listenTCP(port, site, interface=host)
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{listening.getHost().port}"


@contextmanager
def running(delay: float = 0.0) -> Iterator[str]:
    """Serve the site from a process of its own while the ``with`` block runs; gives its URL.

    Every answer takes *delay* seconds. The process ends with the block, and with this process,
    however that one ends. Raises :exc:`RuntimeError` if the site does not start.
    """
    program = f"from {__name__} import _serve_parent; _serve_parent({delay!r})"
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            url = process.stdout.readline().strip()
            if not url:
                raise RuntimeError("the demo site did not start")
            yield url
        finally:
            process.stdin.close()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def _serve_parent(delay: float) -> None:
    """Serve until standard input ends, as it does when the parent closes it or is gone."""
    # Ctrl-C reaches every process of the terminal, but the parent may still want pages.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    print(listen(delay=delay), flush=True)
    reactor = _reactor()

    def stop_at_end_of_input() -> None:
        sys.stdin.read()
        reactor.callFromThread(reactor.stop)

    threading.Thread(target=stop_at_end_of_input, daemon=True).start()
    reactor.run(installSignalHandlers=False)


def _reactor() -> Any:
    from twisted.internet import reactor  # its first import settles which reactor the process has

    return reactor


class Bookshop(Resource):
    """The whole site as one resource; every answer takes *delay* seconds."""

    isLeaf = True  # noqa: N815

    def __init__(self, delay: float = 0.0) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._delay = delay
        self._answers = {path.encode(): _Answer(html) for path, html in make_pages().items()}
        self._answers[b"/robots.txt"] = _Answer(_ROBOTS, kind="text/plain")
        self._not_found = _Answer(make_page("Not found", "<h1>Not found</h1>"), status=404)

    def render_GET(self, request: Any) -> bytes | int:  # noqa: N802
        """Answer *request*, now or after the delay."""
        body = self._answers.get(request.path, self._not_found).begin(request)
        if not self._delay:
            return body

        def answer() -> None:
            request.write(body)
            request.finish()

        call = _reactor().callLater(self._delay, answer)
        request.notifyFinish().addErrback(lambda _: call.cancel())
        return NOT_DONE_YET


class _Answer:
    """What a path answers; it is compressed once, for the first client that takes gzip."""

    def __init__(self, text: str, *, kind: str = "text/html", status: int = 200) -> None:
        self._status = status
        self._kind = f"{kind}; charset=utf-8"
        self._plain = text.encode()

    @cached_property
    def _compressed(self) -> bytes:
        return gzip.compress(self._plain, mtime=0)

    def begin(self, request: Any) -> bytes:
        """Set status and headers of the response to *request*, and return its body."""
        accepted = (request.getHeader("Accept-Encoding") or "").replace(" ", "").split(",")
        body = self._compressed if "gzip" in accepted else self._plain
        request.setResponseCode(self._status)
        request.setHeader("Content-Type", self._kind)
        request.setHeader("Content-Length", str(len(body)))
        request.setHeader("Vary", "Accept-Encoding")
        if body is not self._plain:
            request.setHeader("Content-Encoding", "gzip")
        return body


class _QuietSite(Site):
    """A site that spends no time on lines of an access log that nobody reads."""

    noisy = False

    def log(self, request: Any) -> None:
        """Do nothing."""
