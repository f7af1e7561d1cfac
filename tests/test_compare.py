"""``scrapy compare``, as a user calls it, and the pieces behind it."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import scrapy
from scrapy import cmdline
from scrapy.settings import default_settings

from scrapy_threadpool.compare.differences import differences, same_items, same_statuses
from scrapy_threadpool.compare.items import describe
from scrapy_threadpool.compare.lanes import lay
from scrapy_threadpool.compare.plan import Download, Run
from scrapy_threadpool.compare.summary import percentile, ratio, typical
from scrapy_threadpool.demosite import running

PROJECT = Path(__file__).parent.parent / "sample_project"
QUICK = ["--rounds", "1", "--max-pages", "30", "-L", "INFO"]


@dataclass
class Comparison:
    returncode: int
    table: str
    progress: str
    document: Any


def compare(
    folder: Path, *arguments: str, cwd: Path | None = None, program: str = "scrapy"
) -> Comparison:
    """Run the command in *folder*, as `scrapy` or as `scrapy_threadpool` does."""
    figures = folder / "figures.json"
    process = subprocess.run(
        [sys.executable, "-m", program, "compare", *arguments, "--json", str(figures)],
        cwd=cwd or folder,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    document = json.loads(figures.read_text()) if figures.exists() else None
    return Comparison(process.returncode, process.stdout, process.stderr, document)


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with running() as url:
        yield url


SPIDER = """
import time
import scrapy

class FirstSpider(scrapy.Spider):
    name = "first"

class BooksSpider(scrapy.Spider):
    name = "some-books"

    async def start(self):
        yield scrapy.Request(self.site)

    def parse(self, response):
        for book in response.css("article.product_pod h3 a"):
            yield {{"title": book.attrib["title"], "page": response.url, {fields}}}
        yield from response.follow_all(css="li.next a")
{methods}
"""


def write_spider(folder: Path, *, fields: str = "", methods: str = "") -> Path:
    file = folder / "some_books.py"
    file.write_text(SPIDER.format(fields=fields, methods=methods))
    return file


# The whole command


def test_the_sample_project_scrapes_the_same(site: str, tmp_path: Path) -> None:
    """Its settings have the add-on on: the first variant must be without it all the same."""
    found = compare(
        tmp_path,
        "books",
        *["-a", f"site={site}", "--rounds", "2", "--max-pages", "60", "--threads", "3,5"],
        cwd=PROJECT,
    )
    assert found.returncode == 0, found.progress
    document = found.document
    assert document["same_items"] is True
    assert document["same_statuses"] is True
    assert document["differences"] == []
    assert list(document["variants"]) == ["twisted", "pool-3", "pool-5"]
    twisted, three, five = document["variants"].values()
    assert twisted["label"] == "Twisted-only"
    assert twisted["handler"] == "HTTP11DownloadHandler"
    assert twisted["pages_by_worker"] == {}
    assert three["handler"] == five["handler"] == "ThreadPoolDownloadHandler"
    assert set(five["pages_by_worker"]) <= {f"books-worker-{n}" for n in range(1, 6)}
    assert sum(five["pages_by_worker"].values()) == 61
    for variant in (twisted, three, five):
        assert variant["pages"] == 61  # and robots.txt
        assert variant["items"] == twisted["items"] > 40
        assert variant["errors"] == {}
        for name in ("pages_per_second", "cpu_seconds", "latency_p99", "lag_p50", "peak_memory"):
            figure = variant[name]
            assert len(figure["rounds"]) == 2
            assert 0 < figure["min"] <= figure["median"] <= figure["max"]
        assert variant["loop_cpu_seconds"]["median"] <= variant["cpu_seconds"]["median"] + 0.05
        assert 30e6 < variant["peak_memory"]["median"] < 1e9
    expected = [
        pool / base
        for pool, base in zip(
            document["variants"][document["ratio"]["variant"]]["pages_per_second"]["rounds"],
            twisted["pages_per_second"]["rounds"],
            strict=True,
        )
    ]
    assert document["ratio"]["rounds"] == pytest.approx(expected)
    assert document["ratio"]["pages_per_second"] == pytest.approx(sum(expected) / 2)
    assert "5 threads" in found.table
    # They take turns, and the second round goes the other way round.
    lines = [line.split(": ") for line in found.progress.splitlines()]
    order = [name for when, name, *_ in lines[1:] if when.startswith("round")]
    assert order == ["twisted", "pool-3", "pool-5", "pool-5", "pool-3", "twisted"]


def test_items_that_depend_on_the_time_are_found_by_url(site: str, tmp_path: Path) -> None:
    file = write_spider(tmp_path, fields='"seen": time.time_ns()')
    arguments = [str(file), "-a", f"site={site}", "--max-pages", "3"]
    found = compare(tmp_path, *arguments, "--rounds", "2")
    assert found.returncode == 3, found.progress
    assert found.document["same_items"] is False
    assert found.document["same_statuses"] is True
    both = found.document["differences"]
    assert {difference["variant"] for difference in both} == {"pool", "twisted"}
    of_pool = [difference for difference in both if difference["variant"] == "pool"]
    urls = [difference["url"] for difference in of_pool]
    assert urls == sorted([site, f"{site}/catalogue/page-2.html", f"{site}/catalogue/page-3.html"])
    for difference in of_pool:
        assert difference["fields"] == ["seen"]
        assert len(difference["base_items"]) == len(difference["items"]) == 20
        assert f"{difference['url']}: 16 threads: 20 items with other seen" in found.table
    # It is not the way of downloading: it differs without the workers as well.
    assert found.document["variants"]["twisted"]["same_items"] is False
    assert "NOT THE SAME items, but Twisted-only alone differs from round to round" in found.table
    assert "leave out with --ignore-fields seen" in found.table

    arguments += ["--ignore-fields", "seen", "--rounds", "1"]
    found = compare(tmp_path, *arguments, program="scrapy_threadpool")
    assert found.returncode == 0, found.progress
    assert found.document["same_items"] is True


def test_a_page_that_one_variant_lacks_is_found(site: str, tmp_path: Path) -> None:
    extra = """
    async def start(self):
        for path in ("/", "/index.html"):
            yield scrapy.Request(self.site + path, meta={"handle_httpstatus_all": True})
        if "scrapy_threadpool" in str(self.settings["ADDONS"]._to_dict()):
            yield scrapy.Request(self.site + "/nothing", meta={"handle_httpstatus_all": True})

    def parse(self, response):
        yield {"url": response.url}
