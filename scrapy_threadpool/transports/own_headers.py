"""The headers of a request that are its own, for clients that have a browser's defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.downloadermiddlewares.httpcompression import ACCEPTED_ENCODINGS
from scrapy.http import Headers
from scrapy.settings import default_settings

if TYPE_CHECKING:
    from scrapy import Request

# What Scrapy's middlewares put on a request when neither the user's settings nor the request say
# anything: a browser that sends it is recognised at once.
_PUT_BY_SCRAPY = Headers(
    {**default_settings.DEFAULT_REQUEST_HEADERS, "User-Agent": default_settings.USER_AGENT}
)
# A browser's own Accept-Encoding asks for these, so Scrapy must be able to decode them.
if {b"br", b"zstd"} <= set(ACCEPTED_ENCODINGS):
    _PUT_BY_SCRAPY["Accept-Encoding"] = b", ".join(ACCEPTED_ENCODINGS)


def own_headers(request: Request) -> Headers:
    """Return the headers of *request* without those that Scrapy puts on every request.

    A header with just the value that Scrapy would put there by default counts as one of these.
    """
    return Headers(
        {
            name: values
            for name, values in request.headers.items()
            if values != _PUT_BY_SCRAPY.getlist(name)
        }
    )
