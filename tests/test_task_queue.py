"""The queue loses nothing, and wakes no more threads than it has to."""

import threading
from collections.abc import Callable
from queue import Empty

import pytest

from scrapy_threadpool.task_queue import TaskQueue

from .waiting import wait_until

SOON = 10


def waiting(queue: TaskQueue[int], count: int) -> Callable[[], bool]:
    return lambda: len(queue._waiting) == count


def start(target: Callable[..., object], *args: object) -> threading.Thread:
    thread = threading.Thread(target=target, args=args, daemon=True)
    thread.start()
    return thread


def test_items_come_in_order() -> None:
    queue: TaskQueue[int] = TaskQueue()
    for number in range(3):
        queue.put(number)
    assert queue.qsize() == 3
    assert [queue.get() for _ in range(3)] == [0, 1, 2]
    assert queue.empty()


def test_an_item_wakes_one_thread_that_with_the_lowest_rank() -> None:
    queue: TaskQueue[int] = TaskQueue()
    got: list[tuple[int, int]] = []

    def work(rank: int) -> None:
        got.append((rank, queue.get(rank=rank)))

    for count, rank in enumerate((2, 3, 1)):
        start(work, rank)
        wait_until(waiting(queue, count + 1), SOON)
    for number in range(3):
        queue.put(number)
        wait_until(lambda: len(got) > number, SOON)  # noqa: B023 (it is called at once)
        assert len(queue._waiting) == 2 - number
    assert got == [(1, 0), (2, 1), (3, 2)]


def test_who_leaves_an_item_behind_wakes_the_next() -> None:
    queue: TaskQueue[int] = TaskQueue()
    together = threading.Barrier(3)

    def work() -> None:
        queue.get()
        together.wait(SOON)

    for count in range(2):
        start(work)
        wait_until(waiting(queue, count + 1), SOON)
    with queue.mutex:  # so that both items are there before a thread comes to take one
        queue.unfinished_tasks += 2
        queue.queue.extend([1, 2])
        queue._wake_next()
    together.wait(SOON)


def test_waiting_has_an_end() -> None:
    queue: TaskQueue[int] = TaskQueue()
    with pytest.raises(Empty):
        queue.get(timeout=0.01)
    with pytest.raises(Empty):
        queue.get_nowait()
    queue.put(1)  # not for the one that went away
    assert queue.get_nowait() == 1


def test_join_waits_for_items_that_were_taken() -> None:
    queue: TaskQueue[int] = TaskQueue()
    release = threading.Event()

    def work() -> None:
        queue.get()
        release.wait(SOON)
        queue.task_done()

    start(work)
    wait_until(waiting(queue, 1), SOON)
    queue.put(1)
    waits = start(queue.join)
    waits.join(0.05)
    assert waits.is_alive()
    release.set()
    waits.join(SOON)
    assert not waits.is_alive()


def test_nothing_is_lost_or_doubled_among_many_threads() -> None:
    queue: TaskQueue[int] = TaskQueue()
    producers, consumers, count = 4, 8, 2000
    got: list[int] = []

    def consume() -> None:
        while True:
            try:
                # Some of the waits end while an item is on its way.
                number = queue.get(timeout=0.0005)
            except Empty:
                continue
            try:
                if number < 0:
                    return
                got.append(number)
            finally:
                queue.task_done()

    def produce(first: int) -> None:
        for number in range(first * count, (first + 1) * count):
            queue.put(number)

    threads = [start(consume) for _ in range(consumers)]
    makers = [start(produce, first) for first in range(producers)]
    for maker in makers:
        maker.join(SOON)
    for _ in threads:
        queue.put(-1)
    for thread in threads:
        thread.join(SOON)
    queue.join()
    assert sorted(got) == list(range(producers * count))
