"""Whatever happens in whatever order, the pool loses no task and runs none twice."""

import itertools
import logging
import threading
import time
from collections import Counter

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from scrapy_threadpool import WorkerPool
from scrapy_threadpool.pool import Task

SOON = 10
_names = itertools.count()


class Job:
    """A task that is counted when it runs, and then returns, raises or blocks."""

    def __init__(self, kind: str):
        self.kind = kind
        self.runs = 0
        self.begun = threading.Event()
        self.released = threading.Event()

    def __call__(self) -> None:
        self.runs += 1
        self.begun.set()
        if self.kind == "block" and not self.released.wait(SOON):
            raise TimeoutError("nobody released this task")
        if self.kind == "fail":
            raise SystemExit("a task that wants to end its worker")


class PoolMachine(RuleBasedStateMachine):
    """Drives a pool, and knows what must have become of each task."""

    @initialize(size=st.integers(1, 4))
    def start(self, size: int) -> None:
        logging.getLogger("scrapy_threadpool.pool").setLevel(logging.CRITICAL)
        self.size = size
        self.prefix = f"machine{next(_names)}"
        self.pool = WorkerPool(size, name=self.prefix)
        self.jobs: list[Job] = []
        self.drained: Counter[Job] = Counter()
        self.given_up: set[str] = set()
        self.closed = False

    # What happens

    @rule(kind=st.sampled_from(["return", "fail", "block"]))
    def submit(self, kind: str) -> None:
        job = Job(kind)
        try:
            self.pool.submit(job)
        except RuntimeError:
            assert self.closed
        else:
            assert not self.closed
            self.jobs.append(job)
        self.settle()

    @precondition(lambda self: self.blocked())
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.blocked())).released.set()
        self.settle()

    @precondition(lambda self: self.unfinished_is_certain())
    @rule()
    def join_too_early(self) -> None:
        assert not self.pool.join(0.005)

    @rule()
    def release_all_and_join(self) -> None:
        for job in self.blocked():
            job.released.set()
        assert self.pool.join(SOON)
        for job in self.jobs:
            assert job.runs + self.drained[job] == 1

    @rule()
    def drain(self) -> None:
        self.take(self.pool.drain())

    @precondition(lambda self: self.stuck())
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        state = data.draw(st.sampled_from(self.stuck()))
        successor = self.pool.give_up(state)
        if self.closed:
            assert successor is None
        else:
            assert successor is not None
            self.given_up.add(state.name)
            assert self.pool.give_up(state) is None  # once is enough
            self.settle()

    @precondition(lambda self: len(self.jobs) > 3)  # or most examples would end before they begin
    @rule()
    def shutdown(self) -> None:
        busy = {state.name for state in self.stuck()}
        assert busy <= {state.name for state in self.pool.shutdown(0)}
        self.closed = True

    # What must be so at any time

    @invariant()
    def no_task_runs_twice_or_is_lost(self) -> None:
        for job in self.jobs:
            assert job.runs + self.drained[job] <= 1

    @invariant()
    def there_are_as_many_threads_as_configured(self) -> None:
        threads = self.threads()
        assert all(thread.daemon for thread in threads)
        assert len(threads) <= self.size + len(self.given_up)
        if not self.closed:
            assert len([one for one in threads if one.name not in self.given_up]) == self.size

    def teardown(self) -> None:
        if not hasattr(self, "pool"):
            return
        for job in self.jobs:
            job.released.set()
        assert self.pool.shutdown(SOON) == []
        self.take(self.pool.drain())
        assert self.pool.join(0)
        for job in self.jobs:
            assert job.runs + self.drained[job] == 1
        assert self.pool.drain() == []
        deadline = time.monotonic() + SOON
        while self.threads() and time.monotonic() < deadline:
            time.sleep(0.001)
        assert self.threads() == []

    # What the machine knows

    def settle(self) -> None:
        """Wait until no worker will do more unless something happens."""
        deadline = time.monotonic() + SOON
        while time.monotonic() < deadline:
            released = [job for job in self.jobs if job.kind != "block" or job.released.is_set()]
            busy = [state for state in self.pool.snapshot() if state.task]
            if not any(state.task.function in released for state in busy if state.task) and (
                not self.pool.waiting() or self.free_workers() == 0
            ):
                return
            time.sleep(0.0002)
        raise AssertionError("the workers do not settle")

    def free_workers(self) -> int:
        alive = [state for state in self.pool.snapshot() if state.name not in self.given_up]
        return sum(state.task is None for state in alive)

    def threads(self) -> list[threading.Thread]:
        return [one for one in threading.enumerate() if one.name.startswith(f"{self.prefix}-")]

    def blocked(self) -> list[Job]:
        return [
            job
            for job in self.jobs
            if job.kind == "block" and not job.released.is_set() and not self.drained[job]
        ]

    def unfinished_is_certain(self) -> bool:
        return any(job.begun.is_set() for job in self.blocked())

    def stuck(self) -> list:  # type: ignore[type-arg]
        blocked = [job for job in self.blocked() if job.begun.is_set()]
        return [
            state
            for state in self.pool.snapshot()
            if state.task and state.task.function in blocked and state.name not in self.given_up
        ]

    def take(self, tasks: list[Task]) -> None:
        for task in tasks:
            assert isinstance(task.function, Job)
            self.drained[task.function] += 1


PoolMachine.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestPool = PoolMachine.TestCase
