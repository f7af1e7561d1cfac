"""``python -m benchmarks.features``: what download handlers can do, found out by crawls.

Each handler gets the same pages, through the same proxies and with the same settings, and what came
of it is printed as a table: a tick, or what there was instead. ``docs/features.md`` rests on it.
"""

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tests import caddy, proxies, raw_server, server
from tests.certificates import make_certificate
from tests.crawling import MODES
from tests.fetching import fetch

from .variants import VARIANTS, Variant, why_not

Outcome = dict[str, Any]
_COMPARED = [
    name for name, one in VARIANTS.items() if not one.ceiling and name != "threadpool-unprocessed"
]
_USER = "anna:right"
_LARGE = 5_000_000
_CIPHER = "ECDHE-ECDSA-AES256-GCM-SHA384"
# What makes a handler speak newer versions, where it does not do so anyway
_NEWER: dict[tuple[str, str], dict[str, Any]] = {
    ("threadpool", "2"): {"THREADPOOL_HTTP_VERSION": "2"},
    ("threadpool", "3"): {"THREADPOOL_HTTP_VERSION": "3"},
    ("httpx", "2"): {"HTTPX_HTTP2_ENABLED": True},
    ("incubator-httpx", "2"): {"HTTPX_HTTP2_ENABLED": True},
    ("incubator-niquests", "2"): {"NIQUESTS_HTTP2_ENABLED": True},
    ("incubator-curl_cffi", "2"): {"CURL_CFFI_HTTP_VERSION": "v2tls"},
    ("incubator-curl_cffi", "3"): {"CURL_CFFI_HTTP_VERSION": "v3"},
    ("incubator-pyreqwest", "2"): {"PYREQWEST_HTTP2_ENABLED": True},
    ("incubator-wreq", "2"): {"WREQ_HTTP2_ENABLED": True},
}
_PACKAGES = (
    "scrapy",
    "scrapy-download-handlers-incubator",
    "scrapy-impersonate",
    "pycurl",
    "twisted",
    "aiohttp",
    "h2",
    "httpx2",
    "niquests",
    "curl_cffi",
    "pyreqwest",
    "wreq",
)

# Signals and what else a page cannot show
_SOURCE = """
from scrapy import signals
from scrapy.exceptions import StopDownload

class Stopper:
    @classmethod
    def from_crawler(cls, crawler):
        stopper = cls()
        crawler.signals.connect(stopper.headers_received, signals.headers_received)
        crawler.signals.connect(stopper.bytes_received, signals.bytes_received)
        return stopper

    def headers_received(self, request):
        if request.meta.get("stop") == "headers":
            raise StopDownload(fail=False)

    def bytes_received(self, request):
        if request.meta.get("stop") == "bytes":
            raise StopDownload(fail=False)
"""


@dataclass
class Places:
    """Where the servers and proxies are, and what their certificate is."""

    http: str
    https: str
    caddy: caddy.Caddy
    raw: str
    ipv6: str
    proxies: dict[str, str]


@dataclass(frozen=True)
class Probe:
    """One request, and what its outcome says."""

    name: str
    url: str
    judge: Callable[[Outcome], bool | str]
    arguments: dict[str, Any] = field(default_factory=dict)

    @property
    def is_https(self) -> bool:
        return self.url.startswith("https:")

    def cell(self, outcome: Outcome) -> str:
        """Return what to write of *outcome*."""
        if "error" in outcome:
            return f"{outcome['error']}: {outcome['message'][:70]}".strip()
        found = self.judge(outcome)
        return found if isinstance(found, str) else {True: "✓", False: "–"}[found]


def _arrives(outcome: Outcome) -> bool | str:
    """Return whether the page came, and the site saw nothing of the proxy's credentials."""
    if outcome["status"] != 200:
        return f"status {outcome['status']}"
    names = {name.lower() for name, _ in json.loads(outcome["body"])["headers"]}
    return "leaks" if names & {"proxy-authorization", "authorization"} else True


def _added(outcome: Outcome) -> str:
    """Return the names of headers that the client made up."""
    asked = {"host", "user-agent", "accept", "accept-language", "accept-encoding"}
    names = [name for name, _ in json.loads(outcome["body"])["headers"]]
    return ", ".join(name for name in names if name.lower() not in asked) or "none"


def _raises(outcome: Outcome) -> str:
    return f"status {outcome['status']}"


