"""``python -m benchmarks.impersonation``: scrapy-impersonate, and the impersonate transport.

Needs ``scrapy-impersonate``, and nginx.
"""

import argparse
import tempfile
from pathlib import Path

from tests import nginx
from tests.crawling import ADDON, ASYNCIO, MODES

from .side_by_side import Way, compare, table

_WORKERS = 16
_LOG = "log_format connections '$connection'; access_log {log} connections;"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.impersonation")
    parser.add_argument("--pages", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    handler = "scrapy_impersonate.ImpersonateDownloadHandler"
    common = {
        **MODES[ASYNCIO],
        "USER_AGENT": "",
        "CONCURRENT_REQUESTS": _WORKERS,
        "CONCURRENT_REQUESTS_PER_DOMAIN": _WORKERS,
    }
    ours = {**ADDON, "THREADPOOL_TRANSPORT": "impersonate", "NUMBER_OF_THREADS": _WORKERS}
    theirs = {"DOWNLOAD_HANDLERS": {"http": handler, "https": handler}}
    meta = {"impersonate": "chrome", "impersonate_args": {"verify": False}}
    ways = {
        "scrapy-impersonate": Way({**common, **theirs}, meta),
        f"impersonate transport, {_WORKERS} workers": Way({**common, **ours}, meta),
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = folder / "connections.log"
        server = f"{_LOG.format(log=log)} default_type text/html;".partition("; ")
        with nginx.serve(
            folder,
            folder / "run",
            http=server[0] + ";",
            server=f"{server[2]} location / {{ return 200 '<p>$uri'; }}",
        ) as site:
            results = compare(
                ways,
                site.https,
                pages=options.pages,
                rounds=options.rounds,
                count=lambda: len(set(log.read_text().split())) if log.exists() else 0,
            )
    print(table(results, "connections"))


if __name__ == "__main__":
    main()
