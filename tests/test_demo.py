"""``scrapy-threadpool demo``."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest


def demo(folder: Path, *arguments: str) -> tuple[int, str, str]:
    """Run the command; return its exit code, its standard output and its standard error."""
    process = subprocess.run(
        [sys.executable, "-m", "scrapy_threadpool", "demo", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    return process.returncode, process.stdout, process.stderr


def test_it_compares_on_the_demo_site_and_writes_a_report(tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    # A project around it does not matter: its delays and pipelines are not for the demo site.
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = surroundings\n")
    (tmp_path / "surroundings.py").write_text("DOWNLOAD_DELAY = 100\nROBOTSTXT_OBEY = True\n")
    code, out, progress = demo(tmp_path, "--rounds", "1", "--threads", "10", "--json", "demo.json")
    assert code == 0, progress
    assert "Demo site: http://127.0.0.1:" in progress
    # How the pages spread over the workers
    pages = [int(pages) for pages in re.findall(r"^  demo-worker-\d+ +#* *(\d+)$", out, re.M)]
    assert 1 < len(pages) <= 10
    assert sum(pages) == 400
    # The table, and then where the report is
    document = json.loads((tmp_path / "demo.json").read_text())
    assert document["same_items"] is True
    for variant in document["variants"].values():
        assert variant["pages"] == 400
        assert variant["items"] > 350
    titles = ["pages/s", "pages", "items", "same items", "same status codes"]
    lines = [line.split("  ")[0] for line in out.splitlines()]
    assert [line for line in lines if line in titles] == titles
    report = tmp_path / "demo-report.html"
    assert out.rstrip().endswith(f"Report: {report}")
    assert report.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_bad_arguments_are_refused(tmp_path: Path) -> None:
    code, _, message = demo(tmp_path, "everything")
    assert code == 2
    assert message.endswith("error: demo takes no such argument: everything\n")
    code, _, message = demo(tmp_path, "--rounds", "none")
    assert code == 2
    assert "--rounds takes whole numbers from 1, not 'none'" in message
