"""``crawlsite`` over real servers, run as a user runs it."""

import html
import itertools
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import pytest

from scrapy_threadpool.sitespider import SiteSpider
from scrapy_threadpool.urls import page_key, read_url, site_of

from .nginx import Nginx, free_port, serve
from .parts import need

PYTHON_DOCUMENTATION = Path("/usr/share/doc/python3.11/html")
KEYS = [
    "url",
    "status",
    "title",
    "depth",
    "worker",
    "latency",
    "size",
    "content_type",
    "referer",
    "error",
]


@dataclass
class Run:
    """What a run of the command left behind."""

    returncode: int
    log: str
    items: list[dict[str, Any]] = field(default_factory=list)

    def urls(self) -> list[str]:
        return sorted(item["url"] for item in self.items)

    def paths(self) -> list[str]:
        return sorted(urlsplit(item["url"]).path for item in self.items)

    def item(self, url: str) -> dict[str, Any]:
        (found,) = [item for item in self.items if item["url"] == url]
        return found


def crawlsite(folder: Path, *arguments: str, stdin: bytes = b"", timeout: float = 90) -> Run:
    process = subprocess.run(
        [sys.executable, "-m", "scrapy_threadpool", "crawlsite", "-O", "pages.jsonl", *arguments],
        cwd=folder,
        input=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=timeout,
        check=False,
    )
    run = Run(process.returncode, process.stdout.decode())
    if (pages := folder / "pages.jsonl").exists():
        run.items = [json.loads(line) for line in pages.read_text().splitlines()]
    return run


@dataclass
class Page:
    body: str = ""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    seconds: float = 0


def links(*targets: str, **page: Any) -> Page:
    return Page("".join(f'<a href="{target}">x</a>' for target in targets), **page)


def redirect(target: str, **headers: str) -> Page:
    return Page(status=302, headers={"Location": target, **headers})


@dataclass
class Site:
    """A running site of *pages* by path, and the requests that it got."""

    url: str
    requests: list[tuple[float, str]] = field(default_factory=list)

    def asked(self) -> list[str]:
        return sorted(path for _, path in self.requests if path != "/robots.txt")


@contextmanager
def site(pages: dict[str, Page]) -> Iterator[Site]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            running.requests.append((time.monotonic(), self.path))
            key = self.path
            if "Cookie" in self.headers and f"{key} with cookie" in pages:
                key += " with cookie"
            page = pages.get(key, Page("no such page", 404))
            time.sleep(page.seconds)
            body = page.body.encode()
            self.send_response(page.status)
            headers = {"Content-Type": "text/html; charset=utf-8", **page.headers}
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 256

    with Server(("127.0.0.1", 0), Handler) as server:
        running = Site(f"http://127.0.0.1:{server.server_port}/")
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield running
        finally:
            server.shutdown()


# --- Debian's documentation of Python, against an independent walk over its files


LINK = re.compile(r"""<(?:a|area)\b[^>]*?\shref="([^"]+)\"""")


@dataclass
class Walk:
    """Every page that links lead to from *start*: its distance, and who links to it."""

    start: str
    depth: dict[str, int] = field(default_factory=dict)
    linked_from: dict[str, set[str]] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)


def walk(root: Path, base: str, start: str) -> Walk:
    result = Walk(start, {start: 0}, {start: set()})
    todo = deque([start])
    while todo:
        url = todo.popleft()
        file = root / unquote(urlsplit(url).path).lstrip("/")
        if not file.is_file():
            result.missing.add(url)
            continue
        if file.suffix != ".html":
            continue
        for href in dict.fromkeys(LINK.findall(file.read_text("utf-8", "replace"))):
            target = urldefrag(urljoin(url, html.unescape(href)))[0]
            if not target.startswith(base):
                continue
            result.linked_from.setdefault(target, set()).add(url)
            if target not in result.depth:
                result.depth[target] = result.depth[url] + 1
                todo.append(target)
    return result


