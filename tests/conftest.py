"""What many tests need."""

from pathlib import Path

import pytest

from .certificates import make_certificate


@pytest.fixture(scope="session")
def localhost(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the files of a certificate for localhost and of its key."""
    folder = tmp_path_factory.mktemp("certificate")
    make_certificate(folder / "localhost.crt", folder / "localhost.key")
    return folder / "localhost.crt", folder / "localhost.key"
