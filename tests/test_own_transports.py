"""What any transport must do: stop when told to; and those in the documentation work."""

import re
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from scrapy_threadpool import _compat as exceptions
from scrapy_threadpool.transports import load_transport

from . import raw_server
from .curl_client import Client
from .fetching import fetch

PAGE = Path(__file__).parent.parent / "docs" / "transports.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)


def block(words: str) -> str:
    [found] = [text for text in BLOCKS if words in text]
    return found


def test_the_class_of_the_page(tmp_path: Path) -> None:
    source = block("class PoolManagerTransport")
    with raw_server.serve(lambda path: raw_server.respond(body=path.encode())) as server:
        requests = [{"url": f"{server.url}/{number}"} for number in range(10)]
        settings = {"THREADPOOL_TRANSPORT": "spider_under_test.PoolManagerTransport"}
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


@pytest.mark.parametrize("part", ["head", "body"])
@pytest.mark.parametrize("name", ["curl", "impersonate", "requests"])
def test_an_interrupted_fetch_ends_soon(name: str, part: str) -> None:
    if (name, part) == ("requests", "head"):
        pytest.skip("requests gives nobody its connection before the head has come")
    pytest.importorskip({"impersonate": "curl_cffi"}.get(name, name.replace("curl", "pycurl")))

    def answer(path: str) -> bytes | Iterable[bytes]:
        if path == "/page":
            return raw_server.respond(body=b"page")
        return slow()

    def slow() -> Iterable[bytes]:
        if part == "body":
            yield b"HTTP/1.1 200 OK\r\n\r\nbegun"
        begun.set()
        time.sleep(10)
        yield b"late"

    begun = threading.Event()
    client = Client({}, load_transport(name))
    with raw_server.serve(answer) as server:

        def interrupt() -> None:
            begun.wait(5)
            time.sleep(0.2)
            client.transport.interrupt()

        threading.Thread(target=interrupt).start()
        started = time.monotonic()
        with pytest.raises(exceptions.DownloadCancelledError):
            client.fetch(f"{server.url}/slow")
        assert time.monotonic() - started < 8
        assert client.fetch(f"{server.url}/page").body == b"page"
    client.transport.close()
