"""The default transport: libcurl, through pycurl."""

from __future__ import annotations

import logging
import re
import ssl
import threading
from collections.abc import Hashable, Mapping
from functools import lru_cache
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urldefrag, urlsplit

import pycurl
from cryptography.x509 import load_der_x509_certificate

from .._compat import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    ResponseDataLossError,
    verifies_certificates,
)
from ..download import RawResponse, expected_size
from ..settings import get as get_setting
from ..settings import http_versions
from . import keylog, lenient
from .base import Transport
from .connections import Connection, IdleConnections
from .head import parse_head
from .libcurl import Handle, MemoryHandle, StreamingHandle, Transfer, has_memory_handles
from .proxies import proxy_credentials, proxy_url

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Headers
    from typing_extensions import Self

    from ..download import Download

logger = logging.getLogger(__name__)

# libcurl's numbers for what pycurl has no names for (include/curl/curl.h)
_SUPPRESS_CONNECT_HEADERS = 265
_HTTP_VERSION_2TLS = 4
_E_WEIRD_SERVER_REPLY = 8
_E_HTTP2_STREAM = 92
_E_PROXY = 97

_HTTP_VERSIONS = {
    "1.1": pycurl.CURL_HTTP_VERSION_1_1,
    "2": _HTTP_VERSION_2TLS,
    "3": pycurl.CURL_HTTP_VERSION_3,
}
_TLS_VERSIONS = {
    "TLSv1.0": (pycurl.SSLVERSION_TLSv1_0, pycurl.SSLVERSION_MAX_TLSv1_0),
    "TLSv1.1": (pycurl.SSLVERSION_TLSv1_1, pycurl.SSLVERSION_MAX_TLSv1_1),
    "TLSv1.2": (pycurl.SSLVERSION_TLSv1_2, pycurl.SSLVERSION_MAX_TLSv1_2),
    "TLSv1.3": (pycurl.SSLVERSION_TLSv1_3, pycurl.SSLVERSION_MAX_TLSv1_3),
}
# Idle connections that are kept, since a crawl of many sites comes back to each. A process often
# may have no more than 1,024 files open.
MOST_IDLE = 128
_ERRORS: dict[int, type[Exception]] = {
    pycurl.E_COULDNT_RESOLVE_HOST: CannotResolveHostError,
    pycurl.E_COULDNT_RESOLVE_PROXY: CannotResolveHostError,
    pycurl.E_COULDNT_CONNECT: DownloadConnectionRefusedError,
    _E_PROXY: DownloadConnectionRefusedError,
    pycurl.E_ABORTED_BY_CALLBACK: DownloadCancelledError,
}
# How libcurl's messages begin for a response that it refuses for one line of its head
_BAD_HEADERS = ("header without colon", "nul byte in header")
# What methods and header names are made of (RFC 9110, 5.6.2)
_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# How a body that has begun ends when the connection is lost
_LOSS = {
    pycurl.E_PARTIAL_FILE,
    pycurl.E_RECV_ERROR,
    pycurl.E_HTTP2,
    _E_HTTP2_STREAM,
}


