"""The same pages in every run: the first run takes the first N requests, later ones just those."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.exceptions import IgnoreRequest

if TYPE_CHECKING:
    from pathlib import Path

    from scrapy import Request
    from scrapy.crawler import Crawler


class SamePages:
    """Drops the requests that are one too many.

    Closing the spider after N pages would end two crawls at different pages: which ones are under
    way then is luck. So it is decided before a request is scheduled, and remembered in *file*.
    """

    def __init__(self, crawler: Crawler, maximum: int, file: Path) -> None:
        self._crawler = crawler
        self._maximum = maximum
        self._file = file
        self._full = file.exists()
        self._chosen: set[str] = set(json.loads(file.read_text())) if self._full else set()
        if maximum:
            crawler.signals.connect(self._request_scheduled, signals.request_scheduled)

    def write(self) -> None:
        """Remember the pages, unless the crawl ended by itself before there were too many.

        Without a list, a request that only one of the variants makes is made, and seen.
        """
        if self._full:
            self._file.write_text(json.dumps(sorted(self._chosen)))

    def _request_scheduled(self, request: Request) -> None:
        if "redirect_times" in request.meta:  # belongs to a request that was let through
            return
        assert self._crawler.request_fingerprinter is not None
        fingerprint = self._crawler.request_fingerprinter.fingerprint(request).hex()
        if fingerprint in self._chosen:
            return
        if len(self._chosen) >= self._maximum:
            self._full = True
        if self._full:
            raise IgnoreRequest("beyond the pages of this comparison")
        self._chosen.add(fingerprint)
