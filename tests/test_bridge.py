"""Calls go down to the workers and their outcomes come back up, in every kind of event loop."""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from scrapy_threadpool import WorkerPool
from scrapy_threadpool.bridge import Bridge, LoopClosedError

from .waiting import wait_until

SOON = 10


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    pool = WorkerPool(4, name="bridge")
    yield pool
    assert pool.shutdown(SOON) == []


class CountingLoop(asyncio.SelectorEventLoop):
    """An event loop that counts how often other threads wake it."""

    wake_ups = 0

    def call_soon_threadsafe(self, callback: Any, *args: Any, **arguments: Any) -> asyncio.Handle:
        self.wake_ups += 1
        return super().call_soon_threadsafe(callback, *args, **arguments)


def run(main: Callable[[], Any], loop: asyncio.AbstractEventLoop | None = None) -> Any:
    """Run *main* in a loop whose exceptions that nobody sees fail the test."""
    loop = loop or asyncio.new_event_loop()
    unseen: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: unseen.append(context))
    try:
        return loop.run_until_complete(asyncio.wait_for(main(), SOON))
    finally:
        loop.close()
        assert unseen == []


def test_results_and_exceptions_come_back(pool: WorkerPool) -> None:
    async def main() -> None:
        bridge = Bridge.for_running_loop(pool)
        assert (await bridge.run(lambda: threading.current_thread().name)).startswith("bridge-")
        assert await bridge.run(divmod, 7, 2) == (3, 1)
        with pytest.raises(ZeroDivisionError):
            await bridge.run(divmod, 7, 0)

    run(main)


@pytest.mark.parametrize("error", [StopIteration, SystemExit, KeyboardInterrupt, GeneratorExit])
def test_no_exception_is_lost(pool: WorkerPool, error: type[BaseException]) -> None:
    async def main() -> BaseException | None:
        def fail() -> None:
            raise error("this one")

        waiter = Bridge.for_running_loop(pool).run(fail)
        await asyncio.wait([waiter])  # type: ignore[type-var]
        caught = waiter.exception()  # type: ignore[attr-defined]
        assert caught is not None
        return caught.__cause__ if error is StopIteration else caught

    assert isinstance(run(main), error)


def test_outcomes_that_are_ready_together_share_one_wake_up(pool: WorkerPool) -> None:
    loop = CountingLoop()

    async def main() -> None:
        bridge = Bridge.for_running_loop(pool)
        waiters = [bridge.run(str, number) for number in range(100)]
        assert pool.join(SOON)  # the loop is busy until all of them are there
        assert await asyncio.gather(*waiters) == [str(number) for number in range(100)]
        assert loop.wake_ups == 1
        await bridge.run(str)
        assert loop.wake_ups == 2

    run(main, loop)


def test_outcomes_that_are_ready_together_take_turns_with_the_rest_of_the_loop(
    pool: WorkerPool,
) -> None:
    async def main() -> None:
        bridge = Bridge.for_running_loop(pool)
        waiters: list[Any] = [bridge.run(str) for _ in range(3)]
        assert pool.join(SOON)
        done = []
        while not done or done[-1] < 3:
            await asyncio.sleep(0)
            done.append(sum(waiter.done() for waiter in waiters))
        assert done == [0, 1, 2, 3] or done == [1, 2, 3]

    run(main)


def test_workers_that_ask_are_answered_in_the_same_turn(pool: WorkerPool) -> None:
    async def main() -> None:
        bridge = Bridge.for_running_loop(pool)
        asked: list[int] = []
        waiters: list[Any] = [bridge.run(bridge.ask, asked.append, number) for number in range(4)]
        wait_until(lambda: len(bridge._calls) == 4, SOON)
        turns = 0
        while not asked:
            await asyncio.sleep(0)
            turns += 1
        assert sorted(asked) == [0, 1, 2, 3]
        assert turns <= 2
        await asyncio.gather(*waiters)

    run(main)


