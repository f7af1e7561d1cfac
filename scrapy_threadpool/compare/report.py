"""The report: one HTML page with the pictures, to open without a network and to send on."""

from __future__ import annotations

from html import escape
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from plotly.offline import get_plotlyjs

from .figures import pictures
from .table import difference_lines, rows, verdict

if TYPE_CHECKING:
    from .figures import Picture
    from .plan import Run

_MOST_DIFFERENCES = 200


def make_report(document: dict[str, Any], found: dict[str, list[Run]]) -> str:
    """Return the page about *document*, with pictures of what was *found*."""
    labels = {name: variant["label"] for name, variant in document["variants"].items()}
    drawn = pictures(labels, found)
    template = Path(__file__).with_name("report.html").read_text(encoding="utf-8")
    return Template(template).substitute(
        title=escape(f"{document['spider']}: {' and '.join(_ways(document))}"),
        subtitle=escape(_subtitle(document)),
        numbers=_numbers(document),
        verdict=escape(verdict(document)),
        differences=_differences(document),
        table=_table(rows(document)),
        sections="\n".join(_section(number, picture) for number, picture in enumerate(drawn)),
        footer=escape(_footer(document)),
        plotly=get_plotlyjs(),
        # In a script element nothing ends the text but this.
        figures=f"[{','.join(picture.figure.to_json() for picture in drawn)}]".replace(
            "</", "<\\/"
        ),
    )


def _ways(document: dict[str, Any]) -> list[str]:
    labels = [variant["label"] for variant in document["variants"].values()]
    return [labels[0], "worker threads"]


def _subtitle(document: dict[str, Any]) -> str:
    arguments = "".join(f" -a {name}={value}" for name, value in document["arguments"].items())
    variant = next(iter(document["variants"].values()))
    each = f"{variant['pages']} pages in each of {document['rounds']} rounds"
    return f"{document['target']}{arguments}: {each}"


def _numbers(document: dict[str, Any]) -> str:
    ratio = document["ratio"]
    same = {
        "same items": document["same_items"],
        "same status codes": document["same_statuses"],
    }
    label = document["variants"][ratio["variant"]]["label"]
    times = f"{ratio['pages_per_second']:.2f} ×"
    tiles = [f"<b>{times}</b><span>the pages/s, with {escape(label)}</span>"]
    for name, value in same.items():
        word, style = ("yes", "good") if value else ("no", "bad")
        tiles.append(f'<b class="{style}">{word}</b><span>{name}</span>')
    return "".join(f"<div>{tile}</div>" for tile in tiles)


def _differences(document: dict[str, Any]) -> str:
    lines = difference_lines(document, _MOST_DIFFERENCES)
    items = "".join(f"<li>{escape(line.strip())}</li>" for line in lines)
    return f'<ul id="differences">{items}</ul>' if items else ""


def _table(table: list[list[str]]) -> str:
    head, *body = table
    header = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    lines = [
        f'<tr><th scope="row">{escape(title)}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        + "</tr>"
        for title, *cells in body
    ]
    return f"<table><thead><tr>{header}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _section(number: int, picture: Picture) -> str:
    return (
        f"<section><h2>{escape(picture.title)}</h2><p>{escape(picture.text)}</p>"
        f'<div class="picture" id="figure-{number}"></div></section>'
    )


def _footer(document: dict[str, Any]) -> str:
    versions = document["versions"]
    settings = "".join(f" -s {name}={value}" for name, value in document["settings"].items())
    return (
        "Each run had a process of its own; the variants took turns after a warm-up. "
        f"scrapy-threadpool {versions['scrapy_threadpool']}, Scrapy {versions['scrapy']}, Python "
        f"{versions['python']}, {versions['system']}, {document['cores']} cores.{settings}"
    )
