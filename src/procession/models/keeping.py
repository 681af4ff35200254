"""What a model opens in an event loop, and when that is closed: with the loop at the latest."""

from __future__ import annotations

import asyncio
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

__all__ = ["Kept", "keep"]

_kept: set[Kept] = set()
"""All that is open, so that it lives until its loop ends, or until somebody closes it."""


class Kept:
    """Something open in the running event loop, which `aclose` closes once."""

    def __init__(self, close: Callable[[], Awaitable[Any]]) -> None:
        self.loop = asyncio.get_running_loop()
        self._close = close
        self._closing: asyncio.Future[None] | None = None
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
            _kept.discard(self)

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
    for other in [kept for kept in _kept if kept.loop.is_closed()]:
        _kept.discard(other)  # nobody will close it any more
    kept = Kept(close)
    _kept.add(kept)
    weakref.finalize(owner, kept.forget).atexit = False
    return kept
