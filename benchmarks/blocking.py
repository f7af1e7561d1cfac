"""``python -m benchmarks.blocking``: requests in a middleware that blocks, and in workers."""

import argparse
import time

from tests import raw_server
from tests.crawling import ADDON

from .side_by_side import Way, compare, table

_MIDDLEWARE = """
import requests
from scrapy.http import HtmlResponse

class BlockingMiddleware:
    session = requests.Session()

    def process_request(self, request):
        response = self.session.get(request.url)
        return HtmlResponse(request.url, status=response.status_code, body=response.content)
"""
_WORKERS = 16


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.blocking")
    parser.add_argument("--pages", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--delay", type=float, default=0.2, help="seconds for each answer")
    options = parser.parse_args()
    common = {
        "CONCURRENT_REQUESTS": _WORKERS,
        "CONCURRENT_REQUESTS_PER_DOMAIN": _WORKERS,
    }
    blocking = {"DOWNLOADER_MIDDLEWARES": {"spider_under_test.BlockingMiddleware": 900}}
    workers = {**ADDON, "THREADPOOL_TRANSPORT": "requests", "NUMBER_OF_THREADS": _WORKERS}
    ways = {
        "requests in a downloader middleware": Way({**common, **blocking}, source=_MIDDLEWARE),
        f"requests transport, {_WORKERS} workers": Way({**common, **workers}),
    }

    def answer(path: str) -> bytes:
        time.sleep(options.delay)
        return raw_server.respond("Content-Type: text/html", body=f"<p>{path}".encode())

    with raw_server.serve(answer) as server:
        results = compare(ways, server.url, pages=options.pages, rounds=options.rounds)
    print(table(results))


if __name__ == "__main__":
    main()
