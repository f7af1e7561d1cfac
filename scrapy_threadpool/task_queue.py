"""The queue between those who submit tasks and workers: a task wakes one worker, that it is for."""

from __future__ import annotations

import threading
from collections import deque
from heapq import heapify, heappop, heappush
from itertools import count
from queue import Empty, Queue
from typing import Generic, TypeVar

T = TypeVar("T")


class TaskQueue(Queue[T]):
    """A :class:`queue.Queue` without a bound that hands an item over to a waiting thread itself.

    A thread that is woken never finds that another one was faster, which with
    :class:`queue.Queue` and :class:`queue.SimpleQueue` costs many of the items one more switch
    between threads. Of those that wait, the one with the lowest rank gets the item, so that a few
    threads do what a few can do, and the others sleep on.
    """

    def _init(self, maxsize: int) -> None:
        self.queue: deque[T] = deque()
        self._waiting: list[tuple[int, int, _Waiting[T]]] = []  # a heap
        self._order = count()

    def put(self, item: T, block: bool = True, timeout: float | None = None) -> None:
        with self.mutex:
            self.unfinished_tasks += 1
            if self._waiting:
                heappop(self._waiting)[-1].hand_over(item)
            else:
                self.queue.append(item)

    def get(self, block: bool = True, timeout: float | None = None, rank: int = 0) -> T:
        with self.mutex:
            if self.queue:
                return self.queue.popleft()
            if not block:
                raise Empty
            waiting: _Waiting[T] = _Waiting()
            entry = (rank, next(self._order), waiting)
            heappush(self._waiting, entry)
        if waiting.wait(timeout):
            return waiting.item
        with self.mutex:
            if entry in self._waiting:
                self._waiting.remove(entry)
                heapify(self._waiting)
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
