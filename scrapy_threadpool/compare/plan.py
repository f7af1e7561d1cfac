"""What one run is to do, and what it found: the two files between `compare` and its runs."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Self

TWISTED = "twisted"
POOL = "pool"


class _Stored:
    """A dataclass that lives in a JSON file."""

    def write(self, file: Path) -> None:
        file.write_text(json.dumps(asdict(self)), encoding="utf-8")  # type: ignore[call-overload]

    @classmethod
    def read(cls, file: Path) -> Self:
        return cls(**json.loads(file.read_text(encoding="utf-8")))


@dataclass(frozen=True)
class Variant:
    """One way to download: without the worker threads, or with a pool of a certain size.

    *threads* is the size of the pool; ``None`` leaves it to the settings.
    """

    name: str
    pool: bool
    threads: int | None = None


@dataclass(frozen=True)
class Plan(_Stored):
    """What one run is to do.

    *target* is a spider's name, a Python file or a URL, as *kind* says: ``spider``, ``file``,
    ``url``, or ``demo`` for the URL of the demo site. *settings* and *arguments* are those of
    Scrapy's ``-s`` and ``-a``. *concurrency* is the least ``CONCURRENT_REQUESTS`` where the project
    sets none. At most *max_pages* requests are made (0: no limit): the first run chooses them, and
    writes them to the file *pages* for all later ones.
    """

    target: str
    kind: str
    pool: bool
    threads: int | None
    concurrency: int
    settings: dict[str, str]
    arguments: dict[str, str]
    ignored_fields: list[str]
    max_pages: int
    pages: str


@dataclass
class Download:
    """One download: by which worker (empty without a pool), and when, in seconds of the crawl.

    *outcome* is the HTTP status, or the name of the exception.
    """

    worker: str
    url: str
    outcome: str
    start: float
    end: float


@dataclass
class Item:
    """A scraped item: the page it came from, a digest of all fields, and a short text of each."""

    url: str
    digest: str
    fields: dict[str, str]


@dataclass
class Run(_Stored):
    """What one run found, in seconds and bytes; ``None`` where the system cannot tell."""

    spider: str
    handler: str
    reactor: bool
    workers: list[str]
    finish_reason: str
    seconds: float
    pages: int
    cpu_seconds: float
    loop_cpu_seconds: float
    peak_memory: int | None
    received_bytes: int
    latencies: list[float]
    lag: list[tuple[float, float]]
    errors: dict[str, int]
    outcomes: dict[str, list[str]]
    pages_by_worker: dict[str, int]
    downloads: list[Download] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)

    @property
    def pages_per_second(self) -> float:
        return self.pages / self.seconds

    @classmethod
    def read(cls, file: Path) -> Self:
        data: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        data["downloads"] = [Download(**download) for download in data["downloads"]]
        data["items"] = [Item(**item) for item in data["items"]]
        return cls(**data)