"""
    file = write_spider(tmp_path, methods=extra)
    found = compare(tmp_path, str(file), "-a", f"site={site}", *QUICK)
    assert found.returncode == 3, found.progress
    [difference] = found.document["differences"]
    assert difference["url"] == f"{site}/nothing"
    assert difference["base_outcomes"] == []
    assert difference["outcomes"] == ["404"]
    assert (len(difference["base_items"]), len(difference["items"])) == (0, 1)
    assert f"{site}/nothing: 16 threads: 404 instead of nothing; 1 item more" in found.table


@pytest.mark.parametrize(
    ("variant", "condition"), [("twisted", "not in"), ("pool", "in")], ids=["twisted", "pool"]
)
def test_a_variant_that_fails_is_an_error(
    site: str, tmp_path: Path, variant: str, condition: str
) -> None:
    methods = f"""
    @classmethod
    def from_crawler(cls, crawler, **kwargs):
        if "scrapy_threadpool" {condition} str(crawler.settings["ADDONS"]._to_dict()):
            raise RuntimeError("I cannot be like this")
        return super().from_crawler(crawler, **kwargs)
"""
    file = write_spider(tmp_path, methods=methods)
    found = compare(tmp_path, str(file), "-a", f"site={site}", *QUICK)
    assert found.returncode == 1
    assert f"Error: the variant {variant!r} failed: the crawl ended with exit code 1" in (
        found.progress
    )
    assert found.progress.rstrip().endswith("RuntimeError: I cannot be like this")
    assert found.document is None


def test_a_wrong_setting_of_the_pool_is_an_error(site: str, tmp_path: Path) -> None:
    file = write_spider(tmp_path)
    setting = ["-s", "THREADPOOL_HTTP_VERSION=7"]
    found = compare(tmp_path, str(file), "-a", f"site={site}", *QUICK, *setting)
    assert found.returncode == 1
    assert "the variant 'pool' failed" in found.progress
    assert "THREADPOOL_HTTP_VERSION must be '1.1', '2' or '3', not '7'" in found.progress


def test_a_spider_without_pages_is_an_error(tmp_path: Path) -> None:
    file = write_spider(tmp_path)
    arguments = ["-a", "site=http://127.0.0.1:9", "-s", "RETRY_ENABLED=False"]
    found = compare(tmp_path, str(file), *arguments, *QUICK)
    assert found.returncode == 1
    assert "the variant 'twisted' failed: not a single page came (1 × download: " in found.progress


def test_a_run_that_takes_too_long_is_an_error(site: str, tmp_path: Path) -> None:
    file = write_spider(tmp_path)
    limit = ["-s", "DOWNLOAD_DELAY=5", "--time-limit", "4"]
    found = compare(tmp_path, str(file), "-a", f"site={site}", *QUICK, *limit)
    assert found.returncode == 1
    assert "it did not end in 4 s; raise --time-limit or lower --max-pages" in found.progress


def test_a_handler_set_by_hand_counts_as_well(site: str, tmp_path: Path) -> None:
    """And one that is neither Scrapy's nor ours is no comparison of these two."""
    methods = """
    custom_settings = {
        "DOWNLOAD_HANDLERS": {
            "http": "scrapy_threadpool.ThreadPoolDownloadHandler",
            "https": "scrapy_threadpool.ThreadPoolDownloadHandler",
        }
    }
"""
    file = write_spider(tmp_path, methods=methods)
    found = compare(tmp_path, str(file), "-a", f"site={site}", *QUICK)
    assert found.returncode == 0, found.progress
    twisted, pool = found.document["variants"].values()
    assert (twisted["handler"], twisted["pages_by_worker"]) == ("HTTP11DownloadHandler", {})
    assert sum(pool["pages_by_worker"].values()) == pool["pages"]

    h2 = "scrapy.core.downloader.handlers.http11.HTTP11DownloadHandler"
    file = write_spider(
        tmp_path, methods=f'    custom_settings = {{"DOWNLOAD_HANDLERS": {{"http": "{h2}"}}}}'
    )
    found = compare(tmp_path, str(file), "-a", f"site={site}", *QUICK)
    assert found.returncode == 1
    assert "the variant 'pool' failed: no page came through a worker" in found.progress


