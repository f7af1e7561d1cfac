"""Idle libcurl handles, and with them the connections they hold, shared by all workers."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

import pycurl

from .libcurl import Handle


class Connection:
    """A libcurl handle with at most one open connection, and what is known of it.

    Options are set only when they change: the handle keeps them from one transfer to the next.
    """

    def __init__(self, handle: Handle):
        self.handle = handle
        self.ip_address: str | None = None
        self.certificate: bytes | None = None
        self.protocol: str | None = None
        self.prepared_for: Hashable = None
        self._socket = -1
        self._leads_to: Hashable = None
        self._options: dict[int, object] = {}

    def set(self, option: int, value: object) -> None:
        """Set *option* of the handle to *value*; ``None`` is its default."""
        if self._options.get(option) != value:
            if value is None:
                self.handle.unsetopt(option)
            else:
                self.handle.setopt(option, value)
            self._options[option] = value

    def forget(self, option: int) -> None:
        """Have the next :meth:`set` of *option* reach the handle, whatever was set before."""
        self._options.pop(option, None)

    def is_fit(self, place: Hashable) -> bool:
        """Return whether the open connection, if there is one, can serve *place*.

        A handle that served another place still has that connection, and libcurl does not see all
        that two places differ in: it would use a tunnel that was opened with other credentials.
        """
        return self._leads_to == place and not self._has_unasked_input()

    def note_transfer(self, place: Hashable) -> None:
        """Note that a transfer to *place* has ended, and so whether its connection is kept."""
        self._socket = self.handle.getinfo(pycurl.LASTSOCKET)
        self._leads_to = place if self._socket >= 0 else None

    def _has_unasked_input(self) -> bool:
        """Return whether the server has sent something, or hung up, since the last transfer.

        libcurl looks for that itself, but not within a second of the last transfer, and would take
        what it finds for the answer to the next request. In HTTP/2 the server may send at any time.
        """
        return self.protocol in ("HTTP/1.0", "HTTP/1.1") and self.handle.has_input(self._socket)


class IdleConnections:
    """Idle connections by where they lead, latest first; safe to use from any thread.

    For a place to which none leads, a new one is made until there are *limit*; then the one that
    has been idle for longest is used again, and so the place it led to loses it.
    """

    def __init__(self, make: Callable[[], Connection], limit: int):
        self._make = make
        self._limit = limit
        self._made = 0
        self._lock = threading.Lock()
        self._idle: OrderedDict[int, tuple[Hashable, Connection]] = OrderedDict()
        self._by_place: dict[Hashable, list[Connection]] = {}

    def take(self, place: Hashable) -> Connection:
        """Return a connection to use for *place*; :meth:`give` it back."""
        with self._lock:
            if place in self._by_place:
                return self._remove(place, -1)
            if self._idle and self._made >= self._limit:
                place, _ = next(iter(self._idle.values()))
                return self._remove(place, 0)
            self._made += 1
        return self._make()

    def give(self, place: Hashable, connection: Connection) -> None:
        """Take back *connection*, which leads to *place*."""
        with self._lock:
            self._idle[id(connection)] = (place, connection)
            self._by_place.setdefault(place, []).append(connection)

    def _remove(self, place: Hashable, index: int) -> Connection:
        connections = self._by_place[place]
        connection = connections.pop(index)
        if not connections:
            del self._by_place[place]
        del self._idle[id(connection)]
        return connection

    def close(self) -> None:
        """Close all idle connections."""
        with self._lock:
            idle = [connection for _, connection in self._idle.values()]
            self._made -= len(idle)
            self._idle.clear()
            self._by_place.clear()
        for connection in idle:
            connection.handle.close()
