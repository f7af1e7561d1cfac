"""Other clients for the workers than the default one, to see what the choice is worth."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from scrapy import Request
from scrapy.crawler import Crawler

from scrapy_threadpool import Download, Transport
from scrapy_threadpool.download import RawResponse
from scrapy_threadpool.transports.curl import CurlTransport, Shared


class CallbacksTransport(CurlTransport):
    """The curl transport, with callbacks in Python for every download."""

    @classmethod
    def share(cls, crawler: Crawler, options: Mapping[str, Any]) -> Shared:
        """Return what the workers share."""
        shared = super().share(crawler, options)
        shared.plain = shared.streaming
        return shared


class WreqTransport(Transport):
    """The blocking client of wreq, one for all workers."""

    @classmethod
    def share(cls, crawler: Crawler, options: Mapping[str, Any]) -> Any:
        """Return the client."""
        import wreq.blocking
        import wreq.redirect

        return wreq.blocking.Client(
            http1_only=True,
            pool_max_idle_per_host=16,
            tls_verify=False,
            tls_info=True,
            redirect=wreq.redirect.Policy.none(),
            cookie_store=False,
            referer=False,
            no_proxy=True,
            gzip=False,
            deflate=False,
            brotli=False,
            zstd=False,
        )

    @classmethod
    def from_crawler(cls, crawler: Crawler, options: Mapping[str, Any], shared: Any) -> Any:
        """Return a transport with that client."""
        return cls(shared)

    def __init__(self, client: Any):
        import wreq

        self._client = client
        self._get, self._headers = wreq.Method.GET, wreq.HeaderMap

    def fetch(self, request: Request, download: Download) -> RawResponse:
        """Return what wreq gets."""
        headers = self._headers()
        for name, values in request.headers.items():
            for value in values:
                headers.append(name.decode(), value.decode())
        with self._client.request(
            self._get, request.url, headers=headers, timeout=timedelta(seconds=download.timeout)
        ) as answer:
            return RawResponse(
                answer.status.as_int(),
                [(bytes(name), bytes(value)) for name, value in answer.headers],
                bytes(answer.bytes()),
                "HTTP/1.1",
                certificate=answer.tls_info.peer_certificate() if answer.tls_info else None,
            )
