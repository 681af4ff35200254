"""The scripts of the domains, on connections of a pool."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from ...aio import Within
from .driver import errors, psycopg
from .driving import drive
from .wording import DIALECT

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..sql.script import Script
    from .failures import Failures
    from .pools import Pools
    from .wording import Wording

__all__ = ["Scripts"]

T = TypeVar("T")

_ATTEMPTS = 6
_BEGIN_READING = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class Scripts:
    """Runs scripts."""

    dialect = DIALECT

    def __init__(self, pools: Pools, wording: Wording, failures: Failures) -> None:
        self._pools = pools
        self._worded = wording.query
        self._failures = failures

    async def write(self, script: Callable[[], Script[T]]) -> T:
        """Run it in a transaction; again, if the server asks for that."""
        attempt = 0
        with self._failures.explained():
            while True:
                try:
                    # Also where the end of an event loop sets it off, which is late for generators.
                    return await Within(self._attempt(script))
                except (errors.SerializationFailure, errors.DeadlockDetected):
                    attempt += 1
                    if attempt == _ATTEMPTS:
                        raise
                await asyncio.sleep(0.01 * 2**attempt)

    async def _attempt(self, script: Callable[[], Script[T]]) -> T:
        async with self._pools.borrowed() as connection:
            done = False
            try:
                async with connection.transaction():
                    made = await drive(script, connection, self._worded)
                    done = True
            except psycopg.Error as error:
                if done and connection.broken:  # nobody has heard what became of it
                    raise self._failures.unsure(error) from None
                raise
            return made

    async def read(self, script: Callable[[], Script[T]], *, single: bool = False) -> T:
        """Run it on one state of the database; that takes more for several statements."""
        with self._failures.explained():
            return await Within(self._read(script, single=single))

    async def _read(self, script: Callable[[], Script[T]], *, single: bool) -> T:
        async with self._pools.borrowed() as connection:
            if single:
                return await drive(script, connection, self._worded)
            await connection.execute(_BEGIN_READING)
            try:
                return await drive(script, connection, self._worded)
            finally:
                await connection.rollback()
