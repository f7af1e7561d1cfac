"""The selenium transport, with a real Chromium: pages, actions, errors, and no process left."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from scrapy.utils.test import get_crawler

from scrapy_threadpool.transports import load_transport

from . import raw_server
from .crawling import ADDON, crawl
from .fetching import fetch
from .parts import need
from .raw_server import respond

pytest.importorskip("selenium")
need("chromium", "chromedriver")

PATIENCE = 110  # seconds for a crawl: browsers are slow where much else is going on
HTML = "Content-Type: text/html; charset=iso-8859-1"


def browsers(threads: int, **options: Any) -> dict[str, Any]:
    """Return settings for a crawl with *threads* browsers."""
    entry = {"transport": "selenium", "threads": threads, **options}
    return {"THREADPOOL_TRANSPORTS": {"default": entry}, "CONCURRENT_REQUESTS_PER_DOMAIN": threads}


def processes(folder: Path) -> list[str]:
    """Return the command lines that name *folder*, of processes that still run."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            state = (process / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if str(folder) in command and state != "Z" and "chrom" in command:
            found.append(command)
    return found


def unused_url() -> str:
    """Return a URL at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


def assert_nothing_is_left(temporary: Path) -> None:
    deadline = time.monotonic() + 5
    while processes(temporary) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert processes(temporary) == []
    assert list(temporary.iterdir()) == []


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A folder for temporary files whose path is short enough for the browser's socket."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def page(text: str, *headers: str, status: str = "200 OK") -> bytes:
    return respond(HTML, *headers, body=text.encode("iso-8859-1"), status=status)


def test_pages_come_as_the_browser_shows_them(tmp_path: Path, temporary: Path) -> None:
    script = "setTimeout(() => document.body.append('rendered ' + location.pathname), 0)"
    answers: dict[str, Any] = {
        "/script": page(f"<p>ä<script>{script}</script>", "Set-Cookie: a=1", "Set-Cookie: b=2"),
        "/moved": respond("Location: /target", status="302 Found"),
        "/target": page("<p>target"),
        "/missing": page("<p>missing", status="404 Not Found"),
        "/bare": respond(status="503 Service Unavailable"),
        "/nothing": b"HTTP/1.1 204 No Content\r\n\r\n",
        "/data": respond("Content-Type: application/json", body=b'{"a": "<\xc3\xa4>"}'),
        "/file": respond("Content-Disposition: attachment", body=b"file"),
        "/alert": page("<script>alert('stop'); open('/target')</script><p>after"),
        "/headers": page("<p>headers"),
        "/last": page("<p>last"),
    }
    with raw_server.serve(lambda path: answers.get(path, respond(status="404 -"))) as server:
        requests: list[dict[str, Any]] = [
            {"url": server.url + path, "meta": {"actions": [["wait", 0.1]]}}
            for path in answers
            if path != "/target"
        ]
        requests[-2].update(
            headers={"User-Agent": "Mine/1", "Accept-Language": "de"}, cookies={"c": "ä 1"}
        )
        requests += [
            {"url": server.url, "method": "POST"},
            {"url": unused_url()},
            {"url": "http://host.invalid/"},
        ]
        settings = {**browsers(1), "CONCURRENT_REQUESTS": 1}
        items, crawled = fetch(
            tmp_path / "crawl", requests, settings, env={"TMPDIR": str(temporary)}, timeout=PATIENCE
        )
        sent = dict(server.headers("/headers"))
        last = dict(server.headers("/last"))
    outcome = {item["number"]: item for item in items}
    bodies = [item.get("body", item.get("error")) for item in items]
    assert "ä".encode().decode("latin-1") in bodies[0]
    assert "rendered /script" in bodies[0]
    assert outcome[0]["headers"]["Set-Cookie"] == ["a=1", "b=2"]
    assert outcome[0]["ip"] == "127.0.0.1"
    assert outcome[0]["protocol"] == "HTTP/1.1"
    assert outcome[0]["meta"]["download_latency"] > 0
    assert outcome[1]["url"] == f"{server.url}/target"
    assert "target" in bodies[1]
    assert [item.get("status") for item in items[:8]] == [200, 200, 404, 503, 204, 200, None, 200]
    assert "missing" in bodies[2]
    assert bodies[3] == bodies[4] == ""
    assert json.loads(bodies[5]) == {"a": "<Ã¤>"}
    assert outcome[5]["type"] == "JsonResponse"
    assert "saves this" in outcome[6]["message"]
    assert "after" in bodies[7]
    assert "<p>target" not in bodies[7]
    assert "last" in bodies[9]
    assert sent["User-Agent"] == "Mine/1"
    assert sent["Accept-Language"].startswith("de")
    assert "c=Ã¤ 1" in sent["Cookie"]
    assert "HeadlessChrome" in last["User-Agent"]
    assert "c=" in last["Cookie"]  # from Scrapy's jar
    assert outcome[10]["error"] == "NotSupported"
    assert outcome[11]["error"] == "DownloadConnectionRefusedError"
    assert outcome[12]["error"] == "CannotResolveHostError"
    assert crawled.log.count("is started again") == 0
    assert_nothing_is_left(temporary)


def test_every_body_belongs_to_its_url(tmp_path: Path, temporary: Path) -> None:
    script = "document.body.innerHTML = '<p>' + location.pathname"

    def answer(path: str) -> bytes:
        return page(f"<body><script>setTimeout(() => {{ {script} }}, 20)</script>")

    with raw_server.serve(answer) as server:
        requests = [
            {"url": f"{server.url}/{number}", "meta": {"actions": [["wait", "p"]]}}
            for number in range(16)
        ]
        items, crawled = fetch(
            tmp_path / "crawl",
            requests,
            browsers(2),
            env={"TMPDIR": str(temporary)},
            timeout=PATIENCE,
        )
    for item in items:
        assert f"<p>/{item['number']}</p>" in item["body"]
        assert item["url"] == f"{server.url}/{item['number']}"
    assert len([key for key in crawled.stats if key.startswith("threadpool/pages/")]) == 2
    assert_nothing_is_left(temporary)


def test_actions_happen_before_the_response(tmp_path: Path, temporary: Path) -> None:
    source = """
