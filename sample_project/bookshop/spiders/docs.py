import re
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import urljoin

import scrapy
from scrapy.http import HtmlResponse, Response
from scrapy.linkextractors import LinkExtractor

from bookshop.items import Page


class DocsSpider(scrapy.Spider):
    """Every page of a documentation that links lead to, as long as they stay in its folder."""

    name = "docs"
    site = "https://docs.scrapy.org/en/latest/"

    async def start(self) -> AsyncIterator[Any]:
        folder = urljoin(self.site, ".")
        self.inside = LinkExtractor(allow=f"^{re.escape(folder)}")
        yield scrapy.Request(self.site)

    def parse(self, response: Response) -> Iterator[Any]:
        if not isinstance(response, HtmlResponse):
            return
        links = self.inside.extract_links(response)
        yield Page(
            url=response.url,
            title=response.xpath("normalize-space(//title)").get(""),
            headings=[h.xpath("normalize-space()").get("") for h in response.css("h1, h2, h3")],
            links=len(links),
        )
        yield from response.follow_all(links)
