"""What is measured: each workload is a name, what is fetched, and what the callback does."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Workload:
    """One kind of crawl.

    *pages* is chosen so that Scrapy's own handler takes two to four seconds on a small machine.
    *delay* is the seconds the server waits before each answer, *burn* the seconds of CPU that the
    callback uses up.
    """

    about: str
    pages: int
    folder: str  # of the files that are fetched, see content.py
    https: bool = False
    concurrency: int = 16
    delay: float = 0
    burn: float = 0
    extract: bool = False
    server: str = ""  # directives for nginx
    settings: dict[str, Any] = field(default_factory=dict)


_NO_GZIP = "gzip off;"
# What a crawl over many sites pays: no connection and no TLS session is ever used again.
_ONE_PAGE_A_CONNECTION = (
    f"{_NO_GZIP} keepalive_timeout 0; ssl_session_cache off; ssl_session_tickets off;"
)

WORKLOADS = {
    "small": Workload("12 KB of HTML, HTTP, keep-alive", 1000, "small", server=_NO_GZIP),
    # With asyncio, Scrapy makes CONCURRENT_ITEMS tasks for every response, 100 by default. That
    # costs more than most downloads; without it the handlers differ more.
    "lean": Workload(
        "as small, with CONCURRENT_ITEMS = 1",
        1200,
        "small",
        server=_NO_GZIP,
        settings={"CONCURRENT_ITEMS": 1},
    ),
    "pages": Workload(
        "documentation pages of 50 to 150 KB, HTTPS, gzip; the callback takes title, headings "
        "and links",
        120,
        "pages",
        https=True,
        extract=True,
    ),
    "handshake": Workload(
        "12 KB of HTML, HTTPS, a new connection for every page",
        250,
        "small",
        https=True,
        server=_ONE_PAGE_A_CONNECTION,
    ),
    "large": Workload("2 MB, HTTPS, keep-alive", 150, "large", https=True),
    "slow": Workload(
        "12 KB of HTML, HTTP, the server waits 100 ms, 64 requests at once",
        800,
        "small",
        concurrency=64,
        delay=0.1,
    ),
    "busy": Workload(
        "12 KB of HTML, HTTP, the server waits 50 ms, the callback burns 100 ms of CPU",
        20,
        "small",
        delay=0.05,
        burn=0.1,
    ),
}
