"""The queue between those who submit tasks and workers: a task wakes one worker, that it is for."""

from __future__ import annotations

import threading
from collections import deque
from queue import Empty, Queue
from typing import Generic, TypeVar

T = TypeVar("T")


class TaskQueue(Queue[T]):
    """A :class:`queue.Queue` without a bound that hands an item over to a waiting thread itself.

    Of the threads that wait, the one that came last gets it: what it needs is still in the caches
    of its core, and the others sleep on. A thread that is woken never finds that another one was
    faster, which with the condition variables of :class:`queue.Queue`, and with
    :class:`queue.SimpleQueue`, costs one more switch between threads for many of the tasks.
    """

    def _init(self, maxsize: int) -> None:
        self.queue: deque[T] = deque()
        self._waiting: list[_Waiting[T]] = []

    def put(self, item: T, block: bool = True, timeout: float | None = None) -> None:
        with self.mutex:
            self.unfinished_tasks += 1
            if self._waiting:
                self._waiting.pop().hand_over(item)
            else:
                self.queue.append(item)

    def get(self, block: bool = True, timeout: float | None = None) -> T:
        with self.mutex:
            if self.queue:
                return self.queue.popleft()
            if not block:
                raise Empty
            waiting: _Waiting[T] = _Waiting()
            self._waiting.append(waiting)
        if waiting.wait(timeout):
            return waiting.item
        with self.mutex:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
                raise Empty
        return waiting.item  # it came in the last moment


class _Waiting(Generic[T]):
    """A thread that waits for an item."""

    item: T

    def __init__(self) -> None:
        self._handed_over = threading.Lock()
        self._handed_over.acquire()

    def hand_over(self, item: T) -> None:
        self.item = item
        self._handed_over.release()

    def wait(self, timeout: float | None) -> bool:
        """Return whether an item came, within *timeout* seconds."""
        return self._handed_over.acquire(timeout=-1 if timeout is None else timeout)
