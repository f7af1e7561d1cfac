"""The demo site and its command."""

import gzip
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from itertools import chain
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urljoin
from urllib.request import Request, urlopen
from urllib.robotparser import RobotFileParser

import pytest
from parsel import Selector

from scrapy_threadpool.demosite import running

from .parts import need

COMMAND = [sys.executable, "-m", "scrapy", "demosite"]


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with running() as url:
        yield url


@pytest.fixture(scope="module")
def urls(site: str) -> list[str]:
    """All books of the site."""
    return book_urls(site)


def get(url: str) -> bytes:
    with urlopen(url, timeout=10) as response:
        return response.read()


def get_all(site: str, paths: list[str]) -> Iterator[bytes]:
    """Get many pages over one connection."""
    connection = HTTPConnection(site.removeprefix("http://"), timeout=10)
    for path in paths:
        connection.request("GET", path)
        yield connection.getresponse().read()


def select(url: str) -> Selector:
    return Selector(get(url).decode())


def list_pages(url: str) -> Iterator[tuple[str, Selector]]:
    """Go from list page to list page as the pager leads."""
    while True:
        page = select(url)
        yield url, page
        following = page.css("li.next a::attr(href)").get()
        if following is None:
            return
        url = urljoin(url, following)


def book_urls(url: str) -> list[str]:
    return [
        urljoin(page_url, link)
        for page_url, page in list_pages(url)
        for link in page.css("article.product_pod h3 a::attr(href)").getall()
    ]


def test_the_pager_leads_to_exactly_1000_books(site: str, urls: list[str]) -> None:
    sizes = [len(page.css("article.product_pod")) for _, page in list_pages(site)]
    assert sizes == [20] * 50

    assert len(set(urls)) == len(urls) == 1000
    books = list(get_all(site, [url.removeprefix(site) for url in urls]))
    upcs = [Selector(book.decode()).xpath("//th[.='UPC']/../td/text()").get() for book in books]
    assert len(set(upcs)) == 1000
    assert 8_000 < min(map(len, books)) <= max(map(len, books)) < 12_000


def test_the_categories_hold_every_book_once(site: str, urls: list[str]) -> None:
    links = select(site).css(".side_categories a::attr(href)").getall()
    shelves = [book_urls(urljoin(site, link)) for link in links]
    assert all(shelves)
    assert sorted(chain(*shelves)) == sorted(urls)


def test_a_book_is_the_same_in_the_list_and_on_its_own_page(site: str, urls: list[str]) -> None:
    pod = select(site).css("article.product_pod")[0]
    page = select(urls[0])
    main = page.css(".product_main")
    assert main.css("h1::text").get() == pod.css("h3 a::attr(title)").get()
    for same in (".price_color::text", ".star-rating::attr(class)"):
        assert main.css(same).get() == pod.css(same).get()
    assert "available" in main.css(".instock.availability").xpath("string()").get("")
    assert len(page.css("#product_description + p::text").get("")) > 1000
    shelf = page.css(".breadcrumb li:nth-child(3) a::attr(href)").get()
    assert page.css(".breadcrumb .active::text").get() == main.css("h1::text").get()
    assert urls[0] in book_urls(urljoin(site, shelf))


def test_two_runs_serve_the_same_bytes(site: str, urls: list[str]) -> None:
    paths = [url.removeprefix(site) for url in chain(dict(list_pages(site)), urls)]
    paths += ["/robots.txt", f"/js{paths[-1]}"]
    with running() as again:
        assert again != site
        for path, one, other in zip(
            paths, get_all(site, paths), get_all(again, paths), strict=True
        ):
            assert one == other, path
    # Nor do they differ from one Python to the next.
    assert "<h1>The Second Railway of Galway</h1>" in get(urls[0]).decode()


def test_robots_txt_keeps_robots_from_the_basket(site: str) -> None:
    robots = RobotFileParser(f"{site}/robots.txt")
    robots.read()
    assert robots.can_fetch("anyone", f"{site}/catalogue/page-2.html")
    basket = urljoin(site, select(site).css("header a:last-child::attr(href)").get())
    assert not robots.can_fetch("anyone", basket)
    assert b"empty" in get(basket)


def test_an_unknown_page_is_404(site: str) -> None:
    with pytest.raises(HTTPError) as error:
        get(f"{site}/catalogue/page-51.html")
    assert error.value.code == 404


def test_gzip_only_for_those_who_ask(site: str) -> None:
    for wanted, encoding in [("gzip, br", "gzip"), ("br", None), ("gzip;q=0", None), ("", None)]:
        with urlopen(Request(site, headers={"Accept-Encoding": wanted}), timeout=10) as response:
            body = response.read()
        assert response.headers["Content-Encoding"] == encoding
        assert (gzip.decompress(body) if encoding else body) == get(site)


