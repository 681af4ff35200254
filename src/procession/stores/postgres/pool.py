"""Connections to a PostgreSQL server that the calls of one event loop share.

They are made when they are needed, by who needs them. Nothing works behind the pool, so that an
event loop may end at any moment, also while one is being made.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from .driver import psycopg

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from .failures import Failures

__all__ = ["Connection", "Pool", "Sizes"]

Connection: TypeAlias = "psycopg.AsyncConnection[tuple[Any, ...]]"

_UNUSED = 600.0
"""Seconds after which those that are not needed any more are given up."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
_IDLE = psycopg.pq.TransactionStatus.IDLE


class _Dropped(psycopg.AsyncConnection[Any]):
    """Ends when nobody holds it any more: whoever did has gone with an event loop."""

    def __del__(self, *_: Any) -> None:
        if hasattr(self, "pgconn"):  # it has come so far
            _give_up(self)


class Sizes(NamedTuple):
    """How many connections there are at least and at most, and how many seconds a call waits."""

    least: int
    most: int
    timeout: float


class Pool:
    """The connections. Those that are held go with the event loop, if nobody closes them before."""

    def __init__(self, url: str, sizes: Sizes, failures: Failures) -> None:
        self._url = url
        self._sizes = sizes
        self._failures = failures
        self._room = asyncio.Semaphore(sizes.most)
        self._idle: deque[tuple[float, Connection]] = deque()
        self._is_open = False
        self._lasting = self._as_long_as_the_loop()
        self._shrinking: asyncio.TimerHandle | None = None

    async def open(self) -> Connection:
        """Make the first connection, which is borrowed then; what it raises says why it failed."""
        await anext(self._lasting)
        return await self._take_new()

    async def fill(self) -> None:
        """Make as many as there shall be at least."""
        taken: list[Connection] = []
        try:
            while len(self._idle) + len(taken) < self._sizes.least:
                taken.append(await self._take_new())
        finally:
            for connection in taken:
                self.give_back(connection)

    async def _take_new(self) -> Connection:
        await self._room.acquire()
        try:
            return await self._connect(self._sizes.timeout)
        except BaseException:
            self._room.release()
            raise

    async def take(self) -> Connection:
        """A connection that works, without a transaction. Raises what psycopg does, and
        `StoreError` when none gets free in time.
        """
        clock = asyncio.get_running_loop().time
        until = clock() + self._sizes.timeout
        try:
            async with asyncio.timeout_at(until):
                await self._room.acquire()
        except TimeoutError:
            raise self._failures.none_free() from None
        try:
            while self._idle:
                connection = self._idle.pop()[1]
                if await _works(connection):
                    return connection
            return await self._connect_again(until)
        except BaseException:
            self._room.release()
            raise

    def give_back(self, connection: Connection) -> None:
        """Let others have it; a broken one, or one within a transaction, is given up."""
        self._room.release()
        if not self._is_open or connection.info.transaction_status != _IDLE:
            _give_up(connection)
            return
        loop = asyncio.get_running_loop()
        self._idle.append((loop.time(), connection))
        if self._shrinking is None and len(self._idle) > self._sizes.least:
            self._shrinking = loop.call_later(_UNUSED, self._shrink)

    async def close(self) -> None:
        """Give up all connections; one that is borrowed when it comes back."""
        await self._lasting.aclose()

    def give_up(self) -> None:
        """The same, for an event loop that has ended."""
        self._is_open = False
        if self._shrinking is not None:
            self._shrinking.cancel()
        while self._idle:
            _give_up(self._idle.pop()[1])

    async def _as_long_as_the_loop(self) -> AsyncGenerator[None]:
        """Event loops close the generators that have begun on them before they end."""
        self._is_open = True
        try:
            yield
        finally:
            self.give_up()

    def _shrink(self) -> None:
        """Give up those that nobody has used for long."""
        loop = asyncio.get_running_loop()
        self._shrinking = None
        while len(self._idle) > self._sizes.least:
            since = self._idle[0][0]
            if loop.time() - since < _UNUSED:
                self._shrinking = loop.call_at(since + _UNUSED, self._shrink)
                return
            _give_up(self._idle.popleft()[1])

    async def _connect_again(self, until: float) -> Connection:
        """A server that is started again, or changed for another, is waited for."""
        loop = asyncio.get_running_loop()
        pause = _FIRST_PAUSE
        while True:
            try:
                return await self._connect(until - loop.time())
            except psycopg.OperationalError as error:
                if self._failures.is_lasting(error) or loop.time() + pause > until:
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _connect(self, seconds: float) -> Connection:
        try:
            return await _Dropped.connect(
                self._url,
                autocommit=True,
                connect_timeout=max(2, int(seconds)),  # libpq takes no less
            )
        except BaseException as error:
            # The frames it has come through hold a connection that is half made.
            raise error.with_traceback(None)  # noqa: B904


async def _works(connection: Connection) -> bool:
    """Ask the server; a connection that does not answer is given up."""
    try:
        await connection.execute("")
    except psycopg.Error:
        _give_up(connection)
        return False
    except BaseException:
        _give_up(connection)
        raise
    return True


def _give_up(connection: Connection) -> None:
    with suppress(psycopg.Error):
        connection.pgconn.finish()
