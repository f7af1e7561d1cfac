"""Fetch a list of requests in one crawl, with a transport, and look at each outcome."""

import json
from pathlib import Path
from typing import Any

from .crawling import ADDON, Crawl, crawl

_SPIDER = """
import json
from scrapy import Request, Spider

class FetchSpider(Spider):
    name = "test"

    async def start(self):
        for number, arguments in enumerate(json.loads(self.requests)):
            arguments.setdefault("meta", {}).update(handle_httpstatus_all=True, number=number)
            yield Request(**arguments, dont_filter=True, errback=self.failed)

    def parse(self, response):
        headers = {
            name.decode(): [value.decode("latin-1") for value in values]
            for name, values in response.headers.items()
        }
        meta = {key: value for key, value in response.meta.items() if not isinstance(value, bytes)}
        yield {
            "number": response.meta["number"],
            "url": response.url,
            "status": response.status,
            "headers": headers,
            "body": response.body.decode("latin-1"),
            "type": type(response).__name__,
            "flags": response.flags,
            "protocol": response.protocol,
            "ip": str(response.ip_address),
            "certificate": response.certificate is not None,
            "meta": meta,
        }

    def failed(self, failure):
        yield {
            "number": failure.request.meta["number"],
            "error": type(failure.value).__name__,
            "message": str(failure.value),
            "cause": type(failure.value.__cause__).__name__,
        }
"""


def fetch(
    folder: Path,
    requests: list[dict[str, Any]],
    settings: dict[str, Any],
    *,
    source: str = "",
    **arguments: Any,
) -> tuple[list[dict[str, Any]], Crawl]:
    """Crawl *requests*, keyword arguments of ``Request``; return outcomes in order, and the crawl.

    *source* is Python for the module of the spider, where import paths in *settings* may lead:
    it is called ``spider_under_test``.
    """
    settings = {
        **ADDON,
        "RETRY_ENABLED": False,
        "REDIRECT_ENABLED": False,
        "ROBOTSTXT_OBEY": False,
        **settings,
    }
    result = crawl(
        folder,
        source + _SPIDER,
        settings=settings,
        requests=json.dumps(requests),
        **arguments,
    )
    items = sorted(result.items, key=lambda item: item["number"])
    assert [item["number"] for item in items] == list(range(len(requests))), result.log
    return items, result
