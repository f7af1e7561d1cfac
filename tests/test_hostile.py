"""What comes of servers that break the rules: the same as with Scrapy's own handler, or better.

All cases are crawled at once, with Scrapy's default handler and with ours, and compared one by one.
"""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from scrapy import exceptions

from .crawling import ADDON, crawl
from .hostile import Do, HostileServer, Step

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
LONG = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"
GET = ("GET", "/")


@dataclass
class Case:
    """Scripts of a server, one for each connection, and the requests that it is sent in turn."""

    scripts: list[list[Step]]
    requests: tuple[tuple[str, str], ...] = (GET,)
    timeout: float = 20
    pause: float = 0
    """Seconds from a response to the next request."""


def answer(*steps: Step, **options: Any) -> Case:
    """Return a case in which each request is answered with the same *steps*."""
    return Case([[Do.READ, *steps]], **options)


def then_another(*steps: Step, method: str = "GET") -> Case:
    """Return a case whose second request is answered well, on the same connection or another."""
    requests = ((method, "/first"), ("GET", "/second"))
    return Case([[Do.READ, *steps, Do.READ, OK], [Do.READ, OK]], requests, pause=0.3)


def reused(*steps: Step, method: str = "GET") -> Case:
    """Return a case whose first answer is good, and whose second request on it meets *steps*."""
    second = (method, "/second")
    return Case([[Do.READ, OK, *steps], [Do.READ, OK]], (("GET", "/first"), second))


