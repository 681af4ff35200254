"""Work that goes on when a run has ended: titles, vectors of what was deleted (M-148, M-160)."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Coroutine

__all__ = ["Background"]

PATIENCE = 10.0
"""How long closing waits for what goes on, in seconds."""
_LOOK = 0.02
"""Seconds between looks at what goes on on another event loop."""

_log = logging.getLogger("procession.memory")


class Background:
    """Tasks that nobody waits for but who asks for `settled`; what they raise is logged.

    They belong to the event loop they were begun on, and end with it.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, what: str, work: Coroutine[None, None, object]) -> None:
        """Begin `work`; `what` says in the log what has failed."""
        task = asyncio.get_running_loop().create_task(_logged(what, work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def settled(self) -> None:
        """Until all that was begun has ended; what an event loop took with it has."""
        await self._settled_here()
        while any(task.get_loop().is_running() for task in self._left()):
            await asyncio.sleep(_LOOK)
            await self._settled_here()

    async def aclose(self) -> None:
        """Wait until it has ended, for so many seconds; what goes on here is cancelled then."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await self.settled()
        left = self._left(asyncio.get_running_loop())
        if left:
            _log.warning("memory: %d tasks behind runs were cancelled", len(left))
        for task in left:
            task.cancel()
        await self._settled_here()

    async def _settled_here(self) -> None:
        here = asyncio.get_running_loop()
        while left := self._left(here):
            await asyncio.wait(left)

    def _left(self, loop: asyncio.AbstractEventLoop | None = None) -> list[asyncio.Task[None]]:
        """What goes on, on one event loop or on any."""
        tasks = [task for task in list(self._tasks) if not task.done()]
        return tasks if loop is None else [task for task in tasks if task.get_loop() is loop]


async def _logged(what: str, work: Coroutine[None, None, object]) -> None:
    try:
        await work
    except Exception as error:
        # The kind alone: the words may hold what users have said.
        _log.warning("memory: %s failed: %s", what, type(error).__name__)
