"""The worker model: a fixed number of daemon threads, one queue, every task exactly once."""

import gc
import logging
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator

import pytest

from scrapy_threadpool import WorkerPool
from scrapy_threadpool.pool import WorkerState

MakePool = Callable[..., WorkerPool]
SOON = 10  # seconds that nothing here takes


@pytest.fixture
def make_pool() -> Iterator[MakePool]:
    pools: list[WorkerPool] = []

    def make(*args: object, **arguments: object) -> WorkerPool:
        pools.append(WorkerPool(*args, **arguments))  # type: ignore[arg-type]
        return pools[-1]

    yield make
    for pool in pools:
        assert pool.shutdown(SOON) == []


def workers(prefix: str = "worker-") -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith(prefix)]


class Gate:
    """A task that blocks until it is let through."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.open = threading.Event()

    def __call__(self) -> None:
        self.entered.set()
        assert self.open.wait(SOON)


def test_workers_are_there_before_the_first_task(make_pool: MakePool) -> None:
    make_pool(4, name="early")
    threads = workers("early-")
    assert [thread.name for thread in threads] == ["early-1", "early-2", "early-3", "early-4"]
    assert all(thread.daemon for thread in threads)
    assert all(thread.is_alive() for thread in threads)


def test_threads_do_not_grow_with_the_queue(make_pool: MakePool) -> None:
    pool = make_pool(3, name="fixed")
    before = set(workers("fixed-"))
    seen: list[threading.Thread] = []
    for _ in range(500):
        pool.submit(lambda: seen.append(threading.current_thread()))
    assert pool.join(SOON)
    assert len(seen) == 500
    assert set(seen) <= before
    assert set(workers("fixed-")) == before


def test_tasks_run_in_the_order_of_submission(make_pool: MakePool) -> None:
    pool = make_pool(1)
    seen: list[int] = []
    for number in range(100):
        pool.submit(seen.append, number)
    assert pool.join(SOON)
    assert seen == list(range(100))


def test_a_task_can_submit_tasks(make_pool: MakePool) -> None:
    pool = make_pool(2)
    seen: list[int] = []

    def count_down(number: int) -> None:
        seen.append(number)
        if number:
            pool.submit(count_down, number - 1)

    pool.submit(count_down, 50)
    assert pool.join(SOON)
    assert sorted(seen) == list(range(51))


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt, GeneratorExit])
def test_a_failing_task_ends_no_worker(
    make_pool: MakePool, caplog: pytest.LogCaptureFixture, error: type[BaseException]
) -> None:
    pool = make_pool(1, name="failing")
    seen: list[str] = []

    def fail() -> None:
        raise error("this one")

    pool.submit(fail)
    pool.submit(seen.append, "the next")
    with caplog.at_level(logging.ERROR):
        assert pool.join(SOON)
    assert seen == ["the next"]
    assert [state.done for state in pool.snapshot()] == [2]
    (record,) = caplog.records
    assert record.getMessage().startswith("failing-1: ")
    assert record.exc_info is not None
    assert record.exc_info[0] is error


def test_join_waits_for_what_is_under_way(make_pool: MakePool) -> None:
    pool = make_pool(2)
    gate = Gate()
    pool.submit(gate)
    assert gate.entered.wait(SOON)
    assert not pool.join(0.05)
    gate.open.set()
    assert pool.join(SOON)


def test_join_without_work_returns_at_once(make_pool: MakePool) -> None:
    assert make_pool(1).join()


def test_shutdown_ends_the_workers_behind_the_work(make_pool: MakePool) -> None:
    pool = make_pool(3, name="ending")
    seen: list[int] = []
    for number in range(50):
        pool.submit(seen.append, number)
    assert pool.shutdown() == []
    assert len(seen) == 50
    assert workers("ending-") == []
    assert pool.snapshot() == []
    assert pool.join(0)  # the sentinels are accounted for as well


def test_shutdown_twice_is_no_error(make_pool: MakePool) -> None:
    pool = make_pool(2)
    assert pool.shutdown(SOON) == []
    assert pool.shutdown(SOON) == []


def test_a_pool_that_is_shut_down_takes_no_work(make_pool: MakePool) -> None:
    pool = make_pool(1, name="closed")
    pool.shutdown(SOON)
    with pytest.raises(RuntimeError, match="'closed' is shut down"):
        pool.submit(print)


def test_shutdown_names_those_still_busy_in_order(make_pool: MakePool) -> None:
    pool = make_pool(4, name="busy")
    gates = [Gate(), Gate()]
    for gate in gates:
        pool.submit(gate)
        assert gate.entered.wait(SOON)
    states = {state.name: state for state in pool.snapshot() if state.task}
    stuck = pool.shutdown(0.1)
    assert [state.name for state in stuck] == sorted(states)
    assert {state.task.function for state in stuck if state.task} == set(gates)
    for gate in gates:
        gate.open.set()
    assert pool.shutdown(SOON) == []


def test_shutdown_from_within_a_task(make_pool: MakePool) -> None:
    pool = make_pool(2)
    answers: list[list[WorkerState]] = []
    pool.submit(lambda: answers.append(pool.shutdown(SOON)))
    assert pool.join(SOON)
    ((state,),) = answers  # the worker that asks is the one still busy
    assert state.task is not None


def test_drain_returns_what_was_not_begun(make_pool: MakePool) -> None:
    pool = make_pool(1)
    gate = Gate()
    pool.submit(gate)
    assert gate.entered.wait(SOON)
    seen: list[int] = []
    for number in range(5):
        pool.submit(seen.append, number)
    assert pool.waiting() == 5
    assert [task.args for task in pool.drain()] == [(0,), (1,), (2,), (3,), (4,)]
    assert pool.waiting() == 0
    gate.open.set()
    assert pool.join(SOON)
    assert seen == []


def test_drain_leaves_the_sentinels(make_pool: MakePool) -> None:
    pool = make_pool(1)
    gate = Gate()
    pool.submit(gate)
    pool.submit(print, "never")
    assert gate.entered.wait(SOON)
    assert len(pool.shutdown(0)) == 1
    (task,) = pool.drain()
    assert task.args == ("never",)
    gate.open.set()
    assert pool.shutdown(SOON) == []


def test_snapshot_says_what_each_worker_does(make_pool: MakePool) -> None:
    pool = make_pool(2, name="shown")
    idle = pool.snapshot()
    assert [state.name for state in idle] == ["shown-1", "shown-2"]
    assert [(state.task, state.done) for state in idle] == [(None, 0), (None, 0)]
    gate = Gate()
    pool.submit(gate)
    assert gate.entered.wait(SOON)
    (busy,) = [state for state in pool.snapshot() if state.task]
    assert busy.task is not None
    assert busy.task.function is gate
    assert busy.since >= max(state.since for state in idle)
    gate.open.set()
    assert pool.join(SOON)
    after = {state.name: state for state in pool.snapshot()}
    assert after[busy.name].task is None
    assert after[busy.name].done == 1
    assert after[busy.name].since >= busy.since


def test_given_up_worker_is_replaced(make_pool: MakePool) -> None:
    pool = make_pool(2, name="stuck")
    gate = Gate()
    pool.submit(gate)
    assert gate.entered.wait(SOON)
    (state,) = [state for state in pool.snapshot() if state.task]
    assert pool.give_up(state) == "stuck-3"
    assert len(pool.snapshot()) == 3
    running: list[str] = []
    barrier = threading.Barrier(3)

    def meet() -> None:
        running.append(threading.current_thread().name)
        barrier.wait(SOON)

    pool.submit(meet)
    pool.submit(meet)
    barrier.wait(SOON)  # two workers are free while the third is stuck
    assert set(running) == {"stuck-1", "stuck-2", "stuck-3"} - {state.name}
    (thread,) = workers(state.name)
    gate.open.set()
    thread.join(SOON)
    assert not thread.is_alive()
    assert [shown.name for shown in pool.snapshot()] == sorted(running)
    assert pool.join(SOON)


def test_only_a_worker_in_that_very_task_is_given_up(make_pool: MakePool) -> None:
    pool = make_pool(1)
    (idle,) = pool.snapshot()
    assert pool.give_up(idle) is None
    gate = Gate()
    pool.submit(gate)
    assert gate.entered.wait(SOON)
    (busy,) = pool.snapshot()
    gate.open.set()
    assert pool.join(SOON)
    pool.submit(gate)
    assert pool.join(SOON)
    assert pool.give_up(busy) is None
    assert len(pool.snapshot()) == 1


def test_nobody_is_given_up_after_shutdown(make_pool: MakePool) -> None:
    pool = make_pool(1)
    gate = Gate()
    pool.submit(gate)
    assert gate.entered.wait(SOON)
    (state,) = pool.shutdown(0)
    assert pool.give_up(state) is None
    gate.open.set()


def test_on_exit_is_called_in_each_worker(
    make_pool: MakePool, caplog: pytest.LogCaptureFixture
) -> None:
    ended: list[str] = []

    def on_exit() -> None:
        ended.append(threading.current_thread().name)
        if len(ended) == 1:
            raise SystemExit("a transport that cannot be closed")

    pool = make_pool(3, name="exit", on_exit=on_exit)
    with caplog.at_level(logging.ERROR):
        assert pool.shutdown(SOON) == []
    assert sorted(ended) == ["exit-1", "exit-2", "exit-3"]
    assert [record.getMessage() for record in caplog.records] == [f"{ended[0]}: closing failed"]


def test_an_idle_worker_keeps_nothing_of_its_last_task_alive(make_pool: MakePool) -> None:
    class Body:
        pass

    pool = make_pool(1)
    body = Body()
    gone = weakref.ref(body)
    pool.submit(lambda argument: None, body)
    del body
    assert pool.join(SOON)
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("size", [0, -1, 1.5, "4", None, True])
def test_wrong_sizes(size: object) -> None:
    with pytest.raises(ValueError, match=r"^size must be a whole number of at least 1, not "):
        WorkerPool(size)  # type: ignore[arg-type]


@pytest.mark.skipif(sys.platform != "linux", reason="limits the address space")
def test_more_workers_than_the_system_can_start() -> None:
    script = """
import resource, threading
from scrapy_threadpool import WorkerPool
threading.stack_size(256 * 1024 * 1024)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**30, -1))
try:
    WorkerPool(50)
except RuntimeError as error:
    print(error)
for thread in threading.enumerate():
    if thread is not threading.current_thread():
        thread.join(10)
print(threading.active_count())
"""
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert result.stdout == "can't start new thread\n1\n", result.stderr


def test_an_unfinished_pool_does_not_keep_the_process_alive() -> None:
    script = """
import threading
from scrapy_threadpool import WorkerPool
WorkerPool(2).submit(threading.Event().wait)
"""
    subprocess.run([sys.executable, "-c", script], timeout=60, check=True)
