"""TLS session keys in the file that the environment variable ``SSLKEYLOGFILE`` names.

libcurl does this by itself, but reads the variable only when it is initialised. For a value that
was set since then it is initialised anew, which is safe while nobody uses it.
"""

from __future__ import annotations

import logging
import os
import threading

import pycurl

logger = logging.getLogger(__name__)

_lock = threading.Lock()
_users = 0
_file = os.environ.get("SSLKEYLOGFILE")


def use() -> None:
    """Call before a first handle is made; see :func:`follow_environment`."""
    global _users
    with _lock:
        _users += 1


def unuse() -> None:
    """Call for each :func:`use`, when the last handle is closed."""
    global _users
    with _lock:
        _users -= 1


def follow_environment() -> None:
    """Have libcurl write to the file that the environment names now; warn where it cannot."""
    global _file
    file = os.environ.get("SSLKEYLOGFILE")
    if file:
        try:
            open(file, "ab").close()
        except OSError as error:
            logger.warning("Cannot write TLS session keys to %s: %s", file, error)
    with _lock:
        if file != _file and not _users:
            pycurl.global_cleanup()
            pycurl.global_init(pycurl.GLOBAL_DEFAULT)
            _file = file