class CurlTransport(Transport):
    """libcurl in a worker thread: HTTP/1.1, 2 and 3, TLS, HTTP and SOCKS proxies.

    Connections are shared by all workers, and follow the site: see :class:`IdleConnections`.

    :cvar extra_options: options of libcurl for every transfer, by pycurl's constants, for what no
        setting is there for.
    """

    #: Whether a response that libcurl refuses for a bad header line is asked for once more
    asks_again = True
    extra_options: ClassVar[Mapping[int, object]] = {}

    @classmethod
    def share(cls, crawler: Crawler, options: Mapping[str, Any]) -> Shared:
        super().share(crawler, options)
        return cls._make_shared(crawler)

    @classmethod
    def _make_shared(cls, crawler: Crawler) -> Shared:
        return Shared(crawler, cls.extra_options)

    @classmethod
    def from_crawler(cls, crawler: Crawler, options: Mapping[str, Any], shared: Shared) -> Self:
        return cls(shared)

    def __init__(self, shared: Shared):
        self._shared = shared
        self._shared.open()
        self._running: Connection | None = None
        # Held to interrupt a transfer and to end one: what is given back may be another's by then.
        self._lock = threading.Lock()

    def fetch(self, request: Request, download: Download) -> RawResponse:
        shared = self._shared
        idle = shared.streaming if download.watched else shared.plain
        proxy = proxy_url(request)
        place = shared.place(request, proxy)
        deadline = monotonic() + download.timeout
        connection = self._running = idle.take(place)
        try:
            shared.prepare(connection, request, download, proxy)
            connection.set(pycurl.FRESH_CONNECT, int(not connection.is_fit(place)))
            return _transfer(connection, place, request, download)
        except _BadHeaderError as error:
            if not (self.asks_again and lenient.is_possible(request, proxy)):
                raise
            logger.debug("%s in the response to %s; asking once more", error, request)
        finally:
            with self._lock:
                self._running = None
            idle.give(place, connection)
        return self._fetch_leniently(request, download, proxy, deadline)

    def _fetch_leniently(
        self, request: Request, download: Download, proxy: str | None, deadline: float
    ) -> RawResponse:
        connection = self._running = self._shared.make_streaming()
        try:
            self._shared.prepare(connection, request, download, proxy)
            response = lenient.fetch(connection, request, download, deadline)
            _learn(connection, request)
            return _mark_partial(_describe(response, connection), request)
        finally:
            self._running = None
            connection.handle.close()

    def interrupt(self) -> None:
        with self._lock:
            if self._running is not None:
                self._running.handle.interrupt()

    def close(self) -> None:
        self._shared.close()


