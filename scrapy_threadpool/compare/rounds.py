"""The runs of a comparison, each in a fresh process, the variants taking turns."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from .plan import Plan, Run, Variant

if TYPE_CHECKING:
    from collections.abc import Callable

_LOG_LINES = 15
_RECORD = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \[")
_ERROR = re.compile(rf"^{_RECORD.pattern}.+?\] (ERROR|CRITICAL):|^Traceback |^Unhandled error")


class RunFailedError(Exception):
    """A run did not end as it should; the text says which, why, and the last lines of its log."""


@dataclass(frozen=True)
class Target:
    """What is crawled, and how.

    *name* is a spider's name, a Python file or a URL, as *kind* says: ``spider``, ``file``,
    ``url``, or ``demo`` for the URL of the demo site. *settings* and *arguments* are those of
    Scrapy's ``-s`` and ``-a``. The *ignored_fields* of items may differ. *max_pages* 0 is no limit.
    """

    name: str
    kind: str
    settings: dict[str, str]
    arguments: dict[str, str]
    ignored_fields: list[str]
    max_pages: int


def compare(
    target: Target,
    variants: list[Variant],
    *,
    rounds: int,
    time_limit: float,
    say: Callable[[str], None],
) -> dict[str, list[Run]]:
    """Crawl *target* with each of *variants*, once to warm up and then *rounds* times.

    The first variant is the one that the others are compared with. A run may take *time_limit*
    seconds. *say* is told of each run that has ended.

    :raises RunFailedError: one of the runs failed.
    """
    found: dict[str, list[Run]] = {variant.name: [] for variant in variants}
    runs = len(variants[:2]) + rounds * len(variants)
    say(f"{runs} runs, and a line for each that has ended:")
    with TemporaryDirectory(prefix="scrapy-threadpool-") as folder:
        # Enough to fill the caches of both ways, and to choose the pages.
        for variant in variants[:2]:
            run = _run(target, variant, variants, Path(folder), time_limit)
            say(_told("warm-up", variant, run))
        for number in range(1, rounds + 1):
            # Every other round the other way round: what comes second must not always be the same.
            for variant in variants if number % 2 else reversed(variants):
                run = _run(target, variant, variants, Path(folder), time_limit)
                say(_told(f"round {number} of {rounds}", variant, run))
                found[variant.name].append(run)
    return found


def _run(
    target: Target, variant: Variant, variants: list[Variant], folder: Path, time_limit: float
) -> Run:
    plan_file, result_file, log_file = (folder / name for name in ("plan", "result", "log"))
    Plan(
        target=target.name,
        kind=target.kind,
        pool=variant.pool,
        threads=variant.threads,
        concurrency=max(other.threads or 0 for other in variants),
        settings=target.settings,
        arguments=target.arguments,
        ignored_fields=target.ignored_fields,
        max_pages=target.max_pages,
        pages=str(folder / "pages"),
    ).write(plan_file)
    result_file.unlink(missing_ok=True)
    command = [sys.executable, "-m", f"{__package__}.run", str(plan_file), str(result_file)]
    with log_file.open("wb") as log:
        try:
            code = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                timeout=time_limit,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            reason = f"it did not end in {time_limit:g} s; raise --time-limit or lower --max-pages"
            raise RunFailedError(_failure(variant, reason, log_file)) from None
    if code or not result_file.exists():
        raise RunFailedError(_failure(variant, f"the crawl ended with exit code {code}", log_file))
    run = Run.read(result_file)
    if reason := _wrong(variant, run):
        raise RunFailedError(_failure(variant, reason, log_file))
    return run


def _wrong(variant: Variant, run: Run) -> str:
    """Return what is wrong with a *run* that ended by itself, or an empty text."""
    if run.finish_reason == "shutdown":
        return "the crawl was interrupted"
    if not run.pages:
        errors = ", ".join(f"{count} × {kind}" for kind, count in run.errors.items())
        return f"not a single page came ({errors or 'no error either'})"
    if variant.pool and not run.pages_by_worker:
        return (
            "no page came through a worker: DOWNLOAD_HANDLERS of the settings names other handlers "
            "for http and https than those of the add-on"
        )
    return ""


def _failure(variant: Variant, reason: str, log_file: Path) -> str:
    lines = log_file.read_text(encoding="utf-8", errors="replace").splitlines()
    log = "\n".join(f"  | {line}" for line in _telling(lines)) or "  | (empty)"
    return f"the variant {variant.name!r} failed: {reason}. Its log:\n{log}"


def _telling(lines: list[str]) -> list[str]:
    """Return the lines of a log that tell most: the end of its first error, or else of it all."""
    errors = [number for number, line in enumerate(lines) if _ERROR.search(line)]
    if errors:
        lines = lines[errors[0] :]
        ends = [number for number, line in enumerate(lines) if number and _RECORD.match(line)]
        lines = lines[: ends[0]] if ends else lines
    return lines[-_LOG_LINES:]


def _told(when: str, variant: Variant, run: Run) -> str:
    return (
        f"{when}: {variant.name}: {run.pages} pages in {run.seconds:.1f} s, "
        f"{run.pages_per_second:.0f} pages/s"
    )