@pytest.mark.parametrize(
    ("setting", "label"),
    [
        ("TWISTED_REACTOR=twisted.internet.selectreactor.SelectReactor", "Twisted-only"),
        ("TWISTED_REACTOR_ENABLED=False", "Scrapy only (AiohttpDownloadHandler)"),
    ],
)
def test_other_event_loops(site: str, tmp_path: Path, setting: str, label: str) -> None:
    if "ENABLED" in setting:
        pytest.importorskip("aiohttp")
        if not hasattr(default_settings, "TWISTED_REACTOR_ENABLED"):
            pytest.skip("this Scrapy cannot do without a reactor")
    file = write_spider(tmp_path)
    found = compare(tmp_path, str(file), "-a", f"site={site}", *QUICK, "-s", setting)
    assert found.returncode == 0, found.progress
    base, pool = found.document["variants"].values()
    assert base["label"] == label
    assert base["pages"] == pool["pages"] == 30
    assert pool["pages_by_worker"]


def test_a_url_is_crawled_by_its_links(tmp_path: Path) -> None:
    with running(delay=0.1) as site:
        found = compare(tmp_path, site, *QUICK, "--threads", "12")
    assert found.returncode == 0, found.progress + found.table
    twisted, pool = found.document["variants"].values()
    assert twisted["pages"] == pool["pages"] >= 30
    assert len(pool["pages_by_worker"]) > 8  # the limit for a host is raised along


class Moody(BaseHTTPRequestHandler):
    """Links to many pages; every third answers 500 at first, and one always."""

    def do_GET(self) -> None:
        visits: dict[str, int] = self.server.visits  # type: ignore[attr-defined]
        visits[self.path] = visits.get(self.path, 0) + 1
        number = int(self.path[1:] or 0)
        status = 404 if number == 5 else 500 if number and not number % 3 else 200
        body = "".join(f'<li class="next"><a href="/{n}">x</a></li>' for n in range(40)).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None: ...


