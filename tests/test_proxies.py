"""Proxies, as HttpProxyMiddleware hands them over: real ones, in front of real sites."""

import json
import re
import ssl
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request
from scrapy.downloadermiddlewares.httpproxy import HttpProxyMiddleware
from scrapy.http import Response

from scrapy_threadpool import _compat as exceptions
from scrapy_threadpool.transports import curl

from . import proxies, raw_server
from .curl_client import Client, MakeClient
from .fetching import fetch
from .server import Server, serve

USER, OTHER_USER = "anna:right", "bert:right-too"
AUTHORIZATION = "Basic " + b64encode(USER.encode()).decode()
WRONG = ["", "anna:wrong", "nobody:right"]


@dataclass
class Route:
    """A way through a proxy: its scheme, its port, and what the proxy has logged so far."""

    scheme: str
    port: int
    log: Callable[[], str]

    def url(self, user: str = "") -> str:
        """Return the URL of the proxy, with the credentials of *user*."""
        return f"{self.scheme}://{user and user + '@'}127.0.0.1:{self.port}"

    def led_to(self, site: Server) -> bool:
        """Return whether the proxy has been asked for *site*."""
        port = site.url.rpartition(":")[2]
        return re.search(rf"(localhost|127\.0\.0\.1)[.:]{port}\b", self.log()) is not None


@dataclass
class Network:
    """Routes by scheme, through proxies without and with credentials, and sites by scheme."""

    routes: dict[str, Route]
    closed_routes: dict[str, Route]
    sites: dict[str, Server]

    def site(self, scheme: str) -> str:
        """Return the URL of a site; by its address, which any proxy finds."""
        return self.sites[scheme].url.replace("localhost", "127.0.0.1")


def _routes(stack: ExitStack, folder: Path, *users: str) -> dict[str, Route]:
    http = stack.enter_context(proxies.tinyproxy(folder, *users))
    behind = stack.enter_context(proxies.tinyproxy(folder, *users))
    https = stack.enter_context(proxies.tls_front(folder, behind))
    routes = {
        "http": Route("http", http.port, http.log),
        "https": Route("https", https.port, behind.log),
    }
    for scheme in ("socks5", "socks5h"):
        socks5 = stack.enter_context(proxies.microsocks(folder, "".join(users[:1]).encode()))
        routes[scheme] = Route(scheme, socks5.port, socks5.log)
    return routes


@pytest.fixture(scope="module")
def network(
    tmp_path_factory: pytest.TempPathFactory, localhost: tuple[Path, Path]
) -> Iterator[Network]:
    folder = tmp_path_factory.mktemp("proxies")
    with ExitStack() as stack:
        sites = {
            "http": stack.enter_context(serve()),
            "https": stack.enter_context(serve(*localhost)),
        }
        routes = _routes(stack, folder)
        socks4 = stack.enter_context(proxies.dante(folder))
        routes["socks4"] = Route("socks4", socks4.port, socks4.log)
        socks4a = stack.enter_context(proxies.socks4a())
        routes["socks4a"] = Route("socks4a", socks4a.port, socks4a.log)
        yield Network(routes, _routes(stack, folder, USER, OTHER_USER), sites)


@pytest.fixture
def client(make_client: MakeClient) -> Client:
    return make_client()


def through(client: Client, proxy: str, url: str, **meta: Any) -> Response:
    """Fetch *url* through *proxy*, which may have credentials, as a crawl does."""
    request = Request(url, meta={"proxy": proxy, **meta})
    HttpProxyMiddleware.from_crawler(client.crawler).process_request(request)
    return client.fetch(url, headers=request.headers, meta=request.meta)


def header_names(response: Response) -> set[str]:
    return {name.lower() for name, _ in json.loads(response.body)["headers"]}


