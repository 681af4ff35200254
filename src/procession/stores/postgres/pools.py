"""Connections to a PostgreSQL server: a pool for each event loop, because it belongs to one."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from ...errors import StoreError
from ..sql.schema import MIGRATIONS, migrate
from .driving import drive
from .pool import Pool
from .wording import DIALECT, plainly

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from .failures import Failures
    from .pool import Connection, Sizes
    from .wording import Wording

__all__ = ["Pools"]

_LOCK = 0x70726F63657373  # any number does, as long as all versions of this library take the same
_SCHEMA_THERE = "SELECT 1 FROM pg_namespace WHERE nspname = %s"


class Pools:
    """The pools of one store. Tables are brought up to date before the first one is made."""

    def __init__(self, url: str, wording: Wording, failures: Failures, sizes: Sizes) -> None:
        self._url = url
        self._wording = wording
        self._failures = failures
        self._sizes = sizes
        self._opening: dict[asyncio.AbstractEventLoop, asyncio.Task[Pool]] = {}

    async def start(self) -> None:
        """Open the pool of this event loop, unless it is open."""
        await self._pool()

    @asynccontextmanager
    async def borrowed(self) -> AsyncGenerator[Connection]:
        """A connection without a transaction, for as long as the block lasts."""
        pool = await self._pool()
        with self._failures.explained():
            connection = await pool.take()
        try:
            yield connection
        finally:
            pool.give_back(connection)

    async def close(self) -> None:
        """Close the pool of this event loop; what has begun is done to its end."""
        opening = self._opening.pop(asyncio.get_running_loop(), None)
        if opening is not None:
            with suppress(StoreError):  # it could not be opened: there is nothing to close
                await (await opening).close()

    async def _pool(self) -> Pool:
        loop = asyncio.get_running_loop()
        opening = self._opening.get(loop)
        if opening is None:
            self._forget_ended()
            opening = self._opening[loop] = loop.create_task(self._open())
            opening.add_done_callback(self._forget_failed)
        # Others wait for it, too: who is cancelled leaves it to them.
        return await asyncio.shield(opening)

    def _forget_failed(self, opening: asyncio.Task[Pool]) -> None:
        """The next call tries again; this one's failure is known, also if nobody waits any more."""
        if opening.cancelled() or opening.exception() is not None:
            loop = opening.get_loop()
            if self._opening.get(loop) is opening:
                del self._opening[loop]

    def _forget_ended(self) -> None:
        """Pools of event loops that have ended, also of those that were not shut down in order."""
        for loop in [each for each in list(self._opening) if each.is_closed()]:
            opening = self._opening.pop(loop, None)
            if opening and opening.done() and not opening.cancelled() and not opening.exception():
                opening.result().give_up()

    async def _open(self) -> Pool:
        pool = Pool(self._url, self._sizes, self._failures)
        try:
            with self._failures.explained():
                first = await pool.open()
                try:
                    await self._bring_up_to_date(first)
                finally:
                    pool.give_back(first)
                await pool.fill()
        except BaseException:
            await pool.close()
            raise
        return pool

    async def _bring_up_to_date(self, connection: Connection) -> None:
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            there = await connection.execute(_SCHEMA_THERE, (self._wording.schema,))
            if await there.fetchone() is None:
                await connection.execute(self._wording.make_schema)
            await connection.execute(self._wording.search_path)
            await drive(partial(migrate, DIALECT, "store", MIGRATIONS), connection, plainly)