@dataclass
class Documentation:
    server: Nginx
    walk: Walk
    before: int = 0

    def asked(self) -> Counter[str]:
        """Count the requests by path since the test began."""
        paths = (line.split()[6] for line in self.server.requests()[self.before :])
        return Counter(path for path in paths if path != "/robots.txt")


@pytest.fixture(scope="module")
def served_documentation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Documentation]:
    if not PYTHON_DOCUMENTATION.is_dir():
        need("python3.11-doc")
    with serve(PYTHON_DOCUMENTATION, tmp_path_factory.mktemp("nginx")) as nginx:
        start = f"{nginx.http}/index.html"
        yield Documentation(nginx, walk(PYTHON_DOCUMENTATION, f"{nginx.http}/", start))


@pytest.fixture
def documentation(served_documentation: Documentation) -> Documentation:
    before = len(served_documentation.server.requests())
    return replace(served_documentation, before=before)


def test_every_page_that_links_lead_to_is_found_once(
    documentation: Documentation, tmp_path: Path
) -> None:
    walked = documentation.walk
    assert len(walked.depth) > 400
    assert walked.missing
    run = crawlsite(tmp_path, walked.start, "--threads", "8")
    assert run.returncode == 0
    assert run.urls() == sorted(walked.depth)
    assert set(documentation.asked().values()) == {1}
    broken = {item["url"]: item for item in run.items if item["error"]}
    assert broken.keys() == walked.missing
    for url, item in broken.items():
        assert (item["status"], item["error"]) == (404, "HTTP 404")
        assert item["referer"] in walked.linked_from[url]
    start = run.item(walked.start)
    assert list(start) == KEYS
    assert (start["title"], start["depth"], start["referer"]) == ("3.11.2 Documentation", 0, None)
    assert start["size"] == (PYTHON_DOCUMENTATION / "index.html").stat().st_size
    assert start["content_type"] == "text/html"
    assert 0 < start["latency"] < 60
    assert {item["worker"] for item in run.items} <= {
        f"crawlsite-worker-{number}" for number in range(1, 9)
    }


def test_max_depth_is_exact_over_the_documentation(
    documentation: Documentation, tmp_path: Path
) -> None:
    run = crawlsite(tmp_path, documentation.walk.start, "--max-depth", "1")
    near = {url: depth for url, depth in documentation.walk.depth.items() if depth <= 1}
    assert len(near) > 20
    assert {item["url"]: item["depth"] for item in run.items} == near
    assert len(run.items) == len(near) == documentation.asked().total()


def test_max_pages_is_exact_over_the_documentation(
    documentation: Documentation, tmp_path: Path
) -> None:
    run = crawlsite(tmp_path, documentation.walk.start, "--max-pages", "37", "--threads", "16")
    assert run.returncode == 0
    assert len(set(run.urls())) == len(run.items) == 37
    assert documentation.asked().total() == 37


# --- Limits and filters


def test_max_depth_counts_the_shortest_way(tmp_path: Path) -> None:
    pages = {
        "/": links("/slow", "/quick"),
        "/slow": links("/near", seconds=1),
        "/quick": links("/quick2"),
        "/quick2": links("/near"),  # found here first, at depth 3
        "/near": links("/beyond"),
        "/beyond": links("/too-far"),
    }
    with site(pages) as server:
        run = crawlsite(tmp_path, server.url, "--max-depth", "3")
    depths = {urlsplit(item["url"]).path: item["depth"] for item in run.items}
    assert depths == {"/": 0, "/slow": 1, "/quick": 1, "/near": 2, "/quick2": 2, "/beyond": 3}


def test_max_depth_0_is_the_seeds(tmp_path: Path) -> None:
    with site({"/": links("/a"), "/b": links("/c")}) as server:
        run = crawlsite(tmp_path, server.url, f"{server.url}b", "--max-depth", "0")
    assert run.paths() == ["/", "/b"]


