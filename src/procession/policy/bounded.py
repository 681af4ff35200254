"""A wait that comes to its end: a hook is cut short when its time is over.

The hook runs in the task of its caller, whatever it does: there is no task of ours that could be
left behind, and one that never waits pays for no timer. It is driven step by step, and what it
waits for is waited for here, so that it can be left there.
"""

from __future__ import annotations

import asyncio
import inspect
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine, Generator

__all__ = ["GRACE", "Bounded", "TimedOut"]

T = TypeVar("T")

GRACE = 1.0
"""Seconds that a hook has for clearing up after it was cancelled; then it is dropped."""


_NOT_BEGUN: Any = object()


class TimedOut(Exception):
    """Inside the policy only: the time is over."""


class Bounded(Generic[T]):
    """`await Bounded(work, seconds)` is `await work`, or raises `TimedOut`.

    When the time is over, `work` is cancelled at the place where it waits and is waited for. If it
    waits for something else then, it is closed after `GRACE` seconds, and whatever it does about
    that, it goes on no more. (A task that it has made itself is its own business.) What it returns
    after its time counts for nothing; what it raises does only if it is no `Exception`.

    Cancelling the task that awaits is passed on to `work` as ever. `begun` is what `work`, a
    coroutine, waits for already: where most never wait, this one need only be made for those that
    do.
    """

    __slots__ = (
        "_before",
        "_begun",
        "_due",
        "_expired",
        "_given_up",
        "_loop",
        "_relay",
        "_seconds",
        "_task",
        "_timer",
        "_waits",
        "_work",
    )

    def __init__(self, work: Awaitable[T], seconds: float, *, begun: Any = _NOT_BEGUN) -> None:
        self._work: Coroutine[Any, Any, T] = (
            cast("Coroutine[Any, Any, T]", work) if inspect.iscoroutine(work) else _awaiting(work)
        )
        self._seconds = seconds
        self._begun = begun

    def __await__(self) -> Generator[Any, Any, T]:
        work = self._work
        self._loop = asyncio.get_running_loop()
        until = self._loop.time() + self._seconds
        waits = self._begun
        if waits is _NOT_BEGUN:
            try:
                waits = work.send(None)
            except StopIteration as end:
                return end.value  # it has not waited: nothing could have been cut short
        task = self._task = asyncio.current_task()
        assert task is not None
        self._before = task.cancelling()
        self._expired = self._given_up = self._due = False
        self._waits: Any = None
        self._relay: asyncio.Future[None] | None = None
        self._timer = self._loop.call_at(until, self._expire)
        try:
            return (yield from self._drive(waits))
        finally:
            self._timer.cancel()
            with suppress(Exception):  # a verdict, given while it is closed, is no Exception
                work.close()

    def _drive(self, waits: Any) -> Generator[Any, Any, T]:
        work = self._work
        while True:
            thrown = yield from self._wait(waits)
            if self._given_up:
                raise self._end()
            if self._due:
                self._due, thrown = False, thrown or asyncio.CancelledError()
            try:
                waits = work.send(None) if thrown is None else work.throw(thrown)
            except StopIteration as end:
                if self._expired:
                    raise self._end() from None
                return end.value
            except (Exception, asyncio.CancelledError):
                if self._expired:
                    raise self._end() from None
                raise

    def _end(self) -> BaseException:
        """How it ends when the time is over: who was cancelled meanwhile stays so."""
        assert self._task is not None
        if self._task.cancelling() > self._before:
            return asyncio.CancelledError()
        return TimedOut()

    def _wait(self, waits: Any) -> Generator[Any, Any, BaseException | None]:
        """Wait for what the hook waits for; returns what is to be raised there, if anything."""
        if getattr(waits, "_asyncio_future_blocking", None) is not True:
            # A mere pause, or something that is none of asyncio's, as its task will say.
            try:
                yield waits
            except GeneratorExit:
                raise
            except BaseException as error:
                return error
            return None
        waits._asyncio_future_blocking = False  # we wait for it, not the task
        waits.add_done_callback(self._wake)
        self._waits = waits
        try:
            while not waits.done() and not self._given_up:
                self._relay = self._loop.create_future()
                try:
                    yield from self._relay
                except asyncio.CancelledError as error:
                    if not waits.cancel():
                        return error
        finally:
            self._waits = self._relay = None
            waits.remove_done_callback(self._wake)
        return None

    def _wake(self, _: object = None) -> None:
        relay = self._relay
        if relay is not None and not relay.done():
            relay.set_result(None)

    def _expire(self) -> None:
        if self._expired:
            self._given_up = True
            self._wake()
            return
        self._expired = True
        self._timer = self._loop.call_later(GRACE, self._expire)
        if self._waits is None or not self._waits.cancel():
            self._due = True


async def _awaiting(work: Awaitable[T]) -> T:
    return await work