SITES = ["http", "https"]
OPEN = ["http", "https", "socks4", "socks4a", "socks5", "socks5h"]
CLOSED = ["http", "https", "socks5", "socks5h"]


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("scheme", OPEN)
def test_open_proxies(client: Client, network: Network, scheme: str, site: str) -> None:
    route = network.routes[scheme]
    response = through(client, route.url(), f"{network.site(site)}/echo")
    assert response.status == 200
    assert json.loads(response.body)["target"] == "/echo"
    assert route.led_to(network.sites[site])
    assert str(response.ip_address) == "127.0.0.1"


@pytest.mark.parametrize("scheme", ["HTTP://", "Socks5h://", ""])
def test_ways_to_write_the_scheme(client: Client, network: Network, scheme: str) -> None:
    route = network.routes["socks5h" if scheme.startswith("S") else "http"]
    for site in SITES:
        url = f"{network.site(site)}/echo"
        assert through(client, f"{scheme}127.0.0.1:{route.port}", url).status == 200


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("scheme", CLOSED)
def test_credentials(client: Client, network: Network, scheme: str, site: str) -> None:
    route = network.closed_routes[scheme]
    response = through(client, route.url(USER), f"{network.site(site)}/echo")
    assert response.status == 200
    assert route.led_to(network.sites[site])
    assert "proxy-authorization" not in header_names(response)


@pytest.mark.parametrize("scheme", OPEN)
def test_the_site_never_sees_credentials(client: Client, network: Network, scheme: str) -> None:
    """Also where the proxy did not ask for any, and so would not take them out."""
    for site in SITES:
        if site == "http" and scheme in ("http", "https"):
            continue  # such a proxy is given the header, and has to drop it
        proxy = network.routes[scheme].url(USER)
        response = through(client, proxy, f"{network.site(site)}/echo")
        assert response.status == 200
        assert not header_names(response) & {"proxy-authorization", "authorization"}


@pytest.mark.parametrize("user", WRONG)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_wrong_credentials_for_an_http_site_are_its_answer(
    client: Client, network: Network, scheme: str, user: str
) -> None:
    proxy = network.closed_routes[scheme].url(user)
    status = 401 if user else 407  # tinyproxy says 407 only where there are none
    assert through(client, proxy, network.site("http")).status == status


@pytest.mark.parametrize("user", WRONG)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_wrong_credentials_for_an_https_site_are_an_error(
    client: Client, network: Network, scheme: str, user: str
) -> None:
    proxy = network.closed_routes[scheme].url(user)
    status = 401 if user else 407
    with pytest.raises(exceptions.DownloadConnectionRefusedError, match=f"response {status}"):
        through(client, proxy, network.site("https"))


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("user", WRONG)
@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
def test_wrong_credentials_for_a_socks_proxy_are_an_error(
    client: Client, network: Network, scheme: str, user: str, site: str
) -> None:
    proxy = network.closed_routes[scheme].url(user)
    reason = "was rejected" if user else "No authentication method was acceptable"
    with pytest.raises(exceptions.DownloadConnectionRefusedError, match=reason):
        through(client, proxy, network.site(site))


@pytest.mark.parametrize(("scheme", "served"), [("socks4", "socks5"), ("socks4a", "socks5")])
def test_the_wrong_kind_of_proxy(
    client: Client, network: Network, scheme: str, served: str
) -> None:
    proxy = f"{scheme}://127.0.0.1:{network.routes[served].port}"
    with pytest.raises(exceptions.DownloadConnectionRefusedError):
        through(client, proxy, network.site("http"), download_timeout=5)


@pytest.mark.parametrize("scheme", ["socks4a", "socks5h"])
def test_who_resolves_names_the_proxy(client: Client, network: Network, scheme: str) -> None:
    route = network.routes[scheme]
    url = network.site("http").replace("127.0.0.1", "localhost")
    assert through(client, route.url(), url).status == 200
    assert f"localhost:{url.rpartition(':')[2]}" in route.log()
    with pytest.raises(exceptions.DownloadConnectionRefusedError):
        through(client, route.url(), "http://nowhere.invalid/")


