"""A second attempt at a response that libcurl refuses for a bad header line.

libcurl connects, through the same proxy, from the same address and with the same TLS options, and
leaves the talking to this module, which skips such lines, as browsers and Scrapy's own handler do.
The body is left to :mod:`http.client`.
"""

from __future__ import annotations

import io
from http.client import HTTPException, HTTPResponse
from time import monotonic
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pycurl

from .._compat import DownloadFailedError, DownloadTimeoutError, ResponseDataLossError
from .connections import Connection
from .head import Head, parse_head
from .libcurl import is_readable

if TYPE_CHECKING:
    from scrapy import Request

    from ..download import Download, RawResponse

_LARGEST_HEAD = 300 * 1024  # as in libcurl
_FRAMING = (b"content-length", b"transfer-encoding")


def is_possible(request: Request, proxy: str | None) -> bool:
    """Return whether *request* can be sent a second time, and by this module."""
    if request.method not in ("GET", "HEAD") or request.body:
        return False
    forwarded = proxy and proxy.startswith("http") and request.url.startswith("http:")
    return not forwarded and hasattr(pycurl.Curl, "recv_into")


def fetch(
    connection: Connection, request: Request, download: Download, deadline: float
) -> RawResponse:
    """Download *request* on a new connection and return what came; raises Scrapy's exceptions.

    :param connection: of a streaming handle, with the options for the request.
    :param deadline: the monotonic time until which the download may take.
    """
    handle: Any = connection.handle
    wire = _Wire(handle, deadline, request)
    connection.set(pycurl.CONNECT_ONLY, 1)
    connection.set(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
    started = monotonic()
    try:
        handle.perform()
        wire.send(_request_head(request))
    except pycurl.error as error:
        raise DownloadFailedError(error.args[1]) from error
    reader: io.BufferedReader[Any] = io.BufferedReader(wire)
    head = _read_head(reader)
    download.headers_received(
        head.status,
        head.headers,
        protocol=head.protocol,
        latency=monotonic() - started,
    )
    try:
        body = _body(head, reader, request)
        while piece := body.read(65536):
            download.bytes_received(piece)
        if body.length:
            raise ConnectionError(f"{body.length} bytes of the body are missing")
    except (HTTPException, ConnectionError) as error:
        raise ResponseDataLossError(str(error)) from error
    return download.response()


class _Wire(io.RawIOBase):
    """The bytes that the server sends, read from a connected handle until *deadline*."""

    def __init__(self, handle: Any, deadline: float, request: Request):
        self._handle = handle
        self._deadline = deadline
        self._request = request

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while True:
            try:
                return int(self._handle.recv_into(buffer))
            except BlockingIOError:
                self._wait()
            except pycurl.error as error:
                raise ConnectionError(error.args[1]) from error

    def send(self, data: bytes) -> None:
        while data:
            data = data[self._handle.send(data) :]

    def _wait(self) -> None:
        socket = self._handle.getinfo(pycurl.LASTSOCKET)
        while not is_readable(socket, 0.2):
            if monotonic() > self._deadline or self._handle.interrupted:
                raise DownloadTimeoutError(f"Getting {self._request.url} took too long.")


def _request_head(request: Request) -> bytes:
    url = urlsplit(request.url)
    target = url._replace(scheme="", netloc="", fragment="").geturl() or "/"
    lines = [f"{request.method} {target} HTTP/1.1".encode()]
    if b"Host" not in request.headers:
        lines.append(b"Host: " + url.netloc.rpartition("@")[2].encode())
    for name, values in request.headers.items():
        if name not in (b"Connection", b"Proxy-Authorization"):
            lines += [name + b": " + b" ".join(value.split(b"\n")) for value in values]
    return b"\r\n".join([*lines, b"Connection: close", b"", b""])


def _read_head(reader: io.BufferedReader[Any]) -> Head:
    """Read up to the end of the head of the final response."""
    lines = bytearray()
    while True:
        line = reader.readline(_LARGEST_HEAD)
        lines += line
        if not line or len(lines) > _LARGEST_HEAD:
            raise DownloadFailedError("the head of the response has no end, or is too large")
        if not line.strip() and (head := parse_head(bytes(lines))):
            return head


def _body(head: Head, reader: io.BufferedReader[Any], request: Request) -> HTTPResponse:
    """Return a response of the standard library that is about to read the body."""
    if len({value for name, value in head.headers if name.lower() == b"content-length"}) > 1:
        raise DownloadFailedError("the response has several lengths")
    lines = [f"HTTP/1.1 {head.status} -".encode()]
    lines += [name + b": " + value for name, value in head.headers if name.lower() in _FRAMING]
    framed = io.BytesIO(b"\r\n".join([*lines, b"Connection: close", b"", b""]))
    socket: Any = _Socket(framed)
    response = HTTPResponse(socket, method=request.method)
    response.begin()
    response.fp = reader
    return response


class _Socket:
    """What an ``HTTPResponse`` needs of a socket."""

    def __init__(self, file: Any):
        self._file = file

    def makefile(self, mode: str) -> Any:
        return self._file
