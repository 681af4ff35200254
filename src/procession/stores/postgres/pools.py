"""Connections to a PostgreSQL server: a pool for each event loop, because it belongs to one."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from ...errors import StoreError
from ..sql.schema import MIGRATIONS, migrate
from .driver import AsyncConnectionPool, psycopg
from .driving import drive
from .wording import DIALECT, plainly

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from .failures import Failures
    from .wording import Wording

__all__ = ["Connection", "Pools"]

Connection: TypeAlias = "psycopg.AsyncConnection[tuple[Any, ...]]"
_Pool: TypeAlias = "AsyncConnectionPool[Connection]"

_LOCK = 0x70726F63657373  # any number does, as long as all versions of this library take the same
_SCHEMA_THERE = "SELECT 1 FROM pg_namespace WHERE nspname = %s"


class Pools:
    """The pools of one store. Tables are brought up to date before the first one is made."""

    def __init__(
        self, url: str, wording: Wording, failures: Failures, sizes: tuple[int, int, float]
    ) -> None:
        self._url = url
        self._wording = wording
        self._failures = failures
        self._sizes = sizes
        self._opening: dict[asyncio.AbstractEventLoop, asyncio.Task[_Pool]] = {}

    async def start(self) -> None:
        """Open the pool of this event loop, unless it is open."""
        await self._pool()

    @asynccontextmanager
    async def borrowed(self) -> AsyncGenerator[Connection]:
        """A connection without a transaction, for as long as the block lasts."""
        pool = await self._pool()
        with self._failures.explained():
            connection = await pool.getconn()
        try:
            yield connection
        finally:
            await pool.putconn(connection)

    async def close(self) -> None:
        """Close the pool of this event loop, when what has begun is done."""
        opening = self._opening.pop(asyncio.get_running_loop(), None)
        if opening is not None:
            with suppress(StoreError):  # it could not be opened: there is nothing to close
                await (await opening).close()

    async def _pool(self) -> _Pool:
        loop = asyncio.get_running_loop()
        opening = self._opening.get(loop)
        if opening is None:
            for ended in [each for each in self._opening if each.is_closed()]:
                del self._opening[ended]
            opening = self._opening[loop] = loop.create_task(self._open())
            opening.add_done_callback(_seen)
        try:
            # Others wait for it, too: who is cancelled leaves it to them.
            return await asyncio.shield(opening)
        except BaseException:
            if opening.done() and self._opening.get(loop) is opening:
                del self._opening[loop]  # the next one tries again
            raise

    async def _open(self) -> _Pool:
        least, most, timeout = self._sizes
        with self._failures.explained():
            await self._bring_up_to_date()
            pool: _Pool = AsyncConnectionPool(
                self._url,
                min_size=least,
                max_size=most,
                timeout=timeout,
                # Else it waits ever longer between attempts, also when the server is back.
                reconnect_timeout=timeout,
                kwargs={"autocommit": True},
                check=AsyncConnectionPool.check_connection,
                open=False,
            )
            await pool.open()
        return pool

    async def _bring_up_to_date(self) -> None:
        """On a connection of its own: one that fails says why, a pool would wait and try again."""
        seconds = max(2, int(self._sizes[2]))  # libpq takes no less
        connection: Connection
        async with await psycopg.AsyncConnection.connect(
            self._url, autocommit=True, connect_timeout=seconds
        ) as connection:
            async with connection.transaction():
                await connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
                there = await connection.execute(_SCHEMA_THERE, (self._wording.schema,))
                if await there.fetchone() is None:
                    await connection.execute(self._wording.make_schema)
                await connection.execute(self._wording.search_path)
                await drive(partial(migrate, DIALECT, "store", MIGRATIONS), connection, plainly)


def _seen(opening: asyncio.Task[_Pool]) -> None:
    """Its failure is known, also if all who waited for it have been cancelled."""
    if not opening.cancelled():
        opening.exception()
