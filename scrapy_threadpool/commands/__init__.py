"""Scrapy commands: one file each, named after the command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings


def check_threads(threads: object, settings: BaseSettings) -> None:
    """Refuse the option ``--threads``, where it was given, if it cannot be heeded.

    :raises UsageError: *settings* say the threads of each transport themselves.
    """
    if threads is not None and settings.get("THREADPOOL_TRANSPORTS") is not None:
        raise UsageError(
            "--threads: not together with THREADPOOL_TRANSPORTS, which says them itself",
            print_help=False,
        )
