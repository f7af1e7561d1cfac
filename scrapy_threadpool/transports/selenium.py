"""Selenium: a browser for each worker, which shows one page at a time and nothing of the last."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address
from time import monotonic
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import NotSupported
from scrapy.http import Headers, HtmlResponse, TextResponse
from scrapy.responsetypes import responsetypes
from selenium.common.exceptions import TimeoutException, WebDriverException

from .._compat import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    verifies_certificates,
)
from .base import Transport
from .browser import Browser, BrowserSettings
from .own_headers import own_headers
from .page_actions import run_actions
from .proxies import proxy_url

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from typing_extensions import Self

    from ..download import Download

logger = logging.getLogger(__name__)

_OPTIONS: dict[str, tuple[type | tuple[type, ...], str]] = {
    "arguments": ((list, tuple), "a list of command line arguments"),
    "binary": (str, "the path of a browser"),
    "chromedriver": (str, "the path of a chromedriver"),
    "headless": (bool, "True or False"),
}
_HTML = ("text/html", "application/xhtml+xml")
_PROTOCOLS = {"http/1.0": "HTTP/1.0", "http/1.1": "HTTP/1.1", "h2": "HTTP/2", "h3": "HTTP/3"}
_ERRORS: dict[str, type[Exception]] = {
    "ERR_NAME_NOT_RESOLVED": CannotResolveHostError,
    "ERR_CONNECTION_REFUSED": DownloadConnectionRefusedError,
    "ERR_PROXY_CONNECTION_FAILED": DownloadConnectionRefusedError,
    "ERR_CONNECTION_TIMED_OUT": DownloadTimeoutError,
    "ERR_TIMED_OUT": DownloadTimeoutError,
}
# What says how the body came over the wire; the page is no longer what came
_ABOUT_THE_WIRE = ("content-encoding", "content-length", "transfer-encoding")


class SeleniumTransport(Transport):
    """A Chromium or Chrome in a worker thread, driven by Selenium.

    It is started by the first request, and again after it has died or hung. Each page gets a new
    tab, and the cookies of its request alone; ``request.meta["actions"]`` says what is done in it
    before the response is made: see :mod:`.page_actions`.
    """

    @classmethod
    def share(cls, crawler: Crawler, options: Mapping[str, Any]) -> BrowserSettings:
        for name, value in options.items():
            if name not in _OPTIONS:
                raise ValueError(f"unknown option {name}; there are {', '.join(_OPTIONS)}")
            kind, allowed = _OPTIONS[name]
            if not isinstance(value, kind):
                raise ValueError(f"{name} must be {allowed}, not {value!r}")
        arguments = tuple(map(str, options.get("arguments", ())))
        return BrowserSettings(
            **{**options, "arguments": arguments}, verify=verifies_certificates(crawler.settings)
        )

    @classmethod
    def from_crawler(
        cls, crawler: Crawler, options: Mapping[str, Any], shared: BrowserSettings
    ) -> Self:
        return cls(shared)

    def __init__(self, settings: BrowserSettings):
        self._settings = settings
        self._browser: Browser | None = None
        self._interrupted = False

    def fetch(self, request: Request, download: Download) -> Response:
        if request.method != "GET" or request.body:
            raise NotSupported("a browser gets pages with GET and without a body only")
        if b"Proxy-Authorization" in request.headers:
            raise NotSupported("a browser takes no credentials for a proxy")
        self._interrupted = False
        deadline = monotonic() + download.timeout
        try:
            page = _Page(self._open_tab(request), request, deadline)
            page.load()
            return page.response()
        except TimeoutException as error:
            self._end_browser()
            raise DownloadTimeoutError(
                f"Getting {request.url} took longer than {download.timeout} seconds: {error.msg}"
            ) from error
        except _PageError as error:
            raise error.error from None
        except Exception as error:
            self._end_browser()  # whatever state it is in, no other page is to meet it
            if self._interrupted:
                raise DownloadCancelledError("interrupted") from error
            raise

    def _open_tab(self, request: Request) -> Browser:
        """Return the browser, with nothing but a new tab in it."""
        proxy = proxy_url(request)
        browser = self._browser
        if browser is not None:
            try:
                if browser.proxy == proxy:
                    _clear(browser)
                    return browser
            except Exception as error:
                logger.warning("The browser has died and is started again: %s", error)
            self._end_browser()
        browser = self._browser = Browser(self._settings, proxy)
        _clear(browser)
        return browser

    def _end_browser(self) -> None:
        browser, self._browser = self._browser, None
        if browser is not None:
            browser.close()

    def interrupt(self) -> None:
        self._interrupted = True
        if (browser := self._browser) is not None:
            browser.kill()

    def close(self) -> None:
        self._end_browser()


class _PageError(Exception):
    """A page failed, and the browser is as good as before."""

    def __init__(self, error: Exception):
        super().__init__(str(error))
        self.error = error


@dataclass
class _Document:
    """What the browser tells of the request for a document."""

    status: int | None = None
    headers: list[tuple[str, str]] = field(default_factory=list)
    mime_type: str = ""
    protocol: str | None = None
    ip_address: IPv4Address | IPv6Address | None = None
    failure: str = ""


class _Page:
    """A page in the only tab of *browser*."""

    def __init__(self, browser: Browser, request: Request, deadline: float):
        self._browser = browser
        self._driver = browser.driver
        self._request = request
        self._deadline = deadline
        self._documents: dict[str, _Document] = {}

    def _time_left(self) -> float:
        left = self._deadline - monotonic()
        if left <= 0:
            raise TimeoutException("time is over")
        return left

    def load(self) -> None:
        """Load the page and run the actions of its request in it."""
        driver, request = self._driver, self._request
        self._introduce()
        driver.set_page_load_timeout(self._time_left())
        started = monotonic()
        try:
            driver.get(request.url)
        except TimeoutException:
            raise
        except WebDriverException as error:
            if "net::ERR_" not in (error.msg or ""):  # of the site, which the log tells, too
                raise
        request.meta["download_latency"] = monotonic() - started
        driver.set_script_timeout(self._time_left())
        if self._loaded() is not None:
            try:
                run_actions(driver, request, self._time_left)
            except ValueError as error:
                raise _PageError(DownloadFailedError(str(error))) from error

    def _introduce(self) -> None:
        """Give the browser the cookies and the user agent of the request."""
        request, command = self._request, self._browser.command
        cookies = [
            {"name": name, "value": value, "url": request.url}
            for line in request.headers.getlist("Cookie")
            for name, _, value in (
                part.strip().partition("=") for part in line.decode(errors="replace").split(";")
            )
        ]
        if cookies:
            command("Network.setCookies", cookies=cookies)
        headers = own_headers(request)
        agent, language = headers.get("User-Agent"), headers.get("Accept-Language")
        if agent or language:
            override = {"userAgent": agent or command("Browser.getVersion")["userAgent"]}
            if language:
                override["acceptLanguage"] = language
            texts = {
                name: value.decode("latin-1") if isinstance(value, bytes) else value
                for name, value in override.items()
            }
            command("Network.setUserAgentOverride", **texts)

    def response(self) -> Response:
        """Return the response: what the page is now."""
        while True:
            loader = self._loaded()
            if loader is None:
                return self._without_page()
            url, body = self._driver.current_url, self._driver.page_source
            if loader == self._loaded():  # it has not gone to another page meanwhile
                break
            self._time_left()
        document = self._documents[loader]
        if document.mime_type in _HTML:
            return self._make(document, HtmlResponse, url, body.encode())
        return self._as_it_came(loader, document, url)

    def _as_it_came(self, loader: str, document: _Document, url: str) -> Response:
        """Return what is no HTML as it came, not as the browser presents it."""
        content = self._browser.command("Network.getResponseBody", requestId=loader)
        text = content["body"]
        body = base64.b64decode(text) if content["base64Encoded"] else text.encode()
        kind = responsetypes.from_args(headers=Headers(document.headers), url=url, body=body)
        if content["base64Encoded"] or not issubclass(kind, TextResponse):
            return self._make(document, kind, url, body, text=False)
        return self._make(document, kind, url, body)

    def _make(
        self, document: _Document, kind: type[Response], url: str, body: bytes, text: bool = True
    ) -> Response:
        arguments: dict[str, Any] = {"encoding": "utf-8"} if text else {}
        return kind(
            url,
            status=document.status or 200,
            headers=Headers(document.headers),
            body=body,
            protocol=document.protocol,
            ip_address=document.ip_address,
            **arguments,
        )

    def _loaded(self) -> str | None:
        """Return the ID of the document that the tab shows; ``None`` if it shows none."""
        self._read_log()
        frame = self._browser.command("Page.getFrameTree")["frameTree"]["frame"]
        loader = frame["loaderId"]
        shown = loader in self._documents and not frame.get("unreachableUrl")
        return loader if shown else None

    def _without_page(self) -> Response:
        """Return a response without a body where the browser shows nothing of it, or raise."""
        if not self._documents:
            raise _PageError(DownloadFailedError("the browser did not ask for the page"))
        document = list(self._documents.values())[-1]
        status = document.status
        disposition = dict(document.headers).get("content-disposition", "")
        if status is not None and (status in (204, 205) or status >= 400) and not disposition:
            return self._make(document, HtmlResponse, self._request.url, b"")
        if status is not None and document.failure == "net::ERR_ABORTED":
            raise _PageError(DownloadFailedError("the browser saves this and shows no page"))
        kind = _ERRORS.get(document.failure.removeprefix("net::"), DownloadFailedError)
        raise _PageError(kind(f"{document.failure or 'no page'} at {self._request.url}"))

    def _read_log(self) -> None:
        """Take from the browser's log what it tells of documents."""
        for entry in self._driver.get_log("performance"):  # type: ignore[no-untyped-call]
            message = json.loads(entry["message"])["message"]
            name, event = message["method"], message["params"]
            identifier = event.get("requestId")
            if name == "Network.requestWillBeSent" and identifier == event.get("loaderId"):
                self._documents.setdefault(identifier, _Document())
            document = self._documents.get(identifier)
            if document is not None:
                _learn(document, name, event)


def _clear(browser: Browser) -> None:
    """Leave nothing of the last page in *browser*: its tabs, its log, its cookies."""
    driver = browser.driver
    old = driver.window_handles
    driver.switch_to.new_window("tab")
    for tab in old:
        browser.command("Target.closeTarget", targetId=tab)
    browser.command("Network.clearBrowserCookies")
    driver.get_log("performance")  # type: ignore[no-untyped-call]


def _learn(document: _Document, name: str, event: Mapping[str, Any]) -> None:
    if name == "Network.responseReceived":
        response = event["response"]
        document.status = response["status"]
        document.mime_type = response["mimeType"]
        document.protocol = _PROTOCOLS.get(response.get("protocol", ""))
        if address := response.get("remoteIPAddress"):
            document.ip_address = ip_address(address.strip("[]"))
        document.headers = document.headers or _header_list(response["headers"])
    elif name == "Network.responseReceivedExtraInfo":  # the headers that scripts do not see, too
        document.headers = _header_list(event["headers"])
    elif name == "Network.loadingFailed":
        document.failure = event["errorText"]


def _header_list(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    return [
        (name.lower(), value)
        for name, values in headers.items()
        if name.lower() not in _ABOUT_THE_WIRE
        for value in values.split("\n")
    ]
