"""The server of a workload, in processes of its own."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.nginx import free_port, serve, wait_for_port

from .content import write_content
from .workloads import Workload


@dataclass
class Server:
    """A running server: what it serves, and its processes."""

    urls: list[str]
    root: Path
    processes: list[psutil.Process]

    def cpu(self) -> float:
        """Return the seconds of CPU that it has used up."""
        times = [process.cpu_times() for process in self.processes]
        return sum(time.user + time.system for time in times)


@contextmanager
def start(workload: Workload, folder: Path) -> Iterator[Server]:
    """Serve what *workload* fetches; *folder* takes the files and logs."""
    # Where nginx is started by root its worker is another user, who has to read this.
    folder.chmod(0o755)
    root = folder / "root"
    paths = write_content(root, workload.folder)
    if workload.delay:
        with _delayed(workload.delay, root / paths[0][1:]) as (base, process):
            yield Server([base + path for path in paths], root, [psutil.Process(process)])
    else:
        directives = f"access_log off; {workload.server}"
        with serve(root, folder / "nginx", server=directives) as nginx:
            base = nginx.https if workload.https else nginx.http
            master = psutil.Process(int((nginx.run / "nginx.pid").read_text()))
            yield Server([base + path for path in paths], root, master.children())


@contextmanager
def _delayed(delay: float, file: Path) -> Iterator[tuple[str, int]]:
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.delay_server", str(port), str(delay), str(file)]
    process = subprocess.Popen(command)
    try:
        wait_for_port(port, process)
        yield f"http://127.0.0.1:{port}", process.pid
    finally:
        process.terminate()
        process.wait(10)