class Shared:
    """What the curl transports of a crawl share: options from the settings, and connections.

    :raises ValueError: a setting has a value that is not allowed.
    """

    def __init__(self, crawler: Crawler, extra_options: Mapping[int, object]):
        settings = crawler.settings
        keylog.follow_environment()
        self.options = {**_FIXED_OPTIONS, **_tls_options(settings), **extra_options}
        self._http_version = get_setting(settings, "THREADPOOL_HTTP_VERSION")
        self._http_versions = http_versions()
        self._bind_address = settings.get("DOWNLOAD_BIND_ADDRESS")
        self.streaming = IdleConnections(self.make_streaming, MOST_IDLE)
        self.plain = self.streaming
        self._describes_tls = settings.getbool("DOWNLOADER_CLIENT_TLS_VERBOSE_LOGGING")
        if has_memory_handles() and not self._describes_tls:
            self.plain = IdleConnections(self._make_plain, MOST_IDLE)
        self._users = 0
        self._lock = threading.Lock()

    def open(self) -> None:
        """Count one more transport that uses this."""
        keylog.use()
        with self._lock:
            self._users += 1

    def close(self) -> None:
        """Count one less, and close the idle connections with the last."""
        with self._lock:
            self._users -= 1
            last = not self._users
        if last:
            self.plain.close()
            self.streaming.close()
        keylog.unuse()

    def place(self, request: Request, proxy: str | None) -> Hashable:
        """Return what a connection must share with another to serve *request*."""
        meta = request.meta
        url = urlsplit(request.url)
        bind = meta.get("bindaddress") or self._bind_address
        version = str(meta.get("http_version", self._http_version))
        credentials = request.headers.get(b"Proxy-Authorization") if proxy else None
        return (url.scheme, url.hostname, url.port, proxy, credentials, str(bind), version)

    def prepare(
        self, connection: Connection, request: Request, download: Download, proxy: str | None
    ) -> None:
        """Set the options of *connection* that are different for each request."""
        set_option = connection.set
        set_option(pycurl.URL, _url(request))
        set_option(pycurl.TIMEOUT_MS, max(1, int(download.timeout * 1000)))
        set_option(pycurl.MAXFILESIZE_LARGE, download.maxsize)
        _set_method(connection, request)
        set_option(pycurl.HTTPHEADER, header_lines(request, request.headers))
        self._set_route(connection, request, proxy)

    def _set_route(self, connection: Connection, request: Request, proxy: str | None) -> None:
        version = request.meta.get("http_version", self._http_version)
        if str(version) not in self._http_versions:
            allowed = ", ".join(self._http_versions)
            raise ValueError(f"http_version must be one of {allowed}, not {version!r}")
        connection.set(pycurl.HTTP_VERSION, _HTTP_VERSIONS[str(version)])
        bind = request.meta.get("bindaddress") or self._bind_address
        host, port = (bind, 0) if isinstance(bind, str) or not bind else bind
        connection.set(pycurl.INTERFACE, f"host!{host}" if host else None)
        connection.set(pycurl.LOCALPORT, port)
        connection.set(pycurl.PROXY, proxy or "")
        lines: list[bytes] = []
        credentials = None
        if proxy and proxy.startswith("socks"):
            credentials = proxy_credentials(request)
        elif proxy:
            lines = [b"Proxy-Connection:"]  # without it, libcurl sends one
            if authorization := request.headers.get(b"Proxy-Authorization"):
                lines.append(_header_line(b"Proxy-Authorization", authorization))
        user, password = credentials or (None, None)
        connection.set(pycurl.PROXYUSERNAME, user)
        connection.set(pycurl.PROXYPASSWORD, password)
        connection.set(pycurl.PROXYHEADER, lines or None)

    def _make_plain(self) -> Connection:
        return self.make(MemoryHandle())

    def make_streaming(self) -> Connection:
        """Return a new connection that gives a download what comes in, as it comes in."""
        handle = StreamingHandle()
        if self._describes_tls:
            handle.describe_tls()
        return self.make(handle)

    def make(self, handle: Handle) -> Connection:
        """Return a connection with *handle* and the options that all requests share."""
        connection = Connection(handle)
        for option, value in self.options.items():
            connection.set(option, value)
        return connection


_FIXED_OPTIONS: dict[int, object] = {
    pycurl.NOSIGNAL: 1,
    pycurl.PROTOCOLS: pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS,
    pycurl.PATH_AS_IS: 1,
    pycurl.HTTP_CONTENT_DECODING: 0,
    pycurl.NOPROXY: "",  # without it, libcurl reads no_proxy from the environment
    pycurl.HEADEROPT: pycurl.HEADER_SEPARATE,
    _SUPPRESS_CONNECT_HEADERS: 1,
    pycurl.MAXCONNECTS: 1,
    pycurl.OPT_CERTINFO: 1,
}


def _tls_options(settings: Any) -> dict[int, object]:
    verify = verifies_certificates(settings)
    lowest = _tls_version(settings, "DOWNLOAD_TLS_MIN_VERSION", 0, pycurl.SSLVERSION_DEFAULT)
    highest = _tls_version(settings, "DOWNLOAD_TLS_MAX_VERSION", 1, 0)
    options: dict[int, object] = {
        pycurl.SSL_VERIFYPEER: int(verify),
        pycurl.SSL_VERIFYHOST: 2 if verify else 0,
        pycurl.PROXY_SSL_VERIFYPEER: int(verify),
        pycurl.PROXY_SSL_VERIFYHOST: 2 if verify else 0,
        pycurl.SSLVERSION: lowest | highest,
    }
    if ciphers := settings.get("DOWNLOADER_CLIENT_TLS_CIPHERS"):
        options[pycurl.SSL_CIPHER_LIST] = ciphers
    if verify:
        paths = ssl.get_default_verify_paths()
        if paths.cafile:
            options[pycurl.CAINFO] = options[pycurl.PROXY_CAINFO] = paths.cafile
        if paths.capath:
            options[pycurl.CAPATH] = options[pycurl.PROXY_CAPATH] = paths.capath
    return options


