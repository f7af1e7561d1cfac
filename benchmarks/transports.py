"""``python -m benchmarks.transports``: the same HTTPS pages through each transport.

Needs nginx, chromium and chromium-driver.
"""

import argparse
import tempfile
from pathlib import Path

from tests import nginx
from tests.crawling import ADDON

from .side_by_side import Way, compare, table

_WORKERS = {"curl": 16, "requests": 16, "impersonate": 16, "selenium": 4}
_FILL = "<!-- " + 3_000 * "x" + " -->"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.transports")
    parser.add_argument("--pages", type=int, default=400)
    parser.add_argument("--browser-pages", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()

    def way(transport: str) -> Way:
        threads = _WORKERS[transport]
        entries = {"default": {"transport": transport, "threads": threads}}
        limits = {"CONCURRENT_REQUESTS_PER_DOMAIN": threads, "CONCURRENT_REQUESTS": threads}
        return Way({**ADDON, **limits, "THREADPOOL_TRANSPORTS": entries})

    ways = {f"{name}, {number} workers": way(name) for name, number in _WORKERS.items()}
    browsers = {name: ways.pop(name) for name in [*ways] if name.startswith("selenium")}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        location = f"access_log off; location / {{ return 200 '<p>$uri</p>{_FILL}'; }}"
        html = "default_type text/html;"
        with nginx.serve(folder, folder / "run", server=f"{html} {location}") as site:
            results = compare(ways, site.https, pages=options.pages, rounds=options.rounds)
            results |= compare(browsers, site.https, pages=options.browser_pages, rounds=1)
    print(table(results))


if __name__ == "__main__":
    main()