def test_every_run_asks_for_the_same_pages(tmp_path: Path) -> None:
    """More links than --max-pages, and answers that are retried: the limit is exact."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Moody)
    server.visits = {}  # type: ignore[attr-defined]
    Thread(target=server.serve_forever, daemon=True).start()
    file = write_spider(tmp_path)
    url = f"http://127.0.0.1:{server.server_port}/"
    found = compare(tmp_path, str(file), "-a", f"site={url}", "--max-pages", "10", "--rounds", "2")
    server.shutdown()
    assert found.returncode == 0, found.progress + found.table
    visits = server.visits  # type: ignore[attr-defined]
    assert len(visits) == 10
    # Two rounds and a warm-up of two variants, and two retries of a 500.
    assert set(visits.values()) == {6, 18}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give one spider, Python file or URL"),
        (["a", "b"], "give one spider, Python file or URL, not a b"),
        (["nothing.py"], "no such file: nothing.py"),
        (["nothing"], "'nothing' is no Python file and no http(s) URL, and there is no project"),
        (["http://a/", "--rounds", "0"], "--rounds takes whole numbers from 1, not '0'"),
        (["http://a/", "--threads", "4,x"], "--threads takes whole numbers from 1, not 'x'"),
        (["http://a/", "--threads", "0"], "--threads takes whole numbers from 1, not '0'"),
        (
            [
                *("http://a/", "--threads", "2", "-s"),
                'THREADPOOL_TRANSPORTS={"default": {"transport": "curl", "threads": 2}}',
            ],
            "--threads: not together with THREADPOOL_TRANSPORTS",
        ),
        (["http://a/", "--max-pages", "-1"], "--max-pages takes whole numbers from 0"),
        (["http://a/", "--time-limit", "1h"], "--time-limit takes whole numbers from 1"),
        (["http://a/", "--report", "no/such/r.html"], "--report takes a file in a folder that"),
        (["http://a/", "-s", "NAME"], "Invalid -s value, use -s NAME=VALUE"),
        (["http://a/", "-a", "x=1"], "-a is for spiders; a URL takes none"),
        (["http://a/", "--thread", "4", "x"], "give one spider, Python file or URL"),
    ],
)
def test_bad_arguments_are_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        cmdline.execute(["scrapy", "compare", *arguments])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")
def test_ctrl_c_is_one_line(tmp_path: Path, site: str) -> None:
    command = [sys.executable, "-m", "scrapy_threadpool", "compare", site, *QUICK]
    with subprocess.Popen(
        [*command, "-s", "DOWNLOAD_DELAY=3"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        told = [process.stderr.readline() for _ in range(2)]
        process.send_signal(signal.SIGINT)
        left = process.stderr.read()
    assert told[0].startswith("DOWNLOAD_DELAY = 3 holds both variants back;")
    assert told[1].endswith(" runs, and a line for each that has ended:\n")
    assert left == "Interrupted\n"
    assert process.returncode == 1


def test_an_unknown_spider_is_refused(tmp_path: Path) -> None:
    found = compare(tmp_path, "bokos", cwd=PROJECT)
    assert found.returncode == 2
    assert "no spider 'bokos' in the project; there are: books, docs" in found.progress


# The pieces


@dataclass
class DataclassItem:
    name: str
    tags: set[str]


class ScrapyItem(scrapy.Item):
    name = scrapy.Field()
    tags = scrapy.Field()


def test_items_of_all_types_are_compared_by_their_fields() -> None:
    attr = pytest.importorskip("attr")

    @attr.s
    class AttrsItem:
        tags = attr.ib()
        name = attr.ib()

    tags = {f"tag {n}" for n in range(50)}
    again = {f"tag {n}" for n in reversed(range(50))}
    items: list[Any] = [
        {"name": "n", "tags": tags},
        {"tags": again, "name": "n"},
        DataclassItem("n", again),
        ScrapyItem(name="n", tags=tags),
        AttrsItem(name="n", tags=again),
    ]
    assert len({describe(item, "u", []).digest for item in items}) == 1


def test_items_differ_where_any_value_does() -> None:
    long = "x" * 5000
    items: list[Any] = [
        {"a": 1},
        {"a": "1"},
        {"a": None},
        {},
        {"a": [1, 2]},
        {"a": [2, 1]},
        {"a": {"b": {1: "x"}}},
        {"a": {"b": {1: "y"}}},
        {"a": b"1"},
        {"a": datetime(2026, 1, 1)},
        {"a": long + "y"},
        {"a": long + "z"},
        {"a": "\ud800"},
        {"a": DataclassItem("n", set())},
    ]
    described = [describe(item, "u", []) for item in items]
    assert len({item.digest for item in described}) == len(items)
    assert max(len(text) for item in described for text in item.fields.values()) < 200
    first, second = (item.fields["a"] for item in described[10:12])
    assert first != second


def test_objects_are_compared_without_their_address() -> None:
    first, second = (describe({"a": object(), "b": n}, "u", ["b"]) for n in range(2))
    assert first == second


def make_run(**values: Any) -> Run:
    run: dict[str, Any] = {
        "spider": "s",
        "handler": "H",
        "reactor": True,
        "workers": [],
        "finish_reason": "finished",
        "seconds": 2.0,
        "pages": 10,
        "cpu_seconds": 1.0,
        "loop_cpu_seconds": 1.0,
        "peak_memory": 1,
        "received_bytes": 1,
        "latencies": [],
        "lag": [],
        "errors": {},
        "outcomes": {},
        "pages_by_worker": {},
    }
    return Run(**{**run, **values})


def test_items_are_a_multiset() -> None:
    one, two, three = ({"n": n} for n in range(3))

    def run(*items: Any) -> Run:
        return make_run(items=[describe(item, f"u{item['n']}", []) for item in items])

    assert same_items(run(one, two, two), run(two, one, two))
    assert differences(run(one, two, two), run(two, one, two)) == []
    assert not same_items(run(one, two), run(one, two, two))
    [difference] = differences(run(one, two), run(one, two, two))
    assert (difference.url, len(difference.base_items), difference.items) == ("u1", 1, [])
    missing, more = differences(run(one, three), run(one, two))
    assert (missing.url, len(missing.base_items), missing.items) == ("u1", 1, [])
    assert (more.url, more.base_items, len(more.items)) == ("u2", [], 1)


def test_statuses_are_compared_by_url() -> None:
    base = make_run(outcomes={"a": ["200"], "b": ["404"], "c": ["200"]})
    other = make_run(outcomes={"a": ["200"], "b": ["DownloadTimeoutError"], "d": ["200"]})
    assert not same_statuses(other, base)
    assert [(d.url, d.base_outcomes, d.outcomes) for d in differences(other, base)] == [
        ("b", ["404"], ["DownloadTimeoutError"]),
        ("c", ["200"], []),
        ("d", [], ["200"]),
    ]


def test_percentiles_are_values_that_occur() -> None:
    values = list(range(1, 101))
    assert [percentile(values, p) for p in (1, 50, 95, 99, 100)] == [1, 50, 95, 99, 100]
    assert [percentile([7, 3], p) for p in (50, 51, 99)] == [3, 7, 7]
    assert percentile([], 50) is None


def test_ratios_go_round_by_round() -> None:
    """A machine that gets slower from round to round does not change them."""
    base = [make_run(seconds=seconds) for seconds in (1.0, 2.0, 4.0)]
    pool = [make_run(seconds=seconds) for seconds in (0.5, 1.0, 4.0)]
    assert ratio(pool, base).rounds == [2.0, 2.0, 1.0]
    assert ratio(pool, base).median == 2.0
    assert typical(base) is base[1]


def test_downloads_without_workers_are_packed_into_lanes() -> None:
    times = [(0.0, 1.0), (0.5, 2.0), (1.0, 3.0), (1.5, 1.6), (3.0, 4.0)]
    run = make_run(downloads=[Download("", "u", "200", *time) for time in times], seconds=4.0)
    lanes = lay(run)
    assert [lane for lane, _ in lanes.downloads] == [0, 1, 0, 2, 0]
    assert lanes.names == ["1", "2", "3"]
    assert lanes.busy == pytest.approx((1 + 1.5 + 2 + 0.1 + 1) / 12)


def test_lanes_show_idle_workers_and_no_more_than_can_be_drawn() -> None:
    workers = [f"s-worker-{n}" for n in range(1, 4)]
    downloads = [Download(workers[n % 2], f"u{n}", "200", n, n + 1) for n in reversed(range(3000))]
    lanes = lay(make_run(downloads=downloads, workers=workers, seconds=3001.0))
    assert lanes.names == workers
    assert (len(lanes.downloads), lanes.left_out, lanes.end) == (1000, 2000, 1000)
    assert {download.url for _, download in lanes.downloads} == {f"u{n}" for n in range(1000)}
