"""What came of a transfer of libcurl: a response, or one of Scrapy's exceptions."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Hashable
from time import monotonic
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pycurl
from cryptography.x509 import load_der_x509_certificate
from scrapy.exceptions import NotSupported

from .._compat import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    ResponseDataLossError,
)
from ..download import RawResponse, expected_size
from .head import parse_head

if TYPE_CHECKING:
    from scrapy import Request

    from ..download import Download
    from .connections import Connection
    from .libcurl import Transfer

logger = logging.getLogger(__name__)

# libcurl's numbers for what pycurl has no names for (include/curl/curl.h)
_E_WEIRD_SERVER_REPLY = 8
_E_HTTP2_STREAM = 92
_E_PROXY = 97

_ERRORS: dict[int, type[Exception]] = {
    pycurl.E_URL_MALFORMAT: NotSupported,
    pycurl.E_COULDNT_RESOLVE_HOST: CannotResolveHostError,
    pycurl.E_COULDNT_RESOLVE_PROXY: CannotResolveHostError,
    pycurl.E_COULDNT_CONNECT: DownloadConnectionRefusedError,
    _E_PROXY: DownloadConnectionRefusedError,
    pycurl.E_ABORTED_BY_CALLBACK: DownloadCancelledError,
}
# How libcurl's messages begin for a response that it refuses for one line of its head
_BAD_HEADERS = ("header without colon", "nul byte in header")
# How a body that has begun ends when the connection is lost
_LOSS = {
    pycurl.E_PARTIAL_FILE,
    pycurl.E_RECV_ERROR,
    pycurl.E_HTTP2,
    _E_HTTP2_STREAM,
}


class BadHeaderError(DownloadFailedError):
    """libcurl refuses a response for one line of its head."""


def transfer(
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

    done = handle.transfer(download, on_head)
    if request.body:
        connection.set(pycurl.POSTFIELDS, b"")  # an idle connection must not keep it
    connection.note_transfer(place)
    learn(connection, request)
    head = None if download.started else parse_head(done.head)
    if head and done.code:  # what came of it may be wanted nevertheless
        on_head(done.head)
        download.bytes_received(done.body)
    if download.started:
        response = download.response()
    elif head:
        response = RawResponse(head.status, head.headers, done.body, head.protocol)
    elif done.code:
        raise done.error or _error(done, request, download)
    else:  # for libcurl it is a success
        raise DownloadFailedError("the connection was closed in the head of the response")
    response.latency = handle.getinfo(pycurl.STARTTRANSFER_TIME_T) / 1e6
    connection.protocol = response.protocol
    describe(response, connection)
    if done.code:
        raise done.error or _error(done, request, download)
    return mark_partial(response, request)


def learn(connection: Connection, request: Request) -> None:
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
        error = download.timeout_error()
    elif code == pycurl.E_FILESIZE_EXCEEDED:
        error = _size_error(transfer, request, download)
    elif code == _E_WEIRD_SERVER_REPLY and message.lower().startswith(_BAD_HEADERS):
        error = BadHeaderError(message)
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


def describe(response: RawResponse, connection: Connection) -> RawResponse:
    """Say in *response* whom *connection* leads to."""
    response.ip_address = connection.ip_address
    response.certificate = connection.certificate
    return response


def mark_partial(response: RawResponse, request: Request) -> RawResponse:
    """Flag *response* where nothing but the end of the connection told where it ends."""
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