def test_max_pages_is_reached_though_some_links_give_no_page(tmp_path: Path) -> None:
    pages = {
        "/": links("/again", "/again2", "/forbidden", "/1", "/2", "/3"),
        "/again": redirect("/"),
        "/again2": redirect("/"),
        "/1": links("/4", "/5"),
        "/robots.txt": Page("User-agent: *\nDisallow: /forbidden"),
    }
    with site(pages) as server:
        run = crawlsite(tmp_path, server.url, "--max-pages", "4")
    assert run.paths() == ["/", "/1", "/2", "/3"]


def test_max_pages_counts_failed_pages_and_seeds(tmp_path: Path) -> None:
    with site({}) as server:
        run = crawlsite(tmp_path, *(f"{server.url}{n}" for n in range(5)), "--max-pages", "3")
    assert len(run.items) == 3
    assert len(server.asked()) == 3


def test_links_are_filtered_by_allow_and_deny(tmp_path: Path) -> None:
    pages = {
        "/": links("/a1", "/a2", "/b1", "/way"),
        "/way": redirect("/b2"),
        "/a1": links("/c1"),
    }
    with site(pages) as server:
        allow = ("--allow", "/[ab]", "--allow", "/way$")
        run = crawlsite(tmp_path, server.url, *allow, "--deny", "2$")
    assert run.paths() == ["/", "/a1", "/b1"]
    assert server.asked() == ["/", "/a1", "/b1", "/way"]


# --- Which pages are one page, and of the same site


def test_a_page_is_fetched_once_however_it_is_linked_to(tmp_path: Path) -> None:
    pages = {
        "/": links("/p?a=1&b=2", "/p?b=2&a=1", "/p?a=1&b=2#x", "#top", "/", "", " /q ", "/q#"),
        "/q": links("/%7Eq", "/~q", "?"),
        "/p?a=1&b=2": Page('<base href="/deep/"><a href="er">x</a>'),
    }
    with site(pages) as server:
        run = crawlsite(tmp_path, server.url.rstrip("/"), server.url)
    assert run.urls() == sorted(
        server.url + path for path in ("", "p?a=1&b=2", "q", "%7Eq", "deep/er")
    )
    assert len(server.asked()) == len(run.items)


def test_redirects_lead_to_one_item_of_the_final_url(tmp_path: Path) -> None:
    pages = {
        "/": links("/old", "/older", "/new", "/moved-to-nowhere"),
        "/old": redirect("/new#part"),
        "/older": redirect("/old"),
        "/new": Page("<title> The\n new </title>"),
        "/moved-to-nowhere": redirect("/nowhere"),
    }
    with site(pages) as server:
        run = crawlsite(tmp_path, server.url)
    assert run.paths() == ["/", "/new", "/nowhere"]
    assert run.item(f"{server.url}new")["title"] == "The new"
    nowhere = run.item(f"{server.url}nowhere")
    assert nowhere["referer"] == server.url
    assert nowhere["error"] == f"HTTP 404 (redirected from {server.url}moved-to-nowhere)"


def test_a_page_may_redirect_to_itself_to_set_a_cookie(tmp_path: Path) -> None:
    pages = {
        "/": redirect("/welcome"),
        "/welcome": redirect("/", **{"Set-Cookie": "seen=1"}),
        "/ with cookie": links("/page"),
    }
    with site(pages) as server:
        run = crawlsite(tmp_path, server.url)
    assert run.returncode == 0
    assert run.paths() == ["/", "/page"]


def test_a_redirect_without_end_is_a_failed_page(tmp_path: Path) -> None:
    pages = {"/": links("/round"), "/round": redirect("/and"), "/and": redirect("/round")}
    with site(pages) as server:
        run = crawlsite(tmp_path, server.url)
    failed = [item for item in run.items if item["error"]]
    assert len(run.items) == 2
    assert "max redirections reached" in failed[0]["error"]
    assert failed[0]["referer"] == server.url


def test_other_sites_are_left_alone(tmp_path: Path) -> None:
    with site({"/": links("/deeper")}) as other:
        elsewhere = other.url.replace("127.0.0.1", "localhost")
        pages = {
            "/": links(other.url, elsewhere, "/away", "mailto:me@example.com", "http://[", "//"),
            "/away": redirect(elsewhere),
        }
        with site(pages) as server:
            run = crawlsite(tmp_path, server.url)
        assert run.urls() == [server.url]
        assert other.requests == []


