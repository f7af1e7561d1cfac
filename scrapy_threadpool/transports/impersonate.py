"""libcurl with the fingerprint of a browser, through curl_cffi."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, cast, get_args

import pycurl
from curl_cffi import (
    BrowserTypeLiteral,
    Curl,
    CurlError,
    CurlHttpVersion,
    CurlOpt,
    ExtraFingerprints,
    ffi,
    lib,
)
from curl_cffi.curl import CURL_WRITEFUNC_ERROR
from curl_cffi.requests.impersonate import resolve_latest_browser_type
from curl_cffi.requests.utils import set_akamai_options, set_extra_fp, set_ja3_options
from scrapy.exceptions import NotSupported

from ..settings import get as get_setting
from .connections import Connection, IdleConnections
from .curl import MOST_IDLE, CurlTransport, Shared
from .curl_options import header_lines
from .libcurl import Incoming, Transfer, is_readable
from .own_headers import own_headers

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler

    from ..download import Download

_HTTP_VERSIONS = {
    "v1": CurlHttpVersion.V1_1,
    "v2": CurlHttpVersion.V2_0,
    "v2tls": CurlHttpVersion.V2TLS,
    "v3": CurlHttpVersion.V3,
    "v3only": CurlHttpVersion.V3ONLY,
}
_ARGUMENTS = (
    "akamai",
    "default_headers",
    "extra_fp",
    "http_version",
    "interface",
    "ja3",
    "timeout",
    "verify",
)


class ImpersonateTransport(CurlTransport):
    """The curl transport, with a libcurl that greets servers as a browser does.

    ``request.meta["impersonate"]`` names the browser, the setting ``THREADPOOL_IMPERSONATE`` that
    of requests without it. Connections and TLS sessions are used again, for requests with the same
    fingerprint only.
    """

    asks_again = False  # it would be with another fingerprint

    @classmethod
    def _make_shared(cls, crawler: Crawler) -> Shared:
        return _ImpersonateShared(crawler, cls.extra_options)


@dataclass(frozen=True)
class Fingerprint:
    """What a request says of how its connection is to look; *key* is equal for equal ones."""

    browser: str | None
    arguments: Mapping[str, Any]
    curl_options: Mapping[CurlOpt, Any]
    key: str

    @property
    def has_browser_headers(self) -> bool:
        """Whether the headers of the browser are sent beside those of the request."""
        return self.browser is not None and self.arguments.get("default_headers", True)


class _ImpersonateShared(Shared):
    def __init__(self, crawler: Crawler, extra_options: Mapping[int, object]):
        super().__init__(crawler, extra_options)
        # The browser says which TLS versions and ciphers there are.
        for option in (pycurl.SSLVERSION, pycurl.SSL_CIPHER_LIST, pycurl.OPT_CERTINFO):
            self.options.pop(option, None)
        self.plain = self.streaming = IdleConnections(self._make_impersonating, MOST_IDLE)
        self._browser = get_setting(crawler.settings, "THREADPOOL_IMPERSONATE")
        try:
            _target(self._browser)
        except ValueError as error:
            raise ValueError(f"THREADPOOL_IMPERSONATE {error}") from None

    def place(self, request: Request, proxy: str | None) -> Hashable:
        # A version that is asked for, even the usual one, stands above the browser's.
        asks_for_version = "http_version" in request.meta
        return (super().place(request, proxy), self._fingerprint(request).key, asks_for_version)

    def prepare(
        self,
        connection: Connection,
        place: Hashable,
        request: Request,
        download: Download,
        proxy: str | None,
    ) -> None:
        fingerprint = self._fingerprint(request)
        if (timeout := fingerprint.arguments.get("timeout")) is not None:
            download.timeout = min(download.timeout, timeout)
        super().prepare(connection, place, request, download, proxy)
        if fingerprint.has_browser_headers:
            lines = header_lines(request, own_headers(request))
            connection.set(pycurl.HTTPHEADER, [line for line in lines if line != b"Accept:"])
        cast("_ImpersonatingHandle", connection.handle).impersonate(fingerprint)

    def _set_route(self, connection: Connection, request: Request, proxy: str | None) -> None:
        super()._set_route(connection, request, proxy)
        arguments = self._fingerprint(request).arguments
        if "http_version" in arguments:
            connection.set(pycurl.HTTP_VERSION, _http_version(arguments["http_version"]))
        elif "http_version" not in request.meta:
            # Without TLS, libcurl would ask for an upgrade to HTTP/2, which no browser does.
            plain = request.url.startswith("http:")
            connection.set(pycurl.HTTP_VERSION, CurlHttpVersion.V1_1 if plain else None)
        if interface := arguments.get("interface"):
            connection.set(pycurl.INTERFACE, interface)
        self._set_verification(connection, arguments.get("verify"))

    def _set_verification(self, connection: Connection, verify: bool | str | None) -> None:
        options = self.options
        if verify is None:
            wanted = options[pycurl.SSL_VERIFYPEER], options[pycurl.SSL_VERIFYHOST]
        else:
            wanted = int(bool(verify)), 2 if verify else 0
        connection.set(pycurl.SSL_VERIFYPEER, wanted[0])
        connection.set(pycurl.SSL_VERIFYHOST, wanted[1])
        bundle = verify if isinstance(verify, str) else options.get(pycurl.CAINFO)
        connection.set(pycurl.CAINFO, bundle)

    def _fingerprint(self, request: Request) -> Fingerprint:
        meta = request.meta
        browser = meta.get("impersonate", self._browser)
        try:
            target = _target(browser)
        except ValueError as error:
            raise NotSupported(f"request.meta['impersonate'] {error}") from None
        arguments = meta.get("impersonate_args") or {}
        for name in arguments:
            if name not in _ARGUMENTS:
                raise NotSupported(
                    f"impersonate_args[{name!r}] is not supported, only {', '.join(_ARGUMENTS)}"
                )
        curl_options = _curl_options(meta.get("impersonate_curl_options") or {})
        return Fingerprint(
            target, arguments, curl_options, f"{target} {arguments!r} {curl_options!r}"
        )

    def _make_impersonating(self) -> Connection:
        return self.make(_ImpersonatingHandle())


class _ImpersonatingHandle:
    """An easy handle of curl_cffi's libcurl; a new one is begun for each other fingerprint."""

    def __init__(self) -> None:
        self.tls = ""
        self._options: dict[int, Any] = {}
        self._fingerprint: Fingerprint | None = None
        # While this is the empty string its length is 0 and the transfer goes on: see libcurl.py.
        self._interrupt = ffi.new("char[]", 2)
        self._begin()

    def _begin(self) -> None:
        self._easy = lib.curl_easy_init()
        self._curl = Curl(handle=self._easy)

    def impersonate(self, fingerprint: Fingerprint) -> None:
        """Look like *fingerprint* from now on."""
        if self._fingerprint is not None and self._fingerprint.key != fingerprint.key:
            self._curl.close()  # and with it the connection and the TLS sessions
            self._begin()
        self._fingerprint = fingerprint

    def setopt(self, option: int, value: Any) -> None:
        self._options.pop(option, None)  # libcurl heeds the order of some
        self._options[option] = value
        if option == pycurl.POSTFIELDS:  # libcurl would end at a NUL byte
            self._options[pycurl.POSTFIELDSIZE_LARGE] = len(value)

    def unsetopt(self, option: int) -> None:
        self._options.pop(option, None)

    def getinfo(self, info: int) -> Any:
        if info == pycurl.INFO_CERTINFO:
            return []
        value = self._curl.getinfo(cast("Any", info))
        return value.decode() if isinstance(value, bytes) else value

    def transfer(self, download: Download, on_head: Callable[[bytes], None]) -> Transfer:
        incoming = Incoming(download, on_head)
        self._interrupt[0] = b"\0"
        code, message = 0, ""
        try:
            self._apply_options()
            setopt = self._curl.setopt
            setopt(
                CurlOpt.HEADERFUNCTION,
                lambda line: len(line) if incoming.header(line) else CURL_WRITEFUNC_ERROR,
            )
            setopt(
                CurlOpt.WRITEFUNCTION,
                lambda data: len(data) if incoming.write(data) else CURL_WRITEFUNC_ERROR,
            )
            self._curl.perform()
        except CurlError as failure:
            code, message = int(failure.code), str(failure)
        return incoming.transfer(code, message)

    def _apply_options(self) -> None:
        curl, fingerprint = self._curl, self._fingerprint
        assert fingerprint is not None
        curl.reset()  # of options alone: connections and TLS sessions stay
        if fingerprint.browser is not None:
            curl.impersonate(fingerprint.browser, fingerprint.has_browser_headers)
        _refine(curl, fingerprint.arguments)
        for options in (self._options, fingerprint.curl_options):
            for option, value in options.items():
                curl.setopt(cast("CurlOpt", option), value)
        if _STRLEN is not None:
            lib._curl_easy_setopt(self._easy, CurlOpt.XFERINFODATA, self._interrupt)
            lib._curl_easy_setopt(self._easy, CurlOpt.XFERINFOFUNCTION, _STRLEN)
            curl.setopt(CurlOpt.NOPROGRESS, 0)

    def interrupt(self) -> None:
        self._interrupt[0] = b"x"

    def has_input(self, socket: int) -> bool:
        return is_readable(socket, 0)

    def close(self) -> None:
        self._curl.close()


