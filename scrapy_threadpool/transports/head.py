"""Heads of HTTP/1.x responses, and of those of HTTP/2 and 3 as libcurl writes them."""

from __future__ import annotations

import re
from typing import NamedTuple

# A header line, with the lines that continue its value
_FIELD = re.compile(rb"^([^\s:][^:\n]*):(.*(?:\n[ \t].*)*)", re.MULTILINE)


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
    *blocks, _ = lines.replace(b"\r\n", b"\n").split(b"\n\n")
    for block in reversed(blocks):
        if block.startswith(b"HTTP/"):
            status_line, _, fields = block.partition(b"\n")
            if is_interim(status_line):
                return None
            protocol, status, *_ = status_line.split(None, 2)
            headers = [(name.rstrip(), _unfold(value)) for name, value in _FIELD.findall(fields)]
            return Head(protocol.decode("latin-1"), int(status), headers)
    return None


def _unfold(value: bytes) -> bytes:
    value = value.strip()
    return b" ".join(map(bytes.strip, value.split(b"\n"))) if b"\n" in value else value
