"""The oldest and the newest Scrapy, each with the oldest and the newest Python.

``nox --list`` names the sessions; ``nox --session 'tests(scrapy=…'`` runs one.
"""

import nox

nox.options.error_on_missing_interpreters = False

PYTHONS = ["3.10", "3.13"]
SCRAPYS = {
    # Twisted 25.5, the newest for this Scrapy, serves no TLS with a newer pyOpenSSL.
    "oldest": ["scrapy==2.14.*", "pyOpenSSL<26"],
    "newest": ["scrapy"],
}


@nox.session(python=PYTHONS)
@nox.parametrize("scrapy", list(SCRAPYS))
def tests(session: nox.Session, scrapy: str) -> None:
    """Run this project's tests; arguments go to pytest."""
    session.install("--editable", ".[test,progress,report,requests]", *SCRAPYS[scrapy])
    session.run("pytest", *session.posargs)


@nox.session(python=PYTHONS)
@nox.parametrize("scrapy", list(SCRAPYS))
def contract(session: nox.Session, scrapy: str) -> None:
    """Run Scrapy's tests for download handlers; arguments go to pytest."""
    session.install("--editable", ".", "pytest", *SCRAPYS[scrapy])
    session.run("python", "tests/contract/run.py", *session.posargs)
