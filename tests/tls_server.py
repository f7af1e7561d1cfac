"""A TLS server that keeps what its clients show of themselves: ClientHello, HTTP/2, headers."""

import hashlib
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hpack import Decoder, Encoder

from .certificates import make_certificate
from .listening import connections_go_to

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _SETTINGS, _WINDOW_UPDATE = 0, 1, 4, 8
Headers = list[tuple[str, str]]
Answer = tuple[int, Headers, bytes]


@dataclass
class Hello:
    """A ClientHello, without the values that are there to be ignored (GREASE, RFC 8701)."""

    version: int
    ciphers: list[int] = field(default_factory=list)
    extensions: list[int] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)
    point_formats: list[int] = field(default_factory=list)
    signatures: list[int] = field(default_factory=list)
    alpn: list[bytes] = field(default_factory=list)

    @property
    def ja3(self) -> str:
        """The JA3 text, before it is hashed."""
        parts = self.ciphers, self.extensions, self.groups, self.point_formats
        return ",".join([str(self.version), *("-".join(map(str, part)) for part in parts)])

    @property
    def ja4(self) -> str:
        version = {0x304: "13", 0x303: "12"}[max(self.versions or [self.version])]
        alpn = self.alpn[0].decode() if self.alpn else "00"
        name = "d" if 0 in self.extensions else "i"
        counts = f"{len(self.ciphers):02}{len(self.extensions):02}"
        ciphers = ",".join(sorted(f"{value:04x}" for value in self.ciphers))
        hashed = sorted(f"{value:04x}" for value in self.extensions if value not in (0, 16))
        signatures = ",".join(f"{value:04x}" for value in self.signatures)
        return "_".join(
            [
                f"t{version}{name}{counts}{alpn[0]}{alpn[-1]}",
                _hash(ciphers),
                _hash(f"{','.join(hashed)}_{signatures}"),
            ]
        )


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _without_grease(values: tuple[int, ...]) -> list[int]:
    return [value for value in values if value & 0x0F0F != 0x0A0A or value >> 8 != value & 0xFF]


def _shorts(data: bytes) -> list[int]:
    return _without_grease(struct.unpack(f"!{len(data) // 2}H", data))


def parse_hello(record: bytes) -> Hello:
    """Return what is in *record*, the first TLS record that a client sends."""
    data = record[9:]  # behind the headers of the record and of the message
    hello = Hello(int.from_bytes(data[:2], "big"))
    position = 34
    position += 1 + data[position]  # session ID
    size = int.from_bytes(data[position : position + 2], "big")
    hello.ciphers = _shorts(data[position + 2 : position + 2 + size])
    position += 2 + size
    position += 1 + data[position]  # compression
    end = position + 2 + int.from_bytes(data[position : position + 2], "big")
    position += 2
    while position < end:
        kind, size = struct.unpack("!HH", data[position : position + 4])
        value = data[position + 4 : position + 4 + size]
        position += 4 + size
        hello.extensions += _without_grease((kind,))
        if kind == 10:
            hello.groups = _shorts(value[2:])
        elif kind == 11:
            hello.point_formats = list(value[1:])
        elif kind == 13:
            hello.signatures = _shorts(value[2:])
        elif kind == 16:
            names = value[2:]
            while names:
                hello.alpn.append(names[1 : 1 + names[0]])
                names = names[1 + names[0] :]
        elif kind == 43:
            hello.versions = _shorts(value[1:])
    return hello


@dataclass
class Client:
    """One connection, as the server sees it."""

    hello: Hello
    resumed: bool = False
    protocol: str = ""
    settings: list[tuple[int, int]] = field(default_factory=list)
    window_update: int = 0
    requests: list[Headers] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)


@dataclass
class TLSServer:
    """A running server: its URL, its certificate, and its clients so far, oldest first."""

    url: str
    certificate: Path
    clients: list[Client] = field(default_factory=list)

    @property
    def requests(self) -> list[Headers]:
        return [request for client in self.clients for request in client.requests]


