"""The store in a PostgreSQL database."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from ...errors import OptionError
from ...keywords import TakesOptions
from ..domains import ByDomain
from ..option_checks import count, seconds
from ..sql.conversations import SqlConversations
from ..sql.snapshots import SqlSnapshots
from ..sql.traces import SqlTraces
from .driver import conninfo_to_dict, psycopg
from .failures import Failures
from .pool import Sizes
from .pools import Pools
from .scripts import Scripts
from .wording import Wording

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

__all__ = ["PostgresStore"]

_LONGEST_NAME = 63


class PostgresStore(ByDomain, TakesOptions):
    """Keeps everything in a schema of a PostgreSQL database, which many processes may use.

    `url` is `postgresql://user:password@host/database`, or `key=value` pairs as libpq takes them.
    The `schema` and its tables are made if they are missing. Between `min_size` and `max_size`
    connections are held, for each event loop, and given up when it ends; a call waits up to
    `timeout` seconds for one.

    Raises `OptionError` for options that cannot be used, and at the first use `StoreError` if the
    server cannot be used. No error and no `repr` holds the password.
    """

    is_per_loop = True
    """Whether each event loop has connections of its own."""

    def __init__(
        self,
        url: str,
        *,
        schema: str = "procession",
        min_size: int = 1,
        max_size: int = 10,
        timeout: float = 30.0,
    ) -> None:
        self._place = _checked_url(url)
        self.schema = _checked_schema(schema)
        least = count("PostgresStore", "min_size", min_size, least=0)
        most = count("PostgresStore", "max_size", max_size, least=max(1, least))
        waiting = seconds("PostgresStore", "timeout", timeout)
        if not waiting:
            raise OptionError("PostgresStore: timeout must be more than 0 seconds")
        failures = Failures(str(self._place.get("password") or ""), waiting)
        wording = Wording(schema)
        self._search_path = wording.search_path
        self._pools = Pools(url, wording, failures, Sizes(least, most, waiting))
        scripts = Scripts(self._pools, wording, failures)
        self._domains = {
            "memory": SqlConversations(scripts),
            "workflows": SqlSnapshots(scripts),
            "observability": SqlTraces(scripts),
        }

    def __repr__(self) -> str:
        named = [f"{key}={self._place[key]!r}" for key in ("host", "dbname") if key in self._place]
        return f"PostgresStore({', '.join([*named, f'schema={self.schema!r}'])})"

    async def start(self) -> None:
        """Connect, and bring the tables up to date. Twice is once."""
        await self._pools.start()

    async def close(self) -> None:
        """Close the connections of this event loop. The next use connects again."""
        await self._pools.close()

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[psycopg.AsyncConnection[tuple[Any, ...]]]:
        """A connection of psycopg in a transaction, which is committed when the block is left.

        If the block raises, or is cancelled, everything is as before. For tables of your own: those
        made here stand in the store's schema, beside its own, whose names begin with `procession_`.
        What is in the schema `public`, such as types of extensions, is found as well. psycopg's
        errors within the block are raised as they are.
        """
        async with self._pools.borrowed() as connection, connection.transaction():
            await connection.execute(self._search_path)
            yield connection


def _checked_url(url: Any) -> dict[str, Any]:
    """What the URL says. What is wrong with one is not repeated: it may be the password."""
    if not isinstance(url, str) or not url.strip():
        raise OptionError("PostgresStore: url must be postgresql://user:password@host/database")
    try:
        return dict(conninfo_to_dict(url))
    except psycopg.Error:
        raise OptionError(
            "PostgresStore: url is not postgresql://user:password@host/database; characters such "
            "as @ : / % in the password have to be percent-encoded"
        ) from None


def _checked_schema(schema: Any) -> str:
    fits = isinstance(schema, str) and 0 < len(schema.encode()) <= _LONGEST_NAME
    if not fits or "\0" in schema or '"' in schema:
        raise OptionError(
            f"PostgresStore: schema must be a name of at most {_LONGEST_NAME} bytes, without quotes"
        )
    return schema