@pytest.mark.parametrize("scheme", ["socks4", "socks5"])
def test_who_resolves_names_the_client(client: Client, network: Network, scheme: str) -> None:
    with pytest.raises(exceptions.CannotResolveHostError):
        through(client, network.routes[scheme].url(), "http://nowhere.invalid/")


def test_the_user_of_socks4(client: Client) -> None:
    with proxies.socks4a() as proxy, serve() as site:
        url = f"socks4a://anna:unused@127.0.0.1:{proxy.port}"
        assert through(client, url, site.url).status == 200
        assert [user for user, _, _ in proxy.asked] == ["anna"]


@pytest.mark.parametrize("encoding", ["latin-1", "utf-8"])
def test_credentials_are_encoded_as_the_setting_says(
    make_client: MakeClient, network: Network, tmp_path: Path, encoding: str
) -> None:
    client = make_client(HTTPPROXY_AUTH_ENCODING=encoding)
    with proxies.microsocks(tmp_path, "jürgen:p@ss wörd".encode(encoding)) as proxy:
        url = f"socks5://jürgen:p%40ss%20w%C3%B6rd@127.0.0.1:{proxy.port}"
        assert through(client, url, network.site("http")).status == 200


# Certificates


def test_the_certificate_is_that_of_the_site(
    client: Client, network: Network, localhost: tuple[Path, Path]
) -> None:
    proxy = network.routes["https"].url()
    expected = ssl.PEM_cert_to_DER_cert(localhost[0].read_text())
    for _ in range(2):
        assert through(client, proxy, network.site("https")).certificate == expected
        assert through(client, proxy, network.site("http")).certificate is None


def test_certificates_of_proxies_are_verified_as_those_of_sites(
    make_client: MakeClient,
    network: Network,
    localhost: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(localhost[0]))
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    client = make_client(DOWNLOAD_VERIFY_CERTIFICATES=True)
    assert through(client, network.routes["http"].url(), network.site("https")).status == 200
    for site in SITES:
        with pytest.raises(exceptions.DownloadFailedError, match="certificate"):
            through(client, network.routes["https"].url(), network.site(site))


# Connections


@pytest.mark.parametrize("scheme", ["http", "https", "socks5"])
@pytest.mark.parametrize("most_idle", [1, 128])
def test_connections_are_not_shared_between_credentials(
    make_client: MakeClient,
    network: Network,
    monkeypatch: pytest.MonkeyPatch,
    scheme: str,
    most_idle: int,
) -> None:
    monkeypatch.setattr(curl, "MOST_IDLE", most_idle)
    client = make_client()
    route, url = network.closed_routes[scheme], network.site("https")
    assert through(client, route.url(USER), url).status == 200
    for user in WRONG * 2:
        with pytest.raises(exceptions.DownloadConnectionRefusedError):
            through(client, route.url(user), url)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_connections_are_kept_for_the_same_credentials(
    client: Client, scheme: str, network: Network, localhost: tuple[Path, Path]
) -> None:
    route = network.closed_routes[scheme]
    with serve(*localhost) as site:
        url = site.url.replace("localhost", "127.0.0.1")
        for user in (USER, OTHER_USER, USER, OTHER_USER):
            assert through(client, route.url(user), url).status == 200
        assert [one.connection for one in site.received] == [1, 2, 1, 2]


@pytest.mark.parametrize("most_idle", [1, 128])
def test_connections_are_not_shared_between_proxies(
    make_client: MakeClient,
    network: Network,
    localhost: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    most_idle: int,
) -> None:
    monkeypatch.setattr(curl, "MOST_IDLE", most_idle)
    client = make_client()
    with serve(*localhost) as site:
        url = site.url.replace("localhost", "127.0.0.1")
        assert client.fetch(url).status == 200
        for scheme in OPEN:
            assert through(client, network.routes[scheme].url(), url).status == 200
        assert [one.connection for one in site.received] == list(range(1, len(OPEN) + 2))