@contextmanager
def serve(
    folder: Path,
    answer: Callable[[str], Answer] = lambda path: (200, [], path.encode()),
    *,
    requests_per_connection: int = 1 << 30,
) -> Iterator[TLSServer]:
    """Serve HTTP/2 and HTTP/1.1 over TLS; *answer* makes status, headers and body of a path."""
    certificate, key = folder / "server.crt", folder / "server.key"
    make_certificate(certificate, key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["h2", "http/1.1"])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = TLSServer(f"https://localhost:{listener.getsockname()[1]}", certificate)

        def handle(connection: socket.socket) -> None:
            with connection:
                client = Client(parse_hello(_peek_record(connection)))
                server.clients.append(client)
                try:
                    with context.wrap_socket(connection, server_side=True) as stream:
                        client.resumed = bool(stream.session_reused)
                        client.protocol = stream.selected_alpn_protocol() or "http/1.1"
                        talk = _talk_http2 if client.protocol == "h2" else _talk_http1
                        talk(stream, client, answer, requests_per_connection)
                except OSError:
                    pass

        with connections_go_to(handle, listener):
            yield server


def _peek_record(connection: socket.socket) -> bytes:
    size = 5
    while True:
        data = connection.recv(size, socket.MSG_PEEK | socket.MSG_WAITALL)
        if len(data) < size or len(data) >= 5 + int.from_bytes(data[3:5], "big"):
            return data
        size = 5 + int.from_bytes(data[3:5], "big")


def _read(stream: Any, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = stream.recv(size - len(data))
        if not piece:
            raise ConnectionError
        data += piece
    return data


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    head = len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big")
    return head + payload


def _talk_http2(
    stream: Any, client: Client, answer: Callable[[str], Answer], requests: int
) -> None:
    decoder, encoder = Decoder(), Encoder()
    assert _read(stream, len(_PREFACE)) == _PREFACE
    stream.sendall(_frame(_SETTINGS, 0, 0))
    body = b""
    while len(client.bodies) < requests:
        head = _read(stream, 9)
        kind, flags = head[3], head[4]
        number = int.from_bytes(head[5:], "big")
        payload = _read(stream, int.from_bytes(head[:3], "big"))
        if kind == _SETTINGS and not flags & 1:
            fields = (payload[at : at + 6] for at in range(0, len(payload), 6))
            client.settings += [struct.unpack("!HI", one) for one in fields]
            stream.sendall(_frame(_SETTINGS, 1, 0))
        elif kind == _WINDOW_UPDATE and number == 0 and not client.window_update:
            client.window_update = int.from_bytes(payload, "big")
        elif kind == _HEADERS:
            block = payload[5:] if flags & 0x20 else payload
            client.requests.append([(str(n), str(v)) for n, v in decoder.decode(block)])
            body = b""
        elif kind == _DATA:
            body += payload
        if kind in (_HEADERS, _DATA) and flags & 1:
            client.bodies.append(body)
            status, headers, content = answer(dict(client.requests[-1])[":path"])
            block = encoder.encode([(":status", str(status)), *headers])
            stream.sendall(_frame(_HEADERS, 4, number, block))
            pieces = [content[at : at + 16384] for at in range(0, len(content), 16384)] or [b""]
            for piece in pieces[:-1]:
                stream.sendall(_frame(_DATA, 0, number, piece))
            stream.sendall(_frame(_DATA, 1, number, pieces[-1]))


def _talk_http1(
    stream: Any, client: Client, answer: Callable[[str], Answer], requests: int
) -> None:
    with stream.makefile("rb") as reader:
        while len(client.bodies) < requests and (line := reader.readline()):
            path = line.split()[1].decode()
            headers: Headers = []
            while (line := reader.readline()) not in (b"\r\n", b""):
                name, _, value = line.decode().strip().partition(": ")
                headers.append((name, value))
            client.requests.append(headers)
            sizes = [int(value) for name, value in headers if name.lower() == "content-length"]
            client.bodies.append(reader.read(sizes[0]) if sizes else b"")
            status, sent, content = answer(path)
            lines = [f"HTTP/1.1 {status} -", *(f"{name}: {value}" for name, value in sent)]
            lines.append(f"Content-Length: {len(content)}")
            stream.sendall("\r\n".join([*lines, "", ""]).encode() + content)
