"""What is compared: each variant is a name and the settings that make it."""

import importlib
from dataclasses import dataclass, field
from typing import Any

BASELINE = "http11"


@dataclass(frozen=True)
class Variant:
    """One way to download: *settings* for Scrapy, *meta* for every request."""

    settings: dict[str, Any]
    meta: dict[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()  # modules that must be there
    https_only: bool = False
    trial: bool = False  # another client in our workers: measured when it is asked for
    ceiling: bool = False  # answers without a network: shows what a handler can reach at most


def _handler(path: str) -> dict[str, Any]:
    return {"DOWNLOAD_HANDLERS": {"http": path, "https": path}}


def _incubator(name: str, module: str) -> Variant:
    handler = _handler(f"scrapy_download_handlers_incubator.{name}DownloadHandler")
    return Variant(handler, needs=("scrapy_download_handlers_incubator", module))


_OURS = {"ADDONS": {"scrapy_threadpool.Addon": 500}}


def _trial(transport: str, *needs: str, **settings: Any) -> Variant:
    settings = {**_OURS, "THREADPOOL_TRANSPORT": transport, **settings}
    return Variant(settings, needs=needs, trial=True)


_SCRAPY = "scrapy.core.downloader.handlers"

VARIANTS = {
    BASELINE: Variant({}),
    "threadpool": Variant(_OURS),
    "threadpool-unprocessed": Variant({**_OURS, "THREADPOOL_PROCESS_PAGES": False}),
    "h2": Variant(
        {"DOWNLOAD_HANDLERS": {"https": f"{_SCRAPY}.http2.H2DownloadHandler"}},
        needs=("h2",),
        https_only=True,
    ),
    "httpx": Variant(_handler(f"{_SCRAPY}._httpx.HttpxDownloadHandler"), needs=("httpx2",)),
    "aiohttp": Variant(_handler(f"{_SCRAPY}._aiohttp.AiohttpDownloadHandler"), needs=("aiohttp",)),
    "incubator-aiohttp": _incubator("Aiohttp", "aiohttp"),
    "incubator-httpx": _incubator("Httpx", "httpx2"),
    "incubator-niquests": _incubator("Niquests", "niquests"),
    "incubator-curl_cffi": _incubator("CurlCffi", "curl_cffi"),
    "incubator-pyreqwest": _incubator("Pyreqwest", "pyreqwest"),
    "incubator-wreq": _incubator("Wreq", "wreq"),
    "scrapy-impersonate": Variant(
        _handler("scrapy_impersonate.ImpersonateDownloadHandler"),
        # Scrapy's default is not to verify certificates; this handler has to be told.
        meta={"impersonate": "chrome", "impersonate_args": {"verify": False}},
        needs=("scrapy_impersonate",),
    ),
    "trial-callbacks": _trial("benchmarks.trials.CallbacksTransport"),
    "trial-curl_cffi": _trial("impersonate", "curl_cffi", THREADPOOL_IMPERSONATE=""),
    "trial-wreq": _trial("benchmarks.trials.WreqTransport", "wreq"),
    "memory": Variant(_handler("benchmarks.memory.MemoryDownloadHandler"), ceiling=True),
}


def why_not(variant: Variant, *, https: bool, delayed: bool) -> str | None:
    """Return why *variant* cannot be measured on such a workload, or None."""
    if variant.https_only and not https:
        return "speaks HTTPS only"
    if variant.ceiling and delayed:
        return "answers at once: says nothing about a server that makes clients wait"
    for module in variant.needs:
        try:
            importlib.import_module(module)
        except ImportError as error:
            return f"cannot import {module}: {error}"
    return None
