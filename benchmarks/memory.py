"""The ceiling: a download handler that answers from memory, with the bytes of the server."""

import gzip
import mimetypes
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from scrapy import Request
from scrapy.core.downloader.handlers.base import BaseDownloadHandler
from scrapy.http import Headers, Response
from scrapy.responsetypes import responsetypes


class MemoryDownloadHandler(BaseDownloadHandler):
    """Answers with the files below the folder ``BENCHMARK_ROOT``, read once."""

    def __init__(self, crawler: Any) -> None:
        super().__init__(crawler)
        self._root = Path(crawler.settings["BENCHMARK_ROOT"])
        self._files: dict[str, tuple[dict[str, str], bytes]] = {}

    async def download_request(self, request: Request) -> Response:
        if (file := self._files.get(request.url)) is None:
            file = self._files[request.url] = self._read(request.url)
        headers, body = Headers(file[0]), file[1]
        request.meta["download_latency"] = 0.0
        cls = responsetypes.from_args(headers=headers, url=request.url, body=body)
        return cls(url=request.url, status=200, headers=headers, body=body, protocol="HTTP/1.1")

    def _read(self, url: str) -> tuple[dict[str, str], bytes]:
        path = urlsplit(url).path
        body = (self._root / path[1:]).read_bytes()
        headers = {
            "Server": "nginx/1.22.1",
            "Date": "Thu, 01 Jan 2026 00:00:00 GMT",
            "Content-Type": mimetypes.guess_type(path)[0] or "application/octet-stream",
            "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT",
            "ETag": '"69560a80-3000"',
            "Accept-Ranges": "bytes",
        }
        if path.startswith("/pages/"):
            body = gzip.compress(body, 1)
            headers["Content-Encoding"] = "gzip"
        headers["Content-Length"] = str(len(body))
        return headers, body

    async def close(self) -> None:
        self._files.clear()