def test_nothing_gets_stuck_between_two_wake_ups(pool: WorkerPool) -> None:
    async def main() -> int:
        bridge = Bridge.for_running_loop(pool)
        done = 0
        for _ in range(300):
            done += len(await asyncio.gather(*(bridge.run(int) for _ in range(8))))
        return done

    assert run(main) == 2400


def test_calls_are_made_in_order_on_the_loop(pool: WorkerPool) -> None:
    async def main() -> None:
        bridge = Bridge.for_running_loop(pool)
        here = threading.current_thread()
        seen: list[int] = []

        def note(number: int) -> None:
            assert threading.current_thread() is here
            seen.append(number)

        def call_all() -> None:
            for number in range(100):
                bridge.call(note, number)

        await bridge.run(call_all)
        assert seen == list(range(100))

    run(main)


def test_calls_that_beget_calls_leave_the_loop_time_for_others(pool: WorkerPool) -> None:
    async def main() -> None:
        bridge = Bridge.for_running_loop(pool)
        end = time.monotonic() + SOON
        stop = threading.Event()
        calls = 0

        def again() -> None:
            nonlocal calls
            calls += 1
            if not stop.is_set() and time.monotonic() < end:
                bridge.call(again)

        bridge.call(again)
        for _ in range(5):
            await asyncio.sleep(0)
        stop.set()
        assert 1 <= calls <= 20

    run(main)


