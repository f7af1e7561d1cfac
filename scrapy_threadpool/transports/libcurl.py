"""libcurl easy handles that run one transfer: written to memory in C, or streamed through Python.

:class:`MemoryHandle` calls the libcurl that ``pycurl`` carries through :mod:`ctypes`, and gives it
the C library's memory streams to write to, so that a worker needs the GIL before and after a
transfer and never during it. :class:`StreamingHandle` is a ``pycurl`` handle with callbacks, for
downloads that somebody watches, and for systems without memory streams.
"""

from __future__ import annotations

import ctypes
import os
import select
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pycurl

from .head import is_interim

if TYPE_CHECKING:
    from ..download import Download

# libcurl's numbers for what pycurl has no names for (include/curl/curl.h)
_HEADERDATA = 10029
_WRITEDATA = 10001
_ERRORBUFFER = 10010
_XFERINFODATA = 10057
_ERROR_SIZE = 256
# Bytes of a body above which its memory is given back
_MOST_KEPT = 4_000_000
_INFO_LONG, _INFO_OFF_T = 0x200000, 0x600000
_INFO_MASK = 0xF00000


@dataclass
class Transfer:
    """What came of a transfer: libcurl's error code (0 is success) and message, and the bytes.

    ``error`` is what a callback raised, which ended the transfer.
    """

    code: int
    message: str
    head: bytes
    body: bytes
    error: BaseException | None = None


class Handle(Protocol):
    """What the curl transport uses of an easy handle; options are pycurl's constants.

    :ivar tls: what libcurl said of the last TLS handshake, if it was told to say anything.
    """

    tls: str

    def setopt(self, option: int, value: Any) -> object: ...

    def unsetopt(self, option: int) -> object: ...

    def getinfo(self, info: int) -> Any: ...

    def transfer(self, download: Download, on_head: Callable[[bytes], None]) -> Transfer:
        """Run the transfer that the options describe; blocks, and raises nothing of its own."""

    def interrupt(self) -> None:
        """From any thread: end the transfer under way within about a second."""

    def has_input(self, socket: int) -> bool:
        """Return whether there is something to read from *socket*, or its end, now."""

    def close(self) -> object: ...


class Incoming:
    """Gives a download what comes in, as it comes in; libcurl's callbacks are made of it.

    Both methods return whether the transfer goes on.
    """

    def __init__(self, download: Download, on_head: Callable[[bytes], None]):
        self._download = download
        self._on_head = on_head
        self._lines: list[bytes] = []
        self._begun = False
        self._error: BaseException | None = None

    def header(self, line: bytes) -> bool:
        """Take a line of the head, or of the trailers."""
        if self._begun:  # a trailer
            return True
        lines = self._lines
        if line.startswith(b"HTTP/"):
            lines.clear()
        lines.append(line)
        if line.strip() or is_interim(lines[0]):
            return True
        self._begun = True
        return self._call(self._on_head, b"".join(lines))

    def write(self, data: bytes) -> bool:
        """Take a piece of the body."""
        return self._call(self._download.bytes_received, data)

    def transfer(self, code: int, message: str) -> Transfer:
        """Return what came of the transfer, which ended with *code* and *message*."""
        head = b"".join(self._lines) if self._begun else b""
        return Transfer(code, message, head, b"", self._error)

    def _call(self, function: Callable[[bytes], None], data: bytes) -> bool:
        try:
            function(data)
        except BaseException as error:
            self._error = error
            return False
        return True


