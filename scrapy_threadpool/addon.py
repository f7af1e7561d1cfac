"""The add-on: one line in ``ADDONS`` sets everything up."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy.utils.misc import load_object

from . import settings as our_settings
from .handler import ThreadPoolDownloadHandler, check_settings

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

_HANDLER = "scrapy_threadpool.ThreadPoolDownloadHandler"
_COMPRESSION = "scrapy.downloadermiddlewares.httpcompression.HttpCompressionMiddleware"
_PAGES = "scrapy_threadpool.pages.PageProcessingMiddleware"


class _WrongSettingError(SystemExit, ValueError):
    """A ``ValueError`` that ends the program with its message alone, unless somebody catches it."""


class Addon:
    """Has ``http`` and ``https`` requests downloaded in worker threads.

    Raises ``CONCURRENT_REQUESTS`` to the number of threads where only that is set.
    """

    @classmethod
    def update_pre_crawler_settings(cls, settings: BaseSettings) -> None:
        """Refuse wrong settings while the caller can still be told in one line.

        What is raised in a crawl, Scrapy logs with a long traceback.

        :raises ValueError: a setting of this package has a value that is not allowed.
        """
        try:
            check_settings(settings)
        except ValueError as error:
            raise _WrongSettingError(str(error)) from None

    def update_settings(self, settings: BaseSettings) -> None:
        """Set up the crawl.

        :raises ValueError: a setting of this package has a value that is not allowed.
        """
        check_settings(settings)
        for scheme in ("http", "https"):
            self._set_handler(settings, scheme)
        if settings.getpriority("CONCURRENT_REQUESTS") == 0:
            threads = sum(entry.threads for entry in our_settings.transports(settings).values())
            if threads > settings.getint("CONCURRENT_REQUESTS"):
                settings.set("CONCURRENT_REQUESTS", threads, priority="addon")
        if our_settings.get(settings, "THREADPOOL_PROCESS_PAGES"):
            self._set_middleware(settings)

    @staticmethod
    def _set_middleware(settings: BaseSettings) -> None:
        """Put ours in the place of Scrapy's, unless the user says something of Scrapy's."""
        position = settings["DOWNLOADER_MIDDLEWARES_BASE"].get(_COMPRESSION)
        chosen = settings["DOWNLOADER_MIDDLEWARES"]
        if position is not None and _COMPRESSION not in chosen:
            chosen.set(_COMPRESSION, None, priority="addon")
            chosen.set(_PAGES, position, priority="addon")

    @staticmethod
    def _set_handler(settings: BaseSettings, scheme: str) -> None:
        handlers = settings["DOWNLOAD_HANDLERS"]
        if scheme not in handlers:
            # Without a reactor, Scrapy gives its own handlers this priority.
            handlers.set(scheme, _HANDLER, priority="project")
        elif not _is_ours(chosen := handlers[scheme]):
            logger.warning(
                "%s requests are not downloaded by worker threads: DOWNLOAD_HANDLERS says %s",
                scheme,
                chosen,
            )


def _is_ours(handler: object) -> bool:
    try:
        return issubclass(load_object(handler), ThreadPoolDownloadHandler)  # type: ignore[arg-type]
    except (ImportError, NameError, TypeError, ValueError):
        return False  # Scrapy says what is wrong with it
