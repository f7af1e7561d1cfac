"""The demo site: a bookshop of 1,000 books, the same at every start, to crawl on loopback.

Its pages are built like those of https://books.toscrape.com, so a spider for one crawls the other.
"""

from .server import listen, running

__all__ = ["listen", "running"]
