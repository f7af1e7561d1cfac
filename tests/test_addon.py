"""What the add-on makes of a user's settings."""

import logging
import sys
from pathlib import Path
from typing import Any

import pytest
from scrapy.settings import Settings

from scrapy_threadpool import Addon, ThreadPoolDownloadHandler

from .crawling import ADDON, ASYNCIO, MODES, crawl
from .server import serve

OURS = "scrapy_threadpool.ThreadPoolDownloadHandler"
SPIDER = """
import scrapy

class Test(scrapy.Spider):
    name = "test"

    async def start(self):
        yield scrapy.Request(self.url + "/page")

    def parse(self, response):
        yield {"worker": response.meta.get("worker")}
"""


def configured(values: dict[str, Any]) -> Settings:
    settings = Settings(values)
    Addon.update_pre_crawler_settings(settings)
    Addon().update_settings(settings)
    return settings


def test_http_and_https_are_ours() -> None:
    handlers = configured({})["DOWNLOAD_HANDLERS"]
    assert dict(handlers) == {"http": OURS, "https": OURS}


def test_twice_is_as_once() -> None:
    settings = configured({"NUMBER_OF_THREADS": 30})
    once = settings.copy_to_dict()
    Addon().update_settings(settings)
    assert settings.copy_to_dict() == once


@pytest.mark.parametrize("handler", ["scrapy.core.downloader.handlers.http11.HTTP11", None])
def test_handlers_of_the_user_win(handler: str | None, caplog: pytest.LogCaptureFixture) -> None:
    settings = configured({"DOWNLOAD_HANDLERS": {"https": handler, "ftp": None}})
    assert dict(settings["DOWNLOAD_HANDLERS"]) == {"http": OURS, "https": handler, "ftp": None}
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage() == (
        f"https requests are not downloaded by worker threads: DOWNLOAD_HANDLERS says {handler}"
    )


class OwnHandler(ThreadPoolDownloadHandler):
    """What a user may make of the handler."""


@pytest.mark.parametrize(
    "handler",
    [
        OURS,
        ThreadPoolDownloadHandler,
        "scrapy_threadpool.handler.ThreadPoolDownloadHandler",
        f"{__name__}.OwnHandler",
    ],
)
def test_our_handler_by_another_name_is_no_reason_to_warn(
    handler: object, caplog: pytest.LogCaptureFixture
) -> None:
    settings = configured({"DOWNLOAD_HANDLERS": {"http": handler}})
    assert dict(settings["DOWNLOAD_HANDLERS"]) == {"http": handler, "https": OURS}
    assert caplog.records == []


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, 16),
        ({"NUMBER_OF_THREADS": 40}, 40),
        ({"NUMBER_OF_THREADS": "40"}, 40),
        ({"NUMBER_OF_THREADS": 4}, 16),
        ({"NUMBER_OF_THREADS": 40, "CONCURRENT_REQUESTS": 20}, 20),
        ({"NUMBER_OF_THREADS": 40, "CONCURRENT_REQUESTS": 16}, 16),
    ],
)
def test_concurrent_requests_are_raised_unless_they_are_set(
    values: dict[str, Any], expected: int
) -> None:
    assert configured(values).getint("CONCURRENT_REQUESTS") == expected


def test_concurrent_requests_of_several_transports() -> None:
    transports = {
        "default": {"transport": "curl", "threads": 20},
        "other": {"transport": "curl", "threads": 5},
    }
    settings = configured({"THREADPOOL_TRANSPORTS": transports})
    assert settings.getint("CONCURRENT_REQUESTS") == 25


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"NUMBER_OF_THREADS": 0}, "NUMBER_OF_THREADS must be a whole number of at least 1, not 0"),
        (
            {"THREADPOOL_TRANSPORT": "no_such_module.Transport"},
            "THREADPOOL_TRANSPORT: 'no_such_module.Transport' cannot be loaded: "
            "No module named 'no_such_module'",
        ),
        (
            {"THREADPOOL_TRANSPORT": "pathlib.Path"},
            "THREADPOOL_TRANSPORT: 'pathlib.Path' is neither a Transport subclass nor a function",
        ),
        (
            {"THREADPOOL_TRANSPORTS": {"default": {"transport": "nothing", "threads": 1}}},
            "THREADPOOL_TRANSPORTS['default']['transport']: 'nothing' cannot be loaded: "
            "Error loading object 'nothing': not a full path",
        ),
    ],
)
def test_wrong_settings(values: dict[str, Any], message: str) -> None:
    settings = Settings(values)
    with pytest.raises(ValueError) as early:  # noqa: PT011
        Addon.update_pre_crawler_settings(settings)
    assert str(early.value) == message
    assert isinstance(early.value, SystemExit)  # nobody catches it: one line and no traceback
    with pytest.raises(ValueError) as late:  # noqa: PT011
        Addon().update_settings(settings)
    assert str(late.value) == message
    assert not isinstance(late.value, SystemExit)  # it must not end somebody's event loop


