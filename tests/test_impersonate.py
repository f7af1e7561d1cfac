"""Impersonation, as the server sees it: the ClientHello, HTTP/2 settings, headers, connections."""

import gzip
import time
from pathlib import Path
from typing import Any

import pytest
from scrapy.utils.test import get_crawler

from scrapy_threadpool.transports import load_transport

from . import raw_server, tls_server
from .crawling import ADDON, crawl
from .fetching import fetch
from .tls_server import Client, TLSServer

curl_cffi = pytest.importorskip("curl_cffi")

IMPERSONATE = {"THREADPOOL_TRANSPORT": "impersonate", "NUMBER_OF_THREADS": 1}
BROWSERS = ["chrome131", "chrome", "firefox", "safari", "edge"]


def alone(server: TLSServer, path: str, **arguments: Any) -> Client:
    """Return what the server sees of curl_cffi without this package."""
    arguments.setdefault("impersonate", "chrome")
    with curl_cffi.Session(verify=False) as session:
        session.get(server.url + path, **arguments)
    return server.clients.pop()


def signature(client: Client) -> dict[str, Any]:
    return {
        "JA4": client.hello.ja4,
        "extensions": sorted(client.hello.extensions),
        "protocol": client.protocol,
        "settings": client.settings,
        "window update": client.window_update,
        "headers": client.requests,
    }


def test_the_fingerprint_is_that_of_the_browser(tmp_path: Path) -> None:
    with tls_server.serve(tmp_path) as server:
        expected = [alone(server, f"/{name}", impersonate=name) for name in BROWSERS]
        requests = [{"url": f"{server.url}/{n}", "meta": {"impersonate": n}} for n in BROWSERS]
        items, _ = fetch(tmp_path / "crawl", requests, IMPERSONATE)
        clients = server.clients
    assert [item["body"] for item in items] == [f"/{name}" for name in BROWSERS]
    assert [signature(client) for client in clients] == [signature(one) for one in expected]
    assert clients[0].hello.ja4 == "t13d1516h2_8daaf6152771_02713d6af862"  # as widely published
    # The order of extensions is fixed in Firefox and Safari; Chrome shuffles it.
    for name in ("firefox", "safari"):
        place = BROWSERS.index(name)
        assert clients[place].hello.ja3 == expected[place].hello.ja3
    assert len({client.hello.ja4 for client in clients}) == len(BROWSERS)


def test_connections_are_used_again_but_never_by_another_fingerprint(tmp_path: Path) -> None:
    metas: list[dict[str, Any]] = [
        {"impersonate": "chrome"},
        {"impersonate": "firefox"},
        {"impersonate": "chrome", "impersonate_args": {"default_headers": False}},
        {"impersonate": "chrome", "impersonate_curl_options": {"http2_window_update": 12345678}},
    ]
    with tls_server.serve(tmp_path) as server:
        requests = [{"url": f"{server.url}/{n}", "meta": metas[n % 4]} for n in range(40)]
        items, _ = fetch(tmp_path / "crawl", requests, {**IMPERSONATE, "NUMBER_OF_THREADS": 4})
        clients = server.clients
    assert [item["body"] for item in items] == [f"/{n}" for n in range(40)]
    kinds = [
        {int(dict(request)[":path"][1:]) % 4 for request in client.requests} for client in clients
    ]
    assert all(len(kind) == 1 for kind in kinds)
    assert 4 <= len(clients) <= 16
    updates = {client.window_update for client, kind in zip(clients, kinds, strict=True)}
    assert 12345678 in updates


def test_one_connection_per_worker_for_two_hundred_pages(tmp_path: Path) -> None:
    with tls_server.serve(tmp_path) as server:
        requests = [{"url": f"{server.url}/{number}"} for number in range(200)]
        settings = {**IMPERSONATE, "NUMBER_OF_THREADS": 4, "CONCURRENT_REQUESTS_PER_DOMAIN": 4}
        items, _ = fetch(tmp_path / "crawl", requests, settings)
        assert len(server.clients) <= 4
        assert len(server.requests) == 200
    assert all(item["body"] == f"/{item['number']}" for item in items)


def test_tls_sessions_are_resumed(tmp_path: Path) -> None:
    with tls_server.serve(tmp_path, requests_per_connection=1) as server:
        requests = [{"url": f"{server.url}/{number}"} for number in range(4)]
        fetch(tmp_path / "crawl", requests, {**IMPERSONATE, "CONCURRENT_REQUESTS": 1})
        assert [client.resumed for client in server.clients] == [False, True, True, True]


