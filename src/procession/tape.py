"""What a run has delivered, and the one pull that makes it deliver more.

The engine is pulled by whoever reads. One reader drives it, others wait until it has delivered
something or has ended; what was delivered is kept, so that a stream can be read more than once.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import TYPE_CHECKING, Any

from .aio import current_task
from .closing import cut_off, settle
from .errors import TripWire

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from .chunks import Chunk
    from .loop import Loop
    from .run_state import RunState

__all__ = ["Tape"]

_log = logging.getLogger("procession")

CONTENT = frozenset(
    {
        "text-delta",
        "reasoning-delta",
        "source",
        "file",
        "tool-call-input-streaming-start",
        "tool-call-delta",
        "tool-call",
        "tool-result",
        "tool-error",
        "object",
        "raw",
    }
)
"""What `on_chunk` is called for (R-554)."""


class Tape:
    """Delivered chunks, and the engine behind them."""

    __slots__ = ("_busy", "_engine", "_events", "_others", "_state", "_watched", "chunks", "ended")

    def __init__(self, loop: Loop) -> None:
        self._state = loop.run
        self._engine: AsyncGenerator[list[Chunk], None] = loop.chunks()
        self.chunks: list[Chunk] = []
        """What has been delivered; grows only."""
        self.ended = False
        """Whether nothing will follow."""
        self._busy = False
        self._others: list[asyncio.Future[None]] = []
        self._watched = "on_chunk" in self._state.callbacks
        self._events = asyncio.get_running_loop() if self._state.extensions else None

    async def read(self, *, silently: bool = False) -> AsyncGenerator[Chunk, None]:
        """All chunks, from the first one on. `silently`: none, the run only goes on to its end.

        This is the only place that pulls.
        """
        chunks = self.chunks
        stop, advance = self._state.interruption, self._engine.__anext__
        loop = asyncio.get_running_loop()
        position = sys.maxsize if silently else 0
        while True:
            while position < len(chunks):
                chunk = chunks[position]
                position += 1
                yield chunk
            if self.ended:
                return
            if self._busy:
                await self._turn()
                continue
            self._busy = True
            stop.puller = stop.reader = current_task(loop)
            try:
                batch = await advance()
                chunks += batch
                if self._watched:
                    await self._show(batch)
            except StopAsyncIteration:
                self.ended = True
            except BaseException:
                self.ended = True
                raise
            finally:
                stop.puller = None
                self._busy = False
                if self._others:
                    self._wake_others()

    async def drain(self) -> None:
        """Let the run go on to its end."""
        if self.ended:
            return
        async for _ in self.read(silently=True):
            pass

    async def close(self) -> None:
        """Stop the run, if it has not ended: the connection is closed, tools are stopped."""
        if self._busy:
            self._state.interruption.interrupt(anywhere=True)
            while self._busy:
                await self._turn()
            await self.drain()
            return
        self.ended = self._busy = True
        try:
            await self._engine.aclose()
            if not self._state.settled:  # it was never read: nothing of it has begun
                cut_off(self._state)
                await settle(self._state)
        finally:
            self._busy = False
            self._wake_others()

    async def _show(self, batch: list[Chunk]) -> None:
        """Call `on_chunk`; what it raises is raised in the engine, which ends the run with it."""
        for chunk in batch:
            if chunk.type not in CONTENT:
                continue
            try:
                await self._state.call_back("on_chunk", chunk)
            except BaseException as error:
                if self._state.settled and isinstance(error, TripWire):
                    return  # too late: there is nothing left that it could stop
                self.chunks += await self._engine.athrow(error)
                return

    async def _turn(self) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._others.append(turn)
        await turn

    def _wake_others(self) -> None:
        others, self._others = self._others, []
        for turn in others:
            if not turn.done():
                turn.set_result(None)

    def __del__(self) -> None:
        """A run that is dropped before anybody has read it has no end of its own.

        (Once the engine has begun, its event loop closes it.)
        """
        state = self._state
        if state.on_release is not None:
            state.on_release()
        if state.in_loop or state.settled or self._events is None or self._events.is_closed():
            return
        self._events.call_soon_threadsafe(_end_unread, state)


_ending: set[asyncio.Task[None]] = set()


def _end_unread(state: RunState) -> None:
    cut_off(state)
    task = asyncio.create_task(settle(state))
    _ending.add(task)
    task.add_done_callback(_ended)


def _ended(task: asyncio.Task[Any]) -> None:
    _ending.discard(task)
    if not task.cancelled() and (problem := task.exception()) is not None:
        _log.error("an extension failed at the end of a run that nobody read", exc_info=problem)