class StreamingHandle(pycurl.Curl):  # type: ignore[misc]
    """A pycurl handle with callbacks."""

    def __init__(self) -> None:
        super().__init__()
        self.setopt(pycurl.USERAGENT, "")  # pycurl would send its own
        # Not in the class: pycurl looks there first, and would never find what is set later.
        self.tls = ""
        self.interrupted = False

    def unsetopt(self, option: int) -> None:
        if option == pycurl.INTERFACE:  # pycurl refuses to, and to libcurl this is the same
            self.setopt(option, "")
        else:
            super().unsetopt(option)

    def describe_tls(self) -> None:
        """Note in ``tls`` what libcurl says of each TLS handshake."""

        def debug(kind: int, text: bytes) -> None:
            if kind == pycurl.INFOTYPE_TEXT and text.startswith(b"SSL connection using "):
                self.tls = text[len("SSL connection using ") :].decode().strip()

        self.setopt(pycurl.VERBOSE, 1)
        self.setopt(pycurl.DEBUGFUNCTION, debug)

    def transfer(self, download: Download, on_head: Callable[[bytes], None]) -> Transfer:
        incoming = Incoming(download, on_head)
        self.interrupted = False
        self.setopt(pycurl.HEADERFUNCTION, lambda line: None if incoming.header(line) else -1)
        self.setopt(pycurl.WRITEFUNCTION, lambda data: None if incoming.write(data) else -1)
        self.setopt(pycurl.NOPROGRESS, 0)
        self.setopt(pycurl.XFERINFOFUNCTION, lambda *_: self.interrupted)
        code, message = 0, ""
        try:
            self.perform()
        except pycurl.error as failure:
            code, message = failure.args[:2]
        finally:
            # An idle handle must not keep the download, and all it holds, alive.
            for option in (pycurl.HEADERFUNCTION, pycurl.WRITEFUNCTION, pycurl.XFERINFOFUNCTION):
                self.unsetopt(option)
        return incoming.transfer(code, message)

    def interrupt(self) -> None:
        self.interrupted = True

    def has_input(self, socket: int) -> bool:
        return is_readable(socket, 0)


class _Libraries:
    """libcurl and the C library, called with and without the GIL.

    :raises AttributeError: one of them lacks a function.
    :raises OSError: there is no such library.
    """

    def __init__(self) -> None:
        # Looking a symbol up in pycurl's extension module also searches the libraries it is
        # linked with, so this is the very libcurl that pycurl uses.
        extension = sys.modules.get("pycurl._pycurl", pycurl).__file__
        curl = ctypes.PyDLL(extension)
        libc = ctypes.PyDLL(None)
        curl.curl_version.restype = ctypes.c_char_p
        if not pycurl.version.endswith(curl.curl_version().decode()):
            raise OSError("another libcurl than pycurl's")
        self.init = curl.curl_easy_init
        self.init.restype = ctypes.c_void_p
        self.setopt = curl.curl_easy_setopt
        self.setopt.argtypes = [ctypes.c_void_p, ctypes.c_int]
        self.getinfo = curl.curl_easy_getinfo
        self.getinfo.argtypes = [ctypes.c_void_p, ctypes.c_int]
        self.append = curl.curl_slist_append
        self.append.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
        self.append.restype = ctypes.c_void_p
        self.free_list = curl.curl_slist_free_all
        self.free_list.argtypes = [ctypes.c_void_p]
        self.strerror = curl.curl_easy_strerror
        self.strerror.restype = ctypes.c_char_p
        without_gil = ctypes.CDLL(extension)
        self.perform = without_gil.curl_easy_perform
        self.perform.argtypes = [ctypes.c_void_p]
        self.cleanup = without_gil.curl_easy_cleanup
        self.cleanup.argtypes = [ctypes.c_void_p]
        self.open_memstream = libc.open_memstream
        self.open_memstream.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        self.open_memstream.restype = ctypes.c_void_p
        self.fclose = libc.fclose
        self.fclose.argtypes = [ctypes.c_void_p]
        self.fflush = libc.fflush
        self.fflush.argtypes = [ctypes.c_void_p]
        self.fseek = libc.fseek
        self.fseek.argtypes = [ctypes.c_void_p, ctypes.c_long, ctypes.c_int]
        self.free = libc.free
        self.free.argtypes = [ctypes.c_void_p]
        self.poll = libc.poll
        self.poll.argtypes = [ctypes.c_void_p, ctypes.c_ulong, ctypes.c_int]
        self.strlen = ctypes.cast(libc.strlen, ctypes.c_void_p)


class _List(ctypes.Structure):
    """``struct curl_slist``."""