def _strlen() -> Any:
    """Return the address of the C library's ``strlen``, or ``None`` where it is not to be had."""
    try:
        return ffi.cast("void *", ctypes.cast(ctypes.CDLL(None).strlen, ctypes.c_void_p).value)
    except (AttributeError, OSError, TypeError):
        return None


_STRLEN = _strlen()


@cache
def _target(browser: Any) -> str | None:
    """Return the name that libcurl knows for *browser*; ``None`` for none."""
    if not browser:
        return None
    target = resolve_latest_browser_type(browser)  # type: ignore[no-untyped-call]
    if not isinstance(target, str) or Curl().impersonate(target) != 0:
        names = ", ".join(get_args(BrowserTypeLiteral))
        raise ValueError(f"must be one of {names}, not {browser!r}")
    return target


def _http_version(version: Any) -> int:
    if isinstance(version, CurlHttpVersion):
        return int(version)
    try:
        return int(_HTTP_VERSIONS[version])
    except (KeyError, TypeError):
        allowed = ", ".join(_HTTP_VERSIONS)
        raise NotSupported(
            f"impersonate_args['http_version'] must be one of {allowed}, not {version!r}"
        ) from None


def _curl_options(options: Mapping[Any, Any]) -> dict[CurlOpt, Any]:
    """Return *options*, whose keys are options of curl_cffi or their names, by option."""
    try:
        return {
            CurlOpt[key.upper()] if isinstance(key, str) else CurlOpt(key): value
            for key, value in options.items()
        }
    except (KeyError, ValueError) as error:
        raise NotSupported(f"impersonate_curl_options: there is no option {error}") from None


def _refine(curl: Curl, arguments: Mapping[str, Any]) -> None:
    """Apply what *arguments* change of the browser's fingerprint."""
    extra = arguments.get("extra_fp")
    if isinstance(extra, Mapping):
        extra = ExtraFingerprints(**extra)
    if ja3 := arguments.get("ja3"):
        permute = bool(extra and extra.tls_permute_extensions)
        set_ja3_options(curl, ja3, permute=permute)
    if extra:
        set_extra_fp(curl, extra)
    if akamai := arguments.get("akamai"):
        set_akamai_options(curl, akamai)
