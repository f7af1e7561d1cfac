"""``python -m benchmarks``: measure all in turn and write the tables and charts of the docs."""

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from .content import ContentError
from .report import read, write
from .results import Results, speed
from .servers import Server, start
from .variants import VARIANTS, why_not
from .worker import Refused, measure
from .workloads import WORKLOADS, Workload

_QUICK = 10  # --quick fetches this share of the pages


def main() -> None:
    """Run the command line."""
    options = _options()
    # Ended by its parent, too, this takes the servers along.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    results = read(options.output) if options.keep else Results()
    for name in options.workload:
        results.forget(name)
        workload = WORKLOADS[name]
        with tempfile.TemporaryDirectory() as folder:
            try:
                with start(workload, Path(folder)) as server:
                    _run(name, workload, server, options, results)
            except ContentError as error:
                for variant in options.variant:
                    results.refuse(name, variant, str(error))
        # After every workload, so that a run that is broken off leaves what it has.
        write(results, options.output)
    print(f"written: {options.output}")


def _run(
    name: str, workload: Workload, server: Server, options: argparse.Namespace, results: Results
) -> None:
    pages = options.pages or workload.pages
    if options.quick:
        pages = min(pages, max(pages // _QUICK, workload.concurrency))
    variants = []
    for variant in options.variant:
        reason = why_not(VARIANTS[variant], https=workload.https, delayed=workload.delay > 0)
        if reason is None:
            variants.append(variant)
        else:
            results.refuse(name, variant, reason)
    for turn in range(options.rounds):
        # Another one is first in every round.
        first = turn % max(1, len(variants))
        for variant in variants[first:] + variants[:first]:
            if variant in results.refusals.get(name, {}):
                continue
            try:
                measurement = measure(workload, VARIANTS[variant], server, pages=pages)
            except Refused as error:
                results.refuse(name, variant, f"round {turn + 1}: {error}")
                print(f"{name} {turn + 1} {variant}: {error}", file=sys.stderr, flush=True)
            else:
                results.add(name, variant, turn + 1, measurement)
                print(f"{name} {turn + 1} {variant}: {speed(measurement):.0f} pages/s", flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=f"Workloads: {', '.join(WORKLOADS)}. Variants: {', '.join(VARIANTS)}.",
    )
    parser.add_argument("--workload", type=_names(WORKLOADS), default=list(WORKLOADS))
    most = [name for name, variant in VARIANTS.items() if not variant.trial]
    parser.add_argument("--variant", type=_names(VARIANTS), default=most)
    parser.add_argument("--rounds", type=_positive, default=5)
    parser.add_argument("--pages", type=_positive, help="pages a crawl, instead of the workload's")
    parser.add_argument("--quick", action="store_true", help="fewer pages: try it, believe nothing")
    parser.add_argument(
        "--keep", action="store_true", help="keep what the output says of other workloads"
    )
    parser.add_argument("--output", type=Path, default=Path("docs/benchmarks"))
    return parser.parse_args()


def _names(known: dict[str, object]):  # type: ignore[no-untyped-def]
    def names(text: str) -> list[str]:
        chosen = text.split(",")
        for name in chosen:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name!r}: allowed is {', '.join(known)}")
        return chosen

    return names


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: allowed is a whole number from 1")
    return int(text)


if __name__ == "__main__":
    main()
