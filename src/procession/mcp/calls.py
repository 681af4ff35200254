"""What goes on beside a call of a server's tool: progress for the client, a stop for the server."""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import anyio

from ..errors import TripWire
from ..records import clean_json

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from ..abort_signal import AbortSignal
    from ..tools import ToolContext

__all__ = ["Progress", "stopped_by"]

_log = logging.getLogger("procession.mcp")


class Progress:
    """Writes a server's notes on its progress to the stream, in order, as `tool-output` chunks.

    A verdict on one of them ends the call: `on_verdict` stops it, and `verdict` is to be raised.
    """

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._turn = asyncio.Lock()
        self._over = False
        self.verdict: TripWire | None = None
        self.on_verdict: Callable[[], object] = lambda: None

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        """One note; called by the client, whose connection nothing that is raised here may end."""
        note: dict[str, Any] = {"progress": progress, "total": total, "message": message}
        try:
            async with self._turn:
                if not self._over:
                    known = {key: value for key, value in note.items() if value is not None}
                    await self._context.writer.write(clean_json(known))
        except TripWire as wire:
            self.verdict, self._over = wire, True
            self.on_verdict()
        except Exception as error:
            if not self._over:
                _log.warning("a note on a tool's progress was lost: %s", type(error).__name__)

    async def settle(self) -> None:
        """Wait until the notes that have come are written."""
        async with self._turn:
            self._over = True

    def end(self) -> None:
        """The call is over: late notes are dropped."""
        self._over = True


@contextmanager
def stopped_by(signal: AbortSignal | None) -> Generator[anyio.CancelScope, None, None]:
    """A scope that is cancelled when the signal fires, from whatever thread it is fired."""
    events = asyncio.get_running_loop()
    with anyio.CancelScope() as scope:
        if signal is None:
            yield scope
            return
        if signal.aborted:
            scope.cancel()
        undo = signal.add_callback(lambda: events.call_soon_threadsafe(scope.cancel))
        try:
            yield scope
        finally:
            undo()
