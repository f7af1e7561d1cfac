"""The queue between those who submit tasks and workers: a task wakes one worker at most."""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush
from itertools import count
from queue import Empty, Queue
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from _thread import LockType

T = TypeVar("T")


class TaskQueue(Queue[T]):
    """A :class:`queue.Queue` without a bound that wakes as few threads as it can.

    Of the threads that wait, the one with the lowest rank is woken, and only one at a time: it
    wakes the next if it leaves an item behind. So a few threads do what a few can do, and an item
    costs at most one switch between threads more than it takes to work on it, where
    :class:`queue.Queue` and :class:`queue.SimpleQueue` wake further threads for nothing.
    """

    def _init(self, maxsize: int) -> None:
        self.queue: deque[T] = deque()
        self._waiting: list[tuple[int, int, LockType]] = []  # a heap
        self._order = count()
        self._waking = False

    def put(self, item: T, block: bool = True, timeout: float | None = None) -> None:
        with self.mutex:
            self.unfinished_tasks += 1
            self.queue.append(item)
            self._wake_next()

    def get(self, block: bool = True, timeout: float | None = None, rank: int = 0) -> T:
        deadline = None if timeout is None else monotonic() + timeout
        with self.mutex:
            while not self.queue:
                if not block:
                    raise Empty
                self._wait(rank, deadline)
            item = self.queue.popleft()
            if self.queue:
                self._wake_next()
            return item

    def _wake_next(self) -> None:
        if self._waiting and not self._waking:
            self._waking = True
            heappop(self._waiting)[-1].release()

    def _wait(self, rank: int, deadline: float | None) -> None:
        """Leave the mutex until this thread is woken.

        :raises Empty: it was not until *deadline*.
        """
        woken = Lock()
        woken.acquire()
        entry = (rank, next(self._order), woken)
        heappush(self._waiting, entry)
        self.mutex.release()
        try:
            woken.acquire(timeout=-1 if deadline is None else max(0.0, deadline - monotonic()))
        finally:
            self.mutex.acquire()
            in_vain = entry in self._waiting
            if in_vain:
                self._waiting.remove(entry)
                heapify(self._waiting)
            else:
                self._waking = False
        if in_vain:
            raise Empty
