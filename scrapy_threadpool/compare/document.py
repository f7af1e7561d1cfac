"""The findings of a comparison as one document: what ``--json`` writes, and table and report show.

Its keys are described in ``docs/compare.md``.
"""

from __future__ import annotations

import os
import platform
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import scrapy

from .._version import __version__
from .differences import differences, same_items, same_statuses
from .summary import Spread, errors, figures, ratio

if TYPE_CHECKING:
    from .plan import Run, Variant
    from .rounds import Target

_MOST_DIFFERENCES = 100


def make_document(
    target: Target, variants: list[Variant], found: dict[str, list[Run]]
) -> dict[str, Any]:
    """Return the document of what was *found* on *target* by the runs of each of *variants*.

    The first variant is the one that the others are compared with.
    """
    base = found[variants[0].name]
    described = {variant.name: _variant(variant, found[variant.name], base) for variant in variants}
    best = max(
        (variant.name for variant in variants[1:]),
        key=lambda name: float(described[name]["ratio"]["pages_per_second"]),
    )
    return {
        "target": target.name,
        "spider": base[0].spider,
        "arguments": target.arguments,
        "settings": target.settings,
        "max_pages": target.max_pages,
        "ignored_fields": target.ignored_fields,
        "rounds": len(base),
        "versions": {
            "scrapy_threadpool": __version__,
            "scrapy": scrapy.__version__,
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.machine()}",
        },
        "cores": os.cpu_count(),
        "same_items": all(variant["same_items"] for variant in described.values()),
        "same_statuses": all(variant["same_statuses"] for variant in described.values()),
        "ratio": {"variant": best, **described[best]["ratio"]},
        "variants": described,
        "differences": [
            difference
            for variant in [*variants[1:], variants[0]]
            for difference in _differences(variant, found[variant.name], base[0])
        ],
    }


def _variant(variant: Variant, runs: list[Run], base: list[Run]) -> dict[str, Any]:
    run = runs[0]
    pages_per_second = ratio(runs, base)
    return {
        "label": _label(variant, run),
        "handler": run.handler,
        "threads": len(run.workers) if variant.pool else None,
        "pages": run.pages,
        "items": len(run.items),
        "finish_reason": run.finish_reason,
        **{name: spread and _spread(spread) for name, spread in figures(runs).items()},
        "errors": errors(runs),
        "pages_by_worker": run.pages_by_worker,
        "same_items": all(same_items(run, base[0]) for run in runs),
        "same_statuses": all(same_statuses(run, base[0]) for run in runs),
        "ratio": {
            "pages_per_second": pages_per_second.median,
            "min": pages_per_second.min,
            "max": pages_per_second.max,
            "rounds": pages_per_second.rounds,
        },
    }


def _label(variant: Variant, run: Run) -> str:
    if variant.pool:
        return f"{len(run.workers)} thread{'s' if len(run.workers) != 1 else ''}"
    # Without a reactor Twisted cannot download, and Scrapy has another handler of its own.
    return "Twisted-only" if run.reactor else f"Scrapy only ({run.handler})"


def _spread(spread: Spread) -> dict[str, Any]:
    return {
        "median": spread.median,
        "min": spread.min,
        "max": spread.max,
        "rounds": spread.rounds,
    }


def _differences(variant: Variant, runs: list[Run], base: Run) -> list[dict[str, Any]]:
    """Return what the first of *runs* that differs from *base* has otherwise."""
    for number, run in enumerate(runs, 1):
        if found := differences(run, base):
            return [
                {
                    "variant": variant.name,
                    "round": number,
                    **asdict(difference),
                    "fields": difference.fields,
                }
                for difference in found[:_MOST_DIFFERENCES]
            ]
    return []
