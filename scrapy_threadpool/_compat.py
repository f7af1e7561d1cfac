"""What differs between the Scrapy versions that are supported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import exceptions

if TYPE_CHECKING or hasattr(exceptions, "DownloadFailedError"):
    from scrapy.exceptions import (
        CannotResolveHostError,
        DownloadCancelledError,
        DownloadConnectionRefusedError,
        DownloadFailedError,
        DownloadTimeoutError,
        ResponseDataLossError,
        UnsupportedURLSchemeError,
    )
else:  # before Scrapy 2.15 handlers raised Twisted's exceptions, and RetryMiddleware retried those
    from twisted.internet.defer import CancelledError as DownloadCancelledError
    from twisted.internet.error import ConnectError as DownloadFailedError
    from twisted.internet.error import ConnectionRefusedError as DownloadConnectionRefusedError
    from twisted.internet.error import DNSLookupError as CannotResolveHostError
    from twisted.internet.error import TimeoutError as DownloadTimeoutError
    from twisted.python.failure import Failure
    from twisted.web.client import ResponseFailed
    from twisted.web.error import SchemeNotSupported as UnsupportedURLSchemeError

    class ResponseDataLossError(ResponseFailed):
        def __init__(self, message: str):
            super().__init__([Failure(ConnectionError(message))])


DOWNLOAD_ERRORS: tuple[type[BaseException], ...] = (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    ResponseDataLossError,
    UnsupportedURLSchemeError,
)


def verifies_certificates(settings: Any) -> bool:
    """Return whether *settings* ask for verified certificates.

    ``DOWNLOAD_VERIFY_CERTIFICATES`` is new in Scrapy 2.16; before it, naming
    ``BrowserLikeContextFactory`` was the way to ask.
    """
    factory = str(settings.get("DOWNLOADER_CLIENTCONTEXTFACTORY"))
    return settings.getbool("DOWNLOAD_VERIFY_CERTIFICATES") or "BrowserLike" in factory


__all__ = [
    "DOWNLOAD_ERRORS",
    "CannotResolveHostError",
    "DownloadCancelledError",
    "DownloadConnectionRefusedError",
    "DownloadFailedError",
    "DownloadTimeoutError",
    "ResponseDataLossError",
    "UnsupportedURLSchemeError",
    "verifies_certificates",
]
