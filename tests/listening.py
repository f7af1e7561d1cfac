"""A thread for every connection to a server of the tests."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def connections_go_to(
    handle: Callable[[socket.socket], None], listener: socket.socket
) -> Iterator[None]:
    """While the block runs, have *handle* called with each connection in a thread of its own."""

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=handle, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield
    listener.shutdown(socket.SHUT_RDWR)
