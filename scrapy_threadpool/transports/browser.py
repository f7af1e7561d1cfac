"""A Chromium or Chrome process and its driver: started, asked, and killed with all it started."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any
from weakref import finalize

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

# Names under which systems have them, so that nothing is looked for on the network
_BINARIES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
# The browser makes a socket there, whose path the system allows about 100 characters
_LONGEST_TEMPORARY = 56


@dataclass(frozen=True)
class BrowserSettings:
    """How a browser is started.

    :ivar arguments: of the command line, behind those that are always there.
    :ivar binary: path of the browser; empty for the one that is found.
    :ivar chromedriver: path of its driver; empty for the one that is found.
    :ivar headless: whether it has no window.
    :ivar verify: whether it refuses certificates that it cannot verify.
    """

    arguments: tuple[str, ...] = ()
    binary: str = ""
    chromedriver: str = ""
    headless: bool = True
    verify: bool = False


class Browser:
    """A browser process with a profile of its own, in a process group of its own.

    :param proxy: URL of the proxy for all that it loads.
    """

    def __init__(self, settings: BrowserSettings, proxy: str | None = None):
        self.proxy = proxy
        self._folder = TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True)
        self._options = _options(settings, proxy, self._folder.name)
        self._service = _Service(settings, self._folder.name)
        self._killed = False
        self._driver: Chrome | None = None

    @property
    def driver(self) -> Chrome:
        """The driver of the browser, which is started by the first use.

        :raises selenium.common.WebDriverException: it does not start.
        """
        if self._driver is None:
            self._driver = Chrome(options=self._options, service=self._service)
            if self._killed:
                self.kill()
        return self._driver

    def command(self, name: str, **parameters: Any) -> Any:
        """Return what the browser answers to a command of its developer tools, in its tab."""
        return self.driver.execute_cdp_cmd(name, parameters)

    def kill(self) -> None:
        """From any thread: end the driver, the browser and all they started; calls to it fail."""
        self._killed = True
        if self._service.end is not None:
            self._service.end()

    def close(self) -> None:
        """End the browser and remove what it wrote."""
        self.kill()
        self._folder.cleanup()


class _Service(Service):
    """A driver process that leads a group of its own, so that Ctrl-C does not reach it."""

    def __init__(self, settings: BrowserSettings, folder: str):
        #: Ends the group: when it is called, with this object, or at the exit of the interpreter
        self.end: finalize[Any, Any] | None = None
        super().__init__(
            settings.chromedriver or shutil.which("chromedriver"),
            env=_environment(folder),
            popen_kw={"start_new_session": True} if os.name == "posix" else {},
        )

    def start(self) -> None:
        super().start()
        self.end = finalize(self, _kill_group, self.process)


def _environment(folder: str) -> dict[str, str]:
    """Return an environment in which all that the browser leaves behind lies in *folder*."""
    if len(folder) > _LONGEST_TEMPORARY:
        return dict(os.environ)
    return {**os.environ, "TMPDIR": folder}


def _kill_group(process: subprocess.Popen[Any]) -> None:
    if os.name == "posix":
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        subprocess.run(
            ["taskkill", "/T", "/F", "/PID", str(process.pid)], capture_output=True, check=False
        )
    process.wait()


def _options(settings: BrowserSettings, proxy: str | None, folder: str) -> ChromeOptions:
    options = ChromeOptions()
    options.ignore_local_proxy_environment_variables()
    options.binary_location = settings.binary or next(
        filter(None, map(shutil.which, _BINARIES)), ""
    )
    options.accept_insecure_certs = not settings.verify
    options.unhandled_prompt_behavior = "dismiss"
    options.set_capability("goog:loggingPrefs", {"performance": "ALL"})
    options.add_experimental_option("perfLoggingPrefs", {"enablePage": False})
    arguments = [f"--user-data-dir={folder}", "--disable-dev-shm-usage", "--disable-gpu"]
    if settings.headless:
        arguments.append("--headless=new")
    if proxy is None:
        arguments.append("--no-proxy-server")  # not that of the environment either
    else:
        arguments += [f"--proxy-server={proxy}", "--proxy-bypass-list=<-loopback>"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        arguments.append("--no-sandbox")  # as root, it does not start without this
    for argument in [*arguments, *settings.arguments]:
        options.add_argument(argument)
    return options
