from collections.abc import AsyncIterator, Iterator
from typing import Any

import scrapy
from scrapy.http import Response

from bookshop.items import Book


class BooksSpider(scrapy.Spider):
    """Every book of a bookshop: from one list page to the next, and to each book's own page."""

    name = "books"
    site = "https://books.toscrape.com"

    async def start(self) -> AsyncIterator[Any]:
        yield scrapy.Request(self.site)

    def parse(self, response: Response) -> Iterator[Any]:
        yield from response.follow_all(css="article.product_pod h3 a", callback=self.parse_book)
        yield from response.follow_all(css="li.next a")

    def parse_book(self, response: Response) -> Iterator[Any]:
        book = response.css(".product_main")
        yield Book(
            url=response.url,
            title=book.css("h1::text").get(),
            category=response.css(".breadcrumb li:nth-child(3) a::text").get(),
            upc=response.xpath("//th[.='UPC']/following-sibling::td/text()").get(),
            price=book.css(".price_color::text").get(),
            rating=book.css(".star-rating::attr(class)").get(),
            stock=book.xpath("string(.//*[contains(@class, 'availability')])").get(),
            description=response.css("#product_description + p::text").get(),
        )
