"""What libcurl is told: options that hold for a crawl, and those of each request."""

from __future__ import annotations

import re
import ssl
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pycurl
from scrapy.exceptions import NotSupported

from .._compat import verifies_certificates

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.http import Headers

    from .connections import Connection

# libcurl's numbers for what pycurl has no names for (include/curl/curl.h)
_SUPPRESS_CONNECT_HEADERS = 265
_HTTP_VERSION_2TLS = 4

HTTP_VERSIONS = {
    "1.1": pycurl.CURL_HTTP_VERSION_1_1,
    "2": _HTTP_VERSION_2TLS,
    "3": pycurl.CURL_HTTP_VERSION_3,
}
_TLS_VERSIONS = {
    "TLSv1.0": (pycurl.SSLVERSION_TLSv1_0, pycurl.SSLVERSION_MAX_TLSv1_0),
    "TLSv1.1": (pycurl.SSLVERSION_TLSv1_1, pycurl.SSLVERSION_MAX_TLSv1_1),
    "TLSv1.2": (pycurl.SSLVERSION_TLSv1_2, pycurl.SSLVERSION_MAX_TLSv1_2),
    "TLSv1.3": (pycurl.SSLVERSION_TLSv1_3, pycurl.SSLVERSION_MAX_TLSv1_3),
}
_URL = re.compile("([^/?#]*(?://)?[^/?#]*)([^#]*)")
# What methods and header names are made of (RFC 9110, 5.6.2)
_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")

FIXED_OPTIONS: dict[int, object] = {
    pycurl.NOSIGNAL: 1,
    pycurl.PROTOCOLS: pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS,
    pycurl.PATH_AS_IS: 1,
    pycurl.HTTP_CONTENT_DECODING: 0,
    pycurl.NOPROXY: "",  # without it, libcurl reads no_proxy from the environment
    pycurl.HEADEROPT: pycurl.HEADER_SEPARATE,
    _SUPPRESS_CONNECT_HEADERS: 1,
    pycurl.MAXCONNECTS: 1,
    pycurl.OPT_CERTINFO: 1,
}


def tls_options(settings: Any) -> dict[int, object]:
    """Return the options for what *settings* say of TLS.

    :raises ValueError: one of them has a value that is not allowed.
    """
    verify = verifies_certificates(settings)
    lowest = _tls_version(settings, "DOWNLOAD_TLS_MIN_VERSION", 0, pycurl.SSLVERSION_DEFAULT)
    highest = _tls_version(settings, "DOWNLOAD_TLS_MAX_VERSION", 1, 0)
    options: dict[int, object] = {
        pycurl.SSL_VERIFYPEER: int(verify),
        pycurl.SSL_VERIFYHOST: 2 if verify else 0,
        pycurl.PROXY_SSL_VERIFYPEER: int(verify),
        pycurl.PROXY_SSL_VERIFYHOST: 2 if verify else 0,
        pycurl.SSLVERSION: lowest | highest,
    }
    if ciphers := settings.get("DOWNLOADER_CLIENT_TLS_CIPHERS"):
        if not isinstance(ciphers, str):
            raise ValueError(f"DOWNLOADER_CLIENT_TLS_CIPHERS must be a string, not {ciphers!r}")
        options[pycurl.SSL_CIPHER_LIST] = ciphers
    if verify:
        paths = ssl.get_default_verify_paths()
        if paths.cafile:
            options[pycurl.CAINFO] = options[pycurl.PROXY_CAINFO] = paths.cafile
        if paths.capath:
            options[pycurl.CAPATH] = options[pycurl.PROXY_CAPATH] = paths.capath
    return options


def _tls_version(settings: Any, name: str, which: int, default: int) -> int:
    value = settings.get(name)
    if value is None:
        return default
    try:
        return int(_TLS_VERSIONS[value][which])
    except (KeyError, TypeError):
        allowed = ", ".join(_TLS_VERSIONS)
        raise ValueError(f"Unknown {name} value: {value}; it must be one of {allowed}") from None


def split_url(url: str) -> tuple[str, str]:
    """Return scheme and host part of *url*, without credentials, and what follows.

    It ends before the fragment, and is as it stands: libcurl would write escapes in upper case.
    """
    origin, target = _URL.findall(url)[0]
    if "@" in origin:
        scheme, _, host = origin.partition("://")
        origin = f"{scheme}://{host.rpartition('@')[2]}"
    return origin, target


def set_method(connection: Connection, request: Request) -> None:
    method, body = request.method, request.body
    if not _TOKEN.fullmatch(method.encode()):
        raise NotSupported(f"{method!r} is no HTTP method")
    if method == "HEAD":
        if body:
            raise NotSupported("libcurl cannot send a body with HEAD")
        connection.set(pycurl.CUSTOMREQUEST, None)
        _switch(connection, pycurl.NOBODY)
    elif body or method in ("POST", "PUT", "PATCH"):
        _switch(connection, pycurl.POST)
        connection.set(pycurl.POSTFIELDS, body)
        connection.set(pycurl.CUSTOMREQUEST, method)
    else:
        _switch(connection, pycurl.HTTPGET)
        connection.set(pycurl.CUSTOMREQUEST, None if method == "GET" else method)


def _switch(connection: Connection, option: int) -> None:
    """Set one of the options that exclude each other, if another was set last."""
    for other in (pycurl.NOBODY, pycurl.POST, pycurl.HTTPGET):
        if other != option:
            connection.forget(other)
    connection.set(option, 1)


@lru_cache(4096)
def header_line(name: bytes, value: bytes) -> bytes:
    """Return a header in libcurl's writing; libcurl would send line ends and all."""
    if not _TOKEN.fullmatch(name):
        raise NotSupported(f"{name!r} is no header name")
    if b"\n" in value or b"\r" in value:
        value = b" ".join(value.split())
    return name + b": " + value if value.strip() else name + b";"


def header_lines(request: Request, headers: Headers) -> list[bytes]:
    """Return the lines for *headers*, and those that keep libcurl from adding more."""
    lines = []
    names = set()
    for name, values in dict.items(headers):  # as they are: Scrapy's method normalises them again
        lowered = name.lower()
        names.add(lowered)
        if lowered == b"proxy-authorization":
            continue
        lines += [header_line(name, value) for value in values]
    if b"accept" not in names:
        lines.append(b"Accept:")
    if request.body or request.method in ("POST", "PUT", "PATCH"):
        if b"content-type" not in names:
            lines.append(b"Content-Type:")
        if b"expect" not in names:
            lines.append(b"Expect:")
    return lines