def _tls_version(settings: Any, name: str, which: int, default: int) -> int:
    value = settings.get(name)
    if value is None:
        return default
    try:
        return int(_TLS_VERSIONS[value][which])
    except (KeyError, TypeError):
        allowed = ", ".join(_TLS_VERSIONS)
        raise ValueError(f"Unknown {name} value: {value}; it must be one of {allowed}") from None


def _url(request: Request) -> str:
    url = urldefrag(request.url)[0]
    if "@" in url:  # libcurl would make credentials of what stands before it in the host part
        parts = urlsplit(url)
        url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    return url


def _set_method(connection: Connection, request: Request) -> None:
    method, body = request.method, request.body
    if not _TOKEN.fullmatch(method.encode()):
        raise ValueError(f"{method!r} is no HTTP method")
    if method == "HEAD":
        if body:
            raise ValueError("libcurl cannot send a body with HEAD")
        connection.set(pycurl.CUSTOMREQUEST, None)
        _switch(connection, pycurl.NOBODY)
    elif body or method in ("POST", "PUT", "PATCH"):
        _switch(connection, pycurl.POST)
        connection.set(pycurl.POSTFIELDS, body)
        connection.set(pycurl.CUSTOMREQUEST, method)
    else:
        _switch(connection, pycurl.HTTPGET)
        connection.set(pycurl.CUSTOMREQUEST, None if method == "GET" else method)


def _switch(connection: Connection, option: int) -> None:
    """Set one of the options that exclude each other, if another was set last."""
    for other in (pycurl.NOBODY, pycurl.POST, pycurl.HTTPGET):
        if other != option:
            connection.forget(other)
    connection.set(option, 1)


@lru_cache(4096)
def _header_line(name: bytes, value: bytes) -> bytes:
    """Return a header in libcurl's writing; libcurl would send line ends and all."""
    if not _TOKEN.fullmatch(name):
        raise ValueError(f"{name!r} is no header name")
    if b"\n" in value or b"\r" in value:
        value = b" ".join(value.split())
    return name + b": " + value if value.strip() else name + b";"


def header_lines(request: Request, headers: Headers) -> list[bytes]:
    """Return the lines for *headers*, and those that keep libcurl from adding more."""
    lines = []
    names = set()
    for name, values in headers.items():
        lowered = name.lower()
        names.add(lowered)
        if lowered == b"proxy-authorization":
            continue
        lines += [_header_line(name, value) for value in values]
    if b"accept" not in names:
        lines.append(b"Accept:")
    if request.body or request.method in ("POST", "PUT", "PATCH"):
        if b"content-type" not in names:
            lines.append(b"Content-Type:")
        if b"expect" not in names:
            lines.append(b"Expect:")
    return lines


class _BadHeaderError(DownloadFailedError):
    """libcurl refuses a response for one line of its head."""


def _transfer(
    connection: Connection, place: Hashable, request: Request, download: Download
) -> RawResponse:
    """Run the transfer and return what came; raises Scrapy's exceptions."""
    handle = connection.handle
    started = monotonic()

    def on_head(lines: bytes) -> None:
        if head := parse_head(lines):
            latency = monotonic() - started
            download.headers_received(
                head.status, head.headers, protocol=head.protocol, latency=latency
            )

    transfer = handle.transfer(download, on_head)
    connection.note_transfer(place)
    _learn(connection, request)
    head = None if download.started else parse_head(transfer.head)
    if head and transfer.code:  # what came of it may be wanted nevertheless
        on_head(transfer.head)
        download.bytes_received(transfer.body)
    if download.started:
        response = download.response()
    elif head:
        response = RawResponse(head.status, head.headers, transfer.body, head.protocol)
    elif transfer.code:
        raise transfer.error or _error(transfer, request, download)
    else:  # for libcurl it is a success
        raise DownloadFailedError("the connection was closed in the head of the response")
    response.latency = handle.getinfo(pycurl.STARTTRANSFER_TIME_T) / 1e6
    connection.protocol = response.protocol
    _describe(response, connection)
    if transfer.code:
        raise transfer.error or _error(transfer, request, download)
    return _mark_partial(response, request)


