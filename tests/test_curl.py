"""The curl transport sends what the request says and nothing else, and returns what came."""

import ctypes
import json
import logging
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pycurl
import pytest
from scrapy import Request, signals
from scrapy.exceptions import NotSupported, StopDownload

from scrapy_threadpool import _compat as exceptions
from scrapy_threadpool.download import Download
from scrapy_threadpool.transports import curl
from scrapy_threadpool.transports.connections import Connection, IdleConnections
from scrapy_threadpool.transports.curl import CurlTransport

from .certificates import make_certificate
from .curl_client import Client, MakeClient
from .nginx import free_port
from .server import Received, Server, serve


@pytest.fixture
def client(make_client: MakeClient) -> Client:
    return make_client()


@pytest.fixture
def server() -> Iterator[Server]:
    with serve() as running:
        yield running


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("certificate")
    make_certificate(folder / "localhost.crt", folder / "localhost.key")
    return folder / "localhost.crt", folder / "localhost.key"


@pytest.fixture
def tls_server(certificate: tuple[Path, Path]) -> Iterator[Server]:
    with serve(*certificate) as running:
        yield running


def own_headers(one: Received) -> list[tuple[str, str]]:
    """Return the headers but those without which there is no request."""
    return [(name, value) for name, value in one.headers if name != "Host"]


def idle(client: Client) -> list[Connection]:
    shared = client._shared
    return [one for _, one in (*shared.plain._idle.values(), *shared.streaming._idle.values())]


# What is sent


@pytest.mark.parametrize(
    "method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "X-Own"]
)
def test_methods(client: Client, server: Server, method: str) -> None:
    response = client.fetch(f"{server.url}/page", method=method)
    (one,) = server.received
    assert (one.method, one.target, one.version) == (method.upper(), "/page", "HTTP/1.1")
    assert one.body == b""
    length = [("Content-Length", "0")] if method in ("POST", "PUT", "PATCH") else []
    assert own_headers(one) == length
    assert response.body == (
        b"" if method == "HEAD" else b"<html><body><h1>/page</h1></body></html>"
    )


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "REPORT"])
@pytest.mark.parametrize("body", [b"a=b&c=d", bytes(range(256)), b"x" * 2_000_000])
def test_bodies(client: Client, server: Server, method: str, body: bytes) -> None:
    client.fetch(f"{server.url}/page", method=method, body=body)
    (one,) = server.received
    assert one.method == method
    assert one.body == body
    assert own_headers(one) == [("Content-Length", str(len(body)))]


def test_a_head_request_with_a_body_is_refused(client: Client, server: Server) -> None:
    with pytest.raises(NotSupported, match="HEAD"):
        client.fetch(server.url, method="HEAD", body=b"x")
    assert client.fetch(server.url).status == 200
    assert len(server.received) == 1


def test_one_kind_of_request_after_another_on_one_connection(
    client: Client, server: Server
) -> None:
    kinds: list[tuple[str, bytes]] = [
        ("POST", b"first"),
        ("GET", b""),
        ("POST", b"first"),
        ("HEAD", b""),
        ("PUT", b"second"),
        ("HEAD", b""),
        ("GET", b""),
        ("DELETE", b""),
        ("GET", b"with a body"),
        ("POST", b""),
        ("OPTIONS", b""),
        ("POST", b"third"),
        ("GET", b""),
    ]
    for method, body in kinds:
        response = client.fetch(f"{server.url}/page", method=method, body=body)
        assert bool(response.body) is (method != "HEAD")
    assert [(one.method, one.body) for one in server.received] == kinds
    assert server.connections == 1
    assert own_headers(server.received[-1]) == []


def test_headers_are_sent_as_the_request_has_them(client: Client, server: Server) -> None:
    headers: list[tuple[str, str]] = [
        ("X-Second", "2"),
        ("Accept-Language", "en"),
        ("User-Agent", "a spider"),
        ("X-Empty", ""),
        ("X-First", "1"),
        ("X-Bytes", "\xe9\xff"),
        ("X-Colon", "a: b; c"),
        ("Accept", "text/html"),
        ("Cookie", "a=1; b=2"),
    ]
    sent = {name: value.encode("latin-1") for name, value in headers}
    client.fetch(f"{server.url}/page", headers=sent)
    (one,) = server.received
    assert own_headers(one) == headers


