"""Waiting for what comes soon."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], timeout: float) -> None:
    """Wait until *condition* is true; fail after *timeout* seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