def probes(places: Places) -> list[Probe]:
    """Return what is asked of each handler with its default settings."""
    echo = {"http": f"{places.http}/echo", "https": f"{places.https}/echo"}
    large = f"{places.caddy.https}/file/large"
    found = [
        Probe("http page", echo["http"], _arrives),
        Probe("https page", echo["https"], _arrives),
        Probe("IPv6", places.ipv6, lambda one: one["status"] == 200),
        Probe(
            "bad header line",
            f"{places.raw}/bad",
            lambda one: "X-After" in one["headers"] and "skips",
        ),
        Probe(
            "header value in Latin-1",
            f"{places.raw}/latin",
            lambda one: (
                one["headers"].get("X-Name") == ["M\xfcller"] or repr(one["headers"].get("X-Name"))
            ),
        ),
        Probe(
            "duplicate headers",
            f"{places.http}/duplicates",
            lambda one: one["headers"]["X-One"] == ["a", "c"] or str(one["headers"]["X-One"]),
        ),
        Probe("headers that are added", echo["http"], _added),
        Probe("protocol", places.caddy.https, lambda one: str(one["protocol"])),
        Probe("ip_address", places.caddy.https, lambda one: one["ip"] == "127.0.0.1"),
        Probe("certificate", places.caddy.https, lambda one: one["certificate"]),
        Probe(
            "latency", places.caddy.https, lambda one: one["meta"].get("download_latency", 0) > 0
        ),
        Probe(
            "bindaddress",
            places.caddy.https,
            lambda one: one["body"].split()[2] == "127.0.0.9",
            {"meta": {"bindaddress": "127.0.0.9"}},
        ),
        Probe(
            "bindaddress with port",
            places.caddy.https,
            lambda one: one["body"].split()[1:3] == ["40123", "127.0.0.10"],
            {"meta": {"bindaddress": ["127.0.0.10", 40123]}},
        ),
        Probe("maxsize", large, _raises, {"meta": {"download_maxsize": 9}}),
        Probe(
            "timeout", f"{places.https}/page?delay=3", _raises, {"meta": {"download_timeout": 0.5}}
        ),
        Probe("data loss", f"{places.https}/cut", _raises),
        Probe(
            "data loss allowed",
            f"{places.https}/cut",
            lambda one: "dataloss" in one["flags"],
            {"meta": {"download_fail_on_dataloss": False}},
        ),
        Probe(
            "headers_received",
            large,
            lambda one: one["body"] == "",
            {"meta": {"stop": "headers"}},
        ),
        Probe(
            "bytes_received",
            large,
            lambda one: len(one["body"]) < _LARGE,
            {"meta": {"stop": "bytes"}},
        ),
        Probe(
            "verbatim_url",
            f"{places.http}/echo/|%7e",
            lambda one: (
                json.loads(one["body"])["target"] == "/echo/|%7e"
                or json.loads(one["body"])["target"]
            ),
            {"meta": {"verbatim_url": True}},
        ),
        Probe("refused", "https://127.0.0.1:1/", _raises),
        Probe("not resolved", "https://nowhere.invalid/", _raises),
    ]
    for scheme, url in places.proxies.items():
        for site, page in echo.items():
            name = f"{scheme} proxy to {site}"
            found.append(Probe(name, page, _arrives, {"meta": {"proxy": url}}))
    return found


def crawl_probes(variant: Variant, places: Places) -> dict[str, str]:
    """Return the cells of one handler by the names of the probes."""
    asked = [one for one in probes(places) if one.is_https or not variant.https_only]
    requests = []
    for probe in asked:
        arguments = {**probe.arguments}
        arguments["meta"] = {**variant.meta, **arguments.get("meta", {})}
        requests.append({"url": probe.url, **arguments})
    outcomes = _fetch(variant, requests, EXTENSIONS={"spider_under_test.Stopper": 1})
    return {probe.name: probe.cell(outcome) for probe, outcome in zip(asked, outcomes, strict=True)}


def crawl_settings(name: str, variant: Variant, places: Places) -> dict[str, str]:
    """Return what settings change, each in a crawl of its own."""
    request = {"url": places.caddy.https, "meta": variant.meta}
    cells = {}

    def cell(row: str, settings: dict[str, Any], judge: Callable[[Outcome], bool | str]) -> None:
        [outcome] = _fetch(variant, [request], **settings)
        cells[row] = Probe(row, "", judge).cell(outcome)

    def said(index: int, value: str) -> Callable[[Outcome], bool | str]:
        return lambda one: one["body"].split()[index] == value or one["body"]

    for newer in ("2", "3"):
        settings = _NEWER.get((name, newer), {})
        cell(f"HTTP/{newer}", settings, lambda one: str(one["protocol"]))
    cell("DOWNLOAD_VERIFY_CERTIFICATES", {"DOWNLOAD_VERIFY_CERTIFICATES": True}, _raises)
    cell("DOWNLOAD_TLS_MAX_VERSION", {"DOWNLOAD_TLS_MAX_VERSION": "TLSv1.2"}, said(3, "tls1.2"))
    ciphers = {
        "DOWNLOADER_CLIENT_TLS_CIPHERS": _CIPHER,
        "DOWNLOAD_TLS_MAX_VERSION": "TLSv1.2",
    }
    cell("DOWNLOADER_CLIENT_TLS_CIPHERS", ciphers, lambda one: _CIPHER in _iana(one["body"]))
    cell("DOWNLOAD_BIND_ADDRESS", {"DOWNLOAD_BIND_ADDRESS": "127.0.0.9"}, said(2, "127.0.0.9"))
    cells.update(_crawl_with_logs(variant, request))
    for mode, change in MODES.items():
        cell(mode, change, lambda one: one["status"] == 200)
    return cells