def test_a_call_that_raises_does_not_hold_up_the_others(
    pool: WorkerPool, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> list[str]:
        bridge = Bridge.for_running_loop(pool)
        seen: list[str] = []
        bridge.call(divmod, 1, 0)
        bridge.call(seen.append, "the next")
        await asyncio.sleep(0.01)
        return seen

    assert run(main) == ["the next"]
    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError


def test_a_cancelled_waiter_drops_the_outcome(pool: WorkerPool) -> None:
    async def main() -> None:
        bridge = Bridge.for_running_loop(pool)
        go = threading.Event()
        task = asyncio.ensure_future(bridge.run(go.wait, SOON))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go.set()
        assert await bridge.run(str, "goes on") == "goes on"

    run(main)


def test_a_failed_waiter_drops_the_outcome(pool: WorkerPool) -> None:
    async def main() -> None:
        bridge = Bridge.for_running_loop(pool)
        go = threading.Event()
        waiter = bridge.run(go.wait, SOON)
        bridge.fail(waiter, TimeoutError("given up"))
        go.set()
        with pytest.raises(TimeoutError, match="given up"):
            await waiter
        assert await bridge.run(str, "goes on") == "goes on"

    run(main)


def test_a_worker_asks_the_loop(pool: WorkerPool) -> None:
    async def main() -> None:
        bridge = Bridge.for_running_loop(pool)
        here = threading.current_thread().name
        assert await bridge.run(bridge.ask, lambda: threading.current_thread().name) == here
        with pytest.raises(ZeroDivisionError):
            await bridge.run(bridge.ask, divmod, 1, 0)

    run(main)


def test_who_asks_a_loop_that_has_ended_is_told(pool: WorkerPool) -> None:
    answers: list[BaseException | str] = []
    go = threading.Event()

    async def main() -> None:
        bridge = Bridge.for_running_loop(pool)

        def ask() -> None:
            go.wait(SOON)
            try:
                answers.append(bridge.ask(str, "nobody says this"))
            except LoopClosedError as error:
                answers.append(error)

        pool.submit(ask)

    run(main)
    go.set()
    assert pool.join(SOON)
    assert [type(answer) for answer in answers] == [LoopClosedError]


def test_who_waits_for_an_answer_when_the_bridge_closes_is_told(pool: WorkerPool) -> None:
    async def main() -> None:
        bridge = Bridge.for_running_loop(pool)
        answers: list[str] = []

        def ask() -> None:
            try:
                bridge.ask(str)
            except LoopClosedError:
                answers.append("told")

        bridge.close()  # as when the loop ends: it comes to no call any more
        bridge._wake = lambda: None  # type: ignore[method-assign]
        pool.submit(ask)
        assert pool.join(SOON)
        assert answers == ["told"]

    run(main)


def test_outcomes_for_a_loop_that_has_ended_are_dropped(
    pool: WorkerPool, caplog: pytest.LogCaptureFixture
) -> None:
    go = threading.Event()

    async def main() -> None:
        Bridge.for_running_loop(pool).run(go.wait, SOON)

    run(main)
    go.set()
    assert pool.join(SOON)
    assert [state.done for state in pool.snapshot() if state.done] == [1]
    assert caplog.records == []


def test_close_delivers_what_is_there(pool: WorkerPool) -> None:
    async def main() -> None:
        bridge = Bridge.for_running_loop(pool)
        waiter = bridge.run(str, "in time")
        assert pool.join(SOON)
        bridge.close()
        assert waiter.done()  # type: ignore[attr-defined]
        assert await waiter == "in time"

    run(main)


def test_flush_delivers_at_once(pool: WorkerPool) -> None:
    async def main() -> None:
        bridge = Bridge.for_running_loop(pool)
        waiter = bridge.run(str, "early")
        assert pool.join(SOON)
        assert not waiter.done()  # type: ignore[attr-defined]
        bridge.flush()
        assert waiter.done()  # type: ignore[attr-defined]
        assert await waiter == "early"

    run(main)


def test_sleep_takes_its_time(pool: WorkerPool) -> None:
    async def main() -> float:
        started = time.monotonic()
        await Bridge.for_running_loop(pool).sleep(0.05)
        return time.monotonic() - started

    assert run(main) >= 0.04


def test_a_pool_that_is_shut_down_takes_no_call(pool: WorkerPool) -> None:
    async def main() -> None:
        bridge = Bridge.for_running_loop(pool)
        pool.shutdown(SOON)
        with pytest.raises(RuntimeError, match="shut down"):
            bridge.run(str)

    run(main)


REACTOR_SCRIPT = """
import sys, threading, time
from twisted.internet import {kind}
{kind}.install()
from twisted.internet import defer, reactor, task
from scrapy_threadpool import WorkerPool
from scrapy_threadpool.bridge import Bridge, LoopClosedError

pool = WorkerPool(4)
wake_ups = 0
call_from_thread = reactor.callFromThread

def counting(*args):
    global wake_ups
    wake_ups += 1
    call_from_thread(*args)

reactor.callFromThread = counting

async def main():
    bridge = Bridge.for_running_loop(pool)
    waiters = [bridge.run(str, number) for number in range(100)]
    assert pool.join(10)
    results = [await waiter for waiter in waiters]
    assert results == [str(number) for number in range(100)]
    assert wake_ups == 1, wake_ups
    try:
        await bridge.run(divmod, 1, 0)
        assert False
    except ZeroDivisionError:
        pass
    assert await bridge.run(bridge.ask, lambda: threading.current_thread().name) == "MainThread"
    go = threading.Event()
    waiter = bridge.run(go.wait, 10)
    bridge.fail(waiter, TimeoutError("given up"))
    go.set()
    try:
        await waiter
        assert False
    except TimeoutError:
        pass
    go.clear()
    waiter = bridge.run(go.wait, 10)
    waiter.cancel()
    go.set()
    try:
        await waiter
        assert False
    except defer.CancelledError:
        pass
    assert await bridge.run(str, "goes on") == "goes on"
    await bridge.sleep(0.01)
    bridge.close()
    return "{kind} done"

def ended(result):
    print(result)
    reactor.stop()

reactor.callWhenRunning(lambda: defer.ensureDeferred(main()).addBoth(ended))
reactor.run()
assert pool.shutdown(10) == []
"""


@pytest.mark.parametrize("kind", ["selectreactor", "default"])
def test_a_reactor_of_another_kind(kind: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", REACTOR_SCRIPT.format(kind=kind)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == (f"{kind} done\n", "")
