"""The sample project, run as its README says."""

import json
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from scrapy_threadpool.demosite import running

from . import nginx
from .parts import need

PROJECT = Path(__file__).parent.parent / "sample_project"
CRAWL = [sys.executable, "-m", "scrapy", "crawl", "-L", "INFO"]
PYTHON_DOCS = Path("/usr/share/doc/python3.11/html")


def crawl(spider: str, site: str, folder: Path) -> tuple[list[dict[str, Any]], str]:
    """Crawl *site*; return the items and the log."""
    feed = folder / "items.jsonl"
    process = subprocess.run(
        [*CRAWL, spider, "-a", f"site={site}", "-O", str(feed)],
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=100,
        check=True,
    )
    assert "'log_count/ERROR'" not in process.stdout, process.stdout
    return [json.loads(line) for line in feed.read_text().splitlines()], process.stdout


def test_books_come_through_the_pipeline(tmp_path: Path) -> None:
    with running() as site:
        books, log = crawl("books", site, tmp_path)
    assert len({book["url"] for book in books}) == len(books) == 1000
    assert len({book["upc"] for book in books}) == 1000
    assert "'downloader/response_status_count/200': 1051," in log  # 1,000 books, 50 lists, robots
    assert "'threadpool/pages/books-worker-1'" in log
    for book in books:
        assert 10 <= book["price"] < 60
        assert book["rating"] in range(1, 6)
        assert book["stock"] in range(1, 23)
        assert book["category"].isalpha()
        assert book["description"].endswith(".")
    assert any("ü" in book["title"] and "&" in book["title"] for book in books)


def test_a_book_that_lacks_something_is_dropped(tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    shop.mkdir()
    (shop / "index.html").write_text(
        '<article class="product_pod"><h3><a href="book.html"></a></h3></article>'
    )
    (shop / "book.html").write_text('<div class="product_main"><h1>No price</h1></div>')
    handler = partial(SimpleHTTPRequestHandler, directory=str(shop))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        books, log = crawl("books", f"http://127.0.0.1:{server.server_port}", tmp_path)
        server.shutdown()
    assert books == []
    assert "'item_dropped_count': 1," in log
    assert "no category: http://127.0.0.1" in log


def test_docs_are_followed_in_their_folder_only(tmp_path: Path) -> None:
    tutorial = PYTHON_DOCS / "tutorial"
    if not tutorial.is_dir():
        pytest.skip("not installed: python3.11-doc")
    with nginx.serve(PYTHON_DOCS, tmp_path / "run") as server:
        pages, _ = crawl("docs", f"{server.http}/tutorial/index.html", tmp_path)
        requested = [line.split('"')[1].split()[1] for line in server.requests()]
    expected = sorted(f"/tutorial/{file.name}" for file in tutorial.glob("*.html"))
    assert sorted(requested) == sorted([*expected, "/robots.txt"])
    assert sorted(page["url"].removeprefix(server.http) for page in pages) == expected
    modules = next(page for page in pages if page["url"].endswith("/modules.html"))
    assert modules["title"].startswith("6. Modules")
    assert any(heading.startswith("6.4. Packages") for heading in modules["headings"])
    assert all(page["headings"] and page["links"] for page in pages)


def test_rendered_books_come_through_browsers(tmp_path: Path) -> None:
    pytest.importorskip("selenium")
    need("chromium", "chromedriver")
    with running() as site:
        shelf = f"{site}/js/catalogue/category/books/travel_25/index.html"
        books, log = crawl("rendered", shelf, tmp_path)
    assert len({book["url"] for book in books}) == len(books) > 20
    assert {book["category"] for book in books} == {"Travel"}
    workers = [f"'threadpool/browser/pages/rendered-browser-worker-{n}'" for n in range(1, 5)]
    assert all(worker in log for worker in workers), log
    assert "'threadpool/pages/rendered-worker-1'" in log
