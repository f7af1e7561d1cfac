"""Every setting of the package: its default, what it takes, and how a wrong value is refused."""

import re
from typing import Any

import pytest
from scrapy.settings import BaseSettings, Settings

from scrapy_threadpool import settings as our

WRONG: list[tuple[str, Any]] = [
    *(("NUMBER_OF_THREADS", value) for value in (0, -1, 1.5, "many", "", True, [4], float("nan"))),
    ("NUMBER_OF_THREADS", float("inf")),
    *(("THREADPOOL_HTTP_VERSION", value) for value in ("1", "4", 2.5, [], "h2")),
    *(("THREADPOOL_PROCESS_PAGES", value) for value in ("yes", 2, "", [], 0.5)),
    *(("THREADPOOL_MAX_STUCK_WORKERS", value) for value in (-1, 1.5, "all", True)),
    ("THREADPOOL_TRANSPORTS", "curl"),
    ("THREADPOOL_TRANSPORTS", {"default": {"transport": "curl", "threads": 0}}),
    ("THREADPOOL_TRANSPORTS", {"default": "curl"}),
    ("THREADPOOL_TRANSPORTS", ["default"]),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_wrong_values(name: str, value: object) -> None:
    settings = Settings()
    settings.set(name, value)
    with pytest.raises(ValueError, match=rf"^{name} must be ") as caught:
        our.check(settings)
    message = str(caught.value)
    assert "\n" not in message
    assert our.SETTINGS[name].allowed in message
    assert message.endswith(f", not {settings.get(name)!r}")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({}, "THREADPOOL_TRANSPORTS has no 'default'"),
        ({"b": {"transport": "curl", "threads": 1}}, "THREADPOOL_TRANSPORTS has no 'default'"),
        ({"default": {"transport": "curl"}}, "THREADPOOL_TRANSPORTS['default'] has no 'threads'"),
        ({"default": {"threads": 1}}, "THREADPOOL_TRANSPORTS['default'] has no 'transport'"),
    ],
)
def test_what_an_entry_lacks(value: object, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        our.check(Settings({"THREADPOOL_TRANSPORTS": value}))


def test_transports_from_the_command_line() -> None:
    text = '{"default": {"transport": "curl", "threads": 3}}'
    entries = our.transports(Settings({"THREADPOOL_TRANSPORTS": text}))
    assert entries["default"] == our.TransportSettings("default", "curl", 3)


def test_names_that_are_no_setting() -> None:
    settings = Settings({"THREADPOOL_TRANPORT": "curl"})
    with pytest.raises(ValueError, match=r"^THREADPOOL_TRANPORT is no setting; there are .*") as e:
        our.check(settings)
    assert all(name in str(e.value) for name in our.SETTINGS)


@pytest.mark.parametrize("short", ["NUMBER_OF_THREADS", "THREADPOOL_TRANSPORT"])
def test_short_and_long_form_exclude_each_other(short: str) -> None:
    values = {"NUMBER_OF_THREADS": 4, "THREADPOOL_TRANSPORT": "curl"}
    long = {"default": {"transport": "curl", "threads": 4}}
    settings = Settings({short: values[short], "THREADPOOL_TRANSPORTS": long})
    with pytest.raises(ValueError, match=f"^{short} and THREADPOOL_TRANSPORTS exclude each other"):
        our.check(settings)


@pytest.mark.parametrize("name", list(our.SETTINGS))
def test_defaults_are_allowed(name: str) -> None:
    default = our.SETTINGS[name].default
    assert our.get(BaseSettings(), name) == default
    if default is not None:
        assert our.get(BaseSettings({name: default}), name) == default


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [  # as a program sets them, and as they come from the command line
        ("NUMBER_OF_THREADS", 4, 4),
        ("NUMBER_OF_THREADS", "4", 4),
        ("NUMBER_OF_THREADS", 4.0, 4),
        ("THREADPOOL_HTTP_VERSION", 2, "2"),
        ("THREADPOOL_HTTP_VERSION", 1.1, "1.1"),
        ("THREADPOOL_HTTP_VERSION", "3", "3"),
        ("THREADPOOL_PROCESS_PAGES", "False", False),
        ("THREADPOOL_PROCESS_PAGES", "1", True),
        ("THREADPOOL_PROCESS_PAGES", False, False),
        ("THREADPOOL_MAX_STUCK_WORKERS", "0", 0),
    ],
)
def test_right_values(name: str, value: object, expected: object) -> None:
    found = our.get(Settings({name: value}), name)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("values", "threads"),
    [
        ({}, 16),
        ({"NUMBER_OF_THREADS": 3}, 3),
        ({"CONCURRENT_REQUESTS": 5}, 5),
        ({"NUMBER_OF_THREADS": 3, "CONCURRENT_REQUESTS": 5}, 3),
        ({"CONCURRENT_REQUESTS": 0}, 16),  # Scrapy's word for no limit
        ({"CONCURRENT_REQUESTS": -5}, 16),
    ],
)
def test_number_of_threads(values: dict[str, Any], threads: int) -> None:
    (transport,) = our.transports(Settings(values)).values()
    assert transport.name == our.DEFAULT_TRANSPORT
    assert transport.transport == "curl"
    assert transport.threads == threads
    assert transport.options == {}


def test_several_transports() -> None:
    value = {
        "default": {"transport": "curl", "threads": 4},
        "other": {"transport": "requests", "threads": "2", "session": "x"},
    }
    found = our.transports(Settings({"THREADPOOL_TRANSPORTS": value}))
    assert {name: (one.transport, one.threads, one.options) for name, one in found.items()} == {
        "default": ("curl", 4, {}),
        "other": ("requests", 2, {"session": "x"}),
    }
    assert value["other"]["session"] == "x"  # the user's own dict is left as it was


@pytest.mark.parametrize("key", ["threads", "transport"])
def test_settings_are_named_as_the_user_writes_them(key: str) -> None:
    short = {"threads": "NUMBER_OF_THREADS", "transport": "THREADPOOL_TRANSPORT"}[key]
    assert our.name_of(Settings(), "default", key) == short
    long = Settings({"THREADPOOL_TRANSPORTS": {}})
    assert our.name_of(long, "browser", key) == f"THREADPOOL_TRANSPORTS['browser']['{key}']"
