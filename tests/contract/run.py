"""Run Scrapy's own tests for download handlers against ours, in every event-loop mode.

They come from the source distribution of the Scrapy that is installed beside this Python. Arguments
are passed on to pytest (``-k proxy``); then it does not count how many tests ran.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
import venv
import xml.etree.ElementTree as ElementTree
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).parent
TEST = "test_threadpool_contract.py"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "scrapy-threadpool"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"

MODES = {
    "asyncio": ["--reactor=asyncio", "-p", "no:asyncio"],
    "default": ["--reactor=default", "-p", "no:asyncio"],
    "none": ["--reactor=none", "-p", "no:twisted"],
}
# How many tests have to run, not counting those that were skipped, by the Scrapy that introduced
# them. Scrapy 2.14 has no tests without a reactor.
EXPECTED = {
    (2, 14): {"asyncio": 234, "default": 234},
    (2, 19): {"asyncio": 380, "default": 380, "none": 380},
}
TOOLS = [
    "pytest",
    "pytest-asyncio",
    "pytest-timeout",
    "pytest-twisted",
    "h2",  # the server of Scrapy's tests speaks HTTP/2 with it
    "priority",
    "testfixtures",  # for Scrapy 2.14
]


def main(arguments: list[str]) -> int:
    scrapy = version("scrapy")
    release = tuple(int(part) for part in scrapy.split(".")[:2])
    expected = EXPECTED[max(known for known in EXPECTED if known <= release)]
    environment = {
        **os.environ,
        "PYTHONPATH": str(tools()),
        "MITMDUMP": str(mitmdump()),
    }
    complaints = []
    with tempfile.TemporaryDirectory() as folder:
        unpack(source_distribution(scrapy), Path(folder))
        for mode, least in expected.items():
            print(f"Scrapy {scrapy}, Python {PYTHON}, --reactor={mode}", flush=True)
            complaint = run(mode, Path(folder), environment, arguments, 0 if arguments else least)
            if complaint:
                complaints.append(f"--reactor={mode}: {complaint}")
    print(*complaints, sep="\n", file=sys.stderr)
    return len(complaints)


def run(
    mode: str, folder: Path, environment: dict[str, str], arguments: list[str], least: int
) -> str | None:
    """Run the tests in one mode and return what is wrong, if anything is."""
    report = folder / f"{mode}.xml"
    command = [sys.executable, "-m", "pytest", f"tests/{TEST}", "-q", "--timeout=60"]
    # Scrapy makes warnings errors, and a newer pytest warns of what released tests do.
    command += ["-W", "ignore::pytest.PytestDeprecationWarning"]
    command += [*MODES[mode], f"--junitxml={report}", *arguments]
    code = subprocess.run(command, cwd=folder, env=environment, check=False).returncode
    if code:
        return f"pytest ended with code {code}"
    suite = ElementTree.parse(report).getroot()[0]
    ran = int(suite.get("tests", 0)) - int(suite.get("skipped", 0))
    return f"only {ran} tests ran, of at least {least}" if ran < least else None


def source_distribution(scrapy: str) -> Path:
    """Return the archive of that version of Scrapy, downloaded once."""
    folder = CACHE / "sdist"
    found = list(folder.glob(f"[Ss]crapy-{scrapy}.tar.gz"))
    if not found:
        options = ["--no-deps", "--no-binary=scrapy", f"--dest={folder}"]
        pip(sys.executable, "download", *options, f"scrapy=={scrapy}")
        found = list(folder.glob(f"[Ss]crapy-{scrapy}.tar.gz"))
    return found[0]


def unpack(archive: Path, folder: Path) -> None:
    """Unpack Scrapy's tests, not Scrapy itself: the installed one is under test. Add ours."""
    with tarfile.open(archive) as files:
        for member in files:
            member.name = member.name.partition("/")[2]
            if member.name.startswith("tests/") or member.name in ("conftest.py", "pyproject.toml"):
                files.extract(member, folder, filter="data")
    (folder / "tests" / TEST).write_bytes((HERE / TEST).read_bytes())


def tools() -> Path:
    """Return a folder with what the tests need beside Scrapy, installed once."""
    folder = CACHE / f"tools-{PYTHON}"
    if not_yet(folder, *TOOLS):
        pip(sys.executable, "install", "--upgrade", f"--target={folder}", *TOOLS)
        done(folder, *TOOLS)
    return folder


def mitmdump() -> Path:
    """Return mitmproxy's program, from an environment of its own: it pins many libraries."""
    folder = CACHE / f"mitmproxy-{PYTHON}"
    programs = folder / ("Scripts" if os.name == "nt" else "bin")
    if not_yet(folder, "mitmproxy"):
        venv.create(folder, clear=True, with_pip=True)
        pip(str(programs / "python"), "install", "mitmproxy")
        done(folder, "mitmproxy")
    return programs / "mitmdump"


def not_yet(folder: Path, *content: str) -> bool:
    stamp = folder / ".complete"
    return not stamp.exists() or stamp.read_text() != " ".join(content)


def done(folder: Path, *content: str) -> None:
    (folder / ".complete").write_text(" ".join(content))


def pip(python: str, *arguments: str) -> None:
    subprocess.run([python, "-m", "pip", "--quiet", *arguments], check=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
