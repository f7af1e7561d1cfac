"""A real caddy on loopback, which speaks HTTP/1.1, HTTP/2 and HTTP/3."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .nginx import free_port, wait_for_port
from .parts import need

# What a page says: the version of the request, the port and the address that it came from, and TLS
_CONFIGURATION = """
{{
  admin off
  auto_https off
  skip_install_trust
  default_bind 127.0.0.1
  servers {{
    protocols {protocols}
  }}
}}
http://127.0.0.1:{http_port} {{
  respond "{{http.request.proto}} {{http.request.remote.port}} {{http.request.remote.host}}"
}}
https://localhost:{https_port}, https://127.0.0.1:{https_port} {{
  tls {certificate} {key}
  handle /echo {{
    respond "{{http.request.body}}"
  }}
  handle /file/* {{
    root * {folder}
    file_server
  }}
  respond "{{http.request.proto}} {{http.request.remote.port}} {{http.request.remote.host}} \
{{http.request.tls.version}} {{http.request.tls.cipher_suite}}"
}}
"""


@dataclass
class Caddy:
    """A running caddy: where it is."""

    http: str
    https: str


@contextmanager
def serve(
    folder: Path, certificate: Path, key: Path, protocols: str = "h1 h2 h3"
) -> Iterator[Caddy]:
    """Serve in the given versions; below ``/file`` on HTTPS is what is in *folder*."""
    program = need("caddy")["caddy"]
    http_port, https_port = free_port(), free_port()
    configuration = folder / "Caddyfile"
    configuration.write_text(
        _CONFIGURATION.format(
            protocols=protocols,
            http_port=http_port,
            https_port=https_port,
            certificate=certificate,
            key=key,
            folder=folder,
        )
    )
    homes = dict.fromkeys(("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"), str(folder))
    with (folder / "caddy.log").open("w") as log:
        process = subprocess.Popen(
            [program, "run", "--config", str(configuration), "--adapter", "caddyfile"],
            env={**os.environ, **homes},
            stdout=log,
            stderr=log,
        )
    try:
        wait_for_port(https_port, process)
        yield Caddy(f"http://127.0.0.1:{http_port}", f"https://localhost:{https_port}")
    finally:
        process.terminate()
        process.wait(10)
