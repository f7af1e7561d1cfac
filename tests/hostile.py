"""A server that sends exactly the bytes that a test tells it to."""

import enum
import socket
import struct
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field


class Do(enum.Enum):
    """What a connection does that is neither sending nor pausing."""

    READ = "read one request, head and body"
    HALF_CLOSE = "send no more, as if all was said"
    RESET = "drop the connection with a TCP reset"
    WAIT = "do nothing until the client closes the connection"


Step = bytes | float | Do
"""Bytes are sent, a number is a pause in seconds."""


@dataclass
class HostileServer:
    """Listens on loopback; each connection follows a script, and is closed at the script's end.

    :param scripts: the first is for the first connection, and so on; the last is for all further.
    :ivar received: what each connection read, in the order in which they came.
    """

    scripts: Sequence[Sequence[Step]]
    received: list[bytes] = field(default_factory=list)

    def __enter__(self) -> "HostileServer":
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._connections: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        # A shutdown, for the close alone does not end an accept() that is under way on Linux.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            number = len(self._connections)
            self._connections.append(connection)
            self.received.append(b"")
            threading.Thread(target=self._follow, args=(connection, number), daemon=True).start()

    def _follow(self, connection: socket.socket, number: int) -> None:
        pause = threading.Event()
        with suppress(OSError), connection:
            for step in self.scripts[min(number, len(self.scripts) - 1)]:
                if isinstance(step, bytes):
                    connection.sendall(step)
                elif step is Do.READ:
                    request = _read_request(connection)
                    self.received[number] += request
                    if not request:
                        return
                elif step is Do.HALF_CLOSE:
                    connection.shutdown(socket.SHUT_WR)
                elif step is Do.RESET:
                    linger = struct.pack("hh" if _SHORT_LINGER else "ii", 1, 0)
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                elif step is Do.WAIT:
                    while connection.recv(65536):
                        pass
                else:
                    pause.wait(step)


_SHORT_LINGER = hasattr(socket, "SIO_RCVALL")  # Windows has two shorts where POSIX has two ints


def _read_request(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        if not (more := connection.recv(65536)):
            return data
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    length = 0
    for line in head.lower().split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name == b"content-length":
            length = int(value)
    while len(body) < length and (more := connection.recv(65536)):
        body += more
        data += more
    return data