def test_headers_of_the_same_name_stay_apart_and_in_order(client: Client, server: Server) -> None:
    client.fetch(f"{server.url}/page", headers={"X-Two": ["b", "a", "b"], "X-One": "1"})
    (one,) = server.received
    assert own_headers(one) == [("X-Two", "b"), ("X-Two", "a"), ("X-Two", "b"), ("X-One", "1")]


def test_no_header_is_added(client: Client, server: Server) -> None:
    client.fetch(f"{server.url}/page")
    client.fetch(f"{server.url}/page", method="POST", body=b"{}")
    get, post = server.received
    assert get.headers == [("Host", server.url.removeprefix("http://"))]
    assert own_headers(post) == [("Content-Length", "2")]


def test_headers_of_the_library_can_be_given(client: Client, server: Server) -> None:
    headers = {"Host": "example.com", "Content-Type": "text/x", "Accept": "*/*", "Expect": ""}
    client.fetch(f"{server.url}/page", method="POST", body=b"x", headers=headers)
    (one,) = server.received
    assert [value for name, value in one.headers if name == "Host"] == ["example.com"]
    given = [header for header in own_headers(one) if header[0] != "Content-Length"]
    assert given == [("Content-Type", "text/x"), ("Accept", "*/*"), ("Expect", "")]


def test_headers_do_not_stay_for_the_next_request(client: Client, server: Server) -> None:
    client.fetch(f"{server.url}/page", headers={"X-Secret": "1", "Authorization": "Basic abc"})
    client.fetch(f"{server.url}/page")
    assert own_headers(server.received[1]) == []


@pytest.mark.parametrize("line_end", ["\r\n", "\n", "\r"])
def test_header_values_can_inject_nothing(client: Client, server: Server, line_end: str) -> None:
    value = f"a{line_end}X-Injected: 1{line_end}{line_end}GET /injected HTTP/1.1"
    client.fetch(f"{server.url}/page", headers={"X-Value": value})
    client.fetch(f"{server.url}/page")
    assert server.paths() == ["/page", "/page"]
    (header,) = own_headers(server.received[0])
    assert header == ("X-Value", "a X-Injected: 1 GET /injected HTTP/1.1")


@pytest.mark.parametrize("value", [" ", "\t", "\r\n", " \n "])
def test_blank_header_values_are_sent(client: Client, server: Server, value: str) -> None:
    client.fetch(f"{server.url}/page", headers={"X-Blank": value})
    (one,) = server.received
    ((name, sent),) = own_headers(one)
    assert (name, sent.strip()) == ("X-Blank", "")


@pytest.mark.parametrize("name", ["X-A\r\nX-Injected", "X-A\nX-Injected", "X A", "X-A:", "X;", ""])
def test_header_names_can_inject_nothing(client: Client, server: Server, name: str) -> None:
    with pytest.raises(NotSupported, match="header name"):
        client.fetch(f"{server.url}/page", headers={name: "1"})
    assert server.received == []


def test_a_nul_byte_in_a_header_is_refused(client: Client, server: Server) -> None:
    with pytest.raises(ValueError, match=r"[Nn][Uu][Ll]"):
        client.fetch(f"{server.url}/page", headers={"X-Nul": "a\0b"})
    assert server.received == []


@pytest.mark.parametrize("method", ["GET /x HTTP/1.1\r\nX-Injected: 1\r\n\r\nGET", "G ET", "G\0T"])
def test_methods_can_inject_nothing(client: Client, server: Server, method: str) -> None:
    with pytest.raises(NotSupported, match="method"):
        client.fetch(f"{server.url}/page", method=method)
    assert server.received == []


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/a/../b/./c", "/a/../b/./c"),
        ("/a//b", "/a//b"),
        ("/?a=1&a=2&b", "/?a=1&a=2&b"),
        ("/%7Eme/%2F", "/%7Eme/%2F"),
        ("/a#fragment", "/a"),
        ("/a?x@y", "/a?x@y"),
        ("/a[1]{2}|", "/a%5B1%5D%7B2%7D%7C"),
        ("", "/"),
        ("?q=1", "/?q=1"),
    ],
)
def test_targets(client: Client, server: Server, path: str, target: str) -> None:
    response = client.fetch(server.url + path)
    assert server.received[0].target == target
    assert response.url == response.request.url.partition("#")[0]


