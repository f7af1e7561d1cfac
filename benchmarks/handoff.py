"""What handing a task to a worker thread and back costs: ``python -m benchmarks.handoff``.

The task is empty. Ours is compared with ``asyncio.to_thread`` and Twisted's ``deferToThread``, with
as many threads as tasks in flight, each measurement in a fresh process.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

from twisted.internet import asyncioreactor

from scrapy_threadpool.bridge import Bridge
from scrapy_threadpool.pool import WorkerPool

from .load import Load, verdict
from .machine import describe, listed
from .report import number, spread, table

IN_FLIGHT = (1, 16, 64)
BASELINE = "asyncio.to_thread"

Once = Callable[[], Awaitable[Any]]


def _nothing() -> None:
    pass


def _ours(threads: int) -> Once:
    bridge = Bridge.for_running_loop(WorkerPool(threads))
    return lambda: bridge.run(_nothing)


def _to_thread(threads: int) -> Once:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(threads))
    return lambda: asyncio.to_thread(_nothing)


def _defer_to_thread(threads: int) -> Once:
    # As a future, as Scrapy awaits a Deferred where there is an asyncio loop.
    from twisted.internet import reactor
    from twisted.internet import threads as twisted_threads

    reactor.suggestThreadPoolSize(threads)
    return lambda: twisted_threads.deferToThread(_nothing).asFuture(asyncio.get_running_loop())


CONTENDERS = {
    "scrapy-threadpool": _ours,
    BASELINE: _to_thread,
    "twisted deferToThread": _defer_to_thread,
}


async def _measure(contender: str, in_flight: int, tasks: int) -> dict[str, float]:
    once = CONTENDERS[contender](in_flight)

    async def several(count: int) -> None:
        for _ in range(count):
            await once()

    async def all_of(count: int) -> None:
        await asyncio.gather(*(several(count // in_flight) for _ in range(in_flight)))

    await all_of(tasks // 10)  # the threads are started
    begin, cpu, loop_cpu = time.perf_counter(), time.process_time(), time.thread_time()
    await all_of(tasks)
    seconds = time.perf_counter() - begin
    done = tasks // in_flight * in_flight
    return {
        "tasks_per_second": done / seconds,
        "cpu_us": (time.process_time() - cpu) / done * 1e6,
        "loop_cpu_us": (time.thread_time() - loop_cpu) / done * 1e6,
    }


def _run(contender: str, in_flight: int, tasks: int) -> dict[str, float]:
    # All in the loop of a Twisted reactor, as Scrapy's is by default.
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    asyncioreactor.install(loop)
    from twisted.internet import reactor

    task = loop.create_task(_measure(contender, in_flight, tasks))
    task.add_done_callback(lambda _: reactor.stop())
    reactor.run()
    return task.result()


def main() -> None:
    """Measure all in turn and write ``handoff.md`` and ``handoff.json``."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.handoff")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tasks", type=int, default=10000)
    parser.add_argument("--output", type=Path, default=Path("docs/benchmarks"))
    parser.add_argument(
        "--one", nargs=2, metavar=("CONTENDER", "IN_FLIGHT"), help=argparse.SUPPRESS
    )
    options = parser.parse_args()
    if options.one:
        print(json.dumps(_run(options.one[0], int(options.one[1]), options.tasks)))
        return
    load = Load()
    rounds: dict[int, list[dict[str, dict[str, float]]]] = {}
    for in_flight in IN_FLIGHT:
        for _ in range(options.rounds):
            results = {name: _fresh(name, in_flight, options.tasks) for name in CONTENDERS}
            rounds.setdefault(in_flight, []).append(results)
    options.output.mkdir(parents=True, exist_ok=True)
    text = (
        f"# The hand-off\n\n{listed(describe())}\n{verdict([load.others(0)])}\n\n{_table(rounds)}"
    )
    (options.output / "handoff.md").write_text(text)
    (options.output / "handoff.json").write_text(
        json.dumps({"machine": describe(), "rounds": rounds}, indent=1) + "\n"
    )
    print(text)


def _fresh(contender: str, in_flight: int, tasks: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.handoff", "--tasks", str(tasks)]
    process = subprocess.run(
        [*command, "--one", contender, str(in_flight)],
        stdout=subprocess.PIPE,
        timeout=120,
        check=True,
    )
    result: dict[str, float] = json.loads(process.stdout)
    return result


def _table(rounds: dict[int, list[dict[str, dict[str, float]]]]) -> str:
    rows = []
    for in_flight, results in rounds.items():
        for name in CONTENDERS:
            ratios = [one[name]["cpu_us"] / one[BASELINE]["cpu_us"] for one in results]
            values = [
                median(one[name][key] for one in results)
                for key in ("cpu_us", "loop_cpu_us", "tasks_per_second")
            ]
            rows.append([name, str(in_flight), *map(number, values), spread(ratios)])
    heads = ["", "in flight", "CPU, µs a task", "of it the loop's thread", "tasks/s"]
    return table([*heads, f"ratio of the CPU to {BASELINE}"], rows)


if __name__ == "__main__":
    main()
