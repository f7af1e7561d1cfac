"""A server that answers, fails, resets, stalls and trickles, as the path says."""

import asyncio
import random
import ssl
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from socket import SO_LINGER, SOL_SOCKET

#: How `/random/<seed>` behaves, and how often in a hundred
RANDOM_KINDS = {"page": 80, "fail": 8, "reset": 4, "cut": 4, "trickle": 3, "stall": 1}
PAGE = b"<html><head><title>A page</title></head><body>" + b"<p>text</p>" * 1000 + b"</body></html>"


class UnrulyServer:
    """Serves on a free port in a thread of its own, from `with` to its end.

    `/page` is a page, `/fail` a 500, `/reset` ends with a reset, `/cut` after half of the body,
    `/trickle` takes half a second, `/stall` never answers; `/random/<seed>` does one of these.
    What follows the first part of the path tells requests apart.
    """

    def __init__(self, certificate: tuple[str, str] | None = None):
        """*certificate* is the path of a certificate and of its key, to serve HTTPS."""
        self._context: ssl.SSLContext | None = None
        if certificate is not None:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(*certificate)
        self._ready = threading.Event()
        #: How often each path was asked for
        self.seen: Counter[str] = Counter()
        #: What happened, in order: "asked for /path", and of stalled requests "left /path"
        self.events: list[str] = []
        #: The paths of the requests that wait for an answer that does not come
        self.stalled: set[str] = set()

    def __enter__(self) -> "UnrulyServer":
        self._thread = threading.Thread(target=asyncio.run, args=(self._run(),), daemon=True)
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(10)

    def url(self, path: str = "") -> str:
        scheme = "http" if self._context is None else "https"
        return f"{scheme}://127.0.0.1:{self._port}{path}"

    def wait_until(self, condition: Callable[[], object], timeout: float = 20) -> None:
        """Wait until *condition* is true of this server; fail after *timeout* seconds."""
        end = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < end, f"seen: {self.seen}, stalled: {self.stalled}"
            time.sleep(0.02)

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._end = asyncio.Event()
        server = await asyncio.start_server(
            self._serve, "127.0.0.1", 0, ssl=self._context, backlog=1000
        )
        self._port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._end.wait()
        server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._answer(reader, writer):
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        path = head.split(None, 2)[1].decode()
        self.seen[path] += 1
        self.events.append(f"asked for {path}")
        kind = path.split("/")[1]
        if kind == "random":
            kinds, weights = list(RANDOM_KINDS), list(RANDOM_KINDS.values())
            kind = random.Random(path).choices(kinds, weights)[0]
        if kind == "reset":
            connection = writer.get_extra_info("socket")
            connection.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
            return False
        if kind == "stall":
            self.stalled.add(path)
            try:
                await reader.read(1)  # comes back when the client closes
            finally:
                self.stalled.discard(path)
                self.events.append(f"left {path}")
            return False
        status = b"500 Internal Server Error" if kind == "fail" else b"200 OK"
        writer.write(
            b"HTTP/1.1 %s\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n"
            % (status, len(PAGE))
        )
        if kind == "cut":
            writer.write(PAGE[:5000])
            return False
        if kind == "trickle":
            for start in range(0, len(PAGE), 1500):
                writer.write(PAGE[start : start + 1500])
                await asyncio.sleep(0.05)
        else:
            writer.write(PAGE)
        return True
