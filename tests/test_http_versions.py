"""HTTP/1.1, HTTP/2 and HTTP/3, by setting and for one request, with a real server."""

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pycurl
import pytest
from scrapy.exceptions import NotSupported
from scrapy.http import Response
from scrapy.settings import Settings

from scrapy_threadpool import Addon
from scrapy_threadpool import _compat as exceptions
from scrapy_threadpool import settings as our_settings
from scrapy_threadpool.transports.curl import CurlTransport

from . import proxies
from .caddy import Caddy, serve
from .curl_client import Client, MakeClient
from .fetching import fetch

_HAPPY_EYEBALLS_TIMEOUT_MS = 271  # pycurl has no name for it

VERSIONS = {"1.1": "HTTP/1.1", "2": "HTTP/2", "3": "HTTP/3"}
SERVED = {"HTTP/1.1": "HTTP/1.1", "HTTP/2.0": "HTTP/2", "HTTP/3.0": "HTTP/3"}

pytestmark = pytest.mark.skipif(
    our_settings.http_versions() != list(VERSIONS), reason="this libcurl lacks a version"
)


@pytest.fixture(scope="module")
def caddy(
    tmp_path_factory: pytest.TempPathFactory, localhost: tuple[Path, Path]
) -> Iterator[Caddy]:
    folder = tmp_path_factory.mktemp("caddy")
    (folder / "file").mkdir()
    (folder / "file" / "large").write_bytes(bytes(range(256)) * 4000)
    with serve(folder, *localhost) as running:
        yield running


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have libcurl wait for HTTP/3 on a busy machine, too, before it tries what is older."""
    patience = {_HAPPY_EYEBALLS_TIMEOUT_MS: 10_000}
    monkeypatch.setattr(CurlTransport, "extra_options", patience)


@pytest.fixture
def client(make_client: MakeClient) -> Client:
    return make_client()


def versions(response: Response) -> tuple[str | None, str]:
    """Return the version that the response names, and the one that the server saw."""
    return response.protocol, SERVED[response.text.split()[0]]


def client_port(response: Response) -> str:
    """Return the port of the connection that the request came over."""
    return response.text.split()[1]


def test_the_default_is_that_of_scrapy(client: Client, caddy: Caddy) -> None:
    assert versions(client.fetch(caddy.https)) == ("HTTP/1.1", "HTTP/1.1")


@pytest.mark.parametrize("version", VERSIONS)
def test_by_setting(make_client: MakeClient, caddy: Caddy, version: str) -> None:
    client = make_client(THREADPOOL_HTTP_VERSION=version)
    assert versions(client.fetch(caddy.https)) == (VERSIONS[version], VERSIONS[version])


@pytest.mark.parametrize("default", VERSIONS)
def test_by_request(make_client: MakeClient, caddy: Caddy, default: str) -> None:
    client = make_client(THREADPOOL_HTTP_VERSION=default)
    for version in (*VERSIONS, *VERSIONS):
        response = client.fetch(caddy.https, meta={"http_version": version})
        assert versions(response) == (VERSIONS[version], VERSIONS[version])
    assert versions(client.fetch(caddy.https)) == (VERSIONS[default], VERSIONS[default])


@pytest.mark.parametrize(("version", "expected"), [(1.1, "HTTP/1.1"), (2, "HTTP/2")])
def test_numbers_are_versions(client: Client, caddy: Caddy, version: Any, expected: str) -> None:
    assert client.fetch(caddy.https, meta={"http_version": version}).protocol == expected


@pytest.mark.parametrize("version", ["1", "h2", "", None, [2]])
def test_versions_that_there_are_not(client: Client, caddy: Caddy, version: Any) -> None:
    with pytest.raises(NotSupported, match=r"^http_version must be one of 1\.1, 2, 3, not "):
        client.fetch(caddy.https, meta={"http_version": version})


@pytest.mark.parametrize("version", VERSIONS)
def test_an_http_site_speaks_http_1(client: Client, caddy: Caddy, version: str) -> None:
    response = client.fetch(caddy.http, meta={"http_version": version})
    assert versions(response) == ("HTTP/1.1", "HTTP/1.1")


@pytest.mark.parametrize(
    ("protocols", "version", "expected"),
    [("h1", "2", "HTTP/1.1"), ("h1", "3", "HTTP/1.1"), ("h1 h2", "3", "HTTP/2")],
)
def test_an_older_server_gets_what_it_speaks(
    client: Client,
    tmp_path: Path,
    localhost: tuple[Path, Path],
    protocols: str,
    version: str,
    expected: str,
) -> None:
    with serve(tmp_path, *localhost, protocols) as older:
        for _ in range(2):
            response = client.fetch(older.https, meta={"http_version": version})
            assert versions(response) == (expected, expected)


@pytest.mark.parametrize("version", VERSIONS)
def test_connections_are_kept(client: Client, caddy: Caddy, version: str) -> None:
    ports = {
        client_port(client.fetch(caddy.https, meta={"http_version": version})) for _ in range(3)
    }
    assert len(ports) == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_what_comes_with_a_response(
    client: Client, caddy: Caddy, version: str, localhost: tuple[Path, Path]
) -> None:
    meta = {"http_version": version}
    response = client.fetch(f"{caddy.https}/file/large", meta=meta)
    assert response.protocol == VERSIONS[version]
    assert response.body == bytes(range(256)) * 4000
    assert response.headers["Content-Length"] == b"1024000"
    assert response.flags == []
    assert str(response.ip_address) == "127.0.0.1"
    assert response.certificate == ssl.PEM_cert_to_DER_cert(localhost[0].read_text())
    assert 0 < response.meta["download_latency"] < 60
    assert client.fetch(f"{caddy.https}/file/none", meta=meta).status == 404
    assert client.fetch(f"{caddy.https}/file/large", method="HEAD", meta=meta).body == b""


@pytest.mark.parametrize("version", VERSIONS)
def test_bodies_are_sent(client: Client, caddy: Caddy, version: str) -> None:
    body = bytes(range(256)) * 40
    response = client.fetch(
        f"{caddy.https}/echo", method="POST", body=body, meta={"http_version": version}
    )
    assert response.protocol == VERSIONS[version]
    assert response.body == body


@pytest.mark.parametrize("version", VERSIONS)
def test_the_size_limit(client: Client, caddy: Caddy, version: str) -> None:
    meta = {"http_version": version, "download_maxsize": 1000}
    with pytest.raises(exceptions.DownloadCancelledError, match="larger than download max size"):
        client.fetch(f"{caddy.https}/file/large", meta=meta)


@pytest.mark.parametrize("version", VERSIONS)
def test_certificates_are_verified(make_client: MakeClient, caddy: Caddy, version: str) -> None:
    client = make_client(DOWNLOAD_VERIFY_CERTIFICATES=True, THREADPOOL_HTTP_VERSION=version)
    with pytest.raises(exceptions.DownloadFailedError, match="certificate"):
        client.fetch(caddy.https)


@pytest.mark.parametrize("scheme", ["http", "socks5h"])
@pytest.mark.parametrize("version", VERSIONS)
def test_no_version_goes_past_a_proxy(
    client: Client, caddy: Caddy, tmp_path: Path, version: str, scheme: str
) -> None:
    run = proxies.tinyproxy if scheme == "http" else proxies.microsocks
    with run(tmp_path) as proxy:
        meta = {"http_version": version, "proxy": f"{scheme}://127.0.0.1:{proxy.port}"}
        response = client.fetch(caddy.https, meta=meta)
        assert f"localhost:{caddy.https.rpartition(':')[2]}" in proxy.log()
        # A proxy carries TCP, and HTTP/3 is not spoken over that.
        expected = VERSIONS[min(version, "2")]
        assert versions(response) == (expected, expected)


PATIENT = f"""
from scrapy_threadpool.transports.curl import CurlTransport