CASES = {
    "status line without a reason": answer(b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nOK"),
    "status line without a reason, with its space": answer(
        b"HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\nOK"
    ),
    "status line with a reason that is not ASCII": answer(
        b"HTTP/1.1 200 d\xe9j\xe0 vu\r\nContent-Length: 2\r\n\r\nOK"
    ),
    "status 999": answer(b"HTTP/1.1 999 Denied\r\nContent-Length: 2\r\n\r\nOK"),
    "status of two digits": answer(b"HTTP/1.1 20 OK\r\nContent-Length: 2\r\n\r\nOK"),
    "status that is no number": answer(b"HTTP/1.1 OK 200\r\nContent-Length: 2\r\n\r\nOK"),
    "no status line": answer(b"<html>Hello</html>"),
    "empty line before the status line": answer(b"\r\n" + OK),
    "ICY": answer(b"ICY 200 OK\r\nContent-Length: 2\r\n\r\nOK"),
    "HTTP/1.0": answer(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nOK"),
    "HTTP/1.2": answer(b"HTTP/1.2 200 OK\r\nContent-Length: 2\r\n\r\nOK"),
    "lines that end in LF": answer(b"HTTP/1.1 200 OK\nContent-Length: 2\nX-A: 1\n\nOK"),
    "header bytes in Latin-1": answer(OK.replace(b"\r\n\r\n", b"\r\nX-A: caf\xe9\r\n\r\n")),
    "header bytes in UTF-8": answer(OK.replace(b"\r\n\r\n", b"\r\nX-A: caf\xc3\xa9\r\n\r\n")),
    "header name that is not ASCII": answer(OK.replace(b"\r\n\r\n", b"\r\nX-\xe9: 1\r\n\r\n")),
    "folded header": answer(
        OK.replace(b"\r\n\r\n", b"\r\nX-A: one\r\n two\r\n\tthree\r\nX-B: 1\r\n\r\n")
    ),
    "header line without a colon": answer(
        OK.replace(b"\r\n\r\n", b"\r\nX-A: 1\r\n<meta>\r\nX-B: 2\r\n\r\n")
    ),
    "header line without a colon, chunked": answer(
        CHUNKED.replace(b"\r\n\r\n", b"\r\n<meta>\r\n\r\n") + b"2\r\nOK\r\n0\r\n\r\n"
    ),
    "header line without a colon, no length": answer(b"HTTP/1.1 200 OK\r\n<meta>\r\n\r\nOK"),
    "header line without a colon, several lengths": answer(
        b"HTTP/1.1 200 OK\r\n<meta>\r\nContent-Length: 2\r\nContent-Length: 5\r\n\r\nOK"
    ),
    "header line without a colon, closed in the body": answer(
        LONG.replace(b"\r\n\r\n", b"\r\n<meta>\r\n\r\n") + b"01234"
    ),
    "header line without a colon, closed in a chunk": answer(
        CHUNKED.replace(b"\r\n\r\n", b"\r\n<meta>\r\n\r\n") + b"a\r\n01234"
    ),
    "header line without a colon, reset in the body": answer(
        LONG.replace(b"\r\n\r\n", b"\r\n<meta>\r\n\r\n") + b"01234", 0.2, Do.RESET
    ),
    "header line without a colon, closed in the head": answer(b"HTTP/1.1 200 OK\r\n<meta>\r\nX-A"),
    "header line without a colon, a slow drip": answer(
        LONG.replace(b"\r\n\r\n", b"\r\n<meta>\r\n\r\n"), *[b".", 1.0] * 10, timeout=2.5
    ),
    "header line without a colon after HEAD": then_another(
        OK.replace(b"\r\n\r\n", b"\r\n<meta>\r\n\r\n"), method="HEAD"
    ),
    "header line without a name": answer(
        OK.replace(b"\r\n\r\n", b"\r\nX-A: 1\r\n: 2\r\nX-B: 2\r\n\r\n")
    ),
    "space before the colon": answer(OK.replace(b"\r\n\r\n", b"\r\nX-A : 1\r\n\r\n")),
    "header without a value": answer(OK.replace(b"\r\n\r\n", b"\r\nX-A:\r\nX-B: \r\n\r\n")),
    "NUL in a header": answer(OK.replace(b"\r\n\r\n", b"\r\nX-A: 1\x002\r\n\r\n")),
    "header line of 300 KB": answer(
        OK.replace(b"\r\n\r\n", b"\r\nX-A: " + b"a" * 300_000 + b"\r\n\r\n")
    ),
    "300 KB of header lines": answer(
        OK.replace(b"\r\n\r\n", (b"\r\nX-A: " + b"a" * 994) * 300 + b"\r\n\r\n")
    ),
    "400 KB of header lines": answer(
        OK.replace(b"\r\n\r\n", (b"\r\nX-A: " + b"a" * 994) * 400 + b"\r\n\r\n")
    ),
    "header line of 90 KB": answer(
        OK.replace(b"\r\n\r\n", b"\r\nX-A: " + b"a" * 90_000 + b"\r\n\r\n")
    ),
    "duplicate Content-Length": answer(
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nOK"
    ),
    "Content-Length twice in one line": answer(
        b"HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nOK"
    ),
    "contradicting Content-Length": answer(
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 5\r\n\r\nOK"
    ),
    "Content-Length that is no number": answer(b"HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\nOK"),
    "negative Content-Length": answer(b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nOK"),
    "Content-Length beside chunked": answer(
        CHUNKED.replace(b"\r\n\r\n", b"\r\nContent-Length: 5\r\n\r\n") + b"2\r\nOK\r\n0\r\n\r\n"
    ),
    "neither length nor chunks": answer(b"HTTP/1.1 200 OK\r\n\r\nOK"),
    "chunked with trailers": answer(CHUNKED + b"2\r\nOK\r\n0\r\nX-Trailer: 1\r\n\r\n"),
    "chunk with an extension": answer(CHUNKED + b"2;a=b\r\nOK\r\n0\r\n\r\n"),
    "chunk size that is no number": answer(CHUNKED + b"zz\r\nOK\r\n0\r\n\r\n"),
    "negative chunk size": answer(CHUNKED + b"-2\r\nOK\r\n0\r\n\r\n"),
    "chunk longer than its size": answer(CHUNKED + b"2\r\nOKAY\r\n0\r\n\r\n"),
    "garbage between chunks": answer(CHUNKED + b"2\r\nOK\r\ngarbage\r\n0\r\n\r\n"),
    "garbage after the last chunk": then_another(CHUNKED + b"2\r\nOK\r\n0\r\n\r\ngarbage"),
    "no last chunk": answer(CHUNKED + b"2\r\nOK\r\n"),
    "a body after 204": then_another(b"HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 no\r\n\r\nno"),
    "a body with its length after 204": then_another(
        b"HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nno"
    ),
    "a body after 304": then_another(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\nno"),
    "a body after HEAD": then_another(OK, method="HEAD"),
    "a second answer after the first": then_another(OK + OK.replace(b"\nOK", b"\nno")),
    "a second answer while nothing was asked": then_another(OK, 0.1, OK.replace(b"\nOK", b"\nno")),
    "more bytes than Content-Length": then_another(OK + b"garbage"),
    "100 before the answer": answer(b"HTTP/1.1 100 Continue\r\n\r\n" + OK),
    "103 before the answer": answer(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK),
    "many 1xx before the answer": answer(b"HTTP/1.1 102 Processing\r\n\r\n" * 20 + OK),
    "101 that nobody asked for": answer(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n" + OK
    ),
    "a slow drip": answer(LONG, *[b".", 1.0] * 10, timeout=2.5),
    "a slow drip of the head": answer(b"HTTP/1.1 200 OK\r\n", *[b"X", 1.0] * 10, timeout=2.5),
    "a slow drip that ends in time": answer(LONG, *[b".", 0.05] * 10),
    "silence": answer(Do.WAIT, timeout=1),
    "reset before the request is read": Case([[0.2, Do.RESET]]),
    "reset after the request": answer(Do.RESET),
    "reset in the status line": answer(b"HTTP/1.1 20", 0.2, Do.RESET),
    "reset in the head": answer(b"HTTP/1.1 200 OK\r\nContent-Le", 0.2, Do.RESET),
    "reset after the head": answer(LONG, 0.2, Do.RESET),
    "reset in the body": answer(LONG + b"01234", 0.2, Do.RESET),
    "reset in a chunk": answer(CHUNKED + b"a\r\n01234", 0.2, Do.RESET),
    "reset between chunks": answer(CHUNKED + b"2\r\nOK\r\n", 0.2, Do.RESET),
    "reset in a body without length": answer(b"HTTP/1.1 200 OK\r\n\r\nOK", 0.2, Do.RESET),
    "reset after the answer": answer(OK, Do.RESET),
    "closed after the request": answer(),
    "closed in the status line": answer(b"HTTP/1.1 20"),
    "closed in the head": answer(b"HTTP/1.1 200 OK\r\nContent-Le"),
    "closed after the head": answer(LONG),
    "closed in the body": answer(LONG + b"01234"),
    "closed in a chunk": answer(CHUNKED + b"a\r\n01234"),
    "half-closed in the body": answer(LONG + b"01234", Do.HALF_CLOSE, Do.WAIT),
    "half-closed after the request": answer(Do.HALF_CLOSE, Do.WAIT),
    "kept alive, closed at once": reused(),
    "kept alive, reset at once": reused(Do.RESET),
    "kept alive, closed as it is reused": reused(Do.READ),
    "kept alive, reset as it is reused": reused(Do.READ, Do.RESET),
    "kept alive, closed in the second answer": reused(Do.READ, LONG),
    "kept alive, closed as a POST reuses it": reused(Do.READ, method="POST"),
    "kept alive, reset as a POST reuses it": reused(Do.READ, Do.RESET, method="POST"),
}


def page(body: str = "OK", status: int = 200, **changes: Any) -> dict[str, Any]:
    """Return the outcome of a request that was answered."""
    outcome = {"status": status, "headers": {}, "flags": [], "protocol": "HTTP/1.1"}
    return {"body": body, **outcome, **changes}


def error(name: str) -> dict[str, Any]:
    """Return the outcome of a request that failed with the exception called *name*."""
    return {"error": name}


# What comes of a case with our handler, where it is not the same, and why it is better.
DIFFERENCES = {
    "status of two digits": (
        [error("DownloadFailedError")],
        "A status has three digits: what has two is not HTTP.",
    ),
    "HTTP/1.2": (
        [error("DownloadFailedError")],
        "There is no such version, and so no telling what it means.",
    ),
    "header name that is not ASCII": (
        [page(headers={"X-\xe9": ["1"]})],
        "The page is there, and so is the header.",
    ),
    "folded header": (
        [page(headers={"X-A": ["one two three"], "X-B": ["1"]})],
        "Each fold is one space, whatever it was made of.",
    ),
    "header line without a name": (
        [page(headers={"X-A": ["1"], "X-B": ["2"]})],
        "The line is skipped, as one without a colon is.",
    ),
    "space before the colon": (
        [page(headers={"X-A": ["1"]})],
        "The page is there, and the space is no part of the name.",
    ),
    "header line of 90 KB": (
        [page(headers={"X-A": ["a" * 90_000]})],
        "The limit is 100 KB, not 16 KB.",
    ),
    "400 KB of header lines": (
        [error("DownloadFailedError")],
        "All lines together may have 300 KB, so that no server fills the memory.",
    ),
    "101 that nobody asked for": (
        [
            page(
                OK.decode(),
                status=101,
                headers={"Upgrade": ["x"], "Connection": ["Upgrade"]},
                flags=["partial"],
            )
        ],
        "It is an answer, and what follows is no longer HTTP.",
    ),
    "reset in a body without length": (
        [error("ResponseDataLossError")],
        "Such a body ends when the server closes the connection; a reset is no such end.",
    ),
    "kept alive, closed as a POST reuses it": (
        [page(), page()],
        "Sent once more on a new connection, as browsers do, and as RetryMiddleware does.",
    ),
    "kept alive, reset as a POST reuses it": (
        [page(), page()],
        "Sent once more on a new connection, as browsers do, and as RetryMiddleware does.",
    ),
}

SPIDER = """
import asyncio
import scrapy
from scrapy import signals

class TestSpider(scrapy.Spider):
    name = "test"
    handle_httpstatus_all = True

    @classmethod
    def from_crawler(cls, crawler, watch=False, **kwargs):
        spider = super().from_crawler(crawler, **kwargs)
        if watch:
            crawler.signals.connect(spider.watch, signals.bytes_received)
        return spider

    def watch(self, data, request, spider):
        pass

    async def start(self):
        for name, (port, requests, timeout, pause) in self.cases.items():
            yield self.request(name, f"http://127.0.0.1:{port}", requests, timeout, pause)

    def request(self, name, site, requests, timeout, pause):
        (method, path), *rest = requests
        return scrapy.Request(
            site + path, method=method, callback=self.parse, errback=self.fail, dont_filter=True,
            cb_kwargs={"again": (name, site, rest, timeout, pause)},
            meta={
                "download_timeout": timeout, "name": name, "path": path, "dont_retry": True,
                "dont_redirect": True, "handle_httpstatus_all": True, "dont_merge_cookies": True,
            },
        )

    async def parse(self, response, again):
        yield {
            "name": response.meta["name"], "path": response.meta["path"],
            "status": response.status, "body": response.body.decode("latin-1"),
            "headers": {
                key.decode("latin-1"): [value.decode("latin-1") for value in values]
                for key, values in response.headers.items()
                # Scrapy's own handler makes a Content-Length of its own and drops the other
                if key not in (b"Content-Length", b"Transfer-Encoding")
            },
            "flags": response.flags, "protocol": response.protocol,
        }
        if again[2]:
            await asyncio.sleep(again[4])
            yield self.request(*again)

    def fail(self, failure):
        meta, again = failure.request.meta, failure.request.cb_kwargs["again"]
        yield {"name": meta["name"], "path": meta["path"], "error": failure.type.__name__}
        if again[2]:
            yield self.request(*again)
"""

SETTINGS = {
    "COMPRESSION_ENABLED": False,
    "CONCURRENT_REQUESTS": len(CASES),
    "CONCURRENT_REQUESTS_PER_DOMAIN": len(CASES),
    "NUMBER_OF_THREADS": len(CASES),
    "TELNETCONSOLE_ENABLED": False,
}
pytestmark = pytest.mark.skipif(
    not hasattr(exceptions, "DownloadFailedError"),
    reason="before Scrapy 2.15 each handler has exceptions of its own",
)

Outcomes = dict[str, list[dict[str, Any]]]


def outcomes(folder: Path, settings: dict[str, Any], **arguments: Any) -> Outcomes:
    """Crawl all cases and return what came of each, in the order of its requests."""
    with ExitStack() as stack:
        cases = {}
        for name, case in CASES.items():
            server = stack.enter_context(HostileServer(case.scripts))
            cases[name] = (server.port, case.requests, case.timeout, case.pause)
        result = crawl(folder, SPIDER, settings={**SETTINGS, **settings}, cases=cases, **arguments)
    assert result.returncode == 0, result.log
    found: Outcomes = {name: [] for name in CASES}
    for item in sorted(result.items, key=lambda item: item.pop("path")):
        found[item.pop("name")].append(item)
    return found


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    return outcomes(tmp_path_factory.mktemp("hostile") / "crawl", {})


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    return outcomes(tmp_path_factory.mktemp("hostile") / "crawl", ADDON)


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    return outcomes(tmp_path_factory.mktemp("hostile") / "crawl", ADDON, watch=True)


@pytest.mark.parametrize("case", CASES)
def test_outcome(case: str, reference: Outcomes, ours: Outcomes, watched: Outcomes) -> None:
    assert len(ours[case]) == len(CASES[case].requests)
    assert ours[case] == watched[case]
    if case in DIFFERENCES:
        assert ours[case] == DIFFERENCES[case][0]
        assert ours[case] != reference[case]
    else:
        assert ours[case] == reference[case]


def test_the_docs_tell_of_each_case() -> None:
    docs = (Path(__file__).parent.parent / "docs" / "fidelity.md").read_text()
    rows = {line.split("|")[1].strip() for line in docs.splitlines() if line.startswith("|")}
    assert rows >= set(CASES)
