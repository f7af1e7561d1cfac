"""What `make soak` does at length, in short."""

import sys
from pathlib import Path

import pytest

from .soak import THREADS, forced_ends, soak, trouble

pytestmark = pytest.mark.timeout(600)

if sys.platform != "linux":
    pytest.skip("reads Linux's /proc, and sends POSIX signals", allow_module_level=True)


def test_every_request_of_a_long_crawl_ends_once(tmp_path: Path) -> None:
    result, samples = soak(tmp_path, 1000)
    stats = result.stats
    assert result.returncode == 0
    assert stats["finish_reason"] == "finished"
    assert stats["soak/given"] == stats["soak/ended"] == stats["threadpool/tasks"] == 1000
    assert stats["soak/ended_twice"] == 0
    failed = stats["downloader/exception_count"]
    assert failed > 0
    assert stats["downloader/response_count"] + failed == 1000
    assert stats["threadpool/failures"] == failed
    assert stats["threadpool/workers_given_up"] == 0
    pages = {key: value for key, value in stats.items() if key.startswith("threadpool/pages/")}
    assert sum(pages.values()) == stats["downloader/response_count"]
    assert 1 < len(pages) <= THREADS
    assert {sample.threads for sample in samples} == {THREADS}
    assert {sample.workers for sample in samples} == {THREADS}


def test_forced_ends_under_load(tmp_path: Path) -> None:
    for code, _, log in forced_ends(tmp_path, 12):
        assert code == 0, log
        assert not trouble(log), log