def test_a_script_puts_the_book_into_the_page(site: str, urls: list[str]) -> None:
    assert book_urls(f"{site}/js/") == [url.replace(site, f"{site}/js") for url in urls]
    url = urls[0].replace(site, f"{site}/js")
    page = select(url)
    assert not page.css(".product_main, .price_color, #product_description, article a")
    program = need("chromium")["chromium"]
    rendered = subprocess.run(
        [program, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", f"{url}?wait=50",
         "--virtual-time-budget=5000"],
        capture_output=True, text=True, timeout=60, check=True,
    ).stdout  # fmt: skip
    plain = select(urls[0])
    for part in (".product_main", "#product_description + p", "table"):
        text = "normalize-space()"
        assert Selector(rendered).css(part).xpath(text).get() == plain.css(part).xpath(text).get()


def test_every_answer_takes_the_delay(site: str) -> None:
    order = []

    def fetch(name: str, url: str) -> None:
        get(url)
        order.append(name)

    with running(delay=1.0) as slow:
        threads = [threading.Thread(target=fetch, args=("slow", slow))]
        threads[0].start()
        for _ in range(3):
            threads.append(threading.Thread(target=fetch, args=("fast", site)))
            threads[-1].start()
        for thread in threads:
            thread.join(30)
    assert order == ["fast"] * 3 + ["slow"]


def test_delays_of_several_pages_run_at_once() -> None:
    with running(delay=0.5) as slow:
        start = time.monotonic()
        threads = [threading.Thread(target=get, args=(slow,)) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        # One after the other they would take ten seconds.
        assert 0.5 <= time.monotonic() - start < 10


def test_a_client_that_leaves_during_the_delay_harms_nobody() -> None:
    with running(delay=0.3) as slow:
        host, port = slow.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: shop\r\n\r\n")
        assert get(slow).startswith(b"<!DOCTYPE html>")


def is_open(url: str) -> bool:
    host, port = url.removeprefix("http://").split(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError:
        return False
    return True


def test_the_site_ends_with_the_block() -> None:
    urls = []

    def fail_while_it_runs() -> None:
        with running() as url:
            urls.append(url)
            assert is_open(url)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_while_it_runs()
    assert not is_open(urls[0])


def test_the_site_ends_with_a_parent_that_is_killed() -> None:
    program = """if True:
        import time
        from scrapy_threadpool.demosite import running
        with running() as url:
            print(url, flush=True)
            time.sleep(60)
    """
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        url = parent.stdout.readline().strip()
        assert is_open(url)
        parent.kill()
    deadline = time.monotonic() + 10
    while is_open(url) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_open(url)


@contextmanager
def command(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run the command; gives its process and the first line that it prints."""
    with subprocess.Popen(
        [*COMMAND, *options], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline()
        finally:
            process.kill()


@pytest.mark.skipif(os.name == "nt", reason="Windows sends no signals")
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_the_command_serves_until_a_signal(tmp_path: Path, end: signal.Signals) -> None:
    with command(tmp_path, "--port", "0", "--delay", "0.01") as (process, line):
        found = re.fullmatch(r"Demo site: (http://127\.0\.0\.1:\d+)\n", line)
        assert found
        assert b"1000" in get(found[1])
        process.send_signal(end)
        assert process.wait(10) == 0
        assert process.communicate() == ("", "")


def test_the_command_says_that_its_port_is_in_use(tmp_path: Path, site: str) -> None:
    port = site.rpartition(":")[2]
    with command(tmp_path, "--port", port) as (process, line):
        output, errors = process.communicate(timeout=30)
        assert (line, output, process.returncode) == ("", "", 1)
        assert errors.startswith(f"Cannot listen on 127.0.0.1:{port}: ")
        assert errors.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--port", "65536"], "--port must be a number from 0 to 65535, not '65536'"),
        (["--port", "http"], "--port must be a number from 0 to 65535, not 'http'"),
        (["--delay=-1"], "--delay must be a number of seconds, 0 or more, not '-1'"),
        (["--delay", "nan"], "--delay must be a number of seconds, 0 or more, not 'nan'"),
        (["--delay", "soon"], "--delay must be a number of seconds, 0 or more, not 'soon'"),
        (["8000"], "demosite takes no such argument: 8000"),
        (["--prot", "1"], "demosite takes no such argument: --prot"),
    ],
)
def test_the_command_refuses_bad_options(tmp_path: Path, options: list[str], error: str) -> None:
    with command(tmp_path, *options) as (process, line):
        output, errors = process.communicate(timeout=30)
        assert (line, output, process.returncode) == ("", "", 2)
        assert errors.splitlines()[-1].endswith(f"error: {error}")


def test_to_know_the_command_costs_no_reactor() -> None:
    program = """if True:
        import sys
        import scrapy_threadpool.commands.demosite, scrapy_threadpool.demosite
        sys.exit("twisted.internet.reactor" in sys.modules)
    """
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
