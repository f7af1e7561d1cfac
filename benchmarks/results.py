"""What was measured, round by round, and what it comes to."""

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from .variants import BASELINE
from .workloads import WORKLOADS

Measurement = dict[str, Any]


@dataclass
class Results:
    """Measurements by workload and variant, and the reasons why others are missing."""

    rounds: dict[str, dict[str, dict[int, Measurement]]] = field(default_factory=dict)
    refusals: dict[str, dict[str, str]] = field(default_factory=dict)

    def add(self, workload: str, variant: str, number: int, measurement: Measurement) -> None:
        """Keep what round *number* brought."""
        self.rounds.setdefault(workload, {}).setdefault(variant, {})[number] = measurement

    def forget(self, workload: str) -> None:
        """Drop all that is known about *workload*."""
        self.rounds.pop(workload, None)
        self.refusals.pop(workload, None)

    def refuse(self, workload: str, variant: str, reason: str) -> None:
        """Drop *variant* from *workload*, rounds that went well too, and keep the reason."""
        self.refusals.setdefault(workload, {})[variant] = reason
        self.rounds.get(workload, {}).pop(variant, None)

    def workloads(self) -> list[str]:
        """Return the names of the workloads that something is known about."""
        return [name for name in WORKLOADS if name in self.rounds or name in self.refusals]

    def variants(self, workload: str) -> list[str]:
        """Return the variants that were measured, fastest first."""
        return sorted(
            self.rounds.get(workload, {}),
            key=lambda variant: -self.middle(workload, variant, speed),
        )

    def middle(
        self, workload: str, variant: str, value: Callable[[Measurement], float | None]
    ) -> float:
        """Return the median of *value* over the rounds, or NaN where there is none."""
        values = [value(one) for one in self.rounds[workload][variant].values()]
        known = [one for one in values if one is not None]
        return median(known) if known else float("nan")

    def ratios(
        self, workload: str, variant: str, value: Callable[[Measurement], float | None]
    ) -> list[float]:
        """Return *value* of *variant* over that of the baseline in the same round."""
        baseline = self.rounds[workload].get(BASELINE, {})
        pairs = [
            (value(one), value(baseline[number]))
            for number, one in self.rounds[workload][variant].items()
            if number in baseline
        ]
        return [mine / theirs for mine, theirs in pairs if mine is not None and theirs]


def speed(one: Measurement) -> float:
    """Return pages a second."""
    return float(one["pages"] / one["seconds"])


def per_page(key: str, factor: float = 1) -> Callable[[Measurement], float]:
    """Return a function that gives *key* of a measurement for each page, times *factor*."""
    return lambda one: float(one[key]) / one["pages"] * factor


def plain(key: str, factor: float = 1) -> Callable[[Measurement], float | None]:
    """Return a function that gives *key* of a measurement, times *factor*, or None."""
    return lambda one: None if one[key] is None else one[key] * factor
