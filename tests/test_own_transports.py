"""The transports that the documentation shows work as they stand there."""

import re
from pathlib import Path

from . import raw_server
from .fetching import fetch

PAGE = Path(__file__).parent.parent / "docs" / "transports.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)


def block(words: str) -> str:
    [found] = [text for text in BLOCKS if words in text]
    return found


def test_the_class_of_the_page(tmp_path: Path) -> None:
    source = block("class UrllibTransport")
    with raw_server.serve(lambda path: raw_server.respond(body=path.encode())) as server:
        requests = [{"url": f"{server.url}/{number}"} for number in range(10)]
        settings = {"THREADPOOL_TRANSPORT": "spider_under_test.UrllibTransport"}
        items, _ = fetch(tmp_path, requests, settings, source=source)
    assert [item["body"] for item in items] == [f"/{number}" for number in range(10)]


def test_the_function_of_the_page(tmp_path: Path) -> None:
    source = f"""
from scrapy.http import HtmlResponse

class my_sdk:
    @staticmethod
    def get(url):
        return url.encode()

{block("def fetch(request):")}
"""
    requests = [{"url": "http://site.invalid/page"}]
    settings = {"THREADPOOL_TRANSPORT": "spider_under_test.fetch"}
    items, _ = fetch(tmp_path, requests, settings, source=source)
    assert items[0]["body"] == "http://site.invalid/page"
    assert items[0]["meta"]["worker"] == "test-worker-1"
