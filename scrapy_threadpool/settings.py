"""Every setting: its name, its default, what is allowed, and how a wrong value is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

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


def _number_of_threads(value: Any) -> int:
    return _at_least(1, _whole(value))


def _whole(value: Any) -> int:
    if isinstance(value, bool) or float(value) != int(value):
        raise ValueError
    return int(value)


def _seconds(value: Any) -> float:
    return _at_least(0.0, float(value))


def _at_least(lowest: _Number, value: _Number) -> _Number:
    if not value >= lowest:
        raise ValueError
    return value


def _one_of(*names: str) -> Callable[[Any], str]:
    def convert(value: Any) -> str:
        if str(value) not in names:
            raise ValueError
        return str(value)

    return convert


SETTINGS = {
    setting.name: setting
    for setting in (
        Setting(
            "NUMBER_OF_THREADS",
            None,
            "a whole number of at least 1",
            _number_of_threads,
        ),
        Setting(
            "THREADPOOL_TRANSPORT",
            "curl",
            "'curl' or the import path of a Transport subclass or of a function",
            lambda value: value,
        ),
        Setting(
            "THREADPOOL_HTTP_VERSION",
            "1.1",
            "'1.1', '2' or '3'",
            _one_of("1.1", "2", "3"),
        ),
        Setting(
            "THREADPOOL_SHUTDOWN_TIMEOUT",
            5.0,
            "a number of seconds of at least 0",
            _seconds,
        ),
    )
}

#: Threads where neither NUMBER_OF_THREADS nor CONCURRENT_REQUESTS limits them (its 0 is no limit)
_UNLIMITED_THREADS = 16


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
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be {setting.allowed}, not {value!r}") from None


def number_of_threads(settings: BaseSettings) -> int:
    """Return how many workers a crawl has: ``NUMBER_OF_THREADS``, or ``CONCURRENT_REQUESTS``."""
    threads = get(settings, "NUMBER_OF_THREADS") or settings.getint("CONCURRENT_REQUESTS")
    return threads or _UNLIMITED_THREADS


def check(settings: BaseSettings) -> None:
    """Refuse a wrong value of any setting of this package.

    :raises ValueError: naming the setting, the value and what is allowed.
    """
    for name in SETTINGS:
        get(settings, name)
    for name in settings:
        if str(name).startswith("THREADPOOL_") and name not in SETTINGS:
            raise ValueError(f"{name} is no setting; there are {', '.join(SETTINGS)}")
