"""Blocking clients that download for Scrapy: one file each."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from scrapy.utils.misc import load_object

from .base import Transport

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.http import Response

    from ..download import Download, RawResponse

TRANSPORTS = {
    "curl": "scrapy_threadpool.transports.curl.CurlTransport",
    # The names of these are those of the extras that they need.
    "requests": "scrapy_threadpool.transports.requests.RequestsTransport",
    "impersonate": "scrapy_threadpool.transports.impersonate.ImpersonateTransport",
    "selenium": "scrapy_threadpool.transports.selenium.SeleniumTransport",
}


def load_transport(name: Any) -> type[Transport]:
    """Return the transport class called *name*.

    :param name: a name of :data:`TRANSPORTS`, the import path of a :class:`Transport` subclass or
        of a function ``fetch(request)`` that returns a response, or one of those itself.
    :raises ValueError: it is none of these, or cannot be imported.
    """
    try:
        found = load_object(TRANSPORTS.get(name, name) if isinstance(name, str) else name)
    except ImportError as error:
        if name in TRANSPORTS:
            raise ValueError(
                f"{name!r} cannot be loaded: {error}; pip install 'scrapy-threadpool[{name}]'"
            ) from error
        raise ValueError(f"{name!r} cannot be loaded: {error}") from error
    except (NameError, TypeError, ValueError) as error:
        raise ValueError(f"{name!r} cannot be loaded: {error}") from error
    if isinstance(found, type) and issubclass(found, Transport):
        return found
    if callable(found) and not isinstance(found, type):
        return _function_transport(found)
    raise ValueError(f"{name!r} is neither a Transport subclass nor a function")


def _function_transport(function: Callable[[Request], Response]) -> type[Transport]:
    class FunctionTransport(Transport):
        def fetch(self, request: Request, download: Download) -> Response | RawResponse:
            return function(request)

    return FunctionTransport


__all__ = ["TRANSPORTS", "Transport", "load_transport"]
