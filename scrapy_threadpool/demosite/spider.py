"""A spider for the demo site."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


class DemoSpider(Spider):
    """Every book of the demo site at the URL *site*."""

    name = "demo"
    site: str

    async def start(self) -> AsyncIterator[Any]:
        """Begin at the first page of the list of books."""
        yield Request(self.site)

    def parse(self, response: Any) -> Iterator[Any]:
        """Follow a list page to its books and to the next list page."""
        yield from response.follow_all(css="article.product_pod h3 a", callback=self.parse_book)
        yield from response.follow_all(css="li.next a")

    def parse_book(self, response: Any) -> dict[str, Any]:
        """Scrape the page of a book."""
        return {
            "url": response.url,
            "title": response.css("h1::text").get(),
            "category": response.css(".breadcrumb li:nth-child(3) a::text").get(),
            "price": response.css(".product_main .price_color::text").get(),
            "description": response.css("#product_description + p::text").get(),
        }
