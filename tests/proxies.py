"""Real proxies on loopback, as Debian packages them."""

import select
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .certificates import make_certificate
from .listening import connections_go_to
from .nginx import free_port, wait_for_port
from .parts import need

_TINYPROXY = """
Port {port}
Listen 127.0.0.1
Timeout 30
LogLevel Connect
{authentication}
"""

_DANTE = """
logoutput: stderr
internal: 127.0.0.1 port = {port}
external: 127.0.0.1
clientmethod: none
socksmethod: none
client pass {{ from: 127.0.0.0/8 to: 0.0.0.0/0 }}
socks pass {{ from: 127.0.0.0/8 to: 0.0.0.0/0 log: connect error }}
"""

_STUNNEL = """
foreground = yes
pid =
syslog = no
[proxy]
accept = 127.0.0.1:{port}
connect = 127.0.0.1:{behind}
cert = {certificate}
key = {key}
"""


@dataclass
class Proxy:
    """A running proxy: its port, and where it logs."""

    port: int
    log_file: Path

    def log(self) -> str:
        """Return what it has logged so far."""
        return self.log_file.read_text(errors="replace")


@contextmanager
def _run(command: list[Any], port: int, log_file: Path) -> Iterator[Proxy]:
    with log_file.open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        wait_for_port(port, process)
        yield Proxy(port, log_file)
    finally:
        process.terminate()
        process.wait(10)


@contextmanager
def tinyproxy(folder: Path, *users: str) -> Iterator[Proxy]:
    """Run an HTTP proxy that lets everybody in, or *users* only, written ``name:password``."""
    program = need("tinyproxy")["tinyproxy"]
    port = free_port()
    configuration = folder / f"tinyproxy-{port}.conf"
    authentication = "\n".join("BasicAuth " + user.replace(":", " ") for user in users)
    configuration.write_text(_TINYPROXY.format(port=port, authentication=authentication))
    log_file = folder / f"tinyproxy-{port}.log"
    with _run([program, "-d", "-c", str(configuration)], port, log_file) as proxy:
        yield proxy


@contextmanager
def microsocks(folder: Path, user: bytes = b"") -> Iterator[Proxy]:
    """Run a SOCKS5 proxy that lets everybody in, or *user* only, written ``name:password``."""
    program = need("microsocks")["microsocks"]
    port = free_port()
    command = [program, "-i", "127.0.0.1", "-p", str(port)]
    if user:
        name, _, password = user.partition(b":")
        command += [b"-u", name, b"-P", password]
    with _run(command, port, folder / f"microsocks-{port}.log") as proxy:
        yield proxy


@contextmanager
def dante(folder: Path) -> Iterator[Proxy]:
    """Run a proxy for SOCKS4 and SOCKS5, without credentials."""
    program = need("danted")["danted"]
    port = free_port()
    configuration = folder / "danted.conf"
    configuration.write_text(_DANTE.format(port=port))
    command = [program, "-f", str(configuration), "-p", str(folder / "danted.pid")]
    with _run(command, port, folder / "danted.log") as proxy:
        yield proxy


@contextmanager
def tls_front(folder: Path, behind: Proxy) -> Iterator[Proxy]:
    """Run a TLS server that makes an HTTPS proxy of the HTTP proxy *behind* it."""
    program = need("stunnel")["stunnel"]
    port = free_port()
    certificate, key = folder / f"proxy-{port}.crt", folder / f"proxy-{port}.key"
    make_certificate(certificate, key)
    configuration = folder / f"stunnel-{port}.conf"
    configuration.write_text(
        _STUNNEL.format(port=port, behind=behind.port, certificate=certificate, key=key)
    )
    with _run([program, str(configuration)], port, folder / f"stunnel-{port}.log") as proxy:
        yield proxy


@dataclass
class SOCKS4aProxy:
    """A running proxy: its port, and user, host and port of each connection."""

    port: int
    asked: list[tuple[str, str, int]] = field(default_factory=list)

    def log(self) -> str:
        """Return what it was asked for, a line for each connection."""
        return "\n".join(f"{user} {host}:{port}" for user, host, port in self.asked)


@contextmanager
def socks4a() -> Iterator[SOCKS4aProxy]:
    """Serve SOCKS4a, which no proxy that Debian packages does."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        proxy = SOCKS4aProxy(listener.getsockname()[1])

        def handle(client: socket.socket) -> None:
            with client, client.makefile("rb", 0) as reader:
                head = reader.read(8)
                user, host = _text(reader), socket.inet_ntoa(head[4:])
                if host.startswith("0.0.0."):  # the name follows
                    host = _text(reader)
                address = host, int.from_bytes(head[2:4], "big")
                proxy.asked.append((user, *address))
                with suppress(OSError), socket.create_connection(address) as site:
                    client.sendall(b"\0\x5a" + bytes(6))
                    _join(client, site)

        with connections_go_to(handle, listener):
            yield proxy


def _text(reader: Any) -> str:
    return b"".join(iter(lambda: reader.read(1), b"\0")).decode()


def _join(one: socket.socket, other: socket.socket) -> None:
    """Carry bytes between two connections until one of them ends."""
    while True:
        for source in select.select([one, other], [], [], 30)[0] or [None]:
            data = source and source.recv(65536)
            if not data:
                return
            (other if source is one else one).sendall(data)
