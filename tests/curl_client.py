"""The curl transport, or another, outside of a crawl."""

from collections.abc import Callable
from typing import Any

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import StopDownload
from scrapy.http import Response
from scrapy.settings import Settings

from scrapy_threadpool import _compat as exceptions
from scrapy_threadpool.download import Download, DownloadRules
from scrapy_threadpool.transports import Transport, curl


class Client:
    """A transport outside of a crawl, used in the thread of the test."""

    def __init__(self, settings: dict[str, Any], transport: type[Transport] = curl.CurlTransport):
        self.crawler = Crawler(Spider, Settings(settings))
        self._shared = transport.share(self.crawler, {})
        self.transport = transport.from_crawler(self.crawler, {}, self._shared)
        self.rules = DownloadRules(self.crawler)

    def fetch(self, url: str, **arguments: Any) -> Response:
        request = Request(url, **arguments)
        download = Download(request, self.rules, lambda function, *args: function(*args))
        try:
            response = download.finish(self.transport.fetch(request, download))
        except StopDownload as stop:
            response = download.stop(stop)
        except exceptions.ResponseDataLossError as error:
            response = download.lose(error)
        response.request = request
        return response


MakeClient = Callable[..., Client]
