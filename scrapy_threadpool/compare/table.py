"""The findings of a comparison as text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SHOWN_DIFFERENCES = 10
_NOTHING = "–"


def verdict(document: dict[str, Any]) -> str:
    """Return the findings in a sentence or two."""
    ratio = document["ratio"]
    variant = document["variants"][ratio["variant"]]
    base = next(iter(document["variants"].values()))
    if ratio["min"] < 1 < ratio["max"]:
        return (
            f"With {variant['label']}: no difference in pages per second to {base['label']} that "
            f"could be told from noise{_in_rounds(document)}. {_sameness(document)}"
        )
    return (
        f"With {variant['label']}: {ratio['pages_per_second']:.2f} times the pages per second of "
        f"{base['label']}{_in_rounds(document)}. {_sameness(document)}"
    )


def rows(document: dict[str, Any]) -> list[list[str]]:
    """Return the table: the first row are the names of the variants, the first column says what."""
    variants = list(document["variants"].values())
    table = [["", *(variant["label"] for variant in variants)]]
    for title, cell in _ROWS.items():
        table.append([title, *(cell(variant) for variant in variants)])
    base = next(iter(document["variants"]))
    for title, key in {"same items": "same_items", "same status codes": "same_statuses"}.items():
        yes_or_no = ["yes" if variant[key] else "NO" for variant in variants]
        # That the first agrees with itself needs no saying.
        if document["variants"][base][key]:
            yes_or_no[0] = _NOTHING
        table.append([title, *yes_or_no])
    return table


def render(document: dict[str, Any]) -> str:
    """Return the whole of what is printed."""
    table = rows(document)
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join([*lines, "", verdict(document), *difference_lines(document)])


def difference_lines(document: dict[str, Any], most: int = _SHOWN_DIFFERENCES) -> Iterator[str]:
    """Yield a line for each of the first *most* URLs that gave something else."""
    for difference in document["differences"][:most]:
        label = document["variants"][difference["variant"]]["label"]
        yield f"  {difference['url'] or '(no page)'}: {label}: {_what(difference)}"
    if (more := len(document["differences"]) - most) > 0:
        yield f"  and {more} more, all listed in the JSON file (--json)"


def _what(difference: dict[str, Any]) -> str:
    parts = []
    if difference["outcomes"] != difference["base_outcomes"]:
        before, after = (
            ", ".join(difference[key]) or "nothing" for key in ("base_outcomes", "outcomes")
        )
        parts.append(f"{after} instead of {before}")
    missing, more = len(difference["base_items"]), len(difference["items"])
    if missing and missing == more:
        parts.append(f"{_items(more)} with other {', '.join(difference['fields'])}")
    else:
        if missing:
            parts.append(f"{_items(missing)} missing")
        if more:
            parts.append(f"{_items(more)} more")
    return "; ".join(parts)


def _sameness(document: dict[str, Any]) -> str:
    keys = {"same_items": "items", "same_statuses": "status codes"}
    wrong = " and ".join(what for key, what in keys.items() if not document[key])
    if not wrong:
        return "All runs scraped the same items and got the same status codes."
    base = next(iter(document["variants"].values()))
    if all(base[key] for key in keys):
        return f"NOT THE SAME {wrong}:"
    fields = dict.fromkeys(name for entry in document["differences"] for name in entry["fields"])
    hint = f" (leave out with --ignore-fields {','.join(fields)})" if fields else ""
    return (
        f"NOT THE SAME {wrong}, but {base['label']} alone differs from round to round too: "
        f"it is the spider or the site{hint}:"
    )


def _items(count: int) -> str:
    return f"{count} item{'s' if count != 1 else ''}"


def _in_rounds(document: dict[str, Any]) -> str:
    if document["rounds"] == 1:
        return ", in a single round"
    ratio = document["ratio"]
    return f" (in {document['rounds']} rounds: {_span('{:.2f}', ratio['min'], ratio['max'])})"


def _span(form: str, low: float, high: float) -> str:
    texts = form.format(low), form.format(high)
    return texts[0] if texts[0] == texts[1] else "–".join(texts)


def _brackets(form: str, low: float, high: float) -> str:
    return f" ({_span(form, low, high)})" if low != high else ""


def _figure(name: str, form: str, unit: str, factor: float = 1) -> Callable[[Any], str]:
    def cell(variant: dict[str, Any]) -> str:
        if (spread := variant[name]) is None:
            return _NOTHING
        median, low, high = (spread[key] * factor for key in ("median", "min", "max"))
        return f"{form.format(median)}{unit}{_brackets(form, low, high)}"

    return cell


def _percentiles(name: str, *percents: int) -> Callable[[Any], str]:
    def cell(variant: dict[str, Any]) -> str:
        spreads = [variant[f"{name}_p{percent}"] for percent in percents]
        if None in spreads:
            return _NOTHING
        return " / ".join(f"{spread['median'] * 1000:.1f}" for spread in spreads) + " ms"

    return cell


def _errors(variant: dict[str, Any]) -> str:
    return ", ".join(f"{count} × {kind}" for kind, count in variant["errors"].items()) or "none"


def _ratio(variant: dict[str, Any]) -> str:
    ratio = variant["ratio"]
    if variant["threads"] is None:
        return _NOTHING
    return f"{ratio['pages_per_second']:.2f}{_brackets('{:.2f}', ratio['min'], ratio['max'])}"


def _pages_by_worker(variant: dict[str, Any]) -> str:
    if variant["threads"] is None:
        return _NOTHING
    counts = sorted(variant["pages_by_worker"].values())
    idle = variant["threads"] - len(counts)
    return _span("{}", 0 if idle > 0 else counts[0], counts[-1])


_MEGABYTE = 1e-6
_ROWS: dict[str, Callable[[dict[str, Any]], str]] = {
    "pages/s": _figure("pages_per_second", "{:.0f}", ""),
    "ratio of pages/s, round by round": _ratio,
    "wall time": _figure("seconds", "{:.2f}", " s"),
    "CPU time": _figure("cpu_seconds", "{:.2f}", " s"),
    "CPU time of the loop's thread": _figure("loop_cpu_seconds", "{:.2f}", " s"),
    "peak memory": _figure("peak_memory", "{:.0f}", " MB", _MEGABYTE),
    "download latency p50 / p95 / p99": _percentiles("latency", 50, 95, 99),
    "event-loop lag p50 / p99": _percentiles("lag", 50, 99),
    "errors": _errors,
    "pages": lambda variant: str(variant["pages"]),
    "pages of each worker": _pages_by_worker,
    "items": lambda variant: str(variant["items"]),
}
