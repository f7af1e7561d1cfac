"""What a blocking client must offer to download for Scrapy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from typing_extensions import Self

    from ..download import Download, RawResponse


class Transport(ABC):
    """A blocking client in one worker thread.

    An instance is made in its worker's thread when the first request comes, used there by one
    request at a time, and closed there: so the author of a transport needs no lock.
    """

    @classmethod
    def share(cls, crawler: Crawler, options: Mapping[str, Any]) -> Any:
        """Check *options* and return what the transports of all workers share on purpose.

        Called once, on the event loop's thread, before the first worker starts.

        :param options: what the settings say of this transport, beside its name and threads.
        :raises ValueError: an option is unknown or has a value that is not allowed.
        """
        if options:
            names = ", ".join(map(str, options))
            raise ValueError(f"unknown option {names}; there is none")
        return None

    @classmethod
    def from_crawler(cls, crawler: Crawler, options: Mapping[str, Any], shared: Any) -> Self:
        """Return a new transport; called in the worker's thread.

        :param shared: what :meth:`share` returned.
        """
        return cls()

    @abstractmethod
    def fetch(self, request: Request, download: Download) -> Response | RawResponse:
        """Download *request* and return the response; a blocking call.

        Any exception fails the request. ``download.timeout`` says how long it may take, in
        seconds; streaming the response through *download* gives size limits and signals early.
        """

    def interrupt(self) -> None:  # noqa: B027
        """Make a :meth:`fetch` that is under way end soon.

        Called from the event loop's thread, and the only method that is called from outside the
        worker; it must not block, and is called again as long as the fetch goes on. Clients that
        cannot do it leave it: their call then ends by itself.
        """

    def close(self) -> None:  # noqa: B027
        """Free what the transport holds; called in the worker's thread when the worker ends."""
