"""Worker threads for Scrapy: libcurl, or any blocking HTTP client, downloads in a fixed pool."""

from ._version import __version__
from .addon import Addon
from .download import Download
from .handler import ThreadPoolDownloadHandler, workers
from .pool import WorkerPool
from .transports.base import Transport

__all__ = [
    "Addon",
    "Download",
    "ThreadPoolDownloadHandler",
    "Transport",
    "WorkerPool",
    "__version__",
    "workers",
]
