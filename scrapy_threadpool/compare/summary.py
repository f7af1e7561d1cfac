"""Figures of a comparison: the median and the spread over the rounds."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import ceil
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .plan import Run


@dataclass(frozen=True)
class Spread:
    """A figure over the rounds, in their order."""

    rounds: list[float]

    @property
    def median(self) -> float:
        return median(self.rounds)

    @property
    def min(self) -> float:
        return min(self.rounds)

    @property
    def max(self) -> float:
        return max(self.rounds)


def percentile(values: Sequence[float], percent: float) -> float | None:
    """Return the smallest of *values* that *percent* % of them do not exceed; ``None`` of none."""
    if not values:
        return None
    return sorted(values)[max(ceil(len(values) * percent / 100) - 1, 0)]


def _latency(percent: float) -> Callable[[Run], float | None]:
    return lambda run: percentile(run.latencies, percent)


def _lag(percent: float) -> Callable[[Run], float | None]:
    return lambda run: percentile([late for _, late in run.lag], percent)


FIGURES: dict[str, Callable[[Run], float | None]] = {
    "pages_per_second": lambda run: run.pages_per_second,
    "seconds": lambda run: run.seconds,
    "cpu_seconds": lambda run: run.cpu_seconds,
    "loop_cpu_seconds": lambda run: run.loop_cpu_seconds,
    "peak_memory": lambda run: run.peak_memory,
    "latency_p50": _latency(50),
    "latency_p95": _latency(95),
    "latency_p99": _latency(99),
    "lag_p50": _lag(50),
    "lag_p99": _lag(99),
}


def figures(runs: list[Run]) -> dict[str, Spread | None]:
    """Return each of `FIGURES` over *runs*; ``None`` where a run has none."""
    found: dict[str, Spread | None] = {}
    for name, figure in FIGURES.items():
        values = [value for run in runs if (value := figure(run)) is not None]
        found[name] = Spread(values) if len(values) == len(runs) else None
    return found


def ratio(runs: list[Run], base: list[Run]) -> Spread:
    """Return the pages per second of *runs* by those of *base*, round by round."""
    return Spread(
        [
            run.pages_per_second / other.pages_per_second
            for run, other in zip(runs, base, strict=True)
        ]
    )


def errors(runs: list[Run]) -> dict[str, int]:
    """Return the number of errors of each kind, over all of *runs*."""
    total: Counter[str] = Counter()
    for run in runs:
        total.update(run.errors)
    return dict(total.most_common())


def typical(runs: list[Run]) -> Run:
    """Return the run whose pages per second are the (lower) median."""
    return sorted(runs, key=lambda run: run.pages_per_second)[(len(runs) - 1) // 2]
