"""Requests: a session for each worker, with whatever adapters and authentication it has."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from http.cookiejar import DefaultCookiePolicy
from time import monotonic
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, urldefrag, urlsplit

import requests
import urllib3
from requests import exceptions
from scrapy.exceptions import NotSupported
from scrapy.utils.misc import load_object
from urllib3.exceptions import (
    HTTPError,
    IncompleteRead,
    InsecureRequestWarning,
    NameResolutionError,
    NewConnectionError,
    ProtocolError,
    ReadTimeoutError,
)
from urllib3.util import SKIP_HEADER

from .._compat import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    ResponseDataLossError,
    verifies_certificates,
)
from .base import Transport
from .proxies import proxy_credentials, proxy_url

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from typing_extensions import Self

    from ..download import Download, RawResponse

_PIECE = 64 * 1024
# What urllib3 adds to a request that has no such header
_ADDED = ("Accept-Encoding", "User-Agent")
_PROTOCOLS = {10: "HTTP/1.0", 11: "HTTP/1.1", 20: "HTTP/2"}

Factory = Callable[[], requests.Session]


class RequestsTransport(Transport):
    """Requests in a worker thread, with a session of its own.

    The option ``session`` is a function, or its import path, that returns a new session: with
    authentication, adapters, or recorded answers. What Scrapy does is not done by the session:
    it follows no redirects, keeps no cookies of responses, decodes nothing, and reads no proxies
    or credentials from the environment.
    """

    @classmethod
    def share(cls, crawler: Crawler, options: Mapping[str, Any]) -> Factory:
        unknown = sorted(map(str, set(options) - {"session"}))
        if unknown:
            raise ValueError(f"unknown option {', '.join(unknown)}; there is session")
        if crawler.settings.get("DOWNLOAD_BIND_ADDRESS"):
            raise ValueError("requests cannot heed DOWNLOAD_BIND_ADDRESS: unset it")
        if not verifies_certificates(crawler.settings):
            urllib3.disable_warnings(InsecureRequestWarning)  # one for every request
        return _factory(options.get("session", requests.Session))

    @classmethod
    def from_crawler(cls, crawler: Crawler, options: Mapping[str, Any], shared: Factory) -> Self:
        settings = crawler.settings
        session = _restrain(shared())
        if session.verify is True:
            session.verify = verifies_certificates(settings) and _certificates()
        return cls(session, settings.get("HTTPPROXY_AUTH_ENCODING", "latin-1"))

    def __init__(self, session: requests.Session, proxy_encoding: str):
        self._session = session
        self._proxy_encoding = proxy_encoding
        self._response: requests.Response | None = None
        self._interrupted = False

    def fetch(self, request: Request, download: Download) -> RawResponse:
        if request.meta.get("bindaddress"):
            raise NotSupported("requests cannot heed request.meta['bindaddress']")
        self._interrupted = False
        started = monotonic()
        deadline = started + download.timeout
        try:
            response = self._send(request, download.timeout)
        except (exceptions.RequestException, HTTPError) as error:
            raise _error(error, request, download) from error
        self._response = response
        try:
            _receive_head(response, download, monotonic() - started)
            for piece in _pieces(response.raw):
                if self._interrupted or monotonic() > deadline:
                    break
                download.bytes_received(piece)
            if self._interrupted:  # which looks like the end of a body that has no length
                raise DownloadCancelledError("interrupted")
            if monotonic() > deadline:
                raise download.timeout_error()
            return download.response()
        except HTTPError as error:
            if self._interrupted:
                raise DownloadCancelledError("interrupted") from error
            raise _error(error, request, download) from error
        finally:
            self._response = None
            response.close()

    def _send(self, request: Request, timeout: float) -> requests.Response:
        proxy = self._proxy(request)
        return self._session.request(
            request.method,
            _url(request),
            headers=_headers(request),
            data=request.body or None,
            proxies={"http": proxy, "https": proxy} if proxy else None,
            timeout=urllib3.Timeout(total=timeout),  # type: ignore[arg-type]
            allow_redirects=False,
            stream=True,
        )

    def _proxy(self, request: Request) -> str | None:
        proxy = proxy_url(request)
        if proxy is None or (credentials := proxy_credentials(request)) is None:
            return proxy
        parts = urlsplit(proxy)
        # Requests makes Latin-1 of it, and so the bytes in the header again.
        encoding = self._proxy_encoding if proxy.startswith("socks") else "latin-1"
        user, password = (quote(value.decode(encoding), safe="") for value in credentials)
        return parts._replace(netloc=f"{user}:{password}@{parts.netloc}").geturl()

    def interrupt(self) -> None:
        self._interrupted = True
        shutdown = getattr(getattr(self._response, "raw", None), "shutdown", None)
        if shutdown is not None:
            with suppress(OSError, RuntimeError, ValueError):
                shutdown()  # a read that waits for bytes ends

    def close(self) -> None:
        self._session.close()


class _NothingKept(DefaultCookiePolicy):
    """Sends the cookies that a session was made with, and keeps none of responses."""

    def set_ok(self, cookie: Any, request: Any) -> bool:
        return False


def _factory(session: Any) -> Factory:
    try:
        found = load_object(session)
    except (ImportError, NameError, TypeError, ValueError) as error:
        raise ValueError(f"session {session!r} cannot be loaded: {error}") from error
    if not callable(found):
        raise ValueError(f"session must be a function that returns a session, not {session!r}")
    return cast("Factory", found)


def _restrain(session: Any) -> requests.Session:
    """Keep *session* from what is Scrapy's part."""
    if not isinstance(session, requests.Session):
        raise ValueError(f"session() must return a requests.Session, not {session!r}")
    session.trust_env = False
    session.get_redirect_target = lambda resp: None  # type: ignore[method-assign]
    session.cookies.set_policy(_NothingKept())
    for name, value in requests.utils.default_headers().items():
        if session.headers.get(name) == value:
            del session.headers[name]
    return session


