"""A real nginx on loopback that serves a folder over HTTP and HTTPS."""

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .certificates import make_certificate
from .parts import need

_CONFIGURATION = """
daemon off;
worker_processes 1;
pid {run}/nginx.pid;
error_log {run}/error.log;
events {{ worker_connections 1024; }}
http {{
  include /etc/nginx/mime.types;
  default_type application/octet-stream;
  access_log {run}/access.log;
  client_body_temp_path {run}/body;
  proxy_temp_path {run}/proxy;
  fastcgi_temp_path {run}/fastcgi;
  uwsgi_temp_path {run}/uwsgi;
  scgi_temp_path {run}/scgi;
  keepalive_requests 100000;
  gzip on;
  gzip_types text/plain text/css application/javascript;
  {http}
  server {{
    listen 127.0.0.1:{http_port};
    listen 127.0.0.1:{https_port} ssl http2;
    ssl_certificate {run}/localhost.crt;
    ssl_certificate_key {run}/localhost.key;
    root {root};
    {server}
  }}
}}
"""


@dataclass
class Nginx:
    """A running nginx: where it is, and what it logged."""

    http: str
    https: str
    run: Path

    def requests(self) -> list[str]:
        """Return the lines of the access log so far."""
        return (self.run / "access.log").read_text().splitlines()


@contextmanager
def serve(root: Path, run: Path, *, http: str = "", server: str = "") -> Iterator[Nginx]:
    """Serve *root*; *run* takes the configuration and logs, *http* and *server* more directives."""
    program = need("nginx")["nginx"]
    run.mkdir(parents=True, exist_ok=True)
    make_certificate(run / "localhost.crt", run / "localhost.key")
    http_port, https_port = free_port(), free_port()
    (run / "nginx.conf").write_text(
        _CONFIGURATION.format(
            run=run, root=root, http_port=http_port, https_port=https_port, http=http, server=server
        )
    )
    process = subprocess.Popen(
        [program, "-e", str(run / "error.log"), "-p", str(run), "-c", str(run / "nginx.conf")]
    )
    try:
        wait_for_port(http_port, process)
        yield Nginx(f"http://127.0.0.1:{http_port}", f"https://localhost:{https_port}", run)
    finally:
        process.terminate()
        process.wait(10)


def free_port() -> int:
    """Return a TCP port of loopback that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for_port(port: int, process: subprocess.Popen[bytes] | None = None) -> None:
    """Return when somebody listens on *port* of loopback."""
    for _ in range(200):
        if process is not None and process.poll() is not None:
            raise RuntimeError(f"the server ended with code {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError(f"nobody listens on port {port}")