def test_the_site_that_a_seed_redirects_to_is_crawled(tmp_path: Path) -> None:
    with site({"/": links("/deeper")}) as new:
        elsewhere = new.url.replace("127.0.0.1", "localhost")
        with site({"/": redirect(elsewhere)}) as old:
            run = crawlsite(tmp_path, old.url)
    assert run.returncode == 0
    assert run.urls() == [elsewhere, f"{elsewhere}deeper"]


def test_frames_areas_and_refreshes_are_links(tmp_path: Path) -> None:
    pages = {
        "/": Page(
            '<meta http-equiv="refresh" content="0; url=/next"><iframe src="/frame"></iframe>'
            '<map><area href="/area"></map><img src="/image"><link href="/style" rel="stylesheet">'
        )
    }
    with site(pages) as server:
        run = crawlsite(tmp_path, server.url)
    assert run.paths() == ["/", "/area", "/frame", "/next"]


def test_what_is_not_html_is_an_item_and_not_followed(tmp_path: Path) -> None:
    text = {"Content-Type": "text/plain"}
    pages = {"/": links("/text"), "/text": links("/never", headers=text)}
    with site(pages) as server:
        run = crawlsite(tmp_path, server.url)
    assert run.paths() == ["/", "/text"]
    item = run.item(f"{server.url}text")
    assert (item["title"], item["content_type"], item["error"]) == (None, "text/plain", None)
    assert item["size"] == len(pages["/text"].body)


def test_a_site_is_a_host_and_its_port() -> None:
    same = ["http://example.com/", "https://EXAMPLE.com:443/a", "http://www.example.com:80/b"]
    assert {site_of(url) for url in same} == {"example.com"}
    others = ["http://example.com:8080/", "http://docs.example.com/", "http://www.com/"]
    assert len({site_of(url) for url in others} | {"example.com", "com"}) == 5

    narrow, wide = (SiteSpider(same[:1], subdomains=subdomains) for subdomains in (False, True))
    assert not narrow.wants("http://docs.example.com/")
    assert wide.wants("http://docs.example.com/")
    assert not wide.wants("http://myexample.com/")
    assert not wide.wants("http://docs.example.com:8080/")


# --- robots.txt


def test_robots_txt_is_obeyed(tmp_path: Path) -> None:
    robots = "User-agent: other\nDisallow: /open\n\nUser-agent: scrapy-threadpool\nDisallow: /priv"
    pages = {
        "/": links("/open", "/private", "/way"),
        "/way": redirect("/private2"),
        "/robots.txt": Page(robots),
    }
    with site(pages) as server:
        run = crawlsite(tmp_path, server.url)
        assert run.paths() == ["/", "/open"]
        assert "/private" not in server.asked()
        assert "robots.txt forbids 2 more" in run.log

        server.requests.clear()
        run = crawlsite(tmp_path, server.url, "--ignore-robots")
        assert run.paths() == ["/", "/open", "/private", "/private2"]
        assert "/robots.txt" not in [path for _, path in server.requests]


def test_a_forbidden_seed_is_said_to_be_forbidden(tmp_path: Path) -> None:
    with site({"/robots.txt": Page("User-agent: *\nDisallow: /")}) as server:
        run = crawlsite(tmp_path, server.url)
    assert run.returncode == 1
    assert run.items == []
    assert f"WARNING: {server.url}: Forbidden by robots.txt" in run.log


@pytest.mark.parametrize(
    "mode",
    [
        "TWISTED_REACTOR=twisted.internet.asyncioreactor.AsyncioSelectorReactor",
        "TWISTED_REACTOR=twisted.internet.selectreactor.SelectReactor",
    ],
    ids=["asyncio reactor", "select reactor"],
)
def test_crawl_delay_is_obeyed(tmp_path: Path, mode: str) -> None:
    pages = {
        "/": links("/1", "/2"),
        "/robots.txt": Page("User-agent: *\nCrawl-delay: 1"),
    }
    with site(pages) as server:
        run = crawlsite(tmp_path, server.url, "--threads", "8", "-s", mode)
    assert len(run.items) == 3
    times = [at for at, _ in server.requests]
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert len(gaps) == 3
    assert min(gaps) > 0.6  # as the server sees it, which may be late by a bit
    assert "asks for 1 s between two requests" in run.log


