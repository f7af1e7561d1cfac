"""What counts as a URL, when two URLs are one page, and when two pages are of one site."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

from w3lib.url import canonicalize_url, safe_url_string

_DEFAULT_PORTS = {"http": 80, "https": 443}
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?!\d)")
_HOST = re.compile(r"[\w-]+(\.[\w-]+)*\.?")


def read_url(text: str) -> str:
    """Return the URL that *text* is, ready to be requested.

    A host without a scheme, such as ``example.com/docs`` or ``localhost:8000``, is taken as
    ``http://``, as curl and wget take it.

    :raises ValueError: *text* is no http or https URL; the message says why.
    """
    if re.search(r"[\s\x00-\x1f\x7f]", text):
        raise ValueError("a URL has no spaces in it")
    schemeless = "://" not in text.partition("?")[0]
    if schemeless and (scheme := _SCHEME.match(text)):
        raise ValueError(f"{scheme[1]}: is not http:// or https://")
    parts = urlsplit(f"http://{text}" if schemeless else text)
    if parts.scheme not in _DEFAULT_PORTS:
        raise ValueError(f"{parts.scheme}:// is not http:// or https://")
    host = parts.hostname or ""
    _check_host(host, parts.netloc)
    if schemeless and not _looks_like_a_host(host):
        raise ValueError(f"{host!r} is neither a URL nor the name of a host")
    parts.port  # noqa: B018 - raises the ValueError that says what is wrong with it
    return tidy(safe_url_string(parts.geturl()))


def _check_host(host: str, netloc: str) -> None:
    if not host:
        raise ValueError("it names no host")
    if "[" in netloc:
        ipaddress.ip_address(host.partition("%")[0])
    elif not _HOST.fullmatch(host):
        raise ValueError(f"{host!r} is not the name of a host")
    else:
        try:
            host.encode("idna")
        except UnicodeError:
            raise ValueError(f"{host!r} is not the name of a host") from None


def _looks_like_a_host(host: str) -> bool:
    if host == "localhost" or ":" in host:
        return True
    if host.rpartition(".")[2].isdigit():
        return re.fullmatch(r"(\d{1,3}\.){3}\d{1,3}", host) is not None
    return "." in host


def tidy(url: str) -> str:
    """Return *url* without its fragment, and with ``/`` where it has no path."""
    parts = urlsplit(url)
    return parts._replace(fragment="", path=parts.path or "/").geturl()


def page_key(url: str) -> str:
    """Return what all URLs of the page at *url* have in common.

    The fragment, the order of the query's arguments and the way of quoting make no difference.
    """
    return canonicalize_url(url)


def site_of(url: str) -> str:
    """Return the site that *url* belongs to: its host without ``www.``, and any unusual port.

    So http and https are one site, and ``www.example.com`` and ``example.com`` are, while
    ``example.com:8080`` is another.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host.startswith("www.") and host.count(".") > 1:
        host = host[4:]
    try:
        port = parts.port
    except ValueError:
        return ""
    return host if port in (None, 80, 443) else f"{host}:{port}"
