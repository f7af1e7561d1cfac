"""The pictures of a report, as figures of plotly; thinned so far that a phone can draw them."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10
from statistics import median
from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go

from .lanes import lay
from .summary import typical

if TYPE_CHECKING:
    from .lanes import Lanes
    from .plan import Download, Run

# They can be told apart on white and on black, and by those who see red and green alike.
_COLORS = ("#7d8597", "#2f7df6", "#e8890c", "#12a594", "#b04ee0", "#d6409f")
_OUTCOMES = {
    "2xx": "#2f7df6",
    "3xx": "#12a594",
    "4xx": "#e8890c",
    "5xx": "#d6409f",
    "no answer": "#e5484d",
}
_LATENCY_POINTS = 300
_LAG_POINTS = 400
_LONGEST_URL = 80


@dataclass(frozen=True)
class Picture:
    """A figure with its heading and the sentence on how to read it."""

    title: str
    text: str
    figure: go.Figure


def pictures(labels: dict[str, str], found: dict[str, list[Run]]) -> list[Picture]:
    """Return the pictures of what was *found* by the variants, whose names *labels* translates."""
    runs = {labels[name]: runs for name, runs in found.items()}
    colors = {label: _COLORS[number % len(_COLORS)] for number, label in enumerate(runs)}
    lanes = {label: lay(typical(of_variant)) for label, of_variant in runs.items()}
    end = max(each.end for each in lanes.values())
    return [
        _speed(runs, colors),
        _latency(runs, colors),
        _lag(runs, colors),
        *(_lanes(label, of_variant, end) for label, of_variant in lanes.items()),
    ]


def _speed(runs: dict[str, list[Run]], colors: dict[str, str]) -> Picture:
    figure = _figure("", "pages/s", height=320)
    for label, of_variant in runs.items():
        speeds = [run.pages_per_second for run in of_variant]
        figure.add_trace(
            go.Scatter(
                x=[label],
                y=[median(speeds)],
                mode="markers",
                marker={
                    "symbol": "line-ew",
                    "size": 44,
                    "line": {"width": 3, "color": colors[label]},
                },
                hoverinfo="skip",
            )
        )
        figure.add_trace(
            go.Scatter(
                x=[label] * len(speeds),
                y=[round(speed, 2) for speed in speeds],
                text=[f"round {number}" for number in range(1, len(speeds) + 1)],
                mode="markers",
                marker={"size": 11, "color": colors[label], "opacity": 0.75},
                hovertemplate="%{y:.1f} pages/s in %{text}<extra>%{x}</extra>",
            )
        )
    figure.update_layout(showlegend=False)
    figure.update_yaxes(rangemode="tozero")
    return Picture(
        "Pages per second",
        "Each point is a round, the line is the median. Points that lie far apart mean a noisy "
        "machine or site: trust the ratio round by round more than these.",
        figure,
    )


def _latency(runs: dict[str, list[Run]], colors: dict[str, str]) -> Picture:
    figure = _figure("latency", "downloads, %", height=360)
    shown: list[float] = []
    for label, of_variant in runs.items():
        values = sorted(1000 * value for run in of_variant for value in run.latencies if value > 0)
        points = min(len(values), _LATENCY_POINTS)
        ranks = [-(-len(values) * number // points) for number in range(1, points + 1)]
        figure.add_trace(
            go.Scatter(
                x=[round(values[rank - 1], 3) for rank in ranks],
                y=[round(100 * rank / len(values), 2) for rank in ranks],
                name=label,
                mode="lines",
                line={"shape": "hv", "color": colors[label], "width": 2},
                hovertemplate="%{y:.1f} % within %{x:.1f} ms<extra>%{fullData.name}</extra>",
            )
        )
        shown += values
    ticks = _round_numbers(shown)
    figure.update_xaxes(type="log", tickvals=ticks, ticktext=[f"{tick:g} ms" for tick in ticks])
    return Picture(
        "Download latency",
        "How many downloads had an answer within a time, over all rounds. Further left is better. "
        "The time in a busy event loop counts for Scrapy's own handler; a worker measures the "
        "server alone.",
        figure,
    )


def _round_numbers(values: list[float]) -> list[float]:
    """Return the ticks of a logarithmic axis of *values*: 1, 10, 100, or 1, 2, 5, 10 if few."""
    lowest, highest = min(values, default=1.0), max(values, default=1.0)
    exponents = range(floor(log10(lowest)), ceil(log10(highest)) + 1)
    digits = (1, 2, 5) if len(exponents) < 4 else (1,)
    return [float(f"{digit}e{exponent}") for exponent in exponents for digit in digits]


def _lag(runs: dict[str, list[Run]], colors: dict[str, str]) -> Picture:
    figure = _figure("seconds since the start", "late by, ms", height=320)
    for label, of_variant in runs.items():
        samples = typical(of_variant).lag
        size = max(-(-len(samples) // _LAG_POINTS), 1)
        worst = [
            max(samples[start : start + size], key=lambda sample: sample[1])
            for start in range(0, len(samples), size)
        ]
        figure.add_trace(
            go.Scatter(
                x=[round(due, 2) for due, _ in worst],
                y=[round(1000 * late, 2) for _, late in worst],
                name=label,
                mode="lines",
                line={"color": colors[label], "width": 1.5},
                hovertemplate="%{y:.1f} ms late after %{x:.1f} s<extra>%{fullData.name}</extra>",
            )
        )
    figure.update_yaxes(rangemode="tozero")
    return Picture(
        "Event-loop lag",
        "How late the event loop came to what was due, in the round of the median speed; of "
        "neighbouring samples the highest. While it is late, answers and timers wait.",
        figure,
    )


def _lanes(label: str, lanes: Lanes, end: float) -> Picture:
    row = max(min(700 // max(len(lanes.names), 1), 18), 6)
    pool = any(download.worker for _, download in lanes.downloads)
    figure = _figure(
        "seconds since the start", "worker" if pool else "", 110 + row * len(lanes.names)
    )
    for outcome, color in _OUTCOMES.items():
        chosen = [(lane, each) for lane, each in lanes.downloads if _outcome(each) == outcome]
        if not chosen:
            continue
        figure.add_trace(
            go.Bar(
                orientation="h",
                name=outcome,
                y=[lane + 1 for lane, _ in chosen],
                base=[round(each.start, 4) for _, each in chosen],
                x=[round(each.end - each.start, 4) for _, each in chosen],
                customdata=[_hover(lanes.names[lane], each) for lane, each in chosen],
                hovertemplate="%{customdata[0]}<br>%{customdata[1]} in %{customdata[2]}"
                "<extra>%{customdata[3]}</extra>",
                marker={"color": color, "line": {"width": 0}},
                width=0.8,
            )
        )
    figure.update_layout(barmode="overlay", showlegend=True)
    figure.update_xaxes(range=[0, end])
    step = -(-len(lanes.names) * 14 // (700 if row < 14 else 10**6)) or 1
    figure.update_yaxes(
        range=[len(lanes.names) + 0.5, 0.5], dtick=step, tick0=1, showgrid=False, fixedrange=True
    )
    return Picture(f"Downloads: {label}", _lanes_text(lanes, pool), figure)


def _lanes_text(lanes: Lanes, pool: bool) -> str:
    if pool:
        text = (
            "A lane is a worker, a bar is a download. Gaps: the worker had nothing to do, since "
            "the next page was not asked for yet, or the event loop was busy. Long bars: a slow "
            "server. "
            f"Busy: {lanes.busy:.0%} of the time of all {len(lanes.names)}."
        )
    else:
        text = (
            "A bar is a download, from when Scrapy's handler began it to when its response was "
            "there; there are as many lanes as there were downloads at a time. A bar is longer "
            "than the server took where the answer waited for a busy event loop."
        )
    if lanes.left_out:
        text += (
            f" The first {len(lanes.downloads)} downloads are shown, {lanes.left_out} more are not."
        )
    return text


def _hover(lane: str, download: Download) -> list[str]:
    url = download.url
    if len(url) > _LONGEST_URL:
        url = f"{url[: _LONGEST_URL // 2]}…{url[-_LONGEST_URL // 2 :]}"
    seconds = f"{download.end - download.start:.3f} s"
    return [
        escape(url),
        escape(download.outcome),
        seconds,
        escape(download.worker or f"lane {lane}"),
    ]


def _outcome(download: Download) -> str:
    group = f"{download.outcome[:1]}xx"
    return group if download.outcome.isdigit() and group in _OUTCOMES else "no answer"


def _figure(x: str, y: str, height: int) -> go.Figure:
    axis: dict[str, Any] = {"automargin": True, "zeroline": False}
    return go.Figure(
        layout={
            "template": "none",
            "height": height,
            "margin": {"l": 44, "r": 12, "t": 8, "b": 44},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "hovermode": "closest",
            "legend": {"orientation": "h", "y": 1, "yanchor": "bottom", "x": 0},
            "xaxis": {**axis, "title": {"text": x, "standoff": 8}},
            "yaxis": {**axis, "title": {"text": y, "standoff": 8}},
        }
    )
