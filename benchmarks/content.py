"""The files that are served."""

import random
import shutil
from pathlib import Path

# Debian's packages of documentation (`apt install python3.11-doc postgresql-doc-15 sqlite3-doc`).
_DOCUMENTATION = Path("/usr/share/doc")
_PACKAGES = ("python3*/html", "postgresql-doc-*/html", "sqlite3")
_PAGES = 60


class ContentError(Exception):
    """There is nothing to serve for a workload."""


def write_content(root: Path, folder: str) -> list[str]:
    """Write the files of *folder* below *root* and return their paths, as in a URL."""
    target = root / folder
    target.mkdir(parents=True, exist_ok=True)
    if folder == "small":
        (target / "page.html").write_bytes(_page(12 * 1024))
    elif folder == "large":
        (target / "file.bin").write_bytes(random.Random(2).randbytes(2 * 1024 * 1024))
    else:
        for number, page in enumerate(_documentation()):
            shutil.copyfile(page, target / f"{number:03}.html")
    return [f"/{folder}/{file.name}" for file in sorted(target.iterdir())]


def _page(size: int) -> bytes:
    words = random.Random(1).choices(
        ["crawl", "page", "thread", "queue", "worker", "answer", "spider", "link"], k=size
    )
    head, tail = b"<!DOCTYPE html><title>A page</title><h1>A page</h1><p>", b"</p>\n"
    return head + " ".join(words).encode()[: size - len(head) - len(tail)] + tail


def _documentation() -> list[Path]:
    files = [
        file
        for package in _PACKAGES
        for file in sorted(_DOCUMENTATION.glob(f"{package}/**/*.html"))
        if 50_000 <= file.stat().st_size <= 150_000
    ]
    if len(files) < _PAGES:
        raise ContentError(
            f"no documentation pages of 50 to 150 KB below {_DOCUMENTATION}: "
            "install python3.11-doc and postgresql-doc-15"
        )
    # Spread over all of them, and the same ones every time.
    return [files[index * len(files) // _PAGES] for index in range(_PAGES)]
