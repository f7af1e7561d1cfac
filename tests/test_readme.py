"""What the README shows, works."""

import re
import subprocess
import sys
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from scrapy_threadpool.settings import SETTINGS

ROOT = Path(__file__).parent.parent


def test_the_small_crawler(tmp_path: Path) -> None:
    pages = {
        "index.html": '<a href="a.html">a</a> <a href="b.html#part">b</a> <a href="missing.html">',
        "a.html": '<a href="/index.html">home</a> <a href="b.html">b</a>',
        "b.html": '<a href="http://127.0.0.1:9/elsewhere">elsewhere</a>',
    }
    for name, page in pages.items():
        (tmp_path / name).write_text(page)

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *args: object) -> None:
            super().__init__(*args, directory=str(tmp_path))  # type: ignore[arg-type]

        def log_message(self, *args: object) -> None:
            pass

    block = re.search(r"the small crawler -->\n\n```python\n(.*?)```", _read("README.md"), re.S)
    assert block is not None
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        site = f"http://127.0.0.1:{server.server_port}/"
        done = subprocess.run(
            [sys.executable, "-c", block[1], site],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        server.shutdown()
    lines = [line.split() for line in done.stdout.splitlines()]
    assert sorted(url for _, url, _ in lines) == sorted(
        site + path for path in ("", "index.html", "a.html", "b.html")
    )
    assert {worker for worker, _, _ in lines} <= {f"worker-{n}" for n in range(1, 5)}
    # The missing page is one failed task, said with the worker's name.
    assert re.search(r"worker-\d: .*failed", done.stderr)
    assert "404" in done.stderr


def test_every_setting_is_documented() -> None:
    page = _read("docs/settings.md")
    documented = set(re.findall(r"^`((?:NUMBER_OF|THREADPOOL_)\w+)`$", page, re.M))
    assert documented == set(SETTINGS)


def _read(path: str) -> str:
    return (ROOT / path).read_text()
