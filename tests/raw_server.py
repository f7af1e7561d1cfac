"""An HTTP server that keeps the bytes of each request and answers with bytes of the test's own."""

import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import takewhile
from typing import BinaryIO

from .listening import connections_go_to


@dataclass
class RawServer:
    """A running server: its URL, how many connections it had, and the head of each request."""

    url: str
    connections: int = 0
    heads: list[bytes] = field(default_factory=list)

    def headers(self, path: str) -> list[tuple[str, str]]:
        """Return the headers of the only request for *path*, as they were sent."""
        [head] = [head for head in self.heads if head.split()[1].decode() == path]
        lines = head.decode("latin-1").split("\r\n")[1:-2]
        return [(name, value) for name, _, value in (line.partition(": ") for line in lines)]


def respond(*headers: str, body: bytes = b"", status: str = "200 OK") -> bytes:
    """Return the bytes of a response with *headers* and *body*."""
    lines = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


def _head(reader: BinaryIO) -> bytes:
    """Return the lines up to the empty one; nothing when the client has hung up or speaks TLS."""
    lines = takewhile(lambda line: line.strip(), iter(reader.readline, b""))
    head = b"".join(lines)
    return head if head[:1].isalpha() else b""


@contextmanager
def serve(
    answer: Callable[[str], bytes | Iterable[bytes]], address: str = "127.0.0.1"
) -> Iterator[RawServer]:
    """Serve while the block runs. *answer* gives the bytes for a path.

    From an iterable of pieces they are sent one by one, and then the connection is closed.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family) as listener:
        host = f"[{address}]" if ":" in address else address
        server = RawServer(f"http://{host}:{listener.getsockname()[1]}")

        def handle(connection: socket.socket) -> None:
            server.connections += 1
            with connection, connection.makefile("rb") as reader, suppress(OSError):
                while head := _head(reader):
                    server.heads.append(head + b"\r\n")
                    for line in head.lower().split(b"\r\n"):
                        if line.startswith(b"content-length:"):
                            reader.read(int(line.split(b":")[1]))
                    answered = answer(head.split()[1].decode())
                    if isinstance(answered, bytes):
                        connection.sendall(answered)
                        continue
                    for piece in answered:
                        connection.sendall(piece)
                    break

        with connections_go_to(handle, listener):
            yield server