def _learn(connection: Connection, request: Request) -> None:
    """Note whom a new connection leads to; later transfers on it no longer say."""
    handle = connection.handle
    if not handle.getinfo(pycurl.NUM_CONNECTS):
        return
    connection.ip_address = handle.getinfo(pycurl.PRIMARY_IP) or None
    connection.certificate = None
    if request.url.startswith("http:"):  # what libcurl says of TLS is about the proxy
        return
    for name, value in (chain := handle.getinfo(pycurl.INFO_CERTINFO)) and chain[0]:
        if name == "Cert":
            connection.certificate = ssl.PEM_cert_to_DER_cert(value.strip())
    if handle.tls:
        _log_tls(handle.getinfo(pycurl.EFFECTIVE_URL), handle.tls, connection.certificate)


def _log_tls(url: str, tls: str, certificate: bytes | None) -> None:
    """Log *tls*, as ``TLSv1.3 / TLS_AES_256_GCM_SHA384 / x25519 / …``, in Scrapy's words."""
    protocol, cipher, *_ = tls.split(" / ")
    host = urlsplit(url).hostname
    logger.debug("SSL connection to %s using protocol %s, cipher %s", host, protocol, cipher)
    if certificate:
        parsed = load_der_x509_certificate(certificate)
        logger.debug(
            'SSL connection certificate: issuer "%s", subject "%s"',
            parsed.issuer.rfc4514_string(),
            parsed.subject.rfc4514_string(),
        )


def _error(transfer: Transfer, request: Request, download: Download) -> Exception:
    """Return the exception that Scrapy expects for a transfer that failed."""
    code, message = transfer.code, transfer.message
    cause = pycurl.error(code, message)
    error: Exception
    if code == pycurl.E_OPERATION_TIMEDOUT:
        error = DownloadTimeoutError(
            f"Getting {request.url} took longer than {download.timeout} seconds."
        )
    elif code == pycurl.E_FILESIZE_EXCEEDED:
        error = _size_error(transfer, request, download)
    elif code == _E_WEIRD_SERVER_REPLY and message.lower().startswith(_BAD_HEADERS):
        error = _BadHeaderError(message)
    elif code in _LOSS and download.started:
        error = ResponseDataLossError(message)
    else:
        error = _ERRORS.get(code, DownloadFailedError)(message)
    error.__cause__ = cause
    return error


def _size_error(transfer: Transfer, request: Request, download: Download) -> Exception:
    head = parse_head(transfer.head)
    expected = expected_size(request, head.status, head.headers) if head else None
    try:
        if expected is not None:
            download.refuse_size(expected, expected=True)
        download.refuse_size(max(len(transfer.body), download.maxsize + 1), expected=False)
    except DownloadCancelledError as error:
        return error


def _describe(response: RawResponse, connection: Connection) -> RawResponse:
    response.ip_address = connection.ip_address
    response.certificate = connection.certificate
    return response


def _mark_partial(response: RawResponse, request: Request) -> RawResponse:
    if _ends_with_connection(request, response):
        response.flags.append("partial")
    return response


def _ends_with_connection(request: Request, response: RawResponse) -> bool:
    """Return whether only the end of the connection told where the body ends (RFC 9112, 6.3)."""
    if request.method == "HEAD" or response.status in (204, 304):
        return False
    if response.protocol not in ("HTTP/1.0", "HTTP/1.1"):
        return False
    return not any(
        name.lower() in (b"content-length", b"transfer-encoding") for name, _ in response.headers
    )
