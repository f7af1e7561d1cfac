"""An HTTP server that waits before every answer.

``python -m benchmarks.delay_server PORT DELAY FILE`` runs in a process of its own and costs some
0.05 ms a page. Each answer says how long it was really kept back, in seconds, in the header
``Server-Delay``.
"""

import asyncio
import sys
from pathlib import Path


class _Delayed(asyncio.Protocol):
    def __init__(self, delay: float, body: bytes) -> None:
        self._delay = delay
        self._body = body
        self._received = b""
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        if self._received.endswith(b"\r\n\r\n"):
            self._received = b""
            self._loop.call_later(self._delay, self._answer, self._loop.time())

    def _answer(self, asked: float) -> None:
        if not self._transport.is_closing():
            head = (
                "HTTP/1.1 200 OK\r\n"
                "Server: delay\r\n"
                "Content-Type: text/html\r\n"
                f"Content-Length: {len(self._body)}\r\n"
                f"Server-Delay: {self._loop.time() - asked:.6f}\r\n\r\n"
            )
            self._transport.write(head.encode() + self._body)


async def _serve(port: int, delay: float, body: bytes) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: _Delayed(delay, body), "127.0.0.1", port, backlog=1024
    )
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3]).read_bytes()))
