"""Every setting: its name, its default, what is allowed, and how a wrong value is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import pycurl

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

_Number = TypeVar("_Number", int, float)


@dataclass(frozen=True)
class Setting:
    """A setting: *convert* turns its value into what the code uses, or raises for a wrong one."""

    name: str
    default: Any
    allowed: str
    convert: Callable[[Any], Any]


@dataclass(frozen=True)
class TransportSettings:
    """One transport of a crawl: what it is, how many workers use it, and its own options."""

    name: str
    transport: Any
    threads: int
    options: Mapping[str, Any] = field(default_factory=dict)


def _whole(value: Any, lowest: int) -> int:
    if isinstance(value, bool) or float(value) != int(value):
        raise ValueError
    return _at_least(lowest, int(value))


def _number(value: Any, lowest: float) -> float:
    if not math.isfinite(float(value)):
        raise ValueError
    return _at_least(lowest, float(value))


def _at_least(lowest: _Number, value: _Number) -> _Number:
    if not value >= lowest:
        raise ValueError
    return value


def _switch(value: Any) -> bool:
    if value in (True, False, 1, 0):
        return bool(value)
    return {"true": True, "1": True, "false": False, "0": False}[value.lower()]


def _one_of(*names: str) -> Callable[[Any], str]:
    def convert(value: Any) -> str:
        if str(value) not in names:
            raise ValueError
        return str(value)

    return convert


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


class _EntryError(Exception):
    """What is wrong with one entry of a setting; the message says it whole."""


def _entries(value: Any) -> dict[str, dict[str, Any]]:
    value = json.loads(value) if isinstance(value, str) else value
    entries = {name: dict(entry) for name, entry in dict(value).items()}
    if DEFAULT_TRANSPORT not in entries:
        raise _EntryError(f"THREADPOOL_TRANSPORTS has no {DEFAULT_TRANSPORT!r}")
    for name, entry in entries.items():
        for key in ("transport", "threads"):
            if key not in entry:
                raise _EntryError(f"THREADPOOL_TRANSPORTS[{name!r}] has no {key!r}")
        _whole(entry["threads"], 1)
    return entries


#: The transport of requests whose meta names none
DEFAULT_TRANSPORT = "default"
#: Threads where neither NUMBER_OF_THREADS nor CONCURRENT_REQUESTS limits them (its 0 is no limit)
_UNLIMITED_THREADS = 16

SETTINGS = {
    setting.name: setting
    for setting in (
        Setting(
            "NUMBER_OF_THREADS",
            None,
            "a whole number of at least 1",
            lambda value: _whole(value, 1),
        ),
        Setting(
            "THREADPOOL_TRANSPORT",
            "curl",
            "the name of a transport, or the import path of a Transport subclass or a function",
            lambda value: value,
        ),
        Setting(
            "THREADPOOL_TRANSPORTS",
            None,
            'a dict like {"default": {"transport": "curl", "threads": 16}, ...}, with "default" in '
            'it and "transport" and "threads" (at least 1) in each entry',
            _entries,
        ),
        Setting(
            "THREADPOOL_HTTP_VERSION",
            "1.1",
            "'1.1', '2' or '3'",
            _one_of("1.1", "2", "3"),
        ),
        Setting(
            "THREADPOOL_PROCESS_PAGES",
            True,
            "True or False",
            _switch,
        ),
        Setting(
            "THREADPOOL_IMPERSONATE",
            "chrome",
            "the name of a browser that curl_cffi knows, or '' for none",
            _text,
        ),
        Setting(
            "THREADPOOL_MAX_STUCK_WORKERS",
            None,
            "a whole number of at least 0",
            lambda value: _whole(value, 0),
        ),
    )
}


def get(settings: BaseSettings, name: str) -> Any:
    """Return the value of the setting *name* of this package.

    :raises ValueError: the value is not allowed; the message says what is, in one line.
    """
    setting = SETTINGS[name]
    value = settings.get(name)
    if value is None:
        return setting.default
    try:
        return setting.convert(value)
    except _EntryError as error:
        raise ValueError(str(error)) from None
    except (AttributeError, TypeError, ValueError, KeyError, OverflowError):
        raise ValueError(f"{name} must be {setting.allowed}, not {value!r}") from None


def transports(settings: BaseSettings) -> dict[str, TransportSettings]:
    """Return the transports of a crawl by name; ``"default"`` is always there.

    :raises ValueError: a value is not allowed, or the short and the long form are mixed.
    """
    entries = get(settings, "THREADPOOL_TRANSPORTS")
    if entries is None:
        most = max(0, settings.getint("CONCURRENT_REQUESTS"))
        threads = get(settings, "NUMBER_OF_THREADS") or most
        transport = get(settings, "THREADPOOL_TRANSPORT")
        entries = {DEFAULT_TRANSPORT: {"transport": transport, "threads": threads or None}}
    else:
        for short in ("NUMBER_OF_THREADS", "THREADPOOL_TRANSPORT"):
            if settings.get(short) is not None:
                raise ValueError(f"{short} and THREADPOOL_TRANSPORTS exclude each other: set one")
    return {
        name: TransportSettings(
            name,
            entry.pop("transport"),
            int(entry.pop("threads") or _UNLIMITED_THREADS),
            entry,
        )
        for name, entry in entries.items()
    }


def name_of(settings: BaseSettings, transport: str, key: str) -> str:
    """Return how the user writes *key* (``threads`` or ``transport``) of *transport*."""
    if settings.get("THREADPOOL_TRANSPORTS") is not None:
        return f"THREADPOOL_TRANSPORTS[{transport!r}][{key!r}]"
    return {"threads": "NUMBER_OF_THREADS", "transport": "THREADPOOL_TRANSPORT"}[key]


def http_versions() -> list[str]:
    """Return the HTTP versions that the installed libcurl speaks."""
    features = pycurl.version_info()[4]
    needed = {"1.1": 0, "2": pycurl.VERSION_HTTP2, "3": pycurl.VERSION_HTTP3}
    return [version for version, feature in needed.items() if features & feature == feature]


def check(settings: BaseSettings) -> None:
    """Refuse a wrong value of any setting of this package.

    :raises ValueError: naming the setting, the value and what is allowed.
    """
    for name in SETTINGS:
        get(settings, name)
    version, spoken = get(settings, "THREADPOOL_HTTP_VERSION"), http_versions()
    if version not in spoken:
        libcurl = pycurl.version.split()[1]
        raise ValueError(
            f"THREADPOOL_HTTP_VERSION must be one of {', '.join(spoken)} with {libcurl}, "
            f"not {version!r}"
        )
    for name in settings:
        if str(name).startswith("THREADPOOL_") and name not in SETTINGS:
            raise ValueError(f"{name} is no setting; there are {', '.join(SETTINGS)}")
    transports(settings)
