"""Scrapy's rules for one download, whatever the client.

Size limits, the ``headers_received`` and ``bytes_received`` signals with
:exc:`~scrapy.exceptions.StopDownload`, data loss, latency, and the response itself.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urldefrag

from pydispatch.dispatcher import getAllReceivers
from scrapy import signals
from scrapy.exceptions import StopDownload
from scrapy.http import Headers, Response
from scrapy.responsetypes import responsetypes
from twisted.python.failure import Failure

from ._compat import DownloadCancelledError, DownloadTimeoutError

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

HeaderList = Iterable[tuple[bytes, bytes]]

#: Seconds; in milliseconds, as clients count, more would be too much for 31 bits
_LONGEST_TIMEOUT = 2_000_000


@dataclass
class RawResponse:
    """What came over the wire, before Scrapy's response is made of it.

    A transport may return this in place of a :class:`~scrapy.http.Response`: the response is then
    made on the event loop's thread, which needs no switch between threads to do so.

    :param status: the HTTP status code.
    :param headers: name and value of each header line, in order, duplicates included.
    :param body: the body, with its content encoding.
    :param protocol: such as ``"HTTP/1.1"``.
    :param ip_address: of the server, or of the proxy that was asked.
    :param certificate: the server's, in DER.
    :param latency: seconds from the request to the first byte of the answer.
    :param flags: as in :attr:`scrapy.http.Response.flags`.
    """

    status: int
    headers: HeaderList
    body: bytes = b""
    protocol: str | None = None
    ip_address: str | None = None
    certificate: bytes | None = None
    latency: float | None = None
    flags: list[str] = field(default_factory=list)


class DownloadRules:
    """What the settings of a crawl say about all of its downloads."""

    def __init__(self, crawler: Crawler):
        settings = crawler.settings
        self.crawler = crawler
        self.timeout = settings.getfloat("DOWNLOAD_TIMEOUT")
        self.maxsize = settings.getint("DOWNLOAD_MAXSIZE")
        self.warnsize = settings.getint("DOWNLOAD_WARNSIZE")
        self.fail_on_dataloss = settings.getbool("DOWNLOAD_FAIL_ON_DATALOSS")
        self._dataloss_warned = False

    def listens(self, signal: object) -> bool:
        """Return whether anybody listens to *signal*."""
        return next(iter(getAllReceivers(self.crawler.signals.sender, signal)), None) is not None

    def warn_of_dataloss(self, url: str) -> None:
        """Say once in a crawl how to get responses that came short."""
        if not self._dataloss_warned:
            self._dataloss_warned = True
            logger.warning(
                "Got data loss in %s. If you want to process broken responses set the setting "
                "DOWNLOAD_FAIL_ON_DATALOSS = False -- This message won't be shown in further "
                "requests",
                url,
            )


class Download:
    """One download: what a transport streams through it is held to Scrapy's rules.

    A client that streams calls :meth:`headers_received` once, :meth:`bytes_received` for each piece
    of the body, and returns :meth:`response`. Either call may raise, to end the download: the
    transport lets that pass. A client that cannot stream returns a whole response instead, and the
    rules are applied to that.

    :ivar request: the request that is downloaded.
    :ivar timeout: seconds that the whole download may take.
    :ivar maxsize: bytes that the body may have; 0 is no limit.
    :ivar worker: name of the worker that downloads it, once one does.
    :ivar submitted: when it was handed to the workers, in seconds of :func:`time.monotonic`.
    :ivar begun: when a worker began with it.
    :ivar ended: when that worker was done with it.
    :ivar cancelled: whether nobody waits for it any more.
    :ivar overdue: whether it was interrupted because it took longer than its timeout.
    :ivar awaited: whether the engine waited for it when it began.
    """

    def __init__(self, request: Request, rules: DownloadRules, ask: Callable[..., Any]):
        meta = request.meta
        self.request = request
        timeout = float(meta.get("download_timeout") or rules.timeout)
        self.timeout = min(timeout, _LONGEST_TIMEOUT)
        self.maxsize = int(meta.get("download_maxsize", rules.maxsize) or 0)
        self.warnsize = int(meta.get("download_warnsize", rules.warnsize) or 0)
        self._rules = rules
        self._ask = ask
        self.worker: str | None = None
        self.submitted = 0.0
        self.begun: float | None = None
        self.ended: float | None = None
        self.cancelled = False
        self.overdue = False
        self.awaited = False
        self.seat: Any = None
        self._wants_headers = rules.listens(signals.headers_received)
        self._wants_bytes = rules.listens(signals.bytes_received)
        self._warned = False
        self._raw: RawResponse | None = None
        self._body = bytearray()

    @property
    def watched(self) -> bool:
        """Whether anybody listens to the signals that are sent while the bytes come in."""
        return self._wants_headers or self._wants_bytes

    @property
    def started(self) -> bool:
        """Whether the head of the response was received."""
        return self._raw is not None

    # What a transport calls, in its worker

    def headers_received(
        self,
        status: int,
        headers: HeaderList,
        *,
        protocol: str | None = None,
        ip_address: str | None = None,
        certificate: bytes | None = None,
        latency: float | None = None,
    ) -> None:
        """Take the head of the response; the parameters are those of :class:`RawResponse`.

        :raises StopDownload: a listener of ``headers_received`` asked for it.
        :raises DownloadCancelledError: ``Content-Length`` is above the size limit.
        """
        headers = list(headers)
        self._raw = RawResponse(
            status,
            headers,
            protocol=protocol,
            ip_address=ip_address,
            certificate=certificate,
            latency=latency,
        )
        expected = expected_size(self.request, status, headers)
        if self._wants_headers:
            self._ask(self._send_headers_received, expected)
        if expected is not None:
            self.check_size(expected, expected=True)

    def bytes_received(self, data: bytes) -> None:
        """Take a piece of the body.

        :raises StopDownload: a listener of ``bytes_received`` asked for it.
        :raises DownloadCancelledError: the body is above the size limit.
        """
        self._body += data
        if self._wants_bytes:
            self._ask(self._send_bytes_received, data)
        self.check_size(len(self._body), expected=False)

    def response(self, flags: Iterable[str] = ()) -> RawResponse:
        """Return what was received."""
        assert self._raw is not None, "headers_received() comes first"
        self._raw.body = bytes(self._body)
        self._raw.flags.extend(flags)
        return self._raw

    def check_size(self, size: int, *, expected: bool) -> None:
        """Hold *size* bytes of a body, *expected* or received, against the limits.

        :raises DownloadCancelledError: it is above the size limit.
        """
        if self.maxsize and size > self.maxsize:
            self.refuse_size(size, expected=expected)
        if self.warnsize and size > self.warnsize and not self._warned:
            self._warned = True
            logger.warning(_size_message(size, "warn", self.warnsize, self.request, expected))

    def refuse_size(self, size: int, *, expected: bool) -> NoReturn:
        """Log that *size* is too large, and raise :exc:`DownloadCancelledError`."""
        message = _size_message(size, "max", self.maxsize, self.request, expected)
        logger.warning(message)
        raise DownloadCancelledError(message)

    def timeout_error(self) -> DownloadTimeoutError:
        """Return the exception for a download that took longer than its timeout."""
        return DownloadTimeoutError(
            f"Getting {self.request.url} took longer than {self.timeout} seconds."
        )

    # What the handler calls, on the event loop's thread

    def finish(self, result: Response | RawResponse) -> Response:
        """Return the response to *result*, what the transport returned.

        :raises DownloadCancelledError: it is above the size limit.
        :raises StopDownload: a listener of a signal asked for the errback.
        """
        if isinstance(result, RawResponse):
            if self._raw is None:
                expected = expected_size(self.request, result.status, result.headers)
                if expected is not None:
                    self.check_size(expected, expected=True)
                self.check_size(len(result.body), expected=False)
            return self._make_response(result)
        if self._raw is None:
            self._apply_rules(result)
        return result

    def stop(self, stop: StopDownload) -> Response:
        """Return the response as far as it came when *stop* was raised, or raise that."""
        return self._stopped(self._make_response(self.response()), stop)

    def lose(self, error: BaseException) -> Response:
        """Return what came of a response that was cut short, or raise *error*."""
        allowed = not self.request.meta.get(
            "download_fail_on_dataloss", self._rules.fail_on_dataloss
        )
        if allowed and self._raw is not None:
            return self.finish(self.response(["dataloss"]))
        self._rules.warn_of_dataloss(self.request.url)
        raise error

    def _make_response(self, raw: RawResponse) -> Response:
        if raw.latency is not None:
            self.request.meta["download_latency"] = raw.latency
        headers = Headers(raw.headers)
        url = urldefrag(self.request.url)[0]
        cls = responsetypes.from_args(headers=headers, url=url, body=raw.body)
        response = cls(
            url=url,
            status=raw.status,
            body=raw.body,
            flags=raw.flags,
            certificate=raw.certificate,
            ip_address=_ip_address(raw.ip_address) if raw.ip_address else None,
            protocol=raw.protocol,
        )
        response.headers = headers  # as a parameter, they would be normalised once more
        return response

    def _apply_rules(self, response: Response) -> None:
        try:
            if self._wants_headers:
                self._send(
                    signals.headers_received,
                    headers=response.headers,
                    body_length=len(response.body),
                )
            if self._wants_bytes:
                self._send_bytes_received(response.body)
        except StopDownload as stop:
            self._stopped(response, stop)
        self.check_size(len(response.body), expected=False)

    @staticmethod
    def _stopped(response: Response, stop: StopDownload) -> Response:
        response.flags.append("download_stopped")
        if stop.fail:
            stop.response = response
            raise stop
        return response

    def _send_headers_received(self, body_length: int | None) -> None:
        assert self._raw is not None
        if self._raw.latency is not None:
            self.request.meta["download_latency"] = self._raw.latency
        headers = Headers(self._raw.headers)
        self._send(signals.headers_received, headers=headers, body_length=body_length)

    def _send_bytes_received(self, data: bytes) -> None:
        self._send(signals.bytes_received, data=data)

    def _send(self, signal: object, **arguments: Any) -> None:
        if self.cancelled:
            raise DownloadCancelledError("nobody waits for it any more")
        crawler = self._rules.crawler
        results = crawler.signals.send_catch_log(
            signal=signal, request=self.request, spider=crawler.spider, **arguments
        )
        for receiver, result in results:
            if isinstance(result, Failure) and isinstance(result.value, StopDownload):
                name = getattr(receiver, "__qualname__", receiver)
                logger.debug("Download stopped for %s from signal handler %s", self.request, name)
                raise result.value


def expected_size(request: Request, status: int, headers: HeaderList) -> int | None:
    """Return the size in bytes that the head of a response announces for its body, or ``None``."""
    if request.method == "HEAD" or status in (204, 304):
        return None
    for name, value in headers:
        if name.lower() == b"content-length" and value.isdigit():
            return int(value)
    return None


_ip_address = lru_cache(1024)(ipaddress.ip_address)


def _size_message(size: int, kind: str, limit: int, request: Request, expected: bool) -> str:
    prefix = "Expected to receive" if expected else "Received"
    return (
        f"{prefix} {size} bytes which is larger than download {kind} size ({limit}) in "
        f"request {request}."
    )


__all__ = [
    "Download",
    "DownloadRules",
    "HeaderList",
    "RawResponse",
    "expected_size",
]
