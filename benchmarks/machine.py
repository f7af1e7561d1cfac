"""Where and with what it was measured."""

import datetime
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path

from tests.parts import need

_PACKAGES = (
    "scrapy-threadpool",
    "Scrapy",
    "Twisted",
    "pycurl",
    "lxml",
    "scrapy-download-handlers-incubator",
    "aiohttp",
    "httpx2",
    "niquests",
    "curl_cffi",
    "pyreqwest",
    "wreq",
    "scrapy-impersonate",
    "h2",
)


def describe() -> dict[str, str]:
    """Return the date, the machine and the versions, in words."""
    nginx = subprocess.run([need("nginx")["nginx"], "-v"], capture_output=True, text=True).stderr
    return {
        "date": datetime.date.today().isoformat(),
        "processor": f"{_processor()}, {os.cpu_count()} cores, shared with the server",
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "Python": platform.python_version(),
        "nginx": nginx.strip().rpartition("/")[2],
        "libcurl": _libcurl(),
        **{package: version for package in _PACKAGES if (version := _version(package))},
    }


def listed(facts: dict[str, str]) -> str:
    """Return *facts* as a list in Markdown."""
    return "".join(f"- {name}: {fact}\n" for name, fact in facts.items())


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _libcurl() -> str:
    import pycurl

    return str(pycurl.version).partition(" ")[2]


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
