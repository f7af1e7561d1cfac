from collections.abc import Iterator
from typing import Any, ClassVar

from scrapy.http import Response

from bookshop.spiders.books import BooksSpider


class RenderedSpider(BooksSpider):
    """The same bookshop, where a script puts each book into its page: that takes a browser.

    List pages come through the default transport, pages of books through four browsers.
    """

    name = "rendered"
    site = "http://127.0.0.1:8000/js/"
    custom_settings: ClassVar[dict[str, Any]] = {
        "THREADPOOL_TRANSPORTS": {
            "default": {"transport": "curl", "threads": 4},
            "browser": {"transport": "selenium", "threads": 4},
        },
    }

    def parse(self, response: Response) -> Iterator[Any]:
        yield from response.follow_all(
            css="article.product_pod h3 a",
            callback=self.parse_book,
            meta={"transport": "browser", "actions": [("wait", ".product_main")]},
        )
        yield from response.follow_all(css="li.next a")