def _certificates() -> str | bool:
    paths = ssl.get_default_verify_paths()
    return paths.cafile or paths.capath or True


def _url(request: Request) -> str:
    parts = urlsplit(urldefrag(request.url)[0])
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _headers(request: Request) -> dict[str, str | bytes]:
    headers: dict[str, str | bytes] = {
        name.decode("latin-1"): b", ".join(values)
        for name, values in request.headers.items()
        if name != b"Proxy-Authorization"
    }
    for name in _ADDED:
        headers.setdefault(name, SKIP_HEADER)
    return headers


def _receive_head(response: requests.Response, download: Download, latency: float) -> None:
    raw = response.raw
    sock = getattr(getattr(raw, "connection", None), "sock", None)
    address = certificate = None
    if sock is not None:
        address = sock.getpeername()[0]
        if isinstance(sock, ssl.SSLSocket):
            certificate = sock.getpeercert(binary_form=True)
    download.headers_received(
        response.status_code,
        [(name.encode("latin-1"), value.encode("latin-1")) for name, value in raw.headers.items()],
        protocol=_PROTOCOLS.get(getattr(raw, "version", 0)),
        ip_address=address,
        certificate=certificate,
        latency=latency,
    )


def _pieces(raw: Any) -> Iterator[bytes]:
    """Yield the body as it comes, with its content encoding."""
    while piece := raw.read1(_PIECE, decode_content=False):
        yield piece


def _error(error: Exception, request: Request, download: Download) -> Exception:
    """Return the exception that Scrapy expects for *error*."""
    causes = list(_causes(error))
    kinds = (exceptions.Timeout, ReadTimeoutError)
    if any(isinstance(cause, kinds) for cause in causes):
        return download.timeout_error()
    if any(isinstance(cause, NameResolutionError) for cause in causes):
        return CannotResolveHostError(str(error))
    if any(isinstance(cause, NewConnectionError) for cause in causes):
        return DownloadConnectionRefusedError(str(error))
    if download.started and isinstance(error, (IncompleteRead, ProtocolError)):
        return ResponseDataLossError(str(error))
    return DownloadFailedError(f"{type(error).__name__}: {error}")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield *error* and what it was made of, which requests and urllib3 keep in several ways."""
    while error is not None:
        yield error
        inside = [getattr(error, "reason", None), *error.args, error.__cause__]
        error = next((one for one in inside if isinstance(one, BaseException)), None)
