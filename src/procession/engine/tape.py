"""What a run has delivered, and the one pull that makes it deliver more.

The engine is pulled by whoever reads. One reader drives it, others wait until it has delivered
something or has ended; what was delivered is kept, so that a stream can be read more than once.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import TYPE_CHECKING, Any

from ..aio import current_task
from ..errors import ProcessionError, TripWire
from .closing import cut_off, parting, settle
from .frames import start_chunk
from .workers import awaits

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from ..chunks import Chunk
    from .loop import Loop
    from .run_state import RunState

__all__ = ["Tape"]

_log = logging.getLogger("procession.engine")

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
WAITS_FOR_ITSELF = (
    "a hook, tool, callback or extension of a run cannot wait for that run to go on, for the run "
    "waits for it: use what it is handed, or read the run elsewhere, in a task that nothing of the "
    "run waits for"
)


class Tape:
    """Delivered chunks, and the engine behind them."""

    __slots__ = (
        "_busy",
        "_closer",
        "_engine",
        "_events",
        "_others",
        "_state",
        "_watched",
        "chunks",
        "ended",
    )

    def __init__(self, loop: Loop) -> None:
        self._state = loop.run
        self._engine: AsyncGenerator[list[Chunk], None] = loop.chunks()
        self.chunks: list[Chunk] = []
        """What has been delivered; grows only."""
        self.ended = False
        """Whether nothing will follow."""
        self._busy = False
        self._closer: asyncio.Task[Any] | None = None
        self._others: list[asyncio.Future[None]] = []
        self._watched = "on_chunk" in self._state.callbacks
        told = self._state.extensions or self._state.pipeline.closers
        self._events = asyncio.get_running_loop() if told else None

    async def read(self, *, silently: bool = False) -> AsyncGenerator[Chunk, None]:
        """All chunks, from the first one on. `silently`: none, the run only goes on to its end.

        This is the only place that pulls. Raises `ProcessionError` where the run waits for who
        reads.
        """
        chunks = self.chunks
        stop, advance = self._state.interruption, self._engine.__anext__
        loop = asyncio.get_running_loop()
        position = sys.maxsize if silently else 0
        task = current_task(loop)
        is_awaited = task is self._closer or awaits(stop, task)
        while True:
            while position < len(chunks):
                chunk = chunks[position]
                position += 1
                yield chunk
            if self.ended:
                return
            if is_awaited:
                raise ProcessionError(WAITS_FOR_ITSELF)
            if self._busy:
                await self._turn()
                continue
            self._busy = True
            stop.puller = stop.reader = current_task(loop)
            try:
                batch = await advance()
                if self._watched:
                    await self._show(batch)
                else:
                    chunks += batch
            except StopAsyncIteration:
                self.ended = True
            except BaseException:
                self.ended = True
                chunks += parting(self._state)  # for other readers, and who reads it again
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
        self._busy, self._closer = True, asyncio.current_task()
        try:
            await self._engine.aclose()
            if not self._state.settled:  # it was never read: nothing of it has begun
                await self._end_unread()
        finally:
            self.chunks += parting(self._state)
            self.ended = True
            self._busy, self._closer = False, None
            self._wake_others()

    async def _end_unread(self) -> None:
        if self._state.blocked is None and self._state.step is None:
            self.chunks.append(start_chunk(self._state))
        cut_off(self._state)
        await settle(self._state)

    async def _show(self, batch: list[Chunk]) -> None:
        """Deliver chunk by chunk, and call `on_chunk`; what it raises is raised in the engine,
        which ends the run with it.
        """
        chunks, following = self.chunks, iter(batch)
        for chunk in following:
            chunks.append(chunk)
            if chunk.type not in CONTENT:
                continue
            try:
                await self._state.call_back("on_chunk", chunk)
            except (TripWire, Exception) as error:
                if not self._state.settled:
                    chunks += await self._engine.athrow(error)
                    return
                # There is nothing left that it could stop, or fail.
                _log.error("on_chunk raised %s, when the run had ended", type(error).__name__)
            except BaseException as error:
                chunks += following  # that the reader leaves is no verdict on them
                chunks += await self._engine.athrow(error)
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
        if state.observer is not None and not (state.in_loop or state.settled):
            state.observer.run_ended(state)
        if state.in_loop or state.settled or self._events is None or self._events.is_closed():
            return
        self._events.call_soon_threadsafe(_end_unread, state)


_ending: set[asyncio.Task[None]] = set()


def _end_unread(state: RunState) -> None:
    cut_off(state)
    task = asyncio.create_task(settle(state))
    _ending.add(task)
    task.add_done_callback(_ending.discard)