class Patient(CurlTransport):
    extra_options = {{{_HAPPY_EYEBALLS_TIMEOUT_MS}: 10_000}}
"""


def test_in_a_crawl(caddy: Caddy, tmp_path: Path) -> None:
    requests: list[dict[str, Any]] = [
        {"url": caddy.https},
        *({"url": caddy.https, "meta": {"http_version": version}} for version in VERSIONS),
        {"url": caddy.https, "meta": {"http_version": "4"}},
    ]
    settings = {
        "THREADPOOL_HTTP_VERSION": "3",
        "THREADPOOL_TRANSPORT": "spider_under_test.Patient",
    }
    *outcomes, wrong = fetch(tmp_path, requests, settings, source=PATIENT)[0]
    protocols = [outcome["protocol"] for outcome in outcomes]
    assert protocols == ["HTTP/3", "HTTP/1.1", "HTTP/2", "HTTP/3"]
    assert "http_version must be one of 1.1, 2, 3, not '4'" in wrong["message"]


# A libcurl that lacks a version


def pretend_that_libcurl_has(monkeypatch: pytest.MonkeyPatch, features: int) -> None:
    """Have pycurl tell of *features* for HTTP, and of no others."""
    real = pycurl.version_info()
    fake = (*real[:4], features, *real[5:])
    monkeypatch.setattr(pycurl, "version_info", lambda: fake)


@pytest.mark.parametrize(
    ("features", "version", "allowed"),
    [
        (pycurl.VERSION_HTTP2, "3", "1.1, 2"),
        (0, "3", "1.1"),
        (0, "2", "1.1"),
    ],
)
def test_a_version_that_libcurl_lacks_is_refused_at_start(
    monkeypatch: pytest.MonkeyPatch, features: int, version: str, allowed: str
) -> None:
    pretend_that_libcurl_has(monkeypatch, features)
    with pytest.raises(SystemExit) as caught:
        Addon.update_pre_crawler_settings(Settings({"THREADPOOL_HTTP_VERSION": version}))
    name = pycurl.version.split()[1]
    assert str(caught.value) == (
        f"THREADPOOL_HTTP_VERSION must be one of {allowed} with {name}, not '{version}'"
    )


@pytest.mark.parametrize("features", [0, pycurl.VERSION_HTTP2, pycurl.VERSION_HTTP3])
def test_a_version_that_libcurl_has_is_not_refused(
    monkeypatch: pytest.MonkeyPatch, features: int
) -> None:
    pretend_that_libcurl_has(monkeypatch, features)
    spoken = our_settings.http_versions()
    assert len(spoken) == 1 + bool(features)
    for version in spoken:
        Addon.update_pre_crawler_settings(Settings({"THREADPOOL_HTTP_VERSION": version}))


def test_a_request_for_a_version_that_libcurl_lacks_is_an_error(
    monkeypatch: pytest.MonkeyPatch, make_client: MakeClient
) -> None:
    pretend_that_libcurl_has(monkeypatch, pycurl.VERSION_HTTP2)
    with pytest.raises(NotSupported, match=r"^http_version must be one of 1\.1, 2, not '3'$"):
        make_client().fetch("https://localhost/", meta={"http_version": "3"})
