"""What a browser does in a page before the response is made: ``request.meta["actions"]``."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import NotSupported
from selenium.webdriver.common.by import By
from selenium.webdriver.support import expected_conditions
from selenium.webdriver.support.wait import WebDriverWait

if TYPE_CHECKING:
    from scrapy import Request
    from selenium.webdriver.remote.webdriver import WebDriver

_POLL = 0.1  # seconds; each look costs a few milliseconds of CPU


def run_actions(driver: WebDriver, request: Request, time_left: Callable[[], float]) -> None:
    """Run the actions of *request* in the page that *driver* shows.

    :param time_left: returns the seconds that are left for the download.
    :raises ValueError: an action is none of those there are.
    :raises selenium.common.TimeoutException: time is over.
    """
    actions = request.meta.get("actions") or ()
    if callable(actions):
        actions(driver)
        return
    for action in actions:
        name, *arguments = [action] if isinstance(action, str) else action
        try:
            function = _ACTIONS[name]
        except (KeyError, TypeError):
            raise NotSupported(
                f"request.meta['actions'] has {action!r}; there are {', '.join(_ACTIONS)}"
            ) from None
        try:
            function(driver, request, time_left, *arguments)
        except TypeError as error:
            raise NotSupported(f"request.meta['actions'] has {action!r}: {error}") from error


def _wait(driver: Any, request: Request, time_left: Callable[[], float], what: Any) -> None:
    """Wait for an element that the CSS selector *what* finds, or for *what* seconds."""
    if isinstance(what, str):
        _element(driver, time_left, expected_conditions.presence_of_element_located, what)
    else:
        time.sleep(max(0.0, min(what, time_left())))


def _click(driver: Any, request: Request, time_left: Callable[[], float], css: str) -> None:
    """Click the element that *css* finds, once it is there."""
    _element(driver, time_left, expected_conditions.element_to_be_clickable, css).click()


def _scroll(driver: Any, request: Request, time_left: Callable[[], float], css: str = "") -> None:
    """Scroll to the element that *css* finds, or to the end of the page."""
    if css:
        element = _element(driver, time_left, expected_conditions.presence_of_element_located, css)
        driver.execute_script("arguments[0].scrollIntoView()", element)
    else:
        driver.execute_script("scrollTo(0, document.documentElement.scrollHeight)")


def _script(driver: Any, request: Request, time_left: Callable[[], float], source: str) -> None:
    """Run the JavaScript *source*."""
    driver.execute_script(source)


def _screenshot(driver: Any, request: Request, time_left: Callable[[], float]) -> None:
    """Put a PNG of what the browser shows into ``response.meta["screenshot"]``."""
    request.meta["screenshot"] = driver.get_screenshot_as_png()


def _element(driver: Any, time_left: Callable[[], float], condition: Any, css: str) -> Any:
    wait = WebDriverWait(driver, max(0.0, time_left()), poll_frequency=_POLL)
    return wait.until(condition((By.CSS_SELECTOR, css)), f"no {css!r} in time")


_ACTIONS: dict[str, Callable[..., None]] = {
    "wait": _wait,
    "click": _click,
    "scroll": _scroll,
    "script": _script,
    "screenshot": _screenshot,
}