_List._fields_ = [("data", ctypes.c_char_p), ("next", ctypes.POINTER(_List))]


class _CertificateInfo(ctypes.Structure):
    """``struct curl_certinfo``."""

    _fields_ = (("count", ctypes.c_int), ("chain", ctypes.POINTER(ctypes.POINTER(_List))))


class _Poll(ctypes.Structure):
    """``struct pollfd``."""

    _fields_ = (("fd", ctypes.c_int), ("events", ctypes.c_short), ("revents", ctypes.c_short))


def _load() -> _Libraries | None:
    if os.name != "posix":
        return None
    try:
        return _Libraries()
    except (AttributeError, OSError):
        return None


_libraries = _load()


class _MemoryStream:
    """A C ``FILE *`` that collects what is written to it (POSIX ``open_memstream``)."""

    def __init__(self, libraries: _Libraries):
        self._libraries = libraries
        self._data = ctypes.c_void_p()
        self._size = ctypes.c_size_t()
        self._open()

    def _open(self) -> None:
        open_memstream = self._libraries.open_memstream
        self.file = open_memstream(ctypes.byref(self._data), ctypes.byref(self._size))
        if not self.file:
            raise MemoryError("no memory for a stream")

    def begin(self) -> None:
        """Begin anew, whatever became of what was written before."""
        if not self.file:
            self._open()
        self._libraries.fseek(self.file, 0, os.SEEK_SET)
        self._size.value = 0  # only glibc updates it when nothing is written

    def take(self) -> bytes:
        """Return what was written to the stream since :meth:`begin`."""
        self._libraries.fflush(self.file)  # which updates the size
        size = self._size.value
        try:
            return ctypes.string_at(self._data, size)
        finally:
            if size > _MOST_KEPT:
                self._close()

    def _close(self) -> None:
        self._libraries.fclose(self.file)
        self.file = None
        self._libraries.free(self._data)

    def __del__(self) -> None:
        # At the interpreter's end, a thread may still be in a transfer that writes here.
        if self.file and not sys.is_finalizing():
            self._close()


class _ThreadStreams(threading.local):
    """The streams for the head and the body of the transfers of a thread.

    They keep their memory from one transfer to the next: fresh memory costs a page fault for each
    4 KB of it.
    """

    def __init__(self, libraries: _Libraries):
        self.head = _MemoryStream(libraries)
        self.body = _MemoryStream(libraries)