def test_download_handlers_by_hand(tmp_path: Path) -> None:
    with serve() as server:
        settings = {"DOWNLOAD_HANDLERS": {"http": OURS, "https": OURS}, "NUMBER_OF_THREADS": 1}
        done = crawl(tmp_path, SPIDER, settings=settings, url=server.url)
    assert done.items == [{"worker": "test-worker-1"}], done.log


def test_a_handler_of_the_user_downloads(tmp_path: Path) -> None:
    with serve() as server:
        http11 = "scrapy.core.downloader.handlers.http11.HTTP11DownloadHandler"
        settings = {**ADDON, "DOWNLOAD_HANDLERS": {"http": http11}}
        done = crawl(tmp_path, SPIDER, settings=settings, url=server.url)
    assert done.items == [{"worker": None}], done.log
    assert "http requests are not downloaded by worker threads" in done.log


@pytest.mark.parametrize(
    ("mode", "wrong", "message"),
    [
        *(
            (
                mode,
                {"DOWNLOAD_TLS_MIN_VERSION": "SSLv3"},
                "Unknown DOWNLOAD_TLS_MIN_VERSION value: SSLv3; it must be one of TLSv1.0",
            )
            for mode in MODES
        ),
        (
            ASYNCIO,
            {"DOWNLOADER_CLIENT_TLS_CIPHERS": ["AES"]},
            "DOWNLOADER_CLIENT_TLS_CIPHERS must be a string, not ['AES']",
        ),
        (
            ASYNCIO,
            {"DOWNLOAD_BIND_ADDRESS": ["127.0.0.1", "x"]},
            "DOWNLOAD_BIND_ADDRESS and request.meta['bindaddress'] must be a host, or a pair of a "
            "host and a port, not ['127.0.0.1', 'x']",
        ),
        (
            ASYNCIO,
            {
                "THREADPOOL_TRANSPORTS": {
                    "default": {"transport": "curl", "threads": 1, "zeal": 1, "1": 2}
                }
            },
            "THREADPOOL_TRANSPORTS['default']: unknown option zeal, 1; there is none",
        ),
    ],
)
def test_a_wrong_setting_that_comes_to_light_late_closes_the_spider(
    tmp_path: Path, mode: str, wrong: dict[str, Any], message: str
) -> None:
    """Scrapy would go on without the handler, and fail each request."""
    settings = {**ADDON, **MODES[mode], **wrong}
    result = crawl(tmp_path, SPIDER, settings=settings, url="http://127.0.0.1:9")
    assert result.log.count(f"ERROR: {message}") == 1
    assert "Traceback" not in result.log
    assert result.stats["finish_reason"] == "threadpool_wrong_setting"
    assert "downloader/request_count" not in result.stats


@pytest.mark.skipif(sys.platform != "linux", reason="limits the memory of a process")
def test_more_threads_than_the_system_gives_close_the_spider(tmp_path: Path) -> None:
    limit = """
import resource
with open("/proc/self/statm") as statm:
    memory = int(statm.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (memory + 1_000_000_000, resource.RLIM_INFINITY))
"""
    settings = {**ADDON, "NUMBER_OF_THREADS": 2000}
    result = crawl(tmp_path, limit + SPIDER, settings=settings, url="http://127.0.0.1:9")
    assert result.log.count("ERROR: NUMBER_OF_THREADS must be less than 2000: can't start") == 1
    assert result.stats["finish_reason"] == "threadpool_wrong_setting"
