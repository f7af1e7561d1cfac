"""Heads of HTTP/1.x responses, and of those of HTTP/2 and 3 as libcurl writes them."""

from __future__ import annotations

from typing import NamedTuple


class Head(NamedTuple):
    """The head of a response; names and values of the headers are without surrounding space."""

    protocol: str
    status: int
    headers: list[tuple[bytes, bytes]]


def is_interim(status_line: bytes) -> bool:
    """Return whether another response follows the one that begins with *status_line*."""
    status = status_line.split(None, 2)[1]
    return status.startswith(b"1") and status != b"101"


def parse_head(lines: bytes) -> Head | None:
    """Return the last response head in *lines*, or ``None`` if its end is missing.

    Those before it are interim responses, lines after its empty line are trailers. Header lines
    without a name or a colon are skipped.
    """
    head: Head | None = None
    interim, ended = False, False
    for line in lines.replace(b"\r\n", b"\n").split(b"\n")[:-1]:
        if line.startswith(b"HTTP/"):
            protocol, status, *_ = line.split(None, 2)
            head = Head(protocol.decode("latin-1"), int(status), [])
            interim, ended = is_interim(line), False
        elif not line:
            ended = not interim
        elif head and not ended:
            _add_line(head.headers, line)
    return head if ended else None


def _add_line(headers: list[tuple[bytes, bytes]], line: bytes) -> None:
    if line[:1] in b" \t" and headers:
        name, value = headers[-1]
        headers[-1] = (name, value + b" " + line.strip())
        return
    name, colon, value = line.partition(b":")
    if colon and (name := name.strip()):
        headers.append((name, value.strip()))