class MemoryHandle:
    """A libcurl easy handle whose transfers are written to memory by C."""

    tls = ""

    def __init__(self) -> None:
        assert _libraries is not None
        self._libraries = _libraries
        self._handle = self._libraries.init()
        if not self._handle:
            raise MemoryError("no memory for a libcurl handle")
        self._files: tuple[int, int] | None = None
        self._lists: dict[int, int] = {}
        self._post_fields: bytes | None = None
        self._error = ctypes.create_string_buffer(_ERROR_SIZE)
        # While this is the empty string its length is 0 and the transfer goes on: strlen() as the
        # progress function makes it possible to stop a transfer without a callback in Python.
        self._interrupt = ctypes.create_string_buffer(2)
        self._set(_ERRORBUFFER, self._error)
        self._set(_XFERINFODATA, self._interrupt)
        self._set(pycurl.XFERINFOFUNCTION, self._libraries.strlen)
        self._set(pycurl.NOPROGRESS, ctypes.c_long(0))

    def setopt(self, option: int, value: Any) -> None:
        """Set *option* to an int, str, bytes, or list of str or bytes.

        :raises TypeError: that is no value for the option, or it takes what only pycurl gives it.
        :raises ValueError: a string has a NUL byte.
        :raises pycurl.error: libcurl does not take the value.
        """
        kind = option // 10000
        if kind not in ((0, 3) if isinstance(value, int) else (1,)):
            raise TypeError(f"libcurl's option {option} does not take {value!r}")
        if kind == 3:
            self._set(option, ctypes.c_int64(value))
        elif kind == 0:
            self._set(option, ctypes.c_long(value))
        elif isinstance(value, (list, tuple)):
            self._set_list(option, value)
        elif option == pycurl.POSTFIELDS:
            self._post_fields = value  # libcurl does not copy it
            self._set(pycurl.POSTFIELDSIZE_LARGE, ctypes.c_int64(len(value)))
            self._set(option, ctypes.c_char_p(value))
        else:
            self._set(option, ctypes.c_char_p(_text(value)))

    def unsetopt(self, option: int) -> None:
        """Set *option* back to its default."""
        self._set(option, ctypes.c_void_p(None))
        self._free_list(option)

    def getinfo(self, info: int) -> Any:
        """Return *info* of the last transfer."""
        if info == pycurl.INFO_CERTINFO:
            return self._certificates()
        kind = info & _INFO_MASK
        value: Any
        if kind == _INFO_LONG:
            value = ctypes.c_long()
        elif kind == _INFO_OFF_T:
            value = ctypes.c_int64()
        else:
            value = ctypes.c_char_p()
        self._libraries.getinfo(self._handle, info, ctypes.byref(value))
        return value.value.decode() if isinstance(value.value, bytes) else value.value

    def transfer(self, download: Download, on_head: Callable[[bytes], None]) -> Transfer:
        head, body = _streams.head, _streams.body
        head.begin()
        body.begin()
        self._interrupt.raw = b"\0\0"
        self._error.value = b""
        if self._files != (head.file, body.file):
            self._set(_HEADERDATA, ctypes.c_void_p(head.file))
            self._set(_WRITEDATA, ctypes.c_void_p(body.file))
            self._files = head.file, body.file
        code = self._libraries.perform(self._handle)
        message = "" if not code else self._error.value.decode(errors="replace")
        if code and not message:
            message = self._libraries.strerror(code).decode()
        return Transfer(code, message, head.take(), body.take())

    def interrupt(self) -> None:
        self._interrupt.raw = b"x\0"

    def has_input(self, socket: int) -> bool:
        # Without waiting, the call is shorter than a switch to another thread and back.
        poll = _Poll(socket, select.POLLIN)
        return bool(self._libraries.poll(ctypes.byref(poll), 1, 0))

    def close(self) -> None:
        """Close the connection and free the handle."""
        if self._handle:
            self._libraries.cleanup(self._handle)
            self._handle = None
            for option in list(self._lists):
                self._free_list(option)

    def _set(self, option: int, value: Any) -> None:
        code = self._libraries.setopt(self._handle, option, value)
        if code:
            raise pycurl.error(code, self._libraries.strerror(code).decode())

    def _set_list(self, option: int, lines: list[Any] | tuple[Any, ...]) -> None:
        first = None
        for line in lines:
            first = self._libraries.append(first, _text(line))
        self._set(option, ctypes.c_void_p(first))
        self._free_list(option)
        if first:
            self._lists[option] = first

    def _free_list(self, option: int) -> None:
        if (first := self._lists.pop(option, None)) is not None:
            self._libraries.free_list(first)

    def _certificates(self) -> list[list[tuple[str, str]]]:
        pointer = ctypes.POINTER(_CertificateInfo)()
        self._libraries.getinfo(self._handle, pycurl.INFO_CERTINFO, ctypes.byref(pointer))
        chain = []
        if pointer:
            for index in range(pointer.contents.count):
                fields = []
                entry = pointer.contents.chain[index]
                while entry:
                    name, _, value = entry.contents.data.decode(errors="replace").partition(":")
                    fields.append((name, value))
                    entry = entry.contents.next
                chain.append(fields)
        return chain


if _libraries is not None:
    _streams = _ThreadStreams(_libraries)


def is_readable(socket: int, timeout: float) -> bool:
    """Return whether there is something to read from *socket* within *timeout* seconds."""
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(socket, select.POLLIN)
        return bool(poll.poll(timeout * 1000))
    return bool(select.select([socket], [], [], timeout)[0])


def has_memory_handles() -> bool:
    """Return whether this system can have libcurl write to memory in C."""
    return _libraries is not None


def _text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    if b"\0" in data:
        raise ValueError(f"a NUL byte in {data!r}")
    return data
