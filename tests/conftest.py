"""What many tests need."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scrapy_threadpool.transports import curl

from .certificates import make_certificate
from .curl_client import Client, MakeClient


@pytest.fixture(scope="session")
def localhost(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the files of a certificate for localhost and of its key."""
    folder = tmp_path_factory.mktemp("certificate")
    make_certificate(folder / "localhost.crt", folder / "localhost.key")
    return folder / "localhost.crt", folder / "localhost.key"


@pytest.fixture(params=["memory", "streaming"])
def make_client(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[MakeClient]:
    """Make clients with one kind of handle or the other."""
    if request.param == "streaming":
        monkeypatch.setattr(curl, "has_memory_handles", lambda: False)
    elif not curl.has_memory_handles():
        pytest.skip("this system has no memory handles")
    clients: list[Client] = []

    def make(**settings: Any) -> Client:
        clients.append(Client(settings))
        return clients[-1]

    yield make
    for client in clients:
        client.transport.close()
