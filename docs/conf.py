"""Sphinx configuration."""

from scrapy_threadpool import __version__

project = "scrapy-threadpool"
author = "scrapy-threadpool developers"
release = version = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"scrapy-threadpool {release}"
autodoc_typehints = "description"
autodoc_member_order = "bysource"
suppress_warnings = ["ref.python"]
