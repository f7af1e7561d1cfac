"""A small HTTP server on loopback, a thread for each connection, that notes what it is asked."""

from __future__ import annotations

import gzip
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class Received:
    """A request as it came over the wire, and from which address.

    *connection* is a number, from 1 in order of opening.
    """

    method: str
    target: str
    version: str
    headers: list[tuple[str, str]]
    body: bytes
    connection: int
    at: float
    client: str

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    def header(self, name: str) -> list[str]:
        """Return the values of the header *name*."""
        return [value for other, value in self.headers if other.lower() == name.lower()]


@dataclass
class Server:
    """A running server: where it is, and what it was asked."""

    url: str
    received: list[Received] = field(default_factory=list)
    connections: int = 0
    most_at_once: int = 0
    open_now: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def paths(self) -> list[str]:
        """Return the paths that were asked for, in order."""
        return [one.path for one in self.received]


class _Handler(BaseHTTPRequestHandler):
    """Answers by path: see the methods; every other path gives a small page.

    The head of a request is read here rather than by the standard library, which would hide how
    headers were written.
    """

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _HTTPServer
    received: Received

    def handle(self) -> None:
        shared = self.server.shared
        with shared.lock:
            shared.connections += 1
            self._connection = shared.connections
        self.close_connection = False
        try:
            while not self.close_connection and self._read():
                self._answer()
        except (ConnectionError, ssl.SSLError, TimeoutError):
            pass

    def _read(self) -> bool:
        line = self.rfile.readline().rstrip(b"\r\n")
        if not line:
            return False
        method, target, version = line.decode("latin-1").split(" ", 2)
        self.command, self.path, self.request_version = method, target, version
        self.requestline = line.decode("latin-1")
        headers = []
        while line := self.rfile.readline().rstrip(b"\r\n"):
            name, _, value = line.decode("latin-1").partition(":")
            headers.append((name, value[1:] if value.startswith(" ") else value))
        length = next((int(v) for n, v in headers if n.lower() == "content-length"), 0)
        self.received = Received(
            method,
            target,
            version,
            headers,
            self.rfile.read(length),
            self._connection,
            time.time(),
            self.client_address[0],
        )
        self.server.shared.received.append(self.received)
        return True

    def _answer(self) -> None:
        shared = self.server.shared
        with shared.lock:
            shared.open_now += 1
            shared.most_at_once = max(shared.most_at_once, shared.open_now)
        try:
            name = self.received.path.strip("/").partition("/")[0].replace(".", "_")
            query = {key: values[0] for key, values in parse_qs(self._query()).items()}
            getattr(self, f"answer_{name}", self.answer_page)(**query)
        finally:
            with shared.lock:
                shared.open_now -= 1

    def _query(self) -> str:
        return urlsplit(self.received.target).query

    def send(
        self,
        body: bytes = b"",
        status: int = 200,
        headers: list[tuple[str, str]] | None = None,
        content_type: str = "text/html; charset=utf-8",
    ) -> None:
        """Send a whole answer."""
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        for name, value in headers or []:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.received.method != "HEAD":
            self.wfile.write(body)

    # The answers: the first part of the path names one, the query gives its parameters

    def answer_page(self, delay: str = "0", **others: str) -> None:
        time.sleep(float(delay))
        self.send(f"<html><body><h1>{self.received.path}</h1></body></html>".encode())

    def answer_echo(self) -> None:
        one = self.received
        content = {
            "method": one.method,
            "target": one.target,
            "headers": one.headers,
            "body": one.body.decode("latin-1"),
            "connection": one.connection,
        }
        self.send(json.dumps(content).encode(), content_type="application/json")

    def answer_status(self, code: str = "200") -> None:
        self.send(b"as asked", int(code))

    def answer_flaky(self) -> None:
        asked = self.server.shared.paths().count(self.received.path)
        self.send(b"at last" if asked > 2 else b"not yet", 200 if asked > 2 else 503)

    def answer_redirect(self, to: str = "/page", code: str = "302") -> None:
        self.send(b"elsewhere", int(code), [("Location", to)])

    def answer_login(self) -> None:
        self.send(b"welcome", headers=[("Set-Cookie", "session=1"), ("Set-Cookie", "b=2; Path=/")])

    def answer_robots_txt(self) -> None:
        self.send(b"User-agent: *\nDisallow: /private\n", content_type="text/plain")

    def answer_private(self) -> None:
        expected = "Basic dXNlcjpwYXNz"  # user:pass
        if self.received.header("Authorization") == [expected]:
            self.send(b"the secret")
        else:
            self.send(b"who are you?", 401, [("WWW-Authenticate", "Basic realm=private")])

    def answer_gzip(self, times: str = "1") -> None:
        body = b"<html><body><p>compressed</p></body></html>" * int(times)
        self.send(gzip.compress(body, mtime=0), headers=[("Content-Encoding", "gzip")])

    def answer_duplicates(self) -> None:
        self.send(b"", headers=[("X-One", "a"), ("X-Two", "b"), ("X-One", "c"), ("X-Empty", "")])

    def answer_bytes(self, size: str = "10") -> None:
        self.send(bytes(index % 256 for index in range(int(size))), content_type="image/png")

    def answer_slow(self, pieces: str = "3", delay: str = "0.1", first: str = "0") -> None:
        time.sleep(float(first))
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for _ in range(int(pieces)):
            self.wfile.write(b"5\r\npiece\r\n")
            self.wfile.flush()
            time.sleep(float(delay))
        self.wfile.write(b"0\r\n\r\n")

    def answer_cut(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\nX-Cut: yes\r\n\r\ntoo short")
        self.close_connection = True

    def answer_close(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nuntil the end")
        self.close_connection = True

    def answer_nothing(self) -> None:
        self.close_connection = True

    def log_message(self, *args: Any) -> None:
        pass


class _HTTPServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    shared: Server

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


@contextmanager
def serve(certificate: Path | None = None, key: Path | None = None) -> Iterator[Server]:
    """Serve on a free port of loopback, with TLS where there is a *certificate* with its *key*."""
    httpd = _HTTPServer(("127.0.0.1", 0), _Handler)
    scheme = "http"
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        httpd.socket = context.wrap_socket(
            httpd.socket, server_side=True, do_handshake_on_connect=False
        )
        scheme = "https"
    httpd.shared = Server(f"{scheme}://localhost:{httpd.server_port}")
    if scheme == "http":
        httpd.shared.url = f"http://127.0.0.1:{httpd.server_port}"
    thread = threading.Thread(target=httpd.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield httpd.shared
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join(10)
