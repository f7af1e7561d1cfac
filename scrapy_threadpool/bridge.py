"""Between the event loop and a worker pool: calls go down, their outcomes come back up.

Outcomes that are ready together share one wake-up of the loop, and come back one by one. The loop
may be asyncio's, with or without a Twisted reactor on top of it, or that of another reactor.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

if TYPE_CHECKING:
    from .pool import Task, WorkerPool

logger = logging.getLogger(__name__)

Callback = tuple[Callable[..., object], tuple[Any, ...]]


class LoopClosedError(RuntimeError):
    """The event loop ended while a worker waited for it."""


class Bridge(ABC):
    """Runs functions in the workers of *pool*, and callbacks on the event loop's thread.

    It is made and closed on the loop's thread, while the loop runs.
    """

    def __init__(self, pool: WorkerPool):
        self._pool = pool
        # Workers append, the loop's thread takes; each is one atomic step.
        self._calls: deque[Callback] = deque()
        self._outcomes: deque[Callback] = deque()
        self._woken = False
        self._closed = threading.Event()

    @staticmethod
    def for_running_loop(pool: WorkerPool) -> Bridge:
        """Return a bridge to the event loop that is running in this thread."""
        try:
            return _AsyncioBridge(pool, asyncio.get_running_loop())
        except RuntimeError:
            return _ReactorBridge(pool)

    def run(self, function: Callable[..., Any], *args: Any) -> Awaitable[Any]:
        """Call ``function(*args)`` in a worker; the awaitable gives what it returns or raises.

        An awaitable that is cancelled drops the outcome.

        :raises RuntimeError: the pool is shut down.
        """
        waiter: Awaitable[Any] = self._waiter()
        self._pool.submit(self._work, waiter, function, args)
        return waiter

    def call(self, function: Callable[..., object], *args: Any) -> None:
        """From any thread: have ``function(*args)`` called on the loop's thread, soon, in order."""
        self._add(self._calls, function, *args)

    def ask(self, function: Callable[..., Any], *args: Any) -> Any:
        """From a worker: have ``function(*args)`` called on the loop's thread, and wait for it.

        Returns or raises what the function does.

        :raises LoopClosedError: the loop ends before it comes to it.
        """
        answer = _Answer()
        self.call(answer.get, function, args)
        while not answer.ready.wait(0.5):
            if self._closed.is_set():
                raise LoopClosedError("the event loop has ended")
        return answer.value()

    @staticmethod
    def subject(task: Task) -> tuple[Any, ...]:
        """Return the awaitable of a task that :meth:`run` submitted, and its arguments."""
        waiter, _, args = task.args
        return (waiter, *args)

    def flush(self) -> None:
        """On the loop's thread: make all calls and deliver all outcomes that are there."""
        outcomes = _take_all(self._outcomes)
        for callback in _take_all(self._calls) + outcomes:
            _carry_out(callback)

    def close(self) -> None:
        """Deliver what is there; from now on nobody waits for the loop."""
        self.flush()
        self.abandon()

    def abandon(self) -> None:
        """From any thread, when the loop has ended: nobody waits for it any more."""
        self._closed.set()

    def _work(self, waiter: Any, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        try:
            result = function(*args)
        except StopIteration as error:
            wrapped = RuntimeError("StopIteration")  # no awaitable can raise that: see PEP 479
            wrapped.__cause__ = error
            self._add(self._outcomes, self.fail, waiter, wrapped)
        except BaseException as error:
            self._add(self._outcomes, self.fail, waiter, error)
            # The error's traceback holds this frame: without the waiter, which holds the error, in
            # it, they are freed when the request is done, and not by the garbage collector.
            del waiter, args
        else:
            self._add(self._outcomes, self._succeed, waiter, result)

    def _add(
        self, callbacks: deque[Callback], function: Callable[..., object], *args: object
    ) -> None:
        callbacks.append((function, args))
        # The flag is read after the append and cleared before the deques are read, so that whatever
        # is appended without waking the loop is found by the wake-up under way.
        if not self._woken:
            self._woken = True
            self._wake()

    def _deliver(self) -> None:
        # One outcome in each turn of the loop: the objects that Scrapy makes for a response are
        # gone before the next one comes. With many at once, the garbage collector ran for every
        # response, and what it found alive each time led to full collections. Calls do not take
        # turns: workers may wait for them, many times in a download. The outcome is taken first, so
        # that what its worker called before is among the calls.
        outcome = self._outcomes.popleft() if self._outcomes else None
        for call in _take_all(self._calls):
            _carry_out(call)
        if outcome is not None:
            _carry_out(outcome)
        self._woken = False
        if self._calls or self._outcomes:
            self._woken = True
            self._deliver_soon()

    @abstractmethod
    def _waiter(self) -> Any:
        """Return a new awaitable of this loop's kind."""

    @abstractmethod
    def _wake(self) -> None:
        """From any thread: have the loop call :meth:`_deliver` soon; do nothing if it has ended."""

    @abstractmethod
    def _deliver_soon(self) -> None:
        """On the loop's thread: have :meth:`_deliver` called in the next turn of the loop."""

    @abstractmethod
    def _succeed(self, waiter: Any, result: Any) -> None:
        """On the loop's thread: give *waiter* its result."""

    @abstractmethod
    def fail(self, waiter: Any, error: BaseException) -> None:
        """On the loop's thread: give *waiter*, which :meth:`run` returned, its exception.

        What its function returns later is dropped.
        """

    @abstractmethod
    def sleep(self, seconds: float) -> Awaitable[Any]:
        """On the loop's thread: return an awaitable that takes *seconds*."""


class _AsyncioBridge(Bridge):
    def __init__(self, pool: WorkerPool, loop: asyncio.AbstractEventLoop):
        super().__init__(pool)
        self._loop = loop

    def _waiter(self) -> asyncio.Future[Any]:
        return self._loop.create_future()

    def _wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._deliver)
        except RuntimeError:
            self._closed.set()

    def _deliver_soon(self) -> None:
        self._loop.call_soon(self._deliver)

    def _succeed(self, waiter: asyncio.Future[Any], result: Any) -> None:
        if not waiter.done():
            waiter.set_result(result)

    def fail(self, waiter: asyncio.Future[Any], error: BaseException) -> None:
        if not waiter.done():
            waiter.set_exception(error)

    def sleep(self, seconds: float) -> Awaitable[Any]:
        return asyncio.sleep(seconds)