@pytest.mark.parametrize("most_idle", [1, 128])
def test_no_credentials_of_another_proxy(
    make_client: MakeClient, network: Network, monkeypatch: pytest.MonkeyPatch, most_idle: int
) -> None:
    monkeypatch.setattr(curl, "MOST_IDLE", most_idle)
    client = make_client()
    with serve() as other:  # answers as an HTTP proxy would
        for scheme in ("socks5", "http"):
            proxy = network.closed_routes[scheme].url(USER)
            assert through(client, proxy, network.site("http")).status == 200
            response = through(client, other.url, f"{network.site('http')}/echo")
            assert "proxy-authorization" not in header_names(response)


# What the proxy is told


@pytest.mark.parametrize("user", ["", USER])
def test_an_http_proxy_gets_no_header_of_the_library(client: Client, user: str) -> None:
    with raw_server.serve(lambda target: raw_server.respond()) as proxy:
        url = proxy.url.replace("//", f"//{user}@") if user else proxy.url
        through(client, url, "http://example.com/page")
        assert proxy.headers("http://example.com/page") == [
            ("Host", "example.com"),
            *([("Proxy-Authorization", AUTHORIZATION)] if user else []),
        ]


@pytest.mark.parametrize("user", ["", USER])
def test_an_http_proxy_gets_no_header_of_the_library_with_connect(
    client: Client, user: str
) -> None:
    with raw_server.serve(lambda target: raw_server.respond(status="502 -")) as proxy:
        url = proxy.url.replace("//", f"//{user}@") if user else proxy.url
        with pytest.raises(exceptions.DownloadConnectionRefusedError, match="response 502"):
            through(client, url, "https://example.com/page")
        assert proxy.headers("example.com:443") == [
            ("Host", "example.com:443"),
            *([("Proxy-Authorization", AUTHORIZATION)] if user else []),
        ]


def test_verbatim_targets(client: Client, network: Network) -> None:
    with raw_server.serve(lambda target: raw_server.respond()) as proxy:
        through(client, proxy.url, "http://example.com/%7e?a=%2f", verbatim_url=True)
        assert proxy.heads[0].startswith(b"GET http://example.com/%7e?a=%2f HTTP/1.1\r\n")
        through(client, proxy.url, "http://example.com", verbatim_url=True)
        assert proxy.heads[1].startswith(b"GET http://example.com HTTP/1.1\r\n")
    for scheme in OPEN:
        url = f"{network.site('https')}/echo/%7e?"
        response = through(client, network.routes[scheme].url(), url, verbatim_url=True)
        assert json.loads(response.body)["target"] == "/echo/%7e?"


# In a crawl


def test_a_crawl_through_proxies(network: Network, tmp_path: Path) -> None:
    requests = [
        {"url": f"{network.site(site)}/echo", "meta": {"proxy": route.url(USER)}}
        for site in SITES
        for route in network.closed_routes.values()
    ]
    outcomes, _ = fetch(tmp_path, requests, {})
    for outcome in outcomes:
        assert outcome["status"] == 200
        names = {name.lower() for name, _ in json.loads(outcome["body"])["headers"]}
        assert "proxy-authorization" not in names


@pytest.mark.parametrize("enabled", [True, False])
def test_proxies_of_the_environment(network: Network, tmp_path: Path, enabled: bool) -> None:
    route = network.closed_routes["http"]
    with serve() as site, serve() as excepted:
        excepted.url = excepted.url.replace("127.0.0.1", "localhost")
        outcomes, _ = fetch(
            tmp_path,
            [{"url": site.url}, {"url": excepted.url}],
            {"HTTPPROXY_ENABLED": enabled},
            env={"http_proxy": route.url(USER), "no_proxy": "localhost"},
        )
        assert [outcome["status"] for outcome in outcomes] == [200, 200]
        assert route.led_to(site) is enabled
        assert not route.led_to(excepted)
