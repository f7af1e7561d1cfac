"""Parts of a test that pip does not bring: where they are, and what happens where they are not."""

import os
import shutil

import pytest


def need(*programs: str) -> dict[str, str]:
    """Return the paths of *programs* by name; skip the test where one is missing, or fail on CI."""
    search = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
    found = {program: shutil.which(program, path=search) for program in programs}
    missing = [program for program, path in found.items() if path is None]
    if missing:
        message = f"not installed: {', '.join(missing)}"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return {program: path for program, path in found.items() if path is not None}
