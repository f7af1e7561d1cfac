"""Scrapy's own tests for HTTP download handlers, held against ours.

This module runs among the tests of Scrapy's source distribution, where ``run.py`` copies it: there
``tests`` is Scrapy's package, not this project's.
"""

from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Any

import pycurl
import pytest
import scrapy.exceptions
from scrapy.http import Request

from scrapy_threadpool import ThreadPoolDownloadHandler
from scrapy_threadpool._compat import DownloadTimeoutError
from scrapy_threadpool.transports.curl import CurlTransport

try:
    from tests.utils.bases import download_handlers_http as bases
except ImportError:  # where Scrapy before 2.18 keeps them
    from tests import test_downloader_handlers_http_base as bases

try:
    from tests.utils.decorators import coroutine_test
except ImportError:  # Scrapy 2.14
    from scrapy.utils.defer import deferred_f_from_coro_f as coroutine_test


class NotThere:
    """Stands for a base class that the installed Scrapy does not have yet: it has no tests."""


def base(*names: str) -> type:
    """Return the first of Scrapy's base classes *names* that there is."""
    return next((getattr(bases, name) for name in names if hasattr(bases, name)), NotThere)


class Ours:
    handler = "scrapy_threadpool.ThreadPoolDownloadHandler"
    http_version = "1.1"

    @property
    def download_handler_cls(self) -> type:
        return ThreadPoolDownloadHandler

    @property
    def settings_dict(self) -> dict[str, Any]:
        return {
            "DOWNLOAD_HANDLERS": {"http": self.handler, "https": self.handler},
            "THREADPOOL_HTTP_VERSION": self.http_version,
        }

    @pytest.fixture
    def resolve_to_loopback(self, monkeypatch: pytest.MonkeyPatch) -> None:
        # Scrapy's fixture replaces Python's resolver, which libcurl does not ask.
        monkeypatch.setattr(CurlTransport, "extra_options", {pycurl.CONNECT_TO: ["::127.0.0.1:"]})


def skipped(reason: str) -> Callable[[object], None]:
    """Return a test to take the place of one that asks something of Scrapy's own handler only."""

    @pytest.mark.skip(reason=reason)
    def test(self: object) -> None:
        pass

    return test


class OfScrapy214:
    """What the tests of Scrapy 2.14 ask of its own handler only; later ones ask it of all."""

    if not hasattr(scrapy.exceptions, "DownloadFailedError"):
        test_download_with_maxsize_very_large_file = skipped("watches that handler's logger")
        test_download_cause_data_loss = skipped("looks for a private exception of Twisted")
        test_tls_logging = skipped("looks for names in the form that Twisted gives them")


class TestHttp(OfScrapy214, Ours, base("TestHttp11Base", "TestHttpBase")):
    pass


class TestHttps(OfScrapy214, Ours, base("TestHttps11Base", "TestHttpsBase")):
    test_verify_certs_deprecated = skipped("the setting under test belongs to Twisted's TLS")


class TestHttp2(TestHttps):
    http2 = True
    if not hasattr(bases.TestHttpBase, "http2"):  # Scrapy 2.14 breaks chunks, which are HTTP/1.1's
        test_download_allow_data_loss = skipped("there are no chunks in HTTP/2")
        test_download_allow_data_loss_via_setting = skipped("there are no chunks in HTTP/2")

    @asynccontextmanager
    async def get_dh(self, settings_dict: dict[str, Any] | None = None):
        version = {"THREADPOOL_HTTP_VERSION": "2"}
        async with super().get_dh({**version, **(settings_dict or {})}) as handler:
            yield handler

    @coroutine_test
    async def test_protocol(self, mockserver) -> None:
        request = Request(mockserver.url("/host", is_secure=True))
        async with self.get_dh() as handler:
            response = await handler.download_request(request)
        assert response.protocol == "HTTP/2"

    @coroutine_test
    async def test_download_goaway(self, mockserver) -> None:
        if not hasattr(bases.TestHttpBase, "test_download_goaway"):
            pytest.skip("the server of this Scrapy's tests cannot say goodbye")
        # It promises to answer this last request, so libcurl waits for that, as RFC 9113 (6.8)
        # has it, until the timeout; the handlers of Scrapy give up at once.
        url = mockserver.url("/h2-goaway", is_secure=True)
        request = Request(url, meta={"download_timeout": 0.5})
        async with self.get_dh() as handler:
            with pytest.raises(DownloadTimeoutError):
                await handler.download_request(request)


class TestSimpleHttps(Ours, base("TestSimpleHttpsBase")):
    pass


class TestHttpsWrongHostname(Ours, base("TestHttpsWrongHostnameBase")):
    pass


class TestHttpsInvalidDNSId(Ours, base("TestHttpsInvalidDNSIdBase")):
    pass


class TestHttpsInvalidDNSPattern(Ours, base("TestHttpsInvalidDNSPatternBase")):
    pass


class TestHttpsCustomCiphers(Ours, base("TestHttpsCustomCiphersBase")):
    pass


class TestHttpsDefaultCiphers(Ours, base("TestHttpsDefaultCiphersBase")):
    pass


class TestHttpsTLSVersion(Ours, base("TestHttpsTLSVersionBase")):
    pass


class TestHttpWithCrawler(Ours, base("TestHttpWithCrawlerBase")):
    pass


class TestHttpsWithCrawler(TestHttpWithCrawler):
    is_secure = True


class TestHttp2WithCrawler(TestHttpsWithCrawler):
    http_version = "2"


class TestHttpProxy(Ours, base("TestHttpProxyBase")):
    pass


class TestHttpsProxy(TestHttpProxy):
    is_secure = True


@pytest.mark.requires_mitmproxy
class TestMitmProxy(Ours, base("TestMitmProxyBase")):
    handler_supports_socks = True


# TestRealWebsiteBase is left out: it asks a site on the Internet.
