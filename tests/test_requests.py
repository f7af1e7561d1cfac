"""The requests transport: only what the request says is sent, and Scrapy's rules hold."""

import gzip
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from scrapy.utils.test import get_crawler

from scrapy_threadpool.transports import load_transport

from . import raw_server, tls_server
from .fetching import fetch
from .raw_server import respond

pytest.importorskip("requests")

REQUESTS = {"THREADPOOL_TRANSPORT": "requests", "NUMBER_OF_THREADS": 1}


def drip(number: int) -> Iterable[bytes]:
    for _ in range(number):
        yield b"x"
        time.sleep(0.1)


def test_exactly_the_headers_of_the_request_are_sent(tmp_path: Path) -> None:
    settings = {
        **REQUESTS,
        "USER_AGENT": "",
        "DEFAULT_REQUEST_HEADERS": {},
        "COMPRESSION_ENABLED": False,
        "REFERER_ENABLED": False,
        "HTTPPROXY_ENABLED": False,
    }
    with raw_server.serve(lambda path: respond(body=b"ok")) as server:
        host = ("Host", server.url[7:])
        requests: list[dict[str, Any]] = [
            {"url": f"{server.url}/bare"},
            {"url": f"{server.url}/own", "headers": {"X-B": ["1", "2"], "X-A": "ä"}},
            {"url": f"{server.url}/post", "method": "POST", "body": "\0a=ä"},
            {"url": f"{server.url.replace('//', '//user:pass@')}/user"},
        ]
        env = {"http_proxy": "http://127.0.0.1:1", "NETRC": str(tmp_path / "netrc")}
        (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password secret")
        items, _ = fetch(tmp_path / "crawl", requests, settings, env=env)
        assert server.headers("/bare") == [host]
        assert sorted(server.headers("/own")) == [host, ("X-A", "Ã¤"), ("X-B", "1, 2")]
        assert sorted(server.headers("/post")) == [("Content-Length", "5"), host]
        assert server.headers("/user") == [host]
    assert [item.get("body") for item in items] == ["ok"] * 4, items


def test_what_is_scrapys_part_is_left_to_scrapy(tmp_path: Path) -> None:
    text = "<p>" + "ä" * 100_000
    kind = ["Content-Type: text/html; charset=utf-8", "Content-Encoding: gzip"]
    cookies = ["Set-Cookie: a=1; Path=/", "Set-Cookie: b=2; Path=/"]
    answers = {
        "/page": respond(*kind, *cookies, body=gzip.compress(text.encode())),
        "/moved": respond("Location: /page", body=b"elsewhere", status="302 Found"),
        "/broken": respond("Location: http://[/", body=b"nowhere", status="302 Found"),
        "/head": respond(*kind),
        "/again": respond(body=b"again"),
    }
    with raw_server.serve(lambda path: answers[path]) as server:
        requests: list[dict[str, Any]] = [
            {"url": server.url + path, "method": "HEAD" if path == "/head" else "GET"}
            for path in answers
        ]
        requests[4]["meta"] = {"dont_merge_cookies": True}
        settings = {**REQUESTS, "CONCURRENT_REQUESTS": 1}
        items, _ = fetch(tmp_path, requests, settings)
        assert "Cookie" not in dict(server.headers("/again"))
        assert dict(server.headers("/moved"))["Cookie"] == "a=1; b=2"  # from Scrapy's jar
        assert server.connections == 1
    page = items[0]
    assert page["body"].encode("latin-1").decode() == text
    assert page["type"] == "HtmlResponse"
    assert page["protocol"] == "HTTP/1.1"
    assert page["ip"] == "127.0.0.1"
    assert page["headers"]["Set-Cookie"] == ["a=1; Path=/", "b=2; Path=/"]
    assert 0 < page["meta"]["download_latency"] < 10
    assert [item["status"] for item in items] == [200, 302, 302, 200, 200]
    assert [item["body"] for item in items[1:]] == ["elsewhere", "nowhere", "", "again"]


def test_what_fails_says_why(tmp_path: Path) -> None:
    head = b"HTTP/1.1 200 OK\r\n"

    def answer(path: str) -> bytes | Iterable[bytes]:
        if path == "/silence":
            time.sleep(2)
        pieces = {
            "/short": [head + b"Content-Length: 10\r\n\r\n", b"12345"],
            "/chunk": [head + b"Transfer-Encoding: chunked\r\n\r\n", b"5\r\n12345\r\n"],
            "/nothing": [],
            "/drip": (piece for part in ([head + b"\r\n"], drip(30)) for piece in part),
            "/endless": (piece for part in ([head + b"\r\n"], [b"x" * 99]) for piece in part),
        }
        return pieces.get(path, respond(body=b"x" * 100))

    with socket.create_server(("127.0.0.1", 0)) as unused:
        refused = f"http://127.0.0.1:{unused.getsockname()[1]}/"
    with raw_server.serve(answer) as server:
        url = server.url
        expected: list[tuple[str, dict[str, Any], str, str]] = [
            (refused, {}, "DownloadConnectionRefusedError", "refused"),
            ("http://host.invalid/", {}, "CannotResolveHostError", "host.invalid"),
            (f"{url}/nothing", {}, "DownloadFailedError", "without response"),
            (f"{url}/short", {}, "ResponseDataLossError", "IncompleteRead"),
            (f"{url}/chunk", {}, "ResponseDataLossError", "IncompleteRead"),
            (f"{url}/large", {"download_maxsize": 10}, "DownloadCancelledError", "(10)"),
            (f"{url}/endless", {"download_maxsize": 10}, "DownloadCancelledError", "(10)"),
            (f"{url}/silence", {"download_timeout": 0.5}, "DownloadTimeoutError", "0.5 seconds"),
            (f"{url}/drip", {"download_timeout": 0.5}, "DownloadTimeoutError", "0.5 seconds"),
            (url, {"proxy": refused}, "DownloadConnectionRefusedError", "refused"),
            (url, {"bindaddress": "127.0.0.2"}, "NotSupported", "bindaddress"),
        ]
        requests = [{"url": url, "meta": meta} for url, meta, _, _ in expected]
        requests.append(
            {"url": f"{server.url}/short", "meta": {"download_fail_on_dataloss": False}}
        )
        settings = {**REQUESTS, "NUMBER_OF_THREADS": 4}
        items, crawled = fetch(tmp_path, requests, settings)
    for item, (_, _, error, words) in zip(items, expected, strict=False):
        assert item.get("error") == error, item
        assert words in item["message"], item
    assert items[-1]["body"] == "12345"
    assert items[-1]["flags"] == ["dataloss"]
    assert crawled.stats["threadpool/workers_given_up"] == 0


def test_a_session_of_ones_own(tmp_path: Path) -> None:
    source = """
import requests

def session():
    session = requests.Session()
    session.auth = ("me", "secret")
    session.headers["X-Company"] = "ours"
    session.cookies.set("login", "done")
    return session
"""
    entry = {"transport": "requests", "threads": 4, "session": "spider_under_test.session"}
    answer = respond("Set-Cookie: theirs=1", body=b"ok")
    with raw_server.serve(lambda path: answer) as server:
        requests = [{"url": f"{server.url}/{number}"} for number in range(20)]
        settings = {"THREADPOOL_TRANSPORTS": {"default": entry}, "COOKIES_ENABLED": False}
        fetch(tmp_path, requests, settings, source=source)
        assert server.connections <= 4
        for number in range(20):
            headers = dict(server.headers(f"/{number}"))
            assert headers["Authorization"] == "Basic bWU6c2VjcmV0"
            assert headers["X-Company"] == "ours"
            assert headers["Cookie"] == "login=done"
            assert headers["User-Agent"].startswith("Scrapy/")
            assert "Connection" not in headers


def test_a_proxy_gets_the_credentials_and_the_site_does_not(tmp_path: Path) -> None:
    def proxy(path: str) -> bytes:
        return respond(body=b"from the proxy")

    with raw_server.serve(proxy) as server:
        address = server.url.replace("//", "//me:p%C3%A4ssword%3A%2F%40@")
        meta = {"proxy": address, "download_timeout": 5}
        requests: list[dict[str, Any]] = [
            {"url": "http://site.invalid/page", "meta": meta},
            {"url": "https://site.invalid/page", "meta": meta},
        ]
        items, _ = fetch(tmp_path, requests, {**REQUESTS, "HTTPPROXY_AUTH_ENCODING": "utf-8"})
        plain, tunnel = (
            next(head for head in server.heads if head.startswith(word))
            for word in (b"GET http://site.invalid/page ", b"CONNECT site.invalid:443 ")
        )
    credentials = b"Proxy-Authorization: Basic bWU6cMOkc3N3b3JkOi9A\r\n"
    assert credentials in plain
    assert credentials.lower() in tunnel.lower()
    assert b"user-agent" not in tunnel.lower()
    assert items[0]["body"] == "from the proxy"


def test_certificates_are_verified_when_the_settings_say_so(tmp_path: Path) -> None:
    with tls_server.serve(tmp_path) as server:
        requests = [{"url": f"{server.url}/"}]
        [trusting], log = fetch(tmp_path / "1", requests, REQUESTS)
        settings = {**REQUESTS, "DOWNLOAD_VERIFY_CERTIFICATES": True}
        [strict], _ = fetch(tmp_path / "2", requests, settings)
        env = {"SSL_CERT_FILE": str(server.certificate)}
        [satisfied], _ = fetch(tmp_path / "3", requests, settings, env=env)
    assert trusting["body"] == satisfied["body"] == "/"
    assert trusting["certificate"] is True
    assert "Insecure" not in log.log
    assert strict["error"] == "DownloadFailedError"
    assert "certificate verify failed" in strict["message"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sessions": 1}, "unknown option sessions; there is session"),
        ({"session": "nowhere.session"}, "session 'nowhere.session' cannot be loaded: No module"),
        ({"session": "os.name"}, "session must be a function that returns a session, not 'os."),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        load_transport("requests").share(get_crawler(), options)


def test_missing_extras_are_named() -> None:
    program = """
import sys
from scrapy_threadpool.transports import load_transport
for name, module in {"requests": "requests", "impersonate": "curl_cffi"}.items():
    sys.modules[module] = None
    try:
        load_transport(name)
    except ValueError as error:
        print(error)
"""
    output = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert [line.rpartition("; ")[2] for line in output.splitlines()] == [
        "pip install 'scrapy-threadpool[requests]'",
        "pip install 'scrapy-threadpool[impersonate]'",
    ]
