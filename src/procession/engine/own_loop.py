"""The event loop of blocking calls: one for the program, in a thread of its own.

When the program ends it ends in order: what is open is closed, what goes on behind runs is waited
for, then all the rest is cancelled.
"""

from __future__ import annotations

import asyncio
import atexit
import importlib
import threading
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable

__all__ = ["Held", "run_blocking", "wait_for_settled"]

T = TypeVar("T")

SETTLING = 10.0
"""Seconds that the end of the program waits for what goes on behind runs."""
_PATIENCE = 1.0


class _OwnLoop:
    def __init__(self) -> None:
        self.events = asyncio.new_event_loop()
        self.held: set[Held] = set()
        self.settling: set[asyncio.Task[None]] = set()
        self.is_over = False
        self._thread = threading.Thread(target=self._work, name="procession", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while not self.is_over:
            # What a tool or a hook raises of these goes to who waits for it as well.
            with suppress(KeyboardInterrupt, SystemExit):
                self.events.run_forever()
        self.events.close()

    def settle(self) -> None:
        """Close what the main thread has left open, and wait for what goes on behind runs."""
        main = threading.main_thread()
        self._do(self._settled([held for held in list(self.held) if held.thread is main]))

    def wind_up(self) -> None:
        """End everything."""
        self._do(self._end_all())
        self.is_over = True
        with suppress(RuntimeError):
            self.events.call_soon_threadsafe(self.events.stop)
        self._thread.join(_PATIENCE)

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        with suppress(Exception):
            asyncio.run_coroutine_threadsafe(work, self.events).result(2 * SETTLING)

    async def _settled(self, open_things: Iterable[Held]) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(SETTLING):
                for held in open_things:
                    with suppress(Exception):
                        await held.close_once()
                while self.settling:
                    await asyncio.wait(self.settling)

    async def _end_all(self) -> None:
        await self._settled(list(self.held))
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        if rest:
            await asyncio.wait(rest, timeout=_PATIENCE)
        await self.events.shutdown_asyncgens()


_lock = threading.Lock()
_own: _OwnLoop | None = None


def _own_loop() -> _OwnLoop:
    """The one that all blocking calls share, so that connections can be used again."""
    global _own
    with _lock:
        if _own is None:
            _own = _OwnLoop()
            _before_executors_end(_own.settle)
            atexit.register(_own.wind_up)
        return _own


def _before_executors_end(call: Callable[[], None]) -> None:
    """When the main thread ends. Functions of `atexit` come later: no executor takes work then,
    so that a store with threads could save nothing any more.
    """
    # They are called last first, and that of the executors is registered by this import.
    importlib.import_module("concurrent.futures.thread")
    register: Any = getattr(threading, "_register_atexit", atexit.register)
    with suppress(RuntimeError):  # the main thread has ended already
        register(call)


def run_blocking(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end and return what it returns.

    Ctrl-C, or whatever else is raised in the waiting thread, cancels it, and is raised when it has
    ended; a second one is raised at once. Raises `RuntimeError` when called from code that itself
    runs on that loop (a hook or tool), and when the program is ending.
    """
    own = _own_loop()
    if _running_loop() is own.events:
        work.close()
        raise RuntimeError("a blocking call inside a hook or tool would wait for itself: await it")
    if own.is_over:
        work.close()
        raise RuntimeError("the program is ending: nothing can be run any more")
    call = _Call(work)
    try:
        own.events.call_soon_threadsafe(call.begin)
        return call.outcome.result()
    except BaseException:
        if not call.outcome.done():
            own.events.call_soon_threadsafe(call.cancel)
            left = Held(call.stop, threading.current_thread())
            with suppress(Exception):
                call.outcome.result()
            own.held.discard(left)
        raise


class _Call(Generic[T]):
    """A piece of work on the loop; its outcome is there when it has ended, however it has."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self.outcome: Future[T] = Future()
        self._work = work
        self._task: asyncio.Task[T] | None = None

    def begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._work)
        self._task.add_done_callback(self._ended)

    def cancel(self) -> None:
        if self._task is None:
            self._work.close()
            self.outcome.cancel()
        else:
            self._task.cancel()

    async def stop(self) -> None:
        """End what nobody has waited for."""
        self.cancel()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=_PATIENCE)

    def _ended(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.outcome.cancel()
        elif (error := task.exception()) is not None:
            self.outcome.set_exception(error)
        else:
            self.outcome.set_result(task.result())


class Held:
    """Something open on the loop, which is closed with it at the latest.

    `thread` is that of who has opened it.
    """

    def __init__(self, close: Callable[[], Awaitable[None]], thread: threading.Thread) -> None:
        self.thread = thread
        self._close = close
        _own_loop().held.add(self)

    async def close_once(self) -> None:
        """Close it, unless that has been done."""
        held = _own_loop().held
        if self in held:
            held.discard(self)
            await self._close()

    def close(self) -> None:
        """The same for who is not on the loop; once that has ended there is nothing to close."""
        own = _own_loop()
        if _running_loop() is own.events:  # an iterator that was dropped, found there
            _settle(own, self.close_once)
        elif not own.is_over:
            run_blocking(self.close_once())


def wait_for_settled(things: Iterable[Any]) -> None:
    """When the running loop is that of blocking calls: it does not end, within `SETTLING` seconds,
    before each `settled()` of these things has returned. Things without one are left out.
    """
    if _own is None or _running_loop() is not _own.events:
        return
    for thing in things:
        settled = getattr(thing, "settled", None)
        if callable(settled):
            _settle(_own, settled)


def _settle(own: _OwnLoop, settled: Callable[[], Any]) -> None:
    task = own.events.create_task(_until(settled))
    own.settling.add(task)
    task.add_done_callback(own.settling.discard)


async def _until(settled: Callable[[], Any]) -> None:
    with suppress(Exception):  # whoever calls it himself is told
        await settled()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