from scrapy import Request, Spider

def hello(driver):
    driver.execute_script("document.body.append('from a function')")

class ActionsSpider(Spider):
    name = "actions"

    async def start(self):
        actions = [
            ("click", "button"), ("wait", "#clicked"), "scroll", ("wait", "#scrolled"),
            ("script", "document.body.append('by script')"), "screenshot",
        ]
        yield Request(self.url, meta={"actions": actions})
        yield Request(self.url + "?2", meta={"actions": hello})
        for number, action in enumerate([("dance",), ("click",), ("wait", "#never")]):
            meta = {"actions": [action], "max_retry_times": 0}
            if number == 2:
                meta["download_timeout"] = 6
            yield Request(f"{self.url}?e{number}", meta=meta, errback=self.failed)

    def parse(self, response):
        yield {
            "url": response.url,
            "body": response.text,
            "png": response.meta.get("screenshot", b"")[:4].decode("latin-1"),
        }

    def failed(self, failure):
        error = failure.value
        yield {"url": failure.request.url, "error": type(error).__name__, "message": str(error)}
"""
    html = """<body style="height: 9999px"><button onclick="add('clicked')">click</button><script>
function add(id) {
  const element = document.createElement("i");
  element.id = id;
  setTimeout(() => document.body.append(element), 50);
}
addEventListener("scroll", () => add("scrolled"), {once: true})
</script>"""
    with raw_server.serve(lambda path: page(html)) as server:
        result = crawl(
            tmp_path / "crawl",
            source,
            "actions",
            settings={**ADDON, **browsers(1), "CONCURRENT_REQUESTS": 1},
            env={"TMPDIR": str(temporary)},
            timeout=PATIENCE,
            url=server.url,
        )
    first, second, unknown, short, never = sorted(result.items, key=lambda item: item["url"])
    for text in ('id="clicked"', 'id="scrolled"', "by script"):
        assert text in first["body"]
    assert first["png"] == "\x89PNG"
    assert "from a function" in second["body"]
    assert "there are wait, click, scroll, script, screenshot" in unknown["message"]
    assert "('click',)" in short["message"]
    assert never["error"] == "DownloadTimeoutError"
    assert_nothing_is_left(temporary)


def test_a_browser_that_hangs_or_dies_is_replaced(tmp_path: Path, temporary: Path) -> None:
    source = """
import os, signal
from scrapy import Request, Spider

def kill(driver):
    os.killpg(driver.service.process.pid, signal.SIGKILL)

