"""The table and the chart."""

import json
from dataclasses import asdict
from pathlib import Path
from statistics import median

from .load import verdict
from .machine import describe, listed
from .results import Results, per_page, plain, speed
from .variants import BASELINE, VARIANTS
from .workloads import WORKLOADS

_PICTURE = f"![Pages a second, as a ratio to {BASELINE}](results.svg)\n\n"
_COLUMNS = {
    "CPU, ms a page": per_page("cpu", 1000),
    "of it the loop's thread": per_page("loop_cpu", 1000),
    "server's CPU, ms a page": per_page("server_cpu", 1000),
    "context switches a page": per_page("switches"),
    "peak memory, MB": plain("memory", 1e-6),
    "loop's lag p99, ms": plain("lag_p99", 1000),
    "latency p50, ms": plain("latency_p50", 1000),
}
# How much later than the server answered a page is reported to have come.
_DELAYED_COLUMNS = {
    "latency too high by, p50, ms": plain("late_p50", 1000),
    "p99, ms": plain("late_p99", 1000),
}


def write(results: Results, folder: Path) -> None:
    """Write ``results.json``, ``results.md`` and ``results.svg`` into *folder*."""
    folder.mkdir(parents=True, exist_ok=True)
    machine = describe()
    (folder / "results.json").write_text(
        json.dumps({"machine": machine, **asdict(results)}, indent=1) + "\n"
    )
    tables = "\n".join(_section(results, workload) for workload in results.workloads())
    (folder / "results.md").write_text(f"# Results\n\n{listed(machine)}\n{_PICTURE}{tables}")
    draw(results, folder / "results.svg")


def read(folder: Path) -> Results:
    """Return what :func:`write` wrote into *folder*."""
    document = json.loads((folder / "results.json").read_text())
    rounds = {
        workload: {
            variant: {int(number): one for number, one in measured.items()}
            for variant, measured in variants.items()
        }
        for workload, variants in document["rounds"].items()
    }
    return Results(rounds, document["refusals"])


def table(heads: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table, the first column to the left and the others to the right."""
    lines = [heads, ["---", *["--:"] * (len(heads) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def number(value: float) -> str:
    """Return *value* with three digits that count, or a dash."""
    if value != value:
        return "–"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def spread(values: list[float]) -> str:
    """Return the median of *values*, with the lowest and the highest."""
    if not values:
        return "–"
    return f"{median(values):.2f} ({min(values):.2f}–{max(values):.2f})"


def _section(results: Results, workload: str) -> str:
    kind = WORKLOADS[workload]
    columns = {**_COLUMNS, **(_DELAYED_COLUMNS if kind.delay else {})}
    rows = []
    for variant in results.variants(workload):
        ratios = results.ratios(workload, variant, speed)
        cpu = results.ratios(workload, variant, per_page("cpu"))
        values = [results.middle(workload, variant, value) for value in columns.values()]
        shown = f"{variant} (ceiling)" if VARIANTS[variant].ceiling else variant
        rows.append(
            [
                shown,
                number(results.middle(workload, variant, speed)),
                spread(ratios),
                spread(cpu),
                *map(number, values),
            ]
        )
    heads = ["handler", "pages/s", f"ratio to {BASELINE}", "ratio of the CPU", *columns]
    missing = results.refusals.get(workload, {})
    others = [
        one["others"]
        for rounds in results.rounds.get(workload, {}).values()
        for one in rounds.values()
    ]
    about = f"{kind.about}; {kind.concurrency} at once, {_pages(results, workload)}."
    return (
        f"\n## {workload}\n\n{about} {verdict(others)}\n"
        f"\n{table(heads, rows) if rows else ''}"
        + ("\nNot measured:\n\n" if missing else "")
        + "".join(f"- {variant}: {reason}\n" for variant, reason in missing.items())
    )


def _pages(results: Results, workload: str) -> str:
    variants = list(results.rounds.get(workload, {}).values())
    if not variants:
        return "not measured"
    one = next(iter(variants[0].values()))
    return f"{one['pages']} pages a crawl, {len(variants[0])} rounds"


def draw(results: Results, file: Path) -> None:
    """Draw the ratio of pages a second to the baseline: a bar to the median, a dot a round."""
    from matplotlib.figure import Figure

    workloads = [workload for workload in results.workloads() if results.rounds.get(workload)]
    if not workloads:
        return
    rows = (len(workloads) + 1) // 2
    figure = Figure(figsize=(10, 3.2 * rows), layout="constrained")
    for place, workload in enumerate(workloads, 1):
        axes = figure.add_subplot(rows, 2, place)
        variants = results.variants(workload)[::-1]
        for height, variant in enumerate(variants):
            ratios = results.ratios(workload, variant, speed)
            if ratios:
                colour = {"threadpool": "#2a6f4e", BASELINE: "#888888"}.get(variant, "#b8cfe0")
                axes.barh(height, median(ratios), color=colour)
                axes.plot(ratios, [height] * len(ratios), "k.", markersize=3)
        axes.set_yticks(range(len(variants)), variants, fontsize=8)
        axes.axvline(1, color="#888888", linewidth=0.8)
        axes.set_title(workload, fontsize=10)
    figure.supxlabel(f"pages a second, ratio to {BASELINE} in the same round", fontsize=9)
    figure.savefig(file, metadata={"Date": None})
