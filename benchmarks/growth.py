"""What it costs as a crawl grows: ``python -m benchmarks.growth``.

Two charts: pages a second and CPU a page for 1 to 256 workers, and memory over 50,000 pages, with
Scrapy's own handler next to ours.
"""

import argparse
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from .load import verdict
from .machine import describe, listed
from .report import number, table
from .results import Measurement, per_page, speed
from .servers import start
from .variants import BASELINE, VARIANTS
from .worker import measure
from .workloads import WORKLOADS

_VARIANTS = (BASELINE, "threadpool")
_WORKERS = (1, 4, 16, 64, 256)
_PAGES = (1000, 2000, 5000, 10000, 20000, 50000)
# One worker gets ten pages a second from the slow server; nobody wants to wait for a thousand.
_SECONDS = 3
_WORKLOADS = ("small", "slow")
_PICTURE = "![Pages a second, CPU and memory as the crawl grows](growth.svg)\n\n"
_CPU = per_page("cpu", 1e3)

Growth = dict[str, dict[str, dict[int, list[Measurement]]]]


def main() -> None:
    """Measure and write ``growth.md``, ``growth.json`` and ``growth.svg``."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pages", type=int, default=_PAGES[-1], help="of the longest crawl")
    parser.add_argument("--output", type=Path, default=Path("docs/benchmarks"))
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    workers = _by_workers(options.rounds)
    memory = _by_pages(options.pages)
    machine = describe()
    shares = [
        one["others"]
        for variants in workers.values()
        for by_count in variants.values()
        for several in by_count.values()
        for one in several
    ]
    text = (
        f"# Growth\n\n{listed(machine)}\n{verdict(shares)}\n\n{_PICTURE}{_tables(workers, memory)}"
    )
    (options.output / "growth.md").write_text(text)
    (options.output / "growth.json").write_text(
        json.dumps({"machine": machine, "workers": workers, "memory": memory}, indent=1) + "\n"
    )
    _draw(workers, memory, options.output / "growth.svg")
    print(text)


def _by_workers(rounds: int) -> Growth:
    growth: Growth = {}
    for name in _WORKLOADS:
        with tempfile.TemporaryDirectory() as folder:
            workload = replace(WORKLOADS[name], concurrency=max(_WORKERS))
            with start(workload, Path(folder)) as server:
                for _ in range(rounds):
                    for count in _WORKERS:
                        for variant in _VARIANTS:
                            measurement = measure(
                                workload,
                                VARIANTS[variant],
                                server,
                                pages=_enough(workload.pages, count, workload.delay),
                                concurrency=count,
                                timeout=300,
                            )
                            by_count = growth.setdefault(name, {}).setdefault(variant, {})
                            by_count.setdefault(count, []).append(measurement)
    return growth


def _enough(pages: int, workers: int, delay: float) -> int:
    return min(pages, int(workers / delay * _SECONDS)) if delay else pages


def _by_pages(pages: int) -> dict[str, dict[int, int]]:
    memory = {}
    marks = tuple(mark for mark in _PAGES if mark <= pages)
    lean = WORKLOADS["lean"]
    with tempfile.TemporaryDirectory() as folder, start(lean, Path(folder)) as server:
        for name in _VARIANTS:
            measurement = measure(
                lean, VARIANTS[name], server, pages=marks[-1], memory_at=marks, timeout=600
            )
            memory[name] = {int(at): size for at, size in measurement["memory_at"].items()}
    return memory


def _middle(measurements: list[Measurement], value: Any) -> float:
    return float(median(value(one) for one in measurements))


def _tables(workers: Growth, memory: dict[str, dict[int, int]]) -> str:
    parts = []
    for workload, variants in workers.items():
        rows = [
            [
                str(count),
                *(number(_middle(variants[name][count], speed)) for name in _VARIANTS),
                *(number(_middle(variants[name][count], _CPU)) for name in _VARIANTS),
            ]
            for count in _WORKERS
        ]
        heads = [f"pages/s, {name}" for name in _VARIANTS]
        heads += [f"CPU, ms a page, {name}" for name in _VARIANTS]
        parts.append(f"## {workload}, by workers\n\n{table(['at once', *heads], rows)}")
    marks = list(next(iter(memory.values())))
    rows = [[f"{mark:,}", *(number(memory[name][mark] / 1e6) for name in memory)] for mark in marks]
    heads = [f"memory, MB, {name}" for name in memory]
    parts.append(f"## Memory, by pages fetched so far\n\n{table(['pages', *heads], rows)}")
    return "\n".join(parts)


def _draw(workers: Growth, memory: dict[str, dict[int, int]], file: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 6.5), layout="constrained")
    place = 0
    for workload, variants in workers.items():
        for title, value in (("pages/s", speed), ("CPU, ms a page", _CPU)):
            place += 1
            axes = figure.add_subplot(2, 3, place)
            for name, by_count in variants.items():
                axes.plot(
                    list(by_count),
                    [_middle(one, value) for one in by_count.values()],
                    "o-",
                    label=name,
                )
            axes.set_xscale("log", base=4)
            axes.set_xticks(_WORKERS, [str(count) for count in _WORKERS])
            axes.set_ylim(bottom=0)
            axes.set_title(f"{workload}: {title}", fontsize=10)
            axes.set_xlabel("requests at once", fontsize=9)
            axes.legend(fontsize=8)
    axes = figure.add_subplot(2, 3, place + 1)
    for name, by_pages in memory.items():
        axes.plot(list(by_pages), [size / 1e6 for size in by_pages.values()], "o-", label=name)
    axes.set_ylim(bottom=0)
    axes.set_title("memory, MB", fontsize=10)
    axes.set_xlabel("pages fetched", fontsize=9)
    axes.legend(fontsize=8)
    figure.savefig(file, metadata={"Date": None})


if __name__ == "__main__":
    main()
