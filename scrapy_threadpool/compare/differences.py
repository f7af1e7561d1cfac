"""What two runs scraped differently, by URL."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .plan import Item, Run


@dataclass
class Difference:
    """What one URL gave in one run and not in the other.

    The outcomes are status codes, or names of exceptions; the items are those that only one of the
    runs has; *fields* are the names of the fields that differ where each run has one such item.
    """

    url: str
    base_outcomes: list[str] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)
    base_items: list[dict[str, str]] = field(default_factory=list)
    items: list[dict[str, str]] = field(default_factory=list)

    @property
    def fields(self) -> list[str]:
        names: dict[str, None] = {}
        for base, other in zip(self.base_items, self.items, strict=False):
            names.update(dict.fromkeys(n for n in {**base, **other} if base.get(n) != other.get(n)))
        return list(names)


def same_items(run: Run, base: Run) -> bool:
    """Return whether both scraped the same items, in whatever order and from whatever page."""
    return _digests(run) == _digests(base)


def same_statuses(run: Run, base: Run) -> bool:
    """Return whether both got the same answers from the same URLs."""
    return run.outcomes == base.outcomes


def differences(run: Run, base: Run) -> list[Difference]:
    """Return what *run* has otherwise than *base*, by URL."""
    found: defaultdict[str, Difference] = defaultdict(lambda: Difference(""))
    for url in {**base.outcomes, **run.outcomes}:
        before, after = base.outcomes.get(url, []), run.outcomes.get(url, [])
        if before != after:
            found[url].base_outcomes, found[url].outcomes = before, after
    for item in _only(base, run):
        found[item.url].base_items.append(item.fields)
    for item in _only(run, base):
        found[item.url].items.append(item.fields)
    for url, difference in found.items():
        difference.url = url
    return [found[url] for url in sorted(found)]


def _digests(run: Run) -> Counter[str]:
    return Counter(item.digest for item in run.items)


def _only(run: Run, other: Run) -> list[Item]:
    left = _digests(other)
    only = []
    for item in run.items:
        if left[item.digest]:
            left[item.digest] -= 1
        else:
            only.append(item)
    return only