class DeathSpider(Spider):
    name = "death"

    async def start(self):
        for number, path in enumerate(["/1", "/silent", "/2", "/endless", "/3", "/killed", "/4"]):
            meta = {"max_retry_times": 0, "actions": kill if path == "/killed" else ()}
            if path in ("/silent", "/endless"):
                meta["download_timeout"] = 3
            yield Request(self.url + path, meta=meta, errback=self.failed, priority=-number)

    def parse(self, response):
        yield {"path": response.url.replace(self.url, ""), "body": response.text}

    def failed(self, failure):
        path = failure.request.url.replace(self.url, "")
        yield {"path": path, "error": type(failure.value).__name__}
"""

    def answer(path: str) -> bytes | Iterable[bytes]:
        if path == "/silent":
            time.sleep(20)
        return page("<script>for (;;);</script>" if path == "/endless" else f"<p>{path}")

    with raw_server.serve(answer) as server:
        result = crawl(
            tmp_path / "crawl",
            source,
            "death",
            settings={**ADDON, **browsers(1), "CONCURRENT_REQUESTS": 1},
            env={"TMPDIR": str(temporary)},
            timeout=PATIENCE,
            url=server.url,
        )
    items = {item["path"]: item for item in result.items}
    for path in ("/1", "/2", "/3", "/4"):
        assert f"<p>{path}</p>" in items[path].get("body", ""), result.log
    assert items["/silent"]["error"] == items["/endless"]["error"] == "DownloadTimeoutError"
    assert items["/killed"]["error"] == "DownloadFailedError"
    assert_nothing_is_left(temporary)


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")
@pytest.mark.parametrize("times", [1, 2])
def test_no_process_is_left_after_ctrl_c(tmp_path: Path, temporary: Path, times: int) -> None:
    spider = tmp_path / "spider.py"
    spider.write_text(
        f"SETTINGS = {browsers(2)!r}"
        """
from scrapy import Request, Spider

class WaitSpider(Spider):
    name = "wait"
    custom_settings = SETTINGS
    async def start(self):
        for number in range(100):
            yield Request(f"{self.url}/{number}", meta={"actions": [("wait", 3)]})
    def parse(self, response):
        print("a page", flush=True)
"""
    )
    with raw_server.serve(lambda path: page("<p>x")) as server:
        command = [sys.executable, "-m", "scrapy_threadpool", "runspider", str(spider)]
        with subprocess.Popen(
            [*command, "-a", f"url={server.url}"],
            env={**os.environ, "TMPDIR": str(temporary)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            assert process.stdout is not None
            deadline = time.monotonic() + 60
            while not server.heads and time.monotonic() < deadline:
                time.sleep(0.05)
            assert len(processes(temporary)) > 0
            for _ in range(times):
                process.send_signal(signal.SIGINT)
                time.sleep(0.5)
            log = process.stdout.read()
            process.wait(30)
    assert "Received SIGINT" in log
    assert_nothing_is_left(temporary)


def test_pages_go_through_the_proxy_of_their_request(tmp_path: Path, temporary: Path) -> None:
    unused = unused_url()
    with raw_server.serve(lambda path: page("<p>proxy")) as proxy:
        requests: list[dict[str, Any]] = [
            {"url": f"{unused}/a", "meta": {"proxy": proxy.url}},
            {"url": "http://site.invalid/b", "meta": {"proxy": proxy.url}},
            {"url": f"{unused}/c"},
            {"url": "http://site.invalid/d", "meta": {"proxy": proxy.url.replace("//", "//a:b@")}},
        ]
        settings = {**browsers(1), "CONCURRENT_REQUESTS": 1}
        items, _ = fetch(
            tmp_path / "crawl", requests, settings, env={"TMPDIR": str(temporary)}, timeout=PATIENCE
        )
    assert "proxy" in items[0]["body"]
    assert "proxy" in items[1]["body"]
    assert items[2]["error"] == "DownloadConnectionRefusedError"
    assert items[3]["error"] == "NotSupported"
    assert_nothing_is_left(temporary)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"argument": "--x"}, "unknown option argument; there are arguments, binary, chromedriver"),
        ({"arguments": "--x"}, "arguments must be a list of command line arguments, not '--x'"),
        ({"headless": "no"}, "headless must be True or False, not 'no'"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        load_transport("selenium").share(get_crawler(), options)
