"""``scrapy-threadpool``: Scrapy's command line with the add-on on."""

from __future__ import annotations

import sys

from scrapy import cmdline
from scrapy.utils.project import get_project_settings

from .addon import Addon


def main() -> None:
    """Run the Scrapy command that the arguments name."""
    settings = get_project_settings()
    addons = settings["ADDONS"]
    if not any(addon in (Addon, "scrapy_threadpool.Addon") for addon in addons):
        addons.set("scrapy_threadpool.Addon", 500, priority="cmdline")
    cmdline.execute(sys.argv, settings)


if __name__ == "__main__":
    main()
