"""``python -m benchmarks.browsers``: four browsers and one, on pages rendered by a slow script.

Needs chromium and chromium-driver.
"""

import argparse

from tests import raw_server
from tests.crawling import ADDON

from .side_by_side import Way, compare, table

_PAGE = """<body><script>
setTimeout(() => document.body.innerHTML = "<p>" + location.pathname + "</p>", 1000);
</script></body>"""


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.browsers")
    parser.add_argument("--pages", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()

    def browsers(number: int) -> Way:
        entry = {"transport": "selenium", "threads": number}
        settings = {"THREADPOOL_TRANSPORTS": {"default": entry}}
        meta = {"actions": [["wait", "p"]]}
        return Way({**ADDON, **settings, "CONCURRENT_REQUESTS_PER_DOMAIN": number}, meta)

    page = raw_server.respond("Content-Type: text/html", body=_PAGE.encode())
    with raw_server.serve(lambda path: page) as server:
        results = compare(
            {f"{number} browser{'s'[: number - 1]}": browsers(number) for number in (1, 4)},
            server.url,
            pages=options.pages,
            rounds=options.rounds,
        )
    print(table(results))


if __name__ == "__main__":
    main()