def _iana(body: str) -> str:
    """Return the cipher that caddy names, in OpenSSL's writing."""
    words = body.split()[4].removeprefix("TLS_").replace("_WITH_AES_256", "_AES256")
    return words.replace("_", "-")


def _crawl_with_logs(variant: Variant, request: dict[str, Any]) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        keys = Path(folder) / "keys"
        settings = {**variant.settings, "DOWNLOADER_CLIENT_TLS_VERBOSE_LOGGING": True}
        settings.setdefault("ADDONS", {})
        try:
            log = fetch(
                Path(folder) / "crawl", [request], settings, env={"SSLKEYLOGFILE": str(keys)}
            )[1].log
        except AssertionError as error:
            log = str(error)
        logged = "using protocol" in log
        kept = keys.exists() and "CLIENT" in keys.read_text()
    return {
        "DOWNLOADER_CLIENT_TLS_VERBOSE_LOGGING": "✓" if logged else "–",
        "SSLKEYLOGFILE": "✓" if kept else "–",
    }


def _fetch(variant: Variant, requests: list[dict[str, Any]], **settings: Any) -> list[Outcome]:
    changed = {"ADDONS": {}, "DOWNLOAD_TIMEOUT": 8, **variant.settings, **settings}
    with tempfile.TemporaryDirectory() as folder:
        try:
            return fetch(Path(folder), requests, changed, source=_SOURCE)[0]
        except AssertionError as error:  # the crawl ended without all outcomes
            lines = [line for line in str(error).splitlines() if "Error" in line or "Not" in line]
            return [{"error": "no crawl", "message": (lines or ["?"])[-1]}] * len(requests)


@contextmanager
def serve() -> Iterator[Places]:
    """Run all servers and proxies."""
    with ExitStack() as stack, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        certificate, key = folder / "site.crt", folder / "site.key"
        make_certificate(certificate, key)
        enter = stack.enter_context
        (folder / "file").mkdir()
        (folder / "file" / "large").write_bytes(bytes(_LARGE))
        pages = {
            "/bad": b"HTTP/1.1 200 -\r\nX-Before: 1\r\nno colon\r\nX-After: 1\r\n"
            b"Content-Length: 2\r\n\r\nok",
            "/latin": raw_server.respond("X-Name: M\xfcller", body=b"ok"),
        }
        http = enter(proxies.tinyproxy(folder, _USER))
        tls = enter(proxies.tls_front(folder, http))
        socks4 = enter(proxies.dante(folder))
        socks4a = enter(proxies.socks4a())
        socks5 = enter(proxies.microsocks(folder, _USER.encode()))
        yield Places(
            http=enter(server.serve()).url,
            https=enter(server.serve(certificate, key)).url.replace("localhost", "127.0.0.1"),
            caddy=enter(caddy.serve(folder, certificate, key)),
            raw=enter(raw_server.serve(lambda path: pages[path])).url,
            ipv6=enter(raw_server.serve(lambda path: raw_server.respond(), "::1")).url,
            proxies={
                "http": f"http://{_USER}@127.0.0.1:{http.port}",
                "https": f"https://{_USER}@127.0.0.1:{tls.port}",
                "socks4": f"socks4://127.0.0.1:{socks4.port}",
                "socks4a": f"socks4a://127.0.0.1:{socks4a.port}",
                "socks5": f"socks5://{_USER}@127.0.0.1:{socks5.port}",
                "socks5h": f"socks5h://{_USER}@127.0.0.1:{socks5.port}",
            },
        )


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.features", description=__doc__)
    parser.add_argument("handlers", nargs="*", help=f"of {', '.join(_COMPARED)}; default: all")
    names = parser.parse_args().handlers or _COMPARED
    print(", ".join(filter(None, map(_described, _PACKAGES))))
    with serve() as places:
        for name in names:
            variant = VARIANTS[name]
            if reason := why_not(variant, https=True, delayed=False):
                print(f"\n## {name}\n\n{reason}")
                continue
            cells = {**crawl_probes(variant, places), **crawl_settings(name, variant, places)}
            print(f"\n## {name}\n", *(f"{row}: {cell}" for row, cell in cells.items()), sep="\n")


def _described(package: str) -> str | None:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    main()