# --- Lists of URLs


def test_a_list_gives_an_item_for_every_url_and_a_message_for_every_other_line(
    documentation: Documentation, tmp_path: Path
) -> None:
    base = documentation.server.http
    good = f"{base}/copyright.html"
    dead = f"http://127.0.0.1:{free_port()}/"
    odd = (dead, "not a URL", "", "ftp://example.com/", "http://", " ")
    lines: list[str] = []
    for number in range(1000):
        lines += [f"{good}?{number}", good, f"  {base}/missing/{number}", f"{good}?same"]
        lines.append(odd[number % 20] if number % 20 < len(odd) else "")
    assert len(lines) == 5000
    (tmp_path / "urls.txt").write_bytes("\r\n".join(lines).encode())
    arguments = ("--urls-from", "urls.txt", "--threads", "16")
    run = crawlsite(tmp_path, *arguments, timeout=110)
    assert run.returncode == 0
    wanted = Counter(line.strip() for line in lines if line.strip().startswith("http://127"))
    assert Counter(item["url"] for item in run.items) == wanted
    bad = [
        number
        for number, line in enumerate(lines, 1)
        if line.strip() and line.strip() not in wanted
    ]
    assert len(bad) == 150
    complaints = re.findall(r"WARNING: urls\.txt, line (\d+): not a URL: '.+': .+", run.log)
    assert [int(number) for number in complaints] == bad
    errors = Counter(
        re.sub(r".*ConnectionRefusedError: .*", "dead", item["error"] or "none")
        for item in run.items
    )
    assert errors == {"none": 3000, "HTTP 404": 1000, "dead": 50}
    assert "Traceback" not in run.log


def test_a_list_comes_from_standard_input_and_no_link_is_followed(tmp_path: Path) -> None:
    pages = {
        "/": links("/a"),
        "/old": redirect("/"),
        "/robots.txt": Page("User-agent: *\nDisallow: /private"),
    }
    with site(pages) as server:
        lines = f"\ufeff{server.url}\n{server.url}old\n\n{server.url}private"
        run = crawlsite(tmp_path, "--urls-from", "-", stdin=lines.encode())
        assert run.urls() == [server.url, server.url, f"{server.url}private"]
        assert "Forbidden by robots.txt" in run.item(f"{server.url}private")["error"]
        assert all(list(item) == KEYS for item in run.items)

        run = crawlsite(tmp_path, "--urls-from", "-", "--max-pages", "2", stdin=lines.encode())
        assert run.urls() == [server.url, server.url]


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://example.com", "http://example.com/"),
        ("https://example.com/a b".replace(" ", "%20") + "#c", "https://example.com/a%20b"),
        ("example.com/docs?x=http://y", "http://example.com/docs?x=http://y"),
        ("localhost:8000", "http://localhost:8000/"),
        ("127.0.0.1/x", "http://127.0.0.1/x"),
        ("http://[::1]:80/", "http://[::1]:80/"),
        ("HTTP://intranet/ü", "http://intranet/%C3%BC"),
        ("http://my_host.example./", "http://my_host.example./"),
    ],
)
def test_what_is_a_url(text: str, url: str) -> None:
    assert read_url(text) == url