def test_headers_of_the_request_stand_on_those_of_the_browser(tmp_path: Path) -> None:
    own = {"Accept-Language": "de", "User-Agent": "Mine/1", "X-Own": ["a", "b"]}
    with tls_server.serve(tmp_path) as server:
        requests: list[dict[str, Any]] = [
            {"url": f"{server.url}/browser"},
            {"url": f"{server.url}/own", "headers": own, "cookies": {"c": "1"}},
            {
                "url": f"{server.url}/bare",
                "headers": {"X-Own": "a"},
                "meta": {"impersonate_args": {"default_headers": False}},
            },
            {"url": f"{server.url}/plain", "meta": {"impersonate": None}},
        ]
        fetch(tmp_path / "crawl", requests, {**IMPERSONATE, "CONCURRENT_REQUESTS": 1})
        browser, changed, bare, plain = server.requests
    names = [name for name, _ in browser]
    assert [name for name, _ in changed if name in names] == names  # each in the browser's place
    assert ("accept-language", "de") in changed
    assert ("user-agent", "Mine/1") in changed
    assert ("cookie", "c=1") in changed
    assert [value for name, value in changed if name == "x-own"] == ["a", "b"]
    for headers in (bare, plain):
        fields = dict(headers)
        assert fields["user-agent" if ":path" in fields else "User-Agent"].startswith("Scrapy/")
        assert not any(name.startswith("sec-") for name in fields)
    assert ("x-own", "a") in bare


def test_a_body_comes_as_scrapy_expects_it(tmp_path: Path) -> None:
    text = "<p>" + "ä" * 100_000
    cookies = [("set-cookie", "a=1; Path=/"), ("set-cookie", "b=2; Path=/")]
    kind = [("content-type", "text/html; charset=utf-8"), ("content-encoding", "gzip"), *cookies]

    def answer(path: str) -> tls_server.Answer:
        return 200, kind, gzip.compress(text.encode())

    with tls_server.serve(tmp_path, answer) as server:
        requests: list[dict[str, Any]] = [
            {"url": f"{server.url}/get"},
            {"url": f"{server.url}/post", "method": "POST", "body": "\0x=ä"},
            {"url": f"{server.url}/put", "method": "PUT"},
            {"url": f"{server.url}/head", "method": "HEAD"},
            {"url": f"{server.url}/again"},
        ]
        settings = {**IMPERSONATE, "CONCURRENT_REQUESTS": 1, "THREADPOOL_IMPERSONATE": "firefox"}
        items, crawled = fetch(tmp_path / "crawl", requests, settings)
        bodies = [body for client in server.clients for body in client.bodies]
        sent = server.requests
    assert bodies == [b"", "\0x=ä".encode(), b"", b"", b""]
    assert [dict(headers)[":method"] for headers in sent] == ["GET", "POST", "PUT", "HEAD", "GET"]
    assert all("Firefox" in dict(headers)["user-agent"] for headers in sent)
    assert [item["body"].encode("latin-1").decode() for item in items if item["number"] != 3] == [
        text
    ] * 4
    first = items[0]
    assert first["type"] == "HtmlResponse"
    assert first["protocol"] == "HTTP/2"
    assert first["ip"] == "127.0.0.1"
    assert first["headers"]["Set-Cookie"] == ["a=1; Path=/", "b=2; Path=/"]
    assert 0 < first["meta"]["download_latency"] < 10
    assert dict(sent[-1])["cookie"] == "a=1; b=2"  # from Scrapy's jar
    assert crawled.stats["httpcompression/response_count"] == 4


def test_what_fails_says_why(tmp_path: Path) -> None:
    expected = [
        ({"impersonate": "netscape"}, "NotSupported", "must be one of edge99,"),
        ({"impersonate_args": {"params": {}}}, "NotSupported", "only akamai,"),
        ({"impersonate_args": {"http_version": "4"}}, "NotSupported", "one of v1,"),
        ({"impersonate_curl_options": {"nope": 1}}, "NotSupported", "no option 'NOPE'"),
        ({"impersonate_args": {"verify": True}}, "DownloadFailedError", "certificate"),
        ({"download_maxsize": 10}, "DownloadCancelledError", "max size (10)"),
        ({"impersonate_args": {"timeout": 0.2}}, "DownloadTimeoutError", "than 0.2 seconds"),
        ({"proxy": "http://127.0.0.1:1"}, "DownloadConnectionRefusedError", "127.0.0.1"),
    ]

    def answer(path: str) -> tls_server.Answer:
        if path == "/6":
            time.sleep(1)
        return 200, [], b"x" * 100

    with tls_server.serve(tmp_path, answer) as server:
        requests = [
            {"url": f"{server.url}/{number}", "meta": meta}
            for number, (meta, _, _) in enumerate(expected)
        ]
        items, _ = fetch(tmp_path / "crawl", requests, IMPERSONATE)
    for item, (_, error, words) in zip(items, expected, strict=True):
        assert item["error"] == error, item
        assert words in item["message"], item


def test_no_upgrade_is_asked_for_where_there_is_no_tls(tmp_path: Path) -> None:
    with raw_server.serve(lambda path: raw_server.respond(body=b"plain")) as server:
        items, _ = fetch(tmp_path, [{"url": f"{server.url}/page"}], IMPERSONATE)
    assert items[0]["body"] == "plain"
    (head,) = server.heads
    assert head.startswith(b"GET /page HTTP/1.1\r\n")
    assert b"upgrade:" not in head.lower()
    assert b"http2-settings" not in head.lower()


