"""The default transport: libcurl, through pycurl."""

from __future__ import annotations

import logging
import threading
from collections.abc import Hashable, Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar

import pycurl
from scrapy.exceptions import NotSupported

from ..settings import get as get_setting
from ..settings import http_versions
from . import keylog, lenient
from .base import Transport
from .connections import Connection, IdleConnections
from .curl_options import (
    FIXED_OPTIONS,
    HTTP_VERSIONS,
    header_line,
    header_lines,
    set_method,
    split_url,
    tls_options,
)
from .curl_outcome import BadHeaderError, describe, learn, mark_partial, transfer
from .libcurl import Handle, MemoryHandle, StreamingHandle, has_memory_handles
from .proxies import proxy_credentials, proxy_url

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from typing_extensions import Self

    from ..download import Download, RawResponse

logger = logging.getLogger(__name__)

# Idle connections that are kept, since a crawl of many sites comes back to each. A process often
# may have no more than 1,024 files open.
MOST_IDLE = 128


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
        shared = Shared(crawler, cls.extra_options)
        shared.try_options()
        return shared

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
            shared.prepare(connection, place, request, download, proxy)
            connection.set(pycurl.FRESH_CONNECT, int(not connection.is_fit(place)))
            return transfer(connection, place, request, download)
        except BadHeaderError as error:
            if not (self.asks_again and lenient.is_possible(request, proxy)):
                raise
            logger.debug("%s in the response to %s; asking once more", error, request)
        finally:
            with self._lock:
                self._running = None
            idle.give(place, connection)
        return self._fetch_leniently(place, request, download, proxy, deadline)

    def _fetch_leniently(
        self,
        place: Hashable,
        request: Request,
        download: Download,
        proxy: str | None,
        deadline: float,
    ) -> RawResponse:
        connection = self._running = self._shared.make_streaming()
        try:
            self._shared.prepare(connection, place, request, download, proxy)
            response = lenient.fetch(connection, request, download, deadline)
            learn(connection, request)
            return mark_partial(describe(response, connection), request)
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
        self.options = {**FIXED_OPTIONS, **tls_options(settings), **extra_options}
        self._http_version = get_setting(settings, "THREADPOOL_HTTP_VERSION")
        self._http_versions = http_versions()
        self._bind_address = settings.get("DOWNLOAD_BIND_ADDRESS")
        _host_and_port(self._bind_address)
        self.streaming = IdleConnections(self.make_streaming, MOST_IDLE)
        self.plain = self.streaming
        self._describes_tls = settings.getbool("DOWNLOADER_CLIENT_TLS_VERBOSE_LOGGING")
        if has_memory_handles() and not self._describes_tls:
            self.plain = IdleConnections(self._make_plain, MOST_IDLE)
        self._users = 0
        self._lock = threading.Lock()

    def try_options(self) -> None:
        """Make a handle of each kind.

        :raises ValueError: libcurl does not take one of the options.
        """
        self.make_streaming().handle.close()
        if self.plain is not self.streaming:
            try:
                self._make_plain().handle.close()
            except ValueError:  # such as a callback, which only pycurl can give to libcurl
                self.plain = self.streaming

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
        origin = split_url(request.url)[0].lower()
        bind = meta.get("bindaddress") or self._bind_address
        version = str(meta.get("http_version", self._http_version))
        credentials = request.headers.get(b"Proxy-Authorization") if proxy else None
        return (origin, proxy, credentials, str(bind), version)

    def prepare(
        self,
        connection: Connection,
        place: Hashable,
        request: Request,
        download: Download,
        proxy: str | None,
    ) -> None:
        """Set the options of *connection* for *request*, which leads to *place*."""
        set_option = connection.set
        origin, target = split_url(request.url)
        if proxy and proxy.startswith("http") and origin.startswith("http:"):
            target = origin + target
        elif not target.startswith("/"):
            target = f"/{target}"
        set_option(pycurl.REQUEST_TARGET, target.encode())
        set_option(pycurl.TIMEOUT_MS, max(1, int(download.timeout * 1000)))
        set_option(pycurl.MAXFILESIZE_LARGE, max(0, download.maxsize))
        set_method(connection, request)
        set_option(pycurl.HTTPHEADER, header_lines(request, request.headers))
        if connection.prepared_for != place:
            connection.prepared_for = None
            connection.set(pycurl.URL, origin)
            self._set_route(connection, request, proxy)
            connection.prepared_for = place

    def _set_route(self, connection: Connection, request: Request, proxy: str | None) -> None:
        version = request.meta.get("http_version", self._http_version)
        if str(version) not in self._http_versions:
            allowed = ", ".join(self._http_versions)
            raise NotSupported(f"http_version must be one of {allowed}, not {version!r}")
        connection.set(pycurl.HTTP_VERSION, HTTP_VERSIONS[str(version)])
        host, port = _host_and_port(request.meta.get("bindaddress") or self._bind_address)
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
                lines.append(header_line(b"Proxy-Authorization", authorization))
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
        """Return a connection with *handle* and the options that all requests share.

        :raises ValueError: libcurl does not take one of them.
        """
        connection = Connection(handle)
        for option, value in self.options.items():
            try:
                connection.set(option, value)
            except (TypeError, ValueError, pycurl.error) as error:
                handle.close()
                raise ValueError(f"libcurl's option {option} takes no {value!r}") from error
        return connection


def _host_and_port(address: Any) -> tuple[str | None, int]:
    """Return the parts of a bind address, as Scrapy takes it.

    :raises ValueError: it is none.
    """
    is_pair = isinstance(address, (list, tuple)) and len(address) == 2
    host, port = address if is_pair else (address, 0)
    if not isinstance(host or "", str) or not isinstance(port, int):
        raise ValueError(
            "DOWNLOAD_BIND_ADDRESS and request.meta['bindaddress'] must be a host, or a pair of a "
            f"host and a port, not {address!r}"
        )
    return host or None, port
