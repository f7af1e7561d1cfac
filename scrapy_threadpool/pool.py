"""A fixed number of daemon worker threads that consume one shared queue."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from queue import Empty
from time import monotonic
from typing import Any, NamedTuple

from .task_queue import TaskQueue

logger = logging.getLogger(__name__)


class Task(NamedTuple):
    """A call that waits in the queue: the function, and what it is called with."""

    function: Callable[..., object]
    args: tuple[Any, ...] = ()


@dataclass(frozen=True)
class WorkerState:
    """What a worker is doing.

    ``task`` is the :class:`Task` under way, or ``None``; ``since`` is when that began, or when the
    last one ended, in seconds of :func:`time.monotonic`; ``done`` counts the tasks that are behind
    it, whether they returned or raised; ``given_up`` says that another worker took its place.
    """

    name: str
    task: Any
    since: float
    done: int
    given_up: bool


class _Worker(threading.Thread):
    """A worker thread, with what the pool shows of it."""

    def __init__(self, name: str, number: int, run: Callable[[_Worker], None]):
        super().__init__(name=f"{name}-{number}", daemon=True)
        self.number = number
        self._run_worker = run
        self.task: Task | None = None
        self.since = monotonic()
        self.done = 0
        self.given_up = False

    def run(self) -> None:
        self._run_worker(self)


class WorkerPool:
    """A fixed pool of daemon worker threads around one shared :class:`queue.Queue`.

    The workers are started here, before there is any work; :meth:`submit` supplies it, also from
    within a task; :meth:`join` waits for it; :meth:`shutdown` ends the workers, one sentinel each.
    A task that raises is logged with the worker's name, and the worker goes on to the next.

    :param size: number of workers, at least 1; it never grows with the queue.
    :param name: the workers are called ``<name>-1``, ``<name>-2`` and so on.
    :param on_exit: called in each worker's thread when that worker ends.
    :raises ValueError: *size* is not a whole number of at least 1.
    """

    def __init__(
        self, size: int, *, name: str = "worker", on_exit: Callable[[], object] | None = None
    ):
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ValueError(f"size must be a whole number of at least 1, not {size!r}")
        self.size = size
        self._name = name
        self._on_exit = on_exit
        self._numbers = count(1)
        self._queue: TaskQueue[Task | None] = TaskQueue()
        self._closed = False
        # Held only to start, list and end workers and to accept work; never while a task runs.
        self._lock = threading.Lock()
        self._workers: list[_Worker] = []
        try:
            for _ in range(size):
                self._start_worker()
        except RuntimeError:  # the system has no more threads to give
            self.shutdown(0)
            raise

    def submit(self, function: Callable[..., object], *args: object) -> None:
        """Queue the call ``function(*args)`` for the next free worker.

        :raises RuntimeError: the pool is shut down.
        """
        task = Task(function, args)
        with self._lock:
            if self._closed:
                raise RuntimeError(f"the pool {self._name!r} is shut down")
            self._queue.put(task)

    def join(self, timeout: float | None = None) -> bool:
        """Wait until all that was submitted is done, at most *timeout* seconds.

        Returns whether it is; ``None`` waits without a bound.
        """
        finished = self._queue.all_tasks_done
        with finished:
            return finished.wait_for(lambda: not self._queue.unfinished_tasks, timeout)

    def drain(self) -> list[Task]:
        """Take all tasks that no worker has begun out of the queue and return them."""
        drained: list[Task] = []
        sentinels = 0
        while True:
            try:
                task = self._queue.get_nowait()
            except Empty:
                break
            try:
                if task is None:
                    sentinels += 1
                else:
                    drained.append(task)
            finally:
                self._queue.task_done()
        for _ in range(sentinels):
            self._queue.put(None)
        return drained

    def shutdown(self, timeout: float | None = None) -> list[WorkerState]:
        """End the workers: one sentinel for each, behind the work that is queued.

        Waits at most *timeout* seconds (``None``: without a bound) and returns the workers that are
        still busy then, in order; they are daemons, so they do not keep the process alive, and end
        as soon as their call returns. Work that was not begun by then is left: :meth:`drain` it.
        """
        with self._lock:
            workers = list(self._workers)
            if not self._closed:
                self._closed = True
                for worker in workers:
                    if not worker.given_up:
                        self._queue.put(None)
        deadline = None if timeout is None else monotonic() + timeout
        for worker in workers:
            if worker is not threading.current_thread():
                worker.join(None if deadline is None else max(0.0, deadline - monotonic()))
        return [_state(worker) for worker in workers if worker.is_alive()]

    def give_up(self, state: WorkerState) -> str | None:
        """Stop counting on a worker that is stuck in a task, and start another in its place.

        *state* is what :meth:`snapshot` said of it. If the call returns after all, the worker
        ends. Returns the name of the new worker, or ``None`` where there is nothing to give up:
        the worker is no longer in that task, it was given up before, or the pool is shut down.

        :raises RuntimeError: the system has no thread for another; nothing is given up then.
        """
        with self._lock:
            if self._closed or state.task is None:
                return None
            for worker in self._workers:
                stuck = worker.name == state.name and worker.task is state.task
                if stuck and not worker.given_up:
                    successor = self._start_worker()
                    worker.given_up = True
                    return successor.name
        return None

    def snapshot(self) -> list[WorkerState]:
        """Return what each worker is doing, in order, including those given up and still stuck."""
        with self._lock:
            self._workers = [worker for worker in self._workers if worker.is_alive()]
            return [_state(worker) for worker in self._workers]

    def waiting(self) -> int:
        """Return how many tasks no worker has begun."""
        return self._queue.qsize()

    def _start_worker(self) -> _Worker:
        worker = _Worker(self._name, next(self._numbers), self._work)
        worker.start()
        self._workers.append(worker)
        return worker

    def _work(self, worker: _Worker) -> None:
        try:
            while not worker.given_up:
                task = self._queue.get(rank=worker.number)
                try:
                    if task is None:
                        break
                    worker.since = monotonic()
                    worker.task = task
                    try:
                        task.function(*task.args)
                    except BaseException:  # also SystemExit: a task ends no worker
                        logger.exception("%s: %r failed", worker.name, task.function)
                    finally:
                        with self._lock:  # so that give_up() cannot hit a worker that is free
                            worker.task = None
                        worker.since = monotonic()
                        worker.done += 1
                finally:
                    del task  # an idle worker must not keep the last task, and what it holds, alive
                    self._queue.task_done()
        finally:
            if self._on_exit is not None:
                try:
                    self._on_exit()
                except BaseException:
                    logger.exception("%s: closing failed", worker.name)


def _state(worker: _Worker) -> WorkerState:
    return WorkerState(worker.name, worker.task, worker.since, worker.done, worker.given_up)
