import re
from typing import Any

from scrapy.exceptions import DropItem

from bookshop.items import Book

RATINGS = ["One", "Two", "Three", "Four", "Five"]


class BookPipeline:
    """Makes numbers of a book's price, rating and stock, and drops a book that lacks something."""

    def process_item(self, item: Any) -> Any:
        if not isinstance(item, Book):
            return item
        for name in ("title", "category", "upc"):
            if not getattr(item, name):
                raise DropItem(f"no {name}: {item.url}")
        item.price = float(self._find(r"£(\d+\.\d\d)", item.price, item))
        item.rating = RATINGS.index(self._find(r"(\w+)$", item.rating, item)) + 1
        item.stock = int(self._find(r"(\d+) available", item.stock, item))
        return item

    def _find(self, pattern: str, text: str | None, item: Book) -> str:
        if found := re.search(pattern, text or ""):
            return found[1]
        raise DropItem(f"{text!r} is not {pattern!r}: {item.url}")
