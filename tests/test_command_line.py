"""`scrapy-threadpool`, `python -m scrapy_threadpool` and plain `scrapy`, as a user types them."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .server import Server, serve

SCRIPTS = Path(sys.executable).parent
SPIDER = """
import scrapy

class Test(scrapy.Spider):
    name = "test"
    custom_settings = {}

    async def start(self):
        for number in range(3):
            yield scrapy.Request(f"{self.url}/page/{number}")

    def parse(self, response):
        yield {"url": response.url, "worker": response.meta.get("worker")}
"""
SCRIPT = """
import sys
from scrapy.crawler import AsyncCrawlerProcess, CrawlerProcess
from spider import Test

process = {"async": AsyncCrawlerProcess, "sync": CrawlerProcess}[sys.argv[1]](
    {"ADDONS": {"scrapy_threadpool.Addon": 500}, "NUMBER_OF_THREADS": "many"}
)
process.crawl(Test, url=sys.argv[2])
process.start()
"""
REFUSAL = "NUMBER_OF_THREADS must be a whole number of at least 1, not 'many'\n"
PROGRAMS = {
    "scrapy-threadpool": [str(SCRIPTS / "scrapy-threadpool")],
    "python -m scrapy_threadpool": [sys.executable, "-m", "scrapy_threadpool"],
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serve() as running:
        yield running


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project as `scrapy startproject` makes one, with one spider and no add-on."""
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = shop.settings\n")
    spiders = tmp_path / "shop" / "spiders"
    spiders.mkdir(parents=True)
    (tmp_path / "shop" / "__init__.py").touch()
    (spiders / "__init__.py").touch()
    (spiders / "test.py").write_text(SPIDER)
    (tmp_path / "shop" / "settings.py").write_text('SPIDER_MODULES = ["shop.spiders"]\n')
    return tmp_path


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if "SCRAPY" not in name}
    return subprocess.run(
        command,
        cwd=folder,
        env={**environment, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def workers(items: Path) -> set[str]:
    found = [json.loads(line) for line in items.read_text().splitlines()]
    assert len(found) == 3
    return {item["worker"] for item in found}


@pytest.mark.parametrize("program", list(PROGRAMS))
def test_runspider(tmp_path: Path, server: Server, program: str) -> None:
    (tmp_path / "spider.py").write_text(SPIDER)
    command = [*PROGRAMS[program], "runspider", "spider.py", "-o", "items.jsonl"]
    done = run(tmp_path, *command, "-a", f"url={server.url}", "-s", "NUMBER_OF_THREADS=1")
    assert done.returncode == 0, done.stderr
    assert workers(tmp_path / "items.jsonl") == {"test-worker-1"}, done.stderr


@pytest.mark.parametrize("program", list(PROGRAMS))
def test_crawl(project: Path, server: Server, program: str) -> None:
    command = [*PROGRAMS[program], "crawl", "test", "-o", "items.jsonl"]
    done = run(project, *command, "-a", f"url={server.url}", "-s", "NUMBER_OF_THREADS=1")
    assert done.returncode == 0, done.stderr
    assert workers(project / "items.jsonl") == {"test-worker-1"}, done.stderr


def test_plain_scrapy_is_as_before(project: Path, server: Server) -> None:
    scrapy = str(SCRIPTS / "scrapy")
    done = run(project, scrapy, "crawl", "test", "-o", "items.jsonl", "-a", f"url={server.url}")
    assert done.returncode == 0, done.stderr
    json_lines = (project / "items.jsonl").read_text().splitlines()
    assert [json.loads(line)["worker"] for line in json_lines] == [None, None, None]


def test_add_ons_of_the_project_stay(project: Path, server: Server) -> None:
    settings = project / "shop" / "settings.py"
    settings.write_text(settings.read_text() + 'ADDONS = {"shop.addon.Other": 100}\n')
    (project / "shop" / "addon.py").write_text(
        "class Other:\n"
        "    def update_settings(self, settings):\n"
        "        settings.set('NUMBER_OF_THREADS', 2, priority='addon')\n"
    )
    command = [*PROGRAMS["scrapy-threadpool"], "crawl", "test", "-a", f"url={server.url}"]
    done = run(project, *command)
    assert "'threadpool/size': 2" in done.stderr


def test_shell(tmp_path: Path, server: Server) -> None:
    command = [*PROGRAMS["scrapy-threadpool"], "shell", f"{server.url}/page"]
    done = run(tmp_path, *command, "-c", "response.status, response.meta['worker']")
    assert done.returncode == 0, done.stderr
    status, worker = eval(done.stdout)
    assert status == 200
    assert "-worker-" in worker


def test_fetch(tmp_path: Path, server: Server) -> None:
    done = run(tmp_path, *PROGRAMS["scrapy-threadpool"], "fetch", f"{server.url}/page")
    assert done.returncode == 0, done.stderr
    assert "<h1>/page</h1>" in done.stdout
    assert "'threadpool/tasks': 1" in done.stderr


def test_commands_are_listed(tmp_path: Path) -> None:
    done = run(tmp_path, *PROGRAMS["scrapy-threadpool"])
    assert done.returncode == 0
    assert "demosite" in done.stdout
    assert "runspider" in done.stdout


@pytest.mark.parametrize("program", list(PROGRAMS))
def test_a_wrong_setting_is_one_line(project: Path, server: Server, program: str) -> None:
    asked = len(server.received)
    command = [*PROGRAMS[program], "crawl", "test", "-a", f"url={server.url}"]
    done = run(project, *command, "-s", "NUMBER_OF_THREADS=many")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", REFUSAL)
    assert len(server.received) == asked


def test_a_wrong_setting_of_a_project_is_one_line(project: Path) -> None:
    settings = project / "shop" / "settings.py"
    addon = 'ADDONS = {"scrapy_threadpool.Addon": 500}\nNUMBER_OF_THREADS = "many"\n'
    settings.write_text(settings.read_text() + addon)
    done = run(project, str(SCRIPTS / "scrapy"), "crawl", "test")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", REFUSAL)


@pytest.mark.parametrize("kind", ["async", "sync"])
def test_a_wrong_setting_of_a_script_is_one_line(tmp_path: Path, server: Server, kind: str) -> None:
    (tmp_path / "spider.py").write_text(SPIDER)
    (tmp_path / "script.py").write_text(SCRIPT)
    done = run(tmp_path, sys.executable, "script.py", kind, server.url)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", REFUSAL)


def test_a_wrong_setting_of_a_spider_stops_its_crawl(project: Path, server: Server) -> None:
    asked = len(server.received)
    wrong = SPIDER.replace("= {}", '= {"NUMBER_OF_THREADS": "many"}')
    (project / "shop" / "spiders" / "test.py").write_text(wrong)
    command = [*PROGRAMS["scrapy-threadpool"], "crawl", "test", "-a", f"url={server.url}"]
    done = run(project, *command)  # not every Scrapy ends with another code than 0 here
    assert f"ValueError: {REFUSAL}" in done.stderr
    assert len(server.received) == asked