@pytest.mark.parametrize(
    "text",
    [
        "word",
        "two words",
        "http://example.com/a b",
        "http://",
        "http:///path",
        "http://:80/",
        "http://exa$mple.com/",
        "http://example..com/",
        "http://example.com:99999/",
        "http://example.com:port/",
        "http://[::1/",
        "http://[zz]/",
        "ftp://example.com/",
        "mailto:me@example.com",
        "javascript:void(0)",
        "1.2.3",
        "/path",
        "//example.com/",
        "?",
        "",
        "http://example.com/\x00",
        f"http://{'a' * 64}.com/",
    ],
)
def test_what_is_no_url(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        read_url(text)


def test_the_key_of_a_page_leaves_out_what_makes_no_difference() -> None:
    assert page_key("http://a.com/%7ex?b=1&a=2#c") == page_key("http://a.com/~x?a=2&b=1")
    assert page_key("http://a.com/x") != page_key("http://a.com/x/")


# --- Exit codes and arguments


@pytest.mark.parametrize("pages", [{"/": Page(status=500)}, {"/": redirect("/")}, {}])
def test_exit_code_1_when_no_seed_came(tmp_path: Path, pages: dict[str, Page]) -> None:
    with site(pages) as server:
        run = crawlsite(tmp_path, server.url, "-s", "RETRY_TIMES=0")
    assert run.returncode == 1
    assert len(run.items) == 1


def test_exit_code_1_when_the_host_is_dead(tmp_path: Path) -> None:
    run = crawlsite(tmp_path, f"127.0.0.1:{free_port()}")
    assert run.returncode == 1
    assert "ConnectionRefusedError: " in run.items[0]["error"]
    assert list(run.items[0]) == KEYS


def test_exit_code_0_when_a_seed_came_before_the_crawl_was_resumed(tmp_path: Path) -> None:
    with site({"/": Page("x")}) as server:
        first, resumed = (crawlsite(tmp_path, server.url, "-s", "JOBDIR=job") for _ in range(2))
    assert [len(first.items), len(resumed.items)] == [1, 0]
    assert first.returncode == resumed.returncode == 0


def test_exit_code_0_when_one_seed_came(tmp_path: Path) -> None:
    with site({"/": Page("x")}) as server:
        run = crawlsite(tmp_path, f"{server.url}missing", server.url)
    assert run.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "which site"),
        (["word"], "not a URL: 'word'"),
        (["example.com", "ftp://example.com"], "not a URL: 'ftp://example.com'"),
        (["example.com", "--allow", "("], "argument --allow: '(' is no regular expression"),
        (["example.com", "--deny", "["], "argument --deny: '[' is no regular expression"),
        (["example.com", "--threads", "0"], "argument --threads: a whole number from 1 on"),
        (["example.com", "--max-pages", "0"], "argument --max-pages: a whole number from 1 on"),
        (["example.com", "--max-depth", "-1"], "argument --max-depth: a whole number from 0 on"),
        (["example.com", "--delay", "nan"], "argument --delay: a number of seconds"),
        (["example.com", "--timeout", "0"], "argument --timeout: a number of seconds"),
        (["example.com", "--frob"], "unknown option --frob"),
        (["example.com", "-a", "seeds=x"], "-a seeds"),
        (
            [
                *("example.com", "--threads", "2", "-s"),
                'THREADPOOL_TRANSPORTS={"default": {"transport": "curl", "threads": 2}}',
            ],
            "--threads: not together with THREADPOOL_TRANSPORTS",
        ),
        (["--urls-from", "missing.txt"], "--urls-from missing.txt: No such file"),
        (["--urls-from", "-"], "--urls-from -: no line of it is a URL"),
        (["--urls-from", "-", "example.com"], "--urls-from: not together with 'example.com'"),
        (["--urls-from", "-", "--max-depth", "1"], "--max-depth: with --urls-from"),
    ],
)
def test_exit_code_2_and_one_clear_line_for_bad_arguments(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    run = crawlsite(tmp_path, *arguments)
    assert run.returncode == 2
    assert message in run.log.splitlines()[-1]
    assert "Traceback" not in run.log
    assert not (tmp_path / "pages.jsonl").exists()


def test_it_is_a_command_of_scrapy_too(tmp_path: Path) -> None:
    with site({"/": Page("x")}) as server:
        process = subprocess.run(
            [sys.executable, "-m", "scrapy", "crawlsite", server.url, "-o", "-:csv"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    header, line = process.stdout.splitlines()
    assert header == ",".join(KEYS)
    assert line.startswith(f"{server.url},200,,0,crawlsite-worker-")


# --- Progress


def slow_site() -> dict[str, Page]:
    pages = {f"/{n}": links(f"/{n + 1}", f"/missing{n}", seconds=0.4) for n in range(20)}
    return {"/": links("/0"), **pages}


LINE = re.compile(
    r"\d+ of 14 pages, \d+ failed, \d+ queued, \d+\.\d pages/s, \d+\.\d\d MB/s(, \d+:\d\d left)?"
)


def test_without_a_terminal_progress_is_a_line_of_the_log_now_and_then(tmp_path: Path) -> None:
    with site(slow_site()) as server:
        run = crawlsite(tmp_path, server.url, "--max-pages", "14", "--threads", "1")
    shown = [line for line in run.log.splitlines() if "[scrapy_threadpool.progress]" in line]
    assert 1 <= len(shown) <= 3
    assert all(LINE.search(line) for line in shown)
    assert "\x1b" not in run.log


def in_terminal(folder: Path, code: str, *arguments: str) -> tuple[list[str], list[str]]:
    """Return the different screens of a terminal during a run, and all its lines in the end."""
    pty = pytest.importorskip("pty")
    pyte = pytest.importorskip("pyte")
    screen = pyte.HistoryScreen(160, 30, history=10000, ratio=0.5)
    stream = pyte.ByteStream(screen)
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "160", "LINES": "30"}
    process = subprocess.Popen(
        [sys.executable, "-c", code, "crawlsite", *arguments],
        cwd=folder,
        env=environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    screens: list[str] = []
    while data := _read(ours):
        stream.feed(data)
        screens.append("\n".join(screen.display))
    os.close(ours)
    assert process.wait(10) == 0
    above = ["".join(line[x].data for x in range(160)) for line in screen.history.top]
    return screens, [line.rstrip() for line in [*above, *screen.display]]


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # how Linux says that nobody has the other end open any more
        return b""


RUN = "from scrapy_threadpool.__main__ import main; main()"


def test_on_a_terminal_there_is_a_live_view_that_leaves_the_log_alone(tmp_path: Path) -> None:
    with site(slow_site()) as server:
        arguments = (server.url, "--max-pages", "14", "--threads", "3", "-o", "pages.jsonl")
        screens, lines = in_terminal(tmp_path, RUN, *arguments)
    views = [screen for screen in screens if LINE.search(screen)]
    assert len({LINE.search(view)[0] for view in views}) >= 3  # it moves  # type: ignore[index]
    assert any(
        re.search(rf"^ +\d +\d\.\d s  {server.url}\d+", view, re.MULTILINE) for view in views
    )
    assert any(len(re.findall(r"^ +[123]  ", view, re.MULTILINE)) == 3 for view in views)
    assert any("━" in view for view in views)

    text = "\n".join(lines)
    assert not LINE.search(text)  # nothing of the view is left
    assert "━" not in text
    items = [json.loads(line) for line in (tmp_path / "pages.jsonl").read_text().splitlines()]
    failed = [item for item in items if item["error"]]
    assert len(failed) >= 3
    for item in failed:
        told = f"INFO: {item['url']}: HTTP 404, linked from {item['referer']}"
        assert len([line for line in lines if line.endswith(told)]) == 1
    assert any(line.endswith("INFO: Spider closed (finished)") for line in lines)


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        (f"import sys; sys.modules['rich'] = None; {RUN}", []),
        (RUN, ["-o", "-:jsonlines"]),
    ],
    ids=["without rich", "items go to the terminal"],
)
def test_on_a_terminal_progress_is_plain_where_a_live_view_cannot_be(
    tmp_path: Path, code: str, arguments: list[str]
) -> None:
    with site(slow_site()) as server:
        common = (server.url, "--max-pages", "14", "--threads", "1")
        screens, lines = in_terminal(tmp_path, code, *common, *arguments)
    assert any("[scrapy_threadpool.progress] INFO:" in line for line in lines)
    assert not any("━" in screen for screen in screens)
