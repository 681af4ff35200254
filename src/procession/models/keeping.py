"""What a model opens in an event loop, and when that is closed: with the loop at the latest."""

from __future__ import annotations

import asyncio
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

__all__ = ["Kept", "PerLoop", "keep"]

T = TypeVar("T")

_kept: set[Kept] = set()
"""All that is open, so that it lives until its loop ends, or until somebody closes it."""


class Kept:
    """Something open in the running event loop, which `aclose` closes once."""

    def __init__(self, close: Callable[[], Awaitable[Any]]) -> None:
        self.loop = asyncio.get_running_loop()
        self._close = close
        self._closing: asyncio.Future[None] | None = None
        self._finalizer: weakref.finalize[Any, Any] | None = None
        self._generator = self._until_the_end()
        # One step, to its `yield`: a loop closes the generators that have begun in it when it ends.
        with suppress(StopIteration):
            self._generator.__anext__().send(None)

    async def _until_the_end(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """Close it; whoever comes second waits until that is done."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._closed())
        await asyncio.shield(self._closing)

    async def _closed(self) -> None:
        try:
            await self._close()
        finally:
            self.let_go()

    def belongs_to(self, owner: object) -> None:
        """Have it closed when its owner is gone."""
        self._finalizer = weakref.finalize(owner, self.forget)
        self._finalizer.atexit = False

    def let_go(self) -> None:
        """Nothing refers to it any more: it is closed, or its loop is."""
        _kept.discard(self)
        if self._finalizer is not None:
            self._finalizer.detach()

    def forget(self) -> None:
        """Close it soon: its owner is gone. Called from whatever thread."""
        with suppress(RuntimeError):  # the loop is closed, and the connections with it
            self.loop.call_soon_threadsafe(self._begin_to_close)

    def _begin_to_close(self) -> None:
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._closed())


def keep(owner: object, close: Callable[[], Awaitable[Any]]) -> Kept:
    """Have `close` called when the running event loop ends, or when `owner` is gone.

    Loops end well under `asyncio.run` and all that does like it: `loop.shutdown_asyncgens()` is
    what it takes. `close` must not hold on to `owner`.
    """
    for other in _kept.copy():  # at once: other threads have models, too
        if other.loop.is_closed():
            other.let_go()  # nobody will close it any more
    kept = Kept(close)
    _kept.add(kept)
    kept.belongs_to(owner)
    return kept


class PerLoop(Generic[T]):
    """What a model has open, one value for each event loop it is used in."""

    def __init__(self) -> None:
        self._values: dict[asyncio.AbstractEventLoop, tuple[T, Kept]] = {}

    def get(self) -> T | None:
        """The running loop's value."""
        found = self._values.get(asyncio.get_running_loop())
        return None if found is None else found[0]

    def put(self, owner: object, value: T, close: Callable[[], Awaitable[Any]]) -> None:
        """Have a value for the running loop, which `close` closes (see `keep`)."""
        for loop in list(self._values):
            if loop.is_closed():
                self._values.pop(loop, None)
        self._values[asyncio.get_running_loop()] = value, keep(owner, close)

    async def aclose(self) -> None:
        """Close the running loop's value."""
        found = self._values.pop(asyncio.get_running_loop(), None)
        if found is not None:
            await found[1].aclose()