def test_a_proxy_gets_the_credentials_and_the_site_does_not(tmp_path: Path) -> None:
    with raw_server.serve(lambda path: raw_server.respond(body=b"from the proxy")) as server:
        address = server.url.replace("//", "//me:p%C3%A4ssword%3A%2F%40@")
        requests = [
            {"url": f"{scheme}://site.invalid/page", "meta": {"proxy": address}}
            for scheme in ("http", "https")
        ]
        settings = {**IMPERSONATE, "HTTPPROXY_AUTH_ENCODING": "utf-8"}
        items, _ = fetch(tmp_path, requests, settings)
        plain, tunnel = (
            next(head for head in server.heads if head.startswith(word))
            for word in (b"GET http://site.invalid/page ", b"CONNECT site.invalid:443 ")
        )
    credentials = b"Proxy-Authorization: Basic bWU6cMOkc3N3b3JkOi9A\r\n"
    assert plain.count(credentials) == tunnel.count(credentials) == 1
    assert b"sec-ch-ua" in plain
    assert b"sec-ch-ua" not in tunnel
    assert items[0]["body"] == "from the proxy"


def test_arguments_and_options_change_the_fingerprint(tmp_path: Path) -> None:
    ja3 = "771,4865-4866-4867-49195-49199,0-23-65281-10-11-16-13-51-45-43,29-23-24,0"
    akamai = "1:65536;4:131072;5:16384|12517377|3:0:0:201|m,p,a,s"
    with tls_server.serve(tmp_path) as server:
        metas: list[dict[str, Any]] = [
            {"impersonate": None, "impersonate_args": {"ja3": ja3, "akamai": akamai}},
            {"impersonate": "firefox", "impersonate_args": {"http_version": "v1"}},
            {
                "impersonate": "chrome",
                "impersonate_args": {"verify": str(server.certificate)},
                "http_version": "2",
            },
        ]
        requests = [{"url": server.url, "meta": meta} for meta in metas]
        settings = {**IMPERSONATE, "CONCURRENT_REQUESTS": 1}
        items, _ = fetch(tmp_path / "crawl", requests, settings)
        first, second, third = server.clients
    assert [item["status"] for item in items] == [200, 200, 200]
    assert first.hello.ja3 == ja3
    assert first.settings == [(1, 65536), (4, 131072), (5, 16384)]
    assert [name for name, _ in first.requests[0]][:4] == [
        ":method",
        ":path",
        ":authority",
        ":scheme",
    ]
    assert second.protocol == "http/1.1"
    assert items[1]["protocol"] == "HTTP/1.1"
    assert third.protocol == "h2"


def test_a_version_that_is_asked_for_stands_above_that_of_the_browser(tmp_path: Path) -> None:
    with tls_server.serve(tmp_path) as server:
        metas: list[dict[str, Any]] = [{}, {"http_version": "1.1"}, {}]
        requests = [{"url": f"{server.url}/{n}", "meta": meta} for n, meta in enumerate(metas)]
        settings = {**IMPERSONATE, "THREADPOOL_HTTP_VERSION": "1.1", "CONCURRENT_REQUESTS": 1}
        items, _ = fetch(tmp_path / "crawl", requests, settings)
    assert [item["protocol"] for item in items] == ["HTTP/2", "HTTP/1.1", "HTTP/2"]


def test_signals_come_while_the_bytes_do(tmp_path: Path) -> None:
    source = """
from scrapy import Spider, signals
from scrapy.exceptions import StopDownload

class StopSpider(Spider):
    name = "stop"

    @classmethod
    def from_crawler(cls, crawler, **arguments):
        spider = super().from_crawler(crawler, **arguments)
        spider.seen = []
        crawler.signals.connect(spider.headers, signals.headers_received)
        crawler.signals.connect(spider.bytes, signals.bytes_received)
        return spider

    def headers(self, headers, body_length, request):
        self.seen.append([headers[b"X-Kind"].decode(), body_length])

    def bytes(self, data):
        raise StopDownload(fail=False)

    def parse(self, response):
        yield {"size": len(response.body), "flags": response.flags, "seen": self.seen}
"""

    def answer(path: str) -> tls_server.Answer:
        return 200, [("x-kind", "large"), ("content-length", "1000000")], b"x" * 1_000_000

    with tls_server.serve(tmp_path, answer) as server:
        settings = {**ADDON, **IMPERSONATE}
        result = crawl(
            tmp_path / "crawl", source, "stop", settings=settings, start_urls=[server.url]
        )
    [item] = result.items
    assert 0 < item["size"] < 1_000_000
    assert item["flags"] == ["download_stopped"]
    assert item["seen"] == [["large", 1_000_000]]


def test_an_unknown_browser_and_options_are_refused() -> None:
    transport = load_transport("impersonate")
    crawler = get_crawler(settings_dict={"THREADPOOL_IMPERSONATE": "netscape"})
    with pytest.raises(ValueError, match=r"^THREADPOOL_IMPERSONATE must be one of .*'netscape'$"):
        transport.share(crawler, {})
    with pytest.raises(ValueError, match="unknown option browser; there is none"):
        transport.share(get_crawler(), {"browser": "chrome"})