@pytest.mark.skipif(
    "[" not in Request("http://site/a[", meta={"verbatim_url": True}).url,
    reason="this Scrapy knows no verbatim_url",
)
@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/%7eme/%2f?%c3%A9|", "/%7eme/%2f?%c3%A9|"),
        ("/a/../b?", "/a/../b?"),
        ("/%7e?#fragment", "/%7e?"),
        ("", "/"),
        ("?q=%7e", "/?q=%7e"),
    ],
)
def test_verbatim_targets(client: Client, server: Server, path: str, target: str) -> None:
    client.fetch(server.url + path, meta={"verbatim_url": True})
    client.fetch(f"{server.url}/next")
    assert [one.target for one in server.received] == [target, "/next"]


@pytest.mark.parametrize("user", ["user:pass@", "user@", ":pass@", "a%40b:c@"])
def test_credentials_in_the_url_are_not_sent(client: Client, server: Server, user: str) -> None:
    url = server.url.replace("://", f"://{user}")
    assert client.fetch(f"{url}/page").status == 200
    assert own_headers(server.received[0]) == []
    assert server.received[0].header("Host") == [server.url.removeprefix("http://")]


# What the environment says is not listened to


@pytest.mark.parametrize(
    "name", ["http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"]
)
def test_no_proxy_from_the_environment(
    make_client: MakeClient,
    server: Server,
    tls_server: Server,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    client = make_client()
    assert client.fetch(f"{server.url}/page").status == 200
    assert client.fetch(f"{tls_server.url}/page").status == 200


@pytest.mark.parametrize("name", ["no_proxy", "NO_PROXY"])
def test_no_exception_from_the_proxy_in_the_environment(
    make_client: MakeClient, server: Server, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "*")
    meta = {"proxy": server.url}  # a server that is asked as a proxy is asked for the whole URL
    make_client().fetch("http://example.invalid/page", meta=meta)
    assert [one.target for one in server.received] == ["http://example.invalid/page"]


def test_no_netrc(
    make_client: MakeClient, server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".netrc").write_text("default login user password pass\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    make_client().fetch(f"{server.url}/page")
    assert own_headers(server.received[0]) == []


@pytest.mark.parametrize("scheme", ["ftp", "file", "gopher", "dict", "telnet"])
def test_other_schemes_are_refused(client: Client, server: Server, scheme: str) -> None:
    url = server.url.replace("http", scheme) if scheme != "file" else "file:///etc/hostname"
    with pytest.raises((exceptions.DownloadFailedError, NotSupported)):
        client.fetch(url)
    assert server.connections == 0


def test_a_url_without_a_host_is_not_tried_again(client: Client) -> None:
    with pytest.raises(NotSupported):
        client.fetch("http:///page")


# What comes back


def test_response(client: Client, server: Server) -> None:
    response = client.fetch(f"{server.url}/page#fragment")
    assert response.status == 200
    assert response.url == f"{server.url}/page"
    assert response.protocol == "HTTP/1.1"
    assert str(response.ip_address) == "127.0.0.1"
    assert response.certificate is None
    assert response.flags == []
    assert type(response).__name__ == "HtmlResponse"
    assert response.headers["Content-Type"] == b"text/html; charset=utf-8"


def test_certificate(client: Client, tls_server: Server, certificate: tuple[Path, Path]) -> None:
    import ssl

    expected = ssl.PEM_cert_to_DER_cert(certificate[0].read_text())
    for _ in range(2):  # a connection that is used again says so as well
        response = client.fetch(f"{tls_server.url}/page")
        assert response.certificate == expected
        assert str(response.ip_address) == "127.0.0.1"
    assert tls_server.connections == 1


@pytest.mark.parametrize("code", [200, 201, 204, 301, 304, 400, 404, 418, 500, 503, 599, 999])
def test_statuses(client: Client, server: Server, code: int) -> None:
    assert client.fetch(f"{server.url}/status?code={code}").status == code


def test_response_headers_with_duplicates(client: Client, server: Server) -> None:
    headers = client.fetch(f"{server.url}/duplicates").headers
    assert headers.getlist("X-One") == [b"a", b"c"]
    assert headers.getlist("X-Two") == [b"b"]
    assert headers.getlist("X-Empty") == [b""]
    names = [name for name in headers if name.startswith(b"X-")]
    assert names == [b"X-One", b"X-Two", b"X-Empty"]


def test_bodies_are_left_encoded(client: Client, server: Server) -> None:
    import gzip

    response = client.fetch(f"{server.url}/gzip", headers={"Accept-Encoding": "gzip"})
    assert response.headers["Content-Encoding"] == b"gzip"
    assert gzip.decompress(response.body).startswith(b"<html>")


def test_large_and_binary_bodies(client: Client, server: Server) -> None:
    expected = bytes(index % 256 for index in range(3_000_000))
    assert client.fetch(f"{server.url}/bytes?size=3000000").body == expected


def test_chunked_bodies(client: Client, server: Server) -> None:
    response = client.fetch(f"{server.url}/slow?delay=0")
    assert (response.body, response.flags) == (b"piecepiecepiece", [])


def test_a_body_that_ends_with_the_connection_is_partial(client: Client, server: Server) -> None:
    response = client.fetch(f"{server.url}/close")
    assert (response.body, response.flags) == (b"until the end", ["partial"])


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(client: Client, server: Server, code: int) -> None:
    response = client.fetch(f"{server.url}/redirect?code={code}")
    assert response.status == code
    assert response.headers["Location"] == b"/page"
    assert server.paths() == ["/redirect"]


def test_no_cookie_is_kept(client: Client, server: Server) -> None:
    response = client.fetch(f"{server.url}/login")
    assert response.headers.getlist("Set-Cookie") == [b"session=1", b"b=2; Path=/"]
    client.fetch(f"{server.url}/page")
    assert own_headers(server.received[1]) == []


# What goes wrong


def test_a_connection_that_is_refused(client: Client) -> None:
    with pytest.raises(exceptions.DownloadConnectionRefusedError) as caught:
        client.fetch(f"http://127.0.0.1:{free_port()}/")
    assert caught.value.__cause__ is not None


def test_a_host_that_does_not_exist(client: Client) -> None:
    with pytest.raises(exceptions.CannotResolveHostError):
        client.fetch("http://does-not-exist.invalid/")


def test_a_server_that_says_nothing(client: Client, server: Server) -> None:
    with pytest.raises(exceptions.DownloadFailedError):
        client.fetch(f"{server.url}/nothing")
    assert client.fetch(f"{server.url}/page").status == 200


def test_a_body_that_is_cut_short(
    client: Client, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        with pytest.raises(exceptions.ResponseDataLossError):
            client.fetch(f"{server.url}/cut")
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_a_body_that_is_cut_short_can_be_wanted(client: Client, server: Server) -> None:
    response = client.fetch(f"{server.url}/cut", meta={"download_fail_on_dataloss": False})
    assert (response.status, response.body, response.flags) == (200, b"too short", ["dataloss"])
    assert response.headers["X-Cut"] == b"yes"
    assert response.protocol == "HTTP/1.1"
    assert str(response.ip_address) == "127.0.0.1"
    assert response.request.meta["download_latency"] < 5


@pytest.mark.parametrize("path", ["/slow?first=3", "/slow?pieces=30&delay=0.1"])
def test_the_timeout_bounds_the_whole_download(client: Client, server: Server, path: str) -> None:
    started = time.monotonic()
    with pytest.raises(exceptions.DownloadTimeoutError, match=r"took longer than 0\.4 seconds"):
        client.fetch(f"{server.url}{path}", meta={"download_timeout": 0.4})
    assert 0.3 < time.monotonic() - started < 2.5
    assert client.fetch(f"{server.url}/page").status == 200  # it does not stay for the next


def test_the_timeout_of_the_settings(make_client: MakeClient, server: Server) -> None:
    with pytest.raises(exceptions.DownloadTimeoutError):
        make_client(DOWNLOAD_TIMEOUT=0.3).fetch(f"{server.url}/slow?first=3")


@pytest.mark.parametrize("path", ["/bytes?size=1000", "/slow?pieces=200&delay=0"])
def test_the_size_limit(
    client: Client, server: Server, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(exceptions.DownloadCancelledError, match=r"larger than download max size"):
        client.fetch(f"{server.url}{path}", meta={"download_maxsize": 500})
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert len(client.fetch(f"{server.url}{path}").body) == 1000


def test_a_negative_size_limit_is_exceeded_by_everything(client: Client, server: Server) -> None:
    with pytest.raises(exceptions.DownloadCancelledError, match=r"larger than download max size"):
        client.fetch(f"{server.url}/page", meta={"download_maxsize": -1})


@pytest.mark.parametrize("limit", [None, 1e6])
def test_size_limits_that_are_no_whole_number(
    client: Client, server: Server, limit: float | None
) -> None:
    assert client.fetch(f"{server.url}/page", meta={"download_maxsize": limit}).status == 200


def test_a_timeout_without_end(client: Client, server: Server) -> None:
    meta = {"download_timeout": float("inf")}
    assert client.fetch(f"{server.url}/page", meta=meta).status == 200


def test_the_size_from_which_on_to_warn(
    client: Client, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    response = client.fetch(f"{server.url}/bytes?size=1000", meta={"download_warnsize": 500})
    assert len(response.body) == 1000
    (record,) = caplog.records
    assert "larger than download warn size (500)" in record.getMessage()


def test_interrupt_ends_a_transfer(client: Client, server: Server) -> None:
    def interrupt() -> None:
        while not server.received:
            time.sleep(0.01)
        time.sleep(0.2)
        client.transport.interrupt()

    thread = threading.Thread(target=interrupt)
    thread.start()
    started = time.monotonic()
    with pytest.raises(exceptions.DownloadCancelledError):
        client.fetch(f"{server.url}/slow?first=8")
    assert time.monotonic() - started < 5
    thread.join()
    assert client.fetch(f"{server.url}/page").status == 200


# Latency, and the signals that are sent on the way


def test_latency_is_that_of_the_first_byte(client: Client, server: Server) -> None:
    response = client.fetch(f"{server.url}/slow?first=0.3&pieces=5&delay=0.1")
    assert 0.25 < response.request.meta["download_latency"] < 0.7


@pytest.mark.parametrize("path", ["/page", "/slow?delay=0", "/gzip", "/close", "/duplicates"])
def test_signals_give_the_response_in_pieces(client: Client, server: Server, path: str) -> None:
    heads: list[dict[str, Any]] = []
    pieces: list[bytes] = []

    def on_headers(**arguments: Any) -> None:
        heads.append(arguments)

    def on_bytes(data: bytes, **arguments: Any) -> None:
        pieces.append(data)

    plain = client.fetch(server.url + path)
    client.crawler.signals.connect(on_headers, signals.headers_received)
    client.crawler.signals.connect(on_bytes, signals.bytes_received)
    watched = client.fetch(server.url + path)
    assert watched.body == plain.body == b"".join(pieces)
    (head,) = heads
    assert head["headers"] == watched.headers
    assert head["request"] is watched.request
    length = watched.headers.get("Content-Length")
    assert head["body_length"] == (int(length) if length else None)
    for attribute in ("status", "protocol", "ip_address", "flags"):
        assert getattr(watched, attribute) == getattr(plain, attribute)
    assert own_headers(server.received[1]) == own_headers(server.received[0]) == []


@pytest.mark.parametrize("fail", [False, True])
@pytest.mark.parametrize("signal", [signals.headers_received, signals.bytes_received])
def test_stop_download(client: Client, server: Server, signal: object, fail: bool) -> None:
    stopped: list[Request] = []

    def stop(request: Request, **arguments: Any) -> None:
        stopped.append(request)
        raise StopDownload(fail=fail)

    client.crawler.signals.connect(stop, signal)
    url = f"{server.url}/slow?delay=0.05"
    if fail:
        with pytest.raises(StopDownload) as caught:
            client.fetch(url)
        response = caught.value.response
        assert response is not None
        response.request = stopped[0]
    else:
        response = client.fetch(url)
    assert response is not None
    assert response.status == 200
    assert response.flags == ["download_stopped"]
    assert response.body == (b"" if signal is signals.headers_received else b"piece")
    assert str(response.ip_address) == "127.0.0.1"
    assert 0 < response.request.meta["download_latency"] < 5
    client.crawler.signals.disconnect(stop, signal)
    assert client.fetch(f"{server.url}/page").status == 200


def test_stopped_responses_have_the_certificate(client: Client, tls_server: Server) -> None:
    def stop(**arguments: Any) -> None:
        raise StopDownload(fail=False)

    client.crawler.signals.connect(stop, signals.headers_received)
    assert client.fetch(f"{tls_server.url}/page").certificate is not None


# Connections


class CountedHandle:
    """Stands for a libcurl handle, which needs none for what is asked here."""

    closed = 0

    def close(self) -> None:
        self.closed += 1


def counted(limit: int) -> tuple[IdleConnections, list[Connection]]:
    made: list[Connection] = []

    def make() -> Connection:
        made.append(Connection(CountedHandle()))  # type: ignore[arg-type]
        return made[-1]

    return IdleConnections(make, limit), made


def test_a_connection_is_used_again_for_its_place() -> None:
    idle, made = counted(10)
    first = idle.take("a")
    idle.give("a", first)
    assert idle.take("b") is not first
    assert idle.take("a") is first
    assert len(made) == 2


def test_the_latest_connection_comes_first() -> None:
    idle, _ = counted(10)
    first, second = idle.take("a"), idle.take("a")
    idle.give("a", second)
    idle.give("a", first)
    assert idle.take("a") is first
    assert idle.take("a") is second


def test_above_the_limit_the_one_longest_idle_moves() -> None:
    idle, made = counted(2)
    first, second = idle.take("a"), idle.take("b")
    idle.give("b", second)
    idle.give("a", first)
    assert idle.take("c") is second
    idle.give("c", second)
    assert idle.take("c") is second
    assert idle.take("b") is first
    assert len(made) == 2


def test_a_busy_crawl_gets_more_than_the_limit() -> None:
    idle, made = counted(1)
    taken = [idle.take("a") for _ in range(3)]
    assert len(set(map(id, taken))) == len(made) == 3


def test_closing_closes_all() -> None:
    idle, _ = counted(5)
    used = idle.take("a")
    resting = idle.take("b")
    idle.give("b", resting)
    idle.close()
    assert [one.handle.closed for one in (used, resting)] == [0, 1]  # type: ignore[attr-defined]


def test_after_closing_connections_are_kept_again() -> None:
    idle, made = counted(1)
    idle.give("a", idle.take("a"))
    idle.close()
    idle.give("a", idle.take("a"))
    assert idle.take("a") is made[1]


def test_options_are_set_only_when_they_change() -> None:
    calls: list[tuple[object, ...]] = []

    class Handle(CountedHandle):
        def setopt(self, option: int, value: object) -> None:
            calls.append(("set", option, value))

        def unsetopt(self, option: int) -> None:
            calls.append(("unset", option))

    connection = Connection(Handle())  # type: ignore[arg-type]
    for value in ("a", "a", None, None, "b"):
        connection.set(1, value)
    connection.forget(1)
    connection.set(1, "b")
    assert calls == [("set", 1, "a"), ("unset", 1), ("set", 1, "b"), ("set", 1, "b")]


def test_requests_to_one_place_share_a_connection(client: Client, server: Server) -> None:
    with serve() as other:
        for _ in range(5):
            client.fetch(f"{server.url}/page")
            client.fetch(f"{other.url}/page")
        assert (server.connections, other.connections) == (1, 1)


def test_a_connection_that_the_server_closed_is_opened_again(
    client: Client, server: Server
) -> None:
    for path in ("/close", "/page", "/cut", "/page"):
        meta = {"download_fail_on_dataloss": False}
        assert client.fetch(server.url + path, meta=meta).status == 200
    assert server.connections == 3


def test_idle_handles_keep_no_download_alive(client: Client, server: Server) -> None:
    import gc
    import weakref

    client.crawler.signals.connect(test_response, signals.bytes_received)  # so that it is watched
    client.crawler.signals.disconnect(test_response, signals.bytes_received)
    request = Request(f"{server.url}/bytes?size=100000")
    download = Download(request, client.rules, lambda function, *args: function(*args))
    client.transport.fetch(request, download)
    gone = weakref.ref(download)
    del download
    gc.collect()
    assert gone() is None


def test_idle_handles_keep_no_body_alive(client: Client, server: Server) -> None:
    body = b"x" * 1000
    client.fetch(f"{server.url}/page", method="POST", body=body)
    assert all(body not in connection._options.values() for connection in idle(client))
    assert client.fetch(f"{server.url}/page").status == 200
    assert [one.method for one in server.received] == ["POST", "GET"]


@pytest.mark.skipif(sys.platform != "linux", reason="loopback has one address only")
def test_a_bind_address_does_not_stay_for_the_next_place(
    make_client: MakeClient, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(curl, "MOST_IDLE", 1)
    client = make_client()
    for address in ("127.0.0.9", None, "127.0.0.8"):
        client.fetch(f"{server.url}/page", meta={"bindaddress": address})
    assert [one.client for one in server.received] == ["127.0.0.9", "127.0.0.1", "127.0.0.8"]


def test_no_memory_for_a_body(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    if not curl.has_memory_handles():
        pytest.skip("this system has no memory handles")
    client = Client({})
    with monkeypatch.context() as patch:
        patch.setattr(ctypes, "string_at", Mock(side_effect=MemoryError))
        with pytest.raises(MemoryError):
            client.fetch(f"{server.url}/bytes?size=5000000")
    assert len(client.fetch(f"{server.url}/bytes?size=10").body) == 10
    assert client.fetch(f"{server.url}/status?code=204").body == b""
    client.transport.close()


@pytest.mark.parametrize(
    ("option", "value"), [(pycurl.CAINFO, 5), (pycurl.LOW_SPEED_LIMIT, "5"), (pycurl.CAINFO, ["5"])]
)
def test_extra_options_of_the_wrong_type(
    option: int, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CurlTransport, "extra_options", {option: value})
    with pytest.raises(ValueError, match=f"libcurl's option {option} takes no "):
        Client({})


def test_an_extra_option_that_is_a_function(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    purposes = []

    def open_socket(purpose: int, address: Any) -> socket.socket:
        purposes.append(purpose)
        return socket.socket(address.family, address.socktype, address.protocol)

    options = {pycurl.OPENSOCKETFUNCTION: open_socket}
    monkeypatch.setattr(CurlTransport, "extra_options", options)
    client = Client({})
    assert client.fetch(f"{server.url}/page").status == 200
    assert purposes == [pycurl.SOCKTYPE_IPCXN]
    client.transport.close()


def test_the_successor_of_the_only_worker_keeps_connections(client: Client, server: Server) -> None:
    client.fetch(f"{server.url}/page")
    client.transport.close()
    client.transport = type(client.transport)(client._shared)
    for _ in range(3):
        client.fetch(f"{server.url}/page")
    assert server.connections == 2


def test_echo_is_what_was_sent(client: Client, server: Server) -> None:
    """The server is the witness of most tests here, so it is asked in another way once."""
    echo = json.loads(client.fetch(f"{server.url}/echo", method="POST", body="é".encode()).body)
    assert echo["method"] == "POST"
    assert echo["body"].encode("latin-1").decode() == "é"