class _ReactorBridge(Bridge):
    def __init__(self, pool: WorkerPool):
        super().__init__(pool)
        from twisted.internet import reactor  # the import installs one where there is none

        self._reactor: Any = reactor

    def _waiter(self) -> Deferred[Any]:
        return Deferred()

    def _wake(self) -> None:
        self._reactor.callFromThread(self._deliver)

    def _deliver_soon(self) -> None:
        self._reactor.callLater(0, self._deliver)

    def _succeed(self, waiter: Deferred[Any], result: Any) -> None:
        if not waiter.called:
            waiter.callback(result)

    def fail(self, waiter: Deferred[Any], error: BaseException) -> None:
        if not waiter.called:
            waiter.errback(error)

    def sleep(self, seconds: float) -> Awaitable[Any]:
        return deferLater(self._reactor, seconds)


class _Answer:
    """What the loop's thread makes of a question that a worker waits for."""

    def __init__(self) -> None:
        self.ready = threading.Event()
        self._value: Any = None
        self._error: BaseException | None = None

    def get(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        try:
            self._value = function(*args)
        except BaseException as error:
            self._error = error
        finally:
            self.ready.set()

    def value(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._value


def _take_all(callbacks: deque[Callback]) -> list[Callback]:
    """Take what is there now; what comes meanwhile is for the next time."""
    return [callbacks.popleft() for _ in range(len(callbacks))]


def _carry_out(callback: Callback) -> None:
    function, args = callback
    try:
        function(*args)
    except Exception:  # it must not keep the others from being called
        logger.exception("%r failed", function)
