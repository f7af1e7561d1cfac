"""The proxy of a request, as Scrapy's ``HttpProxyMiddleware`` leaves it there."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from scrapy.exceptions import NotSupported
from scrapy.utils.url import add_http_if_no_scheme

if TYPE_CHECKING:
    from scrapy import Request

_PORTS = {"http": 80, "https": 443}


def proxy_url(request: Request) -> str | None:
    """Return the URL of the proxy that *request* goes through, with scheme and port."""
    proxy = request.meta.get("proxy")
    if not proxy:
        return None
    parts = urlsplit(add_http_if_no_scheme(proxy))
    address = parts.netloc
    if parts.port is None and parts.scheme in _PORTS:  # clients have defaults of their own
        address = f"{address}:{_PORTS[parts.scheme]}"
    return f"{parts.scheme}://{address}"


def proxy_credentials(request: Request) -> tuple[bytes, bytes] | None:
    """Return user and password of the ``Proxy-Authorization`` header of *request*, if it has one.

    They are encoded as ``HTTPPROXY_AUTH_ENCODING`` says.

    :raises NotSupported: the header is of another kind than Basic.
    """
    authorization = request.headers.get(b"Proxy-Authorization")
    if not authorization:
        return None
    kind, _, token = authorization.partition(b" ")
    if kind.lower() != b"basic":
        raise NotSupported(f"this proxy takes a user and a password, not {kind.decode()!r}")
    user, _, password = base64.b64decode(token).partition(b":")
    return user, password
